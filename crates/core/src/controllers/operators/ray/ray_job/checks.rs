//! What a RayJob is checked for at each look: suspension, its deadlines, and what submits the program
//! (`rayjob_controller.go`).

use super::super::super::super::dashboard::programs::{ProgramState, SUBMITTER};
use super::super::super::super::object::{DeploymentStatus, RayJobReason};
use super::super::super::super::pod::PodGroup;
use super::super::super::super::time::Time;
use super::super::job_spec::SubmissionMode;
use super::super::workers::ClusterPods;
use super::Reconcile;

/// How long the submitter may be finished before the program is (`DefaultSubmitterFinishedTimeout`).
pub(super) const SUBMITTER_TIMEOUT: Time = Time::from_seconds(30);
/// How long the program may be finished before the submitter is
/// (`DEFAULT_RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS`).
pub(super) const GRACE_PERIOD: Time = Time::from_seconds(300);
/// How long a dashboard may be silent (`DEFAULT_RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS`).
pub(super) const STATUS_TIMEOUT: Time = Time::from_seconds(300);

/// What is seen of what submits the program: whether it failed, and when it finished.
type SeenSubmitter = (bool, Option<Time>);

impl Reconcile<'_> {
    /// `updateStatusToSuspendingIfNeeded`.
    pub(super) fn suspend(&mut self) -> bool {
        if self.spec.suspend {
            self.status.deployment = Some(DeploymentStatus::Suspending);
        }
        self.spec.suspend
    }

    fn has_passed(&self, deadline: Option<i64>) -> bool {
        let start = self.status.start.unwrap_or_default();
        deadline.is_some_and(|seconds| start + Time::from_seconds(seconds) <= self.at)
    }

    /// `checkActiveDeadlineAndUpdateStatusIfNeeded`: of each attempt.
    pub(super) fn check_active_deadline(&mut self) -> bool {
        let is_over = self.has_passed(self.spec.active_deadline);
        if is_over {
            let message = "The RayJob has passed the activeDeadlineSeconds.";
            self.fail(RayJobReason::DeadlineExceeded, message.to_owned());
        }
        is_over
    }

    /// `checkPreRunningDeadlineAndUpdateStatusIfNeeded`.
    pub(super) fn check_pre_running_deadline(&mut self) -> bool {
        let is_over = self.has_passed(self.spec.pre_running_deadline);
        if is_over {
            let message = "The RayJob has passed the preRunningDeadlineSeconds.";
            self.fail(RayJobReason::PreRunningDeadlineExceeded, message.to_owned());
        }
        is_over
    }

    /// `checkTransitionGracePeriodAndUpdateStatusIfNeeded`: the program has ended long ago, and the submitter has not.
    pub(super) fn check_transition_grace_period(&mut self) -> bool {
        let is_over = self.status.program.is_some_and(ProgramState::is_terminal)
            && self.status.program_end.is_some_and(|end| end + GRACE_PERIOD <= self.at);
        if is_over {
            let message = "JobDeploymentStatus does not transition to Complete or Failed within the grace period after \
                           JobStatus reaches a terminal state.";
            self.fail(RayJobReason::TransitionGracePeriodExceeded, message.to_owned());
            if self.status.program != Some(ProgramState::Failed) {
                self.status.deployment = Some(DeploymentStatus::Complete);
            }
        }
        is_over
    }

    /// `checkJobStatusCheckTimeoutAndUpdateStatusIfNeeded`: since 1.7.
    pub(super) fn check_status_timeout(&mut self) -> bool {
        let is_over = self.status.silent_since.is_some_and(|since| since + STATUS_TIMEOUT <= self.at);
        if is_over {
            let message = "Job status checks have been failing; exceeded timeout of 300s";
            self.fail(RayJobReason::StatusCheckTimeoutExceeded, message.to_owned());
        }
        is_over
    }

    /// `checkSubmitterFinishedTimeoutAndUpdateStatusIfNeeded`: the submitter has finished, and the program has not, as far
    /// as is known. The dashboard is not asked.
    pub(super) fn check_submitter_timeout(&mut self, finished: Option<Time>) -> bool {
        let is_over = finished.is_some_and(|finished| finished + SUBMITTER_TIMEOUT <= self.at);
        if is_over {
            let message =
                "The RayJob submitter finished but the ray job did not reach terminal state within 30s";
            self.fail(RayJobReason::TransitionGracePeriodExceeded, message.to_owned());
            self.status.program = Some(ProgramState::Failed);
        }
        is_over
    }

    /// `checkSubmitterAndUpdateStatusIfNeeded`; an error where the submitter Job is gone, or there are several heads.
    pub(super) fn check_submitter(&mut self) -> Result<SeenSubmitter, ()> {
        if self.spec.mode == SubmissionMode::Sidecar { self.check_sidecar() } else { self.check_job() }
    }

    fn check_job(&mut self) -> Result<SeenSubmitter, ()> {
        let (_, job) = self.submitter_job().ok_or(())?;
        let finished = job.status.finished().map(|condition| self.cluster.clock.stored(condition.at));
        let Some(failed) = job.status.condition("Failed") else { return Ok((false, finished)) };
        let message =
            format!("Job submission has failed. Reason: {}. Message: {}", failed.reason, failed.message);
        self.fail_submission(message);
        Ok((true, finished))
    }

    fn check_sidecar(&mut self) -> Result<SeenSubmitter, ()> {
        let pods = ClusterPods::find(self.cluster, &self.status.cluster);
        let head = match pods.heads.as_slice() {
            [] => {
                self.fail(RayJobReason::AppFailed, "Ray head pod not found.".to_owned());
                return Ok((true, None));
            }
            [(_, head)] => *head,
            _ => return Err(()),
        };
        let Some((code, at)) = self.sidecar_end(head) else { return Ok((false, None)) };
        if code != 0 {
            let message =
                format!("Ray head pod container {SUBMITTER} terminated with exit code {code}: Error");
            self.fail_submission(message);
        }
        Ok((code != 0, Some(self.cluster.clock.stored(at))))
    }

    /// Returns the exit code of the container beside a head, and when it ended.
    fn sidecar_end(&self, head: &PodGroup) -> Option<(i64, Time)> {
        let containers = &self.cluster.set_of(head)?.template.containers;
        let is_it = |nth: usize| containers.get(nth).is_some_and(|container| container.name() == SUBMITTER);
        head.containers.iter().find(|status| is_it(status.nth))?.terminated
    }

    /// The submitter failed: because of the program, if that was seen to fail.
    fn fail_submission(&mut self, message: String) {
        self.status.deployment = Some(DeploymentStatus::Failed);
        if self.status.program == Some(ProgramState::Failed) {
            self.status.reason = Some(RayJobReason::AppFailed);
        } else {
            self.fail(RayJobReason::SubmissionFailed, message);
        }
    }
}
