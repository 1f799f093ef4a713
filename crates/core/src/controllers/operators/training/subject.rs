//! What a story happens to: the pods of a job, by their types.

use std::sync::Arc;

use super::super::super::pod_set::RestartPolicy;
use super::super::super::subject::{self, Decider, Subject};
use super::kind::Kind;
use super::spec::{Role, TrainingSpec};
use crate::text::value::Value;

/// Where `runPolicy` has the deadline.
pub(super) const DEADLINE: &[&str] = &["runPolicy", "activeDeadlineSeconds"];

/// Returns the pods of a job by role.
#[must_use]
pub(in super::super) fn subject(kind: &str, manifest: &Value) -> Option<Subject> {
    let spec = TrainingSpec::parse(Kind::find(kind)?, manifest);
    let decider = |sign, field: &[&'static str], why| Decider { sign, field: field.to_vec(), why };
    Some(Subject {
        roles: spec.roles.iter().map(|role| of_role(role, &spec)).collect(),
        deadline: spec.deadline,
        deadline_at: DEADLINE,
        deciders: vec![
            decider(
                "backoff limit",
                &["runPolicy", "backoffLimit"],
                "restarts in all its pods count together, and reach `backoffLimit`",
            ),
            decider(
                "specified deadline",
                DEADLINE,
                "the deadline passed; it is looked at when something happens to the job, or each 10 h",
            ),
            decider("failed", &[spec.kind.field], "a pod that fails, or is deleted, fails the job at once"),
        ],
        operator: Some("training-operator v1.9.4"),
        has_dashboard: false,
        is_gang: true,
        is_suspended: spec.suspend,
        suspend: &["runPolicy", "suspend"],
        has_pod_group: false,
        queue: None,
    })
}

fn of_role(role: &Role<'_>, spec: &TrainingSpec<'_>) -> subject::Role {
    subject::Role {
        name: Some(Arc::from(role.name)),
        count: role.count(),
        at_once: role.count(),
        indexed: true,
        restarts_in_place: spec.pod_template(role).restart != RestartPolicy::Never,
        // A parameter server waits for whoever asks.
        serves: role.sort == "PS",
        weight: 1,
    }
}
