//! The scheduler: which Workload gets quota next, and who goes for it (`scheduler/scheduler.go`, `cache/queue`,
//! `scheduler/preemption`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::super::cluster::{Action, Cluster};
use super::super::super::meta::Condition;
use super::super::super::object::Object;
use super::super::super::time::Time;
use super::quota::{Quota, asked, held};
use super::workload::{CLUSTER_QUEUE, Stage, Workload, workload, workloads};
use crate::text::value::Value;

/// How long after an event the scheduler looks.
const LAG: Time = Time::from_millis(10);
/// How long after quota was given back those are tried again that did not fit (`cache/queue/inadmissible_workloads.go`,
/// `requeueBatchPeriod`).
const BATCH: Time = Time::from_seconds(1);

/// The queues of Workloads, which are in memory only.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheduler {
    /// When it looks next.
    next: Option<Time>,
    /// When those are tried again that did not fit.
    retry: Option<Time>,
    /// Those that did not fit when they were tried.
    inadmissible: BTreeSet<usize>,
    /// Of each ClusterQueue the Workload that waits for others to go: it is the first until it is admitted.
    preemptors: BTreeMap<String, usize>,
    /// The Workloads as they were seen last.
    seen: BTreeMap<usize, SeenWorkload>,
}

/// What decides of a Workload that waits whether it is tried again.
#[derive(Clone, Debug)]
struct SeenWorkload {
    /// How far it was.
    stage: Stage,
    /// The condition `Evicted`.
    evicted: Option<Condition>,
    /// The condition `Requeued`.
    requeued: Option<Condition>,
    /// `reclaimablePods`.
    reclaimable: u32,
    /// `spec`.
    spec: Value,
}

impl SeenWorkload {
    fn new(workload: &Workload<'_>) -> Self {
        Self {
            stage: workload.stage(),
            evicted: workload.any("Evicted").cloned(),
            requeued: workload.any("Requeued").cloned(),
            reclaimable: workload.status.reclaimable,
            spec: workload.object.spec().clone(),
        }
    }

    fn is_of(&self, workload: &Workload<'_>) -> bool {
        self.stage == workload.stage()
            && self.evicted.as_ref() == workload.any("Evicted")
            && self.requeued.as_ref() == workload.any("Requeued")
            && self.reclaimable == workload.status.reclaimable
            && self.spec == *workload.object.spec()
    }
}

impl Scheduler {
    pub(super) fn due(&self) -> Option<Time> {
        self.next.into_iter().chain(self.retry).min()
    }

    /// Lets it look soon.
    pub(super) fn wake(&mut self, at: Time) {
        let soon = at + LAG;
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        self.give_back(at);
    }

    /// Takes notice of a Workload that was made, changed or went.
    pub(super) fn observe(&mut self, number: usize, cluster: &Cluster, at: Time) {
        let workload = workload(cluster, number);
        let before = self.seen.get(&number);
        let is_as_before = match (before, &workload) {
            (Some(before), Some(workload)) => before.is_of(workload),
            (before, workload) => before.is_none() && workload.is_none(),
        };
        if is_as_before {
            return;
        }
        let now = workload.as_ref().map(SeenWorkload::new);
        let stage = |seen: Option<&SeenWorkload>| seen.map_or(Stage::Done, |seen| seen.stage);
        let (was, is) = (stage(before), stage(now.as_ref()));
        let gave_back = match (was, is) {
            (Stage::Admitted, Stage::Pending | Stage::Done) | (Stage::Pending, Stage::Done) => true,
            (Stage::Admitted, Stage::Admitted) => {
                before.map(|seen| seen.reclaimable) != now.as_ref().map(|seen| seen.reclaimable)
            }
            _ => false,
        };
        self.inadmissible.remove(&number);
        if is != Stage::Pending {
            self.preemptors.retain(|_, preemptor| *preemptor != number);
        }
        match now {
            Some(now) => self.seen.insert(number, now),
            None => self.seen.remove(&number),
        };
        if gave_back {
            self.give_back(at);
        }
        let soon = at + LAG;
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
    }

    fn give_back(&mut self, at: Time) {
        let retry = at + BATCH;
        self.retry = Some(self.retry.map_or(retry, |other| other.min(retry)));
    }

