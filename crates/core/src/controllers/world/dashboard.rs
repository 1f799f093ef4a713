//! Programs are submitted to Ray clusters: by the operator, or by a container that submits one and follows it to its end.

use super::super::cluster::Event;
use super::super::dashboard::programs::{
    DASHBOARD_ADDRESS, HEAD_SERVICE, RayProgramPlan, SUBMISSION_ID, SUBMITTER, SubmittedBy,
};
use super::super::dashboard::{Answer, HEAD};
use super::super::kubelet::PodProgram;
use super::super::pod::{Phase, PodGroup};
use super::super::pod_set::{Owner, PodSet};
use super::super::script::{DashboardEvent, Plan, Submission, program_plan};
use super::super::time::Time;
use super::World;
use crate::text::value::Value;

/// How long a container takes to notice something: it looks each 0.2 s.
const LOOK: Time = Time::from_millis(100);
/// How long it takes to end when it noticed that the program has ended.
const FOLLOWED: Time = Time::from_millis(500);
/// How long it takes to end when the dashboard has gone.
const LOST: Time = Time::from_millis(1_100);

/// A container that submits a program.
#[derive(Clone, Debug)]
pub(super) struct Submitter {
    /// Its pods, by the number of their group.
    pods: usize,
    by: SubmittedBy,
    cluster: String,
    id: String,
    plan: Submission,
    /// From when it submits, until it begins to; nothing if it never does.
    submits: Option<Time>,
    /// Whether it looks for the dashboard.
    is_looking: bool,
    /// Whether the dashboard has known the program since.
    has_seen: bool,
    /// When it ends, and its exit code.
    end: Option<(Time, i64)>,
}

impl World {
    /// Does what a script says of the dashboards.
    pub(super) fn change_dashboards(&mut self, event: DashboardEvent) {
        let (at, dashboards) = (self.now, &mut self.cluster.dashboards);
        match event {
            DashboardEvent::Down => dashboards.is_down = true,
            DashboardEvent::Up => dashboards.is_down = false,
            DashboardEvent::Forget => dashboards.forget_all(),
            DashboardEvent::Stop => dashboards.stop_all(at),
        }
        self.observe_submitters();
        self.tell(Event::Dashboards);
    }

    /// Takes notice of new pods: of a head, with a dashboard in it.
    pub(super) fn observe_head(&mut self, nth: usize) {
        let set = self.cluster.pods.get(nth).and_then(|pods| self.cluster.set_of(pods));
        if set.is_some_and(|set| *set.role == *HEAD) {
            self.cluster.dashboards.heads.push((nth, true));
        }
    }

    /// Takes notice that the node of pods no longer answers: neither does a dashboard in them.
    pub(super) fn observe_silence(&mut self, nth: usize) {
        if self.programs.get(nth).is_some_and(PodProgram::fell_silent) {
            for head in self.cluster.dashboards.heads.iter_mut().filter(|(head, _)| *head == nth) {
                head.1 = false;
            }
        }
    }

    /// Returns what a program does of which nothing is said: it is the program of the simulation.
    pub(super) fn unplanned_program(&self) -> RayProgramPlan {
        let default = RayProgramPlan::default();
        let whole = self.script.program.map(|program| program.startup + program.runtime);
        RayProgramPlan { run: whole.or(default.run), ..default }
    }

    /// Submits a program.
    pub(super) fn submit(&mut self, cluster: &str, id: &str, by: SubmittedBy) -> bool {
        let number = self.cluster.dashboards.programs.len();
        let plan = program_plan(&self.script.programs, number).unwrap_or_else(|| self.unplanned_program());
        let is_taken = self.cluster.submit_program(cluster, id, by, plan, self.now);
        if is_taken {
            self.tell(Event::Dashboards);
        }
        is_taken
    }

