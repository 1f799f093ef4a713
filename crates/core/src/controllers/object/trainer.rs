//! `status` of a TrainJob.

use super::job_set::ReplicatedJobStatus;

/// `status` of a TrainJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainStatus {
    /// `jobsStatus`: what its JobSet says of each `replicatedJob`.
    pub jobs: Vec<ReplicatedJobStatus>,
}
