//! Objects of a cluster, as their operators read them when they start.

use std::borrow::Cow;

use super::super::live::fields::{items, owned, text, time};
use super::super::meta::Condition;
use super::super::time::Time;
use super::{JobSetStatus, MpiStatus, ObjectStatus, TrainStatus, TrainingStatus};
use crate::text::value::Value;

/// The types of conditions that operators read.
const SORTS: [&str; 10] = [
    "Complete",
    "Completed",
    "Created",
    "Failed",
    "Restarting",
    "RestartingJobSet",
    "Running",
    "StartupPolicyCompleted",
    "StartupPolicyInProgress",
    "Suspended",
];

/// Returns the conditions of an object, those that are false too, at a moment in milliseconds since 1970.
pub(in super::super) fn conditions(object: &Value, created: Time, now: i64) -> Vec<Condition> {
    let read = |one: &Value| {
        let sort = text(one, "/type")?;
        let known = SORTS.into_iter().chain(["Succeeded"]).find(|known| *known == sort)?;
        Some(Condition {
            sort: known,
            is_true: text(one, "/status") == Some("True"),
            reason: Cow::Owned(owned(one, "/reason").unwrap_or_default()),
            message: owned(one, "/message").unwrap_or_default(),
            at: time(one, "/lastTransitionTime", now).unwrap_or(created),
        })
    };
    items(object, "/status/conditions").filter_map(read).collect()
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
            _ => return None,
        })
    }
}
