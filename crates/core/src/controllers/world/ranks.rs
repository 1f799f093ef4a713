//! The programs in the pods, and what their ranks notice of one another.

use super::super::cluster::{Cluster, Event};
use super::super::kubelet::{PodContext, PodProgram};
use super::super::pod::{Phase, PodGroup};
use super::super::pod_set::Owner;
use super::super::program::{RankCount, RankStep, times};
use super::super::script::Script;
use super::super::time::Time;
use super::{JobProgram, World};

impl World {
    /// Does something to pods of a group, and notes what their program loses by it.
    pub(super) fn in_pod(
        &mut self,
        nth: usize,
        act: impl FnOnce(&mut PodProgram, &mut Cluster, &PodContext<'_>) -> bool,
    ) -> bool {
        let Some(pods) = self.cluster.pods.get(nth) else { return false };
        let Some(set) = self.cluster.set_of(pods) else { return false };
        let (owner, template) = (set.owner, set.template.clone());
        let root = self.cluster.root(owner);
        let Some(program) = self.programs.get_mut(nth) else { return false };
        let was_working = program.is_working(pods);
        let Script { is_never_ready, is_seen_late, .. } = self.script;
        let around = PodContext { template: &template, is_never_ready, is_seen_late };
        let (restarts, phase) = (pods.restarts, pods.phase);
        let changed = act(program, &mut self.cluster, &around);
        let Some(pods) = self.cluster.pods.get(nth) else { return changed };
        if was_working
            && !program.is_working(pods)
            && let (Some(JobProgram::Apart(apart)), Some(started)) =
                (self.running.get_mut(&root), pods.started)
        {
            if pods.phase == Phase::Succeeded && !program.ended_early(pods) {
                apart.finish(&pods.members);
            } else {
                apart.lose(&pods.members, self.now - started);
            }
        }
        // A pod that gets SIGTERM and exits with 0 counts as done.
        if phase != Phase::Succeeded
            && pods.phase == Phase::Succeeded
            && program.ended_early(pods)
            && let Some(JobProgram::Apart(apart)) = self.running.get_mut(&root)
        {
            apart.has_ended_early = true;
        }
        if was_working && pods.restarts > restarts {
            let count = pods.count();
            self.observe_ranks(owner, count);
        }
        changed
    }

    /// Counts the ranks of the program of an object that nobody made.
    pub(super) fn ranks(&self, root: Owner) -> RankCount {
        let mut ranks = RankCount { wanted: self.ranks_wanted(root), ..RankCount::default() };
        let (mut started, mut hosts) = (0_u32, 0_u32);
        for (program, pods) in self.live() {
            if !program.is_working(pods) || !self.is_part(pods, root) {
                continue;
            }
            let count = if program.is_stale { &mut ranks.stale } else { &mut ranks.fresh };
            *count = count.saturating_add(pods.count());
            if program.ends_with_program() {
                started = started.saturating_add(pods.count());
            } else {
                hosts = hosts.saturating_add(pods.count());
            }
        }
        ranks.lacks_hosts = started > 0 && self.hosts.is_some_and(|wanted| hosts < wanted);
        ranks
    }

    /// Returns how much pods count where time is summed: how many there are, times the weight of their role.
    pub(crate) fn weight(&self, pods: &PodGroup) -> u32 {
        let role = self.cluster.set_of(pods).map(|set| &set.role);
        let weight = self.weights.iter().find(|(of, _)| Some(of) == role).map_or(1, |(_, weight)| *weight);
        pods.count().saturating_mul(weight)
    }

    fn ranks_wanted(&self, root: Owner) -> u32 {
        match root {
            Owner::Job(job) => self.cluster.jobs.get(job).map_or(0, |job| job.spec.at_once()),
            Owner::Object(object) => self.cluster.objects.get(object).map_or(0, |object| object.ranks),
        }
    }

    /// Leaves pods out that are not of the object that is simulated: somebody else's.
    pub(crate) fn forget_others(&mut self) {
        let (cluster, main) = (&self.cluster, self.main);
        let is_main: Vec<bool> = cluster
            .pods
            .iter()
            .map(|pods| cluster.owner_of(pods).is_some_and(|owner| cluster.root(owner) == main))
            .collect();
        let mut kept = is_main.into_iter();
        self.cluster.pods.retain(|_| kept.next().unwrap_or(true));
    }

    /// Tells whether pods go back to an object.
    fn is_part(&self, pods: &PodGroup, root: Owner) -> bool {
        self.cluster.owner_of(pods).is_some_and(|owner| self.cluster.root(owner) == root)
    }

    /// Lets the ranks of a program take notice of one another. Those that start again in their pods are missed for a moment.
    pub(super) fn observe_ranks(&mut self, owner: Owner, restarted: u32) {
        let root = self.cluster.root(owner);
        if !matches!(self.running.get(&root), Some(JobProgram::Gang(_))) {
            return;
        }
        let mut ranks = self.ranks(root);
        ranks.fresh = ranks.fresh.saturating_sub(restarted);
        let Some(JobProgram::Gang(gang)) = self.running.get_mut(&root) else { return };
        if let Some(RankStep::Break) = gang.observe(ranks, self.now) {
            let cluster = &self.cluster;
            let is_part =
                |pods: &PodGroup| cluster.owner_of(pods).map(|owner| cluster.root(owner)) == Some(root);
            for (program, pods) in self.programs.iter_mut().zip(&cluster.pods) {
                program.is_stale |= program.is_working(pods) && is_part(pods);
            }
        }
    }

    pub(super) fn step_program(&mut self, root: Owner) {
        let Some(JobProgram::Gang(gang)) = self.running.get_mut(&root) else { return };
        let (code, is_one) = match gang.step(self.now) {
            Some(RankStep::Finish) => (0, (|is_stale| !is_stale) as fn(bool) -> bool),
            Some(RankStep::Exit) => (1, (|is_stale| is_stale) as fn(bool) -> bool),
            Some(RankStep::GiveUp) => (1, (|_| true) as fn(bool) -> bool),
            _ => return,
        };
        // Those that serve do not exit, and are there for the next try.
        for program in self.programs.iter_mut().filter(|program| !program.ends_with_program()) {
            program.is_stale = false;
        }
        let mut owners: Vec<Owner> = Vec::new();
        for nth in 0..self.programs.len() {
            let is_here =
                self.programs.get(nth).zip(self.cluster.pods.get(nth)).is_some_and(|(program, pods)| {
                    program.is_working(pods)
                        && is_one(program.is_stale)
                        && program.ends_with_program()
                        && self.is_part(pods, root)
                });
            if !is_here {
                continue;
            }
            let at = self.now;
            self.in_pod(nth, |program, cluster, around| {
                program.exit(cluster, nth, around, code, at);
                true
            });
            let owner = self.cluster.pods.get(nth).and_then(|pods| self.cluster.owner_of(pods));
            owners.extend(owner.filter(|owner| owners.last() != Some(owner)));
        }
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            self.tell(Event::Pod(owner));
        }
        self.observe_ranks(root, 0);
    }

