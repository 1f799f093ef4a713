//! What a kubelet does with pods that are there already.

use super::super::pod::PodGroup;
use super::super::script::{Disruption, DisruptionCause, Plan, Restarts};
use super::super::time::Time;
use super::{END_LAG, PodProgram, PodStep};

/// How long a program that fails when it starts runs.
const CRASH: Time = Time::from_seconds(10);

/// What is to become of pods that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Course {
    /// Nothing: they have ended.
    Ended,
    /// They run on.
    Runs,
    /// They start soon.
    Starts,
    /// They wait for a node, or for what their containers need, without end.
    Waits {
        /// Whether they have a node.
        is_bound: bool,
    },
    /// Their container fails whenever it starts.
    Crashes {
        /// When it last did.
        last: Time,
        /// How often it did.
        restarts: u32,
    },
    /// They run on a node that does not answer, and are deleted at a time; nothing if they are not.
    Silent(Option<Time>),
    /// They are in deletion, and end.
    Ends(Time),
    /// They are in deletion and never had a node.
    IsCollected(Time),
    /// They are in deletion, and do not end.
    NeverEnds,
}

impl PodProgram {
    /// Makes that of pods that are gone.
    pub(in super::super) fn ended() -> Self {
        Self { plan: Plan::default(), steps: Vec::new(), crashes: 0, is_silent: false, is_stale: false }
    }

    /// Makes that of pods that are there at the start of a world; `plan` is what a story does to them. `run` is how long
    /// their program runs from when they started, where it says that itself.
    pub(in super::super) fn from_live(
        pods: &PodGroup,
        course: Course,
        plan: Plan,
        run: Option<Time>,
    ) -> Self {
        let now = Time::START;
        let is_working = plan.follows_program && !plan.fails_by_itself;
        let plan = Plan { run: if is_working { run } else { plan.run }, ..plan };
        if course == Course::Starts {
            return Self::new(plan, now);
        }
        let mut program = Self { plan, ..Self::ended() };
        match course {
            Course::Runs => program.run_on(pods, is_working, now),
            Course::Crashes { last, restarts } => {
                program.plan.follows_program = false;
                program.plan.restarts = Some(Restarts { count: None, every: CRASH, is_backed_off: true });
                program.crashes = restarts.saturating_sub(1).min(16);
                let wait = program.crash_wait();
                program.push((last + wait).max(now), PodStep::Restart(None));
                program.disrupt_from(now);
            }
            Course::Silent(deleted) => {
                program.is_silent = true;
                program.plan.disruption = None;
                if let Some(at) = deleted {
                    program.lose(at.max(now));
                }
            }
            Course::Waits { is_bound } => {
                program.plan.start = None;
                program.plan.is_unscheduled = !is_bound;
                program.disrupt_from(now);
            }
            Course::Ends(at) => program.push(at.max(now), PodStep::Terminated(137)),
            Course::IsCollected(at) => {
                program.plan.is_unscheduled = true;
                program.push(at.max(now), PodStep::Collect);
            }
            Course::NeverEnds => program.is_silent = true,
            Course::Ended | Course::Starts => {}
        }
        program
    }

    /// Lets the taint manager delete pods of a node that does not answer.
    fn lose(&mut self, at: Time) {
        self.plan.disruption =
            Some(Disruption { after: at, cause: DisruptionCause::LostNode, collected: None });
        self.push(at, PodStep::Disrupt);
    }

    /// Lets pods run on: times of a story count from now, those of the program from when they started.
    fn run_on(&mut self, pods: &PodGroup, is_working: bool, now: Time) {
        self.disrupt_from(now);
        if let Some(after) = self.plan.silent {
            self.push(now + after, PodStep::Silence);
        }
        if self.plan.restarts.is_some() {
            self.restart(self.plan.restarts.and_then(|restarts| restarts.count), now);
            return;
        }
        let from = if is_working { pods.started.unwrap_or(now) } else { now };
        if let Some(run) = self.plan.run {
            self.push((from + run + END_LAG).max(now), PodStep::End);
        }
    }
}
