//! Objects of operators of a cluster, whatever they hold, and whose pods are whose.

use std::time::Instant;

use super::super::program::Peers;
use super::super::script::Termination;
use super::super::story::{Assumptions, Ending};
use super::super::time::Time;
use super::{LiveObject, LiveSnapshot, is_live, lower_object, tell_object};
use crate::text::value::{Value, json};

/// 2026-11-28T03:10:10Z, in milliseconds.
const NOW: i64 = 1_795_835_410_000;

const HOUR: Time = Time::from_seconds(3_600);

fn assumed() -> Assumptions {
    Assumptions {
        runtime: HOUR,
        startup: Time::START,
        checkpoint: None,
        peers: Peers::Independent,
        pods_per_node: 1,
        term: Termination::default(),
        unreachable: Some(Time::from_seconds(300)),
        wait_for_pods_ready: None,
        gang_after: Some(super::super::script::INQUEUE),
    }
}

fn objects_of(all: &[Value]) -> Vec<LiveObject> {
    let mut snapshot = LiveSnapshot::new(NOW);
    for object in all {
        if !snapshot.add_pod(object) {
            snapshot.add(object);
        }
    }
    snapshot.into_parts().objects
}

fn tf_job(meta: &Value) -> Value {
    let role = json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "tensorflow"}]}}});
    json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta.clone(),
        "spec": {"tfReplicaSpecs": {"Worker": role}}, "status": {"startTime": "2026-11-28T03:00:10Z"}})
}

fn worker(index: &str, more: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("t-worker-{index}"), "namespace": "n", "creationTimestamp": "2026-11-28T03:00:10Z",
            "labels": {"training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": index}},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "tensorflow", "ready": true, "state": {"running": {"startedAt": "2026-11-28T03:00:10Z"}}}]}});
    crate::text::patch::merge(&mut pod, more);
    pod
}

fn meta(uid: &str) -> Value {
    json!({"name": "t", "namespace": "n", "uid": uid, "creationTimestamp": "2026-11-28T03:00:10Z"})
}

#[test]
fn pods_belong_to_the_object_that_made_them() {
    let owner = |uid: &str| {
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "t", "uid": uid, "controller": true}]}})
    };
    for (pod, expected) in [
        (worker("0", &json!({})), 1),
        (worker("0", &owner("u")), 1),
        // One of its name was there before.
        (worker("0", &owner("older")), 0),
        (worker("0", &json!({"metadata": {"namespace": "other"}})), 0),
        (worker("0", &json!({"metadata": {"labels": {"training.kubeflow.org/job-name": "other"}}})), 0),
    ] {
        let objects = objects_of(&[pod.clone(), tf_job(&meta("u"))]);
        assert_eq!(objects[0].pods.len(), expected, "{pod}");
    }
}

#[test]
fn all_workers_that_do_their_work_complete_a_tfjob() {
    let all = [tf_job(&meta("u")), worker("0", &json!({})), worker("1", &json!({}))];
    let objects = objects_of(&all);
    let script = lower_object(&objects[0], &[], &assumed()).unwrap();
    let told = tell_object(&objects[0], &script).unwrap();
    assert_eq!(told.outcome.ending, Ending::Completes);
    // They started ten minutes ago.
    assert_eq!(told.outcome.at.millis() / 60_000, 50);
    assert_eq!((told.made, told.failed), (0, 0));
}

#[test]
fn an_object_of_another_kind_is_not_live() {
    let status = json!({"conditions": []});
    for (version, kind, expected) in [
        ("kubeflow.org/v1", "TFJob", true),
        ("batch.volcano.sh/v1alpha1", "Job", true),
        ("ray.io/v1", "RayCluster", true),
        ("kueue.x-k8s.io/v1beta1", "Workload", false),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", false),
    ] {
        let object = json!({"apiVersion": version, "kind": kind,
            "metadata": {"name": "a", "creationTimestamp": "2026-11-28T03:00:10Z"}, "status": status.clone()});
        assert_eq!(is_live(&object), expected, "{kind}");
    }
}

