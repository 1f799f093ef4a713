//! The two webhook configurations, and those of other webhooks.

use std::collections::BTreeMap;

use super::super::examination::{CheckOutcome, Note};
use super::super::observations::{Entry, Observed, Seen, webhooks};
use super::{entries, list, need, or_fine};
use crate::certs::publish::Kind;
use jobgate_core::kinds;
use jobgate_core::kinds::registration::{CONDITION, NAMESPACE_LABEL, SYSTEM, asks_about, is_ours, selects};
use jobgate_core::text::value::Value;
use jobgate_report::plural;

/// The minor versions of Kubernetes 1 that docs/compatibility.md promises.
pub(super) const SUPPORTED: std::ops::RangeInclusive<u32> = 29..=37;
/// Seconds that a request may take in all of admission: the API server allows 34 for kubectl and 60 at most.
const REQUEST_SECONDS: u64 = 30;
/// Maximum number of namespaces that a note lists.
const MAX_LISTED_NAMESPACES: usize = 10;
/// A timeout of this many seconds or more is too long (Kubernetes, "Admission webhook good practices").
const LONG_TIMEOUT: u64 = 10;

pub(super) fn api_server(observed: &Observed) -> CheckOutcome {
    let version =
        need(&observed.version, || Note::not_checked("the API server does not report its version"))?;
    let shown = version["gitVersion"].as_str().unwrap_or("of an unknown version");
    // Some providers write `29+`.
    let number =
        |key: &str| version[key].as_str().and_then(|text| text.trim_end_matches('+').parse::<u32>().ok());
    let (Some(major), Some(minor)) = (number("major"), number("minor")) else {
        return Err(Note::not_checked("the API server does not report its version"));
    };
    let note = match (major, minor) {
        (1, minor) if SUPPORTED.contains(&minor) => Note::ok(format!("Kubernetes {shown}")),
        (1, minor) if minor < *SUPPORTED.start() => Note::problem(format!(
            "Kubernetes {shown} is too old: 1.{} or later is required",
            SUPPORTED.start()
        )),
        _ => Note::warning(format!(
            "Kubernetes {shown} is newer than this version of Jobgate supports (up to 1.{})",
            SUPPORTED.end()
        )),
    };
    Ok(vec![note])
}

pub(super) fn configurations(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    for (kind, seen, all, name, loss) in [
        (
            Kind::Mutating,
            &observed.mutating,
            &observed.all[0],
            &observed.place.mutating,
            "nothing is filled in",
        ),
        (
            Kind::Validating,
            &observed.validating,
            &observed.all[1],
            &observed.place.validating,
            "nothing is denied or warned about",
        ),
    ] {
        match seen {
            Seen::Known(configuration) if webhooks(configuration).is_empty() => {
                notes.push(Note::problem(format!("the {} `{name}` has no webhooks: {loss}", kind.name())));
            }
            Seen::Known(_) => {}
            Seen::Absent => notes.push(Note::problem(format!("there is no {} `{name}`: {loss}{}", kind.name(), elsewhere(all))).remedy(
                "give their names (--mutating-configuration, --validating-configuration), or install Jobgate: kubectl apply -f deploy/install.yaml",
            )),
            Seen::Unread(unread) => notes.push(Note::unread(unread)),
        }
    }
    for (kind, asked) in &observed.renamed {
        let (found, option) = match kind {
            Kind::Mutating => (&observed.place.mutating, "--mutating-configuration"),
            Kind::Validating => (&observed.place.validating, "--validating-configuration"),
        };
        let text =
            format!("there is no {} `{asked}`; `{found}` calls Jobgate and is used instead", kind.name());
        notes.push(Note::warning(text).remedy(format!(
            "name it: jobgate doctor {option} {found}; with self-managed certificates the pods need the same flag: jobgate serve {option} {found}"
        )));
    }
    let count = observed.entries().count();
    or_fine(notes, format!("both exist, with {count} webhooks"))
}

