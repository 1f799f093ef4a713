//! Random Jobs in a queue of Kueue.

use serde_json::{Value, json};

use super::super::super::seconds;
use super::{Scene, half};
use crate::random::Random;

/// How many GPUs the queue has.
const QUOTA: usize = 4;

/// Returns a Job in a queue of its own, and perhaps another one that comes later and takes its quota.
pub(super) fn job(random: &mut Random) -> Scene {
    let count = *random.pick(&[2, QUOTA]);
    let mut spec = spec(random, count);
    vary(random, &mut spec);
    let mut entries = Vec::new();
    for _ in 0..random.within(0, 2) {
        entries.push(fault(random, count));
    }
    entries.push(json!({"role": "other", "run": seconds(random, 4, 9)}));
    let mut first = json!({"role": "j", "attempt": 0, "run": seconds(random, 6, 16)});
    if random.percent(60) {
        let after = if random.percent(80) { json!(seconds(random, 0, 2)) } else { Value::Null };
        first["term"] = json!({"after": after, "code": *random.pick(&[0, 143])});
    }
    entries.push(first);
    entries.push(json!({"run": seconds(random, 4, 9)}));
    if random.percent(65) {
        let class = if random.percent(80) { "high" } else { "low" };
        let count = *random.pick(&[2, QUOTA]);
        let spec = json!({
            "parallelism": count, "completions": count, "completionMode": "Indexed", "backoffLimit": 0,
            "template": template("Never"),
        });
        entries.push(json!({"at": half(random.within(3, 9)), "create": object("other", class, &spec)}));
    }
    Scene { kind: "Job", manifest: object("j", "low", &spec), also: queue(), script: entries.into() }
}

fn spec(random: &mut Random, count: usize) -> Value {
    json!({
        "parallelism": count, "completions": count, "completionMode": "Indexed",
        "backoffLimit": *random.pick(&[0, 2, 6]),
        "template": template(if random.percent(75) { "Never" } else { "OnFailure" }),
    })
}

fn vary(random: &mut Random, spec: &mut Value) {
    if random.percent(40) {
        spec["podReplacementPolicy"] = (*random.pick(&["Failed", "TerminatingOrFailed"])).into();
    }
    if random.percent(25) {
        spec["activeDeadlineSeconds"] = random.within(9, 16).into();
    }
    if random.percent(25) {
        spec["ttlSecondsAfterFinished"] = (*random.pick(&[0, 4])).into();
    }
    if random.percent(25) {
        spec["template"]["spec"]["terminationGracePeriodSeconds"] = random.within(3, 9).into();
    }
}

fn template(policy: &str) -> Value {
    let room = json!({"nvidia.com/gpu": 1});
    let container = json!({"name": "m", "image": "registry.example.com/c:1", "resources": {"limits": room, "requests": room}});
    json!({"spec": {"restartPolicy": policy, "containers": [container]}})
}

pub(in super::super) fn object(name: &str, class: &str, spec: &Value) -> Value {
    let labels = json!({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": class});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec})
}

/// Returns the queue of the namespace, in which a higher priority takes the quota of a lower one.
pub(in super::super) fn queue() -> Vec<Value> {
    let version = "kueue.x-k8s.io/v1beta2";
    let quota = json!([{"name": "nvidia.com/gpu", "nominalQuota": QUOTA}]);
    let group =
        json!({"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "default", "resources": quota}]});
    let spec = json!({
        "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}, "resourceGroups": [group],
    });
    let all = format!("/apis/{version}/clusterqueues");
    let local = format!("/apis/{version}/namespaces/$NS/localqueues");
    vec![
        json!({"apiVersion": version, "kind": "ClusterQueue", "path": all, "metadata": {"name": "$NS"}, "spec": spec}),
        json!({
            "apiVersion": version, "kind": "LocalQueue", "path": local, "metadata": {"name": "q"},
            "spec": {"clusterQueue": "$NS"},
        }),
    ]
}

/// Returns a rule by which a pod does not just run.
fn fault(random: &mut Random, count: usize) -> Value {
    let mut rule =
        json!({"role": "j", "index": random.below(count), "attempt": usize::from(random.percent(20))});
    match random.within(0, 6) {
        0 | 1 => {
            rule["run"] = json!(seconds(random, 2, 7));
            rule["exit"] = (*random.pick(&[1, 42, 137])).into();
        }
        2 => {
            rule["start"] = json!(seconds(random, 2, 7));
            rule["run"] = json!(seconds(random, 3, 6));
        }
        _ => {
            let cause = *random.pick(&["evict", "taint", "delete", "kubelet", "lost"]);
            rule["disrupt"] = json!({"after": seconds(random, 2, 6), "cause": cause});
            if cause == "lost" {
                rule["disrupt"]["gc"] = random.within(5, 9).into();
            }
            rule["run"] = Value::Null;
        }
    }
    rule
}