#[test]
fn strange_objects_are_read() {
    let strange = [Value::Null, json!(-7), json!("x"), json!([1]), json!({"replicas": -1, "a": {}})];
    let kinds = [
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
        ("kubeflow.org/v1", "TFJob"),
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("ray.io/v1", "RayJob"),
        ("ray.io/v1", "RayCluster"),
    ];
    for (version, kind) in kinds {
        for (spec, status) in strange.iter().flat_map(|spec| strange.iter().map(move |status| (spec, status)))
        {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": meta("u"),
                "spec": {"replicatedJobs": spec.clone(), "tfReplicaSpecs": {"Worker": spec.clone()}, "runPolicy": spec.clone(),
                    "mpiReplicaSpecs": {"Launcher": spec.clone(), "Worker": spec.clone()}, "tasks": spec.clone(),
                    "activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": i64::MIN},
                "status": {"conditions": [status.clone()], "replicaStatuses": {"Worker": status.clone()},
                    "restarts": status.clone(), "startTime": status.clone(), "state": status.clone()}});
            let labels = json!({"training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "99999999999", "volcano.sh/job-name": "t",
                "jobset.sigs.k8s.io/jobset-name": "t", "ray.io/cluster": "t"});
            let pod = worker("-1", &json!({"metadata": {"labels": labels}}));
            for object in objects_of(&[object, pod]) {
                assert!(!object.waits().is_empty(), "{kind}");
                let _ = (object.roles(), object.restarts(), object.expiry(), object.deadline());
                if let Ok(script) = lower_object(&object, &[], &assumed()) {
                    let _ = tell_object(&object, &script);
                }
            }
        }
    }
}

/// Each pod is looked at once, however many roles there are, and each Job once, however many wait for it.
#[test]
fn many_roles_take_bounded_time() {
    let count = 20_000;
    let meta = meta("u");
    let task = |nth: usize| json!({"name": format!("task-{nth}"), "replicas": 2});
    let volcano = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta,
        "spec": {"tasks": (0..count).map(task).collect::<Vec<_>>()}, "status": {"state": {"phase": "Running"}}});
    let pod = |nth: usize, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p-{nth}"), "namespace": "n", "labels": labels,
                "creationTimestamp": "2026-11-28T03:00:10Z"},
            "status": {"phase": "Running"}})
    };
    let of_task =
        |nth: usize| json!({"volcano.sh/job-name": "t", "volcano.sh/task-spec": format!("task-{nth}")});
    let pods = (0..count).map(|nth| pod(nth, of_task(nth)));
    let volcano: Vec<Value> = std::iter::once(volcano).chain(pods).collect();

    let replicated_job = |nth: usize| json!({"name": format!("job-{nth}"), "dependsOn": [{"name": "job-0", "status": "Ready"}]});
    let job_set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta,
        "spec": {"replicatedJobs": (0..count).map(replicated_job).collect::<Vec<_>>()}, "status": {"restarts": 0}});
    let job = |nth: usize| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("j-{nth}"), "namespace": "n", "creationTimestamp": "2026-11-28T03:00:10Z", "labels": {
                "jobset.sigs.k8s.io/jobset-name": "t", "jobset.sigs.k8s.io/replicatedjob-name": "job-0"}},
            "spec": {"suspend": true}, "status": {"active": 1}})
    };
    let job_set: Vec<Value> = std::iter::once(job_set).chain((1..count).map(job)).collect();

    let began = Instant::now();
    let volcano = &objects_of(&volcano)[0];
    assert_eq!((volcano.roles().len(), volcano.waits().len()), (count, count + 1));
    let job_set = &objects_of(&job_set)[0];
    assert_eq!((job_set.jobs.len(), job_set.roles()[0].wanted), (count - 1, Some(count as u32 - 1)));
    assert_eq!(job_set.waits().len(), count);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn more_objects_than_are_looked_at_are_said() {
    let mut snapshot = LiveSnapshot::new(NOW);
    for nth in 0..20_003 {
        let named = json!({"name": format!("t-{nth}"), "namespace": "n"});
        snapshot.add(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": named}));
    }
    assert_eq!(snapshot.left_out(), ["3 more Jobs and objects are left out: 20000 are looked at"]);
    assert_eq!(snapshot.into_jobs().len(), 20_000);
}
