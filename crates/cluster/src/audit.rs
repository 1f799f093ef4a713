//! The audit: what a policy would do to the objects in a cluster, so that a team sees the effect of
//! enforcement before enabling it.
//!
//! ```text
//! claims ──> CronJobs ──> Jobs ──> PyTorchJobs       each a list in pages; a page is judged and dropped before the next is fetched
//!                           └─> engine::evaluate ──> findings, and counts by namespace
//! ```
//!
//! Nothing is written, and the webhook is not called: each object is judged as the webhook would judge its
//! creation now. Two facts that the webhook knows are missing from a stored object, and are inferred: who
//! made it (a Job that names a listed CronJob as its controller was made by the CronJob controller, unless
//! `kubectl create job --from` is recorded), and whether it would be created again (a finished one would
//! not).

mod fills;
mod judge;
mod part;
mod refused_pods;
mod scale;
mod terminating;
mod unjudged;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::civil::Date;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::judge::{AuditJudge, AuditOutcome};
use self::part::AuditPart;
use self::unjudged::others_in;
use crate::causes::chain;
use crate::client::Connection;
use crate::fetch::{self, Failure};
use crate::inventory::Inventory;
use crate::list::{PAGE, Pages};
use jobgate_core::judge::facts::FactDefinition;
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::selection::Selection;
use jobgate_core::kinds::{ApiResource, Kind};
use jobgate_core::text::value::Value;
use jobgate_report::{Impact, Located, Report, Unjudged, unjudged_order};

/// What to audit, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The namespaces to audit; if empty, all except the system's.
    pub namespaces: BTreeSet<String>,
    /// A label selector in the API server's syntax.
    pub selector: Option<String>,
    /// Whether finished Jobs and PyTorchJobs are judged, too.
    pub include_finished: bool,
    /// Whether the report keeps the text of every object with findings rather than only of examples.
    pub keep_all_sources: bool,
    /// The subset of the policy's rules and checks to use; `None` for all.
    pub selection: Option<Selection>,
    /// Today's date, for exemptions that expire; without it, none does.
    pub today: Option<Date>,
}

/// The progress of an audit.
#[derive(Debug, Default)]
pub struct Progress {
    objects: AtomicUsize,
}

impl Progress {
    /// Returns the number of objects read.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }
}

/// Maximum size of a page. Jobs are a few KiB each, but may be a MiB.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// How long one page may take: the API server's own limit for a request.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum restarts of a list that expires while it is read.
const MAX_RESTARTS: u32 = 3;
/// Pauses before a page is read again from an overloaded API server.
const RETRY_PAUSES: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3)];

/// Audits a cluster. What cannot be read is listed as a problem in the report's [`Impact`]; the rest is
/// audited.
pub async fn audit(
    connection: &Connection,
    policy: &Policy,
    options: &Options,
    progress: &Progress,
) -> Report {
    let mut impact =
        Impact { server: connection.server.clone(), policy: policy.name.clone(), ..Impact::default() };
    let namespaces: Vec<String> = options.namespaces.iter().cloned().collect();
    for namespace in &namespaces {
        if let Some(problem) = missing(connection, namespace).await {
            impact.problems.push(problem);
        }
    }
    let (claims, failures) = Inventory::take(&connection.client, &namespaces).await;
    impact.notices.extend(failures.iter().map(|(kind, namespace, failure)| {
        let FactDefinition { resource, nouns: [_, unknown], missed_by, .. } = kind.definition();
        let failure = explain(resource.name, resource.group, namespace, failure);
        let rules = policy.rules().names_needing(missed_by);
        format!("{failure}; {unknown} are unknown, so {rules} reports less than the webhook would")
    }));
    let mut report = Report::default();
    let mut judge = AuditJudge {
        policy,
        facts: &claims,
        options,
        parents: HashSet::new(),
        all_parents: options.selector.is_none(),
    };
    let (mut candidates, mut unmade) = (Vec::new(), Vec::new());
    let everywhere = [String::new()];
    // Parents first: their children are recognized by the uids.
    let mut kinds: Vec<Kind> = Kind::all().filter(|kind| !kind.untested).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(generations(*kind)));
    let (mut served, mut unserved): (Vec<Kind>, Vec<Kind>) = (Vec::new(), Vec::new());
    for kind in kinds {
        // Cluster-scoped objects belong to none of the given namespaces.
        if kind.cluster_scoped && !namespaces.is_empty() {
            continue;
        }
        for namespace in if namespaces.is_empty() { &everywhere[..] } else { &namespaces } {
            match list(connection, kind, namespace, &judge, progress).await {
                Ok(mut part) => {
                    served.push(kind);
                    candidates.append(&mut part.terminating);
                    unmade.append(&mut part.unmade);
                    part.join(&mut report, &mut impact, &mut judge.parents);
                }
                Err(Failure::NotFound | Failure::Foreign) if !kind.is_built_in() => {
                    unserved.push(kind);
                }
                Err(failure) => {
                    judge.all_parents &= kind.children.is_empty();
                    impact.problems.push(explain(kind.resource, kind.group, namespace, &failure));
                }
            }
        }
    }
    let (stuck, notices) = terminating::stuck(&connection.client, candidates, jiff::Timestamp::now()).await;
    impact.terminating = stuck;
    impact.notices.extend(notices);
    let (refused, notices) = refused_pods::refused(&connection.client, unmade).await;
    impact.refused = refused;
    impact.notices.extend(notices);
    // Another version of the kind may be served.
    unserved.retain(|kind| !served.iter().any(|other| other.is_same(*kind)));
    impact.unserved = unserved.into_iter().map(Kind::title).collect();
    impact.unserved.dedup();
    report.unjudged = others_in(connection, &namespaces).await;
    let judged: BTreeSet<String> =
        impact.namespaces.keys().filter(|name| !name.is_empty()).cloned().collect();
    report.unjudged.extend(crate::excluded(&connection.client, &judged).await);
    report.unjudged.extend(impact.notices.iter().cloned().map(Unjudged::unknown));
    report.unjudged.extend(impact.problems.iter().cloned().map(Unjudged::not_listed));
    report.unjudged.sort_by(unjudged_order);
    report.findings.sort_by(order);
    report.objects = impact.total().objects;
    report.impact = Some(impact);
    report
}

