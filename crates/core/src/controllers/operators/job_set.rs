//! JobSet: Jobs that are made, restarted and ended together (`pkg/controllers/jobset_controller.go` of v0.12.0).

mod children;
mod create;
mod demand;
mod rules;
mod spec;
mod subject;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::object::Object;
use super::super::pod_set::Owner;
use super::super::time::Time;
use super::queue::{Operator, WorkQueue};
use crate::text::value::Value;
use children::is_job_set;
pub(super) use demand::asked;
use spec::JobSetSpec;
use sync::JobSetSync;

pub(super) use subject::{subject, why_unknown};

/// Returns the controllers.
#[must_use]
pub(super) fn controllers(release: JobSetRelease) -> Vec<Box<dyn Controller>> {
    vec![Box::new(JobSetController::new(release))]
}

/// Returns how many pods of a JobSet run at once whose program may need one another.
#[must_use]
pub(super) fn ranks(object: &Object) -> u32 {
    ranks_of(object.spec())
}

/// Returns the same for the `spec` of a JobSet.
#[must_use]
pub(super) fn ranks_of(spec: &Value) -> u32 {
    JobSetSpec::from_spec(spec).ranks()
}

/// Which release of JobSet it is, where releases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum JobSetRelease {
    /// 0.11: Jobs are found by the name of their JobSet, and no condition says that it restarts.
    V0_11,
    /// 0.12.
    #[default]
    V0_12,
}

/// The JobSet controller.
#[derive(Debug)]
pub(super) struct JobSetController {
    release: JobSetRelease,
    queue: WorkQueue,
    /// What JobSets ask for, as it was read last.
    specs: BTreeMap<usize, Arc<JobSetSpec>>,
}

impl JobSetController {
    /// Makes one of a release.
    #[must_use]
    pub(super) fn new(release: JobSetRelease) -> Self {
        Self { release, queue: WorkQueue::default(), specs: BTreeMap::new() }
    }

    /// Returns the JobSet that is looked at when something happens to a Job: the one of its owner's name
    /// (`EnqueueRequestForOwner`).
    fn of_job(cluster: &Cluster, job: usize) -> Option<usize> {
        let Some(Owner::Object(owner)) = cluster.jobs.get(job)?.owner else { return None };
        let owner = cluster.objects.get(owner).filter(|owner| is_job_set(owner))?;
        cluster.object(owner.kind, &owner.name).map(|(number, _)| number)
    }
}

impl Operator for JobSetController {
    fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut WorkQueue {
        &mut self.queue
    }

    fn is_its(object: &Object) -> bool {
        is_job_set(object)
    }

    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time) {
        match event {
            Event::Object(object) | Event::ObjectStatus(object) => {
                if cluster.objects.get(object).is_some_and(is_job_set) {
                    if let Event::Object(_) = event {
                        self.specs.remove(&object);
                    }
                    self.queue.add(object, at);
                }
            }
            Event::ObjectGone(object) => {
                self.queue.remove(object);
                self.specs.remove(&object);
            }
            Event::Job(job) | Event::JobStatus(job) | Event::JobGone(job) => {
                if let Some(object) = Self::of_job(cluster, job) {
                    self.queue.add(object, at);
                }
            }
            Event::Pod(_) | Event::CronJob | Event::Dashboards => {}
        }
    }

    fn reconcile(&mut self, cluster: &Cluster, number: usize, object: &Object, at: Time) -> Vec<Action> {
        let spec = self.specs.entry(number).or_insert_with(|| Arc::new(JobSetSpec::from_spec(object.spec())));
        if object.deletion.is_some() || spec.is_managed_by_other {
            return Vec::new();
        }
        let outcome = JobSetSync::new(cluster, number, object, spec, self.release, at).run();
        if let Some(at) = outcome.again {
            self.queue.add_at(number, at);
        }
        if outcome.is_error {
            self.queue.fail(number, at);
        }
        outcome.actions
    }
}
