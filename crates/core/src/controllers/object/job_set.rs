//! `status` of a JobSet.

use std::sync::Arc;

use super::super::live::fields::{items, number, text};
use crate::text::value::Value;

/// `status` of a JobSet, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSetStatus {
    /// `restarts`.
    pub restarts: u32,
    /// `restartsCountTowardsMax`.
    pub restarts_count_towards_max: u32,
    /// `terminalState`: the type of the condition that ends it.
    pub terminal_state: Option<&'static str>,
    /// `replicatedJobsStatus`, by names from the last to the first.
    pub replicated_jobs: Vec<ReplicatedJobStatus>,
}

/// An item of `status.replicatedJobsStatus`: how many Jobs of a `replicatedJob` are in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicatedJobStatus {
    /// `name`.
    pub name: Arc<str>,
    /// `ready`: active Jobs all of whose pods are ready, or done.
    pub ready: u32,
    /// `succeeded`.
    pub succeeded: u32,
    /// `failed`.
    pub failed: u32,
    /// `active`: Jobs with active pods.
    pub active: u32,
    /// `suspended`.
    pub suspended: u32,
}

/// The words of `terminalState`.
const TERMINAL: [&str; 2] = ["Completed", "Failed"];

impl JobSetStatus {
    /// Reads `status` of a JobSet of a cluster.
    pub(in super::super) fn from_live(status: &Value) -> Self {
        let terminal = text(status, "/terminalState");
        Self {
            restarts: number(status, "/restarts").unwrap_or_default(),
            restarts_count_towards_max: number(status, "/restartsCountTowardsMax").unwrap_or_default(),
            terminal_state: TERMINAL.into_iter().find(|word| terminal == Some(*word)),
            replicated_jobs: ReplicatedJobStatus::all(status, "/replicatedJobsStatus"),
        }
    }
}

impl ReplicatedJobStatus {
    /// Reads a list of them, by names from the last to the first.
    pub(in super::super) fn all(status: &Value, pointer: &str) -> Vec<Self> {
        let read = |one: &Value| {
            let count = |key: &str| number(one, key).unwrap_or_default();
            Self {
                name: Arc::from(text(one, "/name").unwrap_or_default()),
                ready: count("/ready"),
                succeeded: count("/succeeded"),
                failed: count("/failed"),
                active: count("/active"),
                suspended: count("/suspended"),
            }
        };
        let mut found: Vec<Self> = items(status, pointer).map(read).collect();
        found.sort_by(|one, other| other.name.cmp(&one.name));
        found
    }
}
