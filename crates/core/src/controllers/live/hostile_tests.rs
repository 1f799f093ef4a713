//! Volcano Jobs and objects of Ray whose status and pods are whatever somebody wrote: each is read in bounded time.

use std::time::Instant;

use super::super::program::Peers;
use super::super::script::Termination;
use super::super::story::{Assumptions, Ending};
use super::super::time::Time;
use super::{LiveObject, LiveOutcome, LiveSnapshot, lower_object, tell_object, tell_object_otherwise};
use crate::text::value::{Value, json};

/// 2026-11-28T03:10:10Z, in milliseconds.
const NOW: i64 = 1_795_835_410_000;

fn assumed() -> Assumptions {
    Assumptions {
        runtime: Time::from_seconds(36_000),
        startup: Time::START,
        checkpoint: None,
        peers: Peers::Independent,
        pods_per_node: 1,
        term: Termination::default(),
        wait_for_pods_ready: None,
        gang_after: Some(super::super::script::INQUEUE),
        unreachable: Some(Time::from_seconds(300)),
    }
}

fn object_of(all: &[Value]) -> LiveObject {
    let mut snapshot = LiveSnapshot::new(NOW);
    for object in all {
        if !snapshot.add_pod(object) {
            snapshot.add(object);
        }
    }
    snapshot.into_parts().objects.remove(0)
}

fn told(object: &LiveObject, story: &str) -> Result<LiveOutcome, String> {
    let story: Vec<_> = story.split_whitespace().map(|one| one.parse().unwrap()).collect();
    let script = lower_object(object, &story, &assumed())?;
    let told = tell_object(object, &script)?;
    tell_object_otherwise(object, &script, &told)?;
    Ok(told)
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "n", "uid": "u", "creationTimestamp": "2026-11-28T03:00:10Z"})
}

fn volcano(spec: Value, status: Value) -> Value {
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta("t"), "spec": spec,
        "status": status})
}

fn ray(kind: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta("t"), "spec": spec, "status": status})
}

fn pod(name: &str, labels: Value, status: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "a"}, "status": status,
        "metadata": {"name": name, "namespace": "n", "labels": labels, "creationTimestamp": "2026-11-28T03:00:10Z"}})
}

fn running() -> Value {
    json!({"phase": "Running", "containerStatuses": [
        {"name": "m", "ready": true, "state": {"running": {"startedAt": "2026-11-28T03:00:10Z"}}}]})
}

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "m"}]}})
}

#[test]
fn an_object_that_nobody_looked_at_yet_begins() {
    let tasks = json!({"tasks": [{"name": "a", "replicas": 1, "template": template()}]});
    let empty = json!({"observedGeneration": 1});
    let head = json!({"template": {"spec": {"containers": [{"name": "m"}]}}});
    let inside = json!({"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": head.clone()}});
    for (object, expected) in [
        (volcano(tasks, empty.clone()), Ending::Completes),
        (ray("RayJob", inside, empty.clone()), Ending::Completes),
        (ray("RayCluster", json!({"headGroupSpec": head}), empty), Ending::RunsOn),
    ] {
        let object = object_of(&[object]);
        let told = told(&object, "").unwrap();
        assert_eq!((told.outcome.ending, told.made > 0), (expected, true), "{}", object.kind);
    }
}

#[test]
fn states_of_no_release_are_said() {
    let state = |phase: &str| json!({"state": {"phase": phase}});
    let deployment = |word: &str| json!({"jobDeploymentStatus": word});
    for (object, expected) in [
        (
            volcano(json!({}), state("Hibernating")),
            "a Volcano Job in the state `Hibernating` is not modelled",
        ),
        (
            ray("RayJob", json!({}), deployment("Scheduled")),
            "a RayJob in the state `Scheduled` is not modelled",
        ),
        (
            ray("RayJob", json!({}), json!({"jobDeploymentStatus": "Running", "jobStatus": "PAUSED"})),
            "a RayJob in the state `Running` is not modelled",
        ),
        (
            ray("RayCluster", json!({}), json!({"state": "failed"})),
            "a RayCluster in the state `failed` is not modelled",
        ),
        (
            ray("RayJob", json!({"clusterSelector": {"ray.io/cluster": "c"}}), deployment("Running")),
            "it runs on a RayCluster that it did not make, and that is not modelled",
        ),
        (
            ray("RayJob", json!({}), json!({"jobDeploymentStatus": "Running", "rayClusterName": "t-1"})),
            "its RayCluster t-1 is not here",
        ),
    ] {
        assert_eq!(told(&object_of(&[object]), "").unwrap_err(), expected);
    }
}

