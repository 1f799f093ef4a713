//! The operators: controllers of custom resources, which make Jobs, pods and one another's objects.

mod job_set;
mod kueue;
mod mpi;
mod queue;
mod ray;
mod trainer;
mod training;
mod volcano;

use super::cluster::Controller;
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

/// Returns what the kind of an object is called here; nothing where no operator looks at it.
#[must_use]
pub(super) fn kind_of(manifest: &Value) -> Option<&'static str> {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let known = KINDS.into_iter().find(|(of, kind, _)| *of == group && *kind == text("kind"));
    known.map(|(_, _, name)| name)
}

/// Returns the controllers that look at an object, and at what comes of it; none where no operator of it is known.
#[must_use]
pub(super) fn for_manifest(manifest: &Value) -> Vec<Box<dyn Controller>> {
    match kind_of(manifest) {
        Some("JobSet") => job_set::controllers(),
        Some("TrainJob") => trainer::controllers(),
        Some("JAXJob" | "PaddleJob" | "PyTorchJob" | "TFJob" | "XGBoostJob") => training::controllers(),
        Some("MPIJob") => mpi::controllers(),
        Some("VolcanoJob") => volcano::controllers(),
        Some("RayJob" | "RayCluster") => ray::controllers(),
        Some(_) => Vec::new(),
        None => kueue::controllers(manifest),
    }
}

/// Returns how many pods run the program of an object: ranks that need one another.
#[must_use]
pub(super) fn ranks(kind: &str, manifest: &Value) -> u32 {
    match kind {
        "VolcanoJob" => volcano::ranks(manifest),
        _ => 0,
    }
}

/// Tells whether the webhook of an operator takes a change of an object.
#[must_use]
pub(super) fn admits(kind: &str, old: &Value, new: &Value) -> bool {
    match kind {
        "VolcanoJob" => volcano::admits(old, new),
        _ => true,
    }
}
