//! Kueue: a Workload for each Job in a queue, its quota, and what an eviction does to the Job; and the same of objects of
//! operators.
//!
//! Places in the source are of v0.19.2, under `pkg/`. What is modelled: `ClusterQueue`s without a cohort, of which each
//! resource has the quota of one flavor; admission by priority and age, preemption within the queue, `waitForPodsReady`,
//! `maximumExecutionTimeSeconds`, partial admission, `stopPolicy`. What is not: cohorts and borrowing, more than one flavor,
//! admission checks, topologies, fair sharing, elastic slices. Of other kinds than Job, only the number of pods is asked for.

mod default_queue;
mod job;
mod queued_object;
mod quota;
mod scheduler;
#[cfg(test)]
mod tests;
mod webhook;
mod workload;
mod workload_sync;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::kueue_settings::KueueSettings;
use super::super::object::Object;
use super::super::pod_set::Owner;
use super::super::time::Time;
use super::kinds::{has_queue, kind_of};
use super::queue::WorkQueue;
use super::queue_name::{kind_in_queue, queue};
use crate::text::value::Value;
pub(super) use default_queue::queues;
pub(in super::super) use default_queue::{PREEMPTOR, preemptor};
use scheduler::Scheduler;
use workload::{CLUSTER_QUEUE, LOCAL_QUEUE, PRIORITY_CLASS, WORKLOAD, workload, workloads};

/// The release that is modelled.
pub const KUEUE: &str = "Kueue v0.19.2";

/// How long after an event a Workload is looked at: the steps of an eviction are done before the Job is looked at, which takes
/// more requests.
const SOON: Time = Time::from_millis(2);

/// Kueue's controllers and its scheduler.
#[derive(Clone, Debug, Default)]
struct KueueController {
    /// How it is configured.
    settings: KueueSettings,
    /// The reconciler of Jobs (`controller/jobframework/reconciler.go`).
    jobs: WorkQueue,
    /// The same of objects of operators.
    objects: WorkQueue,
    /// The reconciler of Workloads (`controller/core/workload_controller.go`).
    workloads: WorkQueue,
    /// What waits for quota.
    scheduler: Scheduler,
    /// Whether it is away.
    stopped: bool,
}

/// Returns the controllers, where an object or one of those before it has to do with Kueue.
#[must_use]
pub(super) fn controllers(
    manifest: &Value,
    before: &[Value],
    settings: &KueueSettings,
) -> Vec<Box<dyn Controller>> {
    let is_queue = |manifest: &Value| kind_of(manifest) == Some(CLUSTER_QUEUE);
    if !settings.is_installed {
        return Vec::new();
    }
    let has_kind = kind_in_queue(manifest).is_some();
    if has_kind && (queue(manifest).is_some() || before.iter().any(is_queue)) {
        vec![Box::new(KueueController { settings: settings.clone(), ..KueueController::default() })]
    } else {
        Vec::new()
    }
}

impl KueueController {
    /// Lets all Jobs and Workloads be looked at: a queue changed.
    fn look_at_all(&mut self, cluster: &Cluster, at: Time) {
        for (number, _) in workloads(cluster) {
            self.workloads.add_at(number, at + SOON);
        }
        self.scheduler.wake(at);
    }
}

/// Returns the objects of operators that are there and may have a queue, each with its number.
fn objects(cluster: &Cluster) -> impl Iterator<Item = (usize, &Object)> {
    let objects = cluster.objects.iter().enumerate();
    objects.filter(|(_, object)| object.is_there() && has_queue(object.kind))
}

impl Controller for KueueController {
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time) {
        if self.stopped {
            return;
        }
        match event {
            Event::Job(job) | Event::JobStatus(job) | Event::JobGone(job) => self.jobs.add(job, at),
            Event::Object(number) | Event::ObjectStatus(number) | Event::ObjectGone(number) => {
                let Some(object) = cluster.objects.get(number) else { return };
                match object.kind {
                    WORKLOAD => {
                        match object.owner {
                            Some(Owner::Job(job)) => self.jobs.add(job, at),
                            Some(Owner::Object(object)) => self.objects.add(object, at),
                            None => {}
                        }
                        self.scheduler.observe(number, cluster, at);
                        if object.is_there() {
                            self.workloads.add_at(number, at + SOON);
                        } else {
                            self.workloads.remove(number);
                        }
                    }
                    CLUSTER_QUEUE | LOCAL_QUEUE => self.look_at_all(cluster, at),
                    PRIORITY_CLASS => {
                        for (job, _) in cluster.jobs.iter().enumerate() {
                            self.jobs.add(job, at);
                        }
                        for (number, _) in objects(cluster) {
                            self.objects.add(number, at);
                        }
                    }
                    kind if has_queue(kind) => self.objects.add(number, at),
                    _ => {}
                }
            }
            Event::Pod(_) | Event::CronJob | Event::Dashboards => {}
        }
    }

    fn due(&self) -> Option<Time> {
        let queues = [self.jobs.due(), self.objects.due(), self.workloads.due(), self.scheduler.due()];
        queues.into_iter().flatten().min()
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        if let Some(number) = self.workloads.take(at) {
            let Some(workload) = workload(cluster, number) else { return Vec::new() };
            let (actions, later) = workload_sync::sync(&workload, cluster, &self.settings, at);
            if let Some(later) = later {
                self.workloads.add_at(number, later);
            }
            return actions;
        }
        let owner = self.jobs.take(at).map(Owner::Job);
        if let Some(owner) = owner.or_else(|| self.objects.take(at).map(Owner::Object)) {
            return match job::QueuedJobSync::new(cluster, owner, &self.settings, at).run() {
                Ok(actions) => actions,
                Err(actions) => {
                    self.refuse(cluster, at);
                    actions
                }
            };
        }
        self.scheduler.sync(cluster, at)
    }

    fn refuse(&mut self, _cluster: &Cluster, at: Time) {
        self.jobs.refuse(at);
        self.objects.refuse(at);
    }

    fn accept(&mut self) {
        self.jobs.accept();
        self.objects.accept();
    }

    fn mutate(&self, manifest: &mut Value, cluster: &Cluster) {
        webhook::mutate(manifest, cluster);
    }

    fn admits(&self, old: Option<&Value>, new: &Value, cluster: &Cluster) -> bool {
        webhook::admits(old, new, cluster)
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.jobs.stop();
        self.objects.stop();
        self.workloads.stop();
        self.scheduler = Scheduler::default();
    }

    fn start(&mut self, cluster: &Cluster, at: Time) {
        self.stopped = false;
        let jobs = cluster.jobs.iter().enumerate().filter(|(_, job)| job.gone.is_none());
        self.jobs.start(jobs.map(|(number, _)| number), at);
        self.objects.start(objects(cluster).map(|(number, _)| number), at);
        self.workloads.start(workloads(cluster).map(|(number, _)| number), at);
        for (number, _) in workloads(cluster) {
            self.scheduler.observe(number, cluster, at);
        }
    }
}
