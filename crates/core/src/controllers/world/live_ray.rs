//! Ray clusters that are there already: their programs, and what submits them.

use super::super::dashboard::programs::{ProgramState, RayProgramPlan, SubmittedBy};
use super::super::script::running_plan;
use super::super::time::Time;
use super::World;

/// A program that a Ray cluster runs, or ran.
#[derive(Clone, Debug)]
pub(in super::super) struct GivenProgram {
    /// The name of the cluster.
    pub(in super::super) cluster: String,
    /// The submission id.
    pub(in super::super) id: String,
    /// Who submitted it.
    pub(in super::super) by: SubmittedBy,
    /// When.
    pub(in super::super) submitted: Time,
    /// When it ended, how, and what the dashboard says of it.
    pub(in super::super) ended: Option<(Time, ProgramState, String)>,
    /// When its head was lost, and with it all that is known of the program.
    pub(in super::super) lost: Option<Time>,
}

impl World {
    /// Takes over programs, and the containers that have submitted one, or are to.
    pub(super) fn resume_programs(&mut self, programs: &[GivenProgram]) {
        for program in programs.iter().filter(|program| program.lost.is_none()) {
            let plan = self.plan_of(program);
            let GivenProgram { cluster, id, by, submitted, .. } = program;
            self.cluster.resume_program(cluster, id, (*by, *submitted), plan);
        }
        // A container that ran when the head was lost has followed the program.
        let has_followed = |cluster: &str, id: &str, started: Time| {
            let mut lost = programs.iter().filter(|program| program.cluster == cluster && program.id == id);
            lost.any(|program| program.lost.is_some_and(|lost| started < lost))
        };
        for nth in 0..self.cluster.pods.len() {
            self.resume_submission(nth, has_followed);
        }
        self.observe_submitters();
    }

    fn plan_of(&self, program: &GivenProgram) -> RayProgramPlan {
        let plan = self.unplanned_program();
        match &program.ended {
            Some((ended, end, message)) => RayProgramPlan {
                run: Some((*ended - program.submitted).max(Time::START)),
                end: *end,
                message: Some(message.clone()).filter(|message| !message.is_empty()),
                ..plan
            },
            None => running_plan(&self.script.programs, self.now - program.submitted).unwrap_or(plan),
        }
    }
}
