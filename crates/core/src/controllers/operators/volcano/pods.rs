//! The pods of jobs as the controller knows them, and what changes of them it takes notice of
//! (`pkg/controllers/job/job_controller_handler.go`, `pkg/controllers/cache/cache.go`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::cluster::Cluster;
use super::super::super::indexes::Indexes;
use super::super::super::job::spec::ContainerSort;
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::pod_set::{Owner, PodSet};
use super::super::super::time::Time;
use super::policy::{Request, RequestEvent, RequestPods};
use super::spec::JobSpec;

/// How long after the last change of a pod the controller knows that it is gone.
pub(super) const DELETION_LAG: Time = Time::from_millis(15);

/// What makes pods of some names these pods, and not others that had the names before or have them after: their UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodId {
    set: usize,
    attempt: u32,
    created: Time,
}

impl PodId {
    /// Returns that of a group.
    pub(super) fn new(pods: &PodGroup) -> Self {
        Self { set: pods.set, attempt: pods.attempt, created: pods.created }
    }
}

/// The pods that have the annotation `volcano.sh/controller-out-of-sync`: nothing that becomes of them fires a policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(BTreeMap<PodId, Indexes>);

impl Marks {
    /// Marks pods.
    pub(super) fn add(&mut self, id: PodId, members: &Indexes) {
        let marked = self.0.entry(id).or_default();
        *marked = marked.union(members);
    }

    /// Forgets pods that are gone.
    pub(super) fn remove(&mut self, id: PodId, members: &Indexes) {
        if let Some(marked) = self.0.get_mut(&id) {
            *marked = marked.without(members);
            if marked.is_empty() {
                self.0.remove(&id);
            }
        }
    }

    /// Returns those of a group.
    pub(super) fn of(&self, pods: &PodGroup) -> Indexes {
        self.0
            .get(&PodId::new(pods))
            .map_or_else(Indexes::default, |marked| marked.intersection(&pods.members))
    }
}

/// Returns the pods of a job that the controller knows of, each group with its number and what they have in common.
pub(super) fn known_pods(
    cluster: &Cluster,
    job: usize,
    at: Time,
) -> impl Iterator<Item = (usize, &PodGroup, &PodSet)> {
    let pods = cluster.pods.iter().enumerate();
    let pods = pods.filter(move |(_, pods)| pods.gone.is_none_or(|gone| at < gone + DELETION_LAG));
    pods.filter_map(move |(nth, pods)| {
        let set = cluster.set_of(pods).filter(|set| set.owner == Owner::Object(job))?;
        Some((nth, pods, set))
    })
}

/// A group of pods as it was announced last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AnnouncedPods {
    members: Indexes,
    phase: Phase,
    restarts: u32,
    is_ready: bool,
    is_deleted: bool,
    is_gone: bool,
}

impl AnnouncedPods {
    /// Tells whether nothing changed since.
    fn is_still(&self, pods: &PodGroup) -> bool {
        (self.phase, self.restarts, self.is_ready) == (pods.phase, pods.restarts, pods.is_ready())
            && (self.is_deleted, self.is_gone) == (pods.deletion.is_some(), pods.gone.is_some())
            && self.members == pods.members
    }

    fn new(pods: &PodGroup) -> Self {
        Self {
            members: pods.members.clone(),
            phase: pods.phase,
            restarts: pods.restarts,
            is_ready: pods.is_ready(),
            is_deleted: pods.deletion.is_some(),
            is_gone: pods.gone.is_some(),
        }
    }
}

/// What was announced of all pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// By the numbers of the groups.
    seen: Vec<Option<AnnouncedPods>>,
    /// The numbers of the groups of the same pods.
    groups: BTreeMap<PodId, Vec<usize>>,
}

/// A change of pods: what is looked at, and whether their objects are gone.
#[derive(Debug)]
pub(super) struct Change {
    /// The request.
    pub(super) request: Request,
    /// Whether it is about the end of the objects.
    pub(super) is_deletion: bool,
}

/// A job whose pods are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobPods<'a> {
    /// All objects.
    pub(super) cluster: &'a Cluster,
    /// The number of the job.
    pub(super) job: usize,
    /// Its `spec`.
    pub(super) spec: &'a JobSpec,
    /// The pods that are out of sync.
    pub(super) marks: &'a Marks,
    /// The moment.
    pub(super) at: Time,
}

impl Watch {
    /// Takes all pods for announced as they are.
    pub(super) fn know(&mut self, cluster: &Cluster) {
        for (nth, pods) in cluster.pods.iter().enumerate().skip(self.seen.len()) {
            self.groups.entry(PodId::new(pods)).or_default().push(nth);
            self.seen.push(Some(AnnouncedPods::new(pods)));
        }
    }

    /// Returns what changed of the pods of a job since the last time. Pods that were never announced are Pending to it,
    /// whatever they do (`addPod`).
    pub(super) fn changes(&mut self, of: JobPods<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        let cluster = of.cluster;
        // A part of a group that was announced is a group that was.
        for (nth, pods) in cluster.pods.iter().enumerate().skip(self.seen.len()) {
            let groups = self.groups.entry(PodId::new(pods)).or_default();
            let mut seen = groups.iter().filter_map(|nth| self.seen.get(*nth)?.as_ref());
            let whole = seen.find(|seen| !seen.members.intersection(&pods.members).is_empty());
            let part = whole.map(|seen| AnnouncedPods { members: pods.members.clone(), ..seen.clone() });
            groups.push(nth);
            self.seen.push(part);
        }
        for (pods, seen) in cluster.pods.iter().zip(&mut self.seen) {
            if seen.as_ref().is_some_and(|seen| seen.is_gone || seen.is_still(pods)) {
                continue;
            }
            let set = cluster.set_of(pods).filter(|set| set.owner == Owner::Object(of.job));
            let Some(set) = set else { continue };
            match seen.take() {
                Some(before) => {
                    of.update(&mut changes, (pods, set), &before);
                    if pods.gone.is_some() {
                        of.push(&mut changes, (pods, set), RequestEvent::PodEvicted, true);
                    }
                }
                None if pods.gone.is_some() => continue,
                None => of.push(&mut changes, (pods, set), RequestEvent::PodPending, false),
            }
            *seen = Some(AnnouncedPods::new(pods));
        }
        changes
    }
}

