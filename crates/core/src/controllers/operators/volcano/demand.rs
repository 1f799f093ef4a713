//! What a Volcano Job asks for, as far as what it waits for depends on it.

use super::super::demand::{Asked, AskedRole, Numbers};
use super::spec::JobSpec;
use crate::text::value::Value;

/// Returns what a Volcano Job asks for. A task that depends on others may have no pods yet, so how many it has is left open.
pub(in super::super) fn asked(manifest: &Value) -> Asked {
    let spec = JobSpec::from_spec(manifest.get("spec").unwrap_or(&Value::Null));
    let role = |task: &super::spec::Task| AskedRole {
        name: task.name.to_string(),
        count: task.depends_on.is_none().then_some(task.replicas),
        most: Some(task.replicas),
        is_final: false,
        numbers: Numbers::Index,
        template: Some(task.template.clone()),
    };
    Asked {
        operator: "Volcano v1.15.1",
        ttl: spec.ttl,
        pods: spec.tasks.iter().map(role).collect(),
        restarts: Some(spec.max_retry),
        ..Asked::default()
    }
}
