//! The definition of a kind: a [`Definition`] and its parts.

use crate::kinds::field::{Field, Part, Path};
use crate::kinds::lifecycle::{
    Attempts, Borrowed, Choice, Deadline, Disruption, History, InPlace, Leak, Policies, Release, Retries,
    RunsCounted, Submitter, Ttl, Wait,
};
use crate::kinds::pods::Pods;
use crate::kinds::variables::Variables;

/// Everything that is specific to one kind. Code outside this folder reads these fields instead of comparing
/// kinds.
#[derive(Debug)]
pub struct Definition {
    /// The API group; with the name it identifies the kind.
    pub group: &'static str,
    /// The version that API servers serve, and the webhook registers for.
    pub version: &'static str,
    /// Other served versions, with the same fields.
    pub also: &'static [&'static str],
    /// Versions that are no longer served.
    pub retired: &'static [Retired],
    /// The kind's name in manifests.
    pub name: &'static str,
    /// The name with the group, as in kubectl, if another kind has the same name.
    pub title: Option<&'static str>,
    /// The resource's name, as in URLs and webhook rules.
    pub resource: &'static str,
    /// The mapping that an object needs to run anything.
    pub body: Path,
    /// The metadata of a run.
    pub run_metadata: Path,
    /// The mapping that has the run limits.
    pub limits: Path,
    /// The field with the deadline, from the limits of a run, in seconds.
    pub deadline_at: Path,
    /// What it does.
    pub deadline: Deadline,
    /// Whether the operator checks the deadline only when something happens to the job, so that a job that
    /// hangs silently runs on.
    pub deadline_is_late: bool,
    /// Returns how often an object's runs may start, each with a new clock.
    pub attempts: fn(&Part<'_>) -> Attempts,
    /// The field with the time to live after the end, from the limits, in seconds.
    pub ttl_at: Path,
    /// What it does.
    pub ttl: Ttl,
    /// Whether a TTL of 0 may delete what has ended before the operator has seen that, which then makes it again.
    pub ttl_of_zero_runs_again: bool,
    /// How many finished runs are kept.
    pub history: Option<History>,
    /// A wait that the deadline does not bound.
    pub wait: Option<Wait>,
    /// Where work is sent to pods of another object, which the deadline does not stop.
    pub borrowed: Option<Borrowed>,
    /// The pods that send it there, or to pods of its own.
    pub submitter: Option<Submitter>,
    /// The field that decides whether pods that still run at the end of a run are released.
    pub release: Option<Release>,
    /// Where it is written what becomes of pods after a failure, whatever [`release`](Self::release) is.
    pub leak: Option<Leak>,
    /// The choice that the operator accepts only with `podReplacementPolicy: Failed` in each batch/v1 Job.
    pub replaces_in_place: Option<Choice>,
    /// The bound on how often its operator restarts failed pods, if there is none by default.
    pub retries: Option<Retries>,
    /// What bounds how often the node restarts containers of pods whose template asks for it, if nothing does by default.
    pub in_place: Option<InPlace>,
    /// Where it is written what its operator does after events.
    pub policies: Option<Policies>,
    /// The bound on how often its pods are run, together with all restarts by such a policy.
    pub runs_counted: Option<RunsCounted>,
    /// A role of which the operator makes a pod even with `replicas: 0`, and takes that for failed when it deletes it.
    pub never_without: Option<&'static str>,
    /// Returns a part of the object that waits for itself, so that its pods never start.
    pub waits_for_itself: for<'a> fn(&Part<'a>) -> Option<Part<'a>>,
    /// How the loss of a node, such as a spot node, is counted.
    pub disruption: Option<Disruption>,
    /// The value of `managedBy` in its limits that its own controller takes; nothing if it has no such field, if its
    /// controller does not look at it, or if its objects are Jobs.
    pub manager: Option<&'static str>,
    /// Whether Kueue queues its runs by a label of [`Self::run_metadata`].
    pub queued_by_kueue: bool,
    /// Where the pods are.
    pub pods: &'static [Pods],
    /// The mapping with `schedule` and `concurrencyPolicy`, if the kind has a schedule.
    pub schedule: Option<Path>,
    /// How objects get defaults and are validated.
    pub api: Api,
    /// The release of the operator that the schema in [`Self::api`] is from; other releases may have other
    /// fields. Empty for kinds of Kubernetes, and if no schema is known.
    pub schema_of: &'static str,
    /// Fields that only earlier releases of its schema have, and what to write instead.
    pub older_fields: &'static [(Path, &'static str)],
    /// What the operator does to a template before it makes pods, or Jobs, of it.
    pub made: Made,
    /// The environment variables that its controller adds to containers; nothing if unknown, so that any
    /// variable may be set.
    pub variables: Option<Variables>,
    /// How the processes of a distributed run start.
    pub ranks: Ranks,
    /// How the status shows that an object has finished.
    pub finished: Finished,
    /// What may change on UPDATE.
    pub on_update: OnUpdate,
    /// Fields that the schema makes immutable once set (`self == oldSelf`), each with the API server's message.
    pub immutable: &'static [(Path, &'static str)],
    /// An object with any of these fields is complete even without a container image.
    pub whole: &'static [Path],
    /// The object of another kind that has its pods.
    pub runs_in: Option<Reference>,
    /// The object's claims outside its pod templates.
    pub claims: &'static [OwnClaims],
    /// Objects of other kinds inside it, which are judged in its place.
    pub components: Option<Path>,
    /// Whether objects have no namespace.
    pub cluster_scoped: bool,
    /// The field that its subresource `scale` sets (`kubectl scale`, autoscalers), for which no webhook is
    /// registered; nothing if it has none.
    pub scale: Option<Path>,
    /// Whether only its vendor can run its operator: findings are then warnings, nothing is filled in, and no
    /// webhook registers for it.
    pub untested: bool,
    /// The objects of judged kinds that its controller creates.
    pub children: &'static [Children],
    /// The default users as whom its controller creates objects.
    pub makers: &'static [&'static str],
    /// A starter manifest, which `jobgate new` fills in.
    pub starter: Option<&'static str>,
    /// Labels that the controller sets on all pods of a run.
    pub pod_labels: &'static [(&'static str, LabelValue)],
}

