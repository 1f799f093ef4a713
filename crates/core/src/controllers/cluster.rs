//! The objects of a cluster that controllers look at, and what may be done to them.

mod action;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::admission::{Admission, PodDemand, PodsThere};
use super::chance::TimedActions;
use super::cron_job::spec::CronJobSpec;
use super::dashboard::programs::Dashboards;
use super::indexes::Indexes;
use super::job::spec::JobSpec;
use super::meta::{Condition, Propagation};
use super::object::Object;
use super::pod::{Deletion, PodGroup};
use super::pod_set::{Owner, PodSet};
use super::time::{Clock, Time};
use crate::text::value::Value;
pub use action::{Action, Event, NewJob};

/// The objects that controllers look at.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The clock of the API server and the controllers.
    pub(crate) clock: Clock,
    /// Every Job there was, in order of creation.
    pub jobs: Vec<Job>,
    /// Every pod there was, in order of creation.
    pub pods: Vec<PodGroup>,
    /// What pods have in common.
    pub sets: Vec<PodSet>,
    /// Every custom resource there was, in order of creation.
    pub objects: Vec<Object>,
    /// The CronJob, where one is simulated.
    pub cron_job: Option<CronJob>,
    /// The dashboards of Ray clusters.
    pub dashboards: Dashboards,
    /// Whether the API server refuses new pods, for a quota or a webhook.
    pub(crate) refuses_pods: bool,
    /// The quotas and limits of pods.
    pub(crate) admission: Admission,
    /// How many of the first groups of pods are gone, and need not be looked at.
    pub(crate) settled: usize,
    /// How many of the first Jobs are.
    pub(crate) settled_jobs: usize,
    /// Whether no PersistentVolumeClaim is there: a Volcano Job waits for those that it names.
    pub lacks_claims: bool,
    /// What comes of the actions of Volcano that wait for a timeout.
    pub timed_actions: TimedActions,
    /// How long operators do not see that they have ended an object.
    pub(crate) end_lag: Time,
    /// When Kueue evicted what, and why: a Workload keeps the last time only.
    pub(crate) evictions: Vec<Eviction>,
}

/// An eviction by Kueue.
#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub(crate) at: Time,
    /// What was evicted.
    pub(crate) owner: Option<Owner>,
    /// `reason` of the condition `Evicted`.
    pub(crate) reason: Cow<'static, str>,
}

/// A Job.
#[derive(Clone, Debug)]
pub struct Job {
    /// `metadata.name`.
    pub(crate) name: String,
    /// The custom resource that made it.
    pub owner: Option<Owner>,
    /// Whether the CronJob made it.
    pub(crate) is_run: bool,
    /// What its pods have in common, by its number.
    pub set: usize,
    /// When it was created.
    pub created: Time,
    /// `metadata` and `spec` as they stand; of a Job that a controller made, `spec` only.
    pub(crate) manifest: Value,
    /// `spec`.
    pub spec: JobSpec,
    /// `status`.
    pub status: JobStatus,
    /// Until when something else goes on writing the object: a status that its controller writes is refused as out of date.
    pub(crate) held: Option<Time>,
    /// `metadata.deletionTimestamp`, and what is done with the pods.
    pub deletion: Option<(Time, Propagation)>,
    /// When it was gone.
    pub gone: Option<Time>,
    /// How many pods it has had; with those of the Jobs before it that its owner made in its role.
    pub made: u32,
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

impl Job {
    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
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

/// A controller: nothing happens on an event, it acts in syncs.
pub trait Controller: std::fmt::Debug {
    /// Takes notice of something.
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time);

    /// Returns when it looks next.
    fn due(&self) -> Option<Time>;

    /// Looks at what is due, and returns what it does about it, in order. What the API server refuses ends it: what comes
    /// after is not done.
    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action>;

    /// Takes notice that the API server refused something that the last sync did.
    fn refuse(&mut self, _cluster: &Cluster, _at: Time) {}

    /// Takes notice that the API server took all that the last sync did.
    fn accept(&mut self) {}

    /// Changes an object that somebody creates, as its mutating webhooks do.
    fn mutate(&self, _manifest: &mut Value, _cluster: &Cluster) {}

    /// Tells whether its validating webhooks take an object, in place of an older one where there is one.
    fn admits(&self, _old: Option<&Value>, _new: &Value, _cluster: &Cluster) -> bool {
        true
    }

    /// Stops: what is only in memory is lost.
    fn stop(&mut self);

    /// Starts again, and finds the objects that there are.
    fn start(&mut self, cluster: &Cluster, at: Time);

    /// Takes over a cluster in which it has been running. Of what it had in memory, it has what follows from the objects; most
    /// have no more than after a start.
    fn resume(&mut self, cluster: &Cluster, killed: &[PodGroup], at: Time) {
        let _ = killed;
        self.start(cluster, at);
    }
}

impl Cluster {
    /// Returns how many of some pods that are alike and valid the API server takes.
    pub(crate) fn room_for(&self, demand: &PodDemand, count: u32) -> u32 {
        if self.refuses_pods {
            return 0;
        }
        self.admission.room_for(demand, count, || self.pods_there())
    }

