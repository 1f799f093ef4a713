//! A pod of a Job of a cluster, as it is at a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::job::spec::{ContainerSort, ContainerSpec};
use super::super::pod::{ContainerStatus, Phase, unreachable_tolerated};
use super::super::time::Time;
use super::fields::{annotated, deletion, items, number, owned, tagged, text, time};
use crate::text::value::Value;

/// The finalizer of pods that their Job has not counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// How long after its grace period a pod may end: a kubelet has other things to do, too.
const LATE: Time = Time::from_seconds(30);

/// From when the node controller says that pods are not ready until their node has its taint.
const TAINTED: Time = Time::from_seconds(5);

/// The longest grace period, in seconds, and the highest count of an annotation: what is more is no longer a number of
/// anything.
const MOST_SECONDS: i64 = 1_000_000_000;
const MOST_FAILURES: u32 = 1_000_000;

/// Labels of operators that say what a pod is to its object, the most exact ones first.
const ROLES: [&str; 5] = [
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "volcano.sh/task-spec",
    "ray.io/group",
];
/// Labels of operators that number the pods of a role.
const REPLICAS: [&str; 2] = ["training.kubeflow.org/replica-index", "volcano.sh/task-index"];
/// Labels of Ray workers with several pods a replica: the name of the replica, and the number of the pod in it.
const RAY_REPLICA: &str = "ray.io/worker-group-replica-name";
const RAY_HOST: &str = "ray.io/replica-host-index";
/// Annotations of the pods of a Volcano Job: the version of the job that made them, and whether it killed them since.
const VERSION: &str = "volcano.sh/job-version";
const KILLED: &str = "volcano.sh/controller-out-of-sync";

/// Returns the first of some labels that an object has.
fn first_label<'v>(object: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| tagged(object, "labels", key))
}

/// Returns what a pod is to its object; the head of a Ray cluster has a group as well.
fn role(object: &Value) -> Option<&str> {
    let head = tagged(object, "labels", "ray.io/node-type").filter(|sort| *sort == "head");
    head.or_else(|| first_label(object, &ROLES))
}

/// Returns the name of the pod that failed last, of those that are there.
pub(super) fn last_failed<'p>(pods: impl IntoIterator<Item = &'p LivePod>) -> Option<&'p str> {
    let failed = pods.into_iter().filter(|pod| pod.phase == Phase::Failed);
    failed.max_by_key(|pod| pod.last_end()).map(|pod| pod.name.as_str())
}

/// A pod of a Job, as it is at a moment. Times count from that moment.
#[derive(Clone, Debug)]
pub struct LivePod {
    /// `metadata.name`.
    pub name: String,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// Its completion index.
    pub index: Option<u32>,
    /// What it is to the object that made it, by a label of the operator: `worker`.
    pub role: Option<String>,
    /// Its number in its role, by a label of the operator.
    pub replica: Option<u32>,
    /// The replica of a Ray worker of which several are one, and its number in that.
    pub(super) host: Option<(String, u32)>,
    /// The version of the Volcano Job that made it.
    pub(super) version: Option<u32>,
    /// Whether the controller of its Volcano Job killed it.
    pub(super) is_killed: bool,
    pub(super) created: Time,
    pub(super) failures: u32,
    pub(super) ignored: u32,
    /// Whether its Job has not counted it.
    pub(super) is_tracked: bool,
    /// Finalizers of others.
    pub(super) finalizers: Vec<String>,
    pub(super) phase: Phase,
    pub(super) reason: Option<String>,
    pub(super) ready: Option<(bool, Time)>,
    /// `reason` of the condition `DisruptionTarget`, where that is true.
    pub(super) disruption: Option<String>,
    /// When it was deleted, and the grace period.
    pub(super) deletion: Option<(Time, Time)>,
    /// The condition `PodScheduled`, where that is false: its reason, its message and since when.
    pub(super) unscheduled: Option<(String, String, Option<Time>)>,
    /// `spec.schedulingGates`.
    pub(super) gates: Vec<String>,
    /// The containers that have a status: `containerStatuses`, then `initContainerStatuses`.
    pub(super) containers: Vec<LiveContainer>,
    /// Whether the kubelet said of all containers that they are ready.
    pub(super) are_containers_ready: bool,
    pub(super) restarts: u32,
    /// What a container waits for, where that is more than its start.
    pub(super) trouble: Option<Trouble>,
    pub(super) started: Option<Time>,
    /// How long it tolerates a node that does not answer; nothing if without end.
    tolerated: Option<Time>,
}

/// The containers of a pod template.
#[derive(Clone, Debug)]
pub(super) struct Containers {
    all: Arc<[ContainerSpec]>,
    /// Their places, by their names.
    places: BTreeMap<String, usize>,
}

