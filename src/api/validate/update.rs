//! What may change in an object that exists (kubernetes.md §2): what the API server asks of an UPDATE besides the validation of the new object.

use serde_json::Value;

use super::cause::{Cause, Causes, set};
use crate::pointer::{Pointer, Token};
use crate::workload::{Kind, Part};

/// Returns why the API server would refuse to put an object into the place of another; nothing where it would, or where the kind or version is not known
/// here.
///
/// Both objects have their [defaults](crate::api::defaults::defaulted).
#[must_use]
pub fn validate_update(defaulted: &Value, old: &Value) -> Vec<Cause> {
    let (new, before) = (Part::root(defaulted), Part::root(old));
    let version = defaulted.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    match (Kind::of(defaulted), version) {
        (Some(Kind::Job), "batch/v1") => {
            let mut causes = Causes::default();
            super::job(&new, &mut causes);
            metadata(&new, &before, &mut causes);
            job(&new, &before, &mut causes);
            causes.into_vec()
        }
        (Some(Kind::CronJob), "batch/v1" | "batch/v1beta1") => {
            let mut causes = Causes::default();
            super::cron_job(&new, Some(&before), &mut causes);
            metadata(&new, &before, &mut causes);
            causes.into_vec()
        }
        (Some(Kind::PyTorchJob), "kubeflow.org/v1") => {
            let mut causes = Causes::default();
            metadata(&new, &before, &mut causes);
            py_torch_job(&new, &before, &mut causes);
            causes.into_vec()
        }
        _ => Vec::new(),
    }
}

const IMMUTABLE: &str = "field is immutable";

fn metadata(new: &Part<'_>, old: &Part<'_>, causes: &mut Causes) {
    if !set(&old.at(&["metadata", "deletionTimestamp"])) {
        return;
    }
    let (after, before) = (new.at(&["metadata", "finalizers"]), old.at(&["metadata", "finalizers"]));
    let added: Vec<&str> =
        after.items().filter(|item| !before.items().any(|known| known.value == item.value)).filter_map(|item| item.value?.as_str()).collect();
    if !added.is_empty() {
        let added: Vec<String> = added.iter().map(|name| crate::k8s::go::quoted(name)).collect();
        let detail = format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}", added.join(", "));
        causes.forbidden(&after.pointer, &detail);
    }
}

fn job(new: &Part<'_>, old: &Part<'_>, causes: &mut Causes) {
    let (spec, before) = (new.get("spec"), old.get("spec"));
    completions(&spec, &before, causes);
    immutable(&spec.get("selector"), &before.get("selector"), causes);
    template(&spec, old, causes);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(&spec.get(field), &before.get(field), causes);
    }
}

fn completions(spec: &Part<'_>, old: &Part<'_>, causes: &mut Causes) {
    let (new, before) = (spec.get("completions"), old.get("completions"));
    if spec.get("completionMode").value.and_then(Value::as_str) != Some("Indexed") {
        immutable(&new, &before, causes);
    } else if new.value != before.value && set(&new) && new.value != spec.get("parallelism").value {
        causes.invalid(&new, "can only be modified in tandem with spec.parallelism");
    }
}

fn immutable(new: &Part<'_>, old: &Part<'_>, causes: &mut Causes) {
    if new.value != old.value {
        causes.invalid_shown(&new.pointer, &shown(new.value), IMMUTABLE);
    }
}

/// The server shows whole structures with the names of its internal types, for pages; here they are left out.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "null".to_owned(),
        Some(Value::String(text)) => crate::k8s::go::quoted(text),
        Some(Value::Object(_)) => "{…}".to_owned(),
        Some(Value::Array(_)) => "[…]".to_owned(),
        Some(value) => value.to_string(),
    }
}

/// The parts of a pod template that decide where pods go: they may change while the Job is suspended.
const DIRECTIVES: [&[&str]; 5] =
    [&["metadata", "annotations"], &["metadata", "labels"], &["spec", "nodeSelector"], &["spec", "tolerations"], &["spec", "schedulingGates"]];

