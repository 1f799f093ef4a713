//! Pods, as their controllers see them. Pods that are alike are one group: what a question costs depends on what happens,
//! not on how many pods there are.

use super::indexes::Indexes;
use super::job::spec::ContainerSort;
use super::time::{Clock, Time};
use crate::text::value::Value;

/// The toleration of unreachable nodes that the API server adds (`DefaultTolerationSeconds`).
const UNREACHABLE: Time = Time::from_seconds(300);

/// Returns how long pods with these tolerations tolerate an unreachable node; nothing if without end
/// (`pkg/controller/tainteviction/taint_eviction.go`).
pub(crate) fn unreachable_tolerated<'a>(tolerations: impl IntoIterator<Item = &'a Value>) -> Option<Time> {
    let mut shortest = None;
    let mut is_tolerated = false;
    for toleration in tolerations {
        let text = |key: &str| toleration.get(key).and_then(Value::as_str).unwrap_or_default();
        let matches_key = match text("key") {
            "" => text("operator") == "Exists",
            key => key == "node.kubernetes.io/unreachable",
        };
        if !matches_key || !["", "NoExecute"].contains(&text("effect")) {
            continue;
        }
        is_tolerated = true;
        if let Some(seconds) = toleration.get("tolerationSeconds").and_then(Value::as_i64) {
            let seconds = Time::from_seconds(seconds.max(0));
            shortest = Some(shortest.map_or(seconds, |other: Time| other.min(seconds)));
        }
    }
    if is_tolerated { shortest } else { Some(UNREACHABLE) }
}

/// Pods of one controller that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodGroup {
    /// What they have in common with others, by its number.
    pub set: usize,
    /// Their completion indexes; of a Job without indexes, the numbers in order of creation.
    pub members: Indexes,
    /// How many pods an index had before.
    pub attempt: u32,
    /// The annotation `batch.kubernetes.io/job-index-failure-count`.
    pub failures: u32,
    /// The annotation `batch.kubernetes.io/job-index-ignored-failure-count`.
    pub ignored: u32,
    /// Whether they still have the finalizer `batch.kubernetes.io/job-tracking`.
    pub(crate) finalizer: bool,
    /// When they were created.
    pub created: Time,
    /// Whether a node was chosen.
    pub(crate) bound: bool,
    /// `status.phase`.
    pub phase: Phase,
    /// When they were first seen running.
    pub started: Option<Time>,
    /// When they succeeded or failed.
    pub ended: Option<Time>,
    /// The condition `Ready`: its status, and when it changed.
    pub ready: Option<(bool, Time)>,
    /// Whether the condition `DisruptionTarget` is true.
    pub disrupted: bool,
    /// The containers that have a status.
    pub containers: Vec<ContainerStatus>,
    /// Restarts of containers in the pod.
    pub restarts: u32,
    /// `metadata.deletionTimestamp`.
    pub deletion: Option<Deletion>,
    /// When the objects were gone.
    pub gone: Option<Time>,
    /// `status.reason`, or the reason of the condition `DisruptionTarget`.
    pub reason: Option<&'static str>,
}

/// `status.phase` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// `Pending`.
    Pending,
    /// `Running`.
    Running,
    /// `Succeeded`.
    Succeeded,
    /// `Failed`.
    Failed,
}

/// The status of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerStatus {
    /// The place of the container in the pod template.
    pub nth: usize,
    /// In which list it is.
    pub sort: ContainerSort,
    /// `state.terminated`: the exit code, and `finishedAt`.
    pub terminated: Option<(i64, Time)>,
}

/// The deletion of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deletion {
    /// When it was first asked for.
    pub since: Time,
    /// When it was asked for with this grace period.
    pub at: Time,
    /// The grace period; zero where nothing is waited for but finalizers.
    pub(crate) grace: Time,
}

impl PodGroup {
    /// Returns pods that were just created, and that nothing is known of yet.
    pub(crate) fn new(set: usize, members: Indexes, created: Time) -> Self {
        Self {
            set,
            members,
            attempt: 0,
            failures: 0,
            ignored: 0,
            finalizer: true,
            created,
            bound: false,
            phase: Phase::Pending,
            started: None,
            ended: None,
            ready: None,
            disrupted: false,
            containers: Vec::new(),
            restarts: 0,
            deletion: None,
            gone: None,
            reason: None,
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.members.len()
    }

    /// Tells whether they succeeded or failed.
    #[must_use]
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Tells whether they are active: not ended, and not in deletion (`controller_utils.go`, `IsPodActive`).
    #[must_use]
    pub(crate) fn is_active(&self) -> bool {
        !self.is_ended() && self.deletion.is_none()
    }

    /// Tells whether they are terminating: in deletion, and not ended.
    #[must_use]
    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_ended() && self.deletion.is_some()
    }

    /// Tells whether the condition `Ready` is true.
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.is_some_and(|(status, _)| status)
    }

    /// Returns when a back-off counts from (`getFinishedTime`, `pkg/controller/job/backoff_utils.go`): the end of the
    /// last container, if all of them and the sidecars have one; else when `Ready` became false; else the deletion;
    /// else the creation.
    #[must_use]
    pub(crate) fn finished(&self, clock: Clock) -> Time {
        let mut counted = self.containers.iter().filter(|container| container.sort != ContainerSort::Init);
        let ends: Option<Vec<Time>> =
            counted.by_ref().map(|container| container.terminated.map(|(_, at)| at)).collect();
        if let Some(last) = ends.and_then(|ends| ends.into_iter().max()) {
            return clock.stored(last);
        }
        if let Some((false, at)) = self.ready {
            return clock.stored(at);
        }
        match self.deletion {
            Some(deletion) => clock.stored(deletion.at),
            None => clock.stored(self.created),
        }
    }

    /// Tells whether a condition has a status.
    #[must_use]
    pub(crate) fn has_condition(&self, sort: &str, status: &str) -> bool {
        match sort {
            "DisruptionTarget" => self.disrupted && status == "True",
            "Ready" | "ContainersReady" => {
                self.ready.is_some_and(|(is_ready, _)| (if is_ready { "True" } else { "False" }) == status)
            }
            "PodScheduled" => (if self.bound { "True" } else { "False" }) == status,
            _ => false,
        }
    }
}
