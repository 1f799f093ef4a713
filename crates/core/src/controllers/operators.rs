//! The operators: controllers of custom resources, which make Jobs, pods and one another's objects.

pub(crate) mod asked;
mod behind;
mod job_set;
mod kueue;
mod mpi;
mod queue;
mod ray;
mod trainer;
mod training;
mod volcano;

use std::sync::Arc;

use super::cluster::{Cluster, Controller};
use super::object::{Object, ObjectStatus, PodGroupPhase};
use super::script::{MapOrder, Script};
use super::subject::Subject;
use super::time::Time;
use crate::text::value::Value;
use job_set::JobSetRelease;
pub use kueue::{KUEUE, KueueSettings, WaitForPodsReady};
pub(super) use kueue::{PREEMPTOR, preemptor};
pub use mpi::MpiRelease;
use trainer::TrainerRelease;
pub use trainer::shipped;

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

/// The status of a PodGroup whose pods may be made.
pub(super) const RUNNING_POD_GROUP: ObjectStatus = ObjectStatus::PodGroup(PodGroupPhase::Running);

/// The kinds of training-operator.
const TRAINING: [&str; 5] = ["JAXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"];

/// The operators of a cluster: their releases, and how they are configured.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The release of mpi-operator.
    pub mpi: MpiRelease,
    /// The configuration of Kueue.
    pub kueue: KueueSettings,
}

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
        kind if TRAINING.contains(&kind) => training::ranks(kind, &object.manifest),
        "MPIJob" => mpi::ranks(&object.manifest),
        "VolcanoJob" => volcano::ranks(&object.manifest),
        _ => 0,
    }
}

/// Returns the controllers that look at an object, and at what comes of it; none where no operator of it is known.
#[must_use]
pub(super) fn for_manifest(
    manifest: &Value,
    before: &[Value],
    settings: &Settings,
    order: MapOrder,
) -> Vec<Box<dyn Controller>> {
    let mut controllers = match kind_of(manifest) {
        Some("JobSet") => job_set::controllers(JobSetRelease::default()),
        Some("TrainJob") => trainer::controllers(TrainerRelease::default(), JobSetRelease::default()),
        Some(kind) if TRAINING.contains(&kind) => training::controllers(order),
        Some("MPIJob") => mpi::controllers(manifest, settings.mpi),
        Some("VolcanoJob") => volcano::controllers(),
        Some("RayJob" | "RayCluster") => ray::controllers(),
        _ => Vec::new(),
    };
    controllers.extend(kueue::controllers(manifest, before, &settings.kueue));
    controllers
}

/// Returns the queue of Kueue that an object names, if objects of its kind may wait in one.
#[must_use]
pub(super) fn queue_of(manifest: &Value) -> Option<&str> {
    kueue::queue_of(manifest)
}

/// Returns the queue that is assumed of an object with these pods, and what belongs to it; none where it names none.
#[must_use]
pub(super) fn assumed_queues(manifest: &Value, subject: &Subject) -> Vec<Value> {
    kueue::queues(manifest, subject.together().count.max(1))
}

/// Returns the pods of an object by role; nothing where no operator of it is known, or what it needs is not there.
#[must_use]
pub(super) fn subject(manifest: &Value, before: &[Value]) -> Option<Subject> {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let subject = match kind_of(manifest)? {
        "JobSet" => job_set::subject(spec),
        "TrainJob" => trainer::subject(spec, before),
        kind if TRAINING.contains(&kind) => training::subject(kind, manifest),
        "MPIJob" => mpi::subject(manifest),
        "VolcanoJob" => Some(volcano::subject(spec)),
        "RayJob" => Some(ray::of_job(spec)),
        "RayCluster" => Some(ray::of_cluster(spec)),
        _ => None,
    };
    Some(Subject { queue: queue_of(manifest).map(str::to_owned), ..subject? })
}

/// Returns how many pods of an object run at once, as far as its manifest alone says.
#[must_use]
fn pods_at_once(manifest: &Value) -> Option<u32> {
    let roles = subject(manifest, &[])?.roles;
    Some(roles.iter().map(|role| role.at_once).fold(0, u32::saturating_add))
}

/// Returns where `suspend` of a kind is, below `spec`; empty where it cannot be suspended.
fn suspend_field(kind: &str) -> &'static [&'static str] {
    match kind {
        "MPIJob" => &["runPolicy", "suspend"],
        kind if TRAINING.contains(&kind) => &["runPolicy", "suspend"],
        "VolcanoJob" => &[],
        _ => &["suspend"],
    }
}

/// Returns the names of the tasks of a Volcano Job.
#[must_use]
pub(super) fn task_names(manifest: &Value) -> Vec<Arc<str>> {
    volcano::task_names(manifest)
}

/// Returns what a Volcano Job is to do after failures, each of a pod of a task with an exit code, and after which time; nothing
/// where no policy is about that.
#[must_use]
pub(super) fn on_failures(manifest: &Value, failures: &[(&str, i64)]) -> Vec<Option<(&'static str, Time)>> {
    volcano::on_failures(manifest, failures)
}

/// Returns a script with what is left to chance settled otherwise, one thing at a time, as far as the operator of an object
/// depends on it.
#[must_use]
pub(super) fn chances(manifest: &Value, script: &Script) -> Vec<Script> {
    let kind = kind_of(manifest).unwrap_or_default();
    let matters = |other: &Script| {
        (other.map_order == script.map_order || TRAINING.contains(&kind))
            && (other.timed_actions == script.timed_actions || kind == "VolcanoJob")
    };
    script.chances().into_iter().filter(matters).collect()
}

/// Returns why an object has no pods that are known, though its operator is modelled; nothing where that is not.
#[must_use]
pub(super) fn why_unknown(manifest: &Value) -> Option<String> {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    match kind_of(manifest)? {
        "JobSet" => job_set::why_unknown(spec),
        "TrainJob" => Some(trainer::why_unknown(spec)),
        "MPIJob" => mpi::why_unknown(manifest).map(str::to_owned),
        _ => None,
    }
}

/// Tells whether the webhook of an operator takes a change of an object.
#[must_use]
pub(super) fn admits(kind: &str, old: &Value, new: &Value) -> bool {
    match kind {
        kind if TRAINING.contains(&kind) => training::admits(kind, old, new),
        "VolcanoJob" => volcano::admits(old, new),
        _ => true,
    }
}
