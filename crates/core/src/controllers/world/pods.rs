//! Pods are made, each with its plan, and deleted.

use super::super::cluster::Event;
use super::super::indexes::Indexes;
use super::super::kubelet::PodProgram;
use super::super::pod::PodGroup;
use super::super::pod_set::Owner;
use super::super::program::times;
use super::super::script::Plan;
use super::super::time::Time;
use super::{JobProgram, World};

/// A pod of a Volcano Job that never started and was deleted within this time is one that its controller made by mistake.
const BLINK: Time = Time::from_millis(500);

/// How long one after the other pods end that would end in one moment, and for how many that is tried.
const APART: Time = Time::from_millis(50);
const MOST_APART: u32 = 16;

impl World {
    /// Returns the grace period of pods.
    pub(super) fn grace_of(&self, nth: usize) -> Time {
        let set = self.cluster.pods.get(nth).and_then(|pods| self.cluster.set_of(pods));
        set.map(|set| set.template.grace).unwrap_or_default()
    }

    pub(super) fn delete_pods(&mut self, nth: usize, grace: Time) {
        let Some(before) = self.cluster.pods.get(nth).filter(|pods| pods.gone.is_none()) else { return };
        let (owner, was_deleted) = (self.cluster.owner_of(before), before.deletion.is_some());
        let now = self.now;
        self.in_pod(nth, |program, cluster, _| {
            cluster.delete_pods(nth, grace, now);
            if let Some(pods) = cluster.pods.get(nth).filter(|_| !was_deleted) {
                program.on_deletion(pods, now);
            }
            true
        });
        if let Some(owner) = owner {
            self.tell(Event::Pod(owner));
            self.collect_owner(owner);
        }
    }

    /// Makes a group of its own of some pods. Returns its number: that of the group where these are all.
    pub(super) fn split(&mut self, pods: usize, members: &Indexes) -> Option<usize> {
        let part = self.cluster.split(pods, members)?;
        if part != pods
            && let Some(program) = self.programs.get(pods).cloned()
        {
            self.programs.push(program);
        }
        Some(part)
    }

    /// Adds pods of a Job.
    pub(super) fn create_pods(
        &mut self,
        job: usize,
        indexes: Option<&Indexes>,
        count: u32,
        counts: (u32, u32),
    ) {
        let Some(object) = self.cluster.jobs.get_mut(job) else { return };
        let (first, set) = (object.made, object.set);
        object.made = object.made.saturating_add(count);
        let parts = match indexes {
            Some(indexes) => self.by_attempt(set, indexes),
            None => vec![(0, Indexes::from_range(first, first.saturating_add(count - 1)))],
        };
        for (attempt, members) in parts {
            for (plan, members) in self.by_plan(set, attempt, members, indexes.is_some()) {
                self.add_pods(set, attempt, members, counts, plan);
            }
        }
        self.tell(Event::Pod(Owner::Job(job)));
    }

    /// Adds pods of a custom resource.
    pub(super) fn add_members(&mut self, set: usize, indexes: &Indexes) {
        let indexed = self.cluster.sets.get(set).is_some_and(|set| set.indexed);
        let parts = if indexed { self.by_attempt(set, indexes) } else { vec![(0, indexes.clone())] };
        for (attempt, members) in parts {
            for (plan, members) in self.by_plan(set, attempt, members, indexed) {
                self.add_pods(set, attempt, members, (0, 0), plan);
            }
        }
        if let Some(owner) = self.cluster.sets.get(set).map(|set| set.owner) {
            self.tell(Event::Pod(owner));
        }
    }

    /// Adds pods; those that run a program of their own in groups that have as much left to do.
    fn add_pods(&mut self, set: usize, attempt: u32, members: Indexes, counts: (u32, u32), plan: Plan) {
        let root = self.cluster.sets.get(set).map(|set| self.cluster.root(set.owner));
        let plan =
            self.cluster.sets.get(set).map_or_else(|| plan.clone(), |set| self.beside_program(set, &plan));
        let running = root.and_then(|root| self.running.get(&root));
        let runs = match running.filter(|_| plan.follows_program && !plan.fails_by_itself) {
            Some(JobProgram::Apart(apart)) => apart.runs(&members),
            Some(JobProgram::Gang(_)) => vec![(members, None)],
            None => vec![(members, plan.run)],
        };
        let serves = plan.serves && !plan.fails_by_itself;
        for (members, run) in self.apart(runs) {
            let run = run.filter(|_| !serves);
            self.add_group(set, attempt, members, counts, Plan { run, ..plan.clone() });
        }
    }

