//! `status` of a TrainJob.

use super::job_set::ReplicatedJobStatus;
use crate::text::value::Value;

/// `status` of a TrainJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainStatus {
    /// `jobsStatus`: what its JobSet says of each `replicatedJob`.
    pub jobs: Vec<ReplicatedJobStatus>,
}

impl TrainStatus {
    /// Reads `status` of a TrainJob of a cluster.
    pub(in super::super) fn from_live(status: &Value) -> Self {
        Self { jobs: ReplicatedJobStatus::all(status, "/jobsStatus") }
    }
}
