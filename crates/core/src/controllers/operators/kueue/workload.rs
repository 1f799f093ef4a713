//! A Workload, and what is written into its status (`workload/workload.go`, `workload/evict/evict.go`).

use std::borrow::Cow;

use super::super::super::cluster::{Action, Cluster};
use super::super::super::meta::Condition;
use super::super::super::object::{Object, ObjectStatus, WorkloadAdmission, WorkloadStatus, set_condition};
use super::super::super::time::{Clock, Time};
use crate::text::value::Value;

/// What the kinds are called here.
pub(super) const WORKLOAD: &str = "Workload";
pub(super) const CLUSTER_QUEUE: &str = "ClusterQueue";
pub(super) const LOCAL_QUEUE: &str = "LocalQueue";
pub(super) const PRIORITY_CLASS: &str = "WorkloadPriorityClass";

/// A Workload.
#[derive(Clone, Debug)]
pub(super) struct Workload<'a> {
    /// Its number.
    pub(super) number: usize,
    /// The object.
    pub(super) object: &'a Object,
    /// `status.conditions`, with what was changed.
    pub(super) conditions: Vec<Condition>,
    /// `status`, with what was changed.
    pub(super) status: WorkloadStatus,
}

/// How far a Workload is (`workload.Status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for quota.
    Pending,
    /// It holds quota.
    Admitted,
    /// It is over, or was deactivated.
    Done,
}

