//! What is particular to one kind, as data.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::OnceLock;

use super::{BUILT_IN, cron_job, job, py_torch_job};
use crate::text::value::Value;

/// A path of keys from a mapping down.
pub type Path = &'static [&'static str];

/// Everything that is particular to one kind. Nothing outside this folder asks which kind an object is of: it
/// asks what is written here.
#[derive(Debug)]
pub struct Definition {
    /// The API group; together with the kind's name it decides what is judged.
    pub group: &'static str,
    /// The version that API servers serve today, and the webhook registers for.
    pub version: &'static str,
    /// Versions that are no longer served.
    pub retired: &'static [Retired],
    /// The kind's name in manifests.
    pub name: &'static str,
    /// The resource's name in URLs and webhook rules.
    pub resource: &'static str,
    /// The mapping without which an object runs nothing, and nothing can be added to it.
    pub body: Path,
    /// The metadata that what runs is made with.
    pub run_metadata: Path,
    /// The mapping that has `activeDeadlineSeconds` and `ttlSecondsAfterFinished`.
    pub limits: Path,
    /// Where the pods are.
    pub pods: Pods,
    /// The mapping with `schedule` and `concurrencyPolicy`, of a kind that makes runs again and again.
    pub schedule: Option<Path>,
    /// Who sets defaults and validates, and how.
    pub api: Api,
    /// The field of the limits that says which pods go when a run has ended, where they stay without it: a
    /// deadline frees nothing then (kinds.md §1).
    pub clean_up: Option<&'static str>,
    /// Conditions of the status that say that it has ended.
    pub finished: &'static [&'static str],
    /// What may change in an object that is there.
    pub on_update: OnUpdate,
    /// Whose objects its controller makes, and under which name.
    pub children: Option<Children>,
    /// Labels that the controller gives to all pods of a run.
    pub pod_labels: &'static [(&'static str, LabelValue)],
}

/// A version of a kind that API servers no longer serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Since when, as what follows "is no longer served"; empty where that is not known.
    pub since: &'static str,
    /// What is in another place today, as what follows the new `apiVersion`; nothing where every field is where it was.
    pub moved: Option<&'static str>,
}

/// Where the pods of a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The limits are a batch/v1 Job spec, with one `template`.
    JobSpec,
    /// A mapping of roles, each with `replicas`, `restartPolicy` and `template`; the role's `restartPolicy`
    /// decides, not the template's.
    Roles {
        /// The mapping.
        at: Path,
        /// A role of which there may be more pods than it says, and the field that says how many.
        elastic: Option<(&'static str, Path)>,
    },
}

/// Who sets defaults in objects of a kind and validates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// The API server, as it does for Jobs: before webhooks are asked, all defaults are in the object.
    Job,
    /// The API server, as it does for CronJobs, with no defaults of the Job in it.
    CronJob,
    /// The API server, by the schema of a CustomResourceDefinition; then an operator.
    Custom {
        /// The schema: JSON Schema, whose `$ref`s may name the API's own types.
        schema: &'static str,
        /// What else refuses objects.
        operator: Option<Operator>,
    },
}

/// An operator whose defaults and refusals are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The training operator, for PyTorchJobs.
    Training,
}

/// What may change in an object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUpdate {
    /// The pod template is immutable once it runs: what was filled in and is taken out is put back, and
    /// nothing else.
    TemplateImmutable,
    /// Nothing is immutable, and a change may start runs again: nothing is filled in.
    Restarts,
    /// It only concerns runs to come: it is filled in as on CREATE.
    NextRuns,
}

/// The objects that the controller of a kind makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Children {
    /// Their API group.
    pub group: &'static str,
    /// Their kind.
    pub name: &'static str,
    /// The user who makes them.
    pub maker: &'static str,
    /// The annotation, and its value, of one that somebody else made in the same form.
    pub by_hand: Option<(&'static str, &'static str)>,
}

/// The value of a label that a controller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelValue {
    /// The name of the object that makes the pods.
    NameOfRun,
    /// This text.
    Text(&'static str),
}

/// A kind that Jobgate judges. Ordered as kinds are listed to people.
#[derive(Clone, Copy)]
pub struct Kind(&'static Definition);

static EXTRA: OnceLock<&'static Definition> = OnceLock::new();

/// Adds a kind to those that are judged, for the rest of the process: for a test that shows what one
/// definition is enough for.
#[doc(hidden)]
pub fn add_for_testing(definition: &'static Definition) {
    let _ = EXTRA.set(definition);
}

impl Kind {
    /// `batch` `Job`.
    pub const JOB: Self = Self(&job::JOB);
    /// `batch` `CronJob`.
    pub const CRON_JOB: Self = Self(&cron_job::CRON_JOB);
    /// `kubeflow.org` `PyTorchJob`.
    pub const PY_TORCH_JOB: Self = Self(&py_torch_job::PY_TORCH_JOB);

    /// Returns all kinds, in the order in which they are listed to people.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        BUILT_IN.iter().copied().chain(EXTRA.get().copied()).map(Self)
    }

    /// Returns the names of all kinds in a sentence, such as `Job, CronJob or PyTorchJob`.
    #[must_use]
    pub fn listed(conjunction: &str) -> String {
        let names: Vec<&str> = Self::all().map(Self::as_str).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// Returns the kind's name as manifests have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.name
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
        Self::all().find(|kind| kind.name == name && kind.group == group)
    }

    /// Returns the kind whose controller makes objects of this one.
    #[must_use]
    pub fn parent(self) -> Option<(Self, Children)> {
        let made = |kind: Self| {
            kind.children.filter(|children| children.group == self.group && children.name == self.name)
        };
        Self::all().find_map(|kind| Some((kind, made(kind)?)))
    }
}

impl Definition {
    /// Tells whether the kind is part of Kubernetes, so that it is there in every cluster and validated
    /// before `/validate` is asked.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        !matches!(self.api, Api::Custom { .. })
    }

    /// Returns the `apiVersion` that is served.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns what is known of an `apiVersion` that is no longer served.
    #[must_use]
    pub fn retired(&self, api_version: &str) -> Option<&'static Retired> {
        self.retired.iter().find(|retired| retired.api_version == api_version)
    }

    /// Tells whether every field is where it is today in an `apiVersion`.
    #[must_use]
    pub fn knows(&self, api_version: &str) -> bool {
        api_version.split_once('/') == Some((self.group, self.version))
            || self.retired(api_version).is_some_and(|retired| retired.moved.is_none())
    }

    fn rank(&self) -> (usize, &str, &str) {
        (
            BUILT_IN.iter().position(|known| std::ptr::eq(*known, self)).unwrap_or(BUILT_IN.len()),
            self.group,
            self.name,
        )
    }
}

impl Deref for Kind {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        self.0
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
    }
}