    /// Returns what pods do of which a script says nothing: those of Ray run without end, a submitter follows its program.
    pub(super) fn unplanned(&self, set: &PodSet) -> Plan {
        let plan = Plan::default();
        match set.owner {
            Owner::Object(object) => match self.cluster.objects.get(object) {
                Some(object) if object.kind == "RayCluster" => {
                    Plan { run: None, follows_program: false, ..plan }
                }
                _ => plan,
            },
            Owner::Job(_) if self.submission_of(set).is_some() => {
                let submission = Submission::following();
                Plan { run: None, follows_program: false, submission, ..plan }
            }
            Owner::Job(_) => plan,
        }
    }

    /// Returns the plan of pods that would run the program of a simulation: those of Ray do not, their cluster does.
    pub(super) fn beside_program(&self, set: &PodSet, plan: &Plan) -> Plan {
        let runs_it = self.script.program.is_some() && plan.follows_program && !plan.fails_by_itself;
        match runs_it.then(|| self.unplanned(set)) {
            Some(Plan { follows_program: false, submission, .. }) => {
                Plan { run: None, follows_program: false, submission, ..plan.clone() }
            }
            _ => plan.clone(),
        }
    }

    /// Returns the cluster and the id of the program that a container in pods submits.
    fn submission_of(&self, set: &PodSet) -> Option<(String, String)> {
        match set.owner {
            Owner::Job(job) => {
                let containers = self
                    .cluster
                    .jobs
                    .get(job)?
                    .manifest
                    .pointer("/spec/template/spec/containers")?
                    .as_array()?;
                let container = containers.first()?;
                let address = variable(container, DASHBOARD_ADDRESS)?;
                let cluster = address.split_once(HEAD_SERVICE).map_or(address, |(cluster, _)| cluster);
                Some((cluster.to_owned(), variable(container, SUBMISSION_ID)?.to_owned()))
            }
            Owner::Object(object) if *set.role == *HEAD => {
                let object = self.cluster.objects.get(object).filter(|object| object.kind == "RayCluster")?;
                let containers = object.spec().pointer("/headGroupSpec/template/spec/containers")?;
                let is_it =
                    |container: &&Value| container.get("name").and_then(Value::as_str) == Some(SUBMITTER);
                let container = containers.as_array()?.iter().find(is_it)?;
                Some((object.name.clone(), variable(container, SUBMISSION_ID)?.to_owned()))
            }
            Owner::Object(_) => None,
        }
    }

    /// Takes notice that pods of a group began to run.
    pub(super) fn begin_submission(&mut self, nth: usize) {
        let Some(set) = self.cluster.pods.get(nth).and_then(|pods| self.cluster.set_of(pods)) else { return };
        let (Some((cluster, id)), Some(program)) = (self.submission_of(set), self.programs.get(nth)) else {
            return;
        };
        let (by, plan) = match set.owner {
            Owner::Job(_) => (SubmittedBy::Submitter, program.submission()),
            Owner::Object(_) => (SubmittedBy::Sidecar, program.sidecar_submission()),
        };
        let at = self.now;
        let submits = plan.after.map(|after| at + after);
        // A pod of a Job ends as its own plan says.
        let run = plan.run.filter(|_| by == SubmittedBy::Sidecar && !plan.follows);
        let end = run.map(|run| (at + run + LOOK, plan.exit));
        self.submitters.push(Submitter {
            pods: nth,
            by,
            cluster,
            id,
            plan,
            submits,
            is_looking: false,
            has_seen: false,
            end,
        });
    }

    /// Takes over a container of pods that run since a time. It has followed a program, or looks for the dashboard from now on.
    pub(super) fn resume_submission(&mut self, nth: usize, has_followed: impl Fn(&str, &str, Time) -> bool) {
        let Some(pods) = self.cluster.pods.get(nth) else { return };
        let is_up = pods.phase == Phase::Running && pods.deletion.is_none();
        let Some(started) = pods.started.filter(|_| is_up) else { return };
        self.begin_submission(nth);
        let at = self.now;
        if let Some(submitter) = self.submitters.last_mut().filter(|submitter| submitter.pods == nth) {
            submitter.has_seen = has_followed(&submitter.cluster, &submitter.id, started);
            submitter.submits = submitter.plan.after.map(|after| (started + after).max(at));
        }
    }