impl Containers {
    pub(super) fn new(all: &Arc<[ContainerSpec]>) -> Self {
        let mut places = BTreeMap::new();
        for (nth, container) in all.iter().enumerate() {
            places.entry(container.name.clone()).or_insert(nth);
        }
        Self { all: Arc::clone(all), places }
    }
}

/// A container that has a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LiveContainer {
    name: String,
    is_init: bool,
    /// `state.terminated`: the exit code, and when it ended.
    pub(super) terminated: Option<(i64, Time)>,
}

/// What a container waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) image: String,
    /// How it ended before: the exit code, and when.
    pub(super) last: Option<(i64, Option<Time>)>,
}

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodStage {
    /// It is in deletion and past its grace period, or its node does not answer.
    Stuck,
    /// It has ended and is in deletion, and somebody else's finalizer keeps it.
    Kept,
    /// It runs, and its node does not answer.
    Silent,
    /// The scheduler finds no node.
    Unscheduled,
    /// The scheduler is not to look yet.
    Gated,
    /// The image cannot be pulled.
    Image,
    /// A container cannot be made.
    Broken,
    /// The program fails whenever it starts.
    Crashes,
    /// It is in deletion, within its grace period.
    Terminates,
    /// It is to start.
    Starts,
    /// It runs.
    Runs,
    /// It has ended.
    Ended,
}

impl LivePod {
    /// Reads a pod of a Job, at a moment in milliseconds since 1970.
    pub(super) fn from_object(object: &Value, now: i64) -> Self {
        let at = |pointer: &str| time(object, pointer, now);
        let created = at("/metadata/creationTimestamp").unwrap_or_default();
        let (mut is_tracked, mut finalizers) = (false, Vec::new());
        for finalizer in items(object, "/metadata/finalizers").filter_map(Value::as_str) {
            if finalizer == TRACKING { is_tracked = true } else { finalizers.push(finalizer.to_owned()) }
        }
        let phase = match text(object, "/status/phase") {
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            // A node that does not answer: the pod may run.
            Some("Running" | "Unknown") => Phase::Running,
            _ => Phase::Pending,
        };
        let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        let grace = Time::from_seconds(grace.unwrap_or_default().clamp(0, MOST_SECONDS));
        let statuses = || items(object, "/status/containerStatuses");
        let is_ready = |status: &Value| status.get("ready").and_then(Value::as_bool) == Some(true);
        let count = |key: &str| annotated(object, key).unwrap_or_default().min(MOST_FAILURES);
        let index = annotated(object, "batch.kubernetes.io/job-completion-index");
        let condition =
            |sort: &str| items(object, "/status/conditions").find(|one| text(one, "/type") == Some(sort));
        let is = |condition: &Value, status: &str| text(condition, "/status") == Some(status);
        let words = |condition: &Value, key: &str| owned(condition, key).unwrap_or_default();
        let since = |condition: &Value| time(condition, "/lastTransitionTime", now);
        let first_start = statuses().filter_map(|status| time(status, "/state/running/startedAt", now)).max();
        Self {
            name: owned(object, "/metadata/name").unwrap_or_default(),
            node: owned(object, "/spec/nodeName"),
            index: index.or_else(|| {
                tagged(object, "labels", "batch.kubernetes.io/job-completion-index")?.parse().ok()
            }),
            role: role(object).map(str::to_owned),
            replica: first_label(object, &REPLICAS).and_then(|number| number.parse().ok()),
            host: tagged(object, "labels", RAY_REPLICA).and_then(|replica| {
                Some((replica.to_owned(), tagged(object, "labels", RAY_HOST)?.parse().ok()?))
            }),
            version: annotated(object, VERSION),
            is_killed: tagged(object, "annotations", KILLED) == Some("true"),
            created,
            failures: count("batch.kubernetes.io/job-index-failure-count"),
            ignored: count("batch.kubernetes.io/job-index-ignored-failure-count"),
            is_tracked,
            finalizers,
            phase,
            reason: owned(object, "/status/reason"),
            ready: condition("Ready").map(|ready| (is(ready, "True"), since(ready).unwrap_or(created))),
            disruption: condition("DisruptionTarget")
                .filter(|condition| is(condition, "True"))
                .map(|condition| words(condition, "/reason")),
            deletion: deletion(object, now).map(|at| (at - grace, grace)),
            unscheduled: condition("PodScheduled")
                .filter(|condition| is(condition, "False"))
                .map(|one| (words(one, "/reason"), words(one, "/message"), since(one))),
            gates: items(object, "/spec/schedulingGates").filter_map(|gate| owned(gate, "/name")).collect(),
            containers: statuses()
                .map(|status| (status, false))
                .chain(items(object, "/status/initContainerStatuses").map(|status| (status, true)))
                .map(|(status, is_init)| LiveContainer::from_status(status, is_init, created, now))
                .collect(),
            are_containers_ready: statuses().next().is_some() && statuses().all(is_ready),
            restarts: statuses()
                .chain(items(object, "/status/initContainerStatuses"))
                .map(|status| number(status, "/restartCount").unwrap_or_default())
                .fold(0, u32::saturating_add),
            trouble: items(object, "/status/initContainerStatuses")
                .chain(statuses())
                .find_map(|status| Trouble::from_status(status, now)),
            tolerated: unreachable_tolerated(items(object, "/spec/tolerations")),
            started: first_start.or_else(|| at("/status/startTime")).filter(|_| phase != Phase::Pending),
        }
    }

