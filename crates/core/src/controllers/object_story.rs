//! A story about an object of another kind than Job: what comes of it, and of what its operator made.

use std::borrow::Cow;
use std::sync::Arc;

use super::cluster::JobStatus;
use super::incident::Occurrence;
use super::object::{Object, ObjectEnd};
use super::operators::{self, KueueSettings};
use super::pod::{Phase, PodGroup};
use super::pod_set::Owner;
use super::program::times;
use super::script::Script;
use super::story::{Assumptions, OTHER_STARTS, Outcome, Summary, decided, evictions, lower_for};
use super::subject::Subject;
use super::time::{Clock, Time};
use super::weight::weight;
use super::world::{TooLong, World};
use crate::text::value::Value;

/// How far a simulation goes: some operators look every few seconds, without end.
pub(crate) const HORIZON: Time = Time::from_seconds(60 * 86_400);
/// How many values of an object are a unit of work, where a cluster is made with it.
const VALUES_A_UNIT: usize = 8;

/// The same where Kueue does.
const HORIZON_OF_QUEUE: Time = Time::from_seconds(14 * 86_400);

/// An object, with what it needs to be simulated.
#[derive(Clone, Debug)]
pub struct ObjectStory<'a> {
    /// The object.
    pub manifest: &'a Value,
    /// Objects that are there before it, such as the runtimes of a TrainJob.
    pub before: &'a [Value],
    /// Its pods.
    pub subject: &'a Subject,
}

/// Returns the pods of an object by role; nothing where its operator is not modelled, or what it needs is not there.
#[must_use]
pub fn subject(manifest: &Value, before: &[Value]) -> Option<Subject> {
    operators::subject(manifest, before)
}

/// Returns the queue of Kueue that an object names, if objects of its kind may wait in one.
#[must_use]
pub fn queue_of(manifest: &Value) -> Option<&str> {
    operators::queue_name::queue_of(manifest)
}

/// Returns why an object has no pods that are known, though its operator is modelled; nothing where that is not.
#[must_use]
pub fn why_unknown(manifest: &Value) -> Option<String> {
    operators::why_unknown(manifest)
}

/// Returns the script of a story about an object with these roles.
#[must_use]
pub fn lower_object(subject: &Subject, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    lower_for(subject, story, assumptions)
}

