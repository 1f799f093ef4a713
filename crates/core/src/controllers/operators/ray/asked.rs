//! What a RayJob and a RayCluster ask for, as far as what they wait for depends on it.

use super::super::super::time::Time;
use super::super::asked::{Asked, AskedObjects, AskedRole, other_manager};
use super::job_spec::{JobSpec, Mode};
use crate::text::value::Value;

/// `managedBy` of what the operator takes for its own.
const MANAGER: &str = "ray.io/kuberay-operator";
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
    if read.mode == Mode::Job {
        objects.push(submitter);
    }
    Asked {
        operator: OPERATOR,
        is_suspended: read.suspend,
        suspend: &["suspend"],
        manager: other_manager(spec, MANAGER),
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
    let is_scaled = spec.get("enableInTreeAutoscaling").and_then(Value::as_bool).unwrap_or(false);
    let groups = spec.get("workerGroupSpecs").and_then(Value::as_array).into_iter().flatten();
    let hosts = |group: &Value| group.get("numOfHosts").and_then(Value::as_u64).unwrap_or(1);
    let count = |group: &Value| {
        let replicas = group.get("replicas").and_then(Value::as_u64).unwrap_or_default();
        u32::try_from(replicas.saturating_mul(hosts(group))).unwrap_or(u32::MAX)
    };
    let is_group_suspended = |group: &Value| group.get("suspend").and_then(Value::as_bool).unwrap_or(false);
    let role = |group: &Value| AskedRole {
        name: group.get("groupName").and_then(Value::as_str).unwrap_or_default().to_owned(),
        count: (!is_scaled && !is_group_suspended(group)).then(|| count(group)),
        is_final: false,
        template: None,
    };
    let head = AskedRole { name: "head".to_owned(), count: Some(1), is_final: false, template: None };
    Asked {
        operator: OPERATOR,
        is_suspended: spec.get("suspend").and_then(Value::as_bool).unwrap_or(false),
        suspend: &["suspend"],
        manager: other_manager(spec, MANAGER),
        pods: std::iter::once(head).chain(groups.map(role)).collect(),
        ..Asked::default()
    }
}
