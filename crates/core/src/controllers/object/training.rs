//! `status` of a job of training-operator.

use super::super::live::fields::{number, time};
use super::super::time::Time;
use crate::text::value::Value;

/// `status` of a job of training-operator, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingStatus {
    /// `startTime`.
    pub start: Option<Time>,
    /// `completionTime`.
    pub completion: Option<Time>,
    /// `replicaStatuses`, by the types of replicas, in order of their first appearance.
    pub replicas: Vec<(&'static str, ReplicaCounts)>,
}

/// An entry of `replicaStatuses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// `active`.
    pub active: u32,
    /// `succeeded`.
    pub succeeded: u32,
    /// `failed`: also pods that run and are in deletion.
    pub failed: u32,
}

impl TrainingStatus {
    /// Returns the counts of a type.
    #[must_use]
    pub fn counts(&self, sort: &str) -> ReplicaCounts {
        self.replicas.iter().find(|(other, _)| *other == sort).map(|(_, counts)| *counts).unwrap_or_default()
    }

    /// Sets the counts of a type.
    pub(crate) fn set_counts(&mut self, sort: &'static str, counts: ReplicaCounts) {
        match self.replicas.iter_mut().find(|(other, _)| *other == sort) {
            Some((_, old)) => *old = counts,
            None => self.replicas.push((sort, counts)),
        }
    }
}

/// The types of replicas.
const SORTS: [&str; 5] = ["Chief", "Evaluator", "Master", "PS", "Worker"];

impl TrainingStatus {
    /// Reads `status` of a job of a cluster, at a moment in milliseconds since 1970.
    pub(in super::super) fn from_live(status: &Value, now: i64) -> Self {
        let of = |sort: &'static str| {
            let counts = status.get("replicaStatuses")?.get(sort)?;
            let count = |key: &str| number(counts, key).unwrap_or_default();
            let counts = ReplicaCounts {
                active: count("/active"),
                succeeded: count("/succeeded"),
                failed: count("/failed"),
            };
            Some((sort, counts))
        };
        Self {
            start: time(status, "/startTime", now),
            completion: time(status, "/completionTime", now),
            replicas: SORTS.into_iter().filter_map(of).collect(),
        }
    }
}
