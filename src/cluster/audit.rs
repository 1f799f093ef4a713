//! The audit: what a policy would do to the objects that a cluster holds already, so that a team sees what
//! enforcement will hit before it turns it on.
//!
//! ```text
//! claims ──> CronJobs ──> Jobs ──> PyTorchJobs       each a list in pages; a page is judged and forgotten before the next one comes
//!                           └─> engine::evaluate ──> findings, and counts by namespace
//! ```
//!
//! Nothing is written, and nothing is asked of the webhook: each object is judged as the webhook would judge
//! its creation now. Two things that the webhook is told are not in a stored object, and are inferred: who
//! made it (a Job that names a listed CronJob as its controller was made by the CronJob controller, unless
//! `kubectl create job --from` says otherwise), and whether it would be made again at all (what has finished
//! would not).

mod filled;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::civil::Date;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::fetch::{self, Failure};
use crate::cluster::list::{PAGE, Pages};
use crate::cluster::{self, Connection, Inventory, chain};
use crate::judge::engine::{self, Operation, Origin, Request, Skipped, Verdict};
use crate::judge::facts::Facts;
use crate::judge::finding::{Finding, Level, Place};
use crate::judge::policy::Policy;
use crate::kinds::registration::SYSTEM;
use crate::kinds::{Children, Definition, Kind, Workload, others};
use crate::report::{
    Filled, Impact, LeftOut, Located, Location, ObjectId, Related, Report, Tally, Unjudged, span,
    unjudged_order,
};
use crate::text::lines::Lines;
use crate::text::lines::Position;
use crate::text::value::Value;
use crate::text::yaml;

/// What to look at, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The namespaces; none for all but the system's.
    pub namespaces: BTreeSet<String>,
    /// A label selector, as the API server reads it.
    pub selector: Option<String>,
    /// Whether Jobs and PyTorchJobs that have run to their end are judged, too.
    pub include_finished: bool,
    /// Whether the report keeps the text of every object with findings, and not only of those that are shown
    /// as examples.
    pub keep_all_sources: bool,
    /// Today, for exemptions that end. Without it they hold.
    pub today: Option<Date>,
}

/// How far an audit has come.
#[derive(Debug, Default)]
pub struct Progress {
    objects: AtomicUsize,
}

impl Progress {
    /// Returns how many objects have been read.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }
}

/// Bytes of one page. Jobs are a few KiB each, but may be a MiB.
const LARGEST_PAGE: usize = 32 << 20;
/// How long one page may take: as long as the API server gives a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a list is started again that has become too old while it was read.
const RESTARTS: u32 = 3;
/// Pauses before a page is asked for again that an overloaded API server did not give.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3)];
/// Objects whose text is kept, in each list, besides one for each rule and level. As many findings as this
/// are shown one by one.
const KEPT: usize = 40;

/// Audits a cluster. What cannot be read is a problem in the report's [`Impact`]; the rest is audited all the
/// same.
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
    impact.notices.extend(failures.iter().map(|(namespace, failure)| {
        let failure = explain("persistentvolumeclaims", "", namespace, failure);
        format!(
            "{failure}; claims are unknown, so `checkpoint-volume-access` says less than the webhook would"
        )
    }));
    let mut report = Report::default();
    let mut judge = Judge {
        policy,
        facts: &claims,
        options,
        cron_jobs: HashSet::new(),
        all_cron_jobs: options.selector.is_none(),
    };
    let everywhere = [String::new()];
    // The controllers come first: what they made is known by their uids.
    let mut kinds: Vec<Kind> = Kind::all().collect();
    kinds.sort_by_key(|kind| kind.children.is_none());
    for kind in kinds {
        for namespace in if namespaces.is_empty() { &everywhere[..] } else { &namespaces } {
            match list(connection, kind, namespace, &judge, progress).await {
                Ok(part) => part.join(&mut report, &mut impact, &mut judge.cron_jobs),
                Err(Failure::NotFound | Failure::Foreign) if !kind.is_built_in() => {
                    impact.unserved = Some(kind.as_str());
                }
                Err(failure) => {
                    judge.all_cron_jobs &= kind.children.is_none();
                    impact.problems.push(explain(kind.resource, kind.group, namespace, &failure));
                }
            }
        }
    }
    report.unjudged = others_in(connection, &namespaces).await;
    let judged: BTreeSet<String> =
        impact.namespaces.keys().filter(|name| !name.is_empty()).cloned().collect();
    report.unjudged.extend(cluster::excluded(&connection.client, &judged).await);
    report.unjudged.extend(impact.notices.iter().cloned().map(Unjudged::unknown));
    report.unjudged.extend(impact.problems.iter().cloned().map(Unjudged::not_listed));
    report.unjudged.sort_by(unjudged_order);
    report.findings.sort_by(order);
    report.objects = impact.total().objects;
    report.impact = Some(impact);
    report
}

