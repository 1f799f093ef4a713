//! Random Jobs of Volcano. None of their policies has a timeout: what comes of those is chance.

use serde_json::{Value, json};

use super::super::super::seconds;
use super::{Scene, half};
use crate::random::Random;

const EVENTS: [&str; 5] = ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "*"];
const ACTIONS: [&str; 6] =
    ["RestartJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob"];

/// Returns a Job of one task or two, and what becomes of each of its pods.
pub(super) fn job(random: &mut Random) -> Scene {
    let names: &[&str] = if random.percent(60) { &["a", "b"] } else { &["a"] };
    let (mut tasks, mut entries) = (Vec::new(), Vec::new());
    let mut whole = 0;
    for name in names {
        let count = random.within(1, 3);
        whole += count;
        tasks.push(task(random, name, count));
        for index in 0..count {
            for attempt in 0..2 {
                let mut rule = life(random);
                rule["role"] = (*name).into();
                rule["index"] = index.into();
                rule["attempt"] = attempt.into();
                entries.push(rule);
            }
        }
    }
    entries.push(json!({"run": seconds(random, 5, 9)}));
    let mut spec = json!({"maxRetry": random.within(1, 3), "tasks": tasks});
    if random.percent(70) {
        spec["policies"] = json!([policy(random)]);
    }
    if random.percent(25) {
        spec["minAvailable"] = random.within(1, whole).into();
    }
    if random.percent(15) {
        spec["minSuccess"] = random.within(1, whole).into();
    }
    if random.percent(25) {
        spec["ttlSecondsAfterFinished"] = 4.into();
    }
    match random.within(0, 9) {
        0 => {
            entries.push(json!({"at": half(random.within(3, 6)), "command": "AbortJob"}));
            entries.push(json!({"at": half(random.within(10, 14)), "command": "ResumeJob"}));
        }
        1 => {
            let command = random.pick(&["RestartJob", "TerminateJob", "CompleteJob"]);
            entries.push(json!({"at": half(random.within(3, 9)), "command": command}));
        }
        2 => entries.push(json!({"at": half(random.within(4, 12)), "delete": "Background"})),
        _ => {}
    }
    let manifest = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec,
    });
    Scene { kind: "VolcanoJob", manifest, also: Vec::new(), script: entries.into() }
}

fn task(random: &mut Random, name: &str, count: usize) -> Value {
    let policy_of_pods = if random.percent(85) { "Never" } else { "OnFailure" };
    let mut task = json!({
        "name": name, "replicas": count,
        "template": {"spec": {
            "restartPolicy": policy_of_pods, "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "m", "image": "registry.example.com/c:1"}],
        }},
    });
    if random.percent(30) {
        task["policies"] = json!([policy(random)]);
    }
    if random.percent(30) {
        task["minAvailable"] = random.within(1, count).into();
    }
    task
}

fn policy(random: &mut Random) -> Value {
    let action = random.pick(&ACTIONS);
    if random.percent(25) {
        json!({"action": action, "exitCode": random.pick(&[1, 3, 137, 143])})
    } else {
        json!({"action": action, "event": random.pick(&EVENTS)})
    }
}

/// Returns what becomes of a pod.
fn life(random: &mut Random) -> Value {
    if random.percent(75) {
        let mut rule = json!({"run": seconds(random, 3, 14)});
        if random.percent(30) {
            rule["exit"] = (*random.pick(&[1, 3, 137])).into();
        }
        return rule;
    }
    let cause = *random.pick(&["evict", "preempt", "taint", "delete", "force", "kubelet", "lost"]);
    let mut disrupt = json!({"after": seconds(random, 2, 10), "cause": cause});
    if cause == "lost" {
        disrupt["gc"] = random.within(5, 9).into();
    }
    let term = json!({"after": seconds(random, 0, 3), "code": *random.pick(&[0, 143])});
    json!({"run": null, "disrupt": disrupt, "term": term})
}
