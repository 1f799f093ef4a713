//! What becomes of a pod, by a script.

use super::super::time::Time;
use super::Submission;

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// From its creation until it runs; nothing if it never does.
    pub start: Option<Time>,
    /// Whether no node is chosen for it.
    pub(crate) is_unscheduled: bool,
    /// How long it runs; nothing if it never ends.
    pub(crate) run: Option<Time>,
    /// Whether it runs the program, where there is one, which says how long.
    pub(crate) follows_program: bool,
    /// Whether it ends by itself before the program does.
    pub(crate) fails_by_itself: bool,
    /// Whether it serves the ranks of the program, and does not end with them.
    pub(crate) serves: bool,
    /// From when it runs until its node no longer answers: the program stops, and nobody notices.
    pub(crate) silent: Option<Time>,
    /// From then until the node controller says that it is not ready any more; nothing if nobody does.
    pub(crate) unready: Option<Time>,
    /// The exit codes of containers, by their names; the empty name is the first container.
    pub(crate) exit: Vec<(String, i64)>,
    /// Init containers that fail, with their exit codes.
    pub(crate) init: Vec<(String, i64)>,
    /// The exit code of sidecars.
    pub(crate) sidecar: i64,
    /// Whether an exit code of 137 is reported as `OOMKilled`.
    pub(crate) is_oom: bool,
    /// How often its container restarts before its last run; without a number, always.
    pub restarts: Option<Restarts>,
    /// Whether the kubelet refuses it.
    pub(crate) is_rejected: bool,
    /// What ends it from outside.
    pub(crate) disruption: Option<Disruption>,
    /// What its program does on SIGTERM.
    pub term: Termination,
    /// What it does where it submits a program to a Ray cluster.
    pub(crate) submission: Submission,
    /// What the container beside a head does that submits a program.
    pub(crate) sidecar_submission: Submission,
}

/// Restarts in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restarts {
    /// How many; nothing for no end of them.
    pub(crate) count: Option<u32>,
    /// The time of each.
    pub(crate) every: Time,
    /// Whether the kubelet waits before each: 10 s, and twice as long for each more, at most 5 min.
    pub(crate) is_backed_off: bool,
}

/// What ends a pod from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disruption {
    /// From when it runs; of a pod that never does, from its creation.
    pub(crate) after: Time,
    /// By whom.
    pub(crate) cause: DisruptionCause,
    /// Of a lost node: after which time the pod garbage collector ends its pods; nothing if it does not.
    pub(crate) collected: Option<Time>,
}

/// Who ends a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisruptionCause {
    /// The eviction API: a drain.
    Eviction,
    /// The scheduler, for a pod of a higher priority.
    Preemption,
    /// The taint manager.
    Taint,
    /// Somebody who deletes the pod.
    Deletion,
    /// Somebody who deletes the pod without a grace period.
    ForcedDeletion,
    /// The kubelet, for want of memory or disk.
    Pressure,
    /// A node that does not answer any more: deleted by the taint manager, and never ended.
    LostNode,
}

/// What a program does on SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    /// How long it takes; nothing if it does not end.
    pub(crate) after: Option<Time>,
    /// Its exit code.
    pub code: i64,
}

impl Default for Termination {
    fn default() -> Self {
        Self { after: Some(Time::from_millis(1_400)), code: 143 }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            start: Some(Time::from_millis(500)),
            is_unscheduled: false,
            run: Some(Time::from_seconds(5)),
            follows_program: true,
            fails_by_itself: false,
            serves: false,
            silent: None,
            unready: None,
            exit: Vec::new(),
            init: Vec::new(),
            sidecar: 0,
            is_oom: false,
            restarts: None,
            is_rejected: false,
            disruption: None,
            term: Termination::default(),
            submission: Submission::default(),
            sidecar_submission: Submission::following(),
        }
    }
}
