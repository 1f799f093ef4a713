//! Rows of recordings of operators, in the format that `tests/cluster/README.md` describes: made of what was seen,
//! and held against those of another time.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::rows::{self, STEP, Tolerance, list};
use super::names;
use super::objects::{ObjectSeen, Seen as Objects};
use crate::kubelet::timeline::{Program, Seen, Timeline};

/// KubeRay looks at a RayJob each three seconds.
const RAY_STEP: f64 = 3.5;

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
        if !main.phases.is_empty() {
            observed["phases"] = json!(main.phases);
        }
    }
    if !timeline.programs.is_empty() {
        let program = |(nth, program)| program_row(nth, program, &objects.clusters);
        observed["programs"] = timeline.programs.iter().enumerate().map(program).collect();
    }
    let mut others: Vec<Value> = Vec::new();
    for object in objects.objects.iter().filter(|object| !is_main(object)) {
        let name = names::of_object(object.kind, &object.name);
        let is_same = |other: &&Value| other["kind"] == object.kind && other["name"] == *name;
        let mut row = json!({"kind": object.kind, "name": name, "created": object.created});
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

/// Returns a program that was submitted to Ray.
fn program_row(nth: usize, program: &Program, clusters: &[String]) -> Value {
    let cluster = usize::try_from(program.cluster).ok().and_then(|number| clusters.get(number));
    json!({
        "n": nth, "cluster": cluster, "id": program.id, "by": program.by, "submitted": program.submitted,
        "stopped": program.stopped, "state": program.state, "ended": program.ended,
    })
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
    // A restart of a JobSet is made by the Job controller.
    let is_made_by_operator = seen.set.is_none() || seen.group.is_some() || seen.cluster.is_some();
    if seen.is_blink() && is_made_by_operator {
        row["blink"] = true.into();
    }
    if let Some(sidecar) = seen.sidecar {
        row["sidecar"] = json!(sidecar);
    }
    row
}

/// Returns how two recordings of one row differ by more than two of one release do.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let is_kubeflow =
        before["manifest"]["apiVersion"].as_str().is_some_and(|group| group.starts_with("kubeflow.org/"));
    let is_ray = before["kind"].as_str().is_some_and(|kind| kind.starts_with("Ray"));
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
    let step = if is_ray { RAY_STEP } else { STEP };
    let tolerance = Tolerance { step, ..Tolerance::of(before, after) };
    let [whole, whole_after] = [before, after].map(without_blinks);
    let mut found = rows::pods(&whole, &whole_after, tolerance, &["phase", "exit", "reason"]);
    object("", (before, after), tolerance, is_kubeflow, &mut found);
    let named = |observed: &Value| -> BTreeMap<String, Value> {
        let name = |one: &Value| format!("{} {} {}", one["kind"], one["name"], one["nth"]);
        // How many PodGroups there are is not stable.
        let all = list(observed, "objects").iter().filter(|one| one["kind"] != "PodGroup");
        all.map(|one| (name(one), one.clone())).collect()
    };
    let (ours, theirs) = (named(before), named(after));
    for (name, one) in ours.iter().chain(theirs.iter().filter(|(name, _)| !ours.contains_key(*name))) {
        match (ours.get(name), theirs.get(name)) {
            (Some(one), Some(other)) => object(name, (one, other), tolerance, false, &mut found),
            (is_made, _) if one["created"].as_f64() <= Some(tolerance.late) => {
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
    phases((before, after), is_ray, tolerance, &mut found);
    programs((before, after), tolerance, &mut found);
    found
}

/// Returns what was observed without the pods that were made and deleted at once.
fn without_blinks(observed: &Value) -> Value {
    let pods: Vec<&Value> = list(observed, "pods").iter().filter(|pod| pod["blink"] != true).collect();
    json!({ "pods": pods })
}

/// Compares the last phase of a Volcano Job with its retries, or of a RayJob with its reason and counts.
fn phases((before, after): (&Value, &Value), is_ray: bool, tolerance: Tolerance, found: &mut Vec<String>) {
    let last = |observed: &Value| list(observed, "phases").last().cloned();
    let (Some(one), Some(other)) = (last(before), last(after)) else { return };
    let count = if is_ray { 5 } else { 2 };
    // An empty word is no word.
    let fields = |entry: &Value| -> Vec<Value> {
        let plain = |value: &Value| if value == "" { Value::Null } else { value.clone() };
        (1..=count).map(|nth| plain(&entry[nth])).collect()
    };
    let is_early = [&one, &other].iter().all(|entry| entry[0].as_f64() <= Some(tolerance.late));
    if fields(&one) != fields(&other) && is_early {
        found.push(format!("{one}, now {other}"));
    }
}

/// Compares the programs that were submitted to Ray: to which cluster, with which id and by whom.
fn programs((before, after): (&Value, &Value), tolerance: Tolerance, found: &mut Vec<String>) {
    let (ours, theirs) = (list(before, "programs"), list(after, "programs"));
    for nth in 0..ours.len().max(theirs.len()) {
        let (one, other) = (ours.get(nth), theirs.get(nth));
        let of =
            |program: Option<&Value>| ["cluster", "id", "by"].map(|key| program.map(|it| it[key].clone()));
        let is_early =
            [one, other].into_iter().flatten().any(|it| it["submitted"].as_f64() <= Some(tolerance.late));
        if of(one) != of(other) && is_early {
            found.push(format!("program {nth}: {:?}, now {:?}", of(one), of(other)));
        }
    }
}

fn object(
    name: &str,
    (before, after): (&Value, &Value),
    tolerance: Tolerance,
    is_kubeflow: bool,
    found: &mut Vec<String>,
) {
    let text = |one: &Value| format!("{} {}", one["status"], one["reason"]);
    let conditions = rows::conditions(before, after, tolerance, &text);
    // These pass while pods start and end.
    let is_passing =
        |line: &str| is_kubeflow && (line.starts_with("Running") || line.starts_with("Restarting"));
    found
        .extend(conditions.into_iter().filter(|line| !is_passing(line)).map(|line| format!("{name} {line}")));
    // One that goes at once is seen in deletion or not.
    let deleting =
        |one: &Value| if one["deleting"].is_null() { one["gone"].clone() } else { one["deleting"].clone() };
    let gone = |one: &Value| one["gone"].clone();
    let times = [("deleting", deleting(before), deleting(after)), ("gone", gone(before), gone(after))];
    for (key, one, other) in times {
        if !tolerance.is_near(&one, &other) {
            found.push(format!("{name} {key} {one}, now {other}"));
        }
    }
}
