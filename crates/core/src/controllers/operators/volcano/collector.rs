//! Finished jobs are deleted after their `ttlSecondsAfterFinished` (`pkg/controllers/garbagecollector`).

use super::super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::super::meta::Propagation;
use super::super::super::object::ObjectStatus;
use super::super::super::time::Time;
use super::super::queue::WorkQueue;
use super::spec::ttl_of;
use super::{is_job, jobs};

/// The controller that deletes finished jobs.
#[derive(Debug, Default)]
pub(super) struct GarbageCollector {
    queue: WorkQueue,
}

/// Returns when a job is to be deleted: its time after the last transition, which has whole seconds. One that was aborted
/// may be resumed, and stays.
fn expiry(cluster: &Cluster, job: usize) -> Option<Time> {
    let object = cluster.objects.get(job).filter(|object| object.is_there() && object.deletion.is_none())?;
    let ObjectStatus::Volcano(status) = &object.status else { return None };
    if !status.phase.is_finished() {
        return None;
    }
    Some(status.transition + ttl_of(object.spec())?)
}

impl Controller for GarbageCollector {
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time) {
        let (Event::Object(job) | Event::ObjectStatus(job)) = event else { return };
        if is_job(cluster, job) && expiry(cluster, job).is_some() {
            self.queue.add(job, at);
        }
    }

    fn due(&self) -> Option<Time> {
        self.queue.due()
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(object) = self.queue.take(at) {
            match expiry(cluster, object) {
                Some(expiry) if expiry > at => self.queue.add_at(object, expiry),
                Some(_) => {
                    actions.push(Action::DeleteObject { object, propagation: Propagation::Foreground });
                }
                None => {}
            }
        }
        actions
    }

    fn stop(&mut self) {
        self.queue.stop();
    }

    fn start(&mut self, cluster: &Cluster, at: Time) {
        self.queue.start(jobs(cluster), at);
    }
}