    /// Tells whether an object counts work as done that is not: pods that succeeded before the program did all of it. `succeeded`
    /// is how many it counts, if that is known.
    #[must_use]
    pub(crate) fn is_half_done(&self, root: Owner, wanted: Option<Time>, succeeded: Option<u32>) -> bool {
        match self.running.get(&root) {
            Some(JobProgram::Gang(gang)) => wanted.is_some_and(|wanted| gang.done(self.now) < wanted),
            Some(JobProgram::Apart(apart)) => apart.is_half_done(succeeded),
            None => false,
        }
    }

    /// Tells whether programs run in pods of an object.
    #[must_use]
    pub(crate) fn is_running(&self, root: Owner) -> bool {
        self.live().any(|(program, pods)| program.is_running(pods) && self.is_part(pods, root))
    }

    /// Returns the work that is lost and the work that is done of the program of an object, each summed over its pods;
    /// nothing where there is no program.
    #[must_use]
    pub(crate) fn work(&self, root: Owner) -> Option<(Time, Time)> {
        match self.running.get(&root)? {
            JobProgram::Gang(gang) => {
                let ranks = self.rank_weight.unwrap_or_else(|| self.ranks_wanted(root));
                Some((times(gang.lost, ranks), times(gang.done(self.now), ranks)))
            }
            JobProgram::Apart(apart) => Some((apart.lost, apart.done())),
        }
    }
}
