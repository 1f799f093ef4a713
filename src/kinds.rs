//! The kinds Jobgate knows, seen alike: where the run limits are, which pods are made, and how many of them
//! at once.
//!
//! A kind is one [`Definition`] in a file of its own; [`Workload`] is what rules see of an object. To add a
//! kind, write its file and list it below.

pub mod accelerator;
mod colocation;
mod count;
mod field;
mod kind;
mod others;
mod pod;
pub mod registration;

pub use colocation::{Among, on_one_node, on_several_nodes};
pub use count::PodCount;
pub(crate) use field::whole;
pub use field::{Field, Part};
#[doc(hidden)]
pub use kind::add_for_testing;
pub use kind::{Api, Children, Definition, Kind, LabelValue, OnUpdate, Operator, Path, Pods, Retired};
use others::has_image;
pub(crate) use others::others;
pub use others::{
    Likeness, each_inside, has_batch_pod, has_pod, is_batch_group, is_no_batch, is_other, looks_like_batch,
    meant,
};
pub use pod::{ClaimUse, Container, ContainerSlot, PodTemplate, Replica};

use crate::text::value::Value;

macro_rules! kinds {
    ($($file:ident $definition:ident)*) => {
        $(mod $file;)*
        /// All kinds, in the order in which they are listed to people.
        static BUILT_IN: &[&Definition] = &[$(&$file::$definition),*];
    };
}

kinds! {
    job JOB
    cron_job CRON_JOB
    py_torch_job PY_TORCH_JOB
}

/// One object of a known kind, as rules see it.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Which kind.
    pub kind: Kind,
    /// The whole object.
    pub object: Part<'a>,
    /// What it runs, each with limits of its own.
    pub runs: Vec<Run<'a>>,
    /// The mapping with `schedule` and `concurrencyPolicy`, of a kind that makes runs again and again.
    pub schedule: Option<Part<'a>>,
    /// The pod templates of all runs, with the number of pods each makes.
    pub pods: Vec<PodTemplate<'a>>,
}

/// One run: pods that start and end together.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The metadata that its pods' controller is made with.
    pub metadata: Part<'a>,
    /// The mapping that has `activeDeadlineSeconds` and `ttlSecondsAfterFinished`.
    pub limits: Part<'a>,
    /// The batch/v1 Job spec, where it is one (`podReplacementPolicy` is in it).
    pub job_spec: Option<Part<'a>>,
}

impl<'a> Workload<'a> {
    /// Makes the view of an object; nothing for an object that is not ours.
    #[must_use]
    pub fn of(object: &'a Value) -> Option<Self> {
        let kind = Kind::of(object)?;
        let object = Part::root(object);
        let limits = object.at(kind.limits);
        let is_job = kind.pods == Pods::JobSpec;
        let pods = match kind.pods {
            Pods::JobSpec => {
                vec![PodTemplate::new(0, limits.get("template"), None, PodCount::of_job(&limits))]
            }
            Pods::Roles { at, elastic } => {
                let roles = object.at(at).entries().map(|(name, part)| {
                    let mut count = PodCount::of_replicas(&part);
                    if let Some((_, most)) = elastic.filter(|(role, _)| *role == name) {
                        count = count.or_more(&object.at(most));
                    }
                    PodTemplate::new(0, part.get("template"), Some(Replica { name, part }), count)
                });
                roles.collect()
            }
        };
        let run =
            Run { metadata: object.at(kind.run_metadata), job_spec: is_job.then(|| limits.clone()), limits };
        Some(Self {
            kind,
            schedule: kind.schedule.map(|path| object.at(path)),
            runs: vec![run],
            pods,
            object,
        })
    }

    /// Tells whether the object is a part of one: a kustomize patch, say. Nobody can say what such an object
    /// lacks.
    ///
    /// The mark is that no container has an image (corpus.md §3: it tells 45 fragments from 853 whole Jobs).
    /// It is for files: what an API server sends is whole, and a PyTorchJob without images is one that it
    /// accepts.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let mut containers = self.pods.iter().flat_map(PodTemplate::container_values);
        !containers.any(|(_, _, container)| container.as_object().is_some_and(has_image))
            && !self.has_images_elsewhere()
    }

    /// Tells whether containers with images are where the kind has none, so that what its author wrote is
    /// whole, and wrong. Other versions than the one that is known may have them there.
    fn has_images_elsewhere(&self) -> bool {
        let is_known = |version: &str| version.split_once('/') == Some((self.kind.group, self.kind.version));
        self.object.get("apiVersion").value.and_then(Value::as_str).is_some_and(is_known)
            && self.object.get("spec").value.is_some_and(others::has_pod_with_image)
    }

    /// Tells whether there is a mapping that says what runs. Without one the object runs nothing, and nothing
    /// can be added to it.
    #[must_use]
    pub fn has_spec(&self) -> bool {
        self.object.at(self.kind.body).is_mapping()
    }

    /// Returns the run that a pod template belongs to.
    #[must_use]
    pub fn run_of(&self, pod: &PodTemplate<'a>) -> &Run<'a> {
        &self.runs[pod.run]
    }

    /// Tells whether the object says of itself that it has begun: what a cluster printed, not what an author
    /// wrote.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let status = self.object.get("status");
        let conditions = status
            .get("conditions")
            .value
            .and_then(Value::as_array)
            .is_some_and(|conditions| !conditions.is_empty());
        conditions || status.get("startTime").is_set() || status.get("completionTime").is_set()
    }

    /// Tells whether a Job or PyTorchJob has run to its end.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        let conditions = self.object.at(&["status", "conditions"]);
        conditions.items().any(|condition| {
            let is_end =
                |text: Field<'_, &str>| text.set().is_some_and(|kind| self.kind.finished.contains(&kind));
            condition.get("status").text() == Field::Set("True") && is_end(condition.get("type").text())
        })
    }

    /// Returns an annotation of the object itself.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata("annotations")?.get(key)?.as_str()
    }

    /// Returns a label of the object itself.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    /// Returns a field of the object's own metadata.
    #[must_use]
    pub fn metadata(&self, field: &str) -> Option<&'a Value> {
        self.object.value?.get("metadata")?.get(field)
    }
}
