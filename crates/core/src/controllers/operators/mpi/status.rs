//! `status` of an MPIJob (`updateMPIJobStatus`).

use std::borrow::Cow;

use super::super::super::cluster::{Cluster, Job};
use super::super::super::meta::Condition;
use super::super::super::object::{MpiReplicas, MpiStatus, Object, ObjectStatus};
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::time::Time;
use super::MpiRelease;

/// The values of `status.reason` of a pod that has failed: others are reasons of its containers or conditions.
const POD_REASONS: [&str; 2] = ["Evicted", "UnexpectedAdmissionError"];

/// The status of an MPIJob, as a sync changes it.
#[derive(Clone, Debug)]
pub(super) struct MpiProgress {
    /// `conditions`.
    pub(super) conditions: Vec<Condition>,
    /// The rest.
    pub(super) status: MpiStatus,
    /// What messages call the MPIJob: `NAMESPACE/NAME`.
    pub(super) name: String,
    /// The moment of the sync.
    pub(super) at: Time,
}

/// The launcher and its pods.
pub(super) struct MpiLauncher<'a> {
    /// Its Job.
    pub(super) job: &'a Job,
    /// Its pods.
    pub(super) pods: Vec<&'a PodGroup>,
}

impl MpiProgress {
    /// Begins with the status that an MPIJob has.
    pub(super) fn new(object: &Object, namespace: &str, at: Time) -> Self {
        let status = match &object.status {
            ObjectStatus::Mpi(status) => status.clone(),
            _ => MpiStatus::default(),
        };
        let name = format!("{namespace}/{}", object.name);
        Self { conditions: object.conditions.clone(), status, name, at }
    }

    /// Sets a condition (`pkg/controller/mpi_job_controller_status.go`, `setCondition`): nothing where status and reason stay;
    /// its time changes with its status. One that ends the MPIJob makes `Running` and an earlier `Failed` false, and leaves
    /// their times.
    pub(super) fn set(
        &mut self,
        sort: &'static str,
        is_true: bool,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) -> bool {
        let reason = reason.into();
        let old = self.conditions.iter().position(|condition| condition.sort == sort);
        let before = old.and_then(|old| self.conditions.get(old));
        if before.is_some_and(|old| old.is_true == is_true && old.reason == reason) {
            return false;
        }
        let at = before.filter(|old| old.is_true == is_true).map_or(self.at, |old| old.at);
        if ["Failed", "Succeeded"].contains(&sort) {
            for condition in &mut self.conditions {
                if ["Running", "Failed"].contains(&condition.sort) {
                    condition.is_true = false;
                }
            }
        }
        let condition = Condition { sort, is_true, reason, message, at };
        match old.and_then(|old| self.conditions.get_mut(old)) {
            Some(old) => *old = condition,
            None => self.conditions.push(condition),
        }
        true
    }

    fn has(&self, sort: &str) -> bool {
        self.conditions.iter().any(|condition| condition.sort == sort)
    }

    /// Tells whether the MPIJob has succeeded or failed; a failure by the eviction of a worker is not the end.
    pub(super) fn is_finished(&self) -> bool {
        let ends = ["Failed", "Succeeded"];
        self.conditions.iter().any(|condition| condition.is_true && ends.contains(&condition.sort))
    }

    /// Writes down a suspension or its end.
    pub(super) fn suspend(&mut self, is_suspended: bool, start: Time) {
        if is_suspended {
            self.set("Suspended", true, "MPIJobSuspended", "MPIJob suspended".to_owned());
        } else if self.has("Suspended")
            && self.set("Suspended", false, "MPIJobResumed", "MPIJob resumed".to_owned())
        {
            self.status.start = Some(start);
        }
    }

