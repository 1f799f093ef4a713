//! A story about a Job: incidents, lowered to a script, and what comes of it.

use std::borrow::Cow;
use std::sync::Arc;

use super::cluster::{Eviction, Job, JobStatus};
use super::incident::{Incident, IncidentPlace, Occurrence};
use super::job::spec::JobSpec;
use super::object::ObjectEnd;
use super::operators::{self, KueueSettings};
use super::pod::PodGroup;
use super::pod_set::Owner;
use super::program::{Peers, ProgramPlan, times};
use super::script::{
    ControllerName, DashboardEvent, Disruption, DisruptionCause, Plan, PlanRule, ProgramRule, Range,
    Restarts, Script, ScriptEvent, Target, Termination,
};
use super::subject::{Role, Subject};
use super::time::{Clock, Time};
use super::world::{TooLong, World};
use crate::text::value::Value;

/// What a manifest does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// The work of a run, in time of undisturbed running.
    pub runtime: Time,
    /// From when all pods run until they work.
    pub startup: Time,
    /// How often work is saved; nothing if never.
    pub checkpoint: Option<Time>,
    /// What the other ranks do when one is lost.
    pub peers: Peers,
    /// How many pods share a node.
    pub pods_per_node: u32,
    /// What the program does on SIGTERM.
    pub term: Termination,
    /// How long pods tolerate an unreachable node; nothing if without end.
    pub unreachable: Option<Time>,
    /// How long Kueue waits for the pods of what it admitted, and again for one that is lost (`waitForPodsReady`); nothing if
    /// it does not.
    pub wait_for_pods_ready: Option<Time>,
}

/// From when a node stops answering until it is tainted: 50 s, looked at each 5 s
/// (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`).
const UNREACHABLE: Time = Time::from_seconds(55);
/// From when a Node object is gone until the pod garbage collector ends its pods: a quarantine of 40 s, and at most 20 s
/// to the next look (`pkg/controller/podgc/gc_controller.go`).
const POD_COLLECTION: Time = Time::from_seconds(60);
/// How long a program that fails when it starts runs.
const CRASH: Time = Time::from_seconds(10);
/// Other parts of a second, in milliseconds, in which a Job may be created. Where an end turns over, it mostly does so once
/// from the first to the last.
pub(super) const OTHER_STARTS: [i64; 3] = [250, 500, 990];
/// How far a simulation goes.
pub(super) const HORIZON: Time = Time::from_seconds(366 * 86_400);

impl Assumptions {
    /// Returns when something happens for which nobody says it: in the middle of the run, between two checkpoints.
    #[must_use]
    pub fn middle(&self) -> Time {
        let half = |time: Time| Time::from_millis(time.millis() / 2);
        let middle = self.startup + half(self.runtime);
        self.checkpoint.filter(|every| *every < self.runtime).map_or(middle, |every| middle + half(every))
    }
}

/// Returns the script of a story about a Job.
#[must_use]
pub fn lower(spec: &JobSpec, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    lower_for(&Subject::from_job(spec), story, assumptions)
}

