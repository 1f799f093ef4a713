//! `status` of a RayCluster (`calculateStatus`, `raycluster_controller.go`).

use std::borrow::Cow;

use super::super::super::cluster::Cluster;
use super::super::super::job::spec::ContainerSort;
use super::super::super::meta::Condition;
use super::super::super::object::{ClusterState, Object, ObjectStatus, RayClusterStatus, set_condition};
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::time::Time;
use super::cluster_spec::ClusterSpec;
use super::workers::{ClusterPods, Failure};

/// Conditions of a RayCluster.
pub(super) const PROVISIONED: &str = "RayClusterProvisioned";
const SUSPENDING: &str = "RayClusterSuspending";
const SUSPENDED: &str = "RayClusterSuspended";
const HEAD_READY: &str = "HeadPodReady";
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// How far a suspension is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspension {
    /// It was not asked for, or not seen yet.
    None,
    /// The pods are deleted.
    Suspending,
    /// All pods are gone.
    Suspended,
}

impl Suspension {
    /// Reads it from the conditions (`FindRayClusterSuspendStatus`, `utils/util.go`).
    pub(super) fn from_object(object: &Object) -> Self {
        if object.condition(SUSPENDING).is_some() {
            Self::Suspending
        } else if object.condition(SUSPENDED).is_some() {
            Self::Suspended
        } else {
            Self::None
        }
    }
}

/// Returns the status without the conditions; an empty one for an object that has none.
pub(super) fn status_of(object: &Object) -> RayClusterStatus {
    match &object.status {
        ObjectStatus::RayCluster(status) => status.clone(),
        _ => RayClusterStatus::default(),
    }
}

/// Returns the conditions and the status as they are now; nothing where there are several heads, which is an error.
pub(super) fn calculate(
    cluster: &Cluster,
    object: &Object,
    spec: &ClusterSpec,
    pods: &ClusterPods<'_>,
    failure: Option<Failure>,
    at: Time,
) -> Option<(Vec<Condition>, RayClusterStatus)> {
    let mut conditions = object.conditions.clone();
    match failure.and_then(Failure::reason) {
        Some(reason) => put(&mut conditions, REPLICA_FAILURE, true, reason, reason, at),
        None if failure.is_none() => conditions.retain(|condition| condition.sort != REPLICA_FAILURE),
        None => {}
    }
    let head = match pods.heads.as_slice() {
        [] => None,
        [(_, head)] if head.count() == 1 => Some(*head),
        _ => return None,
    };
    let (mut ready, mut available) = (0_u32, 0_u32);
    let mut there = u32::from(head.is_some());
    for (_, pods) in &pods.workers {
        let count = pods.count();
        there = there.saturating_add(count);
        if pods.phase == Phase::Running {
            available = available.saturating_add(count);
            ready = ready.saturating_add(if pods.is_ready() { count } else { 0 });
        }
    }
    let all_run = pods.all_run();
    let (least, most) = spec.bounds();
    let mut status = RayClusterStatus {
        ready,
        available,
        desired: spec.desired(),
        least,
        most,
        head: head.and_then(|head| head.members.first()),
        has_address: head.is_some_and(|head| head.ready.is_some() || head.started.is_some()),
        ..status_of(object)
    };
    if failure.is_none() && there == status.desired.saturating_add(1) && all_run {
        status.state = Some(ClusterState::Ready);
    }
    let (is_ready, reason) = head.map_or((false, "HeadPodNotFound"), |head| head_ready(cluster, head));
    let message = if head.is_none() { "Head Pod not found" } else { "" };
    put(&mut conditions, HEAD_READY, is_ready, reason, message, at);
    let suspension = Suspension::from_object(object);
    if object.condition(PROVISIONED).is_none() && suspension != Suspension::Suspended {
        let (is_true, reason, message) = if all_run {
            (true, "AllPodRunningAndReadyFirstTime", "All Ray Pods are ready for the first time")
        } else {
            (false, "RayClusterPodsProvisioning", "RayCluster Pods are being provisioned for first time")
        };
        put(&mut conditions, PROVISIONED, is_true, reason, message, at);
    }
    match suspension {
        Suspension::Suspending if there == 0 => {
            let message = "RayCluster has been suspended";
            put(&mut conditions, PROVISIONED, false, "RayClusterPodsProvisioning", message, at);
            put(&mut conditions, SUSPENDING, false, SUSPENDING, "", at);
            put(&mut conditions, SUSPENDED, true, SUSPENDED, "", at);
        }
        Suspension::Suspended if spec.suspend == Some(false) => {
            put(&mut conditions, SUSPENDED, false, SUSPENDED, "", at);
        }
        Suspension::Suspending | Suspension::Suspended => {}
        Suspension::None => {
            put(&mut conditions, SUSPENDED, false, SUSPENDED, "", at);
            put(&mut conditions, SUSPENDING, spec.is_suspended(), SUSPENDING, "", at);
        }
    }
    if spec.is_suspended() && there == 0 {
        status.state = Some(ClusterState::Suspended);
    }
    Some((conditions, status))
}

fn put(
    conditions: &mut Vec<Condition>,
    sort: &'static str,
    is_true: bool,
    reason: &'static str,
    message: &str,
    at: Time,
) {
    let reason = Cow::Borrowed(reason);
    set_condition(conditions, Condition { sort, is_true, reason, message: message.to_owned(), at });
}

/// Returns the status and the reason of `HeadPodReady` (`FindHeadPodReadyCondition`, `utils/util.go`).
fn head_ready(cluster: &Cluster, head: &PodGroup) -> (bool, &'static str) {
    if head.is_ready() {
        return (true, "HeadPodRunningAndReady");
    }
    match (head.ready, head.phase) {
        (Some(_), Phase::Pending) => (false, "ContainerCreating"),
        (Some(_), Phase::Running) => {
            let is_main = |sort| sort == ContainerSort::Main;
            let containers = cluster.set_of(head).map_or(0, |set| set.template.containers.len());
            let mut ended =
                head.containers.iter().filter(|status| is_main(status.sort) && status.nth < containers);
            match ended.find_map(|status| status.terminated) {
                Some((0, _)) => (false, "Completed"),
                Some(_) => (false, "Error"),
                None => (false, "Unknown"),
            }
        }
        _ => (false, "Unknown"),
    }
}
