//! What a story happens to: the launcher of an MPIJob and its workers.

use std::sync::Arc;

use super::super::super::job::spec::JobSpec;
use super::super::super::managers;
use super::super::super::pod_set::RestartPolicy;
use super::super::super::subject::{Decider, Role, Subject};
use super::API_VERSION;
use super::spec::MpiSpec;
use crate::text::value::Value;

/// Where `runPolicy` has the deadline.
const DEADLINE: &[&str] = &["runPolicy", "activeDeadlineSeconds"];

/// Returns why an MPIJob has none that are known; nothing for one of another version, which has another operator.
#[must_use]
pub(in super::super) fn why_unknown(manifest: &Value) -> Option<&'static str> {
    if manifest.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
        return None;
    }
    let manager = manifest.pointer("/spec/runPolicy/managedBy").and_then(Value::as_str);
    Some(match manager {
        None | Some("" | managers::MPI) => "mpi-operator refuses it, and makes no pods",
        Some(_) => "mpi-operator leaves it to the controller in `spec.runPolicy.managedBy`",
    })
}

/// Returns the pods of an MPIJob by role; nothing where the operator leaves it alone.
#[must_use]
pub(in super::super) fn subject(manifest: &Value) -> Option<Subject> {
    let is_known = manifest.get("apiVersion").and_then(Value::as_str) == Some(API_VERSION);
    let spec = MpiSpec::from_manifest(manifest).filter(|_| is_known)?;
    let launcher = JobSpec::from_spec(&spec.launcher_job(None));
    let role = |name: &str, count, restarts_in_place| Role {
        name: Some(Arc::from(name)),
        count,
        at_once: count,
        indexed: name != "launcher",
        restarts_in_place,
        // The launcher starts the ranks on workers, which wait for it.
        serves: name != "launcher",
        weight: 1,
    };
    let workers = spec
        .worker_template()
        .map(|template| role("worker", spec.workers(), template.restart != RestartPolicy::Never));
    let first = role("launcher", 1, launcher.restarts_in_place);
    Some(Subject {
        roles: [first].into_iter().chain(workers).collect(),
        deadline: launcher.deadline,
        deadline_at: DEADLINE,
        deciders: vec![
            Decider::new(
                "MPIJobEvicted",
                &["mpiReplicaSpecs", "Worker"],
                "the kubelet evicts a worker, which is never replaced",
            ),
            Decider::new("backoff limit", &["runPolicy", "backoffLimit"], "the launcher fails too often"),
            Decider::new("specified deadline", DEADLINE, "the deadline of the launcher passes"),
        ],
        operator: Some("mpi-operator v0.8.0"),
        has_dashboard: false,
        is_gang: true,
        is_suspended: spec.suspend,
        suspend: &["runPolicy", "suspend"],
        has_pod_group: false,
        queue: None,
    })
}