/// Returns the script of a story about an object with these roles.
#[must_use]
pub(crate) fn lower_for(subject: &Subject, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    let mut program = ProgramPlan {
        runtime: assumptions.runtime,
        startup: assumptions.startup,
        checkpoint: assumptions.checkpoint,
        peers: assumptions.peers,
    };
    let kueue = KueueSettings::with_wait(assumptions.wait_for_pods_ready);
    let mut script = Script { kueue, ..Script::default() };
    let default = Plan { term: assumptions.term, ..Plan::default() };
    for occurrence in story {
        let at = occurrence.at.unwrap_or_else(|| assumptions.middle());
        if let Some(rule) = program_rule(subject, occurrence, at) {
            script.programs.push(rule);
            continue;
        }
        for role in roles(subject, occurrence) {
            if let Some((attempts, plan)) = disturbed(role, occurrence.incident, at, assumptions, &default) {
                let members = place(role, occurrence, assumptions);
                script.plans.push(rule(role, members, attempts, Plan { serves: role.serves, ..plan }));
            }
        }
        match occurrence.incident {
            Incident::CreateRefused => script.events.push((Time::START, ScriptEvent::RefusePods(true))),
            Incident::Overrun => {
                let longest = subject.deadline.unwrap_or_default().max(program.runtime);
                program.runtime = longest + longest;
            }
            Incident::KueuePreempt(time) => preempt(&mut script, subject, at, time),
            Incident::ControllerAway(time) => away(&mut script, ControllerName::Job, at, time),
            Incident::OperatorAway(time) => away(&mut script, ControllerName::Operator, at, time),
            Incident::DashboardSilent(time) => {
                script.events.push((at, ScriptEvent::Dashboard(DashboardEvent::Down)));
                script.events.push((at + time, ScriptEvent::Dashboard(DashboardEvent::Up)));
            }
            // `Missed` is of the CronJob.
            _ => {}
        }
    }
    if subject.is_suspended && subject.queue.is_none() {
        // Somebody admits it; that is where the time of a story begins.
        script.events.push((Time::START, ScriptEvent::Patch(Target::Main, subject.suspension(false))));
    }
    script.events.sort_by_key(|(at, _)| *at);
    for role in subject.roles.iter().filter(|role| role.serves) {
        let plan = Plan { serves: true, ..default.clone() };
        script.plans.push(PlanRule { role: role.name.clone(), plan, ..PlanRule::default() });
    }
    script.plans.push(PlanRule { plan: default, ..PlanRule::default() });
    script.program = Some(program);
    script
}

/// Tells whether an incident happens to a program that runs beside its pods.
pub(super) fn is_of_program(subject: &Subject, occurrence: &Occurrence) -> bool {
    program_rule(subject, occurrence, Time::START).is_some()
}

/// Returns what an incident without a place does to a program that runs beside its pods.
fn program_rule(subject: &Subject, occurrence: &Occurrence, at: Time) -> Option<ProgramRule> {
    if !subject.has_dashboard || occurrence.role.is_some() || occurrence.place != IncidentPlace::One {
        return None;
    }
    match occurrence.incident {
        Incident::Exit(code) => Some(ProgramRule::new(false, Some(at), code != 0)),
        Incident::CrashLoop | Incident::CrashAll => Some(ProgramRule::new(true, Some(CRASH), true)),
        Incident::Hang => Some(ProgramRule::new(true, None, false)),
        _ => None,
    }
}

/// Lets another Job take the quota of an object for a time; one that is in no queue is suspended as long.
fn preempt(script: &mut Script, subject: &Subject, at: Time, time: Time) {
    let Some(queue) = &subject.queue else {
        for (at, suspend) in [(at, true), (at + time, false)] {
            let patch = subject.suspension(suspend);
            script.events.push((at, ScriptEvent::Patch(Target::Main, patch)));
        }
        return;
    };
    let pods = subject.together().count.max(1);
    script.events.push((at, ScriptEvent::Create(operators::preemptor(queue, pods))));
    let plan = Plan { run: Some(time), follows_program: false, ..Plan::default() };
    script.plans.push(PlanRule { role: Some(Arc::from(operators::PREEMPTOR)), plan, ..PlanRule::default() });
}

fn away(script: &mut Script, name: ControllerName, at: Time, time: Time) {
    script.events.push((at, ScriptEvent::Stop(name)));
    script.events.push((at + time, ScriptEvent::Start(name)));
}

/// Returns the roles that an incident is about.
fn roles<'s>(subject: &'s Subject, occurrence: &'s Occurrence) -> Vec<&'s Role> {
    match (&occurrence.role, occurrence.incident) {
        (None, incident) if incident.is_of_all() => subject.roles.iter().collect(),
        (None, Incident::SubmitterLost) => subject.named(Some("submitter")).collect(),
        (role, _) => subject.named(role.as_deref()).collect(),
    }
}

/// Returns the rule for some pods of a role: for their first attempts or for all.
fn rule(role: &Role, members: Range, attempts: Range, plan: Plan) -> PlanRule {
    let rule = PlanRule { role: role.name.clone(), plan, ..PlanRule::default() };
    if role.indexed {
        PlanRule { index: Some(members), attempt: Some(attempts), ..rule }
    } else if attempts.last.is_none() {
        rule
    } else {
        PlanRule { attempt: Some(members), ..rule }
    }
}

