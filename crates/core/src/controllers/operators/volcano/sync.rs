//! What a sync makes and deletes (`syncJob`, `pkg/controllers/job/job_controller_actions.go`).

use std::collections::BTreeMap;

use super::super::super::cluster::{Action, Cluster};
use super::super::super::indexes::Indexes;
use super::super::super::meta::Propagation;
use super::super::super::object::{JobPhase, Object, ObjectStatus, PodCounts, PodGroupPhase, VolcanoStatus};
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::pod_group_phase_of;
use super::pods::{Marks, known_pods};
use super::spec::{DependsOn, JobSpec, Task};
use super::state::Update;
use crate::text::value::{Value, json};

/// A job to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobView<'a> {
    /// All objects.
    pub(super) cluster: &'a Cluster,
    /// The number of the job.
    pub(super) number: usize,
    /// The job.
    pub(super) object: &'a Object,
    /// Its `spec`.
    pub(super) spec: &'a JobSpec,
    /// The pods that are out of sync.
    pub(super) marks: &'a Marks,
    /// The moment.
    pub(super) at: Time,
}

impl<'a> JobView<'a> {
    /// Returns the status; nothing where none was written.
    pub(super) fn status(&self) -> Option<&'a VolcanoStatus> {
        match &self.object.status {
            ObjectStatus::Volcano(status) => Some(status),
            _ => None,
        }
    }

    /// Returns the phase.
    pub(super) fn phase(&self) -> JobPhase {
        self.status().map(|status| status.phase).unwrap_or_default()
    }

    /// Returns the PodGroup, with its number and its phase.
    pub(super) fn pod_group(&self) -> Option<(usize, Option<PodGroupPhase>)> {
        let mut owned = self.cluster.objects_owned(Owner::Object(self.number));
        let (number, group) = owned.find(|(_, object)| object.kind == "PodGroup")?;
        Some((number, pod_group_phase_of(group)))
    }

    /// Writes the status.
    pub(super) fn write(&self, status: VolcanoStatus) -> Action {
        let status = ObjectStatus::Volcano(status);
        Action::WriteObject { object: self.number, conditions: Vec::new(), status }
    }

    /// Returns the status with a new time of transition.
    pub(super) fn changed(&self, status: VolcanoStatus) -> VolcanoStatus {
        VolcanoStatus { transition: self.cluster.clock.stored(self.at), ..status }
    }

    /// Makes missing pods and deletes those that are too many, once the PodGroup is no longer Pending. Before that, only the
    /// phase follows from the counts that were written last.
    pub(super) fn sync(&self, update: Update) -> Vec<Action> {
        if self.object.deletion.is_some() {
            return Vec::new();
        }
        self.sync_from(self.status_or_new(), update)
    }

    fn status_or_new(&self) -> VolcanoStatus {
        let new = || VolcanoStatus { min_available: self.spec.min_available, ..VolcanoStatus::default() };
        self.status().cloned().unwrap_or_else(new)
    }

    /// Tells whether a job that has not begun waits for a claim (`createJobIOIfNotExist`).
    pub(super) fn waits_for_claim(&self) -> bool {
        self.cluster.lacks_claims
            && self.spec.names_claim
            && self.phase() == JobPhase::Pending
            && self.object.deletion.is_none()
    }

    /// Writes the status of a job that is new (`initJobStatus`).
    pub(super) fn begin(&self) -> Option<Action> {
        self.status().is_none().then(|| self.write(self.changed(self.status_or_new())))
    }

    /// Does the rest of a sync, from a status.
    pub(super) fn sync_from(&self, before: VolcanoStatus, update: Update) -> Vec<Action> {
        let mut actions = Vec::new();
        let group = self.pod_group();
        if group.is_none() {
            actions.push(Action::CreateObject(Box::new(self.new_pod_group())));
        }
        let is_enqueued =
            group.and_then(|(_, phase)| phase).is_some_and(|phase| phase != PodGroupPhase::Pending);
        let mut status = if is_enqueued { self.sync_pods(&before, &mut actions) } else { before.clone() };
        update.apply(self.spec, &mut status);
        if status != before || self.status() != Some(&before) {
            actions.push(self.write(self.changed(status)));
        }
        actions
    }

    /// Returns the PodGroup of the job (`createOrUpdatePodGroup`).
    fn new_pod_group(&self) -> Object {
        let name = format!("{}-{}", self.object.name, self.number);
        let queue = self.object.spec().get("queue").and_then(Value::as_str).unwrap_or("default");
        let manifest = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name.as_str()},
            "spec": {"minMember": self.spec.min_available, "queue": queue},
        });
        Object::new("PodGroup", &name, Some(Owner::Object(self.number)), manifest, self.at)
    }

    /// Makes and deletes pods. Returns the status with their counts.
    fn sync_pods(&self, before: &VolcanoStatus, actions: &mut Vec<Action>) -> VolcanoStatus {
        let mut status = VolcanoStatus {
            min_available: self.spec.min_available,
            pods: PodCounts::default(),
            terminating: 0,
            tasks: vec![PodCounts::default(); self.spec.tasks.len()],
            ..before.clone()
        };
        let (mut missing, mut deletions) = (Vec::new(), Vec::new());
        let mut known = TaskPods::new(self);
        for ((place, task), counts) in self.spec.tasks.iter().enumerate().zip(&mut status.tasks) {
            let wanted = Indexes::below(task.replicas);
            let mut found = 0_u32;
            for &(nth, pods) in known.get(place) {
                let is_within = pods.members.last().is_none_or(|last| last < task.replicas);
                let mut excess = if is_within { Indexes::default() } else { pods.members.without(&wanted) };
                let here = pods.count().saturating_sub(excess.len());
                found = found.saturating_add(here);
                if pods.deletion.is_some() {
                    status.terminating = status.terminating.saturating_add(here);
                } else {
                    counts.add(pods.phase, here);
                    let marked = self.marks.of(pods);
                    if !marked.is_empty() {
                        excess = excess.union(&marked);
                    }
                }
                if !excess.is_empty() {
                    status.terminating = status.terminating.saturating_add(excess.len());
                    deletions.push(Action::DeletePods { pods: nth, members: excess, is_released: false });
                }
            }
            // No two pods have one name: to count them is enough where none is missing.
            if found < task.replicas && known.may_begin(task) {
                let there: Indexes = known.get(place).iter().map(|(_, pods)| &pods.members).collect();
                let left = wanted.without(&there);
                counts.add(Phase::Pending, left.len());
                missing.push(self.create(task, left, before.version));
            }
        }
        for counts in &status.tasks {
            status.pods.add_all(counts);
        }
        actions.extend(missing);
        actions.extend(deletions);
        status
    }

    fn create(&self, task: &Task, indexes: Indexes, version: u32) -> Action {
        Action::CreateMembers {
            object: self.number,
            role: task.name.clone(),
            round: version,
            indexes,
            indexed: true,
            template: task.template.clone(),
        }
    }
}

