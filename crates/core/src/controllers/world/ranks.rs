//! The programs in the pods, and what their ranks notice of one another.

use std::sync::Arc;

use super::super::cluster::{Cluster, Event};
use super::super::kubelet::{PodContext, PodProgram};
use super::super::pod::Phase;
use super::super::program::{RankCount, RankStep, times};
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
        let job = pods.job;
        let Some(spec) = self.cluster.jobs.get(job).map(|job| &job.spec) else { return false };
        let Some(program) = self.programs.get_mut(nth) else { return false };
        let was_working = program.is_working(pods);
        let (containers, grace, restarts_in_place) =
            (Arc::clone(&spec.containers), spec.grace, spec.restarts_in_place);
        let is_never_ready = self.script.is_never_ready;
        let around = PodContext { containers: &containers, grace, is_never_ready, restarts_in_place };
        let (restarts, phase) = (pods.restarts, pods.phase);
        let changed = act(program, &mut self.cluster, &around);
        let Some(pods) = self.cluster.pods.get(nth) else { return changed };
        if was_working
            && !program.is_working(pods)
            && let (Some(JobProgram::Apart(apart)), Some(started)) =
                (self.running.get_mut(&job), pods.started)
        {
            if pods.phase == Phase::Succeeded && !program.ended_early(pods) {
                apart.finish(&pods.members);
            } else {
                apart.lose(&pods.members, self.now - started);
            }
        }
        // A pod that was told to end and exits with 0 counts as done.
        if phase != Phase::Succeeded
            && pods.phase == Phase::Succeeded
            && program.ended_early(pods)
            && let Some(JobProgram::Apart(apart)) = self.running.get_mut(&job)
        {
            apart.is_half_done = true;
        }
        if was_working && pods.restarts > restarts {
            let count = pods.count();
            self.observe_ranks(job, count);
        }
        changed
    }

    pub(super) fn ranks(&self, job: usize) -> RankCount {
        let Some(spec) = self.cluster.jobs.get(job).map(|job| &job.spec) else { return RankCount::default() };
        let mut ranks = RankCount {
            wanted: spec.completions.map_or(spec.parallelism, |all| all.min(spec.parallelism)),
            ..RankCount::default()
        };
        for (program, pods) in self.programs.iter().zip(&self.cluster.pods) {
            if pods.job != job || !program.is_working(pods) {
                continue;
            }
            let count = if program.is_stale { &mut ranks.stale } else { &mut ranks.fresh };
            *count = count.saturating_add(pods.count());
        }
        ranks
    }

    /// Lets the ranks of a Job take notice of one another. Those that start again in their pods are missed for a moment.
    pub(super) fn observe_ranks(&mut self, job: usize, restarted: u32) {
        if !matches!(self.running.get(&job), Some(JobProgram::Gang(_))) {
            return;
        }
        let mut ranks = self.ranks(job);
        ranks.fresh = ranks.fresh.saturating_sub(restarted);
        let Some(JobProgram::Gang(gang)) = self.running.get_mut(&job) else { return };
        if let Some(RankStep::Break) = gang.observe(ranks, self.now) {
            for (program, pods) in self.programs.iter_mut().zip(&self.cluster.pods) {
                program.is_stale |= pods.job == job && program.is_working(pods);
            }
        }
    }

    pub(super) fn step_program(&mut self, job: usize) {
        let Some(JobProgram::Gang(gang)) = self.running.get_mut(&job) else { return };
        let (code, is_stale) = match gang.step(self.now) {
            Some(RankStep::Finish) => (0, false),
            Some(RankStep::Exit) => (1, true),
            _ => return,
        };
        for nth in 0..self.programs.len() {
            let is_one =
                self.programs.get(nth).zip(self.cluster.pods.get(nth)).is_some_and(|(program, pods)| {
                    pods.job == job && program.is_working(pods) && program.is_stale == is_stale
                });
            if is_one {
                let at = self.now;
                self.in_pod(nth, |program, cluster, around| {
                    program.exit(cluster, nth, around, code, at);
                    true
                });
            }
        }
        self.tell(Event::Pod(job));
    }

    /// Tells whether a Job counts work as done that is not: pods that succeeded before the program did all of it.
    #[must_use]
    pub(crate) fn is_half_done(&self, job: usize, wanted: Option<Time>) -> bool {
        match self.running.get(&job) {
            Some(JobProgram::Gang(gang)) => wanted.is_some_and(|wanted| gang.done(self.now) < wanted),
            Some(JobProgram::Apart(apart)) => apart.is_half_done,
            None => false,
        }
    }

    /// Tells whether programs run in pods of a Job.
    #[must_use]
    pub(crate) fn is_running(&self, job: usize) -> bool {
        let mut pods = self.programs.iter().zip(&self.cluster.pods).filter(|(_, pods)| pods.job == job);
        pods.any(|(program, pods)| program.is_running(pods))
    }

    /// Returns the work that is lost and the work that is done of the program of a Job, each summed over its pods; nothing
    /// where there is no program.
    #[must_use]
    pub(crate) fn work(&self, job: usize) -> Option<(Time, Time)> {
        match self.running.get(&job)? {
            JobProgram::Gang(gang) => {
                let ranks = self.ranks(job).wanted;
                Some((times(gang.lost, ranks), times(gang.done(self.now), ranks)))
            }
            JobProgram::Apart(apart) => Some((apart.lost, apart.done())),
        }
    }
}