impl ObjectStory<'_> {
    /// Returns what comes of a script.
    ///
    /// # Errors
    ///
    /// More work than a simulation does.
    pub fn tell(&self, script: &Script) -> Result<Outcome, TooLong> {
        self.tell_from(Clock::default(), script)
    }

    /// Returns another end of a script, where that depends on the part of the second in which the object is created, or on
    /// what an operator does in no fixed order: neither is ever guessed.
    ///
    /// # Errors
    ///
    /// More work than a simulation does.
    pub fn tell_otherwise(&self, script: &Script, outcome: &Outcome) -> Result<Option<Outcome>, TooLong> {
        let starts = OTHER_STARTS.into_iter().map(|start| (Clock { start }, script.clone()));
        let chances =
            operators::chances(self.manifest, script).into_iter().map(|script| (Clock::default(), script));
        for (clock, script) in starts.chain(chances) {
            let other = self.tell_from(clock, &script)?;
            if (other.ending, &other.reason) != (outcome.ending, &outcome.reason) {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Returns how far the simulation goes: Kueue evicts and admits again without end, each time with all pods.
    fn horizon(&self, script: &Script) -> Time {
        match (&self.subject.queue, script.program) {
            (Some(_), Some(program)) => HORIZON_OF_QUEUE.max(times(program.runtime, 4)),
            _ => HORIZON,
        }
    }

    /// Returns the outcome of a script, within a budget of work, which it reduces; `None` if the end depends on the part of the
    /// second in which the object is created, or on an order that its operator does not fix.
    ///
    /// # Errors
    ///
    /// More work than that.
    pub(crate) fn tell_within(&self, script: &Script, work: &mut u64) -> Result<Option<Outcome>, TooLong> {
        let outcome = self.tell_part(Clock::default(), script, work)?;
        let starts = OTHER_STARTS.into_iter().map(|start| (Clock { start }, script.clone()));
        let chances =
            operators::chances(self.manifest, script).into_iter().map(|script| (Clock::default(), script));
        for (clock, script) in starts.chain(chances) {
            let other = self.tell_part(clock, &script, work)?;
            if (other.ending, &other.reason) != (outcome.ending, &outcome.reason) {
                return Ok(None);
            }
        }
        Ok(Some(outcome))
    }

    fn tell_part(&self, clock: Clock, script: &Script, work: &mut u64) -> Result<Outcome, TooLong> {
        let mut world = self.world_within(clock, script, work)?;
        let outcome = self.end_of(&mut world, script);
        *work = work.saturating_sub(world.work);
        outcome
    }

    /// Returns the state of the object after a while, within a budget of work, which it reduces.
    ///
    /// # Errors
    ///
    /// More work than that.
    pub(crate) fn remains(&self, script: &Script, until: Time, work: &mut u64) -> Result<Remains, TooLong> {
        let mut world = self.world_within(Clock::default(), script, work)?;
        let ran = world.run(until);
        *work = work.saturating_sub(world.work);
        ran.map(|()| Remains::from_world(world))
    }

    /// Returns how often Kueue has evicted it after a while, and whether it has ended by then, within some work, of which it takes
    /// what it does.
    ///
    /// # Errors
    ///
    /// More work than that.
    pub(crate) fn evictions(
        &self,
        script: &Script,
        until: Time,
        work: &mut u64,
    ) -> Result<(u32, bool), TooLong> {
        let bounded = Script { most_work: Some(*work), ..script.clone() };
        let mut world = self.queued_world(Clock::default(), bounded)?;
        let ran = world.run(until);
        *work = work.saturating_sub(world.work);
        ran?;
        let count = u32::try_from(evictions(&world).len()).unwrap_or(u32::MAX);
        Ok((count, Summary::from_main(&world).end.is_some()))
    }

    /// Returns the object in a cluster, with the queue that is assumed of it.
    fn queued_world(&self, clock: Clock, script: Script) -> Result<World, TooLong> {
        let queues = operators::assumed_queues(self.manifest, self.subject);
        let before = match queues.as_slice() {
            [] => Cow::Borrowed(self.before),
            queues => Cow::Owned([self.before, queues].concat()),
        };
        World::with_object(self.manifest, &before, script, clock).ok_or(TooLong)
    }

    /// Returns the object in a cluster, which does no more than some work. What is made of the object at first takes some.
    fn world_within(&self, clock: Clock, script: &Script, work: &mut u64) -> Result<World, TooLong> {
        *work = work.saturating_sub((weight(self.manifest) / VALUES_A_UNIT) as u64);
        // Whether it waits in a queue is no part of these questions.
        let kueue = KueueSettings::absent();
        let script = Script { most_work: Some(*work), kueue, ..script.clone() };
        World::with_object(self.manifest, self.before, script, clock).ok_or(TooLong)
    }

    fn tell_from(&self, clock: Clock, script: &Script) -> Result<Outcome, TooLong> {
        let mut world = self.queued_world(clock, script.clone())?;
        self.end_of(&mut world, script)
    }

    /// Lets a world come to its end.
    fn end_of(&self, world: &mut World, script: &Script) -> Result<Outcome, TooLong> {
        let roles = self.subject.roles.iter();
        world.weights = roles.filter_map(|role| Some((role.name.clone()?, role.weight))).collect();
        let hosts = self.subject.roles.iter().filter(|role| role.serves).map(|role| role.count);
        world.hosts = Some(hosts.fold(0, u32::saturating_add)).filter(|hosts| *hosts > 0);
        let ranks = self.subject.roles.iter().map(|role| role.at_once.saturating_mul(role.weight));
        world.rank_weight = Some(ranks.fold(0, u32::saturating_add));
        let is_still = world.run_to_end(self.horizon(script))?;
        let plan = script.program;
        let has_ranks = world.cluster.has_ranks(world.main);
        let outcome = Summary::from_main(world).outcome(world, plan, is_still);
        // Where the program is no business of the pods, what it loses is not known.
        Ok(if has_ranks { outcome } else { Outcome { done: outcome.used, ..outcome } })
    }
}

/// What there is of an object after a while.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    /// How it ended, if it did.
    pub(crate) end: Option<ObjectEnd>,
    /// When it was gone.
    #[cfg(test)]
    pub(crate) gone: Option<Time>,
    /// The pods that there were, each group with what they were to it.
    pub(crate) pods: Vec<(Arc<str>, PodGroup)>,
    /// How many Jobs there were.
    #[cfg(test)]
    pub(crate) jobs: usize,
}

impl Remains {
    /// Returns that of the object that is simulated in a world.
    pub(crate) fn from_world(world: World) -> Self {
        let cluster = &world.cluster;
        let end = match world.main {
            Owner::Job(_) => Summary::from_main(&world).end,
            Owner::Object(number) => cluster.objects.get(number).and_then(Object::end),
        };
        #[cfg(test)]
        let gone = match world.main {
            Owner::Job(number) => cluster.jobs.get(number).and_then(|job| job.gone),
            Owner::Object(number) => cluster.objects.get(number).and_then(|object| object.gone),
        };
        let role = |pods: &PodGroup| cluster.sets.get(pods.set).map(|set| Arc::clone(&set.role));
        let pods = cluster.pods.iter().filter_map(|pods| Some((role(pods)?, pods.clone()))).collect();
        Self {
            end,
            pods,
            #[cfg(test)]
            gone,
            #[cfg(test)]
            jobs: cluster.jobs.len(),
        }
    }
}

impl Summary {
    /// Returns that of an object of another kind than Job.
    pub(super) fn from_object(world: &World) -> Self {
        let object = match world.main {
            Owner::Object(number) => world.cluster.objects.get(number),
            Owner::Job(_) => None,
        };
        let cluster = &world.cluster;
        let is_main = |owner: Owner| cluster.root(owner) == world.main;
        let count = |is_counted: &dyn Fn(&PodGroup) -> bool| {
            let pods = cluster.pods.iter().filter(|pods| is_counted(pods));
            let pods = pods.filter(|pods| cluster.owner_of(pods).is_some_and(is_main));
            pods.map(PodGroup::count).fold(0, u32::saturating_add)
        };
        let status = JobStatus {
            failed: count(&|pods| pods.phase == Phase::Failed),
            succeeded: count(&|pods| pods.phase == Phase::Succeeded),
            terminating: Some(count(&|pods| pods.gone.is_none() && pods.is_terminating())),
            conditions: object.map(|object| object.conditions.clone()).unwrap_or_default(),
            ..JobStatus::default()
        };
        let jobs = world.cluster.jobs.iter().filter(|job| job.gone.is_none());
        let before = jobs.filter(|job| job.status.finished().is_none()).find_map(|job| decided(&job.status));
        let roles = world.cluster.sets.iter().map(|set| Arc::clone(&set.role)).collect();
        let end = object.and_then(Object::end);
        Self { status, made: count(&|_| true), end, before, roles, others: others(world) }
    }
}

/// Returns when the Jobs and custom resources that operators made were created, ended and went.
fn others(world: &World) -> Vec<(Time, String)> {
    let mut lines = Vec::new();
    let is_made = |owner: Option<Owner>| owner.is_some_and(|owner| world.cluster.root(owner) == world.main);
    let jobs = world.cluster.jobs.iter().filter(|job| is_made(job.owner));
    for job in jobs {
        let end = job.status.finished().map(|end| (end.at, format!("{} ({})", end.sort, end.reason)));
        let dates = [Some((job.created, "created".to_owned())), end, gone(job.gone)];
        lines.extend(dates.into_iter().flatten().map(|(at, what)| (at, format!("Job {} {what}", job.name))));
    }
    for object in world.cluster.objects.iter().filter(|object| is_made(object.owner)) {
        let named = |what| format!("{} {} {what}", object.kind, object.name);
        let dates = [Some((object.created, "created".to_owned())), gone(object.gone)];
        lines.extend(dates.into_iter().flatten().map(|(at, what)| (at, named(what))));
    }
    lines
}

fn gone(at: Option<Time>) -> Option<(Time, String)> {
    at.map(|at| (at, "gone".to_owned()))
}
