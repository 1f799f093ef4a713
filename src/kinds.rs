//! The kinds Jobgate knows, seen alike: where the run limits stand, which pods are made, and how many of them at once.
//!
//! One adapter per kind (`workload/<kind>.rs`) turns the object into a [`Workload`]; rules see nothing else of a kind.
//! To add a kind: write its adapter and list it in [`ADAPTERS`].

pub mod accelerator;
mod colocation;
mod count;
mod cron_job;
mod field;
mod job;
mod others;
mod pod;
mod py_torch_job;
pub mod registration;

pub use colocation::{Among, on_one_node, on_several_nodes};
pub use count::PodCount;
pub(crate) use field::whole;
pub use field::{Field, Part};
pub(crate) use others::others;
pub use others::{Likeness, each_inside, has_batch_pod, has_pod, is_batch_group, is_no_batch, is_other, looks_like_batch, meant};
pub use pod::{ClaimUse, Container, ContainerSlot, PodTemplate, Replica};

use crate::text::value::Value;

/// A kind that Jobgate judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `batch` `Job`.
    Job,
    /// `batch` `CronJob`.
    CronJob,
    /// `kubeflow.org` `PyTorchJob`.
    PyTorchJob,
}

/// Everything that is particular to one kind.
#[derive(Debug)]
pub struct Adapter {
    /// Which kind.
    pub kind: Kind,
    /// The API group; together with the kind's name it decides what is judged.
    pub group: &'static str,
    /// The version that API servers serve today, and the webhook registers for.
    pub version: &'static str,
    /// The kind's name in manifests.
    pub name: &'static str,
    /// The resource's name in URLs and webhook rules.
    pub resource: &'static str,
    /// Makes the view of an object of this kind.
    pub view: for<'a> fn(&'a Value) -> Workload<'a>,
}

/// All kinds, in the order in which they are listed to people.
pub static ADAPTERS: [&Adapter; 3] = [&job::ADAPTER, &cron_job::ADAPTER, &py_torch_job::ADAPTER];

impl Kind {
    /// Returns what is particular to this kind.
    #[must_use]
    pub fn adapter(self) -> &'static Adapter {
        match self {
            Self::Job => &job::ADAPTER,
            Self::CronJob => &cron_job::ADAPTER,
            Self::PyTorchJob => &py_torch_job::ADAPTER,
        }
    }

    /// Returns the kind's name as manifests have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.adapter().name
    }

    /// Returns the kind of an object, by group and kind together; nothing for an object that is not ours.
    ///
    /// The version is not looked at: a `batch/v1beta1` CronJob still says what its author means.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        Self::typed(object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?)
    }

    /// Returns the kind of the two fields that say it, `apiVersion` and `kind`.
    #[must_use]
    pub fn typed(version: &str, name: &str) -> Option<Self> {
        let (group, _version) = version.split_once('/')?;
        Self::named(group, name)
    }

    /// Returns the kind of a group and a kind's name.
    #[must_use]
    pub fn named(group: &str, name: &str) -> Option<Self> {
        ADAPTERS.iter().find(|adapter| adapter.name == name && adapter.group == group).map(|adapter| adapter.kind)
    }
}

/// One object of a known kind, as rules see it.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Which kind.
    pub kind: Kind,
    /// The whole object.
    pub object: Part<'a>,
    /// The mapping that holds `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: the Job spec, the spec of `jobTemplate`, or `runPolicy`.
    pub limits: Part<'a>,
    /// The batch/v1 Job spec, where the kind has one (`podReplacementPolicy` stands there).
    pub job_spec: Option<Part<'a>>,
    /// `spec` of a CronJob, which says how runs may overlap.
    pub cron: Option<Part<'a>>,
    /// The pod templates, with the number of pods each makes.
    pub pods: Vec<PodTemplate<'a>>,
}

impl<'a> Workload<'a> {
    /// Makes the view of an object; nothing for an object that is not ours.
    #[must_use]
    pub fn of(object: &'a Value) -> Option<Self> {
        Kind::of(object).map(|kind| (kind.adapter().view)(object))
    }

    /// Tells whether the object is a part of one: a kustomize patch, say. Nobody can say what such an object lacks.
    ///
    /// The mark is that no container has an image (corpus.md §3: it tells 45 fragments from 853 whole Jobs). It is for files: what an API
    /// server sends is whole, and a PyTorchJob without images is one that it accepts.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let has_image = |container: &Value| container.get("image").is_some_and(|image| !image.is_null());
        !self.pods.iter().flat_map(PodTemplate::container_values).any(|(_, _, container)| has_image(container))
    }

    /// Tells whether there is a mapping that says what runs. Without one the object runs nothing, and nothing can be added to it.
    #[must_use]
    pub fn has_spec(&self) -> bool {
        match self.kind {
            Kind::Job | Kind::CronJob => self.limits.is_mapping(),
            Kind::PyTorchJob => self.object.get("spec").is_mapping(),
        }
    }

    /// Tells whether the object says of itself that it has begun: what a cluster printed, not what an author wrote.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let status = self.object.get("status");
        let conditions = status.get("conditions").value.and_then(Value::as_array).is_some_and(|conditions| !conditions.is_empty());
        conditions || status.get("startTime").is_set() || status.get("completionTime").is_set()
    }

    /// Tells whether a Job or PyTorchJob has run to its end.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        let ends: &[&str] = match self.kind {
            Kind::Job => &["Complete", "Failed"],
            Kind::PyTorchJob => &["Succeeded", "Failed"],
            Kind::CronJob => return false,
        };
        let conditions = self.object.at(&["status", "conditions"]);
        conditions.items().any(|condition| {
            let is_end = |text: Field<'_, &str>| text.set().is_some_and(|kind| ends.contains(&kind));
            condition.get("status").text() == Field::Set("True") && is_end(condition.get("type").text())
        })
    }

    /// Returns the metadata that what runs is made with: a CronJob's Jobs inherit that of `jobTemplate`, not the CronJob's own.
    #[must_use]
    pub fn run_metadata(&self) -> Part<'a> {
        match self.kind {
            Kind::CronJob => self.object.at(&["spec", "jobTemplate", "metadata"]),
            Kind::Job | Kind::PyTorchJob => self.object.get("metadata"),
        }
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
