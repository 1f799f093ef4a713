//! One sync of an MPIJob, in the order of `syncHandler` (`pkg/controller/mpi_job_controller.go`).

use std::sync::Arc;

use super::super::super::cluster::{Action, Cluster, JobStatus, NewJob};
use super::super::super::indexes::Indexes;
use super::super::super::object::{MpiReplicas, Object, ObjectStatus};
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::MpiRelease;
use super::spec::{MpiCleanPodPolicy, MpiSpec};
use super::status::{MpiLauncher, MpiProgress, running};
use crate::text::value::json;

/// A sync of one MPIJob.
pub(super) struct MpiSync<'a> {
    cluster: &'a Cluster,
    number: usize,
    object: &'a Object,
    spec: &'a MpiSpec<'a>,
    release: MpiRelease,
    at: Time,
    /// The pods of the workers, each group with its number.
    workers: Vec<(usize, &'a PodGroup)>,
    progress: MpiProgress,
    actions: Vec<Action>,
}

impl<'a> MpiSync<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        number: usize,
        object: &'a Object,
        spec: &'a MpiSpec<'a>,
        release: MpiRelease,
        at: Time,
    ) -> Self {
        let workers = cluster.pods_owned(Owner::Object(number)).collect();
        let progress = MpiProgress::new(object, spec.namespace, at);
        Self { cluster, number, object, spec, release, at, workers, progress, actions: Vec::new() }
    }

    /// Returns what is done; nothing where an error ends the sync.
    pub(super) fn run(mut self) -> Option<Vec<Action>> {
        if self.progress.conditions.is_empty() {
            let message = format!("MPIJob {} is created.", self.progress.name);
            self.progress.set("Created", true, "MPIJobCreated", message);
        }
        // Without a completion time, a failure is the eviction of a worker, and nothing ends.
        if self.progress.is_finished() && self.progress.status.completion.is_some() {
            if self.spec.clean != MpiCleanPodPolicy::None {
                self.delete_workers();
                self.progress.status.worker = Some(MpiReplicas::default());
                self.write();
            }
            return Some(self.actions);
        }
        let now = self.cluster.clock.stored(self.at);
        if self.progress.status.start.is_none() && !self.spec.suspend {
            self.progress.status.start = Some(now);
        }
        let name = format!("{}-launcher", self.object.name);
        let job = self.cluster.job(&name);
        if job.is_some_and(|(_, job)| job.owner != Some(Owner::Object(self.number))) {
            // The Job of that name is another's.
            return None;
        }
        let is_done = job.is_some_and(|(_, job)| job.status.finished().is_some());
        // Once the launcher has ended, workers are not looked at any more.
        let workers = !is_done && !self.spec.suspend;
        let mut all = 0;
        if workers {
            all = self.spec.workers();
            self.scale_down();
            self.create_workers();
        }
        let seen = self.seen(workers);
        match job {
            None => self.create_launcher(name, &seen, all),
            Some((number, _)) => self.align(number),
        }
        if self.spec.suspend {
            self.delete_workers();
            self.progress.status.worker = Some(MpiReplicas::default());
        }
        self.progress.suspend(self.spec.suspend, now);
        let mut is_running = false;
        if let Some((number, job)) = job {
            let pods: Vec<&PodGroup> = self.cluster.pods_of(number).map(|(_, pods)| pods).collect();
            is_running = running(&pods) >= 1 && running(&seen) == all;
            self.progress.follow(&MpiLauncher { job, pods }, self.cluster);
        } else if self.is_launched(&seen, all) {
            self.progress.status.launcher = Some(MpiReplicas::default());
        }
        self.progress.count(&seen, all);
        self.progress.run(self.release, self.spec.suspend, is_running);
        self.write();
        Some(self.actions)
    }

    /// Returns the pods of the workers that the MPIJob asks for, those that were there before.
    fn seen(&self, is_looked_at: bool) -> Vec<&'a PodGroup> {
        let wanted = self.wanted();
        let is_wanted = |pods: &PodGroup| !pods.members.intersection(&wanted).is_empty();
        let pods = self.workers.iter().map(|(_, pods)| *pods);
        pods.filter(|pods| is_looked_at && is_wanted(pods)).collect()
    }

    /// Returns the index labels of the workers that the MPIJob asks for: from 1 where the launcher counts as a worker. Those
    /// that were made before it did keep theirs.
    fn wanted(&self) -> Indexes {
        let is_first = |pods: &PodGroup| pods.members.first() == Some(0);
        let is_shifted = self.spec.is_launcher_worker && !self.workers.iter().any(|(_, pods)| is_first(pods));
        let first = u32::from(is_shifted);
        match first.checked_add(self.spec.workers()).and_then(|end| end.checked_sub(1)) {
            Some(last) => Indexes::from_range(first, last),
            None => Indexes::default(),
        }
    }

    fn members(&self) -> Indexes {
        self.workers.iter().map(|(_, pods)| &pods.members).collect()
    }

    /// Deletes workers above the number that is asked for, where there are more than that. The index label is compared, which
    /// is one more than the number in the name where the launcher counts as a worker: one too many goes, and is made again.
    fn scale_down(&mut self) {
        let all = self.spec.workers();
        let there = self.workers.iter().map(|(_, pods)| pods.count()).fold(0, u32::saturating_add);
        if all > 0 && there > all {
            self.delete(&Indexes::from_range(all, u32::MAX - 1), |_| true);
        }
    }

    /// Makes each worker of whose name there is none; one that has failed, ended or is in deletion has its name still.
    fn create_workers(&mut self) {
        let Some(template) = self.spec.worker_template() else { return };
        let indexes = self.wanted().without(&self.members());
        if indexes.is_empty() {
            return;
        }
        let (object, role) = (self.number, Arc::from("worker"));
        let action = Action::CreateMembers { object, role, round: 0, indexes, indexed: true, template };
        self.actions.push(action);
    }

    /// Tells whether the launcher may be made: at once, or when each worker is ready. While the MPIJob is suspended there are
    /// none to wait for.
    fn is_launched(&self, seen: &[&PodGroup], all: u32) -> bool {
        let ready = seen.iter().filter(|pods| pods.is_ready()).map(|pods| pods.count());
        self.spec.at_startup || ready.fold(0, u32::saturating_add) == all
    }

    fn create_launcher(&mut self, name: String, seen: &[&PodGroup], all: u32) {
        if !self.is_launched(seen, all) {
            return;
        }
        let replacement = (self.release != MpiRelease::V0_8_0).then_some("Failed");
        self.actions.push(Action::CreateJob(Box::new(NewJob {
            name,
            owner: Some(Owner::Object(self.number)),
            role: Arc::from("launcher"),
            round: 0,
            spec: self.spec.launcher_job(replacement),
        })));
    }

    /// Suspends the launcher with the MPIJob, and resumes it, which makes it start anew.
    fn align(&mut self, job: usize) {
        let Some(launcher) = self.cluster.jobs.get(job) else { return };
        if launcher.spec.suspend == self.spec.suspend {
            return;
        }
        if !self.spec.suspend && launcher.status.start.is_some() {
            let status = JobStatus { start: None, ..launcher.status.clone() };
            self.actions.push(Action::WriteJob { job, status: Box::new(status) });
        }
        self.actions.push(Action::PatchJob { job, patch: json!({ "suspend": self.spec.suspend }) });
    }

    /// Deletes the workers that are asked for, by `cleanPodPolicy`: `Running` keeps those that have ended. At a suspension
    /// `None` keeps nothing.
    fn delete_workers(&mut self) {
        let keeps_ended = self.spec.clean == MpiCleanPodPolicy::Running;
        let is_left = |pods: &PodGroup| matches!(pods.phase, Phase::Running | Phase::Pending);
        self.delete(&self.wanted(), |pods| !keeps_ended || is_left(pods));
    }

    fn delete(&mut self, indexes: &Indexes, goes: impl Fn(&PodGroup) -> bool) {
        for (number, pods) in &self.workers {
            let members = pods.members.intersection(indexes);
            if !members.is_empty() && pods.deletion.is_none() && goes(pods) {
                self.actions.push(Action::DeletePods { pods: *number, members, is_released: false });
            }
        }
    }

    /// Writes the status where it changed.
    fn write(&mut self) {
        let status = ObjectStatus::Mpi(self.progress.status.clone());
        if self.progress.conditions == self.object.conditions && status == self.object.status {
            return;
        }
        let conditions = self.progress.conditions.clone();
        self.actions.push(Action::WriteObject { object: self.number, conditions, status });
    }
}
