//! `jobgate audit`: a cluster in, a report on standard output, an exit code.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::progress::narrated;
use super::settings::RunSettings;
use super::stderr::say;
use super::{Exit, today};
use crate::cli::args::Audit;
use crate::cluster::audit::{self, Options, Progress};
use crate::cluster::fetch::{self, Failure};
use crate::cluster::publish::{Published, Unpublished, publish};
use crate::cluster::{self, Connection, chain};
use crate::report::{Format, Report, clean, plural};
use crate::text::lines::cut;
use crate::text::value::Value;

/// Timeout for the first answer of the API server.
pub(super) const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the command. `color` is whether the report may be coloured.
///
/// # Errors
/// The policy is not valid, the API server cannot be reached, or the report cannot be written. What cannot be listed is
/// not an error: the rest is judged, and [`Exit::Failed`] is returned.
pub fn run(args: &Audit, color: bool) -> anyhow::Result<Exit> {
    let reporting = &args.reporting;
    let settings = RunSettings::from_audit(args)?;
    let policy = &settings.policy;
    let options = Options {
        namespaces: args.namespaces.iter().cloned().collect(),
        selector: args.selector.clone(),
        include_finished: args.include_finished,
        keep_all_sources: reporting.full && reporting.format.reads_sources(),
        selection: settings.selection.clone(),
        today: Some(today()),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the threads")?;
    let progress = Progress::default();
    let narration = || format!("auditing: {} objects", progress.objects());
    let audited: anyhow::Result<(Report, Option<Publishing>)> = narrated(reporting.quiet, &narration, || {
        runtime.block_on(async {
            let connection =
                cluster::connection(args.cluster.kubeconfig.as_deref(), args.cluster.context.as_deref())
                    .await?;
            reach(&connection, FIRST_ANSWER_TIMEOUT).await?;
            // Runs on a thread of the runtime, since judging may take a while.
            let report = audit::audit(&connection, policy, &options, &progress).await;
            let published = match args.publish {
                true => Some(publish(&connection.client, &report, &options.namespaces).await),
                false => None,
            };
            Ok((report, published))
        })
    });
    let (mut report, published) = audited?;
    settings.add_to(&mut report, 0);
    reporting.arrange(&mut report);
    settings.write(reporting, &report, color)?;
    settings.announce(reporting)?;
    let complete = print_problems(&report, reporting.format)?;
    let complete = say_published(published, reporting.quiet)? && complete;
    Ok(settings.exit(reporting, &report, complete))
}

type Publishing = Result<Published, Unpublished>;

/// Reports what was written into the cluster. Returns whether everything was that should be.
fn say_published(published: Option<Publishing>, quiet: bool) -> io::Result<bool> {
    let published = match published {
        None => return Ok(true),
        Some(Err(error)) => {
            say(&format!("publish the reports: {error}"))?;
            return Ok(false);
        }
        Some(Ok(published)) => published,
    };
    for problem in &published.problems {
        say(&format!("publish the reports: {problem}"))?;
    }
    if !quiet {
        let written = plural(published.written, "report");
        let deleted = match published.deleted {
            0 => String::new(),
            count => format!(", deleted {count} without findings"),
        };
        say(&format!("published {written} of {}{deleted}", published.api))?;
    }
    Ok(published.problems.is_empty())
}

/// Maximum size of an answer of `/version`: usually a few hundred bytes.
const MAX_VERSION_BYTES: usize = 64 << 10;
/// Maximum bytes that are quoted from an answer that is not from an API server.
const MAX_QUOTED_BYTES: usize = 80;

/// Fails if there is no answer in time, if the credentials are not accepted, or if the answer is not from an
/// API server (but a proxy's login page, say), whose later answers would be useless. An API server returns
/// its version, or a `Status`.
pub(super) async fn reach(connection: &Connection, timeout: Duration) -> anyhow::Result<()> {
    let server = &connection.server;
    let answer = async {
        let response = fetch::answer(&connection.client, "/version".to_owned()).await?;
        let status = response.status();
        Ok((status, fetch::read(response, MAX_VERSION_BYTES).await?))
    };
    let (status, body) = match tokio::time::timeout(timeout, answer).await.unwrap_or(Err(Failure::Silence)) {
        Ok(answer) => answer,
        Err(Failure::TooLarge(_)) => {
            bail!("{server} answers /version with too much data: is it a Kubernetes API server?")
        }
        Err(failure) => bail!("{server}: {}", chain(&failure)),
    };
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    let has = |key: &str| document.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let is_status = document.get("kind").and_then(Value::as_str) == Some("Status");
    match status.as_u16() {
        200 if ["major", "minor", "gitVersion"].into_iter().all(has) => Ok(()),
        401 if is_status => bail!("{server} does not accept the kubeconfig's credentials"),
        // Users without access to the version may still list jobs.
        403 if is_status => Ok(()),
        _ => {
            let text = String::from_utf8_lossy(&body);
            let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("an empty body");
            bail!(
                "{server} answers /version with {status} and {:?}: is it a Kubernetes API server?",
                clean(&cut(first, MAX_QUOTED_BYTES, "…"))
            )
        }
    }
}

/// Reports what could not be read. Returns whether everything could.
fn print_problems(report: &Report, format: Format) -> io::Result<bool> {
    let Some(impact) = &report.impact else { return Ok(true) };
    for problem in &impact.problems {
        say(problem)?;
    }
    // The human report lists these among what was not judged.
    for notice in impact.notices.iter().filter(|_| format != Format::Human) {
        say(&format!("warning: {notice}"))?;
    }
    Ok(impact.problems.is_empty())
}
