//! `status` of a job of training-operator.

/// `status` of a job of training-operator, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingStatus {}
