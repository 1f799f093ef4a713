//! What the program in the pods does: whether its ranks need one another, how long it takes, and what is left of its work
//! when one of them is lost.

use super::indexes::Indexes;
use super::time::Time;

/// What is assumed of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramPlan {
    /// The work, in time of undisturbed running.
    pub runtime: Time,
    /// From when all its pods run until it works: imports, rendezvous, loading a checkpoint.
    pub startup: Time,
    /// How often it saves its work; nothing if it never does.
    pub checkpoint: Option<Time>,
    /// What the other ranks do when one is lost.
    pub peers: Peers,
}

/// What the other ranks do when one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// They notice after a time, and exit with 1.
    Exit(Time),
    /// They wait without end.
    Hang,
    /// They go back to their last checkpoint and wait for the new rank in their pods, so many times; then they exit.
    Restart(u32),
    /// They do not need one another.
    Independent,
}

/// How long an agent that has no restarts left takes to exit.
const LAST_EXIT: Time = Time::from_seconds(30);

/// How long a launcher tries to reach a host that is not there.
const HOST_WAIT: Time = Time::from_seconds(60);

/// A program whose ranks need one another.
#[derive(Clone, Debug)]
pub(super) struct GangProgram {
    plan: ProgramPlan,
    /// What is saved.
    saved: Time,
    /// Since when all ranks are there.
    running: Option<Time>,
    /// When those exit that miss another.
    exit: Option<Time>,
    /// When those exit that find no host to run on.
    give_up: Option<Time>,
    restarts: u32,
    /// Work that was done twice, in time of one rank.
    pub(super) lost: Time,
}

/// The ranks of a program, as they are now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankCount {
    /// How many there should be.
    pub(super) wanted: u32,
    /// How many work or wait for the others.
    pub(super) fresh: u32,
    /// How many wait for one that is lost.
    pub(super) stale: u32,
    /// Whether ranks are there that are to be started on others, and some of those are not: `mpirun` and its hosts.
    pub(super) lacks_hosts: bool,
}

/// What ranks do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankStep {
    /// Those that work wait for one that is lost.
    Break,
    /// Those that wait for one that is lost exit with 1.
    Exit,
    /// Those that find no host to run on exit with 1.
    GiveUp,
    /// All have done their work.
    Finish,
}

impl GangProgram {
    pub(super) fn new(plan: ProgramPlan) -> Self {
        let restarts = if let Peers::Restart(times) = plan.peers { times } else { 0 };
        Self {
            plan,
            saved: Time::START,
            running: None,
            exit: None,
            give_up: None,
            restarts,
            lost: Time::START,
        }
    }

    /// Returns when something happens next.
    pub(super) fn due(&self) -> Option<Time> {
        let end = self.running.map(|since| since + self.plan.startup + (self.plan.runtime - self.saved));
        end.into_iter().chain(self.exit).chain(self.give_up).min()
    }

    /// Returns the work that is done, in time of one rank.
    pub(super) fn done(&self, at: Time) -> Time {
        let working = self.running.map_or(Time::START, |since| at - since - self.plan.startup);
        (self.saved + working.max(Time::START)).min(self.plan.runtime)
    }

    /// Takes notice of the ranks that are there.
    pub(super) fn observe(&mut self, ranks: RankCount, at: Time) -> Option<RankStep> {
        if self.running.is_some() && ranks.fresh < ranks.wanted {
            let done = self.done(at);
            self.saved = saved(done, self.plan.checkpoint);
            self.lost = self.lost + (done - self.saved);
            self.running = None;
            match self.plan.peers {
                Peers::Exit(after) => self.exit = Some(at + after),
                Peers::Restart(_) if self.restarts > 0 => {
                    self.restarts -= 1;
                    return None;
                }
                Peers::Restart(_) => self.exit = Some(at + LAST_EXIT),
                Peers::Hang | Peers::Independent => {}
            }
            return Some(RankStep::Break);
        }
        if self.running.is_none() && ranks.wanted > 0 && ranks.fresh >= ranks.wanted && ranks.stale == 0 {
            self.running = Some(at);
        }
        self.give_up = match self.give_up {
            _ if self.running.is_some() || self.exit.is_some() || !ranks.lacks_hosts => None,
            None => Some(at + HOST_WAIT),
            waiting => waiting,
        };
        None
    }

    /// Does what is due.
    pub(super) fn step(&mut self, at: Time) -> Option<RankStep> {
        if self.give_up.is_some_and(|give_up| give_up <= at) {
            self.give_up = None;
            return Some(RankStep::GiveUp);
        }
        if self.exit.is_some_and(|exit| exit <= at) {
            self.exit = None;
            return Some(RankStep::Exit);
        }
        if self.due().is_some_and(|due| due <= at) {
            self.running = None;
            self.saved = self.plan.runtime;
            return Some(RankStep::Finish);
        }
        None
    }
}

/// A program whose pods do not need one another.
#[derive(Clone, Debug)]
pub(super) struct ApartProgram {
    plan: ProgramPlan,
    /// What is saved, by completion index.
    saved: Vec<(Indexes, Time)>,
    /// Work that was done twice, summed over pods.
    pub(super) lost: Time,
    /// Work of pods that did all of theirs, summed, and how many there were.
    finished: Time,
    finishes: u32,
    /// Whether a pod succeeded before it had done its work.
    pub(super) has_ended_early: bool,
}

