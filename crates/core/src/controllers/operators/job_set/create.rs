//! Jobs are made, suspended and resumed, each `replicatedJob` when what it depends on is there
//! (`pkg/controllers/jobset_controller.go`, `reconcileReplicatedJobs`, `resumeJobsIfNecessary`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::cluster::{Action, NewJob};
use super::super::super::object::ReplicatedJobStatus;
use super::super::super::pod_set::Owner;
use super::super::super::weight::weight;
use super::children::Child;
use super::spec::{DependencyStatus, ReplicatedJob};
use super::sync::JobSetSync;
use crate::text::value::{Value, json};

/// How many values there may be in all Jobs that are made in one sync. Where that is not enough, the others follow in the
/// next one.
const MOST_VALUES: usize = 200_000;

impl JobSetSync<'_> {
    /// Makes the Jobs that are missing.
    pub(super) fn create_jobs(&mut self) {
        let spec = self.spec;
        let is_in_order = spec.is_in_order && !spec.suspend;
        for replicated_job in &spec.replicated_jobs {
            if !self.dependencies_are_met(replicated_job) || is_in_order && self.is_started(replicated_job) {
                continue;
            }
            self.create_jobs_of(replicated_job);
            if is_in_order {
                self.set_startup(false);
                return;
            }
        }
        if is_in_order {
            self.set_startup(true);
        }
    }

    /// Makes the Jobs of a `replicatedJob` whose names are free (`constructJobsFromTemplate`). `BlockingRecreate` waits
    /// until every Job of an earlier attempt is gone.
    fn create_jobs_of(&mut self, replicated_job: &ReplicatedJob) {
        let is_blocking = self.spec.failure.as_ref().is_some_and(|policy| policy.is_blocking);
        if is_blocking && !self.children.previous.is_empty() || self.made >= MOST_VALUES {
            return;
        }
        let missing = self.children.missing(&replicated_job.name, replicated_job.replicas);
        if missing.is_empty() {
            return;
        }
        let mut spec = replicated_job.template.clone();
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("suspend", self.spec.suspend.into());
        }
        let weight = weight(&spec);
        for nth in missing.iter() {
            if self.made >= MOST_VALUES {
                return;
            }
            self.made += weight;
            let role = format!("{}-{nth}", replicated_job.name);
            let name = format!("{}-{role}", self.object.name);
            self.actions.push(Action::CreateJob(Box::new(NewJob {
                name,
                owner: Some(Owner::Object(self.number)),
                role: Arc::from(role),
                round: self.status.restarts,
                spec: spec.clone(),
            })));
        }
    }

    /// Resumes the active Jobs that are suspended, also one that somebody suspended by hand.
    pub(super) fn resume(&mut self) {
        let spec = self.spec;
        let mut suspended: BTreeMap<&str, Vec<Child<'_>>> = BTreeMap::new();
        for child in self.children.active.iter().filter(|child| child.job.spec.suspend) {
            suspended.entry(child.replicated_job).or_default().push(*child);
        }
        for replicated_job in &spec.replicated_jobs {
            if !self.dependencies_are_met(replicated_job)
                || spec.is_in_order && self.is_started(replicated_job)
            {
                continue;
            }
            for child in suspended.get(&*replicated_job.name).into_iter().flatten() {
                self.set_suspend(child, false);
            }
            if spec.is_in_order {
                self.set_startup(false);
                return;
            }
        }
        self.set_suspended(false, "ResumeJobs", "jobset is resumed");
    }

    pub(super) fn set_suspend(&mut self, child: &Child<'_>, suspend: bool) {
        let patch: Value = json!({ "suspend": suspend });
        self.actions.push(Action::PatchJob { job: child.number, patch });
    }

    fn status_of(&self, name: &str) -> Option<&ReplicatedJobStatus> {
        let statuses = &self.status.replicated_jobs;
        statuses.get(statuses.binary_search_by(|status| name.cmp(&status.name)).ok()?)
    }

    /// Tells whether what a `replicatedJob` depends on is ready or complete (`depends_on.go`, `dependencyReachedStatus`).
    /// Of those after it no number of Jobs is known: they are waited for until they have none.
    fn dependencies_are_met(&self, replicated_job: &ReplicatedJob) -> bool {
        replicated_job.depends_on.iter().all(|dependency| {
            let Some(status) = self.status_of(&dependency.name) else { return false };
            let replicas = u64::from(dependency.replicas);
            match dependency.until {
                DependencyStatus::Complete => replicas == u64::from(status.succeeded),
                DependencyStatus::Ready => replicas == started(status),
            }
        })
    }

    /// Tells whether all Jobs of a `replicatedJob` are ready or done (`startup_policy.go`, `allReplicasStarted`).
    fn is_started(&self, replicated_job: &ReplicatedJob) -> bool {
        let status = self.status_of(&replicated_job.name);
        status.is_some_and(|status| started(status) == u64::from(replicated_job.replicas))
    }
}

fn started(status: &ReplicatedJobStatus) -> u64 {
    u64::from(status.ready) + u64::from(status.failed) + u64::from(status.succeeded)
}
