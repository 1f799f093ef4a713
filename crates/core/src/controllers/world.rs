//! A cluster in which things happen: one queue drives the controllers, the kubelets and the script.

mod live;
mod pods;
mod ranks;

use std::collections::BTreeMap;

use super::cluster::{Action, Cluster, Controller as _, CronJob, Event, Job, JobStatus, Propagation};
use super::cron_job::{CronJobController, CronJobSpec};
use super::indexes::Indexes;
use super::job::JobController;
use super::job::spec::JobSpec;
use super::kubelet::PodProgram;
use super::pod::PodGroup;
use super::program::{ApartProgram, GangProgram, Peers};
use super::script::{ControllerName, Script, ScriptEvent};
use super::time::{Clock, Time};
use super::ttl::TtlController;
use crate::text::patch::merge;
use crate::text::value::Value;

pub(super) use live::Given;

/// How long the garbage collector takes.
const COLLECTION: Time = Time::from_millis(150);
/// How long a controller takes to start.
const CONTROLLER_START: Time = Time::from_millis(1_500);
/// Maximum work of a simulation: one unit for each group of pods at each step, and for each plan where pods are made. It is
/// about a second.
pub(crate) const MOST_WORK: u64 = 40_000_000;
/// How many containers with a status are one more unit of work: a pod of thousands of them is not one thing to look at.
const CONTAINERS_A_UNIT: usize = 8;

/// A cluster, its controllers and its nodes.
#[derive(Debug)]
pub struct World {
    /// The objects.
    pub cluster: Cluster,
    /// The moment.
    pub(crate) now: Time,
    script: Script,
    next_event: usize,
    jobs: JobController,
    ttl: TtlController,
    cron_jobs: CronJobController,
    /// The `spec` of the CronJob, as it stands.
    cron_spec: Value,
    programs: Vec<PodProgram>,
    /// The programs of Jobs.
    running: BTreeMap<usize, JobProgram>,
    /// The `spec` of each Job, as it stands.
    specs: Vec<Value>,
    /// What the garbage collector does, and controllers that start.
    later: Vec<(Time, Later)>,
    /// The work that was done, and the most that may be.
    pub(super) work: u64,
    most_work: u64,
}

/// The program of a Job.
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
    /// The pods of a Job that is gone or in deletion are deleted.
    CollectPods(usize),
    /// The pods of a Job no longer have an owner, and it goes.
    Orphan(usize),
    /// A controller looks again.
    Start(ControllerName),
}

/// A simulation that would take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many pods one after the other, or too many failures")]
pub struct TooLong;

impl World {
    fn new(script: Script, clock: Clock, has_wait_fault: bool) -> Self {
        Self {
            cluster: Cluster { clock, ..Cluster::default() },
            now: Time::START,
            script,
            next_event: 0,
            jobs: JobController::new(has_wait_fault),
            ttl: TtlController::default(),
            cron_jobs: CronJobController::default(),
            cron_spec: Value::Null,
            programs: Vec::new(),
            running: BTreeMap::new(),
            specs: Vec::new(),
            later: Vec::new(),
            work: 0,
            most_work: MOST_WORK,
        }
    }

    /// Makes a cluster with one Job.
    #[must_use]
    pub fn with_job(name: &str, spec: &Value, script: Script, clock: Clock, has_wait_fault: bool) -> Self {
        let mut world = Self::new(script, clock, has_wait_fault);
        world.add_job(name.to_owned(), JobSpec::from_spec(spec), spec.clone(), false);
        world
    }

