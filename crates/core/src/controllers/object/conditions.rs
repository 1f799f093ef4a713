//! The conditions of an object in a cluster.

use std::borrow::Cow;

use super::super::live::fields::{items, owned, text, time};
use super::super::meta::Condition;
use super::super::time::Time;
use crate::text::value::Value;

/// The types of conditions that operators read.
const SORTS: [&str; 16] = [
    "Complete",
    "Completed",
    "Created",
    "Failed",
    "HeadPodReady",
    "RayClusterProvisioned",
    "RayClusterSuspended",
    "RayClusterSuspending",
    "ReplicaFailure",
    "Restarting",
    "RestartingJobSet",
    "Running",
    "StartupPolicyCompleted",
    "StartupPolicyInProgress",
    "Succeeded",
    "Suspended",
];

/// Returns the conditions of an object, those that are false too, at a moment in milliseconds since 1970.
pub(in super::super) fn conditions(object: &Value, created: Time, now: i64) -> Vec<Condition> {
    conditions_at(object, "/status/conditions", created, now)
}

/// Returns those of a list.
pub(super) fn conditions_at(object: &Value, list: &str, created: Time, now: i64) -> Vec<Condition> {
    let read = |one: &Value| {
        let sort = text(one, "/type")?;
        let known = SORTS.into_iter().find(|known| *known == sort)?;
        Some(Condition {
            sort: known,
            is_true: text(one, "/status") == Some("True"),
            reason: Cow::Owned(owned(one, "/reason").unwrap_or_default()),
            message: owned(one, "/message").unwrap_or_default(),
            at: time(one, "/lastTransitionTime", now).unwrap_or(created),
        })
    };
    items(object, list).filter_map(read).collect()
}
