//! `jobgate dry-run`: predicts how an API server with the webhook would answer files.

#[cfg(feature = "serve")]
mod pods;

#[cfg(feature = "serve")]
use std::cell::Cell;
use std::io::{self, BufWriter, Write};

use anyhow::Context as _;
#[cfg(feature = "serve")]
use anyhow::bail;

#[cfg(feature = "serve")]
use super::audit::{FIRST_ANSWER_TIMEOUT, reach};
use super::lint::{print_problems, take_unread, write_diff};
use super::output::to_file_or;
use super::progress::watched;
use super::settings::RunSettings;
use super::stderr;
use super::{Exit, facts, today};
use crate::cli::args::{DryRun, Output, Validate};
#[cfg(feature = "serve")]
use crate::cluster::{self, Wanted};
#[cfg(feature = "serve")]
use crate::judge::checks::POD_REFUSED;
#[cfg(feature = "serve")]
use crate::judge::facts::{FactKind, FactTable};
#[cfg(feature = "serve")]
use crate::local::lint::ReferencedObjects;
use crate::local::lint::{self, Linted, Options, Progress};
#[cfg(feature = "serve")]
use crate::report::Unjudged;
use crate::report::{self, Answered, Format, Report};
use crate::text::value::{Value, json};
use crate::text::{patch, yaml};

/// Runs the command. `color` is whether the report may be coloured.
///
/// # Errors
/// The policy, a file of facts or of existing objects is not valid, or the output cannot be written. Files that cannot
/// be read are not an error, as in `jobgate lint`.
pub fn run(args: &DryRun, color: bool) -> anyhow::Result<Exit> {
    let judging = &args.judging;
    let reporting = &judging.reporting;
    #[allow(unused_mut, reason = "a cluster changes it, where there is one")]
    let mut settings = RunSettings::from_dry_run(judging)?;
    // Only what the files name is read from a cluster; what renderings name would be missing.
    #[cfg(feature = "serve")]
    if args.cluster {
        settings.render = None;
    }
    let limit = judging.max_file_size.0;
    let progress = Progress::default();
    let human = args.output.is_some() || reporting.format.reads_sources();
    let options = Options {
        keep_items: false,
        max_file_size: limit,
        api_checks: true,
        keep_sources: human,
        keep_fixes: false,
        dry_run: None,
        render: settings.render.as_ref(),
        fix: None,
        selection: settings.selection.as_ref(),
        whole: settings.whole.as_ref(),
        reference: settings.reference.as_ref(),
        namespace: "",
        by_path: &settings.by_path,
        today: Some(today()),
        progress: Some(&progress),
    };
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(judging.threads).build().context("start the threads")?;
    let facts = facts(&settings.facts, settings.facts_within.as_ref(), &options)?;
    let inputs =
        lint::collect_without(&settings.paths, &settings.exclusions, |path| lint::drained(path, limit));
    #[cfg(feature = "serve")]
    let connection = if args.cluster { Some(connect(args)?) } else { None };
    #[cfg(feature = "serve")]
    let current =
        connection.as_ref().map(|connection| connection.connection.client.default_namespace().to_owned());
    #[cfg(not(feature = "serve"))]
    let current = None;
    let namespace = settings.namespace.clone().or(current).unwrap_or_default();
    let options = Options { namespace: &namespace, ..options };
    let old = lint::collect(&args.against, |path| lint::drained(path, limit));
    if let Some(error) = old.unreadable.into_iter().next() {
        return Err(error).context("read the objects that exist");
    }
    #[allow(unused_mut, reason = "the cluster adds to it, where there is one")]
    let mut against = lint::against_in(&old.files, &options).context("read the objects that exist")?;
    #[cfg(feature = "serve")]
    let looked = connection
        .as_ref()
        .map(|connection| connection.read(&inputs.files, &options, &facts, &mut against))
        .transpose()?;
    #[cfg(feature = "serve")]
    let (claims, mut unjudged) = looked.unzip();
    #[cfg(not(feature = "serve"))]
    let (claims, mut unjudged) = (None, None::<Vec<report::Unjudged>>);
    let keep_objects = matches!(args.output, Some(Output::Yaml | Output::Json));
    #[cfg(feature = "serve")]
    let keep_pods =
        args.try_pods && settings.selection.as_ref().is_none_or(|selection| selection.has(POD_REFUSED));
    #[cfg(not(feature = "serve"))]
    let keep_pods = false;
    let question = lint::DryRun {
        strict: args.validate == Validate::Strict,
        against: &against,
        cluster: claims.as_ref(),
        keep_objects,
        keep_pods,
    };
    let options = Options { dry_run: Some(question), ..options };
    let mut linted = watched(reporting.quiet, &progress, inputs.files.len(), || {
        pool.install(|| lint::lint(&inputs.files, &settings.policy, &facts, &options))
    });
    take_unread(&inputs, &mut linted);
    linted.report.unjudged.extend(unjudged.take().into_iter().flatten());
    #[cfg(feature = "serve")]
    if let Some(connection) = connection.filter(|_| keep_pods) {
        pods::try_all(&connection, &inputs.files, &namespace, &mut linted.report)?;
    }
    settings.add_to(&mut linted.report, inputs.excluded);
    reporting.arrange(&mut linted.report);
    write(args, &settings, &linted, color)?;
    settings.announce(reporting)?;
    #[cfg(feature = "serve")]
    if args.cluster && !args.try_pods && !reporting.quiet && human && stores_any(&linted.report) {
        stderr::say(
            "note: pods were not tried on the cluster; `--try-pods` does, with the right to create pods",
        )?;
    }
    let complete = print_problems(&inputs, &linted)?;
    Ok(settings.exit(reporting, &linted.report, complete))
}

