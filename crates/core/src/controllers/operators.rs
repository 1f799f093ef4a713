//! The operators: controllers of custom resources, which make Jobs, pods and one another's objects.

mod job_set;
mod kueue;
mod mpi;
mod queue;
mod ray;
mod trainer;
mod training;
mod volcano;

use super::cluster::{Cluster, Controller};
use super::object::Object;
use crate::text::value::Value;
use job_set::JobSetRelease;
use trainer::TrainerRelease;

/// The kinds that operators look at, by group and kind, with what they are called here: Volcano has a `Job` of its own.
const KINDS: [(&str, &str, &str); 17] = [
    ("batch.volcano.sh", "Job", "VolcanoJob"),
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

/// Returns how many pods run at once whose program may need one another; none where that is not known of the kind.
#[must_use]
pub(super) fn ranks(cluster: &Cluster, object: &Object) -> u32 {
    match object.kind {
        "JobSet" => job_set::ranks(object),
        "TrainJob" => trainer::ranks(cluster, object),
        _ => 0,
    }
}

/// Returns the controllers that look at an object, and at what comes of it; none where no operator of it is known.
#[must_use]
pub(super) fn for_manifest(manifest: &Value) -> Vec<Box<dyn Controller>> {
    match kind_of(manifest) {
        Some("JobSet") => job_set::controllers(JobSetRelease::default()),
        Some("TrainJob") => trainer::controllers(TrainerRelease::default(), JobSetRelease::default()),
        Some("JAXJob" | "PaddleJob" | "PyTorchJob" | "TFJob" | "XGBoostJob") => training::controllers(),
        Some("MPIJob") => mpi::controllers(),
        Some("VolcanoJob") => volcano::controllers(),
        Some("RayJob" | "RayCluster") => ray::controllers(),
        Some(_) => Vec::new(),
        None => kueue::controllers(manifest),
    }
}
