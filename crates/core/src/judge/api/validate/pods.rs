//! The pods and Jobs that an operator makes of the templates in a custom resource: why the API server refuses them.
//!
//! They get the same defaults and checks as the template of a Job. What is different in each kind is in its
//! [`Made`](crate::kinds::Made).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::cause::{Cause, Causes, Reason};
use super::object_part::ObjectPart;
use super::{env, job, operator, pod, pod_annotations, resources, validate};
use crate::judge::api::defaults;
use crate::judge::api::place::{ApiPlace, PlaceStep, each_mapping, value_at};
use crate::judge::api::template_pods::own_claims;
use crate::kinds::{Kind, Reference};
use crate::text::meter;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// Maximum values in a `spec` of which the pods are validated. A large template has a few hundred.
pub(crate) const MOST_VALUES: usize = 10_000;
/// So many values are looked at in a step where nothing else is done with them.
const CHEAP: u64 = 16;

/// Why pods of an object are refused.
pub(in crate::judge::api) struct RefusedPods {
    /// What is wrong where it stands.
    pub(crate) wrong: Vec<Cause>,
    /// What is missing, and may be added by a webhook for pods.
    pub(crate) missing: Vec<Cause>,
}

/// Returns why the API server refuses the pods and Jobs of a custom resource, without what is refused before: by the schema
/// of the resource or by its operator. Nothing if its `spec` has more than [`MOST_VALUES`] values.
#[must_use]
pub(in crate::judge::api) fn pods_refused(kind: Kind, object: &Value) -> Option<RefusedPods> {
    // The server prunes `null` before a resource is stored.
    let mut left = MOST_VALUES;
    let has_null = object.get("spec").map_or(Some(false), |spec| has_null(spec, &mut left))?;
    let pruned = has_null.then(|| without_nulls(object));
    let object = pruned.as_ref().unwrap_or(object);
    let mut causes = Causes::default();
    for form in kind.pods.iter().filter(|form| form.template.is_of_kubernetes()) {
        each_mapping(&ApiPlace::ROOT, object, form.at, &mut |place, around| {
            if form.is_job() {
                let job = defaults::made_job(kind, form, around);
                return job::job_spec(&ObjectPart::at_place(place, &job), &mut causes);
            }
            let Some(template) = value_at(around, form.template.at).filter(|template| template.is_object())
            else {
                return;
            };
            let template = defaults::made_template(kind, form, template);
            let place = place.step(PlaceStep::Fields(form.template.at));
            pod::template(&ObjectPart::at_place(place, &template), &mut causes);
        });
    }
    let mut causes = causes.into_vec();
    if let Some(reference) = &kind.runs_in {
        causes.extend(overrides_refused(reference, object));
    }
    if !causes.is_empty() {
        // Rare, so that it may take its time.
        let whole = defaults::stored(object);
        let mut before = validate(&whole);
        before.extend(operator::refusals(&whole));
        let before: HashSet<Pointer> = before.into_iter().map(|known| known.path).collect();
        let own = own_claims(kind, object);
        causes.retain(|cause| !before.contains(&cause.path) && is_of_pods(kind, &own, object, cause));
    }
    let (missing, wrong) = causes.into_iter().partition(is_missing);
    Some(RefusedPods { wrong, missing })
}

/// Tells whether an entry of a mapping is `null`, at any depth. Counts the values down; nothing once none are left.
fn has_null(value: &Value, left: &mut usize) -> Option<bool> {
    let mut take = |count: usize| {
        meter::spend(1 + count as u64 / CHEAP);
        *left = left.checked_sub(count)?;
        Some(())
    };
    match value {
        Value::Array(items) => {
            take(items.len())?;
            items.iter().try_fold(false, |found, item| Some(has_null(item, left)? || found))
        }
        Value::Object(entries) => {
            take(entries.len())?;
            entries
                .values()
                .try_fold(false, |found, entry| Some(has_null(entry, left)? || entry.is_null() || found))
        }
        _ => Some(false),
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
fn overrides_refused(reference: &Reference, object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    each_mapping(&ApiPlace::ROOT, object, reference.trainer, &mut |place, value| {
        let trainer = defaults::trainer(reference, value);
        let trainer = ObjectPart::at_place(place, &trainer);
        let pod = pod::Pod { volumes: BTreeMap::new(), claims: BTreeSet::new(), grace: None };
        env::variables(&trainer.get("env"), &pod, &mut causes);
        if let Some(field) = reference.resources.last() {
            resources::of_container(&trainer.get(field), &pod.claims, &mut causes);
        }
    });
    each_mapping(&ApiPlace::ROOT, object, reference.patches, &mut |place, value| {
        pod::spec(&ObjectPart::at_place(place, &defaults::pod_patch(value)), &mut causes);
    });
    // What is not written here is in the other object.
    let is_written = |cause: &Cause| cause.reason != Reason::NotFound && cause.pointer.find(object).is_some();
    let mut causes = causes.into_vec();
    causes.retain(is_written);
    causes
}

/// Tells whether something is missing that a webhook for pods may add: a volume, an image, containers.
fn is_missing(cause: &Cause) -> bool {
    match cause.reason {
        Reason::NotFound => true,
        Reason::Required => {
            matches!(cause.path.last(), Some(Token::Key(key)) if ["containers", "image", "reference"].contains(&&**key))
        }
        Reason::Invalid => cause.message.ends_with(pod_annotations::NO_CONTAINER),
        _ => false,
    }
}

/// Tells whether a cause holds after what the operator does, and for what is written.
fn is_of_pods(kind: Kind, own: &BTreeSet<&str>, object: &Value, cause: &Cause) -> bool {
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
            (Some(name), Some(added)) => !added.contains(&name) && !own.contains(name),
            (_, volumes) => volumes.is_some(),
        },
        _ => true,
    }
}