/// Lists the configurations that call a Jobgate in another namespace.
fn elsewhere(all: &Seen<Vec<Value>>) -> String {
    let ours = all.known().into_iter().flatten().filter(|configuration| is_ours(configuration));
    let names: Vec<String> =
        ours.filter_map(|ours| Some(format!("`{}`", ours.pointer("/metadata/name")?.as_str()?))).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("; a Jobgate elsewhere is called by {}", list(names))
    }
}

pub(super) fn target(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    let mut places = Vec::new();
    for entry in entries(observed)? {
        let wanted = match entry.kind {
            Kind::Mutating => "/mutate",
            Kind::Validating => "/validate",
        };
        let name = entry.name();
        if let Some(url) = entry.url() {
            places.push(url.to_owned());
            if !url.ends_with(wanted) {
                notes.push(Note::problem(format!("{name} calls {url}, not {wanted}")));
            }
            continue;
        }
        let Some(service) = entry.service() else {
            notes.push(Note::problem(format!("{name} has neither a Service nor a URL")));
            continue;
        };
        let text = |key: &str| service[key].as_str().unwrap_or_default();
        let place = format!("{}/{}", text("namespace"), text("name"));
        if text("namespace") != observed.place.namespace {
            notes.push(
                Note::problem(format!(
                    "{name} calls the Service {place}, not one in {}",
                    observed.place.namespace
                ))
                .remedy(format!("if Jobgate is there: jobgate doctor --namespace {}", text("namespace"))),
            );
        }
        if text("path") != wanted {
            notes.push(Note::problem(format!("{name} calls the path {:?}, not {wanted}", text("path"))));
        }
        let ports = observed
            .service
            .known()
            .map(|service| &service["spec"])
            .filter(|spec| spec["type"] != "ExternalName");
        let has = |spec: &Value| {
            spec["ports"]
                .as_array()
                .is_some_and(|ports| ports.iter().any(|port| port["port"] == entry.port()))
        };
        if ports.is_some_and(|spec| !has(spec)) {
            notes.push(Note::problem(format!(
                "{name} calls port {} of the Service {place}, which has no such port",
                entry.port()
            )));
        }
        places.push(format!("the Service {place}, port {}", entry.port()));
    }
    if let Seen::Unread(unread) = &observed.service
        && observed.entries().any(|entry| entry.service().is_some())
    {
        notes.push(Note::unread(unread));
    }
    places.sort();
    places.dedup();
    if places.len() > 1 && observed.entries().all(|entry| entry.service().is_some()) {
        notes.push(Note::problem(format!("the webhooks call different Services: {}", list(&places))));
    }
    or_fine(notes, format!("they call {}", list(&places)))
}

/// Returns whether a list in a webhook's rule has the value, or `*`.
fn lists(rule: &Value, key: &str, value: &str) -> bool {
    rule[key].as_array().is_some_and(|list| list.iter().any(|item| item == value || item == "*"))
}