fn template(spec: &Part<'_>, old: &Part<'_>, causes: &mut Causes) {
    let (new, before) = (spec.get("template"), old.at(&["spec", "template"]));
    if new.value == before.value {
        return;
    }
    let (Some(after), Some(known)) = (new.value, before.value) else {
        causes.invalid_shown(&new.pointer, &shown(new.value), IMMUTABLE);
        return;
    };
    let known = if is_idle(old) { with_directives(known, after) } else { known.clone() };
    if let Some(place) = difference(after, &known) {
        causes.invalid_shown(&new.pointer, "{…}", IMMUTABLE).pointer = new.pointer.join(&place);
    }
}

/// Tells whether a Job is suspended and has no pods left: since 1.36 it may have run before.
fn is_idle(job: &Part<'_>) -> bool {
    let status = job.get("status");
    let says_so = status.get("conditions").items().any(|condition| {
        let text = |key: &'static str| condition.get(key).value.and_then(Value::as_str);
        text("type") == Some("Suspended") && text("status") == Some("True")
    });
    job.at(&["spec", "suspend"]).bool().set() == Some(true)
        && (!set(&status.get("startTime")) || says_so)
        && status.get("active").int().set().unwrap_or_default() == 0
}

/// Returns the old template with what may change of a suspended Job taken from the new one.
fn with_directives(old: &Value, new: &Value) -> Value {
    let mut allowed = old.clone();
    for way in DIRECTIVES {
        take(&mut allowed, new, way);
    }
    let has_affinity = |template: &Value| template.pointer("/spec/affinity").is_some();
    take(&mut allowed, new, &["spec", "affinity", "nodeAffinity"]);
    if let Some(pod) = allowed.get_mut("spec").and_then(Value::as_object_mut) {
        let empty = |pod: &serde_json::Map<String, Value>| pod.get("affinity").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
        if !has_affinity(new) && empty(pod) {
            pod.remove("affinity");
        }
        if has_affinity(new) {
            pod.entry("affinity").or_insert_with(|| Value::Object(serde_json::Map::new()));
        }
        for list in ["containers", "initContainers"] {
            let newer = new.get("spec").and_then(|pod| pod.get(list)).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let older = pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for (old, new) in older.zip(newer).filter(|(old, new)| old.get("name") == new.get("name")) {
                take(old, new, &["resources"]);
            }
        }
    }
    allowed
}

/// Makes a place of one value what it is in another.
fn take(target: &mut Value, from: &Value, way: &[&str]) {
    let Some((last, way)) = way.split_last() else { return };
    let value = way.iter().try_fold(from, |value, key| value.get(key)).and_then(|value| value.get(last)).cloned();
    let mut here = target;
    for key in way {
        let Some(entries) = here.as_object_mut() else { return };
        if value.is_none() && !entries.contains_key(*key) {
            return;
        }
        here = entries.entry(*key).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    let Some(entries) = here.as_object_mut() else { return };
    match value {
        Some(value) => _ = entries.insert((*last).to_owned(), value),
        None => _ = entries.remove(*last),
    }
}

/// Returns the first place in which two values differ, as deep as both have it.
fn difference(new: &Value, old: &Value) -> Option<Pointer> {
    let below = |token: Token, rest: Pointer| Pointer::root().then(token).join(&rest);
    match (new, old) {
        (new, old) if new == old => None,
        (Value::Object(new), Value::Object(old)) => {
            let mut keys: Vec<&String> = new.keys().chain(old.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.into_iter().find_map(|key| match (new.get(key), old.get(key)) {
                (Some(new), Some(old)) => Some(below(Token::Key(key.clone().into()), difference(new, old)?)),
                _ => Some(Pointer::root().key(key)),
            })
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
            new.iter().zip(old).enumerate().find_map(|(index, (new, old))| Some(below(Token::Index(index), difference(new, old)?)))
        }
        _ => Some(Pointer::root()),
    }
}

fn py_torch_job(new: &Part<'_>, old: &Part<'_>, causes: &mut Causes) {
    const QUEUE: [&str; 4] = ["spec", "runPolicy", "schedulingPolicy", "queue"];
    let (after, before) = (new.at(&QUEUE), old.at(&QUEUE));
    if set(&after) && set(&before) && after.value != before.value {
        causes.invalid(&after, "spec.runPolicy.schedulingPolicy.queue is immutable");
    }
}