    /// Looks at the first Workload of each ClusterQueue.
    pub(super) fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        if self.retry.is_some_and(|retry| retry <= at) {
            self.retry = None;
            self.inadmissible.clear();
        }
        self.next = None;
        let mut heads: BTreeMap<&str, Workload<'_>> = BTreeMap::new();
        for (number, workload) in workloads(cluster) {
            let is_waiting = workload.stage() == Stage::Pending
                && workload.object.deletion.is_none()
                && !self.inadmissible.contains(&number);
            if !is_waiting || !workload.may_requeue(at) {
                continue;
            }
            let Ok(queue) = workload.cluster_queue(cluster) else { continue };
            let place = |workload: &Workload<'_>| {
                let is_preemptor = self.preemptors.get(&queue.name) == Some(&workload.number);
                let priority = workload.priority();
                (Reverse(is_preemptor), Reverse(priority), workload.queued(cluster.clock), workload.number)
            };
            match heads.get(queue.name.as_str()) {
                Some(head) if place(head) <= place(&workload) => {}
                _ => {
                    heads.insert(&queue.name, workload);
                }
            }
        }
        let mut actions = Vec::new();
        for (name, head) in heads {
            if let Some((_, queue)) = cluster.object(CLUSTER_QUEUE, name) {
                self.try_head(head, queue, cluster, at, &mut actions);
            }
        }
        actions
    }

    /// Admits a Workload, or lets others go for it, or puts it aside.
    fn try_head(
        &mut self,
        mut head: Workload<'_>,
        queue: &Object,
        cluster: &Cluster,
        at: Time,
        actions: &mut Vec<Action>,
    ) {
        let mut quota = Quota::from_queue(queue);
        let holders: Vec<Workload<'_>> = holders(cluster, &queue.name);
        for holder in &holders {
            quota.take(&held(holder));
        }
        let all = head.count().saturating_sub(head.status.reclaimable);
        let attempt = |count: u32| attempt(&head, count, &quota, queue, &holders, cluster);
        let plan = attempt(all).or_else(|| fewer(&head, all, attempt));
        let again = at + LAG;
        match plan {
            Some((count, victims)) if victims.is_empty() => {
                head.admit(&queue.name, count, at);
                self.preemptors.remove(&queue.name);
                self.next = Some(again);
            }
            Some((count, victims)) => {
                // It stays the first until those are gone, and looks at every change.
                self.preemptors.insert(queue.name.clone(), head.number);
                let message = format!(
                    "{}. Pending the preemption of {} workload(s)",
                    quota.why(&asked(&head, count)),
                    victims.len()
                );
                head.release("Pending", &message, cluster.clock, at);
                for mut victim in victims.into_iter().filter(|victim| !victim.is("Evicted")) {
                    let message =
                        "Preempted to accommodate a workload due to prioritization in the ClusterQueue";
                    victim.set("Preempted", true, "InClusterQueue", message, at);
                    victim.evict("Preempted", message, at);
                    actions.extend(victim.write());
                }
            }
            None => {
                self.preemptors.retain(|_, preemptor| *preemptor != head.number);
                self.inadmissible.insert(head.number);
                head.release("Pending", &quota.why(&asked(&head, all)), cluster.clock, at);
                self.next = Some(again);
            }
        }
        actions.extend(head.write());
    }
}

/// Returns the Workloads that hold quota of a ClusterQueue.
fn holders<'a>(cluster: &'a Cluster, queue: &str) -> Vec<Workload<'a>> {
    let holds = |workload: &Workload<'_>| {
        let admission = workload.status.admission.as_ref();
        !workload.is("Finished") && admission.is_some_and(|admission| admission.cluster_queue == queue)
    };
    workloads(cluster).map(|(_, workload)| workload).filter(holds).collect()
}

/// For how many pods a Workload gets quota, and who goes for it before.
type AdmissionPlan<'a> = (u32, Vec<Workload<'a>>);

/// Returns the plan for a number of pods; nothing where they do not fit and nobody may go for them.
fn attempt<'a>(
    head: &Workload<'_>,
    count: u32,
    quota: &Quota,
    queue: &Object,
    holders: &[Workload<'a>],
    cluster: &Cluster,
) -> Option<AdmissionPlan<'a>> {
    let asked = asked(head, count);
    if quota.fits(&asked) {
        return Some((count, Vec::new()));
    }
    if !quota.could_fit(&asked) {
        return None;
    }
    let policy = queue.spec().pointer("/preemption/withinClusterQueue").and_then(Value::as_str);
    let clock = cluster.clock;
    let may_go = |holder: &&Workload<'a>| match policy {
        Some("LowerPriority") => holder.priority() < head.priority(),
        Some("LowerOrNewerEqualPriority") => {
            holder.priority() < head.priority()
                || holder.priority() == head.priority() && head.queued(clock) < holder.queued(clock)
        }
        _ => false,
    };
    let mut candidates: Vec<&Workload<'a>> = holders.iter().filter(may_go).collect();
    let since =
        |holder: &Workload<'_>| holder.condition("QuotaReserved").map(|reserved| clock.stored(reserved.at));
    candidates.sort_by_key(|holder| {
        (Reverse(holder.is("Evicted")), holder.priority(), Reverse(since(holder)), holder.number)
    });
    let mut left = quota.clone();
    let mut victims: Vec<&Workload<'a>> = Vec::new();
    for candidate in candidates {
        left.give(&held(candidate));
        victims.push(candidate);
        if left.fits(&asked) {
            break;
        }
    }
    if !left.fits(&asked) {
        return None;
    }
    // Those stay that need not go (`fillBackWorkloads`).
    for nth in (0..victims.len().saturating_sub(1)).rev() {
        let Some(victim) = victims.get(nth).copied() else { continue };
        left.take(&held(victim));
        if left.fits(&asked) {
            victims.swap_remove(nth);
        } else {
            left.give(&held(victim));
        }
    }
    Some((count, victims.into_iter().cloned().collect()))
}

/// Returns the plan for as many pods as possible, where a Workload is content with fewer (`flavorassigner/podset_reducer.go`).
fn fewer<'a>(
    head: &Workload<'_>,
    all: u32,
    attempt: impl Fn(u32) -> Option<AdmissionPlan<'a>>,
) -> Option<AdmissionPlan<'a>> {
    let (mut low, mut high) = (head.least()?, all.checked_sub(1)?);
    let mut best = None;
    while low <= high {
        let middle = low + (high - low) / 2;
        match attempt(middle) {
            Some(plan) => {
                best = Some(plan);
                low = middle.saturating_add(1);
            }
            None => high = middle.checked_sub(1)?,
        }
    }
    best
}
