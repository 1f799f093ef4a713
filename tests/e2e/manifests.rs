//! Manifests: good ones, to which each scenario adds what it is about.

use jobgate::text::value::{Value, json};

/// Lays one object over another: mappings are merged, everything else is replaced, `null` takes out.
pub(crate) fn over(mut base: Value, change: Value) -> Value {
    merge(&mut base, change);
    base
}

fn merge(base: &mut Value, change: Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    base.remove(&key);
                } else {
                    merge(base.get_or_insert_with(key, || Value::Null), value);
                }
            }
        }
        (base, change) => *base = change,
    }
}

fn pod(change: Value) -> Value {
    over(
        json!({"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "registry.example.com/trainer:1.4"}]}),
        change,
    )
}

/// A Job that every rule is content with but for what the webhook fills in.
pub(crate) fn job(name: &str, change: Value) -> Value {
    let base = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"activeDeadlineSeconds": 3600, "template": {"spec": pod(json!({}))}},
    });
    over(base, change)
}

/// A Job that breaks the rule `deadline`.
pub(crate) fn endless(name: &str) -> Value {
    job(name, json!({"spec": {"activeDeadlineSeconds": null}}))
}

/// Containers that ask for an accelerator.
pub(crate) fn asking(resource: &str) -> Value {
    // A string, as the API server writes it: kubectl takes a number for a change at every apply.
    let limits = json!({resource: "1"});
    json!([{"name": "trainer", "image": "registry.example.com/trainer:1.4", "resources": {"limits": limits}}])
}

/// A Job that asks for a GPU.
pub(crate) fn gpu_job(name: &str, change: Value) -> Value {
    over(job(name, json!({"spec": {"template": {"spec": {"containers": asking("nvidia.com/gpu")}}}})), change)
}

/// A Job whose pods mount a claim where checkpoints go.
pub(crate) fn mounting(name: &str, claim: &str, parallelism: u32) -> Value {
    job(
        name,
        json!({"spec": {"parallelism": parallelism, "completions": parallelism, "template": {"spec": mounts(claim)}}}),
    )
}

/// What a pod needs to mount a claim at `/checkpoints`.
pub(crate) fn mounts(claim: &str) -> Value {
    json!({
        "containers": [{"name": "trainer", "image": "registry.example.com/trainer:1.4", "volumeMounts": [{"name": "data", "mountPath": "/checkpoints"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    })
}

/// A claim.
pub(crate) fn claim(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A TrainJob that every rule is content with but for its runtime.
pub(crate) fn train_job(name: &str, kind: &str, runtime: &str, nodes: u32) -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name},
        "spec": {
            "activeDeadlineSeconds": 3600, "runtimeRef": {"kind": kind, "name": runtime},
            "trainer": {"numNodes": nodes},
        },
    })
}

/// A runtime of one pod, which mounts a claim where checkpoints go.
pub(crate) fn runtime(kind: &str, name: &str, claim: &str) -> Value {
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let mut pod = mounts(claim);
    pod["containers"][0]["name"] = json!("node");
    let job = json!({"name": "node", "template": {
        "metadata": {"labels": labels},
        "spec": {"podReplacementPolicy": "Failed", "template": {"spec": pod}},
    }});
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}},
    })
}

/// A CronJob that every rule is content with but for what the webhook fills in.
pub(crate) fn cron_job(name: &str, change: Value) -> Value {
    let base = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {
            "schedule": "0 3 * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"activeDeadlineSeconds": 3600, "template": {"spec": pod(json!({}))}}},
        },
    });
    over(base, change)
}

/// A PyTorchJob of one master and two workers that every rule is content with but for what the webhook fills
/// in.
pub(crate) fn pytorch_job(name: &str, change: Value) -> Value {
    let replica = |replicas: u32| {
        json!({"replicas": replicas, "restartPolicy": "OnFailure", "template": {"spec": {
            "containers": [{"name": "pytorch", "image": "registry.example.com/trainer:1.4"}],
        }}})
    };
    let base = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name},
        "spec": {"runPolicy": {"activeDeadlineSeconds": 3600, "cleanPodPolicy": "Running"}, "pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)}},
    });
    over(base, change)
}

/// What the webhook adds for a taint.
pub(crate) fn toleration(key: &str) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoSchedule"})
}