/// Returns which batch kinds that are not judged the cluster holds, and what could not be counted. A cluster
/// that does not say what it serves holds none that we could name.
async fn others_in(connection: &Connection, namespaces: &[String]) -> Vec<Unjudged> {
    let mut found = Vec::new();
    let Ok(groups) = object(connection, "/apis".to_owned()).await else { return found };
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for served in groups["groups"].as_array().into_iter().flatten() {
        let (group, version) = (text(served, "/name"), text(served, "/preferredVersion/groupVersion"));
        let Some((group, kinds)) = others().find(|(name, _)| *name == group) else { continue };
        let Ok(resources) = object(connection, format!("/apis/{version}")).await else { continue };
        let resources = resources["resources"].as_array().into_iter().flatten();
        for resource in resources.filter(|resource| !text(resource, "/name").contains('/')) {
            let Some(kind) = kinds.iter().find(|kind| **kind == text(resource, "/kind")) else { continue };
            let name = text(resource, "/name");
            let paths = match namespaces {
                [] => vec![format!("/apis/{version}/{name}")],
                _ => namespaces
                    .iter()
                    .map(|namespace| format!("/apis/{version}/namespaces/{namespace}/{name}"))
                    .collect(),
            };
            let mut count = 0;
            for path in paths {
                match object(connection, format!("{path}?limit=1")).await {
                    Ok(list) => {
                        let rest = list
                            .pointer("/metadata/remainingItemCount")
                            .and_then(Value::as_u64)
                            .unwrap_or_default();
                        count += list["items"].as_array().map_or(0, Vec::len) as u64 + rest;
                    }
                    Err(Failure::NotFound | Failure::Foreign) => {}
                    Err(failure) => {
                        found.push(Unjudged::unknown(format!(
                            "cannot count {name}.{group}, which are not judged: {}",
                            chain(&failure)
                        )));
                        break;
                    }
                }
            }
            if count > 0 {
                found.push(Unjudged::in_cluster(group, kind, Some(count)));
            }
        }
    }
    found
}

async fn object(connection: &Connection, path: String) -> Result<Value, Failure> {
    let answer = async {
        Ok(serde_json::from_slice(
            &fetch::read(fetch::get(&connection.client, path).await?, LARGEST_PAGE).await?,
        )?)
    };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or(Err(Failure::Silence))
}

/// Says that a namespace does not exist: a list of what is in it is empty all the same.
async fn missing(connection: &Connection, namespace: &str) -> Option<String> {
    if !fetch::is_name(namespace) {
        return Some(format!("there can be no namespace {namespace:?}"));
    }
    let found = async { fetch::get(&connection.client, format!("/api/v1/namespaces/{namespace}")).await };
    let found = tokio::time::timeout(PATIENCE, found).await;
    matches!(found, Ok(Err(Failure::NotFound))).then(|| format!("there is no namespace `{namespace}`"))
}