/// The pods of a job that the controller knows of, by task: a job may have thousands of both.
struct TaskPods<'a> {
    spec: &'a JobSpec,
    /// The pods of each task, in the order of the tasks.
    pods: Vec<Vec<(usize, &'a PodGroup)>>,
    /// Which tasks have begun, of those that others depend on, by their places.
    begun: BTreeMap<usize, bool>,
}

impl<'a> TaskPods<'a> {
    fn new(view: &JobView<'a>) -> Self {
        let mut pods = vec![Vec::new(); view.spec.tasks.len()];
        for (nth, group, set) in known_pods(view.cluster, view.number, view.at) {
            if let Some(of_task) = view.spec.place(&set.role).and_then(|place| pods.get_mut(place)) {
                of_task.push((nth, group));
            }
        }
        Self { spec: view.spec, pods, begun: BTreeMap::new() }
    }

    /// Returns the pods of a task by its place, each group with its number.
    fn get(&self, place: usize) -> &[(usize, &'a PodGroup)] {
        self.pods.get(place).map_or(&[], Vec::as_slice)
    }

    /// Tells whether the tasks that a task depends on have begun (`waitDependsOnTaskMeetCondition`).
    fn may_begin(&mut self, task: &Task) -> bool {
        match &task.depends_on {
            None => true,
            Some(DependsOn { names, is_any: true }) if names.len() > 1 => {
                names.iter().any(|name| self.has_begun(name))
            }
            Some(DependsOn { names, .. }) => names.iter().all(|name| self.has_begun(name)),
        }
    }

    /// Tells whether `minAvailable` pods of a task run with all containers ready, or have succeeded
    /// (`isDependsOnPodsReady`).
    fn has_begun(&mut self, name: &str) -> bool {
        let Some(place) = self.spec.place(name) else { return false };
        let Some(task) = self.spec.tasks.get(place) else { return false };
        if let Some(has_begun) = self.begun.get(&place) {
            return *has_begun;
        }
        let wanted = Indexes::below(task.replicas);
        let begun = self.get(place).iter().filter(|(_, pods)| match pods.phase {
            Phase::Running => pods.is_ready(),
            Phase::Succeeded => true,
            Phase::Pending | Phase::Failed => false,
        });
        let begun = begun.map(|(_, pods)| pods.members.intersection(&wanted).len());
        let has_begun = i64::from(begun.fold(0, u32::saturating_add)) >= task.min_available;
        self.begun.insert(place, has_begun);
        has_begun
    }
}

impl PodCounts {
    /// Counts pods in a phase.
    fn add(&mut self, phase: Phase, count: u32) {
        let counted = match phase {
            Phase::Pending => &mut self.pending,
            Phase::Running => &mut self.running,
            Phase::Succeeded => &mut self.succeeded,
            Phase::Failed => &mut self.failed,
        };
        *counted = counted.saturating_add(count);
    }

    fn add_all(&mut self, other: &Self) {
        self.add(Phase::Pending, other.pending);
        self.add(Phase::Running, other.running);
        self.add(Phase::Succeeded, other.succeeded);
        self.add(Phase::Failed, other.failed);
    }
}

/// Deletes an object, and what it owns after it.
pub(super) fn delete(object: usize) -> Action {
    Action::DeleteObject { object, propagation: Propagation::Background }
}
