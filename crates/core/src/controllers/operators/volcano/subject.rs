//! What a story happens to: the pods of a Volcano Job, by its tasks.

use std::sync::Arc;

use super::super::super::pod_set::RestartPolicy;
use super::super::super::subject::{Decider, Role, Subject};
use super::spec::{JobSpec, Task};
use crate::text::value::Value;

/// Returns the pods of a Volcano Job by role.
#[must_use]
pub(in super::super) fn subject(spec: &Value) -> Subject {
    let read = JobSpec::from_spec(spec);
    Subject {
        roles: read.tasks.iter().map(of_task).collect(),
        deadline: None,
        deadline_at: &[],
        deciders: vec![
            Decider::new(
                "Failed",
                &["policies"],
                "no policy starts the pods again that end, or `maxRetry` is reached: too few succeed",
            ),
            Decider::new("Aborted", &["policies"], "a policy aborts it"),
            Decider::new("Terminated", &["policies"], "a policy ends it"),
        ],
        operator: Some("Volcano v1.15.1"),
        has_dashboard: false,
        is_gang: false,
        is_suspended: false,
        suspend: &[],
        has_pod_group: true,
        queue: None,
    }
}

fn of_task(task: &Task) -> Role {
    Role {
        name: Some(Arc::clone(&task.name)),
        count: task.replicas,
        at_once: task.replicas,
        indexed: true,
        restarts_in_place: task.template.restart != RestartPolicy::Never,
        serves: false,
        weight: 1,
    }
}
