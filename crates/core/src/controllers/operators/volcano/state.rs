//! What an action does to a job in a phase, and how its status follows (`pkg/controllers/job/state`).

use super::super::super::object::{JobPhase, VolcanoStatus};
use super::policy::{JobAction, Level};
use super::spec::JobSpec;

/// What is done to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Missing pods are made, and those that are too many are deleted (`syncJob`).
    Sync(Update),
    /// All pods are killed (`killJob`); those that ended may stay.
    Kill { keeps_ended: bool, update: Update },
    /// Some pods are killed (`killTarget`).
    KillTarget(Update),
}

/// How the phase follows from the pods (`UpdateStatusFn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// It does not.
    Keep,
    /// It becomes another.
    Become(JobPhase),
    /// It becomes Restarting, which counts as a retry.
    Restart,
    /// Of a Pending job: Running once enough pods run or have ended.
    Pending,
    /// Of a Running job: its end, or Pending again.
    Running,
    /// Of a Restarting job: Failed after the last retry, or Pending once enough pods of before are gone.
    Restarting,
    /// It becomes another once no pod is alive.
    Settle(JobPhase),
}

impl Step {
    /// Returns what an action does in a phase (`Execute` of each state).
    pub(super) fn new(phase: JobPhase, action: JobAction) -> Self {
        let kill = |update| Self::Kill { keeps_ended: true, update };
        match phase {
            JobPhase::Pending | JobPhase::Running => match action {
                JobAction::RestartJob => Self::Kill { keeps_ended: false, update: Update::Restart },
                JobAction::AbortJob => kill(Update::Become(JobPhase::Aborting)),
                JobAction::TerminateJob => kill(Update::Become(JobPhase::Terminating)),
                JobAction::CompleteJob => kill(Update::Become(JobPhase::Completing)),
                _ if action.level() != Level::Job => Self::KillTarget(Update::Restart),
                _ if phase == JobPhase::Pending => Self::Sync(Update::Pending),
                _ => Self::Sync(Update::Running),
            },
            JobPhase::Restarting => match action {
                JobAction::SyncJob => Self::Sync(Update::Restarting),
                _ if action.level() != Level::Job => Self::KillTarget(Update::Restarting),
                _ => Self::Kill { keeps_ended: false, update: Update::Restarting },
            },
            JobPhase::Aborting | JobPhase::Aborted if action == JobAction::ResumeJob => kill(Update::Restart),
            JobPhase::Aborting => kill(Update::Settle(JobPhase::Aborted)),
            JobPhase::Terminating => kill(Update::Settle(JobPhase::Terminated)),
            JobPhase::Completing => kill(Update::Settle(JobPhase::Completed)),
            JobPhase::Aborted | JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated => {
                kill(Update::Keep)
            }
        }
    }
}

impl Update {
    /// Changes the phase as the counts of pods ask for. Returns whether it did.
    pub(super) fn apply(self, spec: &JobSpec, status: &mut VolcanoStatus) -> bool {
        let next = match self {
            Self::Keep => None,
            Self::Become(phase) => Some(phase),
            Self::Restart => {
                status.retry_count = status.retry_count.saturating_add(1);
                Some(JobPhase::Restarting)
            }
            Self::Pending => {
                let pods = status.pods;
                let begun = [pods.running, pods.succeeded, pods.failed].into_iter().map(i64::from).sum();
                (spec.min_available <= begun).then_some(JobPhase::Running)
            }
            Self::Running => running(spec, status),
            Self::Restarting if status.retry_count >= spec.max_retry => Some(JobPhase::Failed),
            Self::Restarting => {
                let left = spec.replicas().saturating_sub(i64::from(status.terminating));
                (left >= status.min_available).then_some(JobPhase::Pending)
            }
            Self::Settle(phase) => {
                let alive = [status.terminating, status.pods.pending, status.pods.running];
                (alive == [0; 3]).then_some(phase)
            }
        };
        if let Some(phase) = next {
            status.phase = phase;
        }
        next.is_some()
    }
}

/// Returns the next phase of a Running job (`runningState.Execute`, `pkg/controllers/job/state/running.go`).
fn running(spec: &JobSpec, status: &VolcanoStatus) -> Option<JobPhase> {
    let replicas = spec.replicas();
    let (succeeded, failed) = (i64::from(status.pods.succeeded), i64::from(status.pods.failed));
    if replicas == 0 {
        return None;
    }
    if spec.min_success.is_some_and(|least| succeeded >= least) {
        return Some(JobPhase::Completed);
    }
    if succeeded.saturating_add(failed) == replicas {
        // Each task has to do its part only where the job asks for the parts of all.
        if spec.min_available >= spec.tasks_min_available() {
            let mut tasks = spec.tasks.iter().zip(&status.tasks).filter(|(task, _)| task.replicas > 0);
            if tasks.any(|(task, pods)| i64::from(pods.succeeded) < task.min_available) {
                return Some(JobPhase::Failed);
            }
        }
        let is_enough = match spec.min_success {
            Some(_) => false,
            None => succeeded >= spec.min_available,
        };
        return Some(if is_enough { JobPhase::Completed } else { JobPhase::Failed });
    }
    (i64::from(status.pods.pending) > replicas.saturating_sub(spec.min_available))
        .then_some(JobPhase::Pending)
}
