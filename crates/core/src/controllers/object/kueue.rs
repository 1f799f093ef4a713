//! `status` of a Workload.

/// `status` of a Workload, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadStatus {}
