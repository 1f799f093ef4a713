//! `cargo xtask`: what only developers of Jobgate run.

mod deploy;
mod generate;
mod pages;
mod schemas;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use jobgate::cli::say;

use crate::generate::Outcome;

/// What only developers of Jobgate run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the files of this repository that are made from the code
    Generate {
        /// Only list files that are not up to date
        #[arg(long)]
        check: bool,
    },
}

/// Returns the root of the repository.
fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Ends as `jobgate` does: with 1 for what it found, with 2 if it could not run.
fn main() -> ExitCode {
    let Arguments { task: Task::Generate { check } } = Arguments::parse();
    match generate::run(root(), check, &mut io::stdout()) {
        Ok(Outcome::UpToDate) => ExitCode::SUCCESS,
        Ok(Outcome::Stale) => ExitCode::from(1),
        Err(error) => {
            say::fail(&error);
            ExitCode::from(2)
        }
    }
}
