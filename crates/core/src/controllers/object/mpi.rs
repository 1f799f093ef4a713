//! `status` of an MPIJob.

use super::super::live::fields::{number, time};
use super::super::time::Time;
use crate::text::value::Value;

/// `status` of an MPIJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiStatus {
    /// `startTime`.
    pub start: Option<Time>,
    /// `completionTime`.
    pub completion: Option<Time>,
    /// `replicaStatuses.Launcher`.
    pub launcher: Option<MpiReplicas>,
    /// `replicaStatuses.Worker`.
    pub worker: Option<MpiReplicas>,
}

/// `replicaStatuses` of a role: its pods by their phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiReplicas {
    /// `active`: those that run.
    pub active: u32,
    /// `succeeded`.
    pub succeeded: u32,
    /// `failed`; of the launcher, `status.failed` of its Job.
    pub failed: u32,
}

impl MpiStatus {
    /// Reads `status` of an MPIJob of a cluster, at a moment in milliseconds since 1970.
    pub(in super::super) fn from_live(status: &Value, now: i64) -> Self {
        let of = |role: &str| {
            let counts = status.get("replicaStatuses")?.get(role)?;
            let count = |key: &str| number(counts, key).unwrap_or_default();
            Some(MpiReplicas {
                active: count("/active"),
                succeeded: count("/succeeded"),
                failed: count("/failed"),
            })
        };
        Self {
            start: time(status, "/startTime", now),
            completion: time(status, "/completionTime", now),
            launcher: of("Launcher"),
            worker: of("Worker"),
        }
    }
}
