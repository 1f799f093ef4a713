//! The TTL controller: deletes Jobs some time after their end
//! (`pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`).

use super::cluster::{Action, Cluster, Controller, Event, Job};
use super::meta::Propagation;
use super::time::{Clock, Time};

/// The TTL controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct TtlController {
    next: Option<Time>,
}

/// Returns when a Job is to be deleted. The time counts from the condition that ends it, in whole seconds.
fn expiry(job: &Job, clock: Clock) -> Option<Time> {
    let ttl = job.spec.ttl.filter(|_| job.deletion.is_none())?;
    Some(clock.stored(job.status.finished()?.at) + ttl)
}

impl Controller for TtlController {
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time) {
        if matches!(event, Event::Job(_) | Event::JobStatus(_) | Event::JobGone(_)) {
            self.start(cluster, at);
        }
    }

    fn due(&self) -> Option<Time> {
        self.next
    }

    fn stop(&mut self) {
        self.next = None;
    }

    fn start(&mut self, cluster: &Cluster, at: Time) {
        let expiries = cluster.live_jobs().filter_map(|(_, job)| expiry(job, cluster.clock));
        self.next = expiries.min().map(|next| next.max(at));
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        let expired = cluster
            .live_jobs()
            .filter(|(_, job)| expiry(job, cluster.clock).is_some_and(|expiry| expiry <= at));
        self.next = None;
        expired.map(|(job, _)| Action::DeleteJob { job, propagation: Propagation::Foreground }).collect()
    }
}