/// Says what could not be listed, why, and what would help.
fn explain(resource: &str, group: &str, namespace: &str, failure: &Failure) -> String {
    let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let place = if namespace.is_empty() { String::new() } else { format!(" in the namespace `{namespace}`") };
    let help = match failure {
        Failure::Forbidden if namespace.is_empty() => {
            "; it takes the permission to `list` them in all namespaces (`-n` audits some)"
        }
        Failure::Forbidden => "; it takes the permission to `list` them",
        Failure::Status(http::StatusCode::UNAUTHORIZED) => "; the kubeconfig's credentials are not accepted",
        Failure::Status(http::StatusCode::BAD_REQUEST) => "; is the selector one?",
        _ => "",
    };
    format!("cannot list {name}{place}: {}{help}", chain(failure))
}

/// One page of a list: its objects are parsed where they are judged.
#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Lists the objects of a kind, in one namespace or in all, and judges them.
async fn list(
    connection: &Connection,
    kind: Kind,
    namespace: &str,
    judge: &Judge<'_>,
    progress: &Progress,
) -> Result<Part, Failure> {
    let Definition { group, version, resource, .. } = *kind;
    let within = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    let mut pages = Pages::new(
        &connection.client,
        &format!("/apis/{group}/{version}/{within}{resource}"),
        PAGE,
        LARGEST_PAGE,
        PATIENCE,
    );
    if let Some(selector) = &judge.options.selector {
        pages = pages.selected(selector);
    }
    let mut part = Part::default();
    let mut restarts = 0;
    loop {
        let body = match patiently(&mut pages).await {
            // The pages before belong to another state of the cluster: what was said of them would be said
            // twice, or no longer holds.
            Err(Failure::Expired) if restarts < RESTARTS => {
                restarts += 1;
                progress.objects.fetch_sub(part.read, Ordering::Relaxed);
                part = Part::default();
                pages.restart();
                continue;
            }
            body => body?,
        };
        let page: Page<'_> = serde_json::from_slice(&body)?;
        let judged: Vec<Result<(Value, Fate), serde_json::Error>> = tokio::task::block_in_place(|| {
            page.items.par_iter().map(|item| judge.item(kind, item)).collect()
        });
        progress.objects.fetch_add(judged.len(), Ordering::Relaxed);
        for judged in judged {
            let (object, fate) = judged?;
            part.take(&object, fate, judge.options);
        }
        if !pages.turn(&page.metadata.next) {
            return Ok(part);
        }
    }
}

/// Fetches a page, again after a pause where the API server or the way to it is in trouble.
async fn patiently(pages: &mut Pages<'_>) -> Result<bytes::Bytes, Failure> {
    for pause in PAUSES {
        match pages.fetch().await {
            Err(Failure::Status(status)) if status.is_server_error() || status.as_u16() == 429 => {}
            Err(Failure::Transport(_)) => {}
            page => return page,
        }
        tokio::time::sleep(pause).await;
    }
    pages.fetch().await
}

/// What judging takes.
struct Judge<'a> {
    policy: &'a Policy,
    facts: &'a (dyn Facts + Sync),
    options: &'a Options,
    /// The uids of the CronJobs that were read.
    cron_jobs: HashSet<Box<str>>,
    /// Whether these are all there are where Jobs are looked for.
    all_cron_jobs: bool,
}

/// What becomes of an object.
enum Fate {
    Judged(Verdict),
    Child,
    Finished,
    Deleting,
    System,
}

