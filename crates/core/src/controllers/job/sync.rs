//! One sync of a Job, in the order of `syncJob` (`pkg/controller/job/job_controller.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::cluster::{Action, Cluster, Job, JobStatus};
use super::super::indexes::Indexes;
use super::super::meta::Condition;
use super::super::pod::{Phase, PodGroup};
use super::super::time::Time;
use super::BATCH;
use super::backoff::{BackoffRecord, remaining};
use super::end::End;
use super::policy::matched;
use super::spec::{FailureAction, JobSpec};

/// How many pods are made or deleted in one sync (`MaxPodCreateDeletePerSync`).
pub(super) const MOST_PODS: u32 = 500;

/// What came of a sync.
pub(super) struct SyncOutcome {
    /// When to look again, if nothing happens before.
    pub(super) wait: Option<Time>,
    /// Whether the rest is done when others have seen what was done first, and may have changed the Job.
    pub(super) is_unfinished: bool,
    /// What was done; where the API server refused the status, only what came before.
    pub(super) done: Result<SyncDone, Vec<Action>>,
}

/// What a sync did that went through.
pub(super) struct SyncDone {
    pub(super) actions: Vec<Action>,
    /// The record of failures, where it is kept.
    pub(super) record: Option<BackoffRecord>,
    /// Whether the API server refused pods, or the last condition.
    pub(super) is_refused: bool,
}

/// A sync of one Job.
pub(super) struct JobSync<'a> {
    pub(super) cluster: &'a Cluster,
    number: usize,
    job: &'a Job,
    pub(super) spec: &'a JobSpec,
    at: Time,
    pub(super) pods: Vec<(usize, &'a PodGroup)>,
    record: BackoffRecord,
    status: JobStatus,
    succeeded: u32,
    failed: u32,
    /// Done indexes, those of this sync among them.
    done: Indexes,
    failed_indexes: Option<Indexes>,
    /// Per index: the failed pods that keep the count of their index until they are replaced.
    kept: BTreeMap<usize, Indexes>,
    end: Option<End>,
    pub(super) active: u32,
    pub(super) ready: u32,
    pub(super) terminating: u32,
    wait: Option<Time>,
    is_unfinished: bool,
    pub(super) actions: Vec<Action>,
    is_refused: bool,
    /// How many pods it makes.
    made: u32,
}

fn count<'a>(pods: impl IntoIterator<Item = &'a PodGroup>) -> u32 {
    pods.into_iter().map(PodGroup::count).fold(0, u32::saturating_add)
}

pub(super) fn members<'a>(pods: impl IntoIterator<Item = &'a PodGroup>) -> Indexes {
    pods.into_iter().map(|pods| &pods.members).collect()
}

pub(super) fn is_valid(spec: &JobSpec, pods: &PodGroup) -> bool {
    !spec.indexed || pods.members.first().is_some_and(|first| spec.completions.is_none_or(|end| first < end))
}