async fn object(connection: &Connection, path: String) -> Result<Value, Failure> {
    fetch::value(&connection.client, path, MAX_PAGE_BYTES, PAGE_TIMEOUT).await
}

/// Reports that a namespace does not exist: listing it would return nothing.
async fn missing(connection: &Connection, namespace: &str) -> Option<String> {
    if !fetch::is_name(namespace) {
        return Some(format!("{namespace:?} is not a valid namespace"));
    }
    let found = async { fetch::get(&connection.client, format!("/api/v1/namespaces/{namespace}")).await };
    let found = tokio::time::timeout(PAGE_TIMEOUT, found).await;
    matches!(found, Ok(Err(Failure::NotFound))).then(|| format!("there is no namespace `{namespace}`"))
}

/// Explains a failed list and its remedy.
fn explain(resource: &str, group: &str, namespace: &str, failure: &Failure) -> String {
    let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let place = if namespace.is_empty() { String::new() } else { format!(" in the namespace `{namespace}`") };
    let help = match failure {
        Failure::Forbidden if namespace.is_empty() => {
            "; requires permission to `list` them in all namespaces (`-n` audits some)"
        }
        Failure::Forbidden => "; requires permission to `list` them",
        Failure::Status(http::StatusCode::UNAUTHORIZED) => "; the kubeconfig's credentials are not accepted",
        Failure::Status(http::StatusCode::BAD_REQUEST) => "; is the selector valid?",
        _ => "",
    };
    format!("cannot list {name}{place}: {}{help}", chain(failure))
}

/// One page of a list; its objects are parsed where they are judged.
#[derive(Deserialize)]
struct AuditPage<'a> {
    metadata: AuditPageMetadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct AuditPageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Returns how many generations of children the controllers of a kind may create.
fn generations(kind: Kind) -> usize {
    let below = kind.children.iter().filter_map(|children| Kind::named(children.group, children.name));
    below.map(|child| 1 + generations(child)).max().unwrap_or(0)
}

/// Lists the objects of a kind, in one namespace or in all, and judges them.
async fn list(
    connection: &Connection,
    kind: Kind,
    namespace: &str,
    judge: &AuditJudge<'_>,
    progress: &Progress,
) -> Result<AuditPart, Failure> {
    let mut pages = Pages::new(
        &connection.client,
        &ApiResource::from_kind(kind).list(namespace),
        PAGE,
        MAX_PAGE_BYTES,
        PAGE_TIMEOUT,
    );
    if let Some(selector) = &judge.options.selector {
        pages = pages.selected(selector);
    }
    let mut part = AuditPart::default();
    let mut restarts = 0;
    loop {
        let body = match fetch_with_retries(&mut pages).await {
            // The earlier pages show an older state of the cluster: their findings would be repeated or
            // outdated.
            Err(Failure::Expired) if restarts < MAX_RESTARTS => {
                restarts += 1;
                progress.objects.fetch_sub(part.read, Ordering::Relaxed);
                part = AuditPart::default();
                pages.restart();
                continue;
            }
            body => body?,
        };
        let page: AuditPage<'_> = serde_json::from_slice(&body)?;
        let judged: Vec<Result<(Value, AuditOutcome), serde_json::Error>> =
            tokio::task::block_in_place(|| {
                page.items.par_iter().map(|item| judge.item(kind, item)).collect()
            });
        progress.objects.fetch_add(judged.len(), Ordering::Relaxed);
        for judged in judged {
            let (object, fate) = judged?;
            part.take(&object, fate, (judge.policy, judge.options));
        }
        if !pages.turn(&page.metadata.next) {
            return Ok(part);
        }
    }
}

/// Fetches a page, and retries after a pause if the API server or the network fails.
async fn fetch_with_retries(pages: &mut Pages<'_>) -> Result<bytes::Bytes, Failure> {
    for pause in RETRY_PAUSES {
        match pages.fetch().await {
            Err(Failure::Status(status)) if status.is_server_error() || status.as_u16() == 429 => {}
            Err(Failure::Transport(_)) => {}
            page => return page,
        }
        tokio::time::sleep(pause).await;
    }
    pages.fetch().await
}

/// The order of an audit's findings: namespace, kind, name, place, rule. It does not depend on which sources
/// are kept.
fn order(a: &Located, b: &Located) -> std::cmp::Ordering {
    let object = |located: &Located| {
        located
            .object
            .as_ref()
            .map(|object| (object.namespace.clone(), object.kind.clone(), object.name.clone()))
    };
    let finding = |located: &Located| (located.finding.pointer.clone(), located.finding.rule.clone());
    object(a)
        .cmp(&object(b))
        .then_with(|| finding(a).cmp(&finding(b)))
        .then_with(|| (&a.finding.path, &a.finding.message).cmp(&(&b.finding.path, &b.finding.message)))
}
