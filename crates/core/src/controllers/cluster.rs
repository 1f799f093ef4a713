//! The objects of a cluster that controllers look at, and what may be done to them.

use super::cron_job::CronJobSpec;
use super::indexes::Indexes;
use super::job::spec::JobSpec;
use super::pod::{Deletion, PodGroup};
use super::time::{Clock, Time};

/// The objects that controllers look at.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The clock of the API server and the controllers.
    pub(crate) clock: Clock,
    /// Every Job there was, in order of creation.
    pub jobs: Vec<Job>,
    /// Every pod there was, in order of creation.
    pub pods: Vec<PodGroup>,
    /// The CronJob, where one is simulated.
    pub cron_job: Option<CronJob>,
    /// Whether the API server refuses new pods, for a quota or a webhook.
    pub(crate) refuses_pods: bool,
}

/// A Job.
#[derive(Clone, Debug)]
pub struct Job {
    /// `metadata.name`.
    pub(crate) name: String,
    /// Whether the CronJob made it.
    pub(crate) is_run: bool,
    /// When it was created.
    pub created: Time,
    /// `spec`.
    pub spec: JobSpec,
    /// `status`.
    pub status: JobStatus,
    /// `metadata.deletionTimestamp`, and what is done with the pods.
    pub deletion: Option<(Time, Propagation)>,
    /// When it was gone.
    pub gone: Option<Time>,
    /// How many pods it has had.
    pub made: u32,
}

/// What becomes of the pods of a Job that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// `status` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// `active`.
    pub active: u32,
    /// `ready`; nothing before the first sync.
    pub ready: Option<u32>,
    /// `terminating`; nothing before the first sync.
    pub terminating: Option<u32>,
    /// `succeeded`.
    pub succeeded: u32,
    /// `failed`.
    pub failed: u32,
    /// `startTime`.
    pub start: Option<Time>,
    /// `completedIndexes`.
    pub completed: Indexes,
    /// `failedIndexes`.
    pub failed_indexes: Option<Indexes>,
    /// `conditions`.
    pub conditions: Vec<Condition>,
}

/// A condition of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub sort: &'static str,
    /// Whether `status` is `True`.
    pub is_true: bool,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
    /// `lastTransitionTime`, before it is cut to the second.
    pub at: Time,
}

/// A CronJob.
#[derive(Clone, Debug)]
pub struct CronJob {
    /// `metadata.name`.
    pub(crate) name: String,
    /// When it was created.
    pub created: Time,
    /// `spec`.
    pub spec: CronJobSpec,
    /// `status.active`: Jobs, by their numbers.
    pub active: Vec<usize>,
    /// `status.lastScheduleTime`.
    pub last_schedule: Option<Time>,
    /// `status.lastSuccessfulTime`.
    pub last_success: Option<Time>,
}

impl JobStatus {
    /// Returns a condition that is true.
    #[must_use]
    pub(crate) fn condition(&self, sort: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.sort == sort && condition.is_true)
    }

    /// Returns the condition that ends the Job: `Complete` or `Failed`.
    #[must_use]
    pub fn finished(&self) -> Option<&Condition> {
        self.condition("Complete").or_else(|| self.condition("Failed"))
    }

    /// Sets a condition. Returns whether it changed; one that was never there does not become false.
    pub(crate) fn set(&mut self, condition: Condition) -> bool {
        match self.conditions.iter_mut().find(|other| other.sort == condition.sort) {
            Some(old) if old.is_true == condition.is_true && old.reason == condition.reason => false,
            Some(old) => {
                *old = condition;
                true
            }
            None if condition.is_true => {
                self.conditions.push(condition);
                true
            }
            None => false,
        }
    }
}

/// Something that a controller has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pod of a Job was made, changed or went.
    Pod(usize),
    /// A Job was made, or its `spec` or deletion changed.
    Job(usize),
    /// The status of a Job was written.
    JobStatus(usize),
    /// A Job is gone.
    JobGone(usize),
    /// The CronJob was made or changed.
    CronJob,
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
    /// Creates a Job of the CronJob.
    CreateJob {
        /// Its name.
        name: String,
    },
    /// Deletes a Job.
    DeleteJob {
        /// The Job.
        job: usize,
        /// What becomes of its pods.
        propagation: Propagation,
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

/// A controller: nothing happens on an event, it acts in syncs.
pub trait Controller {
    /// Takes notice of something.
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time);

    /// Returns when it looks next.
    fn due(&self) -> Option<Time>;

    /// Looks at what is due, and returns what it does about it.
    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action>;
}

impl Cluster {
    /// Returns the pods of a Job whose objects are there, each group with its number.
    pub(crate) fn pods_of(&self, job: usize) -> impl Iterator<Item = (usize, &PodGroup)> {
        self.pods.iter().enumerate().filter(move |(_, pods)| pods.job == job && pods.gone.is_none())
    }

    /// Makes a group of its own of some members. Returns its number: that of the group where these are all.
    pub(crate) fn split(&mut self, pods: usize, members: &Indexes) -> Option<usize> {
        let group = self.pods.get_mut(pods)?;
        let apart = group.members.intersection(members);
        let rest = group.members.without(&apart);
        if apart.is_empty() {
            return None;
        }
        if rest.is_empty() {
            return Some(pods);
        }
        let mut part = group.clone();
        group.members = rest;
        part.members = apart;
        self.pods.push(part);
        Some(self.pods.len() - 1)
    }

    /// Marks pods as deleted, with a grace period.
    pub(crate) fn delete_pods(&mut self, pods: usize, grace: Time, at: Time) {
        let Some(group) = self.pods.get_mut(pods) else { return };
        if group.gone.is_some() {
            return;
        }
        // Nothing runs where no node was chosen, or where all has ended.
        let grace = if group.is_ended() || !group.bound { Time::START } else { grace };
        match &mut group.deletion {
            Some(deletion) if deletion.grace <= grace => {}
            Some(deletion) if grace == Time::START => *deletion = Deletion { at, grace, ..*deletion },
            Some(deletion) => deletion.grace = grace,
            none => *none = Some(Deletion { since: at, at, grace }),
        }
        self.collect(pods, at);
    }

    /// Takes the finalizer from pods.
    pub(crate) fn release_pods(&mut self, pods: usize, at: Time) {
        if let Some(group) = self.pods.get_mut(pods) {
            group.finalizer = false;
        }
        self.collect(pods, at);
    }

    /// Removes pods that nothing keeps.
    pub(crate) fn collect(&mut self, pods: usize, at: Time) {
        let Some(group) = self.pods.get_mut(pods) else { return };
        let is_over =
            group.deletion.is_some_and(|deletion| deletion.grace == Time::START || group.is_ended());
        if is_over && !group.finalizer && group.gone.is_none() {
            group.gone = Some(at);
        }
    }

    /// Tells whether pods of a Job are there.
    #[must_use]
    pub(crate) fn has_pods(&self, job: usize) -> bool {
        self.pods_of(job).next().is_some()
    }
}
