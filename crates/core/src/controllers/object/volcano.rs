//! `status` of a Volcano Job.

/// `status` of a Volcano Job, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolcanoStatus {}