    /// Takes over what the launcher has come to.
    pub(super) fn follow(&mut self, launcher: &MpiLauncher<'_>, cluster: &Cluster) {
        let status = &launcher.job.status;
        let mut replicas = MpiReplicas { failed: status.failed, ..MpiReplicas::default() };
        if let Some(complete) = status.condition("Complete") {
            replicas.succeeded = 1;
            let message = format!("MPIJob {} successfully completed.", self.name);
            self.status.completion.get_or_insert(cluster.clock.stored(complete.at));
            self.set("Succeeded", true, "MPIJobSucceeded", message);
        } else if let Some(failed) = status.condition("Failed") {
            let (reason, message) = reason_of(failed, launcher, cluster);
            self.status.completion.get_or_insert(cluster.clock.stored(self.at));
            self.set("Failed", true, reason, message);
        } else {
            replicas.active = running(&launcher.pods);
        }
        self.status.launcher = Some(replicas);
    }

    /// Counts the workers; one that the kubelet evicted fails the MPIJob, without an end.
    pub(super) fn count(&mut self, workers: &[&PodGroup], all: u32) {
        let of = |phase| sum(workers.iter().copied().filter(|pods| pods.phase == phase));
        self.status.worker = Some(MpiReplicas {
            active: of(Phase::Running),
            succeeded: of(Phase::Succeeded),
            failed: of(Phase::Failed),
        });
        let is_evicted = |pods: &&PodGroup| pods.phase == Phase::Failed && pods.reason == Some("Evicted");
        let evicted = sum(workers.iter().copied().filter(is_evicted));
        if evicted > 0 {
            self.set("Failed", true, "MPIJobEvicted", format!("{evicted}/{all} workers are evicted"));
        }
    }

    /// Keeps `Running` in step: it becomes true while the launcher and all workers run, and false by a suspension or an end
    /// only.
    pub(super) fn run(&mut self, release: MpiRelease, is_suspended: bool, is_running: bool) {
        let name = &self.name;
        if is_suspended {
            let message = format!("MPIJob {name} is suspended.");
            self.set("Running", false, "MPIJobSuspended", message);
        } else if release != MpiRelease::V0_8_0 && self.is_finished() {
            if !self.has("Running") {
                let message = format!("MPIJob {name} is finished but Running condition was never set.");
                let at = self.status.completion.unwrap_or(self.at);
                let (sort, reason) = ("Running", Cow::Borrowed("MPIJobRunning"));
                self.conditions.push(Condition { sort, is_true: false, reason, message, at });
            }
        } else if is_running {
            let message = format!("MPIJob {name} is running.");
            self.set("Running", true, "MPIJobRunning", message);
        }
    }
}

/// Returns the reason and the message of a failed launcher. Where it reached its limit, those of its youngest failed pod are
/// added (`updateMPIJobFailedStatus`).
fn reason_of(
    failed: &Condition,
    launcher: &MpiLauncher<'_>,
    cluster: &Cluster,
) -> (Cow<'static, str>, String) {
    if failed.reason != "BackoffLimitExceeded" {
        return (failed.reason.clone(), failed.message.clone());
    }
    let mut youngest: Option<&PodGroup> = None;
    for pods in launcher.pods.iter().filter(|pods| pods.phase == Phase::Failed) {
        let created = |pods: &PodGroup| cluster.clock.stored(pods.created);
        if youngest.is_none_or(|other| created(other) < created(pods)) {
            youngest = Some(pods);
        }
    }
    let Some(pods) = youngest else { return (failed.reason.clone(), failed.message.clone()) };
    let reason = pods.reason.filter(|reason| POD_REASONS.contains(reason)).unwrap_or_default();
    (format!("{}/{reason}", failed.reason).into(), format!("{}: ", failed.message))
}

/// Returns how many pods run, those in deletion among them.
pub(super) fn running(pods: &[&PodGroup]) -> u32 {
    sum(pods.iter().copied().filter(|pods| pods.phase == Phase::Running))
}

fn sum<'a>(pods: impl Iterator<Item = &'a PodGroup>) -> u32 {
    pods.map(PodGroup::count).fold(0, u32::saturating_add)
}
