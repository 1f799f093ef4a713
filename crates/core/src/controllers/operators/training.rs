//! training-operator v1 (PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob): one controller, with one row of a table for each
//! kind.
//!
//! It makes pods itself, each with the name of its type and index: a new one waits until the object of the old one is gone.
//! The source places are those of v1.9.4.

mod demand;
mod kind;
mod spec;
mod status;
mod subject;
mod sync;
#[cfg(test)]
mod tests;
mod webhook;

use std::collections::BTreeSet;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::object::Object;
use super::super::pod_set::Owner;
use super::super::script::MapOrder;
use super::super::time::Time;
use super::cache_lag::CacheLag;
use super::queue::{Operator, WorkQueue};
use crate::text::value::Value;
pub(super) use demand::asked;
use kind::Kind;
use spec::TrainingSpec;
pub(super) use subject::subject;
use sync::Sync;
pub(super) use webhook::admits;

/// Returns the controllers.
#[must_use]
pub(super) fn controllers(order: MapOrder) -> Vec<Box<dyn Controller>> {
    vec![Box::new(TrainingController::new(Release::default(), order))]
}

/// Returns how many pods run the program of a job.
#[must_use]
pub(super) fn ranks(kind: &str, manifest: &Value) -> u32 {
    let Some(kind) = Kind::find(kind) else { return 0 };
    let spec = TrainingSpec::parse(kind, manifest);
    spec.roles.iter().map(|role| role.count()).fold(0, u32::saturating_add)
}

/// A release of training-operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Release {
    /// v1.9.3: a limit or a deadline deletes all pods, whatever `cleanPodPolicy` says.
    #[allow(dead_code, reason = "chosen in tests only, until a cluster says which release it has")]
    V1_9_3,
    /// v1.9.4.
    #[default]
    V1_9_4,
}

/// The controller.
#[derive(Debug)]
struct TrainingController {
    release: Release,
    /// In which order it goes through the types of replicas.
    order: MapOrder,
    queue: WorkQueue,
    /// The jobs that it saw.
    known: BTreeSet<usize>,
    /// The jobs whose condition `Created` is only in its cache.
    created: BTreeSet<usize>,
    /// The jobs of whose end its cache does not know.
    behind: CacheLag,
}

impl TrainingController {
    fn new(release: Release, order: MapOrder) -> Self {
        Self {
            release,
            order,
            queue: WorkQueue::default(),
            known: BTreeSet::new(),
            created: BTreeSet::new(),
            behind: CacheLag::default(),
        }
    }

    /// Takes notice of a job: the first time, it puts `Created` into the object in its cache (`onOwnerCreateFunc`); any
    /// later version of the object takes the place of that.
    fn observe_job(&mut self, job: usize) {
        if self.known.insert(job) {
            self.created.insert(job);
        } else {
            self.created.remove(&job);
        }
    }
}

fn is_job(cluster: &Cluster, number: usize) -> bool {
    cluster.objects.get(number).is_some_and(|object| Kind::find(object.kind).is_some() && object.is_there())
}

impl Operator for TrainingController {
    fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut WorkQueue {
        &mut self.queue
    }

    fn is_its(object: &Object) -> bool {
        Kind::find(object.kind).is_some()
    }

    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time) {
        match event {
            Event::Object(job) | Event::ObjectStatus(job) if is_job(cluster, job) => {
                self.observe_job(job);
                self.queue.add(job, at);
            }
            Event::Pod(Owner::Object(job)) if is_job(cluster, job) => self.queue.add(job, at),
            Event::ObjectGone(job) => self.queue.remove(job),
            _ => {}
        }
    }

    fn reconcile(&mut self, cluster: &Cluster, job: usize, object: &Object, at: Time) -> Vec<Action> {
        let Some(kind) = Kind::find(object.kind).filter(|_| object.deletion.is_none()) else {
            return Vec::new();
        };
        let spec = TrainingSpec::parse(kind, &object.manifest);
        if spec.is_managed_by_other {
            return Vec::new();
        }
        let tries = self.queue.errors(job);
        let is_created = self.created.contains(&job);
        let (seen, until) = self.behind.seen(job, object, at);
        let mut outcome =
            Sync::new(cluster, (job, seen), &spec, is_created, at).run(self.release, self.order, tries);
        if until.is_some() {
            // What it writes of the job is a conflict.
            let is_of_pods =
                |action: &Action| matches!(action, Action::CreateMembers { .. } | Action::DeletePods { .. });
            outcome.actions.retain(is_of_pods);
            outcome.timer = until;
        }
        self.behind.observe(cluster, job, &outcome.actions, at);
        if let Some(timer) = outcome.timer {
            self.queue.add_at(job, timer);
        }
        outcome.actions
    }

    fn lose(&mut self) {
        self.known.clear();
        self.created.clear();
    }

    fn find(&mut self, jobs: &[usize]) {
        self.known = jobs.iter().copied().collect();
        self.created = self.known.clone();
    }
}
