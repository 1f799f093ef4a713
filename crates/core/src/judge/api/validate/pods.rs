//! The pods and Jobs that an operator makes of the templates in a custom resource: why the API server refuses them.
//!
//! They get the same defaults and checks as the template of a Job. What is different in each kind is in its
//! [`Made`](crate::kinds::Made).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::cause::{Cause, Causes, Reason};
use super::part::ObjectPart;
use super::{custom, env, job, operator, pod, resources, validate};
use crate::judge::api::defaults;
use crate::kinds::{Field, Kind, Mounted, Part, Reference, TEMPLATE, each_at};
use crate::text::meter;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// Why pods of an object are refused.
pub(in crate::judge::api) struct RefusedPods {
    /// What is wrong where it stands.
    pub(crate) wrong: Vec<Cause>,
    /// What is missing, and may be added by a webhook for pods.
    pub(crate) missing: Vec<Cause>,
}

/// Returns why the API server refuses the pods and Jobs of a custom resource, without what is refused before: by the schema
/// of the resource or by its operator.
#[must_use]
pub(in crate::judge::api) fn pods_refused(kind: Kind, object: &Value) -> RefusedPods {
    // The server prunes `null` before a resource is stored.
    let pruned = has_null(object).then(|| without_nulls(object));
    let object = pruned.as_ref().unwrap_or(object);
    let stored = defaults::with_pods(kind, object);
    let root = ObjectPart::root(&stored);
    let mut causes = Causes::default();
    for form in kind.pods.iter().filter(|form| form.template.containers == TEMPLATE.containers) {
        custom::each(&root, form.at, None, &mut |_, around| match form.is_job() {
            true if around.is_mapping() => job::job_spec(around, &mut causes),
            false if around.at(form.template.at).is_mapping() => {
                pod::template(&around.at(form.template.at), &mut causes);
            }
            _ => {}
        });
    }
    let mut causes = causes.into_vec();
    if let Some(reference) = &kind.runs_in {
        causes.extend(overrides_refused(reference, &root, object));
    }
    if !causes.is_empty() {
        // Rare, so that it may take its time.
        let whole = defaults::stored(object);
        let mut before = validate(&whole);
        before.extend(operator::refusals(&whole));
        let before: HashSet<Pointer> = before.into_iter().map(|known| known.path).collect();
        causes.retain(|cause| !before.contains(&cause.path) && is_of_pods(kind, object, cause));
    }
    let (missing, wrong) = causes.into_iter().partition(is_missing);
    RefusedPods { wrong, missing }
}

/// Tells whether an entry of a mapping is `null`, at any depth.
fn has_null(value: &Value) -> bool {
    meter::spend(1);
    match value {
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(entries) => entries.values().any(|entry| entry.is_null() || has_null(entry)),
        _ => false,
    }
}

/// Returns a value without the entries of mappings that are `null`. Items of lists keep their places.
fn without_nulls(value: &Value) -> Value {
    meter::spend(1);
    match value {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(entries) => {
            let entries = entries.iter().filter(|(_, entry)| !entry.is_null());
            Value::Object(entries.map(|(key, entry)| (key.to_string(), without_nulls(entry))).collect())
        }
        other => other.clone(),
    }
}

/// Returns why the API server refuses the pods of another object, with what an object writes into them.
fn overrides_refused(reference: &Reference, root: &ObjectPart<'_, '_>, object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let trainer = root.at(reference.trainer);
    let pod = pod::Pod { volumes: BTreeMap::new(), claims: BTreeSet::new(), grace: None };
    env::variables(&trainer.get("env"), &pod, &mut causes);
    if let Some(field) = reference.resources.last() {
        resources::of_container(&trainer.get(field), &pod.claims, &mut causes);
    }
    custom::each(root, reference.patches, None, &mut |_, spec| {
        if spec.is_mapping() {
            pod::spec(spec, &mut causes);
        }
    });
    // What is not written here is in the other object.
    let is_written = |cause: &Cause| cause.reason != Reason::NotFound && cause.pointer.find(object).is_some();
    let mut causes = causes.into_vec();
    causes.retain(is_written);
    causes
}

/// Tells whether something is missing that a webhook for pods may add: a volume, an image, the containers.
fn is_missing(cause: &Cause) -> bool {
    match cause.reason {
        Reason::NotFound => true,
        Reason::Required => {
            matches!(cause.path.last(), Some(Token::Key(key)) if ["containers", "image"].contains(&&**key))
        }
        _ => false,
    }
}

/// Tells whether a cause holds after what the operator does, and for what is written.
fn is_of_pods(kind: Kind, object: &Value, cause: &Cause) -> bool {
    let last = match cause.path.last() {
        Some(Token::Key(key)) => &**key,
        _ => "",
    };
    let written = cause.pointer.find(object);
    match cause.reason {
        // `Always` for the pods of a Job is what the rule on restarts is about.
        Reason::Required if last == "restartPolicy" => false,
        // A value of a wrong type counts as none.
        Reason::Required => written.is_none_or(|value| {
            let is_empty = value.as_str().is_some_and(str::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_i64() == Some(0);
            value.is_null() || value.is_object() || is_empty
        }),
        Reason::NotFound => match (written.and_then(Value::as_str), kind.made.volumes) {
            (Some(name), Some(added)) => !added.contains(&name) && !is_own_claim(kind, object, name),
            (_, volumes) => volumes.is_some(),
        },
        _ => true,
    }
}

/// Tells whether an object makes a claim of a name, which becomes a volume of the pods.
fn is_own_claim(kind: Kind, object: &Value, name: &str) -> bool {
    let root = Part::root(object);
    let mut is_one = false;
    for claims in kind.claims.iter().filter(|claims| claims.mounted == Mounted::ByName) {
        each_at(&root, claims.at, &mut |claim| is_one |= claim.at(claims.name).text() == Field::Set(name));
    }
    is_one
}