impl<'a> JobSync<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        number: usize,
        job: &'a Job,
        record: &BackoffRecord,
        at: Time,
    ) -> Self {
        let pods: Vec<(usize, &PodGroup)> = cluster.pods_of(number).collect();
        let active = count(pods.iter().filter(|(_, pods)| pods.is_active()).map(|(_, pods)| *pods));
        let is_ready = |pods: &PodGroup| pods.is_active() && pods.is_ready();
        let ready = count(pods.iter().filter(|(_, pods)| is_ready(pods)).map(|(_, pods)| *pods));
        let terminating = count(pods.iter().filter(|(_, pods)| pods.is_terminating()).map(|(_, pods)| *pods));
        Self {
            cluster,
            number,
            job,
            spec: &job.spec,
            at,
            pods,
            record: record.clone(),
            status: job.status.clone(),
            succeeded: 0,
            failed: 0,
            done: Indexes::default(),
            failed_indexes: None,
            kept: BTreeMap::new(),
            end: None,
            active,
            ready,
            terminating,
            wait: None,
            is_unfinished: false,
            actions: Vec::new(),
            is_refused: false,
            made: 0,
        }
    }

    pub(super) fn run(mut self, has_wait_fault: bool) -> SyncOutcome {
        self.count();
        self.end();
        let mut is_waiting = false;
        let mut is_managed = false;
        if self.end.is_some() {
            self.stop();
        } else if self.job.deletion.is_none() {
            is_managed = true;
            is_waiting = self.manage();
        }
        let active = if is_waiting && has_wait_fault { 0 } else { self.active };
        let is_complete = match self.spec.completions {
            None => self.succeeded > 0 && active == 0,
            Some(completions) => self.succeeded >= completions && active == 0,
        };
        if self.end.is_none() && is_complete {
            self.end = Some(End::success("CompletionsReached", "Reached expected number of succeeded pods"));
        } else if self.end.is_none() && is_managed {
            if self.spec.suspend && !self.actions.is_empty() {
                // The condition follows when all pods are deleted, if the Job is still suspended then.
                self.is_unfinished = true;
            } else {
                self.suspend();
            }
        }
        (self.status.active, self.status.ready) = (active, Some(self.ready));
        self.status.terminating = Some(self.terminating);
        let done_before = self.actions.len();
        self.release();
        self.finish();
        let is_changed = self.status != self.job.status;
        let is_held = self.job.held.is_some_and(|until| self.at < until);
        if is_changed && (self.ready > active || is_held) {
            // The API server: "cannot set more ready pods than active", or that the Job was written since.
            self.actions.truncate(done_before);
            return SyncOutcome { wait: self.wait, is_unfinished: false, done: Err(self.actions) };
        }
        // The API server refuses the last condition of a Job without a start time: one that is suspended.
        let is_refused = self.is_refused || self.status.finished().is_some() && self.status.start.is_none();
        if self.status.start.is_none() {
            self.status.conditions.retain(|condition| !["Complete", "Failed"].contains(&condition.sort));
        }
        let is_changed = self.status != self.job.status;
        let record = is_changed.then_some(self.record);
        if is_changed {
            let (job, status) = (self.number, Box::new(self.status));
            self.actions.push(Action::WriteJob { job, status });
        }
        let done = SyncDone { actions: self.actions, record, is_refused };
        SyncOutcome { wait: self.wait, is_unfinished: self.is_unfinished, done: Ok(done) }
    }

    /// Tells whether pods are of an index that the Job has.
    fn is_valid(&self, pods: &PodGroup) -> bool {
        is_valid(self.spec, pods)
    }

    /// Tells whether pods failed, as the Job sees it (`isPodFailed`).
    fn is_failed(&self, pods: &PodGroup) -> bool {
        pods.phase == Phase::Failed
            || !self.spec.only_failed && pods.deletion.is_some() && pods.phase != Phase::Succeeded
    }

    /// Returns the groups that have not been counted.
    fn uncounted(&self) -> impl Iterator<Item = (usize, &'a PodGroup)> {
        self.pods.iter().copied().filter(|(_, pods)| pods.finalizer && self.is_valid(pods))
    }

    fn later(&mut self, wait: Time) {
        self.wait = Some(self.wait.map_or(wait, |other| other.min(wait)));
    }

    /// Counts what has ended, and sets the start.
    fn count(&mut self) {
        let succeeded: Vec<&PodGroup> =
            self.uncounted().map(|(_, pods)| pods).filter(|pods| pods.phase == Phase::Succeeded).collect();
        let failed: Vec<&PodGroup> =
            self.uncounted().map(|(_, pods)| pods).filter(|pods| self.is_failed(pods)).collect();
        let counted = failed.iter().copied().filter(|pods| matched(self.spec, pods).counts());
        self.failed = self.status.failed.saturating_add(count(counted));
        self.succeeded = self.status.succeeded.saturating_add(count(succeeded.iter().copied()));
        if self.status.start.is_none() && !self.spec.suspend {
            self.status.start = Some(self.at);
        }
        self.record = self.record.with(&succeeded, &failed, self.cluster.clock);
        if self.spec.indexed {
            let prior = self.status.completed.intersection(&self.spec.indexes());
            self.done = prior.union(&members(succeeded));
            self.succeeded = self.done.len();
        }
    }

    /// Decides whether the Job ends.
    fn end(&mut self) {
        let spec = self.spec;
        self.end = self.written_end().or_else(|| self.failed_by_policy()).or_else(|| self.limit());
        if self.end.is_none()
            && let (Some(deadline), Some(start), false) = (spec.deadline, self.status.start, spec.suspend)
        {
            self.later(start + deadline - self.at);
        }
        if !spec.indexed {
            return;
        }
        if let Some(limit) = spec.backoff_limit_per_index {
            let failed = self.indexes_failed(limit);
            if self.end.is_none() {
                if spec.max_failed_indexes.is_some_and(|most| failed.len() > most) {
                    let message = "Job has exceeded the specified maximal number of failed indexes";
                    self.end = Some(End::failure("MaxFailedIndexesExceeded", message));
                } else if !failed.is_empty()
                    && spec.completions.is_some_and(|all| failed.len().saturating_add(self.done.len()) >= all)
                {
                    self.end = Some(End::failure("FailedIndexes", "Job has failed indexes"));
                }
            }
            self.kept = self.kept(&failed);
            self.failed_indexes = Some(failed);
        }
        if self.end.is_none() && !self.done.is_empty() {
            let met = spec.success_policy.iter().flatten().position(|rule| rule.is_met(&self.done));
            let message = |nth: usize| format!("Matched rules at index {nth}");
            self.end = met.map(|nth| End::success("SuccessPolicy", message(nth)));
        }
    }

    fn written_end(&self) -> Option<End> {
        if let Some(condition) = self.status.condition("SuccessCriteriaMet") {
            return Some(End::from_written(condition, true));
        }
        self.status.condition("FailureTarget").map(|condition| End::from_written(condition, false))
    }

    fn failed_by_policy(&self) -> Option<End> {
        let failed = self.pods.iter().filter(|(_, pods)| self.is_failed(pods));
        let message = failed.filter_map(|(_, pods)| {
            let matched = matched(self.spec, pods);
            matched.message.filter(|_| matched.action == Some(FailureAction::FailJob))
        });
        message.into_iter().next().map(|message| End::failure("PodFailurePolicy", message))
    }

    fn limit(&self) -> Option<End> {
        let restarts = self.pods.iter().filter(|(_, pods)| !pods.is_ended());
        let restarts: u64 =
            restarts.map(|(_, pods)| u64::from(pods.restarts) * u64::from(pods.count())).sum();
        let limit = u64::from(self.spec.backoff_limit);
        let is_past_in_place = self.spec.restarts_in_place && restarts > 0 && restarts >= limit;
        if self.failed > self.spec.backoff_limit || is_past_in_place {
            let message = "Job has reached the specified backoff limit";
            return Some(End::failure("BackoffLimitExceeded", message));
        }
        let (deadline, start) = (self.spec.deadline?, self.status.start?);
        let is_past = !self.spec.suspend && self.at - start >= deadline;
        let message = "Job was active longer than specified deadline";
        is_past.then(|| End::failure("DeadlineExceeded", message))
    }

    /// Returns the indexes that failed for good (`calculateFailedIndexes`).
    fn indexes_failed(&self, limit: u32) -> Indexes {
        let prior = self.status.failed_indexes.clone().unwrap_or_default();
        let is_failed = |pods: &PodGroup| {
            let matched = matched(self.spec, pods);
            matched.action == Some(FailureAction::FailIndex) || matched.counts() && pods.failures >= limit
        };
        let failed = self.uncounted().map(|(_, pods)| pods);
        let failed = failed.filter(|pods| self.is_failed(pods) && is_failed(pods));
        prior.intersection(&self.spec.indexes()).union(&members(failed))
    }

    /// Returns the failed pods that keep their finalizer (`getPodsWithDelayedDeletionPerIndex`).
    fn kept(&self, failed: &Indexes) -> BTreeMap<usize, Indexes> {
        let active = members(self.pods.iter().filter(|(_, pods)| pods.is_active()).map(|(_, pods)| *pods));
        let mut settled = [&active, &self.done, failed].into_iter().collect::<Indexes>();
        let mut last: Vec<(usize, &PodGroup)> =
            self.uncounted().filter(|(_, pods)| self.is_failed(pods)).collect();
        // Of an index with several, the one with the highest count, and of those the last.
        last.sort_by_key(|(_, pods)| pods.failures.saturating_add(pods.ignored));
        let mut kept = BTreeMap::new();
        for (nth, pods) in last.into_iter().rev() {
            let here = pods.members.without(&settled);
            if !here.is_empty() {
                settled = settled.union(&here);
                kept.insert(nth, here);
            }
        }
        kept
    }

    /// Deletes the active pods of a Job that ends.
    fn stop(&mut self) {
        let active: Vec<(usize, Indexes)> = self.active_pods();
        for (pods, members) in active {
            self.actions.push(Action::DeletePods { pods, members, is_released: false });
        }
        self.terminating = self.terminating.saturating_add(self.active);
        (self.active, self.ready) = (0, 0);
    }

    fn active_pods(&self) -> Vec<(usize, Indexes)> {
        let active = self.pods.iter().filter(|(_, pods)| pods.is_active());
        active.map(|(nth, pods)| (*nth, pods.members.clone())).collect()
    }

    /// Makes or deletes pods. Returns whether some are missing and have to wait.
    fn manage(&mut self) -> bool {
        if self.spec.suspend {
            self.remove(self.active);
            return false;
        }
        let terminating = if self.spec.only_failed { self.terminating } else { 0 };
        let wanted = match self.spec.completions {
            None if self.succeeded > 0 => self.active,
            None => self.spec.parallelism,
            Some(completions) => completions.saturating_sub(self.succeeded).min(self.spec.parallelism),
        };
        let out_of_range = self.pods.iter().filter(|(_, pods)| pods.is_active() && !self.is_valid(pods));
        let out_of_range = count(out_of_range.map(|(_, pods)| *pods));
        let surplus = self.active.saturating_sub(wanted).max(out_of_range);
        if surplus > 0 {
            self.remove(surplus);
            return false;
        }
        let missing = wanted.saturating_sub(self.active).saturating_sub(terminating);
        if missing == 0 {
            return false;
        }
        if self.spec.backoff_limit_per_index.is_none() {
            let wait = self.record.remaining(self.at);
            if wait > Time::START {
                self.later(wait.max(BATCH));
                return true;
            }
        }
        let missing = missing.min(MOST_PODS);
        if !self.spec.indexed {
            self.create(None, missing, 0, 0);
            return false;
        }
        self.create_indexes(missing)
    }

    fn create_indexes(&mut self, missing: u32) -> bool {
        let is_taken = |pods: &PodGroup| pods.is_active() || self.spec.only_failed && pods.is_terminating();
        let taken = members(self.pods.iter().filter(|(_, pods)| is_taken(pods)).map(|(_, pods)| *pods));
        let mut settled = taken.union(&self.done);
        if let Some(failed) = &self.failed_indexes {
            settled = settled.union(failed);
        }
        let pending = self.spec.indexes().without(&settled).lowest(missing);
        let mut first = pending.clone();
        let (mut nearest, mut is_made) = (None, false);
        // Each index waits for itself, where it has a limit of its own.
        for (nth, indexes) in self.kept.clone() {
            let indexes = indexes.intersection(&pending);
            let Some(last) = self.cluster.pods.get(nth).filter(|_| !indexes.is_empty()) else { continue };
            first = first.without(&indexes);
            let failures = last.failures.saturating_add(last.ignored).saturating_add(1);
            let wait = remaining(failures, last.finished(self.cluster.clock), self.at);
            if wait > Time::START {
                nearest = Some(nearest.map_or(wait, |other: Time| other.min(wait)));
                continue;
            }
            is_made = true;
            let ignored = u32::from(!matched(self.spec, last).counts());
            let (failures, ignored) = (last.failures + 1 - ignored, last.ignored + ignored);
            self.create(Some(indexes.clone()), indexes.len(), failures, ignored);
        }
        if !first.is_empty() {
            is_made = true;
            self.create(Some(first.clone()), first.len(), 0, 0);
        }
        match nearest.filter(|_| !is_made) {
            Some(wait) => {
                self.later(wait.max(BATCH));
                true
            }
            None => false,
        }
    }

    fn create(&mut self, indexes: Option<Indexes>, count: u32, failures: u32, ignored: u32) {
        let room = self.cluster.room_for(&self.spec.demand, count.saturating_add(self.made));
        let room = room.saturating_sub(self.made);
        self.is_refused |= room < count;
        if room == 0 {
            return;
        }
        let (count, indexes) = (room.min(count), indexes.map(|indexes| indexes.lowest(room)));
        self.made += count;
        self.active += count;
        self.actions.push(Action::CreatePods { job: self.number, indexes, count, failures, ignored });
    }

    /// Keeps the condition `Suspended` in step.
    fn suspend(&mut self) {
        let (is_true, reason, message) = if self.spec.suspend {
            (true, "JobSuspended", "Job suspended")
        } else {
            (false, "JobResumed", "Job resumed")
        };
        let (reason, message) = (Cow::Borrowed(reason), message.to_owned());
        let condition = Condition { sort: "Suspended", is_true, reason, message, at: self.at };
        if self.status.set(condition) {
            self.status.start = (!is_true).then_some(self.at);
        }
    }

    /// Counts pods and takes their finalizer (`trackJobStatusAndRemoveFinalizers`).
    fn release(&mut self) {
        let is_over = self.end.is_some() || self.job.deletion.is_some();
        let is_failure = self.end.as_ref().is_some_and(|end| !end.is_success);
        let (mut succeeded, mut failed) = (0_u32, 0_u32);
        for &(nth, pods) in self.pods.iter().filter(|(_, pods)| pods.finalizer) {
            let considered_failed = self.is_failed(pods);
            if !is_over && pods.phase != Phase::Succeeded && !considered_failed {
                continue;
            }
            let mut members = pods.members.clone();
            if let Some(kept) = self.kept.get(&nth).filter(|_| !is_over && pods.phase != Phase::Succeeded) {
                members = members.without(kept);
            }
            if members.is_empty() {
                continue;
            }
            if pods.phase == Phase::Succeeded {
                succeeded = succeeded.saturating_add(members.len());
            } else if (considered_failed || is_failure)
                && self.is_valid(pods)
                && matched(self.spec, pods).counts()
            {
                failed = failed.saturating_add(members.len());
            }
            self.actions.push(Action::ReleasePods { pods: nth, members });
        }
        self.status.failed = self.status.failed.saturating_add(failed);
        if self.spec.indexed {
            self.status.succeeded = self.done.len();
            self.status.completed = self.done.clone();
            self.status.failed_indexes = self.failed_indexes.clone();
        } else {
            self.status.succeeded = self.status.succeeded.saturating_add(succeeded);
        }
    }

    /// Writes the conditions of a Job that ends. The last one waits for pods that are terminating.
    fn finish(&mut self) {
        let Some(End { is_success, reason, message, is_written }) = self.end.take() else { return };
        let (before, last) =
            if is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        let condition = |sort| Condition {
            sort,
            is_true: true,
            reason: reason.clone(),
            message: message.clone(),
            at: self.at,
        };
        if !is_written {
            self.status.set(condition(before));
        }
        if self.terminating == 0 {
            if !is_written && !is_success {
                self.is_unfinished = true;
                return;
            }
            self.status.set(condition(last));
        }
    }
}
