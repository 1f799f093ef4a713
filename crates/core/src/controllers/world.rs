//! A cluster in which things happen: one queue drives the controllers, the kubelets and the script.

mod dashboard;
mod gc;
mod live;
mod live_ray;
mod objects;
mod pods;
mod ranks;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::{Cluster, Controller, CronJob, Event};
use super::cron_job::CronJobController;
use super::cron_job::spec::CronJobSpec;
use super::job::JobController;
use super::job::spec::JobSpec;
use super::kubelet::PodProgram;
use super::operators::{self, Settings};
use super::pod::PodGroup;
use super::pod_set::Owner;
use super::program::{ApartProgram, GangProgram};
use super::script::{ControllerName, Script};
use super::time::{Clock, Time};
use super::ttl::TtlController;
use crate::text::value::{Value, json};

pub(super) use live::{Given, GivenJob};
pub(super) use live_ray::GivenProgram;

/// Maximum work of a simulation: one unit for each object and each group of pods at each step, and for each plan where pods are made. It is
/// about a second.
pub(crate) const MOST_WORK: u64 = 40_000_000;
/// How long before the object that is simulated others are made that are there before it.
const LEAD: Time = Time::from_millis(3_500);
/// How many containers with a status are one more unit of work: a pod of thousands of them is not one thing to look at.
const CONTAINERS_A_UNIT: usize = 8;
/// How many objects are no work to look through.
const FEW_OBJECTS: usize = 8;

/// A cluster, its controllers and its nodes.
#[derive(Debug)]
pub struct World {
    /// The objects.
    pub cluster: Cluster,
    /// The moment.
    pub(crate) now: Time,
    /// The object that is simulated.
    pub main: Owner,
    script: Script,
    next_event: usize,
    jobs: JobController,
    ttl: TtlController,
    cron_jobs: CronJobController,
    operators: Vec<Box<dyn Controller>>,
    /// The `spec` of the CronJob, as it stands.
    cron_spec: Value,
    programs: Vec<PodProgram>,
    /// How much a pod of a role counts where time is summed; one where nothing is said.
    pub(super) weights: Vec<(Arc<str>, u32)>,
    /// How many pods serve the others, where a program needs all of those; nothing where none does.
    pub(super) hosts: Option<u32>,
    /// How much all ranks of the program count together; as many as they are where nothing is said.
    pub(super) rank_weight: Option<u32>,
    /// The containers that submit programs to Ray clusters.
    submitters: Vec<dashboard::Submitter>,
    /// The programs, each of an object that nobody made.
    running: BTreeMap<Owner, JobProgram>,
    /// What the garbage collector does, and controllers that start.
    later: Vec<(Time, Later)>,
    /// The work that was done, and the most that may be.
    pub(crate) work: u64,
    most_work: u64,
}

/// The program in the pods of an object, and of what it made.
#[derive(Clone, Debug)]
enum JobProgram {
    /// Its ranks need one another.
    Gang(GangProgram),
    /// Its pods do not.
    Apart(ApartProgram),
}

/// Something that happens after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Later {
    /// What an object made that is gone or in deletion is deleted.
    Collect(Owner),
    /// What an object made no longer has an owner, and the object goes.
    Orphan(Owner),
    /// A controller looks again.
    Start(ControllerName),
    /// A scheduler takes a PodGroup.
    Enqueue(usize),
}

/// A simulation that would take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many pods or Jobs, or too many failures or tries one after the other")]
pub struct TooLong;

impl World {
    fn new(script: Script, clock: Clock, has_wait_fault: bool) -> Self {
        let most_work = script.most_work.map_or(MOST_WORK, |most| most.min(MOST_WORK));
        Self {
            cluster: Cluster {
                clock,
                timed_actions: script.timed_actions,
                end_lag: script.end_lag,
                ..Cluster::default()
            },
            now: Time::START,
            main: Owner::Job(0),
            script,
            next_event: 0,
            jobs: JobController::new(has_wait_fault),
            ttl: TtlController::default(),
            cron_jobs: CronJobController::default(),
            operators: Vec::new(),
            cron_spec: Value::Null,
            programs: Vec::new(),
            weights: Vec::new(),
            hosts: None,
            rank_weight: None,
            submitters: Vec::new(),
            running: BTreeMap::new(),
            later: Vec::new(),
            work: 0,
            most_work,
        }
    }

    /// Makes a cluster with one Job.
    #[must_use]
    pub fn with_job(name: &str, spec: &Value, script: Script, clock: Clock, has_wait_fault: bool) -> Self {
        let mut world = Self::new(script, clock, has_wait_fault);
        world.add_job(name, JobSpec::from_spec(spec), json!({ "spec": spec.clone() }));
        world
    }

