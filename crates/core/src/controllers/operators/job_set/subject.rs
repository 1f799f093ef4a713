//! What a story happens to: the pods of a JobSet, by its Jobs.

use std::sync::Arc;

use super::super::super::job::spec::JobSpec;
use super::super::super::subject::{Decider, Role, Subject};
use super::spec::{JobSetSpec, ReplicatedJob};
use crate::text::value::Value;

/// Maximum Jobs that are simulated: each is a role, which a story can name.
const MOST_ROLES: u64 = 256;

/// Returns why the pods of a JobSet are not known; nothing where they are.
#[must_use]
pub(in super::super) fn why_unknown(spec: &Value) -> Option<String> {
    let jobs = JobSetSpec::from_spec(spec).replicas();
    (jobs > MOST_ROLES).then(|| format!("it has {jobs} Jobs, and at most {MOST_ROLES} are simulated"))
}

/// Returns the pods of a JobSet by role; nothing where it has too many Jobs.
#[must_use]
pub(in super::super) fn subject(spec: &Value) -> Option<Subject> {
    let read = JobSetSpec::from_spec(spec);
    if read.replicas() > MOST_ROLES {
        return None;
    }
    let roles = read.replicated_jobs.iter().flat_map(|replicated_job| {
        let role = of_job(replicated_job);
        let name = move |nth| Some(Arc::from(format!("{}-{nth}", replicated_job.name)));
        (0..replicated_job.replicas).map(move |nth| Role { name: name(nth), ..role.clone() })
    });
    Some(Subject {
        roles: roles.collect(),
        deadline: None,
        deadline_at: &[],
        deciders: vec![
            Decider::new(
                "FailedJobs",
                &["failurePolicy"],
                "there is no `failurePolicy`: the first Job that fails fails the JobSet",
            ),
            Decider::new(
                "ReachedMaxRestarts",
                &["failurePolicy", "maxRestarts"],
                "a Job fails, and no restart is left",
            ),
            Decider::new(
                "FailJobSetFailurePolicyAction",
                &["failurePolicy", "rules"],
                "a rule fails the JobSet",
            ),
        ],
        operator: Some("JobSet v0.12.0"),
        has_dashboard: false,
        is_gang: false,
        is_suspended: read.suspend,
        suspend: &["suspend"],
        has_pod_group: false,
        queue: None,
    })
}

/// Returns the pods of a Job, without its number.
fn of_job(replicated_job: &ReplicatedJob) -> Role {
    let spec = JobSpec::from_spec(&replicated_job.template);
    Role {
        name: None,
        // A Job of several waves has an index for each completion.
        count: spec.completions.unwrap_or(spec.parallelism),
        at_once: spec.at_once(),
        indexed: spec.indexed,
        restarts_in_place: spec.restarts_in_place,
        serves: false,
        weight: 1,
    }
}
