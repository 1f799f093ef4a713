//! Rows of recordings, in the format that `tests/cluster/README.md` describes: written, and held against those of another time.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::watch::JobSeen;
use crate::kubelet::timeline::{Seen, Timeline};

/// Two recordings of one row differ by up to a step of the controller, in seconds.
pub(super) const STEP: f64 = 1.5;

/// How near times have to be, and from when on nothing is compared.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) step: f64,
    pub(super) late: f64,
}

impl Tolerance {
    /// Returns that of two recordings: what happens at the end of one may not have happened in the other.
    pub(super) fn of(before: &Value, after: &Value) -> Self {
        let until = |observed: &Value| observed["until"].as_f64().unwrap_or_default();
        Self { step: STEP, late: until(before).min(until(after)) - STEP }
    }

    /// Tells whether two times are the same, as far as they lie before the end.
    pub(super) fn is_near(self, one: &Value, other: &Value) -> bool {
        match (one.as_f64(), other.as_f64()) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                (one - other).abs() <= self.step || one > self.late && other > self.late
            }
            (Some(one), None) | (None, Some(one)) => one > self.late,
        }
    }
}

/// Returns what was observed, as a row has it.
pub(super) fn observed(job: &JobSeen, until: f64, began: f64, timeline: &Timeline) -> Value {
    let status = &job.status;
    let mut counts = json!({});
    for key in ["active", "ready", "succeeded", "failed", "terminating"] {
        counts[key] = status[key].as_u64().unwrap_or_default().into();
    }
    for key in ["completedIndexes", "failedIndexes"] {
        if let Some(text) = status[key].as_str() {
            counts[key] = text.into();
        }
    }
    let start = status["startTime"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    #[allow(clippy::cast_precision_loss, reason = "seconds of this century")]
    let start = start.map(|at| ((at.as_second() as f64 - began) * 10.0).round() / 10.0);
    let conditions: Vec<Value> = job.conditions.iter().map(plain).collect();
    let mut observed = json!({
        "until": until,
        "conditions": conditions,
        "status_log": job.counts.clone(),
        "job_deleted_at": job.deleted,
        "start_time": start,
        "status": counts,
        "job_deleting_at": job.deleting,
        "pods": timeline.pods.iter().map(pod).collect::<Vec<Value>>(),
    });
    if let Some((at, message)) = timeline.refused.first() {
        observed["refused"] = json!({"at": (at * 100.0).round() / 100.0, "message": message});
    }
    observed
}

/// Returns a condition with names of pods as rows have them: `NS/POD`.
fn plain(condition: &Value) -> Value {
    let mut condition = condition.clone();
    let text = condition["message"].as_str().unwrap_or_default();
    let words: Vec<&str> =
        text.split(' ').map(|word| if word.contains("/j-") { "NS/POD" } else { word }).collect();
    let text = words.join(" ");
    condition["message"] = text.into();
    condition
}

/// Returns a pod, as a row has it.
pub(super) fn pod(seen: &Seen) -> Value {
    let mut row = json!({
        "attempt": seen.attempt, "created": seen.created, "started": seen.started, "ended": seen.ended,
        "phase": seen.phase, "deleting": seen.deleting, "gone": seen.gone,
    });
    if let Some(index) = seen.index {
        row["index"] = index.into();
    }
    if !seen.exit.is_empty() {
        row["exit"] = json!(seen.exit);
    }
    if let Some(reason) = seen.reason.as_ref().or(seen.container_reason.as_ref()) {
        row["reason"] = reason.as_str().into();
    }
    if seen.restarts > 0 {
        row["restarts"] = seen.restarts.into();
    }
    let (failures, ignored) = seen.index_failures;
    for (key, count) in [("index_failures", failures), ("index_ignored", ignored)] {
        if let Some(count) = count {
            row[key] = count.into();
        }
    }
    row
}

/// Reads rows.
pub(super) fn read(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("read the rows {path}: {error}"));
    let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().filter(|line| !line.is_empty()).map(row).collect()
}

/// Writes rows where `JOBGATE_RECORD` says, if it does.
pub(super) fn write_recording(rows: &[Value]) {
    let Ok(path) = env::var("JOBGATE_RECORD") else { return };
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(Path::new(&path), text).unwrap_or_else(|error| panic!("write the recording {path}: {error}"));
    println!("{} rows in {path}", rows.len());
}

