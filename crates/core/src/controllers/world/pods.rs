//! Pods are made, each with its plan, and deleted.

use super::super::cluster::Event;
use super::super::indexes::Indexes;
use super::super::kubelet::PodProgram;
use super::super::pod::PodGroup;
use super::super::script::Plan;
use super::super::time::Time;
use super::{JobProgram, World};

impl World {
    pub(super) fn delete_pods(&mut self, nth: usize, grace: Time) {
        let Some(before) = self.cluster.pods.get(nth).filter(|pods| pods.gone.is_none()) else { return };
        let (job, was_deleted) = (before.job, before.deletion.is_some());
        let now = self.now;
        self.in_pod(nth, |program, cluster, _| {
            cluster.delete_pods(nth, grace, now);
            if let Some(pods) = cluster.pods.get(nth).filter(|_| !was_deleted) {
                program.on_deletion(pods, now);
            }
            true
        });
        self.tell(Event::Pod(job));
        self.collect_owner(job);
    }

    pub(super) fn create_pods(
        &mut self,
        job: usize,
        indexes: Option<&Indexes>,
        count: u32,
        counts: (u32, u32),
    ) {
        let Some(object) = self.cluster.jobs.get_mut(job) else { return };
        let first = object.made;
        object.made = object.made.saturating_add(count);
        let parts = match indexes {
            Some(indexes) => self.by_attempt(job, indexes),
            None => vec![(0, Indexes::from_range(first, first.saturating_add(count - 1)))],
        };
        for (attempt, members) in parts {
            for (plan, members) in self.by_plan(job, attempt, members, indexes.is_some()) {
                self.add_pods(job, attempt, members, counts, plan);
            }
        }
        self.tell(Event::Pod(job));
    }

    /// Adds pods; those that run a program of their own in groups that have as much left to do.
    fn add_pods(&mut self, job: usize, attempt: u32, members: Indexes, counts: (u32, u32), plan: Plan) {
        let runs = match self.running.get(&job).filter(|_| plan.follows_program && !plan.fails_by_itself) {
            Some(JobProgram::Apart(apart)) => apart.runs(&members),
            Some(JobProgram::Gang(_)) => vec![(members, None)],
            None => vec![(members, plan.run)],
        };
        for (members, run) in runs {
            self.add_group(job, attempt, members, counts, Plan { run, ..plan.clone() });
        }
    }

    fn add_group(
        &mut self,
        job: usize,
        attempt: u32,
        members: Indexes,
        (failures, ignored): (u32, u32),
        plan: Plan,
    ) {
        let program = PodProgram::new(plan, self.now);
        self.cluster.pods.push(PodGroup {
            attempt,
            failures,
            ignored,
            bound: program.is_bound(),
            ..PodGroup::new(job, members, self.now)
        });
        self.programs.push(program);
    }

    /// Returns indexes by how many pods they had.
    fn by_attempt(&self, job: usize, indexes: &Indexes) -> Vec<(u32, Indexes)> {
        let mut left = indexes.clone();
        let mut parts: Vec<(u32, Indexes)> = Vec::new();
        let mut before: Vec<&PodGroup> = self.cluster.pods.iter().filter(|pods| pods.job == job).collect();
        before.sort_by_key(|pods| std::cmp::Reverse(pods.attempt));
        for pods in before {
            if left.is_empty() {
                break;
            }
            let here = left.intersection(&pods.members);
            if here.is_empty() {
                continue;
            }
            left = left.without(&here);
            // Of one attempt they are made alike, whatever became of the ones before.
            match parts.last_mut() {
                Some((attempt, members)) if *attempt == pods.attempt + 1 => *members = members.union(&here),
                _ => parts.push((pods.attempt + 1, here)),
            }
        }
        if !left.is_empty() {
            parts.push((0, left));
        }
        parts
    }

    /// Returns pods by their plan.
    pub(super) fn by_plan(
        &self,
        job: usize,
        attempt: u32,
        members: Indexes,
        indexed: bool,
    ) -> Vec<(Plan, Indexes)> {
        let number = u32::try_from(job).unwrap_or(u32::MAX);
        let mut left = members;
        let mut parts = Vec::new();
        for rule in &self.script.plans {
            if left.is_empty() {
                break;
            }
            if rule.job.is_some_and(|jobs| !jobs.contains(number)) {
                continue;
            }
            let mut here = left.clone();
            if indexed {
                if rule.attempt.is_some_and(|attempts| !attempts.contains(attempt)) {
                    continue;
                }
                if let Some(range) = rule.index {
                    here = here.intersection(&range.indexes());
                }
            } else {
                if rule.index.is_some() {
                    continue;
                }
                if let Some(range) = rule.attempt {
                    here = here.intersection(&range.indexes());
                }
            }
            if !here.is_empty() {
                left = left.without(&here);
                parts.push((rule.plan.clone(), here));
            }
        }
        if !left.is_empty() {
            parts.push((Plan::default(), left));
        }
        parts
    }
}
