//! `status` of a Workload.

use super::super::time::Time;

/// `status` of a Workload, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadStatus {
    /// `admission`: the quota that it holds.
    pub admission: Option<WorkloadAdmission>,
    /// `requeueState.count`: how often it was evicted because its pods were not ready in time.
    pub requeues: u32,
    /// `requeueState.requeueAt`: before that it is not admitted again.
    pub requeue_at: Option<Time>,
    /// `accumulatedPastExecutionTimeSeconds`: for how long it was admitted before.
    pub accumulated: Option<Time>,
    /// `reclaimablePods`: how many of its pods need no quota any more.
    pub reclaimable: u32,
}

/// `admission` of a Workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadAdmission {
    /// `clusterQueue`.
    pub cluster_queue: String,
    /// For how many pods.
    pub count: u32,
}
