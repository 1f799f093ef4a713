//! `jobgate simulate`: what becomes of the Jobs of manifests when something happens.
//!
//! The answers are those of the controllers as values (`controllers`); what a manifest does not say is assumed, and
//! printed.

mod changes;
mod decides;
mod human;
mod json;
mod markdown;
mod runs;
mod stories;
mod timeline;

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::Exit;
use super::say::say;
use super::settings::policy_of;
use crate::cli::args::{Simulate, SimulationFormat};
use crate::controllers::script::Script;
use crate::local::files::{self, MAX_SETTINGS_BYTES};
use crate::local::lint::{self, MAX_FILE_SIZE, path_text};
use crate::report::clean;
use crate::text::yaml::{self, Limits};
use stories::Simulated;

/// Runs the command.
///
/// # Errors
/// An argument cannot be read, there is nothing to simulate, or `out` cannot be written.
pub fn command(args: &Simulate, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let policy = policy_of(args.policy.as_deref(), &args.paths)?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let inputs = lint::collect(&args.paths, |path| lint::drained(path, MAX_FILE_SIZE));
    let mut is_whole = true;
    for error in &inputs.unreadable {
        is_whole = false;
        say(&error.to_string())?;
    }
    let mut simulated: Vec<Simulated> = Vec::new();
    for input in &inputs.files {
        match stories::of_file(input, &policy, args, script.as_ref()) {
            Ok(found) => {
                for problem in &found.problems {
                    is_whole = false;
                    say(problem)?;
                }
                for notice in &found.notices {
                    say(notice)?;
                }
                simulated.extend(found.jobs);
            }
            Err(error) => {
                is_whole = false;
                say(&error)?;
            }
        }
    }
    if simulated.is_empty() && is_whole {
        bail!("no Job to simulate; Jobs, CronJobs and the Jobs of JobSets are simulated");
    }
    match args.format {
        SimulationFormat::Human => human::write(&simulated, out)?,
        SimulationFormat::Json => json::write(&simulated, out)?,
        SimulationFormat::Markdown => markdown::write(&simulated, out)?,
    }
    let mut is_expected = true;
    for job in &simulated {
        for failed in &job.unexpected {
            is_expected = false;
            say(failed)?;
        }
    }
    Ok(match (is_whole, is_expected) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Findings,
        (true, true) => Exit::Clean,
    })
}

fn read_script(path: &Path) -> anyhow::Result<Script> {
    let shown = clean(&path_text(path)).into_owned();
    let read = || format!("read the script {shown}");
    let bytes = files::named(path, MAX_SETTINGS_BYTES).with_context(read)?;
    let limits = Limits::default();
    let document = yaml::split(&bytes, &limits).next().with_context(read)?;
    let document = document.and_then(|chunk| yaml::parse(&bytes, &chunk, &limits)).with_context(read)?;
    Script::parse(&document.value).with_context(read)
}
