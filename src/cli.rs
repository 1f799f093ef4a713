//! The commands, one file each. They connect the pure core with files, streams and exit codes.

pub mod args;
#[cfg(feature = "serve")]
pub mod audit;
#[cfg(feature = "serve")]
pub mod certs;
pub mod completions;
pub mod configuration;
#[cfg(feature = "serve")]
pub mod doctor;
pub mod dry_run;
pub mod explain;
pub mod generate;
pub mod init;
pub mod install;
pub mod lint;
pub mod lsp;
pub mod man;
pub mod new;
mod output;
pub mod pages;
pub mod policy;
pub mod policy_test;
mod progress;
pub mod review;
#[cfg(feature = "serve")]
pub mod serve;
mod settings;
pub mod topics;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};

use crate::judge::policy::{BUILTINS, Policy};
use crate::local::lint::{Claims, Options, collect, drained, path_text};
use crate::text::suggest::closest;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// No findings: 0.
    Clean,
    /// Findings at or above the level of `--fail-on`: 1.
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

/// Reads a policy: a built-in one by its name, or a file.
fn policy_named(name: &str) -> anyhow::Result<Policy> {
    policy_at(name, |name| PathBuf::from(name))
}

/// Reads a policy: a built-in one by its name, or the file at the place of a path.
fn policy_at(name: &str, place: impl FnOnce(&str) -> PathBuf) -> anyhow::Result<Policy> {
    if let Some(policy) = Policy::builtin(name) {
        return Ok(policy);
    }
    let path = place(name);
    let shown = path_text(&path);
    let source = match std::fs::read_to_string(&path) {
        Ok(source) => source,
        Err(error) => {
            let failed = format!("read the policy {shown}");
            // Without a directory or an ending it is meant as a name.
            let names = BUILTINS.map(|builtin| builtin.name);
            return Err(match closest(name, names).filter(|_| !name.contains(['/', '\\', '.'])) {
                Some(meant) => anyhow!("{failed}: {error}; did you mean `{meant}`?"),
                None => anyhow::Error::new(error).context(failed),
            });
        }
    };
    Policy::parse(&source, &shown).context("the policy is not valid")
}

/// Returns today's date in UTC, so that it is the same on every machine.
#[must_use]
pub fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

/// Reads `--facts` files.
fn facts(paths: &[PathBuf], options: &Options<'_>) -> anyhow::Result<Claims> {
    let files = collect(paths, |path| drained(path, options.max_file_size));
    if let Some(error) = files.unreadable.into_iter().next() {
        return Err(error).context("read the facts");
    }
    Ok(Claims::in_facts(&files.files, options)?)
}