/// Returns what an incident does to pods, and to which attempts; nothing where it is not about pods.
fn disturbed(
    role: &Role,
    incident: Incident,
    at: Time,
    assumptions: &Assumptions,
    default: &Plan,
) -> Option<(Range, Plan)> {
    let (once, always) = (Range { first: 0, last: Some(0) }, Range { first: 0, last: None });
    let plan = default.clone();
    let disruption = |after, cause, collected| Some(Disruption { after, cause, collected });
    let disrupted = |cause| Plan { disruption: disruption(at, cause, None), ..plan.clone() };
    let ends = |run, code: i64| Plan {
        run: Some(run),
        follows_program: true,
        exit: vec![(String::new(), code)],
        ..plan.clone()
    };
    Some(match incident {
        Incident::NodeLost => {
            let deletion = assumptions.unreachable.and_then(|tolerated| {
                disruption(at + UNREACHABLE + tolerated, DisruptionCause::LostNode, None)
            });
            (once, Plan { silent: Some(at), unready: Some(UNREACHABLE), disruption: deletion, ..plan })
        }
        Incident::NodeGone => {
            let after = at + UNREACHABLE + POD_COLLECTION;
            let deletion = disruption(after, DisruptionCause::LostNode, Some(Time::START));
            (once, Plan { silent: Some(at), unready: Some(UNREACHABLE), disruption: deletion, ..plan })
        }
        Incident::Drain | Incident::Spot => (once, disrupted(DisruptionCause::Eviction)),
        Incident::Preempt => (once, disrupted(DisruptionCause::Preemption)),
        Incident::Pressure => (once, disrupted(DisruptionCause::Pressure)),
        Incident::DeletePod | Incident::SubmitterLost => (once, disrupted(DisruptionCause::Deletion)),
        Incident::Oom => (once, failure(role, Plan { is_oom: true, ..ends(at, 137) }, at)),
        Incident::Exit(code) => (once, failure(role, ends(at, i64::from(code)), at)),
        Incident::CrashLoop | Incident::CrashAll => (always, crash(role, ends(CRASH, 1))),
        Incident::Hang => (always, Plan { run: None, follows_program: false, ..plan }),
        Incident::ImagePull => (always, Plan { start: None, ..plan }),
        Incident::Pending(None) => (always, Plan { start: None, is_unscheduled: true, ..plan }),
        Incident::Pending(Some(time)) => (once, Plan { start: Some(time), ..plan }),
        Incident::CreateRefused
        | Incident::Overrun
        | Incident::KueuePreempt(_)
        | Incident::Missed(_)
        | Incident::ControllerAway(_)
        | Incident::OperatorAway(_)
        | Incident::DashboardSilent(_) => return None,
    })
}

/// Returns a plan that fails; where the kubelet starts the container again in its pod, that is a restart.
fn failure(role: &Role, plan: Plan, at: Time) -> Plan {
    if !role.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: Some(1), every: at, is_backed_off: false }),
        ..plan
    }
}

fn crash(role: &Role, plan: Plan) -> Plan {
    if !role.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: None, every: CRASH, is_backed_off: true }),
        ..plan
    }
}

/// Returns the indexes of a role that an incident is about, or the numbers of its pods.
fn place(role: &Role, occurrence: &Occurrence, assumptions: &Assumptions) -> Range {
    let all = role.count.max(1);
    let together = if occurrence.incident.is_of_node() { assumptions.pods_per_node.max(1) } else { 1 };
    let of =
        |first: u32, count: u32| Range { first, last: Some(first.saturating_add(count - 1).min(all - 1)) };
    match occurrence.place {
        IncidentPlace::One if occurrence.incident.is_of_all() => of(0, all),
        IncidentPlace::One => of(0, together),
        IncidentPlace::Index(index) => of(index / together * together, together),
        IncidentPlace::Count(count) => of(0, count.max(1)),
        IncidentPlace::Between(first, last) => Range { first, last: Some(last) },
        IncidentPlace::All => of(0, all),
    }
}

