//! `status` of a RayJob and of a RayCluster.

use std::borrow::Cow;

use super::super::dashboard::programs::ProgramState;
use super::super::live::fields::{number, owned, text, time};
use super::super::meta::Condition;
use super::super::time::Time;
use super::ObjectEnd;
use super::conditions::conditions_at;
use crate::text::value::Value;

/// `status` of a RayJob, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RayJobStatus {
    /// `jobDeploymentStatus`; nothing where it is empty.
    pub deployment: Option<DeploymentStatus>,
    /// When `jobDeploymentStatus` last changed.
    pub changed: Time,
    /// `jobStatus`: what the dashboard last said of the program; nothing where it is empty.
    pub program: Option<ProgramState>,
    /// `reason`.
    pub reason: Option<RayJobReason>,
    /// `message`.
    pub message: String,
    /// `failed`: attempts.
    pub failed: u32,
    /// `succeeded`: attempts.
    pub succeeded: u32,
    /// `rayClusterName`.
    pub cluster: String,
    /// `jobId`: the submission id.
    pub id: String,
    /// Whether `dashboardURL` is known.
    pub(crate) has_dashboard: bool,
    /// `startTime`, of this attempt.
    pub(crate) start: Option<Time>,
    /// `endTime`.
    pub(crate) end: Option<Time>,
    /// `rayJobInfo.endTime`.
    pub(crate) program_end: Option<Time>,
    /// `jobStatusCheckFailureStartTime`: since when the dashboard does not answer.
    pub(crate) silent_since: Option<Time>,
    /// `rayClusterStatus`.
    pub(crate) cluster_status: Option<Box<(RayClusterStatus, Vec<Condition>)>>,
    /// How many names of clusters were given: they are random, and numbered here.
    pub(crate) names: u32,
    /// How many submission ids were given.
    pub(crate) ids: u32,
}

/// `jobDeploymentStatus` of a RayJob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentStatus {
    /// `Initializing`.
    Initializing,
    /// `Waiting`: for a submission id (InteractiveMode).
    Waiting,
    /// `Running`.
    Running,
    /// `Suspending`.
    Suspending,
    /// `Suspended`.
    Suspended,
    /// `Retrying`.
    Retrying,
    /// `Complete`.
    Complete,
    /// `Failed`.
    Failed,
    /// `ValidationFailed`.
    ValidationFailed,
}

impl RayJobStatus {
    /// Reads `status` of a RayJob of a cluster, at a moment in milliseconds since 1970; nothing where a word of it is none
    /// that is known.
    pub(in super::super) fn from_live(status: &Value, now: i64) -> Option<Self> {
        let known = |key: &str| text(status, key);
        let deployment = match known("/jobDeploymentStatus") {
            Some(word) => Some(DeploymentStatus::parse(word)?),
            None => None,
        };
        let program = match known("/jobStatus") {
            Some(word) => Some(ProgramState::parse(word)?),
            None => None,
        };
        let cluster_status = status.get("rayClusterStatus").filter(|of| of.is_object());
        let seen = cluster_status.and_then(|of| {
            let conditions = conditions_at(of, "/conditions", Time::START, now);
            Some(Box::new((RayClusterStatus::from_live(of)?, conditions)))
        });
        let (cluster, id) = (owned(status, "/rayClusterName"), owned(status, "/jobId"));
        Some(Self {
            deployment,
            changed: Time::START,
            program,
            reason: known("/reason").and_then(RayJobReason::parse),
            message: owned(status, "/message").unwrap_or_default(),
            failed: number(status, "/failed").unwrap_or_default(),
            succeeded: number(status, "/succeeded").unwrap_or_default(),
            has_dashboard: known("/dashboardURL").is_some(),
            start: time(status, "/startTime", now),
            end: time(status, "/endTime", now),
            program_end: time(status, "/rayJobInfo/endTime", now),
            silent_since: time(status, "/jobStatusCheckFailureStartTime", now),
            cluster_status: seen.filter(|seen| **seen != Default::default()),
            // Those that it has are not made here.
            names: u32::from(cluster.is_some()),
            ids: u32::from(id.is_some()),
            cluster: cluster.unwrap_or_default(),
            id: id.unwrap_or_default(),
        })
    }