impl Judge<'_> {
    fn item(&self, kind: Kind, item: &RawValue) -> Result<(Value, Fate), serde_json::Error> {
        let mut object: Value = serde_json::from_str(item.get())?;
        // The items of a list of a built-in kind do not say what they are: the list does.
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), format!("{}/{}", kind.group, kind.version).into());
            fields.insert("kind".to_owned(), kind.name.into());
        }
        let fate = self.judge(kind, &object);
        Ok((object, fate))
    }

    /// Judges an object as the webhook would judge its creation.
    fn judge(&self, kind: Kind, object: &Value) -> Fate {
        let metadata = |key: &str| object.get("metadata").and_then(|metadata| metadata.get(key));
        let namespace = metadata("namespace").and_then(Value::as_str).unwrap_or_default();
        if self.options.namespaces.is_empty() && SYSTEM.contains(&namespace) {
            return Fate::System;
        }
        if metadata("deletionTimestamp").is_some_and(|time| !time.is_null()) {
            return Fate::Deleting;
        }
        if !self.options.include_finished
            && Workload::of(object).is_some_and(|workload| workload.has_finished())
        {
            return Fate::Finished;
        }
        let parent = kind.parent().filter(|(parent, children)| self.is_made_by(*parent, children, object));
        let user = parent.map(|(_, children)| children.maker);
        let today = self.options.today;
        let request = Request {
            operation: Operation::Create,
            origin: Origin::Admission,
            object,
            old: None,
            namespace,
            user,
            today,
        };
        let verdict = engine::evaluate(self.policy, self.facts, &request);
        if verdict.skipped == Some(Skipped::TrustedController) { Fate::Child } else { Fate::Judged(verdict) }
    }

    /// Tells whether the controller of another kind made an object. Anybody can write an owner reference;
    /// that it names a CronJob which is there, and is judged, is what makes it harmless to believe.
    fn is_made_by(&self, parent: Kind, children: &Children, job: &Value) -> bool {
        let owners =
            job.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let text =
            |owner: &Value, key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let owner = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let Some(owner) = owner
            .filter(|owner| Kind::typed(&text(owner, "apiVersion"), &text(owner, "kind")) == Some(parent))
        else {
            return false;
        };
        let annotations = job.pointer("/metadata/annotations");
        let by_hand = children
            .by_hand
            .is_some_and(|(key, value)| annotations.and_then(|all| all.get(key)?.as_str()) == Some(value));
        !by_hand && (!self.all_cron_jobs || self.cron_jobs.contains(&*text(owner, "uid")))
    }
}

/// What is left of a list.
#[derive(Default)]
struct Part {
    read: usize,
    findings: Vec<Located>,
    lifted: usize,
    sources: BTreeMap<Arc<str>, Arc<String>>,
    namespaces: BTreeMap<String, Tally>,
    left_out: LeftOut,
    filled: BTreeMap<Arc<str>, Vec<Filled>>,
    cron_jobs: Vec<Box<str>>,
    /// Rules and levels of which an object is kept to be shown.
    shown: BTreeSet<(&'static str, Level)>,
}

impl Part {
    fn take(&mut self, object: &Value, fate: Fate, options: &Options) {
        self.read += 1;
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        if let (Some(uid), true) = (uid, Kind::of(object).is_some_and(|kind| kind.children.is_some())) {
            self.cron_jobs.push(uid.into());
        }
        // What has finished is applied again, too; nobody applies what a controller makes.
        if matches!(fate, Fate::Judged(_) | Fate::Finished) {
            let filled = filled::filled(object);
            if !filled.is_empty() {
                let identity = ObjectId::of(object);
                self.filled.insert(
                    format!("{}/{}", identity.kind.to_lowercase(), identity.full_name()).into(),
                    filled,
                );
            }
        }
        let verdict = match fate {
            Fate::Judged(verdict) => verdict,
            Fate::Child => return self.left_out.children += 1,
            Fate::Finished => return self.left_out.finished += 1,
            Fate::Deleting => return self.left_out.deleting += 1,
            Fate::System => return self.left_out.system += 1,
        };
        let identity = Arc::new(ObjectId::of(object));
        let namespace = identity.namespace.clone().unwrap_or_default();
        *self.namespaces.entry(namespace).or_default() += Tally::of(&verdict);
        self.lifted += verdict.lifted.len();
        if verdict.findings.is_empty() {
            return;
        }
        let file: Arc<str> = format!("{}/{}", identity.kind.to_lowercase(), identity.full_name()).into();
        let keep = options.keep_all_sources
            || self.sources.len() < KEPT
            || verdict.findings.iter().any(|finding| !self.shown.contains(&(finding.rule, finding.level)));
        let text = keep.then(|| Text::of(object)).flatten();
        if let Some(text) = &text {
            self.sources.insert(Arc::clone(&file), Arc::clone(&text.source));
            self.shown.extend(verdict.findings.iter().map(|finding| (finding.rule, finding.level)));
        }
        self.findings.extend(verdict.findings.into_iter().map(|finding| {
            let by_name = finding.path.by_name(object);
            Located { by_name, ..located(finding, &identity, &file, text.as_ref()) }
        }));
    }

