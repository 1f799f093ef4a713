//! `status` of an MPIJob.

use super::super::time::Time;

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