/// How a story ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `Complete`.
    Completes,
    /// `Complete`, and the program had not done its work.
    CompletesHalfDone,
    /// `Failed`.
    Fails,
    /// The work is done or given up, and the last condition waits for a pod that does not end.
    Wedged,
    /// Nothing happens any more.
    Waits,
    /// It runs without end.
    RunsOn,
}

impl Ending {
    /// Returns the word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Completes => "completes",
            Self::CompletesHalfDone => "completes-half-done",
            Self::Fails => "fails",
            Self::Wedged => "wedged",
            Self::Waits => "waits",
            Self::RunsOn => "runs-on",
        }
    }
}

/// What comes of a story.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ends.
    pub ending: Ending,
    /// When; for what does not end, when the last thing happened.
    pub at: Time,
    /// `reason` of the condition that ends the Job, where there is one.
    pub reason: Option<Cow<'static, str>>,
    /// The status of the Job.
    pub status: JobStatus,
    /// Its pods, in order of creation.
    pub pods: Vec<PodGroup>,
    /// What the pods of each set are to their object; nothing where they are those of a Job.
    pub roles: Vec<Arc<str>>,
    /// What happened to the objects that an operator made.
    pub others: Vec<(Time, String)>,
    /// How many pods there were.
    pub made: u32,
    /// Time of running pods, summed.
    pub used: Time,
    /// How often Kueue evicted it.
    pub evictions: u32,
    /// Work that was done twice or thrown away, summed over pods.
    pub lost: Time,
    /// Work that counts, summed over pods.
    pub(crate) done: Time,
}

impl Outcome {
    /// Returns the time in which pods ran and did nothing that counts: starting, or waiting for others.
    #[must_use]
    pub fn idle(&self) -> Time {
        (self.used - self.lost - self.done).max(Time::START)
    }
}

/// Returns what comes of a script.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell(spec: &Value, script: Script) -> Result<Outcome, TooLong> {
    tell_from(Clock::default(), spec, script)
}

/// Returns what comes of a script without changes of the `spec`, within some work, of which it takes what it does; nothing
/// where the end depends on the part of the second in which the Job is created.
///
/// # Errors
///
/// More work than that, or than a simulation does.
pub(crate) fn tell_within(
    spec: &JobSpec,
    script: &Script,
    work: &mut u64,
) -> Result<Option<Outcome>, TooLong> {
    let mut from = |start: i64| {
        let bounded = Script { most_work: Some(*work), ..script.clone() };
        let mut world = World::with_spec(spec.clone(), bounded, Clock { start });
        let outcome = end_of(&mut world, script.program);
        *work = work.saturating_sub(world.work);
        outcome
    };
    let outcome = from(Clock::default().start)?;
    for start in OTHER_STARTS {
        let other = from(start)?;
        if (other.ending, &other.reason) != (outcome.ending, &outcome.reason) {
            return Ok(None);
        }
    }
    Ok(Some(outcome))
}