    /// Makes a cluster with one Job whose `spec` nothing changes, and in which little may happen.
    pub(super) fn with_spec(spec: JobSpec, script: Script, clock: Clock) -> Self {
        let mut world = Self::new(script, clock, false);
        world.add_job("", spec, Value::Null);
        world
    }

    /// Makes a cluster with one CronJob.
    #[must_use]
    pub fn with_cron_job(
        name: &str,
        spec: &Value,
        script: Script,
        clock: Clock,
        has_wait_fault: bool,
    ) -> Self {
        let mut world = Self::new(script, clock, has_wait_fault);
        world.cluster.cron_job = Some(CronJob {
            name: name.to_owned(),
            created: world.now,
            spec: CronJobSpec::from_spec(spec),
            active: Vec::new(),
            last_schedule: None,
            last_success: None,
        });
        world.cron_spec = spec.clone();
        world.tell(Event::CronJob);
        world
    }

    /// Makes a cluster with objects that are there some seconds before, an object and the operators of its kind; nothing
    /// where no operator of the kind is known.
    #[must_use]
    pub fn with_object(manifest: &Value, before: &[Value], script: Script, clock: Clock) -> Option<Self> {
        let settings = Settings { kueue: script.kueue.clone(), ..Settings::default() };
        Self::with_operators(manifest, before, script, clock, &settings)
    }

    /// Does the same with operators of given releases and settings.
    #[must_use]
    pub fn with_operators(
        manifest: &Value,
        before: &[Value],
        script: Script,
        clock: Clock,
        settings: &Settings,
    ) -> Option<Self> {
        let mut world = Self::new(script, clock, false);
        world.operators = operators::for_manifest(manifest, before, settings, world.script.map_order);
        if world.operators.is_empty() {
            return None;
        }
        if !before.is_empty() {
            world.now = Time::START - LEAD;
            for object in before {
                world.create(object, None);
            }
            world.run(Time::START - Time::from_millis(1)).ok()?;
            world.now = Time::START;
        }
        world.main = world.create(manifest, None)?;
        Some(world)
    }

    /// Gives the Job controller the fault of kubernetes#139428, which it has up to 1.36.2.
    #[must_use]
    pub fn with_wait_fault(mut self) -> Self {
        self.jobs.give_wait_fault();
        self
    }

    /// Returns when something happens next.
    #[must_use]
    pub(crate) fn due(&self) -> Option<Time> {
        let script = self.script.events.get(self.next_event).map(|(at, _)| *at);
        let live = self.live().filter(|(_, pods)| pods.gone.is_none());
        let pods = live.filter_map(|(program, _)| program.due()).min();
        let later = self.later.iter().map(|(at, _)| *at).min();
        let running = self.running.values().filter_map(|program| match program {
            JobProgram::Gang(gang) => gang.due(),
            JobProgram::Apart(_) => None,
        });
        let operators = self.operators.iter().filter_map(|operator| operator.due());
        let programs = running.chain(self.submitters_due()).min();
        let first = [script, pods, later, programs, self.jobs.due(), self.ttl.due(), self.cron_jobs.due()];
        first.into_iter().flatten().chain(operators).min()
    }

    /// Lets things happen until a moment.
    ///
    /// # Errors
    ///
    /// More work than a simulation does.
    pub fn run(&mut self, until: Time) -> Result<(), TooLong> {
        self.run_while(until, |_| true).map(|_| ())
    }

    /// Lets things happen until the object that is simulated ends or is gone, until nothing happens any more, or until a moment. Returns whether nothing
    /// happens any more.
    ///
    /// # Errors
    ///
    /// More work than a simulation does.
    pub(crate) fn run_to_end(&mut self, until: Time) -> Result<bool, TooLong> {
        let main = self.main;
        self.run_while(until, |cluster| !cluster.is_over(main))
    }

    /// Returns whether nothing happens any more.
    fn run_while(&mut self, until: Time, goes_on: impl Fn(&Cluster) -> bool) -> Result<bool, TooLong> {
        while goes_on(&self.cluster) {
            let Some(due) = self.due() else { return Ok(true) };
            if due > until {
                self.now = self.now.max(until);
                return Ok(false);
            }
            let looked_at = |pods: &PodGroup| 1 + pods.containers.len() / CONTAINERS_A_UNIT;
            self.cluster.settle();
            let pods = self.cluster.pods.iter().skip(self.cluster.settled);
            // Operators look through the objects for theirs, and one that tries again without end makes ever more.
            let objects = self.cluster.objects.len().saturating_sub(FEW_OBJECTS);
            self.spend(1 + objects + pods.map(looked_at).sum::<usize>())?;
            self.now = self.now.max(due);
            self.step(due)?;
        }
        Ok(false)
    }