/// Returns a list in an object.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns how two recordings of one row differ by more than two of one release do.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (&before["observed"], &after["observed"]);
    let tolerance = Tolerance::of(before, after);
    let late = tolerance.late;
    let mut found = pods(before, after, tolerance, &["phase", "index_failures", "index_ignored"]);
    // Which pod a message is about is not stable.
    let text = |one: &Value| {
        let message = if one["reason"] == "PodFailurePolicy" { &Value::Null } else { &one["message"] };
        format!("{} {} {message}", one["status"], one["reason"])
    };
    found.extend(conditions(before, after, tolerance, &text));
    if before["job_deleting_at"].is_null() && after["job_deleting_at"].is_null() {
        let last = |observed: &Value| list(observed, "status_log").last().and_then(|entry| entry[0].as_f64());
        let is_moving = last(before) > Some(late) || last(after) > Some(late);
        for key in ["succeeded", "failed", "completedIndexes", "failedIndexes", "terminating"] {
            let (one, other) = (&before["status"][key], &after["status"][key]);
            // An empty list of indexes may be left out.
            let is_same = one == other
                || [one, other].iter().all(|one| one.as_str().is_none_or(str::is_empty) && !one.is_number());
            if !is_same && !is_moving {
                found.push(format!("{key} {one}, now {other}"));
            }
        }
    }
    if !tolerance.is_near(&before["job_deleted_at"], &after["job_deleted_at"]) {
        found.push(format!("gone at {}, now at {}", before["job_deleted_at"], after["job_deleted_at"]));
    }
    found
}

/// Returns how the last states of conditions differ, of which a text says what is compared.
pub(super) fn conditions(
    before: &Value,
    after: &Value,
    tolerance: Tolerance,
    text: &dyn Fn(&Value) -> String,
) -> Vec<String> {
    let last = |observed: &Value| -> BTreeMap<String, Value> {
        let of = |one: &Value| (one["type"].as_str().unwrap_or_default().to_owned(), one.clone());
        list(observed, "conditions").iter().map(of).collect()
    };
    let (ours, theirs) = (last(before), last(after));
    let mut found = Vec::new();
    for sort in ours.keys().chain(theirs.keys().filter(|sort| !ours.contains_key(*sort))) {
        let (one, other) = (ours.get(sort), theirs.get(sort));
        let is_early =
            |one: Option<&Value>| one.is_some_and(|one| one["at"].as_f64() <= Some(tolerance.late));
        let at = |one: Option<&Value>| one.map_or(Value::Null, |one| one["at"].clone());
        let is_same = one.map(text) == other.map(text);
        if !is_same && (is_early(one) || is_early(other)) {
            found.push(format!("{sort}: {:?}, now {:?}", one.map(text), other.map(text)));
        } else if is_same && !tolerance.is_near(&at(one), &at(other)) {
            found.push(format!("{sort} at {}, now at {}", at(one), at(other)));
        }
    }
    found
}

/// Returns how pods differ: in their number, their times, and what is in these fields.
pub(super) fn pods(before: &Value, after: &Value, tolerance: Tolerance, fields: &[&str]) -> Vec<String> {
    let late = tolerance.late;
    let named = |observed: &Value| -> BTreeMap<(String, Option<u64>, Option<u64>), Value> {
        let role = |pod: &Value| pod["role"].as_str().unwrap_or_default().to_owned();
        let key = |pod: &Value| (role(pod), pod["index"].as_u64(), pod["attempt"].as_u64());
        list(observed, "pods").iter().map(|pod| (key(pod), pod.clone())).collect()
    };
    let (ours, theirs) = (named(before), named(after));
    let mut found = Vec::new();
    for (key, pod) in ours.iter().chain(theirs.iter().filter(|(key, _)| !ours.contains_key(key))) {
        let (role, index, attempt) = key;
        let attempt = attempt.unwrap_or_default();
        let name = match index {
            Some(index) => format!("pod {role} of index {index}, attempt {attempt}"),
            None => format!("pod {role} {attempt}"),
        };
        let (Some(one), Some(other)) = (ours.get(key), theirs.get(key)) else {
            if pod["created"].as_f64() <= Some(late) {
                let now = if ours.contains_key(key) { "not made now" } else { "made now" };
                found.push(format!("{name}: {now}"));
            }
            continue;
        };
        for at in ["created", "started", "ended", "deleting", "gone"] {
            if !tolerance.is_near(&one[at], &other[at]) {
                found.push(format!("{name}: {at} {}, now {}", one[at], other[at]));
            }
        }
        let is_late = [&one["started"], &one["ended"], &other["started"], &other["ended"]]
            .iter()
            .any(|at| at.as_f64() > Some(late));
        for key in fields {
            // No exit code is written as nothing, too.
            let is_none =
                |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty) && !value.is_string();
            let is_same =
                one[*key] == other[*key] || *key == "exit" && is_none(&one[*key]) && is_none(&other[*key]);
            let is_settled = !is_late || key.starts_with("index");
            if !is_same && is_settled {
                found.push(format!("{name}: {key} {}, now {}", one[*key], other[*key]));
            }
        }
    }
    found
}
