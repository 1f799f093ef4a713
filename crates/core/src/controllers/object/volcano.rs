//! `status` of a Volcano Job and of its PodGroup.

use std::borrow::Cow;

use super::super::live::fields::{number, text, time};
use super::super::time::Time;
use super::ObjectEnd;
use crate::text::value::Value;

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
    /// Reads `status` of a Volcano Job of a cluster with these tasks, at a moment in milliseconds since 1970; nothing where
    /// its phase is none that is known. One without a phase was not looked at yet.
    pub(in super::super) fn from_live<'t>(
        status: &Value,
        tasks: impl Iterator<Item = &'t str>,
        now: i64,
    ) -> Option<Self> {
        let phase = text(status, "/state/phase").map_or(Some(JobPhase::Pending), JobPhase::parse)?;
        let of_task = |name: &str| {
            let phases = status.get("taskStatusCount").and_then(|all| all.get(name)?.get("phase"));
            let count = |phase: &str| phases.and_then(|phases| number(phases, phase)).unwrap_or_default();
            PodCounts {
                pending: count("/Pending"),
                running: count("/Running"),
                succeeded: count("/Succeeded"),
                failed: count("/Failed"),
            }
        };
        let count = |key: &str| number(status, key).unwrap_or_default();
        Some(Self {
            phase,
            transition: time(status, "/state/lastTransitionTime", now).unwrap_or_default(),
            min_available: i64::from(count("/minAvailable")),
            retry_count: count("/retryCount"),
            version: count("/version"),
            pods: PodCounts {
                pending: count("/pending"),
                running: count("/running"),
                succeeded: count("/succeeded"),
                failed: count("/failed"),
            },
            terminating: count("/terminating"),
            tasks: tasks.map(of_task).collect(),
        })
    }

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
    /// All of them.
    const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Restarting,
        Self::Aborting,
        Self::Aborted,
        Self::Terminating,
        Self::Terminated,
        Self::Completing,
        Self::Completed,
        Self::Failed,
    ];

    /// Reads a value of the field.
    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == text)
    }

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