    /// Returns the pods with their programs, but for the first that are gone.
    fn live(&self) -> impl Iterator<Item = (&PodProgram, &PodGroup)> {
        let settled = self.cluster.settled;
        self.programs.iter().skip(settled).zip(self.cluster.pods.iter().skip(settled))
    }

    /// Counts work: a unit for each thing that is looked at.
    fn spend(&mut self, units: usize) -> Result<(), TooLong> {
        self.work = self.work.saturating_add(units as u64);
        if self.work > self.most_work { Err(TooLong) } else { Ok(()) }
    }

    /// Does what is due: the world first, then the controllers.
    fn step(&mut self, due: Time) -> Result<(), TooLong> {
        if let Some((_, event)) = self.script.events.get(self.next_event).filter(|(at, _)| *at <= due) {
            let event = event.clone();
            self.next_event += 1;
            self.happen(event);
            return Ok(());
        }
        let is_due = |(at, _): &(Time, Later)| *at <= due;
        if let Some(nth) = self.later.iter().position(is_due) {
            let (_, later) = self.later.remove(nth);
            self.catch_up(later);
            return Ok(());
        }
        let is_due = |(program, pods): (&PodProgram, &PodGroup)| {
            pods.gone.is_none() && program.due().is_some_and(|at| at <= due)
        };
        let nth = self.live().position(is_due);
        if let Some(nth) = nth {
            self.step_pods(self.cluster.settled + nth);
            return Ok(());
        }
        let is_due = |program: &JobProgram| match program {
            JobProgram::Gang(gang) => gang.due().is_some_and(|at| at <= due),
            JobProgram::Apart(_) => false,
        };
        if let Some(root) = self.running.iter().find(|(_, program)| is_due(program)).map(|(root, _)| *root) {
            self.step_program(root);
            return Ok(());
        }
        if self.submitters_due().is_some_and(|at| at <= due) {
            self.step_submitters();
            return Ok(());
        }
        self.sync(due)
    }

    /// Lets the first controller that is due look at what it has to.
    fn sync(&mut self, due: Time) -> Result<(), TooLong> {
        let at = self.now;
        let is_due = |controller: &dyn Controller| controller.due().is_some_and(|next| next <= due);
        let standard: [&mut dyn Controller; 3] = [&mut self.jobs, &mut self.ttl, &mut self.cron_jobs];
        let controller = standard.into_iter().find(|controller| is_due(&**controller));
        if let Some(actions) = controller.map(|controller| controller.sync(&self.cluster, at)) {
            return self.apply(actions).map(|_| ());
        }
        let Some(nth) = self.operators.iter().position(|operator| is_due(&**operator)) else {
            return Ok(());
        };
        let Some(operator) = self.operators.get_mut(nth) else { return Ok(()) };
        let actions = operator.sync(&self.cluster, at);
        let is_refused = self.apply(actions)?;
        match self.operators.get_mut(nth) {
            Some(operator) if is_refused => operator.refuse(&self.cluster, at),
            Some(operator) => operator.accept(),
            None => {}
        }
        Ok(())
    }

    fn tell(&mut self, event: Event) {
        self.jobs.observe(event, &self.cluster, self.now);
        self.ttl.observe(event, &self.cluster, self.now);
        if self.cluster.cron_job.is_some() {
            self.cron_jobs.observe(event, &self.cluster, self.now);
        }
        for operator in &mut self.operators {
            operator.observe(event, &self.cluster, self.now + self.script.watch_delay);
        }
        if let Event::Pod(owner) = event {
            self.observe_ranks(owner, 0);
            self.observe_submitters();
        }
    }

    fn step_pods(&mut self, nth: usize) {
        let Some(owner) = self.cluster.pods.get(nth).and_then(|pods| self.cluster.owner_of(pods)) else {
            return;
        };
        let started = |world: &Self| world.cluster.pods.get(nth).and_then(|pods| pods.started);
        let before = started(self);
        let changed = self.in_pod(nth, |program, cluster, around| program.step(cluster, nth, around));
        if before.is_none() && started(self).is_some() {
            self.begin_submission(nth);
        }
        self.observe_silence(nth);
        if changed {
            self.tell(Event::Pod(owner));
            self.collect_owner(owner);
        }
    }
}