    /// Returns all pods that are there, by what they ask for.
    fn pods_there(&self) -> Vec<PodsThere<'_>> {
        // By what they have in common: whether they have ended, and how many they are.
        let mut counts: BTreeMap<(usize, bool), u32> = BTreeMap::new();
        for pods in self.pods.iter().skip(self.settled).filter(|pods| pods.gone.is_none()) {
            let count = counts.entry((pods.set, pods.is_ended())).or_default();
            *count = count.saturating_add(pods.count());
        }
        let there = counts.into_iter().filter_map(|((set, is_ended), count)| {
            Some((&*self.sets.get(set)?.template.demand, count, is_ended))
        });
        there.collect()
    }

    /// Passes by the first groups of pods, and the first Jobs, that are gone.
    pub(crate) fn settle(&mut self) {
        while self.jobs.get(self.settled_jobs).is_some_and(|job| job.gone.is_some()) {
            self.settled_jobs += 1;
        }
        while self.pods.get(self.settled).is_some_and(|pods| pods.gone.is_some()) {
            self.settled += 1;
        }
    }

    /// Returns the Jobs that are there, each with its number.
    pub(crate) fn live_jobs(&self) -> impl Iterator<Item = (usize, &Job)> {
        self.jobs.iter().enumerate().skip(self.settled_jobs).filter(|(_, job)| job.gone.is_none())
    }

    /// Returns the pods whose objects are there, each group with its number.
    fn live_pods(&self) -> impl Iterator<Item = (usize, &PodGroup)> {
        self.pods.iter().enumerate().skip(self.settled).filter(|(_, pods)| pods.gone.is_none())
    }

    /// Returns the pods of a Job whose objects are there, each group with its number.
    pub(crate) fn pods_of(&self, job: usize) -> impl Iterator<Item = (usize, &PodGroup)> {
        let set = self.jobs.get(job).map(|job| job.set);
        self.live_pods().filter(move |(_, pods)| Some(pods.set) == set)
    }

    /// Returns the pods of an object whose objects are there, each group with its number.
    pub(crate) fn pods_owned(&self, owner: Owner) -> impl Iterator<Item = (usize, &PodGroup)> {
        self.live_pods().filter(move |(_, pods)| self.owner_of(pods) == Some(owner))
    }

    /// Returns what pods have in common with others.
    pub(crate) fn set_of(&self, pods: &PodGroup) -> Option<&PodSet> {
        self.sets.get(pods.set)
    }

    /// Returns the object that made pods.
    pub(crate) fn owner_of(&self, pods: &PodGroup) -> Option<Owner> {
        self.set_of(pods).map(|set| set.owner)
    }

    /// Returns the Jobs of an object that are there, each with its number.
    pub(crate) fn jobs_owned(&self, owner: Owner) -> impl Iterator<Item = (usize, &Job)> {
        self.live_jobs().filter(move |(_, job)| job.owner == Some(owner))
    }

    /// Returns the custom resources of an object that are there, each with its number.
    pub(crate) fn objects_owned(&self, owner: Owner) -> impl Iterator<Item = (usize, &Object)> {
        let is_owned = move |object: &Object| object.is_there() && object.owner == Some(owner);
        self.objects.iter().enumerate().filter(move |(_, object)| is_owned(object))
    }

    /// Returns the custom resource of a kind and name that is there, with its number.
    pub(crate) fn object(&self, kind: &str, name: &str) -> Option<(usize, &Object)> {
        let is_it = |object: &Object| object.is_there() && object.kind == kind && object.name == name;
        self.objects.iter().enumerate().find(|(_, object)| is_it(object))
    }

    /// Returns the Job of a name that is there, with its number.
    pub(crate) fn job(&self, name: &str) -> Option<(usize, &Job)> {
        self.live_jobs().find(|(_, job)| job.name == name)
    }

    /// Tells whether the pods of an object run its program.
    pub(crate) fn has_ranks(&self, owner: Owner) -> bool {
        match owner {
            Owner::Job(_) => true,
            Owner::Object(object) => self.objects.get(object).is_some_and(|object| object.ranks > 0),
        }
    }

    /// Tells whether an object has ended, is gone or was never there.
    pub(crate) fn is_over(&self, owner: Owner) -> bool {
        match owner {
            Owner::Job(job) => {
                self.jobs.get(job).is_none_or(|job| job.status.finished().is_some() || job.gone.is_some())
            }
            Owner::Object(object) => {
                self.objects.get(object).is_none_or(|object| object.end().is_some() || !object.is_there())
            }
        }
    }

    /// Returns the object that an object goes back to: the one that nobody made.
    pub(crate) fn root(&self, owner: Owner) -> Owner {
        let above = |owner| match owner {
            Owner::Job(job) => self.jobs.get(job).and_then(|job| job.owner),
            Owner::Object(object) => self.objects.get(object).and_then(|object| object.owner),
        };
        let mut root = owner;
        while let Some(next) = above(root) {
            root = next;
        }
        root
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

    /// Tells whether anything that an object made is there.
    #[must_use]
    pub(crate) fn has_dependents(&self, owner: Owner) -> bool {
        self.pods_owned(owner).next().is_some()
            || self.jobs_owned(owner).next().is_some()
            || self.objects_owned(owner).next().is_some()
    }
}
