//! What operators are given to run whose programs are given.

use jobgate::text::value::{Value, json};

use super::{Charge, Child, Comes, Filled, NO_DEADLINE, Spoilt, a_second, child, gpu_containers};
use crate::manifests::{gpu_job, over};

pub(super) static CHARGES: &[Charge] = &[
    Charge {
        name: "queued_job",
        operator: "kueue",
        resource: "jobs.batch",
        make: |name| {
            let queue = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": name}}});
            let size = json!({"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0}});
            gpu_job(name, over(queue, size))
        },
        needs: Some(
            |_| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "all"}}),
        ),
        fills: &[
            ("/spec/ttlSecondsAfterFinished", Filled::Ttl),
            ("/spec/podReplacementPolicy", Filled::Replacement),
            ("/spec/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Complete",
        sets: &["/suspend", "/template/metadata"],
        never: Some(("workloads.kueue.x-k8s.io", "Evicted")),
        serves: false,
        judged: true,
        script: a_second,
        pods: 2,
        children: &[],
        spoilt: NO_DEADLINE,
        exempt: &[],
        tells: "",
    },
    Charge {
        name: "rayjob",
        operator: "kuberay",
        resource: "rayjobs.ray.io",
        make: |_| {
            // With the empty fields that KubeRay writes into every RayJob when it adds its finalizer.
            let head = json!({"rayStartParams": {}, "template": {"metadata": {}, "spec": {
                "containers": [{"name": "head", "image": "registry.example.com/ray:2", "resources": {}}],
            }}});
            let workers = json!({
                "groupName": "worker", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {},
                "priority": 0, "scaleStrategy": {},
                "template": {"metadata": {}, "spec": {"containers": gpu_containers("worker")}},
            });
            json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {
                "entrypoint": "python train.py", "activeDeadlineSeconds": 3600,
                "rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": [workers]},
            }})
        },
        needs: None,
        fills: &[
            ("/spec/shutdownAfterJobFinishes", Filled::Shutdown),
            ("/spec/rayClusterSpec/workerGroupSpecs/0/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Complete",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        // Head and workers run until the cluster is deleted.
        script: || {
            serde_json::json!([
                {"role": "submitter", "start": 0.3, "follow": true}, {"program": 0, "run": 1},
                {"start": 0.3, "run": null},
            ])
        },
        pods: 4,
        children: &[child("jobs", "kuberay")],
        spoilt: NO_DEADLINE,
        exempt: &["RayJob"],
        tells: "rayjob/{}",
    },
    Charge {
        name: "leaderworkerset",
        operator: "leaderworkerset",
        resource: "leaderworkersets.leaderworkerset.x-k8s.io",
        make: |_| {
            let pod = json!({"spec": {"containers": gpu_containers("server")}});
            json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 2, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": pod},
            }})
        },
        needs: None,
        fills: &[],
        fills_before: &[],
        ends: "Available",
        sets: &[],
        never: None,
        serves: true,
        judged: false,
        script: || serde_json::json!([{"start": 0.3, "run": null}]),
        pods: 4,
        children: &[Child {
            resource: "statefulsets.apps",
            operator: "leaderworkerset",
            comes: Comes::Unasked,
        }],
        spoilt: NO_DEADLINE,
        exempt: &[],
        tells: "",
    },
    Charge {
        name: "volcano_job",
        operator: "volcano",
        resource: "jobs.batch.volcano.sh",
        make: |_| json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": volcano_job()}),
        needs: None,
        fills: &[
            ("/spec/ttlSecondsAfterFinished", Filled::Ttl),
            ("/spec/tasks/0/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Completed",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        script: a_second,
        pods: 2,
        children: &[],
        spoilt: NO_DEADLINE,
        exempt: &[],
        tells: "",
    },
    Charge {
        name: "jobflow",
        operator: "volcano",
        resource: "jobflows.flow.volcano.sh",
        make: |name| {
            json!({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "spec": {
                "jobRetainPolicy": "retain", "flows": [{"name": name}],
            }})
        },
        needs: Some(
            |_| json!({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "spec": volcano_job()}),
        ),
        fills: &[],
        fills_before: &[],
        ends: "Succeed",
        sets: &[],
        never: None,
        serves: false,
        judged: false,
        script: a_second,
        pods: 2,
        children: &[Child {
            resource: "jobs.batch.volcano.sh",
            operator: "volcano",
            // Not the TTL: what has an owner is the owner's to delete.
            comes: Comes::Filled(&[("/spec/tasks/0/template/spec/tolerations", Filled::Tolerations)]),
        }],
        spoilt: Spoilt {
            field: "restartPolicy",
            rule: "restart-policy",
            said: "restart-policy: spec.tasks[0].template.spec.restartPolicy",
        },
        exempt: &[],
        tells: "jobflow/{}",
    },
];

/// The spec of a job of two pods, with everything written that Volcano's webhook writes into it when it is
/// made: it rejects a later change, such as a client-side apply of a list of tasks without them.
fn volcano_job() -> Value {
    let pod = json!({
        "restartPolicy": "Never", "activeDeadlineSeconds": 3600, "containers": gpu_containers("trainer"),
    });
    json!({
        "schedulerName": "volcano", "queue": "default", "minAvailable": 2, "maxRetry": 3,
        "policies": [{"event": "PodFailed", "action": "TerminateJob"}],
        "tasks": [{
            "name": "worker", "replicas": 2, "minAvailable": 2, "maxRetry": 3, "template": {"spec": pod},
        }],
    })
}
