//! `status` of a TrainJob.

/// `status` of a TrainJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainStatus {}
