//! What a JobSet asks for, as far as what it waits for depends on it.

use super::super::super::managers;
use super::super::demand::{Asked, AskedObjects, other_manager};
use super::spec::{DependencyStatus, JobSetSpec};
use crate::text::value::Value;

/// Returns what a JobSet asks for.
pub(in super::super) fn asked(manifest: &Value) -> Asked {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let read = JobSetSpec::from_spec(spec);
    let mut objects: Vec<AskedObjects> = Vec::new();
    for replicated_job in &read.replicated_jobs {
        let depends = replicated_job.depends_on.iter();
        let mut after: Vec<(String, bool)> =
            depends.map(|one| (one.name.to_string(), one.until == DependencyStatus::Complete)).collect();
        let before = objects.last().and_then(|before| before.role.clone());
        after.extend(before.filter(|_| read.is_in_order).map(|name| (name, false)));
        let role = Some(replicated_job.name.to_string());
        objects.push(AskedObjects { kind: "Job", role, count: replicated_job.replicas, after });
    }
    Asked {
        operator: "JobSet v0.12.0",
        is_suspended: read.suspend,
        suspend: &["suspend"],
        manager: other_manager(spec, managers::JOB_SET),
        ttl: read.ttl,
        objects,
        restarts: Some(read.failure.map_or(0, |policy| policy.max_restarts)),
        ..Asked::default()
    }
}