    fn join(self, report: &mut Report, impact: &mut Impact, cron_jobs: &mut HashSet<Box<str>>) {
        report.findings.extend(self.findings);
        report.lifted += self.lifted;
        report.sources.extend(self.sources);
        for (namespace, tally) in self.namespaces {
            *impact.namespaces.entry(namespace).or_default() += tally;
        }
        impact.left_out += self.left_out;
        impact.filled.extend(self.filled);
        cron_jobs.extend(self.cron_jobs);
    }
}

/// An object as its owner would read it, for excerpts.
struct Text {
    source: Arc<String>,
    document: yaml::Document,
}

impl Text {
    fn of(object: &Value) -> Option<Self> {
        let mut object = object.clone();
        if let Value::Object(fields) = &mut object {
            fields.remove("status");
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.remove("managedFields");
            }
        }
        let source = Arc::new(yaml::print(&object));
        let document = yaml::documents(source.as_bytes()).next()?.ok()?;
        Some(Self { source, document })
    }

    fn location(&self, file: &Arc<str>, span: std::ops::Range<usize>) -> Location {
        let lines = Lines::new(self.source.as_bytes());
        Location {
            file: Arc::clone(file),
            start: lines.position(span.start),
            end: lines.position(span.end),
            span,
        }
    }
}

/// Looks the places of a finding up, as far as the object's text is kept, and drops what nobody reads any
/// more.
fn located(mut finding: Finding, object: &Arc<ObjectId>, file: &Arc<str>, text: Option<&Text>) -> Located {
    finding.fix.iter_mut().for_each(|fix| fix.ops = Vec::new());
    let nowhere = Location {
        file: Arc::clone(file),
        span: 0..0,
        start: Position { line: 1, column: 1 },
        end: Position { line: 1, column: 1 },
    };
    let at = |pointer, part| {
        text.map(|text| text.location(file, span(text.source.as_bytes(), &text.document, pointer, part)))
    };
    let related = finding.labels.iter().map(|label| {
        let (location, object) = match &label.place {
            Place::Here(pointer, part) => (at(pointer, *part), None),
            Place::Elsewhere { object, .. } => (None, Some(object.clone())),
        };
        Related { location, object, text: label.text.clone() }
    });
    let (related, location) = (related.collect(), at(&finding.pointer, finding.part).unwrap_or(nowhere));
    Located { object: Some(Arc::clone(object)), related, ..Located::new(location, 0, finding) }
}

/// The order of an audit's findings: namespace, kind, name, place, rule. It does not depend on which objects
/// are kept.
fn order(a: &Located, b: &Located) -> std::cmp::Ordering {
    let object = |located: &Located| {
        located
            .object
            .as_ref()
            .map(|object| (object.namespace.clone(), object.kind.clone(), object.name.clone()))
    };
    let finding = |located: &Located| (located.finding.pointer.clone(), located.finding.rule);
    object(a)
        .cmp(&object(b))
        .then_with(|| finding(a).cmp(&finding(b)))
        .then_with(|| (&a.finding.path, &a.finding.message).cmp(&(&b.finding.path, &b.finding.message)))
}
