//! `status` of an MPIJob.

/// `status` of an MPIJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiStatus {}
