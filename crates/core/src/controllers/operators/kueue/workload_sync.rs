//! One look at a Workload, in the order of `Reconcile` (`controller/core/workload_controller.go`).

use super::super::super::cluster::{Action, Cluster};
use super::super::super::kueue_settings::KueueSettings;
use super::super::super::time::Time;
use super::workload::{CLUSTER_QUEUE, LOCAL_QUEUE, Stage, Workload, stop_policy};
use crate::text::value::json;

/// Looks at a Workload. Returns what is done, and when to look again if nothing happens before.
pub(super) fn sync(
    workload: &Workload<'_>,
    cluster: &Cluster,
    settings: &KueueSettings,
    at: Time,
) -> (Vec<Action>, Option<Time>) {
    let mut later = None;
    let mut actions = Vec::new();
    let mut workload = workload.clone();
    let number = workload.number;
    if workload.object.owner.is_none() {
        // Its Job is gone, and left it.
        if workload.object.deletion.is_none() && !workload.is("Finished") {
            let message = "The workload's owner no longer exists";
            workload.set("Finished", true, "OwnerNotFound", message, at);
        }
        if workload.object.finalizer {
            actions.push(Action::ReleaseObject { object: number });
        }
        actions.splice(0..0, workload.write());
        return (actions, None);
    }
    if workload.is("Finished") {
        return (actions, None);
    }
    if workload.is_active() && workload.is("DeactivationTarget") {
        let patch = json!({"spec": {"active": false}});
        return (vec![Action::PatchObject { object: number, patch }], None);
    }
    let step = if workload.is_active() { requeue } else { deactivate };
    if !step(&mut workload, at, &mut later) && !restart(&mut workload, cluster, at) {
        if workload.status.admission.is_some() {
            later = guard(&mut workload, cluster, settings, at);
        } else if let Err(message) = workload.cluster_queue(cluster) {
            workload.set("QuotaReserved", false, "Inadmissible", message, at);
        }
    }
    actions.extend(workload.write());
    (actions, later)
}

/// Lets a Workload whose back-off is over be admitted again. Returns whether there is no more to do for now.
fn requeue(workload: &mut Workload<'_>, at: Time, later: &mut Option<Time>) -> bool {
    if let Some(requeue_at) = workload.status.requeue_at {
        if requeue_at > at {
            *later = Some(requeue_at);
            return true;
        }
        if workload.stage() == Stage::Pending {
            workload.status.requeue_at = None;
            return true;
        }
    }
    let Some(requeued) = workload.any("Requeued").filter(|requeued| !requeued.is_true) else { return false };
    match &*requeued.reason {
        "Deactivated" => workload.set("Requeued", true, "Reactivated", "The workload was reactivated", at),
        "PodsReadyTimeout" => {
            workload.set("Requeued", true, "BackoffFinished", "The workload backoff was finished", at)
        }
        _ => false,
    }
}

/// Evicts a Workload that was deactivated. Returns whether there is no more to do for now.
fn deactivate(workload: &mut Workload<'_>, at: Time, _later: &mut Option<Time>) -> bool {
    let target = workload.condition("DeactivationTarget").cloned();
    let is_evicted = workload.is("Evicted");
    if is_evicted && workload.status.requeues == 0 && workload.status.requeue_at.is_none() {
        return false;
    }
    workload.conditions.retain(|condition| condition.sort != "DeactivationTarget");
    (workload.status.requeues, workload.status.requeue_at) = (0, None);
    if !is_evicted {
        let message = "The workload is deactivated";
        match target {
            Some(target) => {
                let reason = format!("DeactivatedDueTo{}", target.reason);
                workload.evict(reason, &format!("{message} due to {}", target.message), at);
            }
            None => workload.evict("Deactivated", message, at),
        }
    }
    true
}

/// Lets a Workload be admitted again whose queue was stopped and runs again.
fn restart(workload: &mut Workload<'_>, cluster: &Cluster, at: Time) -> bool {
    let Some(requeued) = workload.any("Requeued").filter(|requeued| !requeued.is_true) else { return false };
    let (reason, message) = match &*requeued.reason {
        "LocalQueueStopped" => ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
        "ClusterQueueStopped" => {
            ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped")
        }
        _ => return false,
    };
    workload.cluster_queue(cluster).is_ok() && workload.set("Requeued", true, reason, message, at)
}

/// Evicts a Workload with quota whose queue is drained, whose pods are not ready in time, or that ran for long enough.
/// Returns when to look again.
fn guard(workload: &mut Workload<'_>, cluster: &Cluster, settings: &KueueSettings, at: Time) -> Option<Time> {
    let is_drained = |kind: &str, name: &str| {
        cluster.object(kind, name).is_some_and(|(_, queue)| stop_policy(queue) == "HoldAndDrain")
    };
    if !workload.is("Evicted") {
        let cluster_queue =
            workload.status.admission.as_ref().map(|admission| admission.cluster_queue.clone());
        if is_drained(LOCAL_QUEUE, workload.queue()) {
            workload.evict("LocalQueueStopped", "The LocalQueue is stopped", at);
            return None;
        }
        if is_drained(CLUSTER_QUEUE, &cluster_queue.unwrap_or_default()) {
            workload.evict("ClusterQueueStopped", "The ClusterQueue is stopped", at);
            return None;
        }
    }
    let ready = time_out(workload, cluster, settings, at);
    let execution = limit_execution(workload, cluster, at);
    ready.into_iter().chain(execution).min()
}

/// Evicts a Workload whose pods are not ready in time (`reconcileNotReadyTimeout`).
fn time_out(
    workload: &mut Workload<'_>,
    cluster: &Cluster,
    settings: &KueueSettings,
    at: Time,
) -> Option<Time> {
    let waits = settings.wait_for_pods_ready.as_ref()?;
    if !workload.is_active() || workload.is("Evicted") {
        return None;
    }
    let admitted = workload.condition("Admitted")?;
    let due = match workload.any("PodsReady") {
        Some(ready) if ready.is_true => return None,
        Some(ready) if ready.reason == "WaitForRecovery" => cluster.clock.stored(ready.at) + waits.recovery?,
        Some(ready) if ready.reason != "WaitForStart" => return None,
        _ => cluster.clock.stored(admitted.at) + waits.timeout,
    };
    if due > at {
        return Some(due);
    }
    let evictions = workload.status.requeues.saturating_add(1);
    if waits.backoff_limit.is_some_and(|limit| evictions > limit) {
        let message = "exceeding the maximum number of re-queuing retries";
        workload.deactivate("RequeuingLimitExceeded", message, at);
        return None;
    }
    workload.status.requeues = evictions;
    let requeue_at = cluster.clock.stored(at + waits.backoff(evictions));
    workload.status.requeue_at = workload.status.requeue_at.max(Some(requeue_at));
    let message = format!("Exceeded the PodsReady timeout {}", workload.object.name);
    workload.evict("PodsReadyTimeout", &message, at);
    None
}

/// Deactivates a Workload that was admitted for long enough, all times together (`reconcileMaxExecutionTime`).
fn limit_execution(workload: &mut Workload<'_>, cluster: &Cluster, at: Time) -> Option<Time> {
    let most = workload.max_execution()?;
    let admitted = workload.condition("Admitted")?;
    let due = cluster.clock.stored(admitted.at) + (most - workload.status.accumulated.unwrap_or_default());
    if due > at {
        return Some(due);
    }
    if !workload.is("DeactivationTarget") {
        workload.status.accumulated = None;
        workload.deactivate("MaximumExecutionTimeExceeded", "exceeding the maximum execution time", at);
    }
    None
}
