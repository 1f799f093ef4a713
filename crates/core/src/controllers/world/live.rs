//! A cluster that is there already: a Job of it with its pods, or an object of an operator with what that made.

use std::collections::BTreeMap;

use super::super::cluster::{Controller, Event, Job, JobStatus};
use super::super::job::resume::Record;
use super::super::job::spec::JobSpec;
use super::super::kubelet::{Course, PodProgram};
use super::super::meta::Propagation;
use super::super::object::{Object, ObjectStatus, PodGroupPhase};
use super::super::operators;
use super::super::pod::{Phase, PodGroup};
use super::super::pod_set::{Owner, PodSet};
use super::super::program::{ApartProgram, GangProgram, Peers, RankCount};
use super::super::script::Script;
use super::super::time::{Clock, Time};
use super::gc::COLLECTION;
use super::live_ray::GivenProgram;
use super::{JobProgram, Later, World};
use crate::text::value::{Value, json};

/// How long a scheduler may take for a new PodGroup; one that waits for longer waits for room in its queue.
const SCHEDULED: Time = Time::from_seconds(60);

/// What is there at the start of a world. Times count from that.
#[derive(Debug)]
pub(in super::super) struct Given {
    /// The object that is simulated.
    pub(in super::super) main: Owner,
    /// The custom resources, those that own others first.
    pub(in super::super) objects: Vec<Object>,
    pub(in super::super) jobs: Vec<GivenJob>,
    /// What pods have in common.
    pub(in super::super) sets: Vec<PodSet>,
    pub(in super::super) pods: Vec<(PodGroup, Course)>,
    /// The controllers of the operators. They start, as after a restart: what they had only in memory is lost.
    pub(in super::super) operators: Vec<Box<dyn Controller>>,
    /// On how many pods the program is started from another one; nothing where it is not.
    pub(in super::super) hosts: Option<u32>,
    /// Pods that their operator killed, as they are in `pods`.
    pub(in super::super) killed: Vec<PodGroup>,
    /// The programs of Ray clusters.
    pub(in super::super) programs: Vec<GivenProgram>,
    /// Whether the dashboards of Ray clusters do not answer.
    pub(in super::super) is_dashboard_down: bool,
    pub(in super::super) clock: Clock,
}

/// A Job that is there at the start of a world.
#[derive(Debug)]
pub(in super::super) struct GivenJob {
    pub(in super::super) name: String,
    pub(in super::super) owner: Option<Owner>,
    /// What its pods have in common, by its number.
    pub(in super::super) set: usize,
    pub(in super::super) spec: Value,
    pub(in super::super) created: Time,
    pub(in super::super) status: JobStatus,
    pub(in super::super) deletion: Option<(Time, Propagation)>,
    /// The failures that its controller has in memory.
    pub(in super::super) record: Record,
}

impl World {
    /// Makes a cluster with what is there already. All controllers look at once, as when they start; that of Jobs keeps its
    /// record of failures.
    #[must_use]
    pub(in super::super) fn from_live(given: Given, script: Script) -> Self {
        let Given { main, objects, jobs, sets, pods, operators, hosts, killed, programs, .. } = given;
        let clock = given.clock;
        let mut world = Self::new(script, clock, false);
        (world.main, world.hosts) = (main, hosts);
        world.cluster.sets = sets;
        world.cluster.objects = objects;
        for number in 0..world.cluster.objects.len() {
            let object = world.cluster.objects.get(number);
            let ranks = object.map(|object| operators::ranks(&world.cluster, object)).unwrap_or_default();
            if let Some(object) = world.cluster.objects.get_mut(number) {
                object.ranks = ranks;
                let deletion = object.deletion;
                world.collect_from(Owner::Object(number), deletion);
            }
        }
        let mut active: BTreeMap<usize, u32> = BTreeMap::new();
        for (pods, _) in pods.iter().filter(|(pods, _)| pods.is_active()) {
            let count = active.entry(pods.set).or_default();
            *count = count.saturating_add(pods.count());
        }
        for (number, job) in jobs.into_iter().enumerate() {
            let deletion = job.deletion;
            let made = active.get(&job.set).copied().unwrap_or_default();
            world.jobs.resume(number, job.record, Time::START);
            world.cluster.jobs.push(job.into_job(made));
            world.ttl.observe(Event::Job(number), &world.cluster, Time::START);
            world.collect_from(Owner::Job(number), deletion);
        }
        let is_apart = world.is_apart(&pods);
        world.add_live_pods(pods, is_apart);
        if !world.runs_beside() {
            world.start_program(is_apart);
        }
        world.cluster.dashboards.is_down = given.is_dashboard_down;
        world.resume_programs(&programs);
        world.expect_scheduler();
        world.operators = operators;
        for operator in &mut world.operators {
            operator.resume(&world.cluster, &killed, Time::START);
        }
        world
    }

    /// Tells whether the program runs beside the pods, as the dashboard of a Ray cluster says.
    fn runs_beside(&self) -> bool {
        let Owner::Object(main) = self.main else { return false };
        let main = self.cluster.objects.get(main);
        main.is_some_and(|object| ["RayCluster", "RayJob"].contains(&object.kind))
    }

