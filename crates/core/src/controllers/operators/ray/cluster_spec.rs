//! What a RayCluster asks for, as its controller reads it: with the defaults of its CRD.

use std::sync::Arc;

use super::super::super::job::spec::{ContainerSort, ContainerSpec};
use super::super::super::pod_set::{PodTemplate, RestartPolicy};
use crate::text::value::Value;

/// The init container of workers that waits for the head (`common/pod.go`).
const WAIT: &str = "wait-gcs-ready";
/// `maxReplicas` where nothing is said.
const MOST_REPLICAS: i64 = 2_147_483_647;

/// The fields of `spec` of a RayCluster that its controller looks at.
#[derive(Clone, Debug)]
pub(super) struct ClusterSpec {
    /// `suspend`.
    pub(super) suspend: Option<bool>,
    /// `headGroupSpec.template`.
    pub(super) head: PodTemplate,
    /// `workerGroupSpecs`.
    pub(super) groups: Vec<WorkerGroup>,
    /// `enableInTreeAutoscaling`: then only the autoscaler takes workers away.
    pub(super) is_autoscaled: bool,
}

/// A group of workers.
#[derive(Clone, Debug)]
pub(super) struct WorkerGroup {
    /// `groupName`.
    pub(super) name: Arc<str>,
    /// `template`.
    pub(super) template: PodTemplate,
    /// `replicas`, between `minReplicas` and `maxReplicas`.
    replicas: u32,
    least: u32,
    most: u32,
    /// `numOfHosts`: pods of one replica.
    pub(super) hosts: u32,
    /// `suspend`.
    pub(super) is_suspended: bool,
}

/// Returns a flag of a manifest.
pub(super) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns a list of a manifest; an empty one for what is none.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a count of a manifest, at most that of an `int32`.
fn count(value: &Value, key: &str, default: i64) -> u32 {
    let number = value.get(key).and_then(Value::as_i64).unwrap_or(default);
    u32::try_from(number.clamp(0, MOST_REPLICAS)).unwrap_or(0)
}

impl ClusterSpec {
    /// Reads `spec` of a RayCluster, or `rayClusterSpec` of a RayJob.
    pub(super) fn parse(spec: &Value) -> Self {
        let is_autoscaled = flag(spec, "enableInTreeAutoscaling");
        let is_v2 =
            is_autoscaled && spec.pointer("/autoscalerOptions/version").and_then(Value::as_str) == Some("v2");
        let template = |of: &Value| {
            let template = PodTemplate::from_template(of.get("template").unwrap_or(&Value::Null));
            // The autoscaler of version 2 wants pods that do not restart (`common/pod.go`).
            if is_v2 { PodTemplate { restart: RestartPolicy::Never, ..template } } else { template }
        };
        let group = |group: &Value| WorkerGroup {
            name: Arc::from(group.get("groupName").and_then(Value::as_str).unwrap_or("worker")),
            template: with_wait(template(group)),
            replicas: count(group, "replicas", 0),
            least: count(group, "minReplicas", 0),
            most: count(group, "maxReplicas", MOST_REPLICAS),
            hosts: count(group, "numOfHosts", 1).max(1),
            is_suspended: flag(group, "suspend"),
        };
        Self {
            suspend: spec.get("suspend").and_then(Value::as_bool),
            head: template(spec.get("headGroupSpec").unwrap_or(&Value::Null)),
            groups: list(spec, "workerGroupSpecs").iter().map(group).collect(),
            is_autoscaled,
        }
    }

    /// Tells whether `suspend` is true.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }

    /// Returns how many workers there should be.
    pub(super) fn desired(&self) -> u32 {
        self.groups.iter().map(WorkerGroup::desired).fold(0, u32::saturating_add)
    }

    /// Returns the sums of the least and the most workers.
    pub(super) fn bounds(&self) -> (u32, u32) {
        let groups = self.groups.iter().filter(|group| !group.is_suspended);
        let bounds = groups
            .map(|group| (group.least.saturating_mul(group.hosts), group.most.saturating_mul(group.hosts)));
        bounds.fold((0, 0), |sum, (least, most)| (sum.0.saturating_add(least), sum.1.saturating_add(most)))
    }
}

impl WorkerGroup {
    /// Returns how many pods there should be: always within the bounds (`GetWorkerGroupDesiredReplicas`, `utils/util.go`).
    pub(super) fn desired(&self) -> u32 {
        if self.is_suspended {
            return 0;
        }
        let replicas = if self.replicas < self.least { self.least } else { self.replicas.min(self.most) };
        replicas.saturating_mul(self.hosts).min(u32::MAX / 4)
    }
}

fn with_wait(template: PodTemplate) -> PodTemplate {
    let mut containers = template.containers.to_vec();
    containers.push(ContainerSpec { name: WAIT.to_owned(), sort: ContainerSort::Init });
    PodTemplate { containers: containers.into(), ..template }
}
