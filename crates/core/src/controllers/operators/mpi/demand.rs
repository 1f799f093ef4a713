//! What an MPIJob asks for, as far as what it waits for depends on it.

use super::super::super::managers;
use super::super::super::time::Time;
use super::super::demand::{Asked, AskedObjects, AskedRole, Numbers, other_manager};
use crate::text::value::Value;

/// Returns what an MPIJob asks for. One that the operator leaves alone asks for nothing.
pub(in super::super) fn asked(manifest: &Value) -> Option<Asked> {
    let policy = manifest.pointer("/spec/runPolicy").unwrap_or(&Value::Null);
    let seconds = |key: &str| policy.get(key).and_then(Value::as_i64).map(Time::from_seconds);
    let whole = Asked {
        operator: "mpi-operator v0.8.0",
        is_suspended: policy.get("suspend").and_then(Value::as_bool).unwrap_or(false),
        suspend: &["runPolicy", "suspend"],
        manager: other_manager(policy, managers::MPI),
        // Its launcher has both: the MPIJob itself stays.
        ttl: None,
        deadline: seconds("activeDeadlineSeconds"),
        deadline_at: &["runPolicy", "activeDeadlineSeconds"],
        ..Asked::default()
    };
    let Some(spec) = super::MpiSpec::from_manifest(manifest) else {
        return whole.manager.is_some().then_some(whole);
    };
    let workers = spec.workers();
    let worker = AskedRole {
        name: "worker".to_owned(),
        count: Some(workers),
        most: None,
        is_final: true,
        numbers: Numbers::Index,
        template: spec.worker_template(),
    };
    let after = if spec.at_startup || workers == 0 { Vec::new() } else { vec![("worker".to_owned(), false)] };
    let launcher = AskedObjects { role: Some("launcher".to_owned()), after, ..AskedObjects::one("Job") };
    Some(Asked {
        pods: if workers == 0 { Vec::new() } else { vec![worker] },
        objects: vec![launcher],
        ..whole
    })
}
