//! `status` of a JobSet.

/// `status` of a JobSet, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSetStatus {}
