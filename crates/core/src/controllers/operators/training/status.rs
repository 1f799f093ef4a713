//! How the status of a job follows from its pods: `UpdateJobStatus` of each kind, and `pkg/util/status.go`.

use super::super::super::meta::Condition;
use super::super::super::object::ReplicaCounts;
use super::super::super::pod::Phase;
use super::kind::StatusRule;
use super::spec::{ReplicaRestart, Role};
use super::sync::Sync;

impl Sync<'_> {
    /// Sets a condition (`setCondition`, `pkg/util/status.go`): after `Failed` nothing changes, `Running` and `Restarting`
    /// take each other's place, and the end of a job makes `Running` false.
    pub(super) fn set(&mut self, sort: &'static str, is_true: bool, reason: &str, message: String) {
        if self.conditions.iter().any(|condition| condition.sort == "Failed" && condition.is_true) {
            return;
        }
        let reason = format!("{}{reason}", self.spec.kind.name);
        let current = self.conditions.iter().find(|condition| condition.sort == sort);
        let current = current.filter(|current| current.is_true == is_true);
        if current.is_some_and(|current| *current.reason == *reason) {
            return;
        }
        let at = current.map_or(self.at, |current| current.at);
        let takes_place_of = |other: &str| {
            other == sort || matches!((sort, other), ("Restarting", "Running") | ("Running", "Restarting"))
        };
        self.conditions.retain(|condition| !takes_place_of(condition.sort));
        if ["Failed", "Succeeded"].contains(&sort) {
            for running in self.conditions.iter_mut().filter(|condition| condition.sort == "Running") {
                running.is_true = false;
            }
        }
        self.conditions.push(Condition { sort, is_true, reason: reason.into(), message, at });
    }

    /// Makes up the status from the counts of the types, in their order.
    pub(super) fn update_status(&mut self, roles: &[&Role<'_>]) {
        match self.spec.kind.rule {
            StatusRule::Workers => self.update_by_workers(roles),
            StatusRule::Chief => self.update_by_chief(),
            StatusRule::Master => self.update_by_master(roles),
        }
    }

    /// PyTorchJob, PaddleJob and JAXJob (`pytorch/pytorchjob_controller.go`).
    fn update_by_workers(&mut self, roles: &[&Role<'_>]) {
        let has_master = self.spec.role("Master").is_some();
        let is_elastic = self.spec.is_elastic && self.spec.kind.name == "PyTorchJob";
        for role in roles {
            let counts = self.status.counts(role.sort);
            let is_done = role.replicas == i64::from(counts.succeeded);
            if has_master && role.sort == "Master" {
                self.run_if(counts.active > 0);
                if is_done {
                    self.succeed();
                    return;
                }
            } else if !has_master && (is_done || is_elastic && counts.succeeded > 0) {
                self.succeed();
            } else if !has_master {
                self.run_if(counts.active > 0);
            }
            let left = i64::from(counts.succeeded) + i64::from(counts.active);
            if counts.failed == 0 || role.replicas <= left {
                continue;
            }
            if role.restart == ReplicaRestart::Never {
                self.fail(role, counts);
            } else {
                self.restart(role, counts);
            }
        }
    }

    /// TFJob (`tensorflow/tfjob_controller.go`).
    fn update_by_chief(&mut self) {
        let spec = self.spec;
        let has_chief = spec.role("Chief").or_else(|| spec.role("Master")).is_some();
        let is_worker_done = self.is_worker_done();
        let restarting = self.conditions.iter().find(|condition| condition.sort == "Restarting");
        let restarting = restarting.map(|condition| condition.message.clone());
        for role in &spec.roles {
            let counts = self.status.counts(role.sort);
            let is_done = role.replicas == i64::from(counts.succeeded);
            if has_chief && ["Chief", "Master"].contains(&role.sort) {
                self.run_if(counts.active > 0);
                if is_done {
                    self.succeed();
                }
            } else if !has_chief && role.sort == "Worker" {
                if is_done || is_worker_done && !spec.needs_all_workers {
                    self.succeed();
                } else {
                    self.run_if(counts.active > 0);
                }
            }
            if counts.failed == 0 {
                continue;
            }
            if let Some(message) = &restarting {
                self.set("Restarting", true, "Restarting", message.clone());
            } else if !(spec.has_dynamic_workers && role.sort == "Worker") {
                self.fail(role, counts);
            }
        }
    }

    /// Tells whether worker 0 ended with 0 (`IsWorker0Completed`); also where there are no workers.
    fn is_worker_done(&self) -> bool {
        let Some(role) = self.spec.role("Worker") else { return true };
        self.pods_of(role).any(|(_, pods)| {
            pods.members.first() == Some(0) && pods.phase == Phase::Succeeded && self.exit_code(pods) == 0
        })
    }

    /// XGBoostJob (`xgboost/xgboostjob_controller.go`).
    fn update_by_master(&mut self, roles: &[&Role<'_>]) {
        for role in roles {
            let counts = self.status.counts(role.sort);
            if role.sort == "Master" {
                self.run_if(counts.active > 0);
                if role.replicas == i64::from(counts.succeeded) {
                    self.run_if(true);
                    self.succeed();
                    return;
                }
            }
            if counts.failed == 0 {
                continue;
            }
            self.run_if(true);
            if role.restart == ReplicaRestart::ExitCode {
                self.restart(role, counts);
            } else {
                self.fail(role, counts);
            }
        }
    }

    fn run_if(&mut self, is_running: bool) {
        if is_running {
            let message = format!("{} {} is running.", self.spec.kind.name, self.called());
            self.set("Running", true, "Running", message);
        }
    }

    fn succeed(&mut self) {
        self.complete();
        let is = if self.is_called_in_full() { "" } else { "is " };
        let message = format!("{} {} {is}successfully completed.", self.spec.kind.name, self.called());
        self.set("Succeeded", true, "Succeeded", message);
    }

    fn restart(&mut self, role: &Role<'_>, counts: ReplicaCounts) {
        let (kind, name) = (self.spec.kind.name, self.spec.name);
        let message =
            format!("{kind} {name} is restarting because {} {} replica(s) failed.", counts.failed, role.sort);
        self.set("Restarting", true, "Restarting", message);
    }

    fn fail(&mut self, role: &Role<'_>, counts: ReplicaCounts) {
        self.complete();
        let (kind, name, failed) = (self.spec.kind.name, self.spec.name, counts.failed);
        let message = if self.spec.kind.rule == StatusRule::Chief {
            let namespace = self.spec.namespace;
            format!("{kind} {namespace}/{name} has failed because {failed} {} replica(s) failed.", role.sort)
        } else {
            format!("{kind} {name} is failed because {failed} {} replica(s) failed.", role.sort)
        };
        self.set("Failed", true, "Failed", message);
    }

    /// Tells whether messages name the job with its namespace: of TFJob, and where workers alone decide.
    fn is_called_in_full(&self) -> bool {
        match self.spec.kind.rule {
            StatusRule::Workers => self.spec.role("Master").is_none(),
            StatusRule::Chief => true,
            StatusRule::Master => false,
        }
    }

    fn called(&self) -> String {
        if self.is_called_in_full() {
            format!("{}/{}", self.spec.namespace, self.spec.name)
        } else {
            self.spec.name.to_owned()
        }
    }
}
