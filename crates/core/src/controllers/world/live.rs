//! A cluster that is there already: a Job of it, with its pods.

use std::sync::Arc;

use super::super::cluster::{Controller as _, Event, Job, JobStatus};
use super::super::job::resume::Record;
use super::super::job::spec::JobSpec;
use super::super::kubelet::{Course, PodProgram};
use super::super::meta::Propagation;
use super::super::pod::{Phase, PodGroup};
use super::super::pod_set::{Owner, PodSet, PodTemplate};
use super::super::program::{ApartProgram, GangProgram, Peers};
use super::super::script::Script;
use super::super::time::{Clock, Time};
use super::gc::COLLECTION;
use super::{JobProgram, Later, World};
use crate::text::value::{Value, json};

/// A Job that is there at the start of a world. Times count from that.
#[derive(Debug)]
pub(in super::super) struct Given {
    pub(in super::super) name: String,
    pub(in super::super) spec: Value,
    pub(in super::super) created: Time,
    pub(in super::super) status: JobStatus,
    pub(in super::super) deletion: Option<(Time, Propagation)>,
    /// The failures that its controller has in memory.
    pub(in super::super) record: Record,
    pub(in super::super) pods: Vec<(PodGroup, Course)>,
    pub(in super::super) clock: Clock,
}

impl World {
    /// Makes a cluster with a Job that is there already. All controllers look at once, as when they start; that of Jobs
    /// keeps its record of failures.
    #[must_use]
    pub(in super::super) fn from_live(given: Given, script: Script) -> Self {
        let Given { name, spec, created, status, deletion, record, pods, clock } = given;
        let mut world = Self::new(script, clock, false);
        let read = JobSpec::from_spec(&spec);
        let (owner, role, template) = (Owner::Job(0), Arc::from(name.as_str()), PodTemplate::from_job(&read));
        let indexed = read.indexed;
        world.cluster.sets.push(PodSet { owner, role, round: 0, indexed, template });
        let made = pods.iter().filter(|(pods, _)| pods.is_active()).map(|(pods, _)| pods.count());
        world.cluster.jobs.push(Job {
            name,
            owner: None,
            is_run: false,
            set: 0,
            created,
            manifest: json!({ "spec": spec }),
            spec: read,
            status,
            held: None,
            deletion,
            gone: None,
            made: made.fold(0, u32::saturating_add),
        });
        let is_apart = world.is_apart(&pods);
        world.add_live_pods(pods, is_apart);
        world.start_program(is_apart);
        world.jobs.resume(0, record, Time::START);
        world.ttl.observe(Event::Job(0), &world.cluster, Time::START);
        if let Some((_, propagation)) = deletion {
            let later = match propagation {
                Propagation::Orphan => Later::Orphan(owner),
                Propagation::Background | Propagation::Foreground => Later::Collect(owner),
            };
            world.later.push((COLLECTION, later));
        }
        world
    }

    /// Returns how many events of the script have not happened.
    #[must_use]
    pub(in super::super) fn events_left(&self) -> usize {
        self.script.events.len().saturating_sub(self.next_event)
    }

    /// Tells whether the pods do not need one another. Ranks of which some have done their work do not any more.
    fn is_apart(&self, pods: &[(PodGroup, Course)]) -> bool {
        self.script.program.is_some_and(|plan| plan.peers == Peers::Independent)
            || self.cluster.jobs.first().is_some_and(|job| job.status.succeeded > 0)
            || pods.iter().any(|(pods, _)| pods.phase == Phase::Succeeded && pods.gone.is_none())
    }

    fn add_live_pods(&mut self, pods: Vec<(PodGroup, Course)>, is_apart: bool) {
        let is_indexed = self.cluster.jobs.first().is_some_and(|job| job.spec.indexed);
        let run = self.script.program.filter(|_| is_apart).map(|plan| plan.startup + plan.runtime);
        for (group, course) in pods {
            if group.gone.is_some() {
                self.push(group, PodProgram::ended());
                continue;
            }
            // What a story does to one pod of several that are alike makes it another.
            for (plan, members) in self.by_plan(0, group.attempt, group.members.clone(), is_indexed) {
                let group = PodGroup { members, ..group.clone() };
                let program = PodProgram::of_live(&group, course, plan, run);
                self.push(group, program);
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
            self.running.insert(Owner::Job(0), JobProgram::Apart(ApartProgram::new(plan)));
            return;
        }
        let working = self.programs.iter().zip(&self.cluster.pods);
        let last = working
            .filter(|(program, pods)| program.is_working(pods))
            .filter_map(|(_, pods)| pods.started)
            .max();
        let mut gang = GangProgram::new(plan);
        let ranks = self.ranks(Owner::Job(0));
        gang.observe(ranks, last.unwrap_or_default());
        self.running.insert(Owner::Job(0), JobProgram::Gang(gang));
    }
}