    /// Returns when a container that submits does something next.
    pub(super) fn submitters_due(&self) -> Option<Time> {
        let next = |submitter: &Submitter| {
            let end = submitter.end.map(|(at, _)| at);
            if submitter.has_seen {
                let program = match self.cluster.ask_dashboard(&submitter.cluster, &submitter.id) {
                    Answer::Known(program) if submitter.plan.follows && end.is_none() => {
                        program.end().map(|end| end + LOOK)
                    }
                    _ => None,
                };
                return end.into_iter().chain(program).min();
            }
            end.into_iter().chain(submitter.submits.filter(|_| !submitter.is_looking)).min()
        };
        self.submitters.iter().filter_map(next).min()
    }

    /// Lets the containers that submit look at their dashboards.
    pub(super) fn observe_submitters(&mut self) {
        if self.submitters.is_empty() {
            return;
        }
        let mut submitters = std::mem::take(&mut self.submitters);
        submitters.retain(|submitter| {
            let is_up = |pods: &PodGroup| pods.phase == Phase::Running && pods.deletion.is_none();
            self.cluster.pods.get(submitter.pods).is_some_and(is_up)
        });
        for submitter in &mut submitters {
            self.look(submitter);
        }
        self.submitters = submitters;
    }

    fn look(&mut self, submitter: &mut Submitter) {
        let now = self.now;
        if submitter.submits.is_none_or(|at| at > now) {
            return;
        }
        submitter.is_looking = true;
        let ends = |submitter: &mut Submitter, after, code| {
            if submitter.plan.follows && submitter.end.is_none() {
                submitter.end = Some((now + after, code));
            }
        };
        match self.cluster.ask_dashboard(&submitter.cluster, &submitter.id) {
            Answer::Known(program) => {
                submitter.has_seen = true;
                if program.end().is_some_and(|end| end + LOOK <= now) {
                    ends(submitter, FOLLOWED, submitter.plan.exit);
                }
            }
            Answer::Silence | Answer::Unknown if submitter.has_seen && submitter.plan.follows => {
                ends(submitter, LOST, submitter.plan.on_loss);
            }
            Answer::Silence => {}
            Answer::Unknown => {
                submitter.has_seen |= self.submit(&submitter.cluster, &submitter.id, submitter.by);
            }
        }
    }

    /// Lets the containers do what is due.
    pub(super) fn step_submitters(&mut self) {
        self.observe_submitters();
        let (now, cluster) = (self.now, &self.cluster);
        let is_over = |submitter: &Submitter| {
            submitter.end.is_some_and(|(at, _)| at <= now) && cluster.pods.get(submitter.pods).is_some()
        };
        let Some(place) = self.submitters.iter().position(is_over) else { return };
        let submitter = self.submitters.remove(place);
        let (nth, code) = (submitter.pods, submitter.end.map_or(0, |(_, code)| code));
        self.in_pod(nth, |program, cluster, around| {
            match submitter.by {
                SubmittedBy::Sidecar => program.end_container(cluster, nth, around, (SUBMITTER, code), now),
                _ => program.exit(cluster, nth, around, code, now),
            }
            true
        });
        let owner = self.cluster.pods.get(nth).and_then(|pods| self.cluster.owner_of(pods));
        if let Some(owner) = owner {
            self.tell(Event::Pod(owner));
        }
    }
}

/// Returns the value of a variable of a container.
fn variable<'v>(container: &'v Value, name: &str) -> Option<&'v str> {
    let variables = container.get("env")?.as_array()?;
    let is_it = |variable: &&Value| variable.get("name").and_then(Value::as_str) == Some(name);
    variables.iter().rev().find(is_it)?.get("value")?.as_str()
}
