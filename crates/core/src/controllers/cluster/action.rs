//! What controllers take notice of, and what they do.

use std::sync::Arc;

use super::super::indexes::Indexes;
use super::super::meta::{Condition, Propagation};
use super::super::object::{Object, ObjectStatus};
use super::super::pod_set::{Owner, PodTemplate};
use super::super::time::Time;
use super::JobStatus;
use crate::text::value::Value;

/// Something that a controller has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pod was made, changed or went.
    Pod(Owner),
    /// A Job was made, or its `spec` or deletion changed.
    Job(usize),
    /// The status of a Job was written.
    JobStatus(usize),
    /// A Job is gone.
    JobGone(usize),
    /// The CronJob was made or changed.
    CronJob,
    /// A custom resource was made, or its `spec` or deletion changed.
    Object(usize),
    /// The status of a custom resource was written.
    ObjectStatus(usize),
    /// A custom resource is gone.
    ObjectGone(usize),
    /// A dashboard of a Ray cluster answers something else: nobody watches it, but it is asked again and again.
    Dashboards,
}

/// What a controller does in a sync.
#[derive(Clone, Debug)]
pub enum Action {
    /// Creates pods of a Job.
    CreatePods {
        /// The Job.
        job: usize,
        /// Their completion indexes; nothing where they have none.
        indexes: Option<Indexes>,
        /// How many.
        count: u32,
        /// The annotation `job-index-failure-count`.
        failures: u32,
        /// The annotation `job-index-ignored-failure-count`.
        ignored: u32,
    },
    /// Deletes pods of a group.
    DeletePods {
        /// The group.
        pods: usize,
        /// Which.
        members: Indexes,
        /// Whether the finalizer goes first, so that they count as nothing.
        is_released: bool,
    },
    /// Takes the finalizer from pods of a group.
    ReleasePods {
        /// The group.
        pods: usize,
        /// Which.
        members: Indexes,
    },
    /// Writes the status of a Job.
    WriteJob {
        /// The Job.
        job: usize,
        /// The status.
        status: Box<JobStatus>,
    },
    /// Creates a Job.
    CreateJob(Box<NewJob>),
    /// Changes the `spec` of a Job by a merge patch.
    PatchJob {
        /// The Job.
        job: usize,
        /// The patch.
        patch: Value,
    },
    /// Goes on writing a Job for a moment, so that what its controller writes meanwhile is out of date.
    HoldJob {
        /// The Job.
        job: usize,
        /// Until when.
        until: Time,
    },
    /// Deletes a Job.
    DeleteJob {
        /// The Job.
        job: usize,
        /// What becomes of its pods.
        propagation: Propagation,
    },
    /// Creates pods of a custom resource.
    CreateMembers {
        /// The custom resource.
        object: usize,
        /// What they are to it.
        role: Arc<str>,
        /// Which attempt of it they belong to.
        round: u32,
        /// Their indexes, or their numbers in order of creation.
        indexes: Indexes,
        /// Whether these are indexes.
        indexed: bool,
        /// The template.
        template: PodTemplate,
    },
    /// Creates a custom resource.
    CreateObject(Box<Object>),
    /// Changes a custom resource by a merge patch.
    PatchObject {
        /// The object.
        object: usize,
        /// The patch.
        patch: Value,
    },
    /// Writes the status of a custom resource.
    WriteObject {
        /// The object.
        object: usize,
        /// `conditions`.
        conditions: Vec<Condition>,
        /// The rest.
        status: ObjectStatus,
    },
    /// Deletes a custom resource.
    DeleteObject {
        /// The object.
        object: usize,
        /// What becomes of what it owns.
        propagation: Propagation,
    },
    /// Puts the finalizer of its operator on a custom resource.
    HoldObject {
        /// The object.
        object: usize,
    },
    /// Takes the finalizer from a custom resource.
    ReleaseObject {
        /// The object.
        object: usize,
    },
    /// Submits a program to the dashboard of a Ray cluster.
    SubmitProgram {
        /// The name of the cluster.
        cluster: String,
        /// The submission id.
        id: String,
    },
    /// Stops a program.
    StopProgram {
        /// The name of the cluster.
        cluster: String,
        /// The submission id.
        id: String,
    },
    /// Writes the status of the CronJob.
    WriteCronJob {
        /// `active`.
        active: Vec<usize>,
        /// `lastScheduleTime`.
        last_schedule: Option<Time>,
        /// `lastSuccessfulTime`.
        last_success: Option<Time>,
    },
}

/// A Job to be created.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// `metadata.name`.
    pub name: String,
    /// The object that makes it; nothing for the CronJob.
    pub owner: Option<Owner>,
    /// What it is to that.
    pub role: Arc<str>,
    /// Which attempt of that it belongs to.
    pub round: u32,
    /// `spec`.
    pub spec: Value,
}
