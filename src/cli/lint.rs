//! `jobgate lint`: files in, a report on standard output, an exit code.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;

use super::output::{to, to_file_or};
use super::progress::watched;
use super::settings::RunSettings;
use super::stderr::{self, say, tell};
use super::{Exit, Source, facts, today};
use crate::cli::args::{Lint, Reporting};
use crate::judge::finding::Safety;
use crate::local::baseline::{Baseline, Root};
use crate::local::files::{MAX_BASELINE_BYTES, Tree};
use crate::local::fix;
use crate::local::lint::{
    self, Change, Content, Fixing, Inputs, Linted, Options, Progress, Reached, STDIN, Sink, Unreadable,
    Unwritten, path_text,
};
use crate::local::replace::{NotReplaced, can_put, put, replace, replace_in};
use crate::report::{self, Report, clean_lines, plural};

/// Runs the command. `color` is whether standard output may be coloured.
///
/// # Errors
/// The policy or a file of facts is not valid, or the report cannot be written. Files that cannot be linted or written
/// are not an error: the others are processed, and [`Exit::Failed`] is returned.
pub fn run(args: &Lint, color: bool) -> anyhow::Result<Exit> {
    let settings = RunSettings::from_lint(args)?;
    let known = settings.baseline.as_ref().map(|file| read_baseline(file, &settings)).transpose()?;
    let baseline_path = settings.baseline.as_ref().map(|file| &*file.path);
    let write_baseline = args.write_baseline.as_deref();
    if let Some(path) = write_baseline {
        can_put(path).with_context(|| format!("write the baseline {}", path_text(path)))?;
    }
    let (no_api_checks, diff, writes) = (args.no_api_checks, args.diff, args.fix && !args.diff);
    let most = if args.unsafe_fixes { Safety::Unsafe } else { Safety::Safe };
    let args = &args.judging;
    let reporting = &args.reporting;
    let quiet = reporting.quiet;
    let limit = args.max_file_size.0;
    let progress = Progress::default();
    let (diffs, files) = (Diffs::default(), FileSink::default());
    let sink: Option<&dyn Sink> = match (diff, writes) {
        (true, _) => Some(&diffs),
        (_, true) => Some(&files),
        _ => None,
    };
    let options = Options {
        keep_items: known.is_some() || write_baseline.is_some(),
        max_file_size: limit,
        api_checks: !no_api_checks,
        keep_sources: reporting.format.reads_sources() && !diff && !reporting.statistics,
        keep_fixes: false,
        dry_run: None,
        render: settings.render.as_ref(),
        fix: sink.map(|sink| Fixing { most, sink }),
        selection: settings.selection.as_ref(),
        whole: settings.whole.as_ref(),
        reference: settings.reference.as_ref(),
        namespace: settings.namespace.as_deref().unwrap_or_default(),
        by_path: &settings.by_path,
        today: Some(today()),
        progress: Some(&progress),
    };
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(args.threads).build().context("start the threads")?;
    let facts = facts(&settings.facts, settings.facts_within.as_ref(), &options)?;
    let inputs =
        lint::collect_without(&settings.paths, &settings.exclusions, |path| lint::drained(path, limit));
    let mut linted = watched(quiet, &progress, inputs.files.len(), || {
        pool.install(|| lint::lint(&inputs.files, &settings.policy, &facts, &options))
    });
    take_unread(&inputs, &mut linted);
    settings.add_to(&mut linted.report, inputs.excluded);
    if let Some((baseline, root)) = &known {
        apply_baseline(baseline, &inputs, &mut linted, root);
    }
    let written = write_baseline.map(|path| renew_baseline(path, &inputs, &mut linted)).transpose()?;
    reporting.arrange(&mut linted.report);
    let report = &linted.report;
    let piped = inputs.files.iter().find_map(|input| match &input.content {
        Content::Bytes(bytes) if &*input.path == STDIN => Some(bytes),
        _ => None,
    });
    if diff {
        say_diff(&diffs, report, reporting, color)?;
    } else if let Some(text) = piped.filter(|_| writes) {
        // The text goes to the pipe, so the report goes to standard error.
        let text = files.piped(text);
        to(&mut io::stdout().lock(), |out| out.write_all(&text))?;
        let color = color && stderr::is_seen();
        settings.write_to(reporting, report, color, &mut stderr::stream().lock())?;
    } else {
        pool.install(|| settings.write(reporting, report, color))?;
    }
    settings.announce(reporting)?;
    let complete = print_problems(&inputs, &linted)?;
    say_baseline(report, write_baseline.zip(written), baseline_path, quiet)?;
    let changes = diff && report.changed > 0;
    let exit = match settings.exit(reporting, report, complete) {
        Exit::Clean if changes && !reporting.exit_zero => Exit::Findings,
        exit => exit,
    };
    // The process ends next, which frees the memory at once.
    std::mem::forget(linted);
    Ok(exit)
}