impl JobPods<'_> {
    /// Adds what a change of pods means (`updatePod`).
    fn update(self, changes: &mut Vec<Change>, (pods, set): (&PodGroup, &PodSet), before: &AnnouncedPods) {
        let is_changed = (before.phase, before.restarts, before.is_ready)
            != (pods.phase, pods.restarts, pods.is_ready())
            || before.is_deleted != pods.deletion.is_some() && pods.gone.is_none();
        if !is_changed {
            return;
        }
        let is_new = before.phase != pods.phase;
        let is_marked = !self.marks.of(pods).is_empty();
        let some = match pods.phase {
            Phase::Succeeded if is_new && self.task_completed(&set.role) => {
                // The last of them is the one by which the task is complete.
                let last = pods.members.without(&pods.members.lowest(pods.count().saturating_sub(1)));
                Some((RequestEvent::TaskCompleted, last))
            }
            Phase::Pending | Phase::Running => {
                let grown = pods.restarts.saturating_sub(before.restarts);
                let failing = self.failing_members((pods, set), grown);
                failing.map(|members| (RequestEvent::TaskFailed, members))
            }
            _ => None,
        };
        let event = match pods.phase {
            Phase::Failed if is_new => RequestEvent::PodFailed,
            Phase::Running if is_new => RequestEvent::PodRunning,
            _ => RequestEvent::OutOfSync,
        };
        match some {
            Some((some, members)) if event == RequestEvent::OutOfSync && !is_marked => {
                changes.push(self.new_change((pods, set), some, members, false));
            }
            _ => self.push(changes, (pods, set), event, false),
        }
    }

    /// Returns the request that an event of pods is.
    pub(super) fn request(self, (pods, set): (&PodGroup, &PodSet), event: RequestEvent) -> Request {
        self.new_change((pods, set), event, pods.members.clone(), false).request
    }

    fn new_change(
        self,
        (pods, set): (&PodGroup, &PodSet),
        event: RequestEvent,
        members: Indexes,
        is_deletion: bool,
    ) -> Change {
        let first = pods.containers.iter().find(|container| container.sort == ContainerSort::Main);
        let code = first.and_then(|container| container.terminated).map_or(0, |(code, _)| code);
        let request = Request {
            job: self.job,
            pods: Some(RequestPods { task: Arc::clone(&set.role), id: PodId::new(pods), members }),
            event,
            exit_code: if event == RequestEvent::PodFailed { code } else { 0 },
            action: None,
            version: set.round,
        };
        Change { request, is_deletion }
    }

    /// Adds an event of pods; of those that are out of sync it is none.
    fn push(
        self,
        changes: &mut Vec<Change>,
        (pods, set): (&PodGroup, &PodSet),
        event: RequestEvent,
        is_deletion: bool,
    ) {
        let marked = self.marks.of(pods);
        let others = pods.members.without(&marked);
        for (members, event) in [(others, event), (marked, RequestEvent::OutOfSync)] {
            if !members.is_empty() {
                changes.push(self.new_change((pods, set), event, members, is_deletion));
            }
        }
    }

    /// Tells whether as many pods of a task have succeeded as it has replicas (`TaskCompleted`).
    fn task_completed(self, task: &str) -> bool {
        let replicas = self.spec.task(task).map_or(0, |task| task.replicas);
        let succeeded = known_pods(self.cluster, self.job, self.at)
            .filter(|(_, pods, set)| pods.phase == Phase::Succeeded && *set.role == *task);
        replicas > 0 && succeeded.map(|(_, pods, _)| pods.count()).fold(0, u32::saturating_add) >= replicas
    }

    /// Returns those of some pods that restarted by which the restarts in the pods of their task are as many as its
    /// `maxRetry`, or more (`TaskFailed`); nothing where they are fewer.
    fn failing_members(self, (pods, set): (&PodGroup, &PodSet), grown: u32) -> Option<Indexes> {
        let task = self.spec.task(&set.role).filter(|task| task.replicas > 0)?;
        let alive = known_pods(self.cluster, self.job, self.at)
            .filter(|(_, other, of)| !other.is_ended() && of.role == set.role);
        let restarts = |pods: &PodGroup| u64::from(pods.restarts) * u64::from(pods.count());
        let all = alive.map(|(_, pods, _)| restarts(pods)).fold(0, u64::saturating_add);
        let limit = u64::from(task.max_retry);
        if all < limit {
            return None;
        }
        // They are announced one after the other.
        let before = all.saturating_sub(u64::from(grown) * u64::from(pods.count()));
        let below = limit.saturating_sub(before).saturating_sub(1).checked_div(u64::from(grown)).unwrap_or(0);
        Some(pods.members.without(&pods.members.lowest(u32::try_from(below).unwrap_or(u32::MAX))))
    }
}