    /// Returns how its containers ended, with their places in the pod template. One that a webhook added has no place
    /// there.
    pub(super) fn statuses(&self, known: &Containers) -> Vec<ContainerStatus> {
        let status = |container: &LiveContainer| {
            let nth = known.places.get(&container.name).copied();
            let other = if container.is_init { ContainerSort::Init } else { ContainerSort::Main };
            let sort = nth.and_then(|nth| known.all.get(nth)).map_or(other, |one| one.sort);
            ContainerStatus { nth: nth.unwrap_or(usize::MAX), sort, terminated: container.terminated }
        };
        self.containers.iter().map(status).collect()
    }

    /// Returns when it is deleted if its node does not answer again, of one whose node does not; nothing if it is not.
    pub(super) fn given_up(&self) -> Option<Time> {
        let since = self.ready.map_or(Time::START, |(_, at)| at);
        self.tolerated.map(|tolerated| since + TAINTED + tolerated)
    }

    /// Returns when its last container ended, of those that have.
    pub(super) fn last_end(&self) -> Option<Time> {
        self.containers.iter().filter_map(|one| one.terminated).map(|(_, at)| at).max()
    }

    /// Tells whether it succeeded or failed.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Tells whether the controller takes it for active.
    pub(super) fn is_active(&self) -> bool {
        !self.is_ended() && self.deletion.is_none()
    }

    /// Tells whether its node seems not to answer: not the kubelet says that it is not ready, for which each container
    /// is, but the node controller.
    pub(super) fn is_silent(&self) -> bool {
        let is_ready = self.ready.is_none_or(|(is_ready, _)| is_ready);
        self.reason.as_deref() == Some("NodeLost")
            || self.phase == Phase::Running && !is_ready && self.are_containers_ready
    }

    /// Returns what it does.
    pub(super) fn stage(&self) -> PodStage {
        let trouble = self.trouble.as_ref().map_or("", |trouble| trouble.reason.as_str());
        match (self.is_ended(), self.deletion) {
            (true, Some(_)) if !self.finalizers.is_empty() => PodStage::Kept,
            (true, _) => PodStage::Ended,
            (false, Some(_)) if self.is_silent() => PodStage::Stuck,
            (false, Some((since, grace))) if since + grace + LATE < Time::START => PodStage::Stuck,
            (false, Some(_)) => PodStage::Terminates,
            (false, None) if self.is_silent() => PodStage::Silent,
            (false, None) if trouble == "CrashLoopBackOff" => PodStage::Crashes,
            (false, None) if self.phase == Phase::Running => PodStage::Runs,
            (false, None) if !self.gates.is_empty() => PodStage::Gated,
            (false, None) if self.node.is_none() && self.unscheduled.is_some() => PodStage::Unscheduled,
            (false, None) if trouble.contains("Image") => PodStage::Image,
            (false, None) if !trouble.is_empty() => PodStage::Broken,
            (false, None) => PodStage::Starts,
        }
    }
}

impl LiveContainer {
    fn from_status(status: &Value, is_init: bool, created: Time, now: i64) -> Self {
        let ended = status.pointer("/state/terminated").filter(|ended| ended.is_object());
        let terminated = ended.map(|ended| {
            let code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
            (code, time(ended, "/finishedAt", now).unwrap_or(created))
        });
        Self { name: owned(status, "/name").unwrap_or_default(), is_init, terminated }
    }
}

impl Trouble {
    fn from_status(status: &Value, now: i64) -> Option<Self> {
        let reason = text(status, "/state/waiting/reason")?;
        if ["ContainerCreating", "PodInitializing"].contains(&reason) {
            return None;
        }
        let last = status.pointer("/lastState/terminated").filter(|last| last.is_object());
        Some(Self {
            reason: reason.to_owned(),
            message: owned(status, "/state/waiting/message").unwrap_or_default(),
            image: owned(status, "/image").unwrap_or_default(),
            last: last.map(|last| {
                let code = last.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
                (code, time(last, "/finishedAt", now))
            }),
        })
    }
}
