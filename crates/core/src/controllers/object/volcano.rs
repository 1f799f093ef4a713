//! `status` of a Volcano Job and of its PodGroup.

use std::borrow::Cow;

use super::super::time::Time;
use super::ObjectEnd;

/// `status` of a Volcano Job, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolcanoStatus {
    /// `state.phase`.
    pub phase: JobPhase,
    /// `state.lastTransitionTime`: when anything in the status of a job that goes on changed, and when it ended.
    pub transition: Time,
    /// `minAvailable`.
    pub(crate) min_available: i64,
    /// `retryCount`.
    pub retry_count: u32,
    /// `version`: how often all pods were killed.
    pub version: u32,
    /// The pods.
    pub(crate) pods: PodCounts,
    /// `terminating`.
    pub(crate) terminating: u32,
    /// `taskStatusCount`: the pods of each task, in the order of the tasks.
    pub(crate) tasks: Vec<PodCounts>,
}

/// How many pods there are in each phase. Those in deletion are none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodCounts {
    /// `pending`.
    pub(crate) pending: u32,
    /// `running`.
    pub(crate) running: u32,
    /// `succeeded`.
    pub(crate) succeeded: u32,
    /// `failed`.
    pub(crate) failed: u32,
}

/// `status.state.phase` of a Volcano Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPhase {
    /// `Pending`.
    #[default]
    Pending,
    /// `Running`.
    Running,
    /// `Restarting`.
    Restarting,
    /// `Aborting`.
    Aborting,
    /// `Aborted`.
    Aborted,
    /// `Terminating`.
    Terminating,
    /// `Terminated`.
    Terminated,
    /// `Completing`.
    Completing,
    /// `Completed`.
    Completed,
    /// `Failed`.
    Failed,
}

impl VolcanoStatus {
    /// Returns how the job ended, if it did.
    pub(super) fn end(&self) -> Option<ObjectEnd> {
        let is_over = self.phase.is_finished() || self.phase == JobPhase::Aborted;
        is_over.then(|| ObjectEnd {
            is_success: self.phase == JobPhase::Completed,
            at: self.transition,
            reason: Cow::Borrowed(self.phase.name()),
        })
    }
}

impl JobPhase {
    /// Tells whether the job has ended; one that is aborted may be resumed.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Terminated)
    }

    /// Returns the phase as the API writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Restarting => "Restarting",
            Self::Aborting => "Aborting",
            Self::Aborted => "Aborted",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
            Self::Completing => "Completing",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
        }
    }
}

/// `status.phase` of a PodGroup; a new one has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGroupPhase {
    /// `Pending`: the scheduler has not taken it yet.
    Pending,
    /// `Inqueue`: its pods may be made.
    Inqueue,
    /// `Running`.
    Running,
    /// `Unknown`: some of its pods run, and the others cannot be scheduled.
    Unknown,
    /// `Completed`.
    Completed,
}

impl PodGroupPhase {
    /// Reads a value of the field.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Pending" => Some(Self::Pending),
            "Inqueue" => Some(Self::Inqueue),
            "Running" => Some(Self::Running),
            "Unknown" => Some(Self::Unknown),
            "Completed" => Some(Self::Completed),
            _ => None,
        }
    }
}