fn matches(webhook: &Value, kind: kinds::Kind, operation: &str) -> bool {
    let rules = webhook["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let other_scope = if kind.cluster_scoped { "Namespaced" } else { "Cluster" };
    rules.iter().any(|rule| {
        lists(rule, "apiGroups", kind.group)
            && lists(rule, "apiVersions", kind.version)
            && (lists(rule, "resources", kind.resource) || lists(rule, "resources", "*/*"))
            && lists(rule, "operations", operation)
            && rule["scope"] != other_scope
    })
}

/// The operations that webhooks are called for.
const OPERATIONS: [&str; 2] = ["CREATE", "UPDATE"];

/// Returns the kinds that webhooks can be called for.
fn registered() -> impl Iterator<Item = kinds::Kind> {
    kinds::Kind::all().filter(|kind| !kind.untested)
}

pub(super) fn rules(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    entries(observed)?;
    let is_covered = |configuration: &Value, kind: kinds::Kind, operation: &str| {
        webhooks(configuration).iter().any(|webhook| matches(webhook, kind, operation))
    };
    // Kinds of operators can be left out.
    let off: Vec<kinds::Kind> = registered()
        .filter(|kind| !kind.is_built_in())
        .filter(|kind| {
            observed.configurations().all(|(_, configuration)| {
                !OPERATIONS.iter().any(|operation| is_covered(configuration, *kind, operation))
            })
        })
        .collect();
    for (kind, configuration) in observed.configurations() {
        let missing: Vec<String> = registered()
            .filter(|kind| !off.contains(kind))
            .flat_map(|kind| OPERATIONS.map(|operation| (kind, operation)))
            .filter(|(kind, operation)| !is_covered(configuration, *kind, operation))
            .map(|(kind, operation)| format!("{operation} of {}.{}", kind.resource, kind.group))
            .collect();
        if !missing.is_empty() && !webhooks(configuration).is_empty() {
            notes.push(Note::problem(format!("the {} does not cover {}", kind.name(), list(missing))));
        }
    }
    for entry in observed.entries() {
        let mut more: Vec<String> = Vec::new();
        for rule in entry.webhook["rules"].as_array().into_iter().flatten() {
            for key in ["apiGroups", "apiVersions", "resources", "operations"] {
                let values = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                let beyond = |value: &str| match key {
                    "operations" => !OPERATIONS.contains(&value),
                    "resources" => {
                        value.contains(['*', '/']) || !registered().any(|kind| kind.resource == value)
                    }
                    _ => value.contains('*'),
                };
                more.extend(values.filter(|value| beyond(value)).map(|value| format!("{value} in {key}")));
            }
        }
        more.dedup();
        if !more.is_empty() {
            notes.push(Note::warning(format!("{} is also called for {}", entry.name(), list(more))));
        }
    }
    let (off, on): (Vec<kinds::Kind>, Vec<kinds::Kind>) = registered().partition(|kind| off.contains(kind));
    let names = |kinds: Vec<kinds::Kind>| {
        let mut names: Vec<String> =
            kinds.iter().map(|kind| format!("{}.{}", kind.resource, kind.group)).collect();
        names.dedup();
        list(names)
    };
    let left_out = if off.is_empty() { String::new() } else { format!("; not {}", names(off)) };
    or_fine(notes, format!("{}{left_out}", names(on)))
}

/// Returns the namespaces that an entry's selector is limited to, by the label that cannot be forged.
fn only(webhook: &Value) -> Option<Vec<&str>> {
    let selector = &webhook["namespaceSelector"];
    let label = selector["matchLabels"][NAMESPACE_LABEL].as_str().map(|name| vec![name]);
    label.or_else(|| {
        let mut expressions = selector["matchExpressions"].as_array()?.iter();
        let named = expressions
            .find(|expression| expression["key"] == NAMESPACE_LABEL && expression["operator"] == "In")?;
        Some(named["values"].as_array()?.iter().filter_map(Value::as_str).collect())
    })
}

pub(super) fn failure_policy(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    let mut closed = Vec::new();
    for entry in entries(observed)?.into_iter().filter(|entry| entry.fails_closed()) {
        let name = entry.name();
        match (entry.kind, only(entry.webhook)) {
            (Kind::Validating, Some(namespaces)) => closed.extend(namespaces),
            (Kind::Validating, None) => notes.push(Note::warning(format!(
                "{name} has `Fail` for the whole cluster: while Jobgate is down no job can be created or changed, and CronJobs miss runs"
            ))),
            (Kind::Mutating, _) => notes.push(Note::warning(format!(
                "{name} has `Fail`: while Jobgate is down no job can be created or changed; use `Ignore`: a Job that is not filled in is still judged"
            ))),
        }
    }
    closed.sort_unstable();
    closed.dedup();
    let text = match closed.is_empty() {
        true => "fails open: while Jobgate is down, jobs are admitted unjudged".to_owned(),
        false => format!(
            "fails closed in {}: while Jobgate is down no job can be created there, and CronJobs miss runs; elsewhere jobs are admitted unjudged",
            list(closed)
        ),
    };
    or_fine(notes, text)
}

pub(super) fn selectors(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    for entry in entries(observed)? {
        let (name, webhook) = (entry.name(), entry.webhook);
        let asked = |namespace: &str| {
            selects(&webhook["namespaceSelector"], |key| (key == NAMESPACE_LABEL).then_some(namespace))
        };
        let system: Vec<&str> = SYSTEM.into_iter().filter(|namespace| asked(namespace)).collect();
        if !system.is_empty() {
            notes.push(Note::warning(format!("{name} is called for {}", list(system))));
        }
        let own = observed.place.namespace.as_str();
        // A server at a URL does not start in the cluster.
        if entry.service().is_some() && asked(own) {
            let text = format!("{name} is called for Jobgate's own namespace {own}");
            notes.push(if entry.fails_closed() { Note::problem(text) } else { Note::warning(text) });
        }
        let labels =
            webhook["namespaceSelector"]["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key);
        let keys = webhook["namespaceSelector"]["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|expression| expression["key"].as_str());
        let mut forgeable: Vec<&str> = labels.chain(keys).filter(|key| *key != NAMESPACE_LABEL).collect();
        forgeable.dedup();
        if !forgeable.is_empty() {
            notes.push(Note::warning(format!(
                "{name} selects namespaces by {}: anyone who may label a namespace can bypass it",
                list(forgeable)
            )));
        }
        if webhook["objectSelector"].as_object().is_some_and(|selector| !selector.is_empty()) {
            notes.push(Note::warning(format!(
                "{name} has an object selector: authors can bypass it with labels"
            )));
        }
        let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
        let strange: Vec<&str> = conditions
            .filter(|condition| condition["expression"] != CONDITION.1)
            .map(|condition| condition["name"].as_str().unwrap_or("?"))
            .collect();
        if !strange.is_empty() {
            notes.push(Note::warning(format!(
                "{name} has match conditions that are not Jobgate's: {}",
                list(strange)
            )));
        }
    }
    match &observed.namespaces {
        Seen::Known(namespaces) => notes.extend(left_out(observed, namespaces)),
        Seen::Absent => {}
        Seen::Unread(unread) => notes.push(Note::unread(unread)),
    }
    or_fine(notes, "only the system's namespaces and Jobgate's own are skipped")
}

/// Lists the namespaces that a webhook skips besides the intended ones: jobs there are not judged.
fn left_out(observed: &Observed, namespaces: &[Value]) -> Vec<Note> {
    let name = |namespace: &Value| {
        namespace.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let tenants = namespaces.iter().filter(|namespace| {
        let name = name(namespace);
        !SYSTEM.contains(&&*name) && name != observed.place.namespace
    });
    let mut missed: BTreeMap<Vec<&'static str>, Vec<String>> = BTreeMap::new();
    for namespace in tenants {
        let out = observed.configurations().filter(|(_, configuration)| {
            !webhooks(configuration).is_empty() && !asks_about(configuration, namespace)
        });
        let out: Vec<&'static str> = out
            .map(|(kind, _)| match kind {
                Kind::Mutating => "filled in",
                Kind::Validating => "denied or warned about",
            })
            .collect();
        if !out.is_empty() {
            missed.entry(out).or_default().push(name(namespace));
        }
    }
    let note = |(what, mut names): (Vec<&str>, Vec<String>)| {
        names.sort();
        let (nouns, what) = (plural(names.len(), "namespace"), what.join(" or "));
        let more = names.split_off(names.len().min(MAX_LISTED_NAMESPACES)).len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Note::warning(format!("{nouns} skipped, where no job is {what}: {}{more}", list(names)))
            .remedy("if that is not intended, correct the namespaceSelector: kubectl edit mutatingwebhookconfiguration/{mutating} validatingwebhookconfiguration/{validating}")
    };
    missed.into_iter().map(note).collect()
}

pub(super) fn settings(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    for Entry { kind, webhook } in entries(observed)? {
        let name = webhook["name"].as_str().unwrap_or_default();
        let mut differ = |key: &str, wanted: &str, note: fn(String) -> Note| {
            if webhook[key].as_str().is_some_and(|value| value != wanted) {
                notes.push(note(format!(
                    "{name} has `{key}: {}`, not `{wanted}`",
                    webhook[key].as_str().unwrap_or_default()
                )));
            }
        };
        differ("matchPolicy", "Equivalent", Note::warning);
        differ("sideEffects", "None", Note::warning);
        if kind == Kind::Mutating {
            differ("reinvocationPolicy", "IfNeeded", Note::warning);
        }
        if !lists(webhook, "admissionReviewVersions", "v1") {
            notes.push(Note::problem(format!("{name} does not list the review version v1")));
        }
    }
    or_fine(notes, "as in the manifests")
}

pub(super) fn timeouts(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    let entries = entries(observed)?;
    let long: Vec<String> = entries
        .iter()
        .filter(|entry| entry.timeout() >= LONG_TIMEOUT)
        .map(|entry| format!("{} ({} s)", entry.name(), entry.timeout()))
        .collect();
    if !long.is_empty() {
        notes.push(Note::warning(format!(
            "long timeouts delay every job while Jobgate is down: {}",
            list(long)
        )));
    }
    let mut worst = 0;
    let mut slow = Vec::new();
    for (kind, seen) in [(Kind::Mutating, &observed.all[0]), (Kind::Validating, &observed.all[1])] {
        let all = match seen {
            Seen::Known(all) => all,
            Seen::Absent => continue,
            Seen::Unread(unread) => {
                notes.push(Note::unread(unread));
                continue;
            }
        };
        let asked =
            all.iter().flat_map(webhooks).filter(|webhook| matches(webhook, kinds::Kind::JOB, "CREATE"));
        let times: Vec<(u64, &str)> = asked
            .map(|webhook| (Entry { kind, webhook }.timeout(), webhook["name"].as_str().unwrap_or_default()))
            .collect();
        // Mutating webhooks are called one after the other, validating ones at the same time.
        worst += match kind {
            Kind::Mutating => times.iter().map(|(seconds, _)| seconds).sum::<u64>(),
            Kind::Validating => times.iter().map(|(seconds, _)| *seconds).max().unwrap_or_default(),
        };
        slow.extend(times);
    }
    if worst >= REQUEST_SECONDS {
        slow.sort_unstable_by_key(|(seconds, name)| (std::cmp::Reverse(*seconds), *name));
        let named = list(slow.iter().take(5).map(|(seconds, name)| format!("{name} ({seconds} s)")));
        notes.push(Note::warning(format!(
            "the webhooks called for a Job may take {worst} s together, longer than a request may: {named}"
        )));
    }
    or_fine(notes, format!("a Job waits {worst} s at most for all webhooks of the cluster"))
}

pub(super) fn duplicates(observed: &Observed) -> CheckOutcome {
    let ours = entries(observed)?;
    let leads_to_us = |webhook: &Value| {
        let client = &webhook["clientConfig"];
        ours.iter().any(|entry| {
            let own = &entry.webhook["clientConfig"];
            let same = |pointer: &str| {
                own.pointer(pointer).is_some() && own.pointer(pointer) == client.pointer(pointer)
            };
            (same("/service/name") && same("/service/namespace")) || same("/url")
        })
    };
    let mut notes = Vec::new();
    for (kind, seen, own) in [
        (Kind::Mutating, &observed.all[0], &observed.place.mutating),
        (Kind::Validating, &observed.all[1], &observed.place.validating),
    ] {
        match seen {
            Seen::Unread(unread) => notes.push(Note::unread(unread)),
            Seen::Absent => {}
            Seen::Known(all) => {
                let others =
                    all.iter().filter(|configuration| configuration["metadata"]["name"] != own.as_str());
                let others = others.filter(|configuration| webhooks(configuration).iter().any(leads_to_us));
                notes.extend(others.map(|other| {
                    Note::warning(format!(
                        "the {} `{}` calls it, too",
                        kind.name(),
                        other["metadata"]["name"].as_str().unwrap_or_default()
                    ))
                }));
            }
        }
    }
    or_fine(notes, "none")
}
