//! mpi-operator (MPIJob): bare pods of workers beside one Job, the launcher.
//!
//! Places in the source are of v0.8.0, `M` is `pkg/controller/mpi_job_controller.go`.

mod demand;
mod spec;
mod status;
mod subject;
mod sync;
#[cfg(test)]
mod tests;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::object::Object;
use super::super::pod_set::Owner;
use super::super::time::Time;
use super::queue::{Operator, WorkQueue};
use crate::text::value::Value;
pub(super) use demand::asked;
use spec::MpiSpec;
use sync::MpiSync;

/// What an MPIJob is called here, and the version that the operator looks at.
const KIND: &str = "MPIJob";
const API_VERSION: &str = "kubeflow.org/v2beta1";

/// A release of mpi-operator, where releases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MpiRelease {
    /// v0.8.0: the API server chooses `podReplacementPolicy` of the launcher, which replaces a launcher in deletion as soon as
    /// it may; `Running` becomes true again beside `Failed`.
    #[default]
    V0_8_0,
    /// v0.8.1 and v0.8.2: the launcher has `podReplacementPolicy: Failed` (#810); `Running` does not become true at or after
    /// the end (#787).
    V0_8_1,
}

/// The controller of MPIJobs.
#[derive(Clone, Debug, Default)]
struct MpiController {
    /// The release of the operator.
    release: MpiRelease,
    /// Which MPIJobs are looked at, and when.
    queue: WorkQueue,
}

pub(super) use subject::{subject, why_unknown};

/// Returns the controllers of an MPIJob; none for other versions than v2beta1, which this operator leaves alone.
#[must_use]
pub(super) fn controllers(manifest: &Value, release: MpiRelease) -> Vec<Box<dyn Controller>> {
    if manifest.get("apiVersion").and_then(Value::as_str) == Some(API_VERSION) {
        vec![Box::new(MpiController { release, ..MpiController::default() })]
    } else {
        Vec::new()
    }
}

/// Returns how many pods of an MPIJob need one another: the launcher and its workers.
#[must_use]
pub(super) fn ranks(manifest: &Value) -> u32 {
    MpiSpec::from_manifest(manifest).map_or(0, |spec| spec.workers().saturating_add(1))
}

/// Returns the MPIJob that an event is about: one of itself, of its launcher, or of the pods of either
/// (M `handleObject`).
fn concerned(event: Event, cluster: &Cluster) -> Option<usize> {
    let number = match event {
        Event::Object(number) | Event::ObjectStatus(number) | Event::Pod(Owner::Object(number)) => number,
        Event::Pod(Owner::Job(job)) | Event::Job(job) | Event::JobStatus(job) | Event::JobGone(job) => {
            match cluster.jobs.get(job)?.owner? {
                Owner::Object(number) => number,
                Owner::Job(_) => return None,
            }
        }
        Event::ObjectGone(_) | Event::CronJob | Event::Dashboards => return None,
    };
    let object =
        cluster.objects.get(number).filter(|object| MpiController::is_its(object) && object.is_there());
    object.map(|_| number)
}

impl Operator for MpiController {
    fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut WorkQueue {
        &mut self.queue
    }

    fn is_its(object: &Object) -> bool {
        object.kind == KIND
    }

    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time) {
        if let Event::ObjectGone(number) = event {
            self.queue.remove(number);
        }
        if let Some(number) = concerned(event, cluster) {
            // Every event waits as a try after an error does (M `enqueueMPIJob`, `AddRateLimited`).
            self.queue.add_limited(number, at);
        }
    }

    fn reconcile(&mut self, cluster: &Cluster, number: usize, object: &Object, at: Time) -> Vec<Action> {
        if object.deletion.is_some() {
            return Vec::new();
        }
        // What is invalid or another's is left alone, whatever it was before (M `validation.ValidateMPIJob`).
        let Some(spec) = MpiSpec::from_manifest(&object.manifest) else { return Vec::new() };
        match MpiSync::new(cluster, number, object, &spec, self.release, at).run() {
            Some(actions) => actions,
            None => {
                self.fail(at);
                Vec::new()
            }
        }
    }

    /// An error waits as every event does.
    fn fail(&mut self, at: Time) {
        if let Some(number) = self.queue.take_tried() {
            self.queue.add_limited(number, at);
        }
    }
}
