//! `jobgate simulate`: what becomes of the Jobs of manifests when something happens, and what a Job that runs waits for.
//!
//! The answers are those of the controllers as values (`controllers`); what a manifest does not say is assumed, and
//! printed.

mod assumptions;
mod changes;
mod decisive_field;
mod endings;
mod human;
mod json;
mod live;
mod markdown;
mod runs;
mod runtimes;
mod simulable;
mod stories;
mod timeline;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;

use super::Exit;
use super::settings::policy_of;
use super::stderr::say;
use crate::cli::args::{Simulate, SimulationFormat};
use crate::controllers::live::LiveSnapshot;
use crate::controllers::script::Script;
use crate::judge::policy::Policy;
use crate::judge::simulation::ProgramDefaults;
use crate::local::files::{self, MAX_SETTINGS_BYTES};
use crate::local::lint::{self, FileBytes, Input, MAX_FILE_SIZE, Options, STDIN, load, path_text};
use crate::report::clean;
use crate::text::value::Value;
use crate::text::yaml::{self, Limits};
use live::Standing;
use stories::{Found, Simulated};

/// Runs the command.
///
/// # Errors
/// An argument cannot be read, there is nothing to simulate, or `out` cannot be written.
pub fn command(args: &Simulate, out: &mut dyn Write) -> anyhow::Result<Exit> {
    #[cfg(feature = "serve")]
    let files = if args.cluster { &[][..] } else { &args.paths };
    #[cfg(not(feature = "serve"))]
    let files = &args.paths;
    let policy = policy_of(args.policy.as_deref(), files)?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let now = args.now.unwrap_or_else(|| Timestamp::now().as_millisecond());
    let mut snapshot = LiveSnapshot::new(now);
    #[cfg(feature = "serve")]
    if args.cluster {
        let problems = live::cluster::read(args, &mut snapshot)?;
        for problem in &problems {
            say(problem)?;
        }
        let asked = (args, script.as_ref());
        return finish(&[], (snapshot, now, &policy.assumptions), problems.is_empty(), asked, out);
    }
    let mut left_out: Vec<String> = Vec::new();
    let inputs = lint::collect(&args.paths, |path| {
        let text = lint::drained(path, MAX_FILE_SIZE)?;
        if path.as_os_str() != STDIN || text.len() as u64 <= MAX_FILE_SIZE {
            return Ok(text);
        }
        let others = live::list::take_stdin(STDIN, &text, &mut snapshot).map_err(io::Error::other)?;
        left_out.extend(others);
        Ok(Vec::new())
    });
    for notice in &left_out {
        say(notice)?;
    }
    let mut is_whole = true;
    for error in &inputs.unreadable {
        is_whole = false;
        say(&error.to_string())?;
    }
    let mut simulated: Vec<Simulated> = Vec::new();
    for found in of_files(&inputs.files, &policy, args, script.as_ref(), &mut snapshot) {
        match found {
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
    if simulated.is_empty() && snapshot.is_empty() && is_whole {
        bail!("no object to simulate: Jobs, CronJobs, and objects whose operators are modelled");
    }
    finish(&simulated, (snapshot, now, &policy.assumptions), is_whole, (args, script.as_ref()), out)
}

/// Simulates what is in files, in their order. Those with TrainJobs wait for the runtimes of all the others, and are read
/// again: not all files of a directory are in memory at once.
fn of_files(
    inputs: &[Input],
    policy: &Policy,
    args: &Simulate,
    script: Option<&Script>,
    snapshot: &mut LiveSnapshot,
) -> Vec<Result<Found, String>> {
    let limits = Options::default().limits();
    let read = |input: &Input| match load(input, MAX_FILE_SIZE) {
        Ok(loaded) => Ok(loaded.ok()),
        Err(error) => Err(error.to_string()),
    };
    let simulate =
        |input: &Input, loaded: Option<&FileBytes>, runtimes: &[Value], live: &mut LiveSnapshot| match loaded
        {
            Some(loaded) => Ok(stories::of_file(input, loaded, policy, args, script, runtimes, live)),
            None => stories::of_large_file(input, live),
        };
    let mut runtimes = Vec::new();
    let mut waiting = Vec::new();
    let mut found: Vec<(usize, Result<Found, String>)> = Vec::new();
    for (nth, input) in inputs.iter().enumerate() {
        let of_file = read(input).and_then(|loaded| {
            let bytes = loaded.as_ref().map_or(&[][..], FileBytes::bytes);
            runtimes.extend(runtimes::of_file(bytes, &limits));
            if runtimes::has_train_job(bytes) {
                waiting.push((nth, input));
                return Ok(Found::default());
            }
            simulate(input, loaded.as_ref(), &[], snapshot)
        });
        found.push((nth, of_file));
    }
    for (nth, input) in waiting {
        let of_file = read(input).and_then(|loaded| simulate(input, loaded.as_ref(), &runtimes, snapshot));
        found.push((nth, of_file));
    }
    found.sort_by_key(|(nth, _)| *nth);
    found.into_iter().map(|(_, found)| found).collect()
}

/// Writes what comes of Jobs of manifests and of a cluster, and returns whether it is as expected.
fn finish(
    simulated: &[Simulated],
    (snapshot, now, defaults): (LiveSnapshot, i64, &ProgramDefaults),
    mut is_whole: bool,
    (args, script): (&Simulate, Option<&Script>),
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    for notice in snapshot.left_out() {
        say(&notice)?;
    }
    let mut live: Vec<Standing> = Vec::new();
    for standing in live::standings(snapshot, (now, defaults), args, script) {
        match standing {
            Ok(standing) => live.push(standing),
            Err(problem) => {
                is_whole = false;
                say(&problem)?;
            }
        }
    }
    match args.format {
        SimulationFormat::Human => {
            human::write(simulated, out)?;
            if !simulated.is_empty() && !live.is_empty() {
                writeln!(out)?;
            }
            live::write_human(&live, out)?;
        }
        SimulationFormat::Json => json::write(simulated, &live, out)?,
        SimulationFormat::Markdown => {
            markdown::write(simulated, out)?;
            live::write_markdown(&live, out)?;
        }
    }
    for notice in live.iter().flat_map(|job| &job.notices) {
        say(notice)?;
    }
    for problem in live.iter().flat_map(|job| &job.problems) {
        is_whole = false;
        say(problem)?;
    }
    let mut is_expected = true;
    let unexpected = simulated.iter().flat_map(|job| &job.unexpected);
    for failed in unexpected.chain(live.iter().flat_map(|job| &job.unexpected)) {
        is_expected = false;
        say(failed)?;
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
