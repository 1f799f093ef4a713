//! A story about a Job: incidents, lowered to a script, and what comes of it.

mod lower;

use std::borrow::Cow;
use std::sync::Arc;

use super::cluster::{Eviction, Job, JobStatus};
use super::job::spec::JobSpec;
use super::object::ObjectEnd;
use super::pod::PodGroup;
use super::pod_set::Owner;
use super::program::{Peers, ProgramPlan, times};
use super::script::{Script, Termination};
use super::time::{Clock, Time};
use super::world::{TooLong, World};
use crate::text::value::Value;
pub use lower::lower;
pub(super) use lower::{is_of_program, lower_for};

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
    /// How long after its creation a scheduler takes a PodGroup; nothing if it never does.
    pub gang_after: Option<Time>,
}

/// Other parts of a second, in milliseconds, in which a Job may be created. Where an end turns over, it mostly does so once
/// from the first to the last.
pub(super) const OTHER_STARTS: [i64; 3] = [250, 500, 990];
/// How far a simulation goes.
pub(super) const HORIZON: Time = Time::from_seconds(366 * 86_400);

#[cfg(test)]
impl Assumptions {
    /// Returns assumptions for tests: 12 hours of work that is saved each half hour, and nodes that are given up after five minutes.
    pub(crate) fn for_tests(peers: Peers) -> Self {
        Self {
            runtime: Time::from_seconds(12 * 3_600),
            startup: Time::from_seconds(120),
            checkpoint: Some(Time::from_seconds(1_800)),
            peers,
            pods_per_node: 1,
            term: Termination::default(),
            unreachable: Some(Time::from_seconds(300)),
            wait_for_pods_ready: None,
            gang_after: None,
        }
    }
}

impl Assumptions {
    /// Returns when something happens for which nobody says it: in the middle of the run, between two checkpoints.
    #[must_use]
    pub fn middle(&self) -> Time {
        let half = |time: Time| Time::from_millis(time.millis() / 2);
        let middle = self.startup + half(self.runtime);
        self.checkpoint.filter(|every| *every < self.runtime).map_or(middle, |every| middle + half(every))
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

/// Returns the outcome of a script that does not change the `spec`, within a budget of work, which it reduces; `None` if the
/// end depends on the part of the second in which the Job is created.
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
    Ok(Summary::from_main(world).outcome(world, plan, is_still))
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
    pub(super) fn from_main(world: &World) -> Self {
        match world.main {
            Owner::Job(job) => Self::from_job(world.cluster.jobs.get(job)),
            Owner::Object(_) => Self::from_object(world),
        }
    }

    fn from_job(job: Option<&Job>) -> Self {
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
        let succeeded = Some(self.status.succeeded).filter(|succeeded| *succeeded > 0);
        let is_half_done = world.is_half_done(world.main, wanted, succeeded);
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
pub(super) fn evictions(world: &World) -> Vec<(Time, String)> {
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