#[test]
fn fields_of_other_types_are_left_out() {
    let strange =
        [Value::Null, json!(-7), json!("x"), json!([1]), json!({"phase": {"Running": -1}}), json!(u64::MAX)];
    for value in &strange {
        let status = json!({
            "state": value.clone(), "retryCount": value.clone(), "version": value.clone(), "terminating": value.clone(),
            "taskStatusCount": {"a": value.clone()}, "minAvailable": value.clone(), "failed": value.clone(),
            "rayJobInfo": value.clone(), "rayClusterStatus": value.clone(), "startTime": value.clone(),
            "rayClusterName": value.clone(), "head": value.clone(), "conditions": value.clone(),
            "jobStatusCheckFailureStartTime": value.clone(), "jobId": value.clone(),
        });
        let tasks = json!({"tasks": [{"name": "a", "replicas": 1, "template": template()}, value.clone()],
            "policies": [value.clone(), {"event": value.clone(), "action": "RestartJob", "timeout": value.clone()}]});
        let groups = json!({"headGroupSpec": {"template": template()}, "workerGroupSpecs": [value.clone(), {"groupName": value.clone(),
            "numOfHosts": value.clone(), "replicas": 1}], "rayClusterSpec": {"headGroupSpec": value.clone()}});
        let labels = json!({"volcano.sh/job-name": "t", "volcano.sh/task-spec": "a", "volcano.sh/task-index": "4294967295",
            "ray.io/cluster": "t", "ray.io/node-type": "head"});
        let mut strange_pod =
            pod("p", labels, json!({"phase": value.clone(), "containerStatuses": [value.clone()]}));
        strange_pod["metadata"]["annotations"] = json!({"volcano.sh/job-version": "99999999999"});
        for object in [
            volcano(tasks, status.clone()),
            ray("RayJob", groups.clone(), status.clone()),
            ray("RayCluster", groups, status),
        ] {
            let object = object_of(&[object, strange_pod.clone()]);
            let _ = (
                object.assumed(),
                told(&object, ""),
                told(&object, "drain"),
                told(&object, "submitter-lost"),
            );
        }
    }
}

#[test]
fn pods_of_nobody_are_not_taken() {
    let tasks = json!({"tasks": [{"name": "a", "replicas": 1, "template": template()}]});
    let job = volcano(tasks, json!({"state": {"phase": "Running"}, "minAvailable": 1}));
    let of = |name: &str, task: &str| json!({"volcano.sh/job-name": name, "volcano.sh/task-spec": task, "volcano.sh/task-index": "0"});
    let object =
        object_of(&[job.clone(), pod("p", of("other", "a"), running()), pod("q", json!({}), running())]);
    assert_eq!(object.pods.len(), 0);
    let object = object_of(&[job, pod("p", of("t", "gone"), running())]);
    assert_eq!(told(&object, "").unwrap_err(), "the labels of the pod p do not say its role and its number");
}

/// How long all that is asked of one object may take, without optimization.
const MOST_SECONDS: u64 = 60;
/// How much work each simulation may take here.
const WORK: u64 = 1_000_000;

/// Asserts that nothing takes long beside what a simulation counts as its work.
fn assert_bounded(all: &[Value]) {
    let began = Instant::now();
    let object = object_of(all);
    assert!(!object.waits().is_empty() && !object.assumed().is_empty());
    for story in ["", "drain"] {
        let story: Vec<_> = story.split_whitespace().map(|one| one.parse().unwrap()).collect();
        let mut script = lower_object(&object, &story, &assumed()).unwrap();
        script.script.most_work = Some(WORK);
        let error = tell_object(&object, &script).unwrap_err();
        assert!(error.starts_with("too many pods or Jobs"), "{error}");
    }
    assert!(began.elapsed().as_secs() < MOST_SECONDS, "{:?}", began.elapsed());
}

#[test]
fn thousands_of_tasks_take_bounded_time() {
    let count = 5_000;
    let task = |nth: usize| json!({"name": format!("t{nth}"), "replicas": 2, "template": template()});
    let policy = json!([{"event": "*", "action": "RestartJob", "timeout": "20m"}]);
    let spec = json!({"policies": policy, "tasks": (0..count).map(task).collect::<Vec<_>>()});
    let job = volcano(spec, json!({"state": {"phase": "Running"}, "minAvailable": 1}));
    let failed = json!({"phase": "Failed", "containerStatuses": [
        {"name": "m", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-28T03:10:08Z"}}}]});
    let pods = (0..count).map(|nth| {
        let labels = json!({"volcano.sh/job-name": "t", "volcano.sh/task-spec": format!("t{nth}").as_str(), "volcano.sh/task-index": "0"});
        pod(&format!("p{nth}"), labels, if nth % 2 == 0 { running() } else { failed.clone() })
    });
    assert_bounded(&std::iter::once(job).chain(pods).collect::<Vec<_>>());
}

#[test]
fn thousands_of_worker_groups_take_bounded_time() {
    let count = 5_000;
    let group = |nth: usize| json!({"groupName": format!("g{nth}"), "replicas": 2, "maxReplicas": 3, "numOfHosts": 1 + nth % 2, "template": template()});
    let spec = json!({"headGroupSpec": {"template": template()}, "workerGroupSpecs": (0..count).map(group).collect::<Vec<_>>()});
    let cluster = ray("RayCluster", spec, json!({"state": "ready"}));
    let pods = (0..count).map(|nth| {
        let labels = json!({"ray.io/cluster": "t", "ray.io/node-type": "worker", "ray.io/group": format!("g{nth}").as_str(),
            "ray.io/worker-group-replica-name": format!("r{nth}").as_str(), "ray.io/replica-host-index": "0"});
        pod(&format!("p{nth}"), labels, running())
    });
    assert_bounded(&std::iter::once(cluster).chain(pods).collect::<Vec<_>>());
}
