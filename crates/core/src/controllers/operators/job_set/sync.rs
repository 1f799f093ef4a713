//! One sync of a JobSet, in the order of `reconcile` (`pkg/controllers/jobset_controller.go`).

use std::borrow::Cow;

use super::super::super::cluster::{Action, Cluster};
use super::super::super::meta::{Condition, Propagation};
use super::super::super::object::{JobSetStatus, Object, ObjectStatus};
use super::super::super::time::Time;
use super::JobSetRelease;
use super::children::{Child, Children};
use super::rules::{FailureAction, FailurePolicy, Rule, first_failed};
use super::spec::JobSetSpec;

/// Conditions of which one being true makes the other false (`exclusiveConditions`).
const STARTING: &str = "StartupPolicyInProgress";
const STARTED: &str = "StartupPolicyCompleted";
/// The condition that a JobSet restarts. It is new in 0.12.
const RESTARTING: &str = "RestartingJobSet";
/// The message of the condition `Completed`.
const COMPLETED: &str = "jobset completed successfully";

/// What came of a sync.
pub(super) struct SyncOutcome {
    /// What is done.
    pub(super) actions: Vec<Action>,
    /// When to look again, if nothing happens before.
    pub(super) again: Option<Time>,
    /// Whether it ended in an error.
    pub(super) is_error: bool,
}

/// A sync of one JobSet.
pub(super) struct JobSetSync<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) number: usize,
    pub(super) object: &'a Object,
    pub(super) spec: &'a JobSetSpec,
    release: JobSetRelease,
    at: Time,
    pub(super) children: Children<'a>,
    conditions: Vec<Condition>,
    pub(super) status: JobSetStatus,
    pub(super) actions: Vec<Action>,
    /// How many values there are in the Jobs that are made.
    pub(super) made: usize,
    again: Option<Time>,
    is_error: bool,
}