/// Writes the report, and what is asked for instead of it.
fn write(args: &DryRun, settings: &RunSettings, linted: &Linted, color: bool) -> anyhow::Result<()> {
    let reporting = &args.judging.reporting;
    let file = reporting.output_file.as_deref();
    let options = settings.options(reporting, color);
    match args.output {
        Some(output) => {
            let color_errors = color && stderr::is_seen();
            let options = settings.options(reporting, color_errors);
            to_file_or(file, &mut stderr::stream().lock(), |out| to_people(&options, linted, false, out))?;
            let mut out = BufWriter::new(io::stdout().lock());
            unless_closed(print(output, color, linted, &mut out).and_then(|()| out.flush()))?;
        }
        None if reporting.format == Format::Human => {
            to_file_or(file, &mut io::stdout().lock(), |out| to_people(&options, linted, true, out))?;
        }
        None => settings.write(reporting, &linted.report, color)?,
    }
    Ok(())
}

/// A cluster to read.
#[cfg(feature = "serve")]
struct DryRunConnection {
    runtime: tokio::runtime::Runtime,
    connection: cluster::Connection,
}

/// Sets up the connection that the arguments name. Nothing is sent yet.
#[cfg(feature = "serve")]
fn connect(args: &DryRun) -> anyhow::Result<DryRunConnection> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let connection = runtime
        .block_on(cluster::connection(args.access.kubeconfig.as_deref(), args.access.context.as_deref()));
    Ok(DryRunConnection { connection: connection.context("find the cluster for --cluster")?, runtime })
}

#[cfg(feature = "serve")]
impl DryRunConnection {
    /// Reads the claims that the files use and the objects that they would replace. What cannot be read is
    /// unknown, and returned as not judged.
    ///
    /// # Errors
    /// The API server cannot be reached, or goes away: whoever asks for its answer must not get ours alone.
    fn read(
        &self,
        files: &[lint::Input],
        options: &Options<'_>,
        facts: &lint::Claims,
        against: &mut lint::ExistingObjects,
    ) -> anyhow::Result<(FactTable, Vec<Unjudged>)> {
        let client = &self.connection.client;
        self.runtime
            .block_on(reach(&self.connection, FIRST_ANSWER_TIMEOUT))
            .context("ask the cluster for --cluster")?;
        let ReferencedObjects { objects, facts: named, namespaces } =
            lint::mentioned(files, options, facts, None);
        let objects = objects.into_iter().map(|key| Wanted::Object(key.kind, key.namespace, key.name));
        let wanted: Vec<Wanted> = objects
            .chain(named.iter().cloned().map(Wanted::Fact))
            .chain(namespaces.iter().cloned().map(Wanted::Namespace))
            .collect();
        let line = ProgressLine::new("reading the cluster", wanted.len(), "objects");
        let mut found = self.runtime.block_on(cluster::snapshot(client, wanted, || line.advance()));
        if named.iter().any(|wanted| matches!(wanted.kind, FactKind::Runtime(_))) && !found.broken {
            // Only the runtimes have the claims that their pods use.
            let more = lint::mentioned(files, options, facts, Some(&found.claims)).facts;
            let more: Vec<Wanted> = more.difference(&named).cloned().map(Wanted::Fact).collect();
            found.add(self.runtime.block_on(cluster::snapshot(client, more, || {})));
        }
        let excluded = self.runtime.block_on(cluster::excluded(client, &namespaces));
        line.end()?;
        if found.broken {
            bail!("{} stopped answering: {}", self.connection.server, found.problems.join("; "));
        }
        for namespace in &found.absent_namespaces {
            stderr::say(&format!(
                "warning: the namespace `{namespace}` does not exist: until it does, the API server rejects everything in it"
            ))?;
        }
        for object in found.objects {
            against.add(object, options.namespace);
        }
        let unknown = found.problems.into_iter().map(Unjudged::unknown);
        Ok((found.claims, unknown.chain(excluded).collect()))
    }
}

