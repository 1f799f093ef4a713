//! The operators: controllers of custom resources, which make Jobs, pods and one another's objects.

mod cache_lag;
pub(crate) mod demand;
mod job_set;
mod kinds;
mod kueue;
mod mpi;
mod queue;
pub(super) mod queue_name;
mod ray;
mod subjects;
mod trainer;
mod training;
mod volcano;

use std::sync::Arc;

use super::cluster::{Cluster, Controller};
pub use super::kueue_settings::{KueueSettings, WaitForPodsReady};
use super::object::{Object, ObjectStatus, PodGroupPhase};
use super::script::{MapOrder, Script};
use super::subject::Subject;
use super::time::Time;
use crate::text::value::Value;
use job_set::JobSetRelease;
use kinds::TRAINING;
pub(super) use kinds::kind_of;
pub use kueue::KUEUE;
pub(super) use kueue::{PREEMPTOR, preemptor};
pub use mpi::MpiRelease;
pub(super) use subjects::subject;
use trainer::TrainerRelease;
pub use trainer::shipped;

/// The status of a PodGroup whose pods may be made.
pub(super) const RUNNING_POD_GROUP: ObjectStatus = ObjectStatus::PodGroup(PodGroupPhase::Running);

/// The operators of a cluster: their releases, and how they are configured.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The release of mpi-operator.
    pub mpi: MpiRelease,
    /// The configuration of Kueue.
    pub kueue: KueueSettings,
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

/// Returns the queue that is assumed of an object with these pods, and what belongs to it; none where it names none.
#[must_use]
pub(super) fn assumed_queues(manifest: &Value, subject: &Subject) -> Vec<Value> {
    kueue::queues(manifest, subject.together().count.max(1))
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

/// Returns what an object of a kind asks for; nothing where the operator of the kind is not modelled, or leaves it alone.
#[must_use]
pub(super) fn asked(kind: &str, manifest: &Value) -> Option<demand::Asked> {
    match kind {
        "JobSet" => Some(job_set::asked(manifest)),
        "TrainJob" => Some(trainer::asked(manifest)),
        kind if TRAINING.contains(&kind) => training::asked(kind, manifest),
        "MPIJob" => mpi::asked(manifest),
        "VolcanoJob" => Some(volcano::asked(manifest)),
        "RayCluster" => Some(ray::asked_of_cluster(manifest)),
        "RayJob" => Some(ray::asked(manifest)),
        _ => None,
    }
}
