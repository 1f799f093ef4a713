//! Requests, and which action is taken on them: `applyPolicies` (`pkg/controllers/job/job_controller_util.go`).

use std::sync::Arc;

use super::super::super::indexes::Indexes;
use super::super::super::time::Time;
use super::pods::PodId;
use super::spec::{JobSpec, list};
use crate::k8s::cron::duration_nanoseconds;
use crate::text::value::Value;

/// Something that a job has to be looked at for (`pkg/controllers/apis/request.go`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The job.
    pub(super) job: usize,
    /// The pods that it is about, all of which it is true of.
    pub(super) pods: Option<RequestPods>,
    /// `Event`.
    pub(super) event: RequestEvent,
    /// `ExitCode`.
    pub(super) exit_code: i64,
    /// `Action`: of a Command.
    pub(super) action: Option<JobAction>,
    /// `JobVersion`: that of the pods.
    pub(super) version: u32,
}

/// Returns a request about a job, and no pod of it.
pub(super) fn request_of(job: usize, event: RequestEvent) -> Request {
    Request { job, pods: None, event, exit_code: 0, action: None, version: 0 }
}

/// Pods of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestPods {
    /// The name of their task.
    pub(super) task: Arc<str>,
    /// What else makes them those pods, and not others of these names.
    pub(super) id: PodId,
    /// Their indexes.
    pub(super) members: Indexes,
}

/// What happened (`Event`, `volcano.sh/apis/pkg/apis/bus/v1alpha1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestEvent {
    /// None: the PodGroup has another phase.
    None,
    /// `OutOfSync`: something changed that no policy is about.
    OutOfSync,
    /// `CommandIssued`.
    CommandIssued,
    /// `PodPending`.
    PodPending,
    /// `PodRunning`.
    PodRunning,
    /// `PodFailed`.
    PodFailed,
    /// `PodEvicted`: the object is gone.
    PodEvicted,
    /// `TaskCompleted`: as many pods of the task have succeeded as it has replicas.
    TaskCompleted,
    /// `TaskFailed`: the pods of the task restarted as often as its `maxRetry`.
    TaskFailed,
    /// `Unknown`: the PodGroup is.
    Unknown,
}

/// An action (`Action`, `volcano.sh/apis/pkg/apis/bus/v1alpha1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobAction {
    /// `SyncJob`, and what the job controller knows nothing of.
    SyncJob,
    /// `AbortJob`.
    AbortJob,
    /// `RestartJob`.
    RestartJob,
    /// `RestartTask`.
    RestartTask,
    /// `RestartPod`.
    RestartPod,
    /// `RestartPartition`.
    RestartPartition,
    /// `TerminateJob`.
    TerminateJob,
    /// `CompleteJob`.
    CompleteJob,
    /// `ResumeJob`.
    ResumeJob,
}

/// What an action is about (`ActionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The job.
    Job,
    /// The task.
    Task,
    /// The pod.
    Pod,
    /// The partition of a task.
    Partition,
}

impl JobAction {
    /// Reads the name of an action.
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "AbortJob" => Self::AbortJob,
            "RestartJob" => Self::RestartJob,
            "RestartTask" => Self::RestartTask,
            "RestartPod" => Self::RestartPod,
            "RestartPartition" => Self::RestartPartition,
            "TerminateJob" => Self::TerminateJob,
            "CompleteJob" => Self::CompleteJob,
            "ResumeJob" => Self::ResumeJob,
            _ => Self::SyncJob,
        }
    }

    /// Returns the name of the action.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SyncJob => "SyncJob",
            Self::AbortJob => "AbortJob",
            Self::RestartJob => "RestartJob",
            Self::RestartTask => "RestartTask",
            Self::RestartPod => "RestartPod",
            Self::RestartPartition => "RestartPartition",
            Self::TerminateJob => "TerminateJob",
            Self::CompleteJob => "CompleteJob",
            Self::ResumeJob => "ResumeJob",
        }
    }

    /// Returns what it is about (`GetActionType`).
    pub(super) fn level(self) -> Level {
        match self {
            Self::RestartTask => Level::Task,
            Self::RestartPod => Level::Pod,
            Self::RestartPartition => Level::Partition,
            _ => Level::Job,
        }
    }
}

/// One of `policies` (`LifecyclePolicy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// `event` and `events`.
    events: Vec<PolicyEvent>,
    /// `exitCode`.
    exit_code: Option<i64>,
    /// `action`.
    action: JobAction,
    /// `timeout`.
    timeout: Option<Time>,
}

/// An event that a policy is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyEvent {
    /// `*`.
    Any,
    /// One.
    One(RequestEvent),
}

impl Policy {
    /// Reads a policy; nothing where it has no action.
    pub(super) fn from_policy(policy: &Value) -> Option<Self> {
        let text = |key: &str| policy.get(key).and_then(Value::as_str);
        let events = list(policy, "events").filter_map(Value::as_str).chain(text("event"));
        let timeout = text("timeout").and_then(|text| duration_nanoseconds(text).ok());
        Some(Self {
            events: events.filter_map(PolicyEvent::parse).collect(),
            // The webhook refuses 0: it is what an event without an exit code has.
            exit_code: policy.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0),
            action: JobAction::parse(text("action")?),
            timeout: timeout.map(|nanoseconds| Time::from_millis(nanoseconds / 1_000_000)),
        })
    }

    /// Tells whether it is about a request. `PodPending` counts only where there is a timeout (`shouldConfigureTimeout`).
    fn matches(&self, request: &Request) -> bool {
        let is_event = request.event != RequestEvent::None
            && self.events.iter().any(|event| match event {
                PolicyEvent::Any => true,
                PolicyEvent::One(event) => *event == request.event,
            });
        is_event && (request.event != RequestEvent::PodPending || self.timeout.is_some())
            || self.exit_code == Some(request.exit_code)
    }
}

impl PolicyEvent {
    fn parse(text: &str) -> Option<Self> {
        let event = match text {
            "*" => return Some(Self::Any),
            "PodPending" => RequestEvent::PodPending,
            "PodFailed" => RequestEvent::PodFailed,
            "PodEvicted" => RequestEvent::PodEvicted,
            "TaskCompleted" => RequestEvent::TaskCompleted,
            "TaskFailed" => RequestEvent::TaskFailed,
            "Unknown" => RequestEvent::Unknown,
            _ => return None,
        };
        Some(Self::One(event))
    }
}

/// Returns the action on a request, and how long it waits: that of the first policy of its task that is about it, else of
/// the first of the job, else `SyncJob`. A request of pods that were made before all were killed the last time counts for
/// nothing else.
pub(super) fn apply_policies(spec: &JobSpec, version: u32, request: &Request) -> (JobAction, Time) {
    if let Some(action) = request.action {
        return (action, Time::START);
    }
    let is_internal = matches!(
        request.event,
        RequestEvent::OutOfSync | RequestEvent::CommandIssued | RequestEvent::PodRunning
    );
    if is_internal || request.version < version {
        return (JobAction::SyncJob, Time::START);
    }
    let task = request.pods.as_ref().and_then(|pods| spec.task(&pods.task));
    let mut policies = task.into_iter().flat_map(|task| &task.policies).chain(&spec.policies);
    match policies.find(|policy| policy.matches(request)) {
        Some(policy) => (policy.action, policy.timeout.unwrap_or_default()),
        None => (JobAction::SyncJob, Time::START),
    }
}