/// Writes what would be fixed, and reports what is left.
fn say_diff(diffs: &Diffs, report: &Report, reporting: &Reporting, color: bool) -> anyhow::Result<()> {
    let file = reporting.output_file.as_deref();
    let color = color && file.is_none();
    to_file_or(file, &mut io::stdout().lock(), |out| diffs.write(color, out))?;
    if reporting.quiet {
        return Ok(());
    }
    let unjudged = report.unjudged_in_short().map(|unjudged| format!("; {unjudged}")).unwrap_or_default();
    let left = report::counts(report) + &report::taken_away(report) + &unjudged;
    let (fixed, changed) = (plural(report.fixed, "finding"), plural(report.changed, "file"));
    tell(&format!("{fixed} would be fixed in {changed}; left are: {left}"))?;
    Ok(())
}

/// Reports on the baselines: the one to write, and the one that was read.
fn say_baseline(
    report: &Report,
    written: Option<(&Path, bool)>,
    read: Option<&Path>,
    quiet: bool,
) -> anyhow::Result<()> {
    match written {
        Some((path, true)) if !quiet => {
            let unjudged = if report.baselined_unjudged > 0 {
                &format!(" and {} not judged", report.baselined_unjudged)
            } else {
                ""
            };
            say(&format!(
                "{}{unjudged} written to {}",
                plural(report.baselined, "finding"),
                path_text(path)
            ))?;
        }
        Some((path, false)) => {
            say(&format!("{} is not written: not everything could be linted", path_text(path)))?;
        }
        _ => {}
    }
    if let Some(path) = read.filter(|_| report.resolved > 0 && !quiet) {
        let what = if report.resolved == 1 {
            "1 entry of the baseline is"
        } else {
            &format!("{} entries of the baseline are", report.resolved)
        };
        say(&format!("{what} resolved; regenerate it with --write-baseline {}", path_text(path)))?;
    }
    Ok(())
}

/// Reads a baseline.
pub(super) fn read_baseline(file: &Source, settings: &RunSettings) -> anyhow::Result<(Baseline, Root)> {
    let path = &file.path;
    let read = || format!("read the baseline {}", path_text(path));
    let text = file.read(MAX_BASELINE_BYTES).with_context(read)?;
    let mut baseline = Baseline::parse(&text).with_context(read)?;
    // Findings of unused rules are neither present nor resolved.
    if let Some(selection) = &settings.selection {
        baseline.retain(|rule| selection.has(rule));
    }
    Ok((baseline, root_of(path)?))
}

fn root_of(baseline: &Path) -> anyhow::Result<Root> {
    let current = std::env::current_dir().context("find the current directory")?;
    Ok(Root::new(baseline, &current, Path::exists))
}

/// Removes baselined findings from the report.
fn apply_baseline(baseline: &Baseline, inputs: &Inputs, linted: &mut Linted, root: &Root) {
    let unread: Vec<&str> = linted.unreadable.iter().map(|error| &*error.path).collect();
    let read = inputs.files.iter().map(|input| &*input.path).filter(|path| !unread.contains(path));
    baseline.apply(&mut linted.report, read, root);
}

/// Writes a baseline of all findings, which are then baselined. Returns `false`, and writes nothing, if it would be
/// incomplete.
fn renew_baseline(path: &Path, inputs: &Inputs, linted: &mut Linted) -> anyhow::Result<bool> {
    if !(inputs.unreadable.is_empty() && linted.unreadable.is_empty()) {
        return Ok(false);
    }
    let root = root_of(path)?;
    let baseline = Baseline::new(&linted.report, &root);
    put(path, baseline.to_string().as_bytes())
        .with_context(|| format!("write the baseline {}", path_text(path)))?;
    apply_baseline(&baseline, inputs, linted, &root);
    Ok(true)
}

/// Replaces files by changed ones.
#[derive(Debug, Default)]
struct FileSink {
    /// The changed text of standard input.
    piped: Mutex<Option<Vec<u8>>>,
}

