//! What a story happens to: the pods of a TrainJob, which are those of the JobSet that it becomes with its runtime.

use super::super::super::subject::{Decider, Subject};
use super::super::super::time::Time;
use super::super::job_set;
use super::TrainerRelease;
use super::build::{is_suspended, job_set_spec};
use super::runtimes::{CLUSTER_RUNTIME, runtime_among, runtime_kind, runtime_name};
use crate::text::value::Value;

/// Returns why a TrainJob has none that are known: its runtime is not there.
#[must_use]
pub(in super::super) fn why_unknown(spec: &Value) -> String {
    let (kind, name) = (runtime_kind(spec), runtime_name(spec));
    let shipped = if kind == CLUSTER_RUNTIME { ", and Trainer ships none of this name" } else { "" };
    format!("its runtime, the {kind} `{name}`, is not among the files{shipped}")
}

/// Returns the pods of a TrainJob by role; nothing where its runtime is neither among the objects that are there nor one of
/// those that are shipped.
#[must_use]
pub(in super::super) fn subject(spec: &Value, before: &[Value]) -> Option<Subject> {
    let runtime = runtime_among(before, spec, TrainerRelease::default())?;
    let inside = job_set::subject(&job_set_spec(spec, &runtime))?;
    let deadline = spec.get("activeDeadlineSeconds").and_then(Value::as_i64).map(Time::from_seconds);
    Some(Subject {
        deadline,
        deadline_at: &["activeDeadlineSeconds"],
        deciders: vec![
            Decider::new("DeadlineExceeded", &["activeDeadlineSeconds"], "the deadline passes"),
            Decider::new(
                "FailedJobs",
                &["runtimeRef"],
                "its runtime has no `failurePolicy`: the first Job that fails fails the JobSet",
            ),
            Decider::new(
                "ReachedMaxRestarts",
                &["runtimeRef"],
                "a Job fails, and of the restarts of its runtime none is left",
            ),
            Decider::new("FailJobSetFailurePolicyAction", &["runtimeRef"], "a rule of its runtime fails it"),
        ],
        operator: Some("Trainer v2.3.0, JobSet v0.12.0"),
        is_gang: true,
        is_suspended: is_suspended(spec),
        ..inside
    })
}
