//! What a Job of a cluster, or an object of an operator, waits for.

use super::super::indexes::Indexes;
use super::super::time::Time;

/// Something that a Job, or an object of an operator, waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What.
    pub what: WaitFor,
    /// The objects below it whose wait it is, each with its kind: `Job train-workers-0`; none where it is its own.
    pub of: Vec<String>,
    /// The pods that it is about, by name.
    pub pods: Vec<String>,
    /// Their nodes.
    pub nodes: Vec<String>,
    /// Since when; of several pods, since the first.
    pub since: Option<Time>,
    /// Until when, where that is known.
    pub until: Option<Time>,
}

/// What a Job, or an object of an operator, waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// It has ended, and the TTL controller deletes it.
    Ttl,
    /// It has ended, and nothing deletes it but its owner or a person.
    Nobody,
    /// It is in deletion.
    Deletion {
        /// What keeps it.
        finalizers: Vec<String>,
    },
    /// Another controller runs it.
    Manager {
        /// `spec.managedBy`.
        name: String,
    },
    /// It is suspended.
    Resume {
        /// The queue of Kueue.
        queue: Option<String>,
    },
    /// How it ends is decided, and its last condition waits for pods that are terminating.
    LastCondition {
        /// The condition before the last one.
        sort: String,
        /// Its reason.
        reason: String,
    },
    /// Pods in deletion do not end.
    Stuck {
        /// Whether their node seems not to answer.
        is_node_lost: bool,
        /// Whether others are made only at their end.
        is_held: bool,
    },
    /// Pods that have ended are in deletion, and other finalizers keep them.
    Kept {
        /// The finalizers.
        finalizers: Vec<String>,
    },
    /// Pods run on a node that does not answer.
    Silent,
    /// The scheduler finds no node for pods.
    Unschedulable {
        /// What it says.
        message: String,
    },
    /// The scheduler is not to look at pods yet.
    Gated {
        /// Their scheduling gates.
        gates: Vec<String>,
    },
    /// An image cannot be pulled.
    Image {
        /// `ErrImagePull`, `ImagePullBackOff`, `InvalidImageName` and so on.
        reason: String,
        /// The image.
        image: String,
        /// What the kubelet says.
        message: String,
    },
    /// A container cannot be made.
    Container {
        /// `CreateContainerConfigError` and so on.
        reason: String,
        /// What the kubelet says.
        message: String,
    },
    /// The program fails whenever it starts, and the kubelet waits before it starts it again.
    CrashLoop {
        /// How often it was started again.
        restarts: u32,
        /// The exit code.
        code: Option<i64>,
    },
    /// The controller waits before it replaces pods.
    Backoff {
        /// After how many failures.
        failures: u32,
        /// The indexes that wait, each for itself.
        indexes: Option<Indexes>,
    },
    /// Pods are in deletion, within their grace period.
    Terminating {
        /// Whether others are made only at their end.
        is_held: bool,
    },
    /// Pods are about to start.
    Starting,
    /// Pods are missing, and nothing says why.
    Missing {
        /// How many.
        count: u32,
        /// Their role; nothing for those of a Job.
        role: Option<String>,
    },
    /// Objects are missing that its operator makes, and nothing says why.
    Objects {
        /// How many.
        count: u32,
        /// Their kind.
        kind: &'static str,
        /// What they are to it, such as a `replicatedJob`.
        role: Option<String>,
    },
    /// A role is made when another one is ready or complete.
    Order {
        /// The role.
        role: String,
        /// The other one.
        after: String,
        /// Whether that is to be complete, and not only ready.
        is_complete: bool,
    },
    /// Jobs of the attempt before are in deletion, and the next ones are made at their end.
    Previous {
        /// How many.
        count: u32,
    },
    /// Pods have failed or succeeded, and nobody replaces them while their objects are there.
    NotReplaced {
        /// Their role.
        role: String,
    },
    /// Its deadline has passed, and its operator has not looked at it since.
    Overdue {
        /// Whether that looks only when something happens to it.
        is_idle: bool,
    },
    /// It has ended, and pods of it run on.
    LeftOver {
        /// How many.
        count: u32,
    },
    /// No pods are asked for.
    NoPods,
    /// The controller has not looked at it.
    FirstLook,
    /// Pods run.
    Pods {
        /// How many.
        count: u32,
        /// How many of them are ready.
        ready: u32,
    },
}

impl WaitFor {
    /// Returns a word for it, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Nobody => "ended",
            Self::Deletion { .. } => "deletion",
            Self::Manager { .. } => "managed-by",
            Self::Resume { .. } => "suspended",
            Self::LastCondition { .. } => "last-condition",
            Self::Stuck { .. } => "pod-stuck",
            Self::Kept { .. } => "pod-kept",
            Self::Silent => "node-silent",
            Self::Unschedulable { .. } => "unschedulable",
            Self::Gated { .. } => "scheduling-gated",
            Self::Image { .. } => "image-pull",
            Self::Container { .. } => "container",
            Self::CrashLoop { .. } => "crash-loop",
            Self::Backoff { .. } => "back-off",
            Self::Terminating { .. } => "terminating",
            Self::Starting => "starting",
            Self::Missing { .. } => "pods-missing",
            Self::Objects { .. } => "objects-missing",
            Self::Order { .. } => "order",
            Self::Previous { .. } => "previous-attempt",
            Self::NotReplaced { .. } => "pod-not-replaced",
            Self::Overdue { .. } => "deadline-passed",
            Self::LeftOver { .. } => "left-over",
            Self::NoPods => "no-pods",
            Self::FirstLook => "not-started",
            Self::Pods { .. } => "running",
        }
    }

    pub(super) fn alone(self, since: Option<Time>, until: Option<Time>) -> Wait {
        Wait { what: self, of: Vec::new(), pods: Vec::new(), nodes: Vec::new(), since, until }
    }
}

impl Wait {
    /// Returns its rank among others: blockers come first, and running pods last.
    pub(super) fn order(&self) -> u8 {
        match self.what {
            WaitFor::LeftOver { .. } => 4,
            WaitFor::Pods { .. } => 3,
            WaitFor::Starting => 2,
            WaitFor::Terminating { .. } => 1,
            _ => 0,
        }
    }
}
