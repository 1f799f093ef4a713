//! The programs that the dashboards of Ray clusters know.

use super::super::time::Time;

/// The container that submits a program: of the submitter Job, or beside the head.
pub(crate) const SUBMITTER: &str = "ray-job-submitter";
/// Its variables: the submission id, and where the dashboard is.
pub(crate) const SUBMISSION_ID: &str = "RAY_JOB_SUBMISSION_ID";
pub(crate) const DASHBOARD_ADDRESS: &str = "RAY_DASHBOARD_ADDRESS";
/// What follows the name of a cluster in the address of its dashboard.
pub(crate) const HEAD_SERVICE: &str = "-head-svc";

/// The dashboards of a world.
#[derive(Clone, Debug, Default)]
pub struct Dashboards {
    /// Whether none of them answers.
    pub(crate) is_down: bool,
    /// The pods of heads there were, by the numbers of their groups, each with whether its node still answers.
    pub(crate) heads: Vec<(usize, bool)>,
    /// Every program that was submitted, in order.
    pub programs: Vec<RayProgram>,
}

/// A program that was submitted to a Ray cluster.
#[derive(Clone, Debug)]
pub struct RayProgram {
    /// The name of the cluster.
    pub cluster: String,
    /// The submission id.
    pub id: String,
    /// Who submitted it.
    pub by: SubmittedBy,
    /// When.
    pub submitted: Time,
    /// What it does.
    pub(crate) plan: RayProgramPlan,
    /// When somebody stopped it.
    pub stopped: Option<Time>,
    /// Whether the operator asked for that.
    pub stopped_by_operator: bool,
    /// The pods of the head, by the number of their group, and how often its container had started again.
    pub(super) head: (usize, u32),
    /// Whether the dashboard no longer knows it.
    pub(super) is_forgotten: bool,
}

/// Who submits a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmittedBy {
    /// The operator (HTTPMode).
    Operator,
    /// The pod of the submitter Job (K8sJobMode).
    Submitter,
    /// The container beside the head (SidecarMode).
    Sidecar,
}

impl SubmittedBy {
    /// Returns the word of the recordings.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Submitter => "submitter",
            Self::Sidecar => "sidecar",
        }
    }
}

/// What a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RayProgramPlan {
    /// How long it is pending.
    pub(crate) pending: Time,
    /// How long it runs; nothing if it never ends.
    pub(crate) run: Option<Time>,
    /// How it ends.
    pub(crate) end: ProgramState,
    /// What the dashboard says of it.
    pub(crate) message: Option<String>,
}

impl Default for RayProgramPlan {
    fn default() -> Self {
        let run = Some(Time::from_seconds(8));
        Self { pending: Time::START, run, end: ProgramState::Succeeded, message: None }
    }
}

/// The state of a program (`jobStatus` of a RayJob).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramState {
    /// `PENDING`.
    Pending,
    /// `RUNNING`.
    Running,
    /// `SUCCEEDED`.
    Succeeded,
    /// `FAILED`.
    Failed,
    /// `STOPPED`.
    Stopped,
}

impl ProgramState {
    /// Returns the word of the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Stopped => "STOPPED",
        }
    }

    /// Reads a word of the API.
    #[must_use]
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Stopped];
        all.into_iter().find(|state| state.word() == word)
    }

    /// Tells whether it is an end.
    #[must_use]
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Stopped)
    }
}

impl RayProgram {
    /// Returns when it ends, if nobody stops it first.
    #[must_use]
    pub(crate) fn end(&self) -> Option<Time> {
        let end = self.plan.run.map(|run| self.submitted + self.plan.pending + run);
        end.into_iter().chain(self.stopped).min()
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self, at: Time) -> ProgramState {
        match self.end() {
            Some(end) if end <= at && self.stopped == Some(end) => ProgramState::Stopped,
            Some(end) if end <= at => self.plan.end,
            _ if at < self.submitted + self.plan.pending => ProgramState::Pending,
            _ => ProgramState::Running,
        }
    }

    /// Returns when it gets into another state by itself; nothing if it never does.
    #[must_use]
    pub(crate) fn next_change(&self, at: Time) -> Option<Time> {
        let begin = self.submitted + self.plan.pending;
        Some(begin).into_iter().chain(self.end()).filter(|next| *next > at).min()
    }

    /// Returns what the dashboard says of it.
    #[must_use]
    pub(crate) fn message(&self, at: Time) -> String {
        match &self.plan.message {
            Some(message) => message.clone(),
            None => format!("program {}", self.state(at).word().to_lowercase()),
        }
    }
}

impl RayProgram {
    pub(super) fn stop(&mut self, at: Time) {
        if !self.state(at).is_terminal() {
            self.stopped = Some(at);
        }
    }
}

impl Dashboards {
    /// Somebody stops every program.
    pub(crate) fn stop_all(&mut self, at: Time) {
        for program in &mut self.programs {
            program.stop(at);
        }
    }

    /// The dashboards forget every program.
    pub(crate) fn forget_all(&mut self) {
        for program in &mut self.programs {
            program.is_forgotten = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(run: Option<i64>) -> RayProgram {
        RayProgram {
            cluster: "c".to_owned(),
            id: "x".to_owned(),
            by: SubmittedBy::Operator,
            submitted: Time::from_seconds(10),
            plan: RayProgramPlan {
                pending: Time::from_seconds(2),
                run: run.map(Time::from_seconds),
                end: ProgramState::Failed,
                message: None,
            },
            stopped: None,
            stopped_by_operator: false,
            head: (0, 0),
            is_forgotten: false,
        }
    }

    #[test]
    fn a_program_is_pending_runs_and_ends() {
        let program = program(Some(5));
        let states = [11, 12, 16, 17].map(|at| program.state(Time::from_seconds(at)));
        let (running, failed) = (ProgramState::Running, ProgramState::Failed);
        assert_eq!(states, [ProgramState::Pending, running, running, failed]);
    }

    #[test]
    fn what_has_ended_is_not_stopped() {
        let (mut endless, mut short) = (program(None), program(Some(5)));
        for program in [&mut endless, &mut short] {
            program.stop(Time::from_seconds(30));
        }
        assert_eq!(endless.state(Time::from_seconds(31)), ProgramState::Stopped);
        assert_eq!((short.state(Time::from_seconds(31)), short.stopped), (ProgramState::Failed, None));
    }
}
