//! What operators are given to run whose programs are given.

use jobgate::text::value::json;

use super::{Charge, Filled, a_second, gpu_containers};
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
        script: a_second,
        pods: 2,
        children: &[],
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
        // Head and workers run until the cluster is deleted.
        script: || {
            serde_json::json!([
                {"role": "submitter", "start": 0.3, "follow": true}, {"program": 0, "run": 1},
                {"start": 0.3, "run": null},
            ])
        },
        pods: 4,
        children: &[("jobs", "kuberay")],
        exempt: &["RayJob"],
        tells: "rayjob/{}",
    },
];