/// A version of a kind that API servers no longer serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Since when, which follows "is no longer served" in messages; empty if unknown.
    pub since: &'static str,
    /// What moved, which follows the new `apiVersion` in messages; nothing if all fields are the same.
    pub moved: Option<&'static str>,
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

/// What an operator does to a template before it makes pods, or Jobs, of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Fields of the pod spec that it writes, whatever the template says.
    pub overwrites: &'static [&'static str],
    /// The names of the volumes that it adds; nothing if unknown, so that a mount may refer to any volume.
    pub volumes: Option<&'static [&'static str]>,
    /// The `completionMode` of Jobs that say none, if that is not the API server's.
    pub completion_mode: Option<&'static str>,
    /// Whether its own webhook refuses an object with a template of which the API server would refuse pods.
    pub is_refused_first: bool,
    /// Whether its operator writes no condition while the API server refuses a pod.
    pub is_silent: bool,
    /// What follows when the API server refuses its pods or Jobs, as a sentence that begins with the operator; empty if
    /// unknown.
    pub unmade: &'static str,
}

/// An operator with known validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The training operator, as it validates PyTorchJobs.
    Training {
        /// The name that one container of each role must have.
        container: &'static str,
    },
    /// KubeRay, as its controller validates RayJobs.
    Ray,
    /// AppWrapper, as its webhook validates AppWrappers.
    AppWrapper,
    /// Volcano, as its webhook validates Jobs.
    Volcano,
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
    /// Nothing is immutable, and a change of the spec deletes running Jobs: as with an immutable template, only
    /// filled-in values are restored.
    StopsRuns,
}

/// A reference to the object whose pods run.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The mapping with `kind` and `name`.
    pub at: Path,
    /// The default for `kind`.
    pub kind: &'static str,
    /// The mapping that overrides what a container of these pods starts.
    pub trainer: Path,
    /// The field that overrides the resources of each pod.
    pub resources: Path,
    /// The field that overrides the number of pods.
    pub nodes: Path,
    /// Patches of its list of Jobs; [`EACH`](super::EACH) stands for any item.
    pub jobs: Path,
    /// Patches of its pod specs.
    pub patches: Path,
}

impl Reference {
    /// Returns the kind and the name of the object that is referred to, if there is a name.
    #[must_use]
    pub fn of<'a>(&self, object: &Part<'a>) -> Option<(&'a str, &'a str)> {
        let at = object.at(self.at);
        let kind = match at.get("kind").text() {
            Field::Unset => self.kind,
            Field::Set(kind) => kind,
            Field::Placeholder(_) | Field::Wrong => return None,
        };
        Some((kind, at.get("name").text().set()?))
    }
}

/// Claims that an object names or describes outside its pod templates.
#[derive(Clone, Copy, Debug)]
pub struct OwnClaims {
    /// The mapping of each; [`EACH`](super::EACH) stands for any item.
    pub at: Path,
    /// The text in it that identifies the claim to users.
    pub name: Path,
    /// The field in it with the name of an existing claim, if there may be one.
    pub existing: Option<&'static str>,
    /// The spec in it of the claim to be created, one for the whole object.
    pub spec: &'static str,
    /// Which pods mount it.
    pub mounted: Mounted,
}

/// Which pods mount one of [`OwnClaims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// All, in every container, at the path in this field.
    Everywhere(&'static str),
    /// Those with a container that mounts a volume with its name.
    ByName,
}

/// How the processes of a distributed run start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Unknown.
    Unknown,
    /// Each pod runs its own command, and starts the processes of its node.
    Each {
        /// The fields with the number of processes of a node; the first that is set counts.
        processes: &'static [Path],
        /// Words that give a container the index of its pod.
        index: &'static [&'static str],
        /// Whether the controller gives pods host names that resolve only under the pod spec's `subdomain`.
        subdomain: bool,
    },
    /// One pod starts all processes, on the hosts that the operator lists for it.
    Hosts(Hosts),
}