/// Reads a whole number that is not negative; what is too large is the largest.
pub(super) fn number(value: &Value, key: &str) -> Option<u32> {
    let number = value.get(key)?.as_i64()?;
    Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

impl<'a> Workload<'a> {
    pub(super) fn new(number: usize, object: &'a Object) -> Self {
        let status = match &object.status {
            ObjectStatus::Workload(status) => status.clone(),
            _ => WorkloadStatus::default(),
        };
        Self { number, object, conditions: object.conditions.clone(), status }
    }

    fn spec(&self, key: &str) -> Option<&'a Value> {
        self.object.spec().get(key).filter(|value| !value.is_null())
    }

    /// Returns `spec.queueName`.
    pub(super) fn queue(&self) -> &'a str {
        self.spec("queueName").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns `spec.priority`.
    pub(super) fn priority(&self) -> i64 {
        self.spec("priority").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Tells whether `spec.active` is not false.
    pub(super) fn is_active(&self) -> bool {
        self.spec("active").and_then(Value::as_bool).unwrap_or(true)
    }

    /// Returns `spec.maximumExecutionTimeSeconds`.
    pub(super) fn max_execution(&self) -> Option<Time> {
        self.spec("maximumExecutionTimeSeconds").and_then(Value::as_i64).map(Time::from_seconds)
    }

    /// Returns `spec.podSets`: of a Job there is one.
    pub(super) fn pod_set(&self) -> &'a Value {
        self.object.spec().pointer("/podSets/0").unwrap_or(&Value::Null)
    }

    /// Returns how many pods it asks quota for.
    pub(super) fn count(&self) -> u32 {
        number(self.pod_set(), "count").unwrap_or(1)
    }

    /// Returns with how many pods it is content.
    pub(super) fn least(&self) -> Option<u32> {
        number(self.pod_set(), "minCount")
    }

    /// Returns a condition that is true.
    pub(super) fn condition(&self, sort: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.sort == sort && condition.is_true)
    }

    /// Returns a condition, whatever its status.
    pub(super) fn any(&self, sort: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.sort == sort)
    }

    /// Tells whether a condition is true.
    pub(super) fn is(&self, sort: &str) -> bool {
        self.condition(sort).is_some()
    }

    /// Returns how far it is.
    pub(super) fn stage(&self) -> Stage {
        if self.is("Finished") || !self.is_active() {
            Stage::Done
        } else if self.status.admission.is_some() {
            Stage::Admitted
        } else {
            Stage::Pending
        }
    }

    /// Tells whether it may be admitted again: its back-off is over (`cache/queue/cluster_queue.go`,
    /// `backoffWaitingTimeExpired`).
    pub(super) fn may_requeue(&self, at: Time) -> bool {
        self.any("Requeued").is_none_or(|requeued| requeued.is_true)
            && self.status.requeue_at.is_none_or(|requeue_at| requeue_at <= at)
    }

    /// Returns its place among those of its priority: since when it waits.
    pub(super) fn queued(&self, clock: Clock) -> Time {
        match self.condition("Evicted") {
            Some(evicted) if evicted.reason == "PodsReadyTimeout" => clock.stored(evicted.at),
            _ => clock.stored(self.object.created),
        }
    }

    /// Sets a condition.
    pub(super) fn set(
        &mut self,
        sort: &'static str,
        is_true: bool,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        at: Time,
    ) -> bool {
        let condition = Condition { sort, is_true, reason: reason.into(), message: message.into(), at };
        set_condition(&mut self.conditions, condition)
    }

    /// Gives it quota for some pods, and admits it.
    pub(super) fn admit(&mut self, cluster_queue: &str, count: u32, at: Time) {
        let message = format!("Quota reserved in ClusterQueue {cluster_queue}");
        self.set("QuotaReserved", true, "QuotaReserved", message, at);
        for sort in ["Evicted", "Preempted"] {
            if let Some(old) = self.condition(sort) {
                let message = format!("Previously: {}", old.message);
                self.set(sort, false, "QuotaReserved", message, at);
            }
        }
        self.status.admission = Some(WorkloadAdmission { cluster_queue: cluster_queue.to_owned(), count });
        self.set("Admitted", true, "Admitted", "The workload is admitted", at);
    }

    /// Evicts it: its quota goes when its Job has no active pods any more.
    pub(super) fn evict(&mut self, reason: impl Into<Cow<'static, str>>, message: &str, at: Time) {
        self.set("Evicted", true, reason, message, at);
    }

    /// Takes its quota, and counts for how long it was admitted.
    pub(super) fn release(&mut self, reason: &'static str, message: &str, clock: Clock, at: Time) -> bool {
        let mut changed = self.set("QuotaReserved", false, reason, message, at);
        changed |= self.status.admission.take().is_some();
        if let Some(admitted) = self.condition("Admitted") {
            let since = (at - clock.stored(admitted.at)).millis() / 1_000;
            let before = self.status.accumulated.unwrap_or_default();
            self.status.accumulated = Some(before + Time::from_seconds(since));
            self.set("Admitted", false, "NoReservation", "The workload has no reservation", at);
            changed = true;
        }
        changed
    }

    /// Writes that it is to be deactivated.
    pub(super) fn deactivate(&mut self, reason: &'static str, message: &str, at: Time) {
        self.set("DeactivationTarget", true, reason, message, at);
    }

    /// Returns the writing of its status, where that changed.
    pub(super) fn write(self) -> Option<Action> {
        let status = ObjectStatus::Workload(self.status);
        let is_empty = self.object.status == ObjectStatus::Empty
            && status == ObjectStatus::Workload(WorkloadStatus::default());
        if self.conditions == self.object.conditions && (status == self.object.status || is_empty) {
            return None;
        }
        Some(Action::WriteObject { object: self.number, conditions: self.conditions, status })
    }

    /// Returns its ClusterQueue by its LocalQueue; what is missing is an error with a message.
    pub(super) fn cluster_queue(&self, cluster: &'a Cluster) -> Result<&'a Object, String> {
        let name = self.queue();
        let Some((_, local)) = cluster.object(LOCAL_QUEUE, name) else {
            return Err(format!("LocalQueue {name} doesn't exist"));
        };
        if !is_running(local) {
            return Err(format!("LocalQueue {name} is inactive"));
        }
        let name = local.spec().get("clusterQueue").and_then(Value::as_str).unwrap_or_default();
        match cluster.object(CLUSTER_QUEUE, name) {
            None => Err(format!("ClusterQueue {name} doesn't exist")),
            Some((_, queue)) if !is_running(queue) => Err(format!("ClusterQueue {name} is inactive")),
            Some((_, queue)) => Ok(queue),
        }
    }
}

/// Returns `stopPolicy` of a queue.
pub(super) fn stop_policy(queue: &Object) -> &str {
    queue.spec().get("stopPolicy").and_then(Value::as_str).unwrap_or("None")
}

fn is_running(queue: &Object) -> bool {
    stop_policy(queue) == "None" && queue.deletion.is_none()
}

/// Returns the Workloads that are there, each with its number.
pub(super) fn workloads(cluster: &Cluster) -> impl Iterator<Item = (usize, Workload<'_>)> {
    let objects = cluster.objects.iter().enumerate();
    objects
        .filter(|(_, object)| object.kind == WORKLOAD && object.is_there())
        .map(|(number, object)| (number, Workload::new(number, object)))
}

/// Returns a Workload that is there.
pub(super) fn workload(cluster: &Cluster, number: usize) -> Option<Workload<'_>> {
    let object = cluster.objects.get(number)?;
    (object.kind == WORKLOAD && object.is_there()).then(|| Workload::new(number, object))
}