/// A line on a terminal that says how far something is.
#[cfg(feature = "serve")]
struct ProgressLine {
    doing: &'static str,
    total: usize,
    what: &'static str,
    done: Cell<usize>,
    is_seen: bool,
}

#[cfg(feature = "serve")]
impl ProgressLine {
    fn new(doing: &'static str, total: usize, what: &'static str) -> Self {
        Self { doing, total, what, done: Cell::new(0), is_seen: stderr::is_seen() }
    }

    fn advance(&self) {
        self.done.set(self.done.get() + 1);
        if self.is_seen {
            let Self { doing, total, what, done, .. } = self;
            let _ = write!(stderr::stream(), "\r\u{1b}[K{doing}: {} of {total} {what}", done.get());
        }
    }

    /// Removes the line.
    fn end(self) -> io::Result<()> {
        if self.is_seen && self.total > 0 {
            write!(stderr::stream(), "\r\u{1b}[K")?;
        }
        Ok(())
    }
}

/// Tells whether an object would be stored.
#[cfg(feature = "serve")]
fn stores_any(report: &Report) -> bool {
    report.answers.iter().any(|answered| answered.answer.outcome.is_allowed())
}

/// Ignores a closed pipe: `jobgate dry-run | head` is not a failure.
fn unless_closed(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write the output"),
    }
}

/// Maximum number of changed files for which all changes are shown.
const MANY_DIFFS: usize = 10;
/// Number of files whose changes are shown if there are more.
const SHOWN_DIFFS: usize = 3;

/// Writes a line for each object, the findings, what is filled in, and a summary.
fn to_people(
    options: &report::Options,
    linted: &Linted,
    with_diffs: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let report = &linted.report;
    if options.statistics {
        report::write_statistics(report, out)?;
    } else {
        report::write_verdicts(report, options, out)?;
        report::write_findings(report, options, out)?;
        if with_diffs && !options.quiet {
            let shown =
                if linted.diffs.len() > MANY_DIFFS && !options.full { SHOWN_DIFFS } else { usize::MAX };
            for diff in linted.diffs.iter().take(shown) {
                write_diff(options.color, diff, out)?;
                writeln!(out)?;
            }
            if let Some(more) = linted.diffs.len().checked_sub(shown) {
                writeln!(
                    out,
                    "… and changes of {}: `-o diff` prints all\n",
                    report::plural(more, "more file")
                )?;
            }
        }
        report::write_unjudged(report, options, out)?;
    }
    if options.quiet {
        return Ok(());
    }
    let unjudged = report.unjudged_in_short().map(|unjudged| format!("; {unjudged}")).unwrap_or_default();
    writeln!(out, "{}{}{unjudged}", summary(report), report::taken_away(report))?;
    report::write_origin(report, out)
}

fn summary(report: &Report) -> String {
    match report.answers.len() {
        0 => "no batch jobs found".to_owned(),
        all => format!("{}: {}", report::plural(all, "object"), report::verdicts(report)),
    }
}

/// Writes the requested output instead of a report.
fn print(output: Output, color: bool, linted: &Linted, out: &mut dyn Write) -> io::Result<()> {
    let stored: Vec<&Value> =
        linted.report.answers.iter().filter_map(|answered| answered.answer.admitted.as_ref()).collect();
    match output {
        Output::Yaml => {
            for (nth, object) in stored.into_iter().enumerate() {
                let separator = if nth == 0 { "" } else { "---\n" };
                write!(out, "{separator}{}", yaml::print(object))?;
            }
        }
        Output::Json => {
            let document = match stored.as_slice() {
                [only] => (*only).clone(),
                several => json!({"apiVersion": "v1", "kind": "List", "items": several}),
            };
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)?;
        }
        Output::Patch => {
            for answered in &linted.report.answers {
                let Answered { location, object, answer, .. } = answered;
                let line = json!({
                    "file": &*location.file, "line": location.start.line, "object": &**object, "operation": answer.operation.as_str(),
                    "verdict": answer.outcome.as_str(), "patch": patch::document(&answer.patch),
                });
                writeln!(out, "{line}")?;
            }
        }
        Output::Diff => {
            for diff in &linted.diffs {
                write_diff(color, diff, out)?;
            }
        }
    }
    Ok(())
}
