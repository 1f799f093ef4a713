//! Objects of a cluster, as their operators read them when they start.

use std::borrow::Cow;

use super::super::live::fields::{items, owned, text, time};
use super::super::meta::Condition;
use super::super::operators;
use super::super::time::Time;
use super::{
    JobSetStatus, MpiStatus, ObjectStatus, PodGroupPhase, RayClusterStatus, RayJobStatus, TrainStatus,
    TrainingStatus, VolcanoStatus,
};
use crate::text::value::Value;

/// The types of conditions that operators read.
const SORTS: [&str; 16] = [
    "Complete",
    "Completed",
    "Created",
    "Failed",
    "HeadPodReady",
    "RayClusterProvisioned",
    "RayClusterSuspended",
    "RayClusterSuspending",
    "ReplicaFailure",
    "Restarting",
    "RestartingJobSet",
    "Running",
    "StartupPolicyCompleted",
    "StartupPolicyInProgress",
    "Succeeded",
    "Suspended",
];

/// Returns the conditions of an object, those that are false too, at a moment in milliseconds since 1970.
pub(in super::super) fn conditions(object: &Value, created: Time, now: i64) -> Vec<Condition> {
    conditions_at(object, "/status/conditions", created, now)
}

/// Returns those of a list.
pub(super) fn conditions_at(object: &Value, list: &str, created: Time, now: i64) -> Vec<Condition> {
    let read = |one: &Value| {
        let sort = text(one, "/type")?;
        let known = SORTS.into_iter().find(|known| *known == sort)?;
        Some(Condition {
            sort: known,
            is_true: text(one, "/status") == Some("True"),
            reason: Cow::Owned(owned(one, "/reason").unwrap_or_default()),
            message: owned(one, "/message").unwrap_or_default(),
            at: time(one, "/lastTransitionTime", now).unwrap_or(created),
        })
    };
    items(object, list).filter_map(read).collect()
}

impl ObjectStatus {
    /// Reads `status` of an object of a kind; nothing where that cannot go on from a live object.
    pub(in super::super) fn from_live(kind: &str, object: &Value, now: i64) -> Option<Self> {
        let status = object.get("status").unwrap_or(&Value::Null);
        Some(match kind {
            "JobSet" => Self::JobSet(JobSetStatus::from_live(status)),
            "TrainJob" => Self::Train(TrainStatus::from_live(status)),
            "MPIJob" => Self::Mpi(MpiStatus::from_live(status, now)),
            "JAXJob" | "PaddleJob" | "PyTorchJob" | "TFJob" | "XGBoostJob" => {
                Self::Training(TrainingStatus::from_live(status, now))
            }
            // One without a phase is new to its controller.
            "VolcanoJob" if text(status, "/state/phase").is_none() => Self::Empty,
            "VolcanoJob" => {
                let tasks = operators::task_names(object);
                let tasks = tasks.iter().map(AsRef::as_ref);
                Self::Volcano(VolcanoStatus::from_live(status, tasks, now)?)
            }
            "PodGroup" => match text(status, "/phase") {
                Some(phase) => Self::PodGroup(PodGroupPhase::parse(phase)?),
                None => Self::Empty,
            },
            "RayJob" => Self::RayJob(Box::new(RayJobStatus::from_live(status, now)?)),
            "RayCluster" => Self::RayCluster(RayClusterStatus::from_live(status)?),
            _ => return None,
        })
    }
}
