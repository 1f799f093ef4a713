//! The pods of objects by role, whatever their kind.

use super::super::subject::Subject;
use super::kinds::{TRAINING, kind_of};
use super::queue_name::queue_of;
use super::{job_set, mpi, ray, trainer, training, volcano};
use crate::text::value::Value;

/// Returns the pods of an object by role; nothing where no operator of it is known, or what it needs is not there.
#[must_use]
pub(in super::super) fn subject(manifest: &Value, before: &[Value]) -> Option<Subject> {
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
pub(super) fn pods_at_once(manifest: &Value) -> Option<u32> {
    let roles = subject(manifest, &[])?.roles;
    Some(roles.iter().map(|role| role.at_once).fold(0, u32::saturating_add))
}