/// The hosts that an operator lists for Open MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The role that starts the processes.
    pub launcher: &'static str,
    /// The role whose pods are the hosts.
    pub worker: &'static str,
    /// The field with the number of processes per host.
    pub slots: Path,
    /// The field that makes the launcher a host as well.
    pub launcher_too: Option<Path>,
    /// The field that selects an MPI implementation other than Open MPI.
    pub implementation: Option<Path>,
}

/// How the status of an object shows that it has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// A condition of one of these types is true.
    Conditions(&'static [&'static str]),
    /// A field has one of these values.
    Field(Path, &'static [&'static str]),
    /// It never does.
    Never,
}

/// The objects that the controller of a kind creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Children {
    /// Their API group.
    pub group: &'static str,
    /// Their kind.
    pub name: &'static str,
    /// The annotation and value that mark objects created by hand in the same form.
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

/// The defaults for a custom resource, to start a definition from.
pub const CUSTOM: Definition = Definition {
    group: "",
    version: "",
    also: &[],
    retired: &[],
    name: "",
    title: None,
    resource: "",
    body: &["spec"],
    run_metadata: &["metadata"],
    limits: &["spec"],
    deadline_at: &["activeDeadlineSeconds"],
    deadline: Deadline::Ends,
    deadline_is_late: false,
    attempts: |_| Attempts::Times(1),
    ttl_at: &["ttlSecondsAfterFinished"],
    ttl: Ttl::None,
    ttl_of_zero_runs_again: false,
    history: None,
    wait: None,
    borrowed: None,
    submitter: None,
    release: None,
    leak: None,
    replaces_in_place: None,
    retries: None,
    in_place: None,
    policies: None,
    runs_counted: None,
    never_without: None,
    waits_for_itself: |_| None,
    disruption: None,
    manager: None,
    queued_by_kueue: false,
    pods: &[],
    schedule: None,
    api: Api::Custom { schema: "{}", operator: None },
    schema_of: "",
    older_fields: &[],
    made: Made {
        overwrites: &[],
        volumes: None,
        completion_mode: None,
        is_refused_first: false,
        is_silent: false,
        unmade: "",
    },
    variables: None,
    ranks: Ranks::Unknown,
    finished: Finished::Conditions(&["Succeeded", "Failed"]),
    on_update: OnUpdate::Restarts,
    immutable: &[],
    whole: &[],
    runs_in: None,
    claims: &[],
    components: None,
    cluster_scoped: false,
    scale: None,
    untested: false,
    children: &[],
    makers: &[],
    starter: None,
    pod_labels: &[],
};

impl Definition {
    /// Tells whether the kind is part of Kubernetes: served by every cluster, and validated before `/validate`
    /// is called.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        !matches!(self.api, Api::Custom { .. })
    }

    /// Returns the served `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns the name of the field with the deadline.
    #[must_use]
    pub fn deadline_name(&self) -> &'static str {
        self.deadline_at.last().copied().unwrap_or_default()
    }

    /// Returns what one object is, in messages: a job, or what its kind is called.
    #[must_use]
    pub(crate) fn noun(&self) -> &'static str {
        if self.name.ends_with("Job") { "job" } else { self.name }
    }

    /// Returns the name of the field with the TTL.
    #[must_use]
    pub fn ttl_name(&self) -> &'static str {
        self.ttl_at.last().copied().unwrap_or_default()
    }

    /// Returns the entry of an `apiVersion` that is no longer served.
    #[must_use]
    pub fn retired(&self, api_version: &str) -> Option<&'static Retired> {
        self.retired.iter().find(|retired| retired.api_version == api_version)
    }

    /// Tells whether an `apiVersion` is one whose fields have moved.
    #[must_use]
    pub fn has_moved(&self, api_version: Option<&str>) -> bool {
        api_version.and_then(|version| self.retired(version)).is_some_and(|retired| retired.moved.is_some())
    }

    /// Tells whether an `apiVersion` has the same fields as the current one.
    #[must_use]
    pub fn knows(&self, api_version: &str) -> bool {
        api_version.split_once('/') == Some((self.group, self.version))
            || self.also.contains(&api_version)
            || self.retired(api_version).is_some_and(|retired| retired.moved.is_none())
    }

    /// Returns the mapping of roles, for a kind that has one.
    #[must_use]
    pub fn roles(&self) -> Option<Path> {
        self.pods.iter().find_map(Pods::roles)
    }

    /// Tells whether its runs are batch/v1 Jobs.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        self.pods.iter().any(Pods::is_job)
    }

    /// Returns all paths in the definition, with [`EACH`](super::EACH) in those of pods.
    pub fn paths(&self) -> impl Iterator<Item = Path> {
        [self.body, self.run_metadata, self.limits]
            .into_iter()
            .chain(self.schedule)
            .chain(self.pods.iter().map(|pods| pods.at))
    }
}