impl Sink for FileSink {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        match &change.input.content {
            Content::File(path) => {
                let replaced = match &change.input.reached {
                    Reached::Inside(roots) => {
                        replace_in(&Tree::from_roots(Arc::clone(roots)), path, change.old, change.new)
                    }
                    Reached::Outside => Err(NotReplaced::LeadsOut),
                    Reached::Named => replace(path, change.old, change.new),
                };
                replaced.map_err(|error| Unwritten {
                    path: change.input.path.to_string(),
                    reason: error.to_string(),
                })
            }
            Content::Bytes(_) | Content::Open(..) if &*change.input.path != STDIN => Err(Unwritten {
                path: change.input.path.to_string(),
                reason: NotReplaced::NoFile.to_string(),
            }),
            Content::Bytes(_) | Content::Open(..) => {
                *self.piped.lock().unwrap_or_else(PoisonError::into_inner) = Some(change.new.to_vec());
                Ok(())
            }
        }
    }
}

impl FileSink {
    /// Returns the changed text of standard input.
    fn piped<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.piped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

/// Collects the diffs.
#[derive(Debug, Default)]
struct Diffs(Mutex<BTreeMap<Arc<str>, String>>);

impl Sink for Diffs {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        let diff = fix::diff(&change.input.path, change.old, change.edits);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&change.input.path), diff);
        Ok(())
    }
}

impl Diffs {
    fn write(&self, color: bool, out: &mut dyn io::Write) -> io::Result<()> {
        for diff in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            write_diff(color, diff, out)?;
        }
        Ok(())
    }
}

/// Writes the diff of one file.
pub(super) fn write_diff(color: bool, diff: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let diff = clean_lines(diff);
    if !color {
        return out.write_all(diff.as_bytes());
    }
    for (nth, line) in diff.split_inclusive('\n').enumerate() {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let style = match text.as_bytes().first() {
            _ if nth < 2 => Style::new().bold(),
            Some(b'+') => AnsiColor::Green.on_default(),
            Some(b'-') => AnsiColor::Red.on_default(),
            Some(b'@') => AnsiColor::Cyan.on_default(),
            _ => Style::new(),
        };
        write!(out, "{style}{text}{style:#}{end}")?;
    }
    Ok(())
}

/// Reports the arguments that cannot be read, and the directories without a file to lint.
pub(super) fn take_unread(inputs: &Inputs, linted: &mut Linted) {
    linted.report.unjudged.extend(inputs.unreadable.iter().map(Unreadable::unjudged));
    linted.report.unjudged.extend(inputs.empty.iter().map(|directory| lint::nothing_in(directory)));
    linted.report.unjudged.sort_by(report::unjudged_order);
}

/// Reports what could not be linted or written. Returns whether everything could.
pub(super) fn print_problems(inputs: &Inputs, linted: &Linted) -> io::Result<bool> {
    for warning in &inputs.warnings {
        say(&format!("warning: {warning}"))?;
    }
    for error in inputs.unreadable.iter().chain(&linted.unreadable) {
        say(&error.to_string())?;
    }
    for error in &linted.unwritten {
        say(&error.to_string())?;
    }
    let failed: Vec<_> =
        linted.report.unjudged.iter().filter(|unjudged| unjudged.reason.has_failed()).collect();
    for unjudged in &failed {
        say(&format!("error: {}; {}", unjudged.message(), unjudged.help()))?;
    }
    let paths = if failed.len() == 1 { "its directory" } else { "their directories" };
    if !failed.is_empty() {
        say(&format!("to go on without it, add {paths} to `render.allowFailures` in jobgate.yaml"))?;
    }
    Ok(failed.is_empty()
        && inputs.unreadable.is_empty()
        && linted.unreadable.is_empty()
        && linted.unwritten.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::policy::Policy;
    use crate::local::lint::{Claims, Input};

    /// Writes into the file while it is being judged, as an editor may.
    #[derive(Debug, Default)]
    struct Meanwhile(FileSink);

    impl Sink for Meanwhile {
        fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
            if let Content::File(path) = &change.input.content {
                std::fs::write(path, "mine: 1\n").unwrap();
            }
            self.0.take(change)
        }
    }

    #[test]
    fn a_file_that_changes_during_a_run_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.yaml");
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {activeDeadlineSeconds: 1, template: {spec: {restartPolicy: Never, containers: [{name: a, image: i}]}}}\n";
        std::fs::write(&path, text).unwrap();
        let sink = Meanwhile::default();
        let options = Options { fix: Some(Fixing { most: Safety::Safe, sink: &sink }), ..Options::default() };
        let linted = lint::lint(&[Input::named(&path)], &Policy::default(), &Claims::default(), &options);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine: 1\n");
        let said: Vec<String> = linted.unwritten.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [format!("cannot write {}: the file has changed since it was read", path_text(&path))]
        );
        // The report is about what was read, and counts nothing as fixed.
        assert_eq!((linted.report.fixed, linted.report.changed, linted.report.findings.len()), (0, 0, 2));
        assert!(linted.report.sources.values().any(|source| **source == *text));
    }
}
