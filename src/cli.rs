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
pub mod init;
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
pub mod simulate;
pub mod stderr;
pub mod topics;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};

use crate::judge::policy::Policy;
use crate::local::files::{self, Barred, MAX_SETTINGS_BYTES, Tree};
use crate::local::lint::{Claims, Input, Options, collect, drained, facts_in, path_text};
use crate::policies::BUILTINS;
use crate::report::clean;
use crate::text::suggest::closest;

/// The outcome of a command.
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

/// A file to read, named by the user, or by a configuration that was found.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its path.
    pub(crate) path: PathBuf,
    /// The tree that it must be in, if the user did not name it.
    pub(crate) within: Option<Tree>,
}

impl Source {
    /// Reads it.
    ///
    /// # Errors
    /// It cannot be read, or is larger than the limit.
    fn read(&self, limit: u64) -> Result<String, Barred> {
        let bytes = match &self.within {
            Some(tree) => tree.read(&self.path, limit),
            None => files::named(&self.path, limit),
        };
        bytes.and_then(files::text)
    }
}

/// Reads a policy that the user names: a built-in one by its name, or a file.
fn policy_named(name: &str) -> anyhow::Result<Policy> {
    policy_at(name, |name| PathBuf::from(name), |path| files::named(path, MAX_SETTINGS_BYTES))
}

/// Reads a policy: a built-in one by its name, or a file by its path.
fn policy_at(
    name: &str,
    place: impl FnOnce(&str) -> PathBuf,
    read: impl FnOnce(&Path) -> Result<Vec<u8>, Barred>,
) -> anyhow::Result<Policy> {
    if let Some(policy) = crate::policies::builtin(name) {
        return Ok(policy);
    }
    let path = place(name);
    let shown = clean(&path_text(&path)).into_owned();
    let source = match read(&path).and_then(files::text) {
        Ok(source) => source,
        Err(error) => {
            let failed = format!("read the policy {shown}");
            // Without a directory or an extension, it was meant as a name.
            let names = BUILTINS.map(|builtin| builtin.name);
            let meant =
                closest(name, names).filter(|_| error.is_missing() && !name.contains(['/', '\\', '.']));
            return Err(match meant {
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

/// Reads files of facts. All of them must be in `within`, if the user did not name them.
fn facts(paths: &[PathBuf], within: Option<&Tree>, options: &Options<'_>) -> anyhow::Result<Claims> {
    let files = collect(paths, |path| drained(path, options.max_file_size));
    if let Some(error) = files.unreadable.into_iter().next() {
        return Err(error).context("read the facts");
    }
    let is_outside = |input: &&Input| {
        let path = input.content.file();
        within.zip(path).is_some_and(|(tree, path)| !tree.has(path))
    };
    if let Some(outside) = files.files.iter().find(is_outside) {
        bail!("read the facts: {} is a link that leads out of the directory", clean(&outside.path));
    }
    Ok(facts_in(&files.files, options)?)
}