    /// Lets pods that would end in one moment end one after the other, where that is asked for: the later ones first.
    fn apart(&self, runs: Vec<(Indexes, Option<Time>)>) -> Vec<(Indexes, Option<Time>)> {
        if !self.script.ends_apart {
            return runs;
        }
        let here = u32::try_from(self.cluster.pods.len()).unwrap_or(u32::MAX);
        let each = |(members, run): (Indexes, Option<Time>)| {
            let one = |nth: u32, member: u32| {
                let later = times(APART, MOST_APART.saturating_sub(here.saturating_add(nth)));
                (Indexes::from_range(member, member), run.map(|run| run + later))
            };
            if members.len() > MOST_APART {
                return vec![(members, run)];
            }
            (0..).zip(members.iter()).map(|(nth, member)| one(nth, member)).collect::<Vec<_>>()
        };
        runs.into_iter().flat_map(each).collect()
    }

    fn add_group(
        &mut self,
        set: usize,
        attempt: u32,
        members: Indexes,
        (failures, ignored): (u32, u32),
        plan: Plan,
    ) {
        let program = PodProgram::new(plan, self.now);
        let owner = self.cluster.sets.get(set).map(|set| set.owner);
        self.cluster.pods.push(PodGroup {
            attempt,
            failures,
            ignored,
            finalizer: matches!(owner, Some(Owner::Job(_))),
            bound: program.is_bound(),
            ..PodGroup::new(set, members, self.now)
        });
        self.programs.push(program);
        self.observe_head(self.cluster.pods.len() - 1);
    }

    /// Returns indexes by how many pods they had in their role.
    fn by_attempt(&self, set: usize, indexes: &Indexes) -> Vec<(u32, Indexes)> {
        let mut left = indexes.clone();
        let mut parts: Vec<(u32, Indexes)> = Vec::new();
        let role = self.cluster.sets.get(set).map(|set| &set.role);
        let is_of_role = |pods: &&PodGroup| self.cluster.set_of(pods).map(|set| &set.role) == role;
        let counts = |pods: &&PodGroup| !self.is_blink(pods);
        // From the last, they are nearly in order.
        let before = self.cluster.pods.iter().rev().filter(is_of_role).filter(counts);
        let mut before: Vec<&PodGroup> = before.collect();
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

    /// Tells whether pods of a Volcano Job were deleted so soon that they are no attempt of their index.
    fn is_blink(&self, pods: &PodGroup) -> bool {
        let is_short = || pods.deletion.is_some_and(|deletion| deletion.since - pods.created <= BLINK);
        let is_volcano = || match self.cluster.owner_of(pods) {
            Some(Owner::Object(object)) => {
                self.cluster.objects.get(object).is_some_and(|object| object.kind == "VolcanoJob")
            }
            _ => false,
        };
        pods.started.is_none() && is_short() && is_volcano()
    }

    /// Returns pods by their plan.
    pub(super) fn by_plan(
        &self,
        set: usize,
        attempt: u32,
        members: Indexes,
        indexed: bool,
    ) -> Vec<(Plan, Indexes)> {
        let Some(set) = self.cluster.sets.get(set) else { return vec![(Plan::default(), members)] };
        let number = match set.owner {
            Owner::Job(job) => u32::try_from(job).unwrap_or(u32::MAX),
            Owner::Object(_) => 0,
        };
        let mut left = members;
        let mut parts = Vec::new();
        for rule in &self.script.plans {
            if left.is_empty() {
                break;
            }
            if rule.job.is_some_and(|jobs| !jobs.contains(number))
                || rule.round.is_some_and(|rounds| !rounds.contains(set.round))
                || rule.role.as_ref().is_some_and(|role| *role != set.role)
            {
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
            parts.push((self.unplanned(set), left));
        }
        parts
    }
}
