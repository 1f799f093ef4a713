//! The Jobs of a JobSet, by their state (`pkg/controllers/jobset_controller.go`, `getChildJobs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::super::cluster::{Cluster, Job};
use super::super::super::indexes::Indexes;
use super::super::super::object::{Object, ReplicatedJobStatus};
use super::super::super::pod_set::Owner;
use super::JobSetRelease;
use super::spec::JobSetSpec;

/// A Job of a JobSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    /// Its number.
    pub(super) number: usize,
    /// The Job.
    pub(super) job: &'a Job,
    /// The name of its `replicatedJob` (a label).
    pub(super) replicated_job: &'a str,
}

/// The Jobs of a JobSet whose objects are there.
#[derive(Debug, Default)]
pub(super) struct Children<'a> {
    /// Those of earlier attempts.
    pub(super) previous: Vec<Child<'a>>,
    /// Those that neither failed nor are complete. `FailureTarget` and `SuccessCriteriaMet` are not looked at.
    pub(super) active: Vec<Child<'a>>,
    /// Those that are complete.
    pub(super) successful: Vec<Child<'a>>,
    /// Those that failed.
    pub(super) failed: Vec<Child<'a>>,
    /// The numbers of all, each with its `replicatedJob`.
    taken: BTreeSet<(&'a str, u32)>,
}

impl<'a> Children<'a> {
    /// Finds the Jobs of a JobSet at an attempt. A Job in deletion stays what it is until its object is gone.
    pub(super) fn find(cluster: &'a Cluster, number: usize, restarts: u32, release: JobSetRelease) -> Self {
        let mut children = Self::default();
        let name = cluster.objects.get(number).map(|object| &object.name);
        let is_owned = |job: &Job| match job.owner {
            Some(Owner::Object(owner)) if owner == number => true,
            // Up to 0.11 Jobs are found by the name of their JobSet: those of an earlier one of its name are among them.
            Some(Owner::Object(owner)) if release == JobSetRelease::V0_11 => {
                cluster.objects.get(owner).is_some_and(|owner| is_job_set(owner) && Some(&owner.name) == name)
            }
            _ => false,
        };
        for (number, job) in cluster.live_jobs().filter(|(_, job)| is_owned(job)) {
            let Some(set) = cluster.sets.get(job.set) else { continue };
            let Some((replicated_job, nth)) = set.role.rsplit_once('-') else { continue };
            let child = Child { number, job, replicated_job };
            children.taken.extend(nth.parse().ok().map(|nth| (replicated_job, nth)));
            if set.round < restarts {
                children.previous.push(child);
            } else {
                match job.status.finished().map(|condition| condition.sort) {
                    Some("Failed") => children.failed.push(child),
                    Some(_) => children.successful.push(child),
                    None => children.active.push(child),
                }
            }
        }
        children
    }

    /// Returns the numbers of the Jobs of a `replicatedJob` that are missing (`shouldCreateJob`).
    pub(super) fn missing(&self, name: &str, replicas: u32) -> Indexes {
        let taken = self.taken.range((name, 0)..=(name, u32::MAX)).map(|(_, nth)| *nth);
        Indexes::below(replicas).without(&Indexes::from_numbers(taken))
    }

    /// Counts the Jobs of each `replicatedJob` (`calculateReplicatedJobStatuses`).
    pub(super) fn statuses(&self, spec: &JobSetSpec) -> Vec<ReplicatedJobStatus> {
        let named = |name: &Arc<str>| ReplicatedJobStatus {
            name: Arc::clone(name),
            ..ReplicatedJobStatus::default()
        };
        let mut statuses: Vec<ReplicatedJobStatus> =
            spec.replicated_jobs.iter().map(|replicated_job| named(&replicated_job.name)).collect();
        statuses.sort_by(|one, other| other.name.cmp(&one.name));
        statuses.dedup_by(|one, other| one.name == other.name);
        let mut count = |child: &Child<'_>, add: &dyn Fn(&mut ReplicatedJobStatus)| {
            let place = statuses.binary_search_by(|status| child.replicated_job.cmp(&status.name));
            if let Some(status) = place.ok().and_then(|nth| statuses.get_mut(nth)) {
                add(status);
            }
        };
        for child in &self.active {
            let job = child.job;
            let ready = job.status.succeeded.saturating_add(job.status.ready.unwrap_or_default());
            count(child, &|status| {
                status.ready += u32::from(ready >= job.spec.at_once());
                status.active += u32::from(job.status.active > 0);
                status.suspended += u32::from(job.spec.suspend);
            });
        }
        for child in &self.successful {
            count(child, &|status| status.succeeded += 1);
        }
        for child in &self.failed {
            count(child, &|status| status.failed += 1);
        }
        statuses
    }
}

/// Tells whether an object is a JobSet.
pub(super) fn is_job_set(object: &Object) -> bool {
    object.kind == "JobSet"
}
