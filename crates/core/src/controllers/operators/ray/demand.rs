//! What a RayJob and a RayCluster ask for, as far as what they wait for depends on it.

use super::super::super::dashboard::HEAD;
use super::super::super::managers;
use super::super::super::time::Time;
use super::super::demand::{Asked, AskedObjects, AskedRole, Numbers, other_manager};
use super::cluster_spec::{ClusterSpec, WorkerGroup};
use super::job_spec::{JobSpec, SubmissionMode};
use crate::text::value::Value;

/// The operator.
const OPERATOR: &str = "KubeRay v1.7.0";

/// Returns what a RayJob asks for.
pub(in super::super) fn asked(manifest: &Value) -> Asked {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let read = JobSpec::parse(spec);
    let submitter = AskedObjects {
        role: Some("submitter".to_owned()),
        after: vec![("cluster".to_owned(), false)],
        ..AskedObjects::one("Job")
    };
    let mut objects = Vec::new();
    if read.selector.is_none() {
        objects.push(AskedObjects { role: Some("cluster".to_owned()), ..AskedObjects::one("RayCluster") });
    }
    if read.mode == SubmissionMode::Job {
        objects.push(submitter);
    }
    Asked {
        operator: OPERATOR,
        is_suspended: read.suspend,
        suspend: &["suspend"],
        manager: other_manager(spec, managers::RAY),
        deadline: read.active_deadline.map(Time::from_seconds),
        deadline_at: &["activeDeadlineSeconds"],
        objects,
        restarts: u32::try_from(read.backoff_limit).ok(),
        ..Asked::default()
    }
}

/// Returns what a RayCluster asks for. How many workers a group has may be changed by the autoscaler.
pub(in super::super) fn asked_of_cluster(manifest: &Value) -> Asked {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let read = ClusterSpec::parse(spec);
    let role = |group: &WorkerGroup| AskedRole {
        name: group.name.to_string(),
        count: (!read.is_autoscaled && !group.is_suspended).then(|| group.desired()),
        most: None,
        is_final: false,
        numbers: if group.hosts > 1 { Numbers::Hosts(group.hosts) } else { Numbers::Order },
        template: Some(group.template.clone()),
    };
    let head = AskedRole {
        name: HEAD.to_owned(),
        count: Some(1),
        most: None,
        is_final: false,
        numbers: Numbers::Order,
        template: Some(read.head.clone()),
    };
    Asked {
        operator: OPERATOR,
        is_suspended: read.is_suspended(),
        suspend: &["suspend"],
        manager: other_manager(spec, managers::RAY),
        pods: std::iter::once(head).chain(read.groups.iter().map(role)).collect(),
        ..Asked::default()
    }
}