/// Returns another end of a script, where that depends on the part of the second in which the Job is created: what falls
/// on one moment is never guessed.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell_otherwise(spec: &Value, script: &Script, outcome: &Outcome) -> Result<Option<Outcome>, TooLong> {
    for start in OTHER_STARTS {
        let other = tell_from(Clock { start }, spec, script.clone())?;
        if (other.ending, &other.reason) != (outcome.ending, &outcome.reason) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

fn tell_from(clock: Clock, spec: &Value, script: Script) -> Result<Outcome, TooLong> {
    let plan = script.program;
    end_of(&mut World::with_job("job", spec, script, clock, false), plan)
}

/// Lets a world come to its end.
///
/// # Errors
///
/// More work than a simulation does.
pub(super) fn end_of(world: &mut World, plan: Option<ProgramPlan>) -> Result<Outcome, TooLong> {
    let is_still = world.run_to_end(HORIZON)?;
    Ok(Summary::of_main(world).outcome(world, plan, is_still))
}

/// What the object that is simulated says of its end.
pub(super) struct Summary {
    /// Its status; that of another kind than Job has its conditions, and how many pods failed.
    pub(super) status: JobStatus,
    /// How many pods there were.
    pub(super) made: u32,
    /// Whether it ended as a success, when and why.
    pub(super) end: Option<ObjectEnd>,
    /// When it was decided, and why, where the end waits.
    pub(super) before: Option<(Time, Cow<'static, str>)>,
    /// What the pods of each set are to their object; nothing where they are those of a Job.
    pub(super) roles: Vec<Arc<str>>,
    /// What happened to the objects that an operator made.
    pub(super) others: Vec<(Time, String)>,
}

impl Summary {
    /// Returns that of the object that is simulated.
    pub(super) fn of_main(world: &World) -> Self {
        match world.main {
            Owner::Job(job) => Self::of_job(world.cluster.jobs.get(job)),
            Owner::Object(_) => Self::of_object(world),
        }
    }

    fn of_job(job: Option<&Job>) -> Self {
        let status = job.map(|job| job.status.clone()).unwrap_or_default();
        let end = status.finished().map(|condition| ObjectEnd {
            is_success: condition.sort == "Complete",
            at: condition.at,
            reason: condition.reason.clone(),
        });
        let before = decided(&status);
        let (made, roles, others) = (job.map_or(0, |job| job.made), Vec::new(), Vec::new());
        Self { status, made, end, before, roles, others }
    }

    /// Returns the outcome.
    pub(super) fn outcome(self, world: &mut World, plan: Option<ProgramPlan>, is_still: bool) -> Outcome {
        let decided = self.end.as_ref().map(|end| (end.at, end.reason.clone())).or(self.before);
        let at = decided.as_ref().map_or(world.now, |(at, _)| *at);
        let evictions = evictions(world);
        let count = u32::try_from(evictions.len()).unwrap_or(u32::MAX);
        world.forget_others();
        let mut used = Time::START;
        for pods in &world.cluster.pods {
            let Some(started) = pods.started else { continue };
            let ended = pods.ended.or(pods.gone).unwrap_or(at);
            used = used + times((ended - started).max(Time::START), world.weight(pods));
        }
        let (lost, done) = world.work(world.main).unwrap_or_default();
        let runtime = plan.map_or(Time::START, |plan| plan.runtime);
        let wanted = plan.filter(|plan| plan.peers != Peers::Independent).map(|_| runtime);
        let is_half_done = world.is_half_done(world.main, wanted);
        let ending = match (self.end.as_ref().map(|end| end.is_success), &decided) {
            (Some(true), _) if is_half_done => Ending::CompletesHalfDone,
            (Some(true), _) => Ending::Completes,
            (Some(false), _) => Ending::Fails,
            (None, Some(_)) => Ending::Wedged,
            (None, None) if is_still && !world.is_running(world.main) => Ending::Waits,
            (None, None) => Ending::RunsOn,
        };
        // One exit code is all that is asked of them.
        for pods in &mut world.cluster.pods {
            pods.containers.retain(|status| status.terminated.is_some());
            pods.containers.truncate(1);
            pods.containers.shrink_to_fit();
        }
        let mut pods = std::mem::take(&mut world.cluster.pods);
        pods.sort_by_key(|pods| (pods.created, pods.members.first()));
        Outcome {
            ending,
            roles: self.roles,
            others: self.others.into_iter().chain(evictions).collect(),
            evictions: count,
            at,
            reason: decided.map(|(_, reason)| reason),
            status: self.status,
            pods,
            made: self.made,
            used,
            lost,
            done,
        }
    }
}

/// Returns when Kueue evicted what is simulated, and why.
fn evictions(world: &World) -> Vec<(Time, String)> {
    let is_main = |eviction: &&Eviction| eviction.owner == Some(world.main);
    let evictions = world.cluster.evictions.iter().filter(is_main);
    evictions.map(|one| (one.at, format!("evicted by Kueue ({})", one.reason))).collect()
}

/// Returns when the end of a Job was decided, and why, where its last condition waits.
pub(super) fn decided(status: &JobStatus) -> Option<(Time, Cow<'static, str>)> {
    let condition = status.condition("SuccessCriteriaMet").or_else(|| status.condition("FailureTarget"))?;
    Some((condition.at, condition.reason.clone()))
}

#[cfg(test)]
mod tests;
