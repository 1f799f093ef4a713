//! Random RayJobs and RayClusters.

use serde_json::{Value, json};

use super::super::super::seconds;
use super::Scene;
use crate::random::Random;

/// The image of all containers: KubeRay reads the release of Ray from it.
const IMAGE: &str = "rayproject/ray:2.46.0";

/// Returns a RayJob, its programs, and what becomes of pods and dashboards.
pub(super) fn job(random: &mut Random) -> Scene {
    let mode = *random.pick(&["K8sJobMode", "K8sJobMode", "HTTPMode", "SidecarMode"]);
    let workers = random.within(1, 2);
    let mut spec = json!({
        "entrypoint": "python x.py", "submissionMode": mode, "rayClusterSpec": cluster_spec(workers, None),
    });
    if random.percent(60) {
        spec["backoffLimit"] = random.within(0, 2).into();
    }
    if random.percent(25) {
        spec["activeDeadlineSeconds"] = random.within(9, 24).into();
    }
    if random.percent(25) {
        spec["preRunningDeadlineSeconds"] = random.within(5, 9).into();
    }
    let is_shut_down = random.percent(50);
    if is_shut_down {
        spec["shutdownAfterJobFinishes"] = true.into();
        spec["ttlSecondsAfterFinished"] = (*random.pick(&[0, 4, 6])).into();
    }
    let mut entries = Vec::new();
    for nth in 0..3 {
        let end = *random.pick(&["SUCCEEDED", "SUCCEEDED", "FAILED"]);
        entries.push(json!({"program": nth, "run": seconds(random, 3, 9), "end": end}));
    }
    if random.percent(40) {
        entries.push(fault(random, mode));
    }
    entries.extend(incident(random, is_shut_down));
    Scene { kind: "RayJob", manifest: object("RayJob", "j", &spec), also: Vec::new(), script: entries.into() }
}

/// Returns a moment at which no program ends and no pod starts.
fn moment(second: usize) -> f64 {
    f64::from(u32::try_from(second).expect("a small number")) + 0.15
}

/// Returns what happens in the world beside the pods.
fn incident(random: &mut Random, is_shut_down: bool) -> Vec<Value> {
    let at = random.within(3, 9);
    let later = moment(at + random.within(3, 8));
    match random.within(0, 9) {
        0 | 1 => {
            vec![json!({"at": moment(at), "dashboard": "down"}), json!({"at": later, "dashboard": "up"})]
        }
        2 => vec![json!({"at": moment(at), "dashboard": "stop"})],
        // Only one that is cleaned up may be suspended.
        3 | 4 if is_shut_down => vec![
            json!({"at": moment(at), "patch": {"suspend": true}}),
            json!({"at": later, "patch": {"suspend": false}}),
        ],
        5 => {
            let on = *random.pick(&["Pod/head", "Pod/w"]);
            vec![json!({"at": moment(at), "on": on, "delete": "Background"})]
        }
        6 => vec![json!({"at": moment(at), "delete": random.pick(&["Background", "Foreground"])})],
        _ => Vec::new(),
    }
}

/// Returns a rule by which pods do not just run.
fn fault(random: &mut Random, mode: &str) -> Value {
    if mode == "K8sJobMode" && random.percent(40) {
        // What it says of the program's end, or that it ends before.
        let mut rule = json!({"role": "submitter", "attempt": 0, "exit": random.within(0, 1)});
        if random.percent(50) {
            rule["run"] = json!(seconds(random, 2, 6));
        } else {
            rule["follow"] = true.into();
        }
        return rule;
    }
    let role = *random.pick(&["head", "w"]);
    let mut rule = json!({"role": role, "attempt": 0});
    if random.percent(50) {
        rule["start"] = json!(seconds(random, 1, 8));
        rule["run"] = Value::Null;
    } else {
        disrupt(random, &mut rule);
    }
    rule
}

fn disrupt(random: &mut Random, rule: &mut Value) {
    let cause = *random.pick(&["evict", "taint", "delete", "force", "kubelet", "lost"]);
    rule["disrupt"] = json!({"after": seconds(random, 2, 6), "cause": cause});
    rule["run"] = Value::Null;
}

/// Returns a RayCluster, and what becomes of its pods.
pub(super) fn cluster(random: &mut Random) -> Scene {
    let workers = random.within(1, 3);
    let policy = *random.pick(&[None, None, Some("Never"), Some("OnFailure")]);
    let spec = cluster_spec(workers, policy);
    let mut entries = Vec::new();
    for _ in 0..random.within(1, 2) {
        let mut rule = json!({"role": random.pick(&["head", "w", "w"]), "attempt": random.below(workers)});
        match random.within(0, 5) {
            0 | 1 if rule["role"] == "w" && policy.is_some() => {
                rule["run"] = json!(seconds(random, 3, 9));
                rule["exit"] = random.within(0, 1).into();
            }
            2 => {
                rule["start"] = json!(seconds(random, 2, 7));
                rule["run"] = Value::Null;
            }
            _ => disrupt(random, &mut rule),
        }
        entries.push(rule);
    }
    let at = random.within(4, 9);
    match random.within(0, 5) {
        0 => {
            entries.push(json!({"at": moment(at), "patch": {"suspend": true}}));
            entries.push(json!({"at": moment(at + random.within(3, 8)), "patch": {"suspend": false}}));
        }
        1 => {
            let groups = &cluster_spec(random.within(1, 4), policy)["workerGroupSpecs"];
            entries.push(json!({"at": moment(at), "patch": {"workerGroupSpecs": groups}}));
        }
        2 => entries.push(json!({"at": moment(at), "delete": random.pick(&["Background", "Foreground"])})),
        _ => {}
    }
    Scene {
        kind: "RayCluster",
        manifest: object("RayCluster", "c", &spec),
        also: Vec::new(),
        script: entries.into(),
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn cluster_spec(workers: usize, policy: Option<&str>) -> Value {
    let template = |name: &str| {
        let containers = json!([{"name": name, "image": IMAGE}]);
        json!({"spec": {"containers": containers, "terminationGracePeriodSeconds": 30}})
    };
    let mut of_workers = template("ray-worker");
    if let Some(policy) = policy {
        of_workers["spec"]["restartPolicy"] = policy.into();
    }
    json!({
        "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
        "workerGroupSpecs": [{
            "groupName": "w", "replicas": workers, "minReplicas": 1, "maxReplicas": 5, "rayStartParams": {},
            "template": of_workers,
        }],
    })
}
