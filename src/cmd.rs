//! The commands, one file each. They join the pure core to files, streams and exit codes.

pub mod explain;
pub mod generate;
pub mod policy;
pub mod review;

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well: 0.
    Clean,
    /// There are findings at or above the level that was asked for: 1.
    Findings,
    /// It could not run, or not on everything: 2.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Clean => 0,
            Exit::Findings => 1,
            Exit::Failed => 2,
        })
    }
}
