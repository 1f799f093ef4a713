//! A story about a Job: incidents, lowered to a script, and what comes of it.

use super::cluster::JobStatus;
use super::incident::{Incident, IncidentPlace, Occurrence};
use super::job::spec::JobSpec;
use super::pod::PodGroup;
use super::program::{Peers, ProgramPlan, times};
use super::script::{
    ControllerName, Disruption, DisruptionCause, Plan, PlanRule, Range, Restarts, Script, ScriptEvent,
    Termination,
};
use super::time::{Clock, Time};
use super::world::{TooLong, World};
use crate::text::value::{Value, json};

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
const OTHER_STARTS: [i64; 3] = [250, 500, 990];
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

/// Returns the script of a story.
#[must_use]
pub fn lower(spec: &JobSpec, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    let mut program = ProgramPlan {
        runtime: assumptions.runtime,
        startup: assumptions.startup,
        checkpoint: assumptions.checkpoint,
        peers: assumptions.peers,
    };
    let mut script = Script::default();
    let default = Plan { term: assumptions.term, ..Plan::default() };
    for occurrence in story {
        let at = occurrence.at.unwrap_or_else(|| assumptions.middle());
        let plan = default.clone();
        let members = place(spec, occurrence, assumptions);
        let disrupted = |cause| Plan {
            disruption: Some(Disruption { after: at, cause, collected: None }),
            ..plan.clone()
        };
        let mut push = |attempt: Range, plan: Plan| {
            let rule = if spec.indexed {
                PlanRule { index: Some(members), attempt: Some(attempt), job: None, plan }
            } else if attempt.last.is_none() {
                PlanRule { index: None, attempt: None, job: None, plan }
            } else {
                PlanRule { index: None, attempt: Some(members), job: None, plan }
            };
            script.plans.push(rule);
        };
        let (once, always) = (Range { first: 0, last: Some(0) }, Range { first: 0, last: None });
        let ends = |run, code: i64| Plan {
            run: Some(run),
            follows_program: true,
            exit: vec![(String::new(), code)],
            ..plan.clone()
        };
        match occurrence.incident {
            Incident::NodeLost => {
                let disruption = assumptions.unreachable.map(|tolerated| Disruption {
                    after: at + UNREACHABLE + tolerated,
                    cause: DisruptionCause::LostNode,
                    collected: None,
                });
                push(once, Plan { silent: Some(at), disruption, ..plan.clone() });
            }
            Incident::NodeGone => {
                let disruption = Some(Disruption {
                    after: at + UNREACHABLE + POD_COLLECTION,
                    cause: DisruptionCause::LostNode,
                    collected: Some(Time::START),
                });
                push(once, Plan { silent: Some(at), disruption, ..plan.clone() });
            }
            Incident::Drain | Incident::Spot => push(once, disrupted(DisruptionCause::Eviction)),
            Incident::Preempt => push(once, disrupted(DisruptionCause::Preemption)),
            Incident::Pressure => push(once, disrupted(DisruptionCause::Pressure)),
            Incident::DeletePod => push(once, disrupted(DisruptionCause::Deletion)),
            Incident::Oom => push(once, failure(spec, Plan { is_oom: true, ..ends(at, 137) }, at)),
            Incident::Exit(code) => push(once, failure(spec, ends(at, i64::from(code)), at)),
            Incident::CrashLoop | Incident::CrashAll => push(always, crash(spec, ends(CRASH, 1))),
            Incident::Hang => push(always, Plan { run: None, follows_program: false, ..plan.clone() }),
            Incident::ImagePull => push(always, Plan { start: None, ..plan.clone() }),
            Incident::Pending(None) => {
                push(always, Plan { start: None, is_unscheduled: true, ..plan.clone() });
            }
            Incident::Pending(Some(time)) => push(once, Plan { start: Some(time), ..plan.clone() }),
            Incident::CreateRefused => script.events.push((Time::START, ScriptEvent::RefusePods(true))),
            Incident::Overrun => {
                let longest = spec.deadline.unwrap_or_default().max(program.runtime);
                program.runtime = longest + longest;
            }
            Incident::KueuePreempt(time) => {
                for (at, suspend) in [(at, true), (at + time, false)] {
                    script.events.push((at, ScriptEvent::Patch(json!({"suspend": suspend}))));
                }
            }
            // It is of the CronJob.
            Incident::Missed(_) => {}
            Incident::ControllerAway(time) => {
                script.events.push((at, ScriptEvent::Stop(ControllerName::Job)));
                script.events.push((at + time, ScriptEvent::Start(ControllerName::Job)));
            }
        }
    }
    if spec.suspend {
        // Somebody admits it; that is where the time of a story begins.
        script.events.push((Time::START, ScriptEvent::Patch(json!({"suspend": false}))));
    }
    script.events.sort_by_key(|(at, _)| *at);
    script.plans.push(PlanRule { index: None, attempt: None, job: None, plan: default });
    script.program = Some(program);
    script
}

