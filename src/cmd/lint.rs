//! `jobgate lint`: files in, a report on standard output, an exit code.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;

use super::{Exit, facts, policy_named, today};
use crate::cli::{Judging, Lint};
use crate::lint::{self, Inputs, Linted, Options, Progress, Unreadable};
use crate::report;

/// Runs the command. `color` is whether the report may be coloured.
///
/// # Errors
/// The policy or a file of facts is bad, or the report cannot be written. Files that cannot be linted are no error here: the others are, and
/// [`Exit::Failed`] says so.
pub fn run(args: &Lint, color: bool) -> anyhow::Result<Exit> {
    let no_api_checks = args.no_api_checks;
    let args = &args.judging;
    let policy = policy_named(&args.policy)?;
    let limit = args.max_file_size.0;
    let progress = Progress::default();
    let options = Options {
        max_file_size: limit,
        api_checks: !no_api_checks,
        keep_sources: args.format.reads_sources(),
        keep_fixes: false,
        dry_run: None,
        today: Some(today()),
        progress: Some(&progress),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads).build().context("start the threads")?;
    let facts = facts(&args.facts, &options)?;
    let inputs = lint::collect(&args.paths, || lint::stdin(limit));
    let linted = watched(&progress, inputs.files.len(), || pool.install(|| lint::lint(&inputs.files, &policy, &facts, &options)));
    write(args, color, &linted)?;
    let complete = complain(&inputs, &linted.unreadable)?;
    let exit = exit(args, &linted, complete);
    // The process ends next, and the system takes its memory back at once.
    std::mem::forget(linted);
    Ok(exit)
}

/// Returns how a run ends that has found this; `complete` is whether everything could be read.
pub(super) fn exit(args: &Judging, linted: &Linted, complete: bool) -> Exit {
    let fails = linted.report.findings.iter().any(|located| located.finding.level >= args.fail_on.into());
    match (complete, fails) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Findings,
        (true, false) => Exit::Clean,
    }
}

pub(super) fn write(args: &Judging, color: bool, linted: &Linted) -> anyhow::Result<()> {
    let options = report::Options { color, full: args.full, fail_on: args.fail_on.into(), ..report::Options::default() };
    let mut out = BufWriter::new(io::stdout().lock());
    match report::write(&linted.report, args.format, &options, &mut out).and_then(|()| out.flush()) {
        // Whoever read the report has enough of it: `jobgate lint | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write the report"),
    }
}

/// Says what could not be linted. Returns whether everything could.
pub(super) fn complain(inputs: &Inputs, unreadable: &[Unreadable]) -> io::Result<bool> {
    let mut err = io::stderr().lock();
    for directory in &inputs.empty {
        writeln!(err, "jobgate: no .yaml, .yml or .json files in {directory}")?;
    }
    for error in inputs.unreadable.iter().chain(unreadable) {
        writeln!(err, "jobgate: {error}")?;
    }
    Ok(inputs.unreadable.is_empty() && unreadable.is_empty())
}

/// How long a run may take before it says how far it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// Does the work, and shows on a terminal how far it has come if it takes long.
pub(super) fn watched<T>(progress: &Progress, total: usize, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (done, finished) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut shown = false;
            // The other end is dropped when the work is done; until then the channel is silent.
            while finished.recv_timeout(if shown { PATIENCE / 5 } else { PATIENCE }) == Err(mpsc::RecvTimeoutError::Timeout) {
                shown = true;
                let _ = write!(io::stderr(), "\r\u{1b}[Klinting: {} of {total} files", progress.files());
            }
            if shown {
                let _ = write!(io::stderr(), "\r\u{1b}[K");
            }
        });
        let result = work();
        drop(done);
        result
    })
}
