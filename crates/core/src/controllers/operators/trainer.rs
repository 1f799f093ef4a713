//! Trainer: a TrainJob becomes a JobSet by its runtime (`pkg/controller/trainjob_controller.go` of v2.3.0).

mod build;
mod demand;
mod runtimes;
mod subject;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::object::Object;
use super::super::pod_set::Owner;
use super::super::time::Time;
use super::cache_lag::CacheLag;
use super::job_set::{JobSetController, JobSetRelease, ranks_of};
use super::queue::{Operator, WorkQueue};
use crate::text::value::Value;
pub(super) use demand::asked;
use runtimes::runtime_of;
pub use runtimes::shipped;
use sync::TrainJobSync;

pub(super) use subject::{subject, why_unknown};

/// Returns the controllers: that of TrainJobs, and that of the JobSets they become.
#[must_use]
pub(super) fn controllers(release: TrainerRelease, job_set: JobSetRelease) -> Vec<Box<dyn Controller>> {
    vec![Box::new(JobSetController::new(job_set)), Box::new(TrainJobController::new(release))]
}

/// Returns how many pods of a TrainJob run at once whose program may need one another.
#[must_use]
pub(super) fn ranks(cluster: &Cluster, object: &Object) -> u32 {
    let runtime = runtime_of(cluster, object.spec(), TrainerRelease::default());
    runtime.map_or(0, |runtime| ranks_of(&build::job_set_spec(object.spec(), &runtime)))
}

/// Which release of Trainer it is, where releases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrainerRelease {
    /// 2.1: a TrainJob has no deadline, and what is complete runs again when its JobSet goes.
    V2_1,
    /// 2.2: the runtime is read at every sync.
    V2_2,
    /// 2.3: the runtime is kept as it was at first sight.
    #[default]
    V2_3,
}

/// The TrainJob controller.
#[derive(Debug)]
pub(super) struct TrainJobController {
    release: TrainerRelease,
    queue: WorkQueue,
    /// The runtimes of TrainJobs, as they were at first sight: each is in a `ConfigMap`, which outlives the controller.
    snapshots: BTreeMap<usize, Value>,
    /// The TrainJobs of whose end its cache does not know.
    behind: CacheLag,
}

impl TrainJobController {
    /// Makes one of a release.
    #[must_use]
    fn new(release: TrainerRelease) -> Self {
        Self { release, queue: WorkQueue::default(), snapshots: BTreeMap::new(), behind: CacheLag::default() }
    }

    /// Returns the TrainJob that is looked at when something happens to an object: itself, or the owner of a JobSet.
    fn of_object(cluster: &Cluster, object: usize) -> Option<usize> {
        match (cluster.objects.get(object)?, object) {
            (Object { kind: "TrainJob", .. }, number) => Some(number),
            (Object { kind: "JobSet", owner: Some(Owner::Object(owner)), .. }, _) => Some(*owner),
            _ => None,
        }
    }
}

impl Operator for TrainJobController {
    fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut WorkQueue {
        &mut self.queue
    }

    fn is_its(object: &Object) -> bool {
        object.kind == "TrainJob"
    }

    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time) {
        let (Event::Object(object) | Event::ObjectStatus(object) | Event::ObjectGone(object)) = event else {
            return;
        };
        let Some(number) = Self::of_object(cluster, object) else { return };
        if event == Event::ObjectGone(number) {
            self.queue.remove(number);
            self.snapshots.remove(&number);
        } else {
            self.queue.add(number, at);
        }
    }

    fn reconcile(&mut self, cluster: &Cluster, number: usize, object: &Object, at: Time) -> Vec<Action> {
        let (seen, until) = self.behind.seen(number, object, at);
        let mut outcome = TrainJobSync::new(cluster, number, seen, self.release, at).run(&mut self.snapshots);
        if let Some(until) = until {
            // A JobSet that it made once more is deleted by the same sync: by then, others have made what is in it.
            let last = until - Time::from_millis(1);
            if at < last {
                outcome.actions.retain(|action| !matches!(action, Action::DeleteObject { .. }));
                outcome.again = Some(last);
            } else {
                self.behind.catch_up(number, at);
            }
        }
        if let Some(at) = outcome.again {
            self.queue.add_at(number, at);
        }
        self.behind.observe(cluster, number, &outcome.actions, at);
        if outcome.is_error {
            self.queue.fail(number, at);
        }
        outcome.actions
    }
}