/// Returns a plan that fails; where the kubelet starts the container again in its pod, that is a restart.
fn failure(spec: &JobSpec, plan: Plan, at: Time) -> Plan {
    if !spec.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: Some(1), every: at, is_backed_off: false }),
        ..plan
    }
}

fn crash(spec: &JobSpec, plan: Plan) -> Plan {
    if !spec.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: None, every: CRASH, is_backed_off: true }),
        ..plan
    }
}

/// Returns the indexes that an incident is about, or the numbers of the pods.
fn place(spec: &JobSpec, occurrence: &Occurrence, assumptions: &Assumptions) -> Range {
    let all = spec.completions.unwrap_or(spec.parallelism).max(1);
    let is_of_all = matches!(
        occurrence.incident,
        Incident::CrashAll | Incident::Hang | Incident::ImagePull | Incident::Pending(_)
    );
    let together = if occurrence.incident.is_of_node() { assumptions.pods_per_node.max(1) } else { 1 };
    let of =
        |first: u32, count: u32| Range { first, last: Some(first.saturating_add(count - 1).min(all - 1)) };
    match occurrence.place {
        IncidentPlace::One if is_of_all => of(0, all),
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
    pub reason: Option<&'static str>,
    /// The status of the Job.
    pub status: JobStatus,
    /// Its pods, in order of creation.
    pub pods: Vec<PodGroup>,
    /// How many pods there were.
    pub made: u32,
    /// Time of running pods, summed.
    pub used: Time,
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
        let mut world = World::with_spec(spec.clone(), script.clone(), Clock { start }, *work);
        let outcome = end_of(&mut world, script.program);
        *work = work.saturating_sub(world.work);
        outcome
    };
    let outcome = from(Clock::default().start)?;
    for start in OTHER_STARTS {
        let other = from(start)?;
        if (other.ending, other.reason) != (outcome.ending, outcome.reason) {
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
        if (other.ending, other.reason) != (outcome.ending, outcome.reason) {
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
    let end = world.now;
    let mut used = Time::START;
    for pods in &world.cluster.pods {
        let Some(started) = pods.started else { continue };
        let ended = pods.ended.or(pods.gone).unwrap_or(end);
        used = used + times((ended - started).max(Time::START), pods.count());
    }
    let made = world.cluster.jobs.first().map_or(0, |job| job.made);
    let status = world.cluster.jobs.first().map(|job| job.status.clone()).unwrap_or_default();
    let (lost, done) = world.work(0).unwrap_or_default();
    let runtime = plan.map_or(Time::START, |plan| plan.runtime);
    let last = status.finished();
    let before = status.condition("SuccessCriteriaMet").or_else(|| status.condition("FailureTarget"));
    let wanted = plan.filter(|plan| plan.peers != Peers::Independent).map(|_| runtime);
    let is_half_done = world.is_half_done(0, wanted);
    let ending = match (last.map(|condition| condition.sort), before) {
        (Some("Complete"), _) if is_half_done => Ending::CompletesHalfDone,
        (Some("Complete"), _) => Ending::Completes,
        (Some(_), _) => Ending::Fails,
        (None, Some(_)) => Ending::Wedged,
        (None, None) if is_still && !world.is_running(0) => Ending::Waits,
        (None, None) => Ending::RunsOn,
    };
    let at = last.or(before).map_or(end, |condition| condition.at);
    // One exit code is all that is asked of them.
    for pods in &mut world.cluster.pods {
        pods.containers.retain(|status| status.terminated.is_some());
        pods.containers.truncate(1);
        pods.containers.shrink_to_fit();
    }
    let mut pods = std::mem::take(&mut world.cluster.pods);
    pods.sort_by_key(|pods| (pods.created, pods.members.first()));
    Ok(Outcome {
        ending,
        at,
        reason: last.or(before).map(|condition| condition.reason),
        status,
        pods,
        made,
        used,
        lost,
        done,
    })
}

#[cfg(test)]
mod tests;
