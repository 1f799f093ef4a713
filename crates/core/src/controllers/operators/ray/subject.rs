//! What a story happens to: the pods of a Ray cluster, and the one that submits a program to it.

use std::sync::Arc;

use super::super::super::pod_set::{PodTemplate, RestartPolicy};
use super::super::super::subject::{Decider, Role, Subject};
use super::super::super::time::Time;
use super::cluster_spec::ClusterSpec;
use super::job_spec::{JobSpec, SubmissionMode};
use crate::text::value::Value;

/// Where a RayJob has its deadline.
const DEADLINE: &[&str] = &["activeDeadlineSeconds"];

/// Returns the pods of a RayJob by role.
#[must_use]
pub(in super::super) fn of_job(spec: &Value) -> Subject {
    let read = JobSpec::parse(spec);
    let cluster = spec.get("rayClusterSpec").filter(|_| read.selector.is_none());
    let mut roles = cluster.map(of_spec).unwrap_or_default();
    if read.mode == SubmissionMode::Job {
        // It follows the program by what the dashboard says.
        roles.push(Role { serves: true, ..role("submitter", 1, false) });
    }
    Subject {
        roles,
        deadline: read.active_deadline.map(Time::from_seconds),
        deadline_at: DEADLINE,
        deciders: vec![
            Decider::new("DeadlineExceeded", DEADLINE, "the deadline passes"),
            Decider::new(
                "PreRunningDeadlineExceeded",
                &["preRunningDeadlineSeconds"],
                "the program does not start in time",
            ),
            Decider::new("ValidationFailed", &[], "the validation of KubeRay refuses it, and no pod is made"),
            Decider::new("AppFailed", &["backoffLimit"], "the program fails, and no retry is left"),
            Decider::new(
                "SubmissionFailed",
                &["submitterConfig", "backoffLimit"],
                "the submitter fails too often",
            ),
            Decider::new(
                "JobStatusCheckTimeoutExceeded",
                &["entrypoint"],
                "the dashboard is silent for five minutes",
            ),
            Decider::new(
                "JobDeploymentStatusTransitionGracePeriodExceeded",
                &["submissionMode"],
                "the submitter and the program do not end within the time of the operator of one another",
            ),
        ],
        operator: Some("KubeRay v1.7.0"),
        has_dashboard: true,
        is_gang: false,
        is_suspended: read.suspend,
        suspend: &["suspend"],
        has_pod_group: false,
        queue: None,
    }
}

/// Returns the pods of a RayCluster by role.
#[must_use]
pub(in super::super) fn of_cluster(spec: &Value) -> Subject {
    Subject {
        roles: of_spec(spec),
        deadline: None,
        deadline_at: &[],
        deciders: Vec::new(),
        operator: Some("KubeRay v1.7.0"),
        has_dashboard: true,
        is_gang: false,
        is_suspended: ClusterSpec::parse(spec).is_suspended(),
        suspend: &["suspend"],
        has_pod_group: false,
        queue: None,
    }
}

fn of_spec(spec: &Value) -> Vec<Role> {
    let read = ClusterSpec::parse(spec);
    let restarts = |template: &PodTemplate| template.restart != RestartPolicy::Never;
    let head = role("head", 1, restarts(&read.head));
    let groups = read.groups.iter().map(|group| Role {
        name: Some(Arc::clone(&group.name)),
        ..role("", group.desired(), restarts(&group.template))
    });
    [head].into_iter().chain(groups).collect()
}

fn role(name: &str, count: u32, restarts_in_place: bool) -> Role {
    Role {
        name: Some(Arc::from(name)),
        count,
        at_once: count,
        indexed: false,
        restarts_in_place,
        serves: true,
        weight: 1,
    }
}
