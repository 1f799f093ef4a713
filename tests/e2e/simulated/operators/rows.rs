//! Rows of recordings of operators, in the format of `operator-failures.md`: made of what was seen, and held against those of
//! another time.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::rows::{self, STEP, is_near, list};
use super::objects::{ObjectSeen, Seen as Objects};
use crate::kubelet::timeline::{Seen, Timeline};

/// Returns what was observed, as a row has it; times in a status are counted from a second.
pub(super) fn observed(
    (kind, name): (&str, &str),
    objects: &Objects,
    timeline: &Timeline,
    until: f64,
    began: f64,
) -> Value {
    let is_main = |object: &&ObjectSeen| object.kind == kind && object.name == name;
    let mut observed = json!({
        "until": until, "conditions": [], "status": {}, "deleting": null, "gone": null,
        "pods": timeline.pods.iter().map(pod).collect::<Vec<Value>>(),
        "events": objects.events,
    });
    if let Some(main) = objects.objects.iter().find(is_main) {
        merge(&mut observed, life(main, began));
    }
    let mut others: Vec<Value> = Vec::new();
    for object in objects.objects.iter().filter(|object| !is_main(object)) {
        let is_same = |other: &&Value| other["kind"] == object.kind && other["name"] == *object.name;
        let mut row = json!({"kind": object.kind, "name": object.name, "created": object.created});
        row["nth"] = others.iter().filter(is_same).count().into();
        merge(&mut row, life(object, began));
        others.push(row);
    }
    observed["objects"] = others.into();
    if let Some((at, message)) = timeline.refused.first() {
        observed["refused"] = json!({"at": (at * 10.0).round() / 10.0, "message": message});
    }
    observed
}

fn merge(into: &mut Value, fields: Value) {
    if let (Some(into), Value::Object(fields)) = (into.as_object_mut(), fields) {
        into.extend(fields);
    }
}

fn life(object: &ObjectSeen, began: f64) -> Value {
    let mut status = object.status.clone();
    relative(&mut status, began);
    json!({"conditions": object.conditions, "status": status, "deleting": object.deleting, "gone": object.gone})
}

/// Writes times as seconds after a second.
fn relative(value: &mut Value, began: f64) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| relative(value, began)),
        Value::Array(items) => items.iter_mut().for_each(|item| relative(item, began)),
        Value::String(text) => {
            if let Ok(at) = text.parse::<jiff::Timestamp>() {
                #[allow(clippy::cast_precision_loss, reason = "milliseconds of this century")]
                let at = at.as_millisecond() as f64 / 1000.0 - began;
                *value = json!((at * 10.0).round() / 10.0);
            }
        }
        _ => {}
    }
}

/// Returns a pod. Of the operators that make pods themselves, one that came and went at once is marked: how many there are is
/// chance.
fn pod(seen: &Seen) -> Value {
    let mut row = rows::pod(seen);
    // An exit code says the same.
    if row["reason"] == "Error" {
        row.as_object_mut().expect("a pod is an object").remove("reason");
    }
    row["role"] = seen.role.as_str().into();
    if let Some(set) = seen.set {
        row["set"] = set.into();
    }
    if seen.is_blink() && seen.set.is_none() {
        row["blink"] = true.into();
    }
    row
}

/// Returns how two recordings of one row differ by more than two of one release do.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let is_kubeflow =
        before["manifest"]["apiVersion"].as_str().is_some_and(|group| group.starts_with("kubeflow.org/"));
    let (before, after) = (&before["observed"], &after["observed"]);
    let is_refused = |observed: &Value| observed["pods"].is_null() && !observed["refused"].is_null();
    if is_refused(before) || is_refused(after) {
        let is_same = is_refused(before) == is_refused(after);
        return if is_same {
            Vec::new()
        } else {
            vec![format!("{}, now {}", before["refused"], after["refused"])]
        };
    }
    let until = |observed: &Value| observed["until"].as_f64().unwrap_or_default();
    let late = until(before).min(until(after)) - STEP;
    let mut found = rows::pods(before, after, late, &["phase", "exit", "reason"]);
    object("", (before, after), late, is_kubeflow, &mut found);
    let named = |observed: &Value| -> BTreeMap<String, Value> {
        let name = |one: &Value| format!("{} {} {}", one["kind"], one["name"], one["nth"]);
        list(observed, "objects").iter().map(|one| (name(one), one.clone())).collect()
    };
    let (ours, theirs) = (named(before), named(after));
    for (name, one) in ours.iter().chain(theirs.iter().filter(|(name, _)| !ours.contains_key(*name))) {
        match (ours.get(name), theirs.get(name)) {
            (Some(one), Some(other)) => object(name, (one, other), late, false, &mut found),
            (is_made, _) if one["created"].as_f64() <= Some(late) => {
                let now = if is_made.is_some() { "not made now" } else { "made now" };
                found.push(format!("{name}: {now}"));
            }
            _ => {}
        }
    }
    for key in ["restarts", "restartsCountTowardsMax", "terminalState"] {
        let (one, other) = (&before["status"][key], &after["status"][key]);
        if one != other {
            found.push(format!("{key} {one}, now {other}"));
        }
    }
    found
}

fn object(
    name: &str,
    (before, after): (&Value, &Value),
    late: f64,
    is_kubeflow: bool,
    found: &mut Vec<String>,
) {
    let text = |one: &Value| format!("{} {}", one["status"], one["reason"]);
    let conditions = rows::conditions(before, after, late, &text);
    // These pass while pods start and end.
    let is_passing =
        |line: &str| is_kubeflow && (line.starts_with("Running") || line.starts_with("Restarting"));
    found
        .extend(conditions.into_iter().filter(|line| !is_passing(line)).map(|line| format!("{name} {line}")));
    for key in ["deleting", "gone"] {
        if !is_near(&before[key], &after[key], late) {
            found.push(format!("{name} {key} {}, now {}", before[key], after[key]));
        }
    }
}
