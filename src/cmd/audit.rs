//! `jobgate audit`: a cluster in, a report on standard output, an exit code.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::lint::{narrated, write_report};
use super::{Exit, policy_named, today};
use crate::audit::{self, Options, Progress};
use crate::cli::Audit;
use crate::cluster::fetch::{self, Failure};
use crate::cluster::{self, Connection, chain};
use crate::report::{Format, Report};

/// How long the API server may take for its first word.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command. `color` is whether the report may be coloured.
///
/// # Errors
/// The policy is bad, the API server cannot be reached, or the report cannot be written. What cannot be listed is no error here: the rest is judged,
/// and [`Exit::Failed`] says so.
pub fn run(args: &Audit, color: bool) -> anyhow::Result<Exit> {
    let policy = policy_named(&args.reporting.policy)?;
    let options = Options {
        namespaces: args.namespaces.iter().cloned().collect(),
        selector: args.selector.clone(),
        include_finished: args.include_finished,
        keep_all_sources: args.reporting.full && args.reporting.format.reads_sources(),
        today: Some(today()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the threads")?;
    let progress = Progress::default();
    let say = || format!("auditing: {} objects", progress.objects());
    let report: anyhow::Result<Report> = narrated(&say, || {
        runtime.block_on(async {
            let connection = cluster::connection(args.cluster.kubeconfig.as_deref(), args.cluster.context.as_deref()).await?;
            reach(&connection, PATIENCE).await?;
            // On a thread of the runtime, which may be left to judge for a while.
            Ok(audit::audit(&connection, &policy, &options, &progress).await)
        })
    });
    let report = report?;
    write_report(&report, args.reporting.format, &args.reporting.options(color))?;
    let complete = complain(&report, args.reporting.format)?;
    Ok(match (complete, args.reporting.fails(&report)) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Findings,
        (true, false) => Exit::Clean,
    })
}

/// Fails where nobody answers in time, or where what answers does not know the user: no list would do better.
pub(super) async fn reach(connection: &Connection, patience: Duration) -> anyhow::Result<()> {
    let answer = tokio::time::timeout(patience, fetch::get(&connection.client, "/version".to_owned())).await.unwrap_or(Err(Failure::Silence));
    match answer {
        Err(Failure::Status(status)) if status.as_u16() == 401 => bail!("{} does not accept the kubeconfig's credentials", connection.server),
        Err(failure @ (Failure::Transport(_) | Failure::Silence)) => bail!("{}: {}", connection.server, chain(&failure)),
        _ => Ok(()),
    }
}

/// Says what could not be read. Returns whether everything could.
fn complain(report: &Report, format: Format) -> io::Result<bool> {
    let Some(impact) = &report.impact else { return Ok(true) };
    let mut err = io::stderr().lock();
    for problem in &impact.problems {
        writeln!(err, "jobgate: {problem}")?;
    }
    // People read these in the report, among what was not judged.
    for notice in impact.notices.iter().filter(|_| format != Format::Human) {
        writeln!(err, "jobgate: warning: {notice}")?;
    }
    Ok(impact.problems.is_empty())
}
