//! Definitions of kinds, as data.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::OnceLock;

use super::{BUILT_IN, cron_job, job, py_torch_job};
use crate::text::value::Value;

/// A path of keys from a mapping down.
pub type Path = &'static [&'static str];

/// Everything that is specific to one kind. Code outside this folder reads these fields instead of comparing
/// kinds.
#[derive(Debug)]
pub struct Definition {
    /// The API group; with the name it identifies the kind.
    pub group: &'static str,
    /// The version that API servers serve, and the webhook registers for.
    pub version: &'static str,
    /// Versions that are no longer served.
    pub retired: &'static [Retired],
    /// The kind's name in manifests.
    pub name: &'static str,
    /// The resource's name, as in URLs and webhook rules.
    pub resource: &'static str,
    /// The mapping without which an object runs nothing.
    pub body: Path,
    /// The metadata of a run.
    pub run_metadata: Path,
    /// The mapping that has `activeDeadlineSeconds` and `ttlSecondsAfterFinished`.
    pub limits: Path,
    /// Where the pods are.
    pub pods: Pods,
    /// The mapping with `schedule` and `concurrencyPolicy`, if the kind has a schedule.
    pub schedule: Option<Path>,
    /// How objects get defaults and are validated.
    pub api: Api,
    /// The field of the limits that says which pods are deleted when a run ends, if none are by default: then
    /// a deadline frees nothing (kinds.md §1).
    pub clean_up: Option<&'static str>,
    /// Status conditions of finished objects.
    pub finished: &'static [&'static str],
    /// What may change on UPDATE.
    pub on_update: OnUpdate,
    /// The objects that its controller creates.
    pub children: Option<Children>,
    /// Labels that the controller sets on all pods of a run.
    pub pod_labels: &'static [(&'static str, LabelValue)],
}

/// A version of a kind that API servers no longer serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Since when, to follow "is no longer served"; empty if unknown.
    pub since: &'static str,
    /// What moved, to follow the new `apiVersion`; nothing if all fields are the same.
    pub moved: Option<&'static str>,
}

/// Where the pods of a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The limits are a batch/v1 Job spec, with one `template`.
    JobSpec,
    /// A mapping of roles, each with `replicas`, `restartPolicy` and `template`, whose `restartPolicy` is
    /// ignored.
    Roles {
        /// The mapping.
        at: Path,
        /// A role that may scale up, and the field with its maximum of pods.
        elastic: Option<(&'static str, Path)>,
    },
}

/// How objects of a kind get defaults and are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// By the API server as Jobs: all defaults are set before webhooks are called.
    Job,
    /// By the API server as CronJobs, without the defaults of the Job.
    CronJob,
    /// By the API server with the schema of a CustomResourceDefinition, then by an operator.
    Custom {
        /// The JSON Schema, whose `$ref`s may name built-in types.
        schema: &'static str,
        /// The operator.
        operator: Option<Operator>,
    },
}

/// An operator with known defaults and validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The training operator, as it validates PyTorchJobs.
    Training {
        /// The name that one container of each role must have.
        container: &'static str,
    },
}

/// What may change on UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUpdate {
    /// The pod template is immutable: only filled-in values that an update removes are restored.
    TemplateImmutable,
    /// Nothing is immutable, and a change may restart pods: nothing is filled in.
    Restarts,
    /// Only later runs change: filled in as on CREATE.
    NextRuns,
}

/// The objects that the controller of a kind creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Children {
    /// Their API group.
    pub group: &'static str,
    /// Their kind.
    pub name: &'static str,
    /// The user who creates them.
    pub maker: &'static str,
    /// The annotation, and its value, of objects that a person created in the same form.
    pub by_hand: Option<(&'static str, &'static str)>,
}

/// The value of a label that a controller sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelValue {
    /// The name of the run.
    NameOfRun,
    /// This text.
    Text(&'static str),
}

/// A kind that Jobgate judges, ordered as listed.
#[derive(Clone, Copy)]
pub struct Kind(&'static Definition);

static EXTRA: OnceLock<&'static Definition> = OnceLock::new();

/// Adds a kind for the rest of the process.
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

    /// Returns all kinds, in the order in which they are listed.
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

    /// Returns the kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// Returns the kind of an object, by group and name, in any version; nothing for other objects.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        Self::typed(object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?)
    }

    /// Returns the kind of an `apiVersion` and `kind`.
    #[must_use]
    pub fn typed(version: &str, name: &str) -> Option<Self> {
        let (group, _version) = version.split_once('/')?;
        Self::named(group, name)
    }

    /// Returns the kind of a group and name.
    #[must_use]
    pub fn named(group: &str, name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name == name && kind.group == group)
    }

    /// Returns the kind whose controller creates objects of this kind.
    #[must_use]
    pub fn parent(self) -> Option<(Self, Children)> {
        let made = |kind: Self| {
            kind.children.filter(|children| children.group == self.group && children.name == self.name)
        };
        Self::all().find_map(|kind| Some((kind, made(kind)?)))
    }
}

impl Definition {
    /// Tells whether the kind is part of Kubernetes: in every cluster, and validated before `/validate` is
    /// called.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        !matches!(self.api, Api::Custom { .. })
    }

    /// Returns the `apiVersion` that is served.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns the entry of an `apiVersion` that is no longer served.
    #[must_use]
    pub fn retired(&self, api_version: &str) -> Option<&'static Retired> {
        self.retired.iter().find(|retired| retired.api_version == api_version)
    }

    /// Tells whether an `apiVersion` has the same fields as the current one.
    #[must_use]
    pub fn knows(&self, api_version: &str) -> bool {
        api_version.split_once('/') == Some((self.group, self.version))
            || self.retired(api_version).is_some_and(|retired| retired.moved.is_none())
    }

    /// Returns the mapping of roles, for a kind that has one.
    #[must_use]
    pub fn roles(&self) -> Option<Path> {
        match self.pods {
            Pods::Roles { at, .. } => Some(at),
            Pods::JobSpec => None,
        }
    }

    /// Returns all paths that the definition names.
    pub fn paths(&self) -> impl Iterator<Item = Path> {
        [self.body, self.run_metadata, self.limits].into_iter().chain(self.schedule).chain(self.roles())
    }

    /// Returns its position in the list; a kind that was added comes last.
    fn rank(&self) -> usize {
        BUILT_IN.iter().position(|known| std::ptr::eq(*known, self)).unwrap_or(BUILT_IN.len())
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
