//! The Job controller of kube-controller-manager: which pods a Job gets, what it counts, and when it ends.
//!
//! The order of a sync, with the places in the source of Kubernetes 1.36, is in `docs/internals/controllers.md`.

mod backoff;
mod end;
mod policy;
mod removal;
pub(crate) mod resume;
pub mod spec;
mod sync;

use std::collections::BTreeMap;

use super::cluster::{Action, Cluster, Controller, Event};
use super::pod_set::Owner;
use super::time::Time;
use backoff::BackoffRecord;
pub(crate) use backoff::wait_after;
use sync::JobSync;

/// How long after an event a Job is looked at (`SyncJobBatchPeriod`).
const BATCH: Time = Time::from_seconds(1);
/// How long after a write the controllers see what was written.
const LAG: Time = Time::from_millis(10);
/// How long it takes to delete pods, or to take the finalizers from them.
const CALLS: Time = Time::from_millis(20);
/// The longest wait after errors (`MaxJobSyncBackOff`).
const MAX_ERROR_WAIT: i64 = 60;

/// The Job controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobController {
    /// Whether it has the fault of kubernetes#139428: a Job that waits before it replaces pods is said to have no
    /// active ones, which the API server refuses while some are ready.
    has_wait_fault: bool,
    queue: BTreeMap<usize, JobQueue>,
    stopped: bool,
}

/// What is kept of a Job between syncs.
#[derive(Clone, Debug, Default)]
struct JobQueue {
    /// Looked at as soon as possible.
    now: Option<Time>,
    /// The timer: there is one, and the earliest wins.
    timer: Option<Time>,
    /// How many syncs in a row ended in an error.
    errors: u32,
    /// The pods that failed since the last one succeeded.
    record: BackoffRecord,
}

impl JobQueue {
    fn later(&mut self, at: Time) {
        self.timer = Some(self.timer.map_or(at, |timer| timer.min(at)));
    }

    /// Plans a sync after one that ended in an error: 1 s later, and twice as long for each more.
    fn fail(&mut self, at: Time) {
        let wait = 1_i64.checked_shl(self.errors).unwrap_or(MAX_ERROR_WAIT).min(MAX_ERROR_WAIT);
        self.errors = (self.errors + 1).min(16);
        self.later(at + Time::from_seconds(wait));
    }

    fn due(&self) -> Option<Time> {
        self.now.into_iter().chain(self.timer).min()
    }
}

impl JobController {
    /// Makes one, with or without the fault of kubernetes#139428.
    #[must_use]
    pub(crate) fn new(has_wait_fault: bool) -> Self {
        Self { has_wait_fault, ..Self::default() }
    }

    /// Gives it the fault of kubernetes#139428.
    pub(crate) fn give_wait_fault(&mut self) {
        self.has_wait_fault = true;
    }
}

impl Controller for JobController {
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time) {
        if self.stopped {
            return;
        }
        match event {
            Event::Job(job) => {
                let queue = self.queue.entry(job).or_default();
                let soon = at + LAG;
                queue.now = Some(queue.now.map_or(soon, |now| now.min(soon)));
                // A deadline that was changed has its own timer.
                if let Some(job) = cluster.jobs.get(job)
                    && let (Some(deadline), Some(start)) = (job.spec.deadline, job.status.start)
                {
                    queue.later((start + deadline).max(soon));
                }
            }
            Event::Pod(Owner::Job(job)) | Event::JobStatus(job) => {
                self.queue.entry(job).or_default().later(at + LAG + BATCH);
            }
            Event::JobGone(job) => {
                self.queue.remove(&job);
            }
            Event::Pod(Owner::Object(_))
            | Event::CronJob
            | Event::Object(_)
            | Event::ObjectStatus(_)
            | Event::ObjectGone(_)
            | Event::Dashboards => {}
        }
    }

    fn due(&self) -> Option<Time> {
        self.queue.values().filter_map(JobQueue::due).min()
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.queue.clear();
    }

    fn start(&mut self, cluster: &Cluster, at: Time) {
        self.stopped = false;
        for (job, _) in cluster.jobs.iter().enumerate().filter(|(_, job)| job.gone.is_none()) {
            self.queue.insert(job, JobQueue { now: Some(at), ..JobQueue::default() });
        }
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        let due = self.queue.iter().find(|(_, queue)| queue.due().is_some_and(|due| due <= at));
        let Some((&number, _)) = due else { return Vec::new() };
        let Some(queue) = self.queue.get_mut(&number) else { return Vec::new() };
        if queue.now.is_some_and(|now| now <= at) {
            queue.now = None;
        } else {
            queue.timer = None;
        }
        let Some(job) = cluster.jobs.get(number).filter(|job| job.gone.is_none()) else {
            self.queue.remove(&number);
            return Vec::new();
        };
        if job.spec.is_managed_by_other || job.status.finished().is_some() {
            queue.record = BackoffRecord::default();
            return Vec::new();
        }
        let outcome = JobSync::new(cluster, number, job, &queue.record, at).run(self.has_wait_fault);
        if let Some(wait) = outcome.wait {
            queue.later(at + wait);
        }
        if outcome.is_unfinished {
            queue.now = Some(at + CALLS);
        }
        match outcome.done {
            Ok(done) => {
                if done.is_refused {
                    queue.fail(at);
                } else {
                    queue.errors = 0;
                }
                if let Some(record) = done.record {
                    queue.record = record;
                }
                done.actions
            }
            // What was done before the status was refused stays done.
            Err(actions) => {
                queue.fail(at);
                actions
            }
        }
    }
}
