//! The kinds that operators look at.

use crate::text::value::Value;

/// The kinds that operators look at, by group and kind, with what they are called here: Volcano has a `Job` of its own.
const KINDS: [(&str, &str, &str); 19] = [
    ("batch.volcano.sh", "Job", "VolcanoJob"),
    ("bus.volcano.sh", "Command", "Command"),
    ("jobset.x-k8s.io", "JobSet", "JobSet"),
    ("kubeflow.org", "JAXJob", "JAXJob"),
    ("kubeflow.org", "MPIJob", "MPIJob"),
    ("kubeflow.org", "PaddleJob", "PaddleJob"),
    ("kubeflow.org", "PyTorchJob", "PyTorchJob"),
    ("kubeflow.org", "TFJob", "TFJob"),
    ("kubeflow.org", "XGBoostJob", "XGBoostJob"),
    ("kueue.x-k8s.io", "ClusterQueue", "ClusterQueue"),
    ("kueue.x-k8s.io", "LocalQueue", "LocalQueue"),
    ("kueue.x-k8s.io", "Workload", "Workload"),
    ("kueue.x-k8s.io", "WorkloadPriorityClass", "WorkloadPriorityClass"),
    ("ray.io", "RayCluster", "RayCluster"),
    ("ray.io", "RayJob", "RayJob"),
    ("scheduling.volcano.sh", "PodGroup", "PodGroup"),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime", "ClusterTrainingRuntime"),
    ("trainer.kubeflow.org", "TrainJob", "TrainJob"),
    ("trainer.kubeflow.org", "TrainingRuntime", "TrainingRuntime"),
];

/// The kinds of training-operator.
pub(super) const TRAINING: [&str; 5] = ["JAXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"];

/// Kinds of operators, beside those of training-operator, whose objects may wait in a queue of Kueue.
const QUEUED: [&str; 5] = ["JobSet", "MPIJob", "RayCluster", "RayJob", "TrainJob"];

/// Returns what the kind of an object is called here; nothing where no operator looks at it.
#[must_use]
pub(in super::super) fn kind_of(manifest: &Value) -> Option<&'static str> {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let known = KINDS.into_iter().find(|(of, kind, _)| *of == group && *kind == text("kind"));
    known.map(|(_, _, name)| name)
}

/// Returns where `suspend` of a kind is, below `spec`; empty where it cannot be suspended.
pub(super) fn suspend_field(kind: &str) -> &'static [&'static str] {
    match kind {
        "MPIJob" => &["runPolicy", "suspend"],
        kind if TRAINING.contains(&kind) => &["runPolicy", "suspend"],
        "VolcanoJob" => &[],
        _ => &["suspend"],
    }
}

/// Tells whether objects of a kind may wait in a queue.
pub(super) fn has_queue(kind: &str) -> bool {
    QUEUED.contains(&kind) || TRAINING.contains(&kind)
}