impl ApartProgram {
    pub(super) fn new(plan: ProgramPlan) -> Self {
        let (saved, lost, finished) = (Vec::new(), Time::START, Time::START);
        Self { plan, saved, lost, finished, finishes: 0, has_ended_early: false }
    }

    /// Returns the work that is done, summed over pods.
    pub(super) fn done(&self) -> Time {
        let saved = self.saved.iter().map(|(indexes, saved)| times(*saved, indexes.len()));
        saved.fold(self.finished, |all, saved| all + saved)
    }

    /// Tells whether so many successes, if they are known, are more than the pods that did their work: one that is in deletion may
    /// count as failed although it succeeds.
    pub(super) fn is_half_done(&self, succeeded: Option<u32>) -> bool {
        self.has_ended_early && succeeded.is_none_or(|succeeded| succeeded > self.finishes)
    }

    /// Notes that pods did their work.
    pub(super) fn finish(&mut self, members: &Indexes) {
        self.finishes = self.finishes.saturating_add(members.len());
        self.finished = self.finished + times(self.plan.runtime, members.len());
        self.forget(members);
    }

    fn forget(&mut self, members: &Indexes) {
        for (indexes, _) in &mut self.saved {
            *indexes = indexes.without(members);
        }
        self.saved.retain(|(indexes, _)| !indexes.is_empty());
    }

    /// Returns how long new pods run, by what their indexes have saved.
    pub(super) fn runs(&self, members: &Indexes) -> Vec<(Indexes, Option<Time>)> {
        let whole = self.plan.startup + self.plan.runtime;
        let mut left = members.clone();
        let mut runs = Vec::new();
        for (indexes, saved) in &self.saved {
            let here = left.intersection(indexes);
            if !here.is_empty() {
                left = left.without(&here);
                runs.push((here, Some(whole - *saved)));
            }
        }
        if !left.is_empty() {
            runs.push((left, Some(whole)));
        }
        runs
    }

    /// Notes that pods were lost after they ran for a time.
    pub(super) fn lose(&mut self, members: &Indexes, ran: Time) {
        for (indexes, left) in self.runs(members) {
            let before = self.plan.startup + self.plan.runtime - left.unwrap_or_default();
            let done = before + (ran - self.plan.startup).max(Time::START);
            let kept = saved(done, self.plan.checkpoint);
            self.lost = self.lost + times(done - kept, indexes.len());
            self.forget(&indexes);
            self.saved.push((indexes, kept));
        }
    }
}

/// Returns the time of so many pods.
pub(crate) fn times(time: Time, count: u32) -> Time {
    Time::from_millis(time.millis().saturating_mul(i64::from(count)))
}

/// Returns what of some work is saved.
fn saved(done: Time, checkpoint: Option<Time>) -> Time {
    match checkpoint.map(Time::millis) {
        Some(every) if every > 0 => Time::from_millis(done.millis() / every * every),
        _ => Time::START,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Time = Time::from_seconds(3_600);
    const MINUTE: Time = Time::from_seconds(60);

    #[test]
    fn a_gang_loses_what_it_did_since_the_last_checkpoint() {
        let plan = ProgramPlan {
            runtime: HOUR,
            startup: MINUTE,
            checkpoint: Some(Time::from_seconds(600)),
            peers: Peers::Exit(MINUTE),
        };
        let mut gang = GangProgram::new(plan);
        let ranks = |fresh, stale| RankCount { wanted: 4, fresh, stale, lacks_hosts: false };
        assert_eq!(gang.observe(ranks(3, 0), Time::START), None);
        assert_eq!(gang.due(), None);
        gang.observe(ranks(4, 0), MINUTE);
        assert_eq!(gang.due(), Some(MINUTE + MINUTE + HOUR));
        // Twenty-five minutes of work.
        let lost_at = Time::from_seconds(27 * 60);
        assert_eq!(gang.observe(ranks(3, 0), lost_at), Some(RankStep::Break));
        assert_eq!((gang.lost, gang.due()), (Time::from_seconds(300), Some(lost_at + MINUTE)));
        assert_eq!(gang.step(lost_at + MINUTE), Some(RankStep::Exit));
        gang.observe(ranks(4, 0), HOUR);
        assert_eq!(gang.due(), Some(HOUR + MINUTE + Time::from_seconds(40 * 60)));
        assert_eq!(gang.step(HOUR + HOUR), Some(RankStep::Finish));
    }

    #[test]
    fn pods_that_do_not_need_one_another_go_on_from_their_own_checkpoint() {
        let plan = ProgramPlan {
            runtime: HOUR,
            startup: Time::START,
            checkpoint: Some(Time::from_seconds(600)),
            peers: Peers::Independent,
        };
        let mut apart = ApartProgram::new(plan);
        let one = Indexes::from_range(1, 1);
        apart.lose(&one, Time::from_seconds(900));
        assert_eq!(apart.lost, Time::from_seconds(300));
        let rest = Time::from_seconds(3_000);
        assert_eq!(apart.runs(&Indexes::below(2)), [(one, Some(rest)), (Indexes::below(1), Some(HOUR))]);
    }
}
