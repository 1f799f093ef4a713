//! Custom resources that operators look at, as far as what they do depends on them.

pub(super) mod conditions;
mod job_set;
mod kueue;
pub(super) mod live;
mod mpi;
mod ray;
mod trainer;
mod training;
mod volcano;

use std::borrow::Cow;

use super::meta::{Condition, Propagation};
use super::pod_set::Owner;
use super::time::Time;
use crate::text::value::Value;
pub use job_set::{JobSetStatus, ReplicatedJobStatus};
pub use kueue::{WorkloadAdmission, WorkloadStatus};
pub use mpi::{MpiReplicas, MpiStatus};
pub use ray::{ClusterState, DeploymentStatus, RayClusterStatus, RayJobReason, RayJobStatus};
pub use trainer::TrainStatus;
pub use training::{ReplicaCounts, TrainingStatus};
pub(crate) use volcano::PodCounts;
pub use volcano::{JobPhase, PodGroupPhase, VolcanoStatus};

/// A custom resource.
#[derive(Clone, Debug)]
pub struct Object {
    /// `kind`.
    pub kind: &'static str,
    /// `metadata.name`.
    pub name: String,
    /// The object that made it, and that it goes with.
    pub owner: Option<Owner>,
    /// When it was created.
    pub created: Time,
    /// The object as it stands, without its status.
    pub manifest: Value,
    /// How many ranks its program has: pods that need one another.
    pub(crate) ranks: u32,
    /// `status.conditions`, in order of their first appearance.
    pub conditions: Vec<Condition>,
    /// What else its operator keeps in `status`.
    pub status: ObjectStatus,
    /// Whether its operator keeps it from going (a finalizer).
    pub(crate) finalizer: bool,
    /// `metadata.deletionTimestamp`, and what is done with what it owns.
    pub deletion: Option<(Time, Propagation)>,
    /// When it was gone.
    pub gone: Option<Time>,
}

/// `status` of a custom resource, without its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObjectStatus {
    /// Nothing was written.
    #[default]
    Empty,
    /// Of a JobSet.
    JobSet(JobSetStatus),
    /// Of a job of training-operator.
    Training(TrainingStatus),
    /// Of an MPIJob.
    Mpi(MpiStatus),
    /// Of a TrainJob.
    Train(TrainStatus),
    /// Of a Volcano Job.
    Volcano(VolcanoStatus),
    /// Of a PodGroup: its phase.
    PodGroup(PodGroupPhase),
    /// Of a RayCluster.
    RayCluster(RayClusterStatus),
    /// Of a RayJob.
    RayJob(Box<RayJobStatus>),
    /// Of a Workload.
    Workload(WorkloadStatus),
}

/// How an object ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEnd {
    /// Whether it did what it is for.
    pub is_success: bool,
    /// When, as its operator writes it.
    pub at: Time,
    /// The reason that its operator gives.
    pub reason: Cow<'static, str>,
}

/// Conditions that end an object, and whether as a success. The first counts that is true.
const ENDS: [(&str, bool); 4] =
    [("Completed", true), ("Complete", true), ("Succeeded", true), ("Failed", false)];

impl Object {
    /// Returns how it ended, if it did.
    #[must_use]
    pub fn end(&self) -> Option<ObjectEnd> {
        match &self.status {
            ObjectStatus::Volcano(status) => status.end(),
            ObjectStatus::RayJob(status) => status.end(),
            // It fails when the kubelet evicts a worker, and goes on.
            ObjectStatus::Mpi(status) if status.completion.is_none() => None,
            _ => self.end_of_conditions(),
        }
    }

    fn end_of_conditions(&self) -> Option<ObjectEnd> {
        ENDS.iter().find_map(|(sort, is_success)| {
            let condition = self.condition(sort)?;
            let (is_success, reason) = (*is_success, condition.reason.clone());
            Some(ObjectEnd { is_success, at: condition.at, reason })
        })
    }

    /// Returns `spec`.
    #[must_use]
    pub fn spec(&self) -> &Value {
        self.manifest.get("spec").unwrap_or(&Value::Null)
    }

    /// Tells whether the object is there, in deletion or not.
    #[must_use]
    pub(crate) fn is_there(&self) -> bool {
        self.gone.is_none()
    }

    /// Returns a condition that is true.
    #[must_use]
    pub fn condition(&self, sort: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.sort == sort && condition.is_true)
    }
}

/// Sets a condition as most operators do: its time changes with its status only. Returns whether anything changed.
pub(crate) fn set_condition(conditions: &mut Vec<Condition>, condition: Condition) -> bool {
    match conditions.iter_mut().find(|other| other.sort == condition.sort) {
        Some(old)
            if old.is_true == condition.is_true
                && old.reason == condition.reason
                && old.message == condition.message =>
        {
            false
        }
        Some(old) => {
            let at = if old.is_true == condition.is_true { old.at } else { condition.at };
            *old = Condition { at, ..condition };
            true
        }
        None => {
            conditions.push(condition);
            true
        }
    }
}