    /// Makes a cluster with one Job whose `spec` nothing changes, and in which little may happen.
    pub(super) fn with_spec(spec: JobSpec, script: Script, clock: Clock, most_work: u64) -> Self {
        let world = Self::new(script, clock, false);
        let mut world = Self { most_work: most_work.min(MOST_WORK), ..world };
        world.add_job(String::new(), spec, Value::Null, false);
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

    fn add_job(&mut self, name: String, spec: JobSpec, source: Value, is_run: bool) {
        self.cluster.jobs.push(Job {
            name,
            is_run,
            created: self.now,
            spec,
            status: JobStatus::default(),
            deletion: None,
            gone: None,
            made: 0,
        });
        self.specs.push(source);
        let job = self.cluster.jobs.len() - 1;
        if let Some(plan) = self.script.program {
            let program = match plan.peers {
                Peers::Independent => JobProgram::Apart(ApartProgram::new(plan)),
                _ => JobProgram::Gang(GangProgram::new(plan)),
            };
            self.running.insert(job, program);
        }
        self.tell(Event::Job(job));
    }

    /// Returns when something happens next.
    #[must_use]
    pub(crate) fn due(&self) -> Option<Time> {
        let script = self.script.events.get(self.next_event).map(|(at, _)| *at);
        let pods = self.programs.iter().zip(&self.cluster.pods);
        let pods =
            pods.filter(|(_, pods)| pods.gone.is_none()).filter_map(|(program, _)| program.due()).min();
        let later = self.later.iter().map(|(at, _)| *at).min();
        let running = self.running.values().filter_map(|program| match program {
            JobProgram::Gang(gang) => gang.due(),
            JobProgram::Apart(_) => None,
        });
        [script, pods, later, running.min(), self.jobs.due(), self.ttl.due(), self.cron_jobs.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Lets things happen until a moment.
    ///
    /// # Errors
    ///
    /// More work than a simulation does.
    pub fn run(&mut self, until: Time) -> Result<(), TooLong> {
        self.run_while(until, |_| true).map(|_| ())
    }

    /// Lets things happen until the Job ends, until nothing happens any more, or until a moment. Returns whether nothing
    /// happens any more.
    ///
    /// # Errors
    ///
    /// More work than a simulation does.
    pub(crate) fn run_to_end(&mut self, until: Time) -> Result<bool, TooLong> {
        let is_left = |job: &Job| job.status.finished().is_none() && job.gone.is_none();
        self.run_while(until, |cluster| cluster.jobs.first().is_some_and(is_left))
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
            self.spend(1 + self.cluster.pods.iter().map(looked_at).sum::<usize>())?;
            self.now = self.now.max(due);
            self.step(due)?;
        }
        Ok(false)
    }

    /// Counts work: a unit for each thing that is looked at.
    fn spend(&mut self, units: usize) -> Result<(), TooLong> {
        self.work = self.work.saturating_add(units as u64);
        if self.work > self.most_work { Err(TooLong) } else { Ok(()) }
    }

    /// Does what is due: the world first, then the controllers.
    fn step(&mut self, due: Time) -> Result<(), TooLong> {
        let at = self.now;
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
        if let Some(nth) = self.programs.iter().zip(&self.cluster.pods).position(is_due) {
            self.step_pods(nth);
            return Ok(());
        }
        let is_due = |program: &JobProgram| match program {
            JobProgram::Gang(gang) => gang.due().is_some_and(|at| at <= due),
            JobProgram::Apart(_) => false,
        };
        if let Some(job) = self.running.iter().find(|(_, program)| is_due(program)).map(|(job, _)| *job) {
            self.step_program(job);
            return Ok(());
        }
        if self.jobs.due().is_some_and(|next| next <= due) {
            let actions = self.jobs.sync(&self.cluster, at);
            self.apply(actions)?;
        } else if self.ttl.due().is_some_and(|next| next <= due) {
            let actions = self.ttl.sync(&self.cluster, at);
            self.apply(actions)?;
        } else if self.cron_jobs.due().is_some_and(|next| next <= due) {
            let actions = self.cron_jobs.sync(&self.cluster, at);
            self.apply(actions)?;
        }
        Ok(())
    }

    fn tell(&mut self, event: Event) {
        self.jobs.observe(event, &self.cluster, self.now);
        self.ttl.observe(event, &self.cluster, self.now);
        if self.cluster.cron_job.is_some() {
            self.cron_jobs.observe(event, &self.cluster, self.now);
        }
        if let Event::Pod(job) = event {
            self.observe_ranks(job, 0);
        }
    }

    fn step_pods(&mut self, nth: usize) {
        let Some(job) = self.cluster.pods.get(nth).map(|pods| pods.job) else { return };
        let changed = self.in_pod(nth, |program, cluster, around| program.step(cluster, nth, around));
        if changed {
            self.tell(Event::Pod(job));
            self.collect_owner(job);
        }
    }

    fn happen(&mut self, event: ScriptEvent) {
        match event {
            ScriptEvent::Patch(patch) if self.cluster.cron_job.is_some() => self.patch_cron_job(&patch),
            ScriptEvent::Patch(patch) => self.patch(0, &patch),
            ScriptEvent::Delete(propagation, job) => {
                self.delete_job(job.map_or(0, |job| job as usize), propagation);
            }
            ScriptEvent::RefusePods(refuses) => self.cluster.refuses_pods = refuses,
            ScriptEvent::Stop(ControllerName::Job) => self.jobs.stop(),
            ScriptEvent::Stop(ControllerName::CronJob) => self.cron_jobs.stop(),
            ScriptEvent::Start(name) => self.later.push((self.now + CONTROLLER_START, Later::Start(name))),
        }
    }

    fn patch_cron_job(&mut self, patch: &Value) {
        merge(&mut self.cron_spec, patch);
        if let Some(cron_job) = &mut self.cluster.cron_job {
            cron_job.spec = CronJobSpec::from_spec(&self.cron_spec);
        }
        self.tell(Event::CronJob);
    }

    fn patch(&mut self, job: usize, patch: &Value) {
        let (Some(spec), Some(object)) = (self.specs.get_mut(job), self.cluster.jobs.get_mut(job)) else {
            return;
        };
        if object.gone.is_some() {
            return;
        }
        let mut patched = spec.clone();
        merge(&mut patched, patch);
        let now = JobSpec::from_spec(&patched);
        if !now.may_replace(&object.spec) {
            return;
        }
        *spec = patched;
        object.spec = now;
        // A group is of indexes that the Job has, or of others.
        if let (true, Some(end)) = (object.spec.indexed, object.spec.completions) {
            let here = Indexes::below(end);
            for nth in 0..self.cluster.pods.len() {
                if self.cluster.pods.get(nth).is_some_and(|pods| pods.job == job) {
                    self.split(nth, &here);
                }
            }
        }
        self.tell(Event::Job(job));
    }

    fn split(&mut self, pods: usize, members: &Indexes) -> Option<usize> {
        let part = self.cluster.split(pods, members)?;
        if part != pods
            && let Some(program) = self.programs.get(pods).cloned()
        {
            self.programs.push(program);
        }
        Some(part)
    }

    fn apply(&mut self, actions: Vec<Action>) -> Result<(), TooLong> {
        for action in actions {
            match action {
                Action::CreatePods { job, indexes, count, failures, ignored } => {
                    // Plans and earlier pods are looked through.
                    self.spend(self.script.plans.len() + self.cluster.pods.len())?;
                    self.create_pods(job, indexes.as_ref(), count, (failures, ignored));
                }
                Action::DeletePods { pods, members, is_released } => {
                    let Some(pods) = self.split(pods, &members) else { continue };
                    if is_released {
                        self.cluster.release_pods(pods, self.now);
                    }
                    let job = self.cluster.pods.get(pods).map(|pods| pods.job);
                    let grace = job.and_then(|job| self.cluster.jobs.get(job)).map(|job| job.spec.grace);
                    self.delete_pods(pods, grace.unwrap_or_default());
                }
                Action::ReleasePods { pods, members } => {
                    let Some(pods) = self.split(pods, &members) else { continue };
                    self.cluster.release_pods(pods, self.now);
                    if let Some(job) = self.cluster.pods.get(pods).map(|pods| pods.job) {
                        self.tell(Event::Pod(job));
                        self.collect_owner(job);
                    }
                }
                Action::WriteJob { job, mut status } => {
                    status.start = status.start.map(|start| self.cluster.clock.stored(start));
                    if let Some(job) = self.cluster.jobs.get_mut(job) {
                        job.status = *status;
                    }
                    self.tell(Event::JobStatus(job));
                }
                Action::DeleteJob { job, propagation } => self.delete_job(job, propagation),
                Action::CreateJob { name } => {
                    let template =
                        self.cluster.cron_job.as_ref().map(|cron_job| cron_job.spec.template.clone());
                    let template = template.unwrap_or_default();
                    self.add_job(name, JobSpec::from_spec(&template), template, true);
                }
                Action::WriteCronJob { active, last_schedule, last_success } => {
                    if let Some(cron_job) = &mut self.cluster.cron_job {
                        (cron_job.active, cron_job.last_schedule, cron_job.last_success) =
                            (active, last_schedule, last_success);
                    }
                    self.tell(Event::CronJob);
                }
            }
        }
        Ok(())
    }

    fn delete_job(&mut self, job: usize, propagation: Propagation) {
        let Some(object) = self.cluster.jobs.get_mut(job) else { return };
        if object.gone.is_some() || object.deletion.is_some() {
            return;
        }
        object.deletion = Some((self.now, propagation));
        match propagation {
            Propagation::Background => {
                self.go(job);
                self.later.push((self.now + COLLECTION, Later::CollectPods(job)));
            }
            Propagation::Foreground => {
                self.tell(Event::Job(job));
                self.later.push((self.now + COLLECTION, Later::CollectPods(job)));
            }
            Propagation::Orphan => {
                self.tell(Event::Job(job));
                self.later.push((self.now + COLLECTION, Later::Orphan(job)));
            }
        }
    }

    /// Takes a Job away; the controller takes the finalizers from the pods that are left.
    fn go(&mut self, job: usize) {
        if let Some(object) = self.cluster.jobs.get_mut(job) {
            object.gone = Some(self.now);
        }
        self.tell(Event::JobGone(job));
        for nth in 0..self.cluster.pods.len() {
            if self.cluster.pods.get(nth).is_some_and(|pods| pods.job == job) {
                self.cluster.release_pods(nth, self.now);
            }
        }
    }

    fn catch_up(&mut self, later: Later) {
        match later {
            Later::CollectPods(job) => {
                let grace = self.cluster.jobs.get(job).map_or(Time::START, |job| job.spec.grace);
                for nth in 0..self.cluster.pods.len() {
                    let is_left =
                        |pods: &PodGroup| pods.job == job && pods.gone.is_none() && pods.deletion.is_none();
                    if self.cluster.pods.get(nth).is_some_and(is_left) {
                        self.delete_pods(nth, grace);
                    }
                }
                self.collect_owner(job);
            }
            Later::Orphan(job) => self.go(job),
            Later::Start(ControllerName::Job) => self.jobs.start(&self.cluster, self.now),
            Later::Start(ControllerName::CronJob) => self.cron_jobs.start(self.now),
        }
    }

    /// Takes a Job away whose pods had to go first.
    fn collect_owner(&mut self, job: usize) {
        let Some(object) = self.cluster.jobs.get(job) else { return };
        let waits = object.gone.is_none()
            && object.deletion.is_some_and(|(at, propagation)| {
                propagation == Propagation::Foreground && self.now - at >= COLLECTION
            });
        if waits && !self.cluster.has_pods(job) {
            self.go(job);
        }
    }
}
