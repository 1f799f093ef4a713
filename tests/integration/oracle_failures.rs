//! Reads every scenario that was recorded with another scripted kubelet (`oracles/*-failures.jsonl`), and
//! lets its pods live as that one saw them made and deleted: they must start and end as was recorded.

use std::time::Duration;

use jiff::Timestamp;
use jobgate::text::value::{Value, json};

use crate::kubelet::pod::{Pod, Request};
use crate::kubelet::script::{Cause, Life, Name, Plan, Script};

/// Files of scenarios, and how many rows each has at least.
const FILES: [(&str, usize); 4] = [
    ("oracles/job-failures.jsonl", 1369),
    ("oracles/cronjob-failures.jsonl", 96),
    ("oracles/operator-failures.jsonl", 1536),
    ("oracles/operator-either.jsonl", 290),
];

fn script_of(row: &Value) -> Result<Script, String> {
    let entries = serde_json::from_str(&row["script"].to_string()).map_err(|e| e.to_string())?;
    let script = Script::parse(&entries)?;
    Ok(if row["no_ready"] == true { script.never_ready() } else { script })
}

#[test]
fn every_recorded_scenario_is_understood() {
    for (file, least) in FILES {
        let Some(rows) = crate::support::shared::rows(file) else { return };
        assert!(rows.len() >= least, "{file}: only {} rows", rows.len());
        let wrong: Vec<String> =
            rows.iter().filter_map(|row| Some(format!("{}: {}", row["id"], script_of(row).err()?))).collect();
        assert!(wrong.is_empty(), "{file}, {} rows:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// When a pod started and ended, from its creation, and its last phase.
#[derive(Clone, Debug, PartialEq)]
struct Lived {
    started: Option<f64>,
    ended: Option<f64>,
    phase: String,
}

/// Lets a pod live by its plan until a time, and be deleted at one.
fn live(plan: Plan, spec: &Value, deleting: Option<f64>, until: f64) -> Lived {
    let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    let mut pod = Pod::new(&json!({"metadata": {}, "spec": spec.clone()}), plan, Timestamp::UNIX_EPOCH);
    let mut lived = Lived { started: None, ended: None, phase: "Pending".to_owned() };
    let mut deleting = deleting.map(|at| Duration::from_secs_f64(at.max(0.0)));
    loop {
        let due = pod.due().filter(|due| due.as_secs_f64() <= until);
        let deleted = deleting.filter(|at| due.is_none_or(|due| *at <= due));
        let now = match (deleted, due) {
            (Some(at), _) => {
                deleting = None;
                pod.deleted(at, grace);
                continue;
            }
            (None, Some(due)) => due,
            (None, None) => return lived,
        };
        for request in pod.act(now) {
            let Request::Status(status) = request else { continue };
            let Some(phase) = status["phase"].as_str().filter(|phase| *phase != lived.phase) else {
                continue;
            };
            phase.clone_into(&mut lived.phase);
            match phase {
                "Running" => lived.started = Some(now.as_secs_f64()),
                "Succeeded" | "Failed" => lived.ended = Some(now.as_secs_f64()),
                _ => {}
            }
        }
    }
}

/// Returns the spec of the pods of a Job, else what is known of that of an operator's pod.
fn spec_of(row: &Value, pod: &Value) -> Value {
    fn grace(value: &Value) -> Option<&Value> {
        match value {
            Value::Object(map) => {
                let own = map.get("terminationGracePeriodSeconds");
                own.or_else(|| map.values().find_map(grace))
            }
            Value::Array(items) => items.iter().find_map(grace),
            _ => None,
        }
    }
    let manifest = &row["manifest"];
    let places = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let own = (manifest["apiVersion"] == "batch/v1")
        .then(|| places.iter().find_map(|place| manifest.pointer(place)))
        .flatten();
    if let Some(spec) = own {
        return spec.clone();
    }
    let codes = pod["exit"].as_object();
    let name = codes.and_then(|codes| codes.keys().next()).unwrap_or("c");
    json!({
        "containers": [{"name": name}],
        "terminationGracePeriodSeconds": grace(manifest).cloned().unwrap_or_default(),
    })
}

fn name_of(row: &Value, pod: &Value, job: Option<u64>) -> Name {
    let role = pod["role"].as_str().unwrap_or("job");
    let is_ray = row["manifest"]["apiVersion"] == "ray.io/v1";
    Name {
        role: role.to_owned(),
        index: pod["index"].as_u64(),
        attempt: pod["attempt"].as_u64().unwrap_or_default(),
        set: pod["set"].as_u64(),
        job,
        life: match role {
            "submitter" if is_ray => Life::Follows,
            _ if is_ray => Life::Serves,
            _ => Life::Ends,
        },
    }
}

/// Returns what was seen of a pod and what its plan makes of it, if both can be compared.
fn compared(
    row: &Value,
    script: &Script,
    pod: &Value,
    job: Option<u64>,
    until: f64,
) -> Option<(Lived, Lived)> {
    let plan = script.plan(&name_of(row, pod, job));
    let created = pod["created"].as_f64()?;
    let since = |key: &str| pod[key].as_f64().map(|at| at - created);
    let seen =
        Lived { started: since("started"), ended: since("ended"), phase: pod["phase"].as_str()?.to_owned() };
    // One that was deleted before anybody had bound it is gone at once.
    let was_unbound =
        pod["gone"] == pod["deleting"] && pod["gone"].as_f64().is_some() && seen.ended.is_none();
    // One that follows its program ends with that. Of one that is deleted by force nothing more is seen, or
    // something, as long as a finalizer holds it.
    let is_forced = plan.disrupt.as_ref().is_some_and(|disrupt| disrupt.cause == Cause::Force);
    if plan.submit.follows || is_forced || was_unbound {
        return None;
    }
    // Times are to a tenth. What had ended was deleted after that, what is gone has ended before, and a pod is
    // bound before anybody deletes it.
    let later = |at: f64| if seen.ended.is_some_and(|end| end <= at) { at + 0.3 } else { at };
    let deleting = since("deleting").map(|at| later(at).max(0.1));
    let end = since("gone").unwrap_or(until - created) + 0.3;
    let lived = live(plan, &spec_of(row, pod), deleting, end);
    // What falls on the same moment may come in either order.
    let close = |one: Option<f64>, other: Option<f64>| {
        one.zip(other).is_some_and(|(one, other)| (one - other).abs() < 0.7)
    };
    let last = Some(until - created);
    let is_either = close(seen.started, deleting)
        || close(lived.started, deleting)
        || [lived.started, lived.ended, seen.ended].into_iter().any(|at| close(at, last));
    (!is_either).then_some((seen, lived))
}

#[test]
fn recorded_pods_start_and_end_as_their_plans_say() {
    let (mut all, mut left_out, mut wrong) = (0_usize, 0_usize, Vec::new());
    for (file, _) in FILES {
        let Some(rows) = crate::support::shared::rows(file) else { return };
        for row in &rows {
            let script = script_of(row).expect("it is understood");
            let observed = &row["observed"];
            let mut runs = vec![(None, observed)];
            for (number, run) in (0..).zip(observed["runs"].as_array().into_iter().flatten()) {
                runs.push((Some(number), run));
            }
            for (job, run) in runs {
                let until = run["until"].as_f64().or(observed["until"].as_f64()).unwrap_or(0.0);
                for pod in run["pods"].as_array().into_iter().flatten() {
                    let Some((seen, lived)) = compared(row, &script, pod, job, until) else {
                        left_out += 1;
                        continue;
                    };
                    all += 1;
                    let near = |one: Option<f64>, other: Option<f64>| match (one, other) {
                        (Some(one), Some(other)) => (one - other).abs() <= 1.5,
                        (one, other) => one.is_none() && other.is_none(),
                    };
                    let agrees = seen.phase == lived.phase
                        && near(seen.started, lived.started)
                        && near(seen.ended, lived.ended);
                    if !agrees {
                        wrong.push(format!("{}: {pod}\n   seen {seen:?}\n   lived {lived:?}", row["id"]));
                    }
                }
            }
        }
    }
    assert!(all > 20 * left_out, "of {left_out} pods nothing can be said, only of {all}");
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
}
