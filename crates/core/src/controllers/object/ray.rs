//! `status` of a RayJob.

/// `status` of a RayJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RayJobStatus {}