    /// Lets a scheduler take PodGroups that are new.
    fn expect_scheduler(&mut self) {
        for number in 0..self.cluster.objects.len() {
            let is_new = self.cluster.objects.get(number).is_some_and(|object| {
                let is_open = matches!(
                    object.status,
                    ObjectStatus::Empty | ObjectStatus::PodGroup(PodGroupPhase::Pending)
                );
                object.kind == "PodGroup" && is_open && object.created + SCHEDULED > Time::START
            });
            if is_new {
                self.enqueue_later(number);
            }
        }
    }

    /// Lets the garbage collector look at what an object made that is in deletion.
    fn collect_from(&mut self, owner: Owner, deletion: Option<(Time, Propagation)>) {
        let Some((_, propagation)) = deletion else { return };
        let later = match propagation {
            Propagation::Orphan => Later::Orphan(owner),
            Propagation::Background | Propagation::Foreground => Later::Collect(owner),
        };
        self.later.push((COLLECTION, later));
    }

    /// Returns how many events of the script have not happened.
    #[must_use]
    pub(in super::super) fn events_left(&self) -> usize {
        self.script.events.len().saturating_sub(self.next_event)
    }

    /// Tells whether the pods do not need one another. Ranks of which some have done their work do not any more; those of a
    /// Job of an object that is complete were no ranks.
    fn is_apart(&self, pods: &[(PodGroup, Course)]) -> bool {
        let goes_on = |job: &&Job| self.main == Owner::Job(0) || job.status.finished().is_none();
        let is_done = |(pods, _): &(PodGroup, Course)| {
            let owner = self.cluster.sets.get(pods.set).map(|set| set.owner);
            let counts = match owner {
                Some(Owner::Job(job)) => self.cluster.jobs.get(job).as_ref().is_some_and(goes_on),
                _ => true,
            };
            counts && pods.phase == Phase::Succeeded && pods.gone.is_none()
        };
        self.script.program.is_some_and(|plan| plan.peers == Peers::Independent)
            || self.cluster.jobs.iter().filter(goes_on).any(|job| job.status.succeeded > 0)
            || pods.iter().any(is_done)
    }

    fn add_live_pods(&mut self, pods: Vec<(PodGroup, Course)>, is_apart: bool) {
        let run = self.script.program.filter(|_| is_apart).map(|plan| plan.startup + plan.runtime);
        for (group, course) in pods {
            if group.gone.is_some() {
                self.push(group, PodProgram::ended());
                continue;
            }
            let set = group.set;
            let is_indexed = self.cluster.sets.get(set).is_some_and(|set| set.indexed);
            // What a story does to one pod of several that are alike makes it another.
            for (plan, members) in self.by_plan(set, group.attempt, group.members.clone(), is_indexed) {
                let plan = self
                    .cluster
                    .sets
                    .get(set)
                    .map_or_else(|| plan.clone(), |set| self.beside_program(set, &plan));
                let group = PodGroup { members, ..group.clone() };
                let run = run.filter(|_| !plan.serves);
                let program = PodProgram::from_live(&group, course, plan, run);
                self.push(group, program);
                let nth = self.cluster.pods.len() - 1;
                self.observe_head(nth);
                self.observe_silence(nth);
            }
        }
    }

    fn push(&mut self, group: PodGroup, program: PodProgram) {
        self.cluster.pods.push(group);
        self.programs.push(program);
    }

    /// Starts the program where its pods are.
    fn start_program(&mut self, is_apart: bool) {
        let Some(plan) = self.script.program else { return };
        if is_apart {
            self.running.insert(self.main, JobProgram::Apart(ApartProgram::new(plan)));
            return;
        }
        let working = self.programs.iter().zip(&self.cluster.pods);
        let last = working
            .filter(|(program, pods)| program.is_working(pods))
            .filter_map(|(_, pods)| pods.started)
            .max();
        let mut gang = GangProgram::new(plan);
        let ranks = self.ranks(self.main);
        let last = last.unwrap_or_default();
        if ranks.fresh < ranks.wanted && self.has_lost_rank() {
            // All worked until one was lost. When the others take notice is not known: now, as they are still there.
            gang.observe(RankCount { fresh: ranks.wanted, stale: 0, ..ranks }, last);
            self.running.insert(self.main, JobProgram::Gang(gang));
            self.observe_ranks(self.main, 0);
            return;
        }
        gang.observe(ranks, last);
        self.running.insert(self.main, JobProgram::Gang(gang));
    }

    /// Tells whether a pod of an object ran, and does not any more while others do.
    fn has_lost_rank(&self) -> bool {
        let is_lost = |pods: &PodGroup| {
            pods.gone.is_none()
                && pods.started.is_some()
                && (pods.phase == Phase::Failed || pods.deletion.is_some())
        };
        matches!(self.main, Owner::Object(_)) && self.cluster.pods.iter().any(is_lost)
    }
}

impl GivenJob {
    fn into_job(self, made: u32) -> Job {
        Job {
            name: self.name,
            owner: self.owner,
            is_run: false,
            set: self.set,
            created: self.created,
            spec: JobSpec::from_spec(&self.spec),
            manifest: json!({ "spec": self.spec }),
            status: self.status,
            held: None,
            deletion: self.deletion,
            gone: None,
            made,
        }
    }
}
