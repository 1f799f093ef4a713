//! `status` of a JobSet.

use std::sync::Arc;

/// `status` of a JobSet, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSetStatus {
    /// `restarts`.
    pub restarts: u32,
    /// `restartsCountTowardsMax`.
    pub restarts_count_towards_max: u32,
    /// `terminalState`: the type of the condition that ends it.
    pub terminal_state: Option<&'static str>,
    /// `replicatedJobsStatus`, by names from the last to the first.
    pub replicated_jobs: Vec<ReplicatedJobStatus>,
}

/// An item of `status.replicatedJobsStatus`: how many Jobs of a `replicatedJob` are in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicatedJobStatus {
    /// `name`.
    pub name: Arc<str>,
    /// `ready`: active Jobs all of whose pods are ready, or done.
    pub ready: u32,
    /// `succeeded`.
    pub succeeded: u32,
    /// `failed`.
    pub failed: u32,
    /// `active`: Jobs with active pods.
    pub active: u32,
    /// `suspended`.
    pub suspended: u32,
}
