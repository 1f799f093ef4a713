//! The runtimes that TrainJobs name: those of the cluster, and those that Trainer ships (`manifests/base/runtimes`).

use std::borrow::Cow;

use super::super::super::cluster::Cluster;
use super::TrainerRelease;
use crate::text::value::{Value, json};

/// The kind of a runtime where a reference has none, and the one that is shipped.
pub(super) const CLUSTER_RUNTIME: &str = "ClusterTrainingRuntime";

/// Returns the `spec` of the runtime that the `spec` of a TrainJob names; nothing where there is none.
pub(super) fn runtime_of<'c>(
    cluster: &'c Cluster,
    train_job: &Value,
    release: TrainerRelease,
) -> Option<Cow<'c, Value>> {
    let name = runtime_name(train_job);
    let kind = runtime_kind(train_job);
    match cluster.object(kind, name) {
        Some((_, runtime)) => Some(Cow::Borrowed(runtime.spec())),
        None if kind == CLUSTER_RUNTIME => shipped(name, release).map(Cow::Owned),
        None => None,
    }
}

/// Returns the same of manifests.
pub(super) fn runtime_among<'o>(
    objects: &'o [Value],
    train_job: &Value,
    release: TrainerRelease,
) -> Option<Cow<'o, Value>> {
    let name = runtime_name(train_job);
    let kind = runtime_kind(train_job);
    let is_it = |object: &&Value| {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        text("/kind") == kind && text("/metadata/name") == name
    };
    match objects.iter().find(is_it) {
        Some(runtime) => runtime.get("spec").map(Cow::Borrowed),
        None if kind == CLUSTER_RUNTIME => shipped(name, release).map(Cow::Owned),
        None => None,
    }
}

/// Returns the name of the runtime that the `spec` of a TrainJob names.
pub(super) fn runtime_name(train_job: &Value) -> &str {
    train_job.pointer("/runtimeRef/name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the kind of the runtime that the `spec` of a TrainJob names.
pub(super) fn runtime_kind(train_job: &Value) -> &str {
    train_job.pointer("/runtimeRef/kind").and_then(Value::as_str).unwrap_or(CLUSTER_RUNTIME)
}

/// Returns the `spec` of a runtime that Trainer ships, as far as it decides what happens. None of them has a
/// `failurePolicy`, a `backoffLimit`, a `restartPolicy` or a time after which it goes.
fn shipped(name: &str, release: TrainerRelease) -> Option<Value> {
    let (policy, jobs) = match name {
        "torch-distributed" => ("torch", json!([job("node", Some("trainer"), &[])])),
        "jax-distributed" => ("jax", json!([job("node", Some("trainer"), &[])])),
        "xgboost-distributed" => ("xgboost", json!([job("node", Some("trainer"), &[])])),
        "torch-distributed-with-cache" => {
            let initializer = job("dataset-initializer", Some("dataset-initializer"), &[]);
            let after = [("dataset-initializer", "Complete")];
            ("torch", json!([initializer, job("node", Some("trainer"), &after)]))
        }
        "torchtune-llama3.2-1b" | "torchtune-llama3.2-3b" | "torchtune-qwen2.5-1.5b" => {
            let first = ["dataset-initializer", "model-initializer"];
            let [dataset, model] = first.map(|name| job(name, Some(name), &[]));
            let node = job("node", Some("trainer"), &first.map(|name| (name, "Complete")));
            ("torch", json!([dataset, model, node]))
        }
        "deepspeed-distributed" | "mlx-distributed" => {
            let node = job("node", None, &[]);
            // Up to 2.2 the launcher does not wait for the nodes.
            let jobs = if release <= TrainerRelease::V2_2 {
                json!([job("launcher", Some("trainer"), &[]), node])
            } else {
                json!([node, job("launcher", Some("trainer"), &[("node", "Ready")])])
            };
            return Some(json!({
                "mlPolicy": {"numNodes": 1, "mpi": {"runLauncherAsNode": true}},
                "template": {"spec": {
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                    "replicatedJobs": jobs,
                }},
            }));
        }
        _ => return None,
    };
    let mut runtime = json!({"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs}}});
    if let Some(ml_policy) = runtime.get_mut("mlPolicy").and_then(Value::as_object_mut) {
        ml_policy.insert(policy, json!({}));
    }
    Some(runtime)
}

/// Returns a `replicatedJob` of a shipped runtime, with its step of a TrainJob and what it depends on. Its container has
/// its name, but that of the launcher is a node too.
fn job(name: &str, step: Option<&str>, depends_on: &[(&str, &str)]) -> Value {
    let container = if name == "launcher" { "node" } else { name };
    let labels = match step {
        Some(step) => json!({"trainer.kubeflow.org/trainjob-ancestor-step": step}),
        None => json!({}),
    };
    let dependencies: Vec<Value> =
        depends_on.iter().map(|(name, status)| json!({"name": *name, "status": *status})).collect();
    json!({
        "name": name,
        "dependsOn": dependencies,
        "template": {
            "metadata": {"labels": labels},
            "spec": {"template": {"spec": {"containers": [{"name": container}]}}},
        },
    })
}