    /// Returns how the job ended, if it did. One whose program was stopped is complete, and did not do its work.
    pub(super) fn end(&self) -> Option<ObjectEnd> {
        let is_success = match self.deployment? {
            DeploymentStatus::Complete => self.program == Some(ProgramState::Succeeded),
            DeploymentStatus::Failed | DeploymentStatus::ValidationFailed => false,
            _ => return None,
        };
        let stopped = if is_success { "" } else { "STOPPED" };
        let reason = Cow::Borrowed(self.reason.map_or(stopped, RayJobReason::word));
        Some(ObjectEnd { is_success, at: self.changed, reason })
    }
}

impl DeploymentStatus {
    /// All of them.
    const ALL: [Self; 9] = [
        Self::Initializing,
        Self::Waiting,
        Self::Running,
        Self::Suspending,
        Self::Suspended,
        Self::Retrying,
        Self::Complete,
        Self::Failed,
        Self::ValidationFailed,
    ];

    /// Reads a word of the API.
    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Returns the word of the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Initializing => "Initializing",
            Self::Waiting => "Waiting",
            Self::Running => "Running",
            Self::Suspending => "Suspending",
            Self::Suspended => "Suspended",
            Self::Retrying => "Retrying",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::ValidationFailed => "ValidationFailed",
        }
    }
}

/// `reason` of a RayJob that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RayJobReason {
    /// `AppFailed`.
    AppFailed,
    /// `SubmissionFailed`.
    SubmissionFailed,
    /// `DeadlineExceeded`.
    DeadlineExceeded,
    /// `PreRunningDeadlineExceeded`.
    PreRunningDeadlineExceeded,
    /// `JobDeploymentStatusTransitionGracePeriodExceeded`.
    TransitionGracePeriodExceeded,
    /// `JobStatusCheckTimeoutExceeded`.
    StatusCheckTimeoutExceeded,
    /// `ValidationFailed`.
    ValidationFailed,
}

impl RayJobReason {
    /// All of them.
    const ALL: [Self; 7] = [
        Self::AppFailed,
        Self::SubmissionFailed,
        Self::DeadlineExceeded,
        Self::PreRunningDeadlineExceeded,
        Self::TransitionGracePeriodExceeded,
        Self::StatusCheckTimeoutExceeded,
        Self::ValidationFailed,
    ];

    /// Reads a word of the API.
    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }

    /// Returns the word of the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::AppFailed => "AppFailed",
            Self::SubmissionFailed => "SubmissionFailed",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::PreRunningDeadlineExceeded => "PreRunningDeadlineExceeded",
            Self::TransitionGracePeriodExceeded => "JobDeploymentStatusTransitionGracePeriodExceeded",
            Self::StatusCheckTimeoutExceeded => "JobStatusCheckTimeoutExceeded",
            Self::ValidationFailed => "ValidationFailed",
        }
    }
}

/// `status` of a RayCluster, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RayClusterStatus {
    /// `state`; nothing before it was ready.
    pub state: Option<ClusterState>,
    /// `readyWorkerReplicas`.
    pub ready: u32,
    /// `availableWorkerReplicas`: those that run.
    pub available: u32,
    /// `desiredWorkerReplicas`.
    pub desired: u32,
    /// `minWorkerReplicas`.
    pub(crate) least: u32,
    /// `maxWorkerReplicas`.
    pub(crate) most: u32,
    /// `head.podName`: the number of the head's pod.
    pub(crate) head: Option<u32>,
    /// Whether `head.podIP` is known: from when the head runs.
    pub(crate) has_address: bool,
}

impl RayClusterStatus {
    /// Reads `status` of a RayCluster of a cluster; nothing where its state is none that is known.
    pub(in super::super) fn from_live(status: &Value) -> Option<Self> {
        let state = match text(status, "/state") {
            None => None,
            Some("ready") => Some(ClusterState::Ready),
            Some("suspended") => Some(ClusterState::Suspended),
            Some(_) => return None,
        };
        let count = |key: &str| number(status, key).unwrap_or_default();
        Some(Self {
            state,
            ready: count("/readyWorkerReplicas"),
            available: count("/availableWorkerReplicas"),
            desired: count("/desiredWorkerReplicas"),
            least: count("/minWorkerReplicas"),
            most: count("/maxWorkerReplicas"),
            head: text(status, "/head/podName").map(|_| 0),
            has_address: text(status, "/head/podIP").is_some(),
        })
    }
}

/// `state` of a RayCluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// `ready`: all pods were ready at once. It stays, whatever becomes of them.
    Ready,
    /// `suspended`.
    Suspended,
}

impl ClusterState {
    /// Returns the word of the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Suspended => "suspended",
        }
    }
}