impl<'a> JobSetSync<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        number: usize,
        object: &'a Object,
        spec: &'a JobSetSpec,
        release: JobSetRelease,
        at: Time,
    ) -> Self {
        let status = match &object.status {
            ObjectStatus::JobSet(status) => status.clone(),
            _ => JobSetStatus::default(),
        };
        Self {
            cluster,
            number,
            object,
            spec,
            release,
            at,
            children: Children::find(cluster, number, status.restarts, release),
            conditions: object.conditions.clone(),
            status,
            actions: Vec::new(),
            made: 0,
            again: None,
            is_error: false,
        }
    }

    pub(super) fn run(mut self) -> SyncOutcome {
        self.status.replicated_jobs = self.children.statuses(self.spec);
        self.reconcile();
        let status = ObjectStatus::JobSet(self.status);
        if !self.is_error && (self.conditions != self.object.conditions || status != self.object.status) {
            let conditions = self.conditions;
            self.actions.push(Action::WriteObject { object: self.number, conditions, status });
        }
        SyncOutcome { actions: self.actions, again: self.again, is_error: self.is_error }
    }

    /// Does the steps, each of which may be the last.
    fn reconcile(&mut self) {
        if let Some(finished) = self.finished() {
            self.delete(&self.children.active.clone());
            self.expire(finished);
            return;
        }
        self.delete(&self.children.previous.clone());
        if !self.spec.suspend && self.all_jobs_are_ready() {
            self.stop_restarting("JobsReady", "all jobs are ready");
        }
        if !self.children.failed.is_empty() {
            self.apply_failure_policy();
            return;
        }
        if !self.children.successful.is_empty() && self.is_successful() {
            self.end("Completed", "AllJobsCompleted", COMPLETED.to_owned());
            self.stop_restarting("JobSetCompleted", COMPLETED);
            return;
        }
        self.create_jobs();
        if self.spec.suspend {
            self.suspend();
        } else {
            self.resume();
        }
    }

    /// Returns when it ended (`jobSetFinished`).
    fn finished(&self) -> Option<Time> {
        let is_end =
            |condition: &&Condition| condition.is_true && ["Completed", "Failed"].contains(&condition.sort);
        self.conditions.iter().find(is_end).map(|condition| condition.at)
    }

    /// Deletes Jobs, and waits for their pods; those in deletion stay (`deleteJobs`).
    fn delete(&mut self, children: &[Child<'a>]) {
        for child in children.iter().filter(|child| child.job.deletion.is_none()) {
            let (job, propagation) = (child.number, Propagation::Foreground);
            self.actions.push(Action::DeleteJob { job, propagation });
        }
    }

    /// Deletes a JobSet that ended, after its time (`ttl_after_finished.go`). The time counts in whole seconds.
    fn expire(&mut self, finished: Time) {
        let Some(ttl) = self.spec.ttl else { return };
        let expiry = self.cluster.clock.stored(finished) + ttl;
        if expiry <= self.at {
            let (object, propagation) = (self.number, Propagation::Foreground);
            self.actions.push(Action::DeleteObject { object, propagation });
        } else {
            self.again = Some(expiry);
        }
    }

    /// Tells whether each Job is ready, or done (`allJobsReady`).
    fn all_jobs_are_ready(&self) -> bool {
        let statuses = self.status.replicated_jobs.iter();
        let ready: u64 = statuses.map(|status| u64::from(status.ready) + u64::from(status.succeeded)).sum();
        ready == self.spec.replicas()
    }

    /// Fails or restarts for a failed Job (`failure_policy.go`, `executeFailurePolicy`).
    fn apply_failure_policy(&mut self) {
        let spec = self.spec;
        let Some(policy) = &spec.failure else {
            let first = first_failed(self.cluster, &self.children.failed);
            self.fail("FailedJobs", "jobset failed due to one or more job failures", first);
            return;
        };
        let (rule, first) = policy.matched(self.cluster, &self.children.failed);
        match rule.map_or(FailureAction::Restart, |rule| rule.action) {
            FailureAction::Fail => {
                let message = "applying FailJobSet failure policy action";
                self.fail("FailJobSetFailurePolicyAction", message, first);
            }
            FailureAction::Restart => self.restart_counted(policy, rule, first),
            FailureAction::RestartUncounted => self.restart("RestartJobSetAndIgnoreMaxRestarts", rule, first),
            FailureAction::Unknown => self.is_error = true,
        }
    }

    fn restart_counted(&mut self, policy: &FailurePolicy, rule: Option<&Rule>, first: Option<Child<'_>>) {
        if self.status.restarts_count_towards_max >= policy.max_restarts {
            self.fail("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts", first);
            return;
        }
        self.status.restarts_count_towards_max += 1;
        self.restart("RestartJobSet", rule, first);
    }

    /// Begins the next attempt: with the write of its number, all Jobs are of an earlier one (`failurePolicyRecreateAll`).
    fn restart(&mut self, action: &str, rule: Option<&Rule>, first: Option<Child<'_>>) {
        self.status.restarts = self.status.restarts.saturating_add(1);
        let reason = match rule {
            Some(rule) => Cow::Owned(format!("FailurePolicy_{}", rule.name)),
            None => Cow::Borrowed("DefaultFailurePolicy"),
        };
        let message = with_job(&format!("applying {action} failure policy action"), first);
        self.set_restarting(Condition { sort: RESTARTING, is_true: true, reason, message, at: self.at });
    }

    fn fail(&mut self, reason: &'static str, message: &str, first: Option<Child<'_>>) {
        self.end("Failed", reason, with_job(message, first));
        self.stop_restarting("JobSetFailed", "jobset failed");
    }

    fn end(&mut self, sort: &'static str, reason: &'static str, message: String) {
        self.set(Condition { sort, is_true: true, reason: Cow::Borrowed(reason), message, at: self.at });
        self.status.terminal_state = Some(sort);
    }

    fn stop_restarting(&mut self, reason: &'static str, message: &str) {
        let (reason, message) = (Cow::Borrowed(reason), message.to_owned());
        self.set_restarting(Condition { sort: RESTARTING, is_true: false, reason, message, at: self.at });
    }

    fn set_restarting(&mut self, condition: Condition) {
        if self.release != JobSetRelease::V0_11 {
            self.set(condition);
        }
    }

    /// Tells whether enough Jobs are complete (`success_policy.go`, `executeSuccessPolicy`).
    fn is_successful(&self) -> bool {
        let policy = &self.spec.success;
        let succeeded =
            self.children.successful.iter().filter(|child| policy.is_target(child.replicated_job));
        let targets = self.spec.replicated_jobs.iter().filter(|one| policy.is_target(&one.name));
        let expected: u64 = if policy.is_any { 1 } else { targets.map(|one| u64::from(one.replicas)).sum() };
        succeeded.count() as u64 >= expected
    }

    /// Suspends the active Jobs (`suspendJobs`).
    fn suspend(&mut self) {
        for child in self.children.active.clone().iter().filter(|child| !child.job.spec.suspend) {
            self.set_suspend(child, true);
        }
        self.set_suspended(true, "SuspendedJobs", "jobset is suspended");
        self.stop_restarting("JobSetSuspended", "jobset is suspended");
    }

    pub(super) fn set_suspended(&mut self, is_true: bool, reason: &'static str, message: &str) {
        let (reason, message) = (Cow::Borrowed(reason), message.to_owned());
        self.set(Condition { sort: "Suspended", is_true, reason, message, at: self.at });
    }

    /// Says how far Jobs that start one `replicatedJob` after the other are (`startup_policy.go`).
    pub(super) fn set_startup(&mut self, is_over: bool) {
        let (sort, reason, message) = if is_over {
            (STARTED, "InOrderStartupPolicyCompleted", "in order startup policy has completed")
        } else {
            (STARTING, "InOrderStartupPolicyInProgress", "in order startup policy is in progress")
        };
        let (reason, message) = (Cow::Borrowed(reason), message.to_owned());
        self.set(Condition { sort, is_true: true, reason, message, at: self.at });
    }

    /// Sets a condition (`updateCondition`): its time changes with its status only, one that was never there does not
    /// become false, and of two that exclude each other, the status of the other becomes false and nothing else of it.
    fn set(&mut self, condition: Condition) {
        let is_exclusive = |other: &Condition| {
            [(STARTING, STARTED), (STARTED, STARTING)].contains(&(other.sort, condition.sort))
        };
        if condition.is_true {
            for other in self.conditions.iter_mut().filter(|other| is_exclusive(other)) {
                other.is_true = false;
            }
        }
        match self.conditions.iter_mut().find(|other| other.sort == condition.sort) {
            Some(old) if old.is_true == condition.is_true => {
                (old.reason, old.message) = (condition.reason, condition.message);
            }
            Some(old) => *old = condition,
            None if condition.is_true => self.conditions.push(condition),
            None => {}
        }
    }
}

/// Adds the Job that failed first to a message (`messageWithFirstFailedJob`).
fn with_job(message: &str, first: Option<Child<'_>>) -> String {
    let name = first.map(|child| child.job.name()).unwrap_or_default();
    format!("{message} (first failed job: {name})")
}
