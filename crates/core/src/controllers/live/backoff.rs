//! The back-off of a Job of a cluster: what its controller has in memory, from when pods ended.

use std::collections::{BTreeMap, BTreeSet};

use super::super::indexes::Indexes;
use super::super::job::resume::{Record, wait};
use super::super::pod::Phase;
use super::super::time::Time;
use super::groups::group_of;
use super::job::LiveJob;
use super::pod::LivePod;

/// A wait before pods are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    /// After how many failures.
    pub(super) failures: u32,
    /// When the last one was.
    pub(super) since: Time,
    /// When it is over.
    pub(super) until: Time,
    /// The indexes that wait, each for itself; nothing where the whole Job waits.
    pub(super) indexes: Option<Indexes>,
}

/// Tells whether the controller takes a pod for failed.
fn is_failed(job: &LiveJob, pod: &LivePod) -> bool {
    pod.phase == Phase::Failed
        || !job.spec.only_failed && pod.deletion.is_some() && pod.phase != Phase::Succeeded
}

/// Returns the failures since the last success, of those pods only that pass.
fn record(job: &LiveJob, is_one: impl Fn(&LivePod) -> bool) -> Record {
    let finished = |pod: &LivePod| group_of(&job.containers, pod).finished(job.clock);
    let pods = || job.pods.iter().filter(|pod| is_one(pod));
    let success = pods().filter(|pod| pod.phase == Phase::Succeeded).map(finished).max();
    let mut failed: Record = pods()
        .filter(|pod| is_failed(job, pod))
        .map(finished)
        .filter(|at| success.is_none_or(|success| *at > success))
        .fold(Record::default(), Record::with);
    // What was counted may have been deleted since.
    if success.is_none() && job.status.succeeded == 0 {
        failed.failures = failed.failures.max(job.status.failed);
    }
    failed
}

/// Returns the record of failures that the controller has: of the pods that it has counted.
pub(super) fn counted(job: &LiveJob) -> Record {
    record(job, |pod| !pod.is_tracked)
}

/// Returns for what pods that are missing wait.
pub(super) fn backoffs(job: &LiveJob) -> Vec<Backoff> {
    if job.spec.backoff_limit_per_index.is_some() {
        return of_indexes(job);
    }
    whole(job).filter(|backoff| backoff.until > Time::START).into_iter().collect()
}

/// Returns the wait of the whole Job after its last failure, also where it is over.
pub(super) fn whole(job: &LiveJob) -> Option<Backoff> {
    let mut record = record(job, |_| true);
    let since = record.last?;
    let uncounted = job.pods.iter().filter(|pod| pod.is_tracked && is_failed(job, pod)).count();
    if job.status.succeeded == 0 {
        let uncounted = u32::try_from(uncounted).unwrap_or(u32::MAX);
        record.failures = record.failures.max(job.status.failed.saturating_add(uncounted));
    }
    let until = since + wait(record.failures);
    Some(Backoff { failures: record.failures, since, until, indexes: None })
}

/// Returns the indexes that wait, each for itself: the last pod of each keeps its finalizer until it is replaced.
fn of_indexes(job: &LiveJob) -> Vec<Backoff> {
    let mut by_index = BTreeMap::new();
    let done = &job.status.completed;
    let failed = job.status.failed_indexes.clone().unwrap_or_default();
    let active: Indexes =
        Indexes::from_numbers(job.pods.iter().filter(|pod| pod.is_active()).filter_map(|pod| pod.index));
    let settled: Indexes = [done, &failed, &active].into_iter().collect();
    for pod in job.pods.iter().filter(|pod| pod.is_tracked && is_failed(job, pod)) {
        let Some(index) = pod.index.filter(|index| job.spec.completions.is_none_or(|end| *index < end))
        else {
            continue;
        };
        let failures = pod.failures.saturating_add(pod.ignored).saturating_add(1);
        let of_index = by_index.entry(index).or_insert((failures, pod));
        if of_index.0 < failures {
            *of_index = (failures, pod);
        }
    }
    let limit = job.spec.backoff_limit_per_index.unwrap_or_default();
    let open = Indexes::from_numbers(by_index.keys().copied()).without(&settled);
    let open: BTreeSet<u32> = open.iter().collect();
    let mut waits: BTreeMap<(Time, u32, Time), Vec<u32>> = BTreeMap::new();
    for (index, (failures, pod)) in by_index.into_iter().filter(|(index, _)| open.contains(index)) {
        let group = group_of(&job.containers, pod);
        let since = group.finished(job.clock);
        let until = since + wait(failures);
        if until > Time::START && pod.failures < limit {
            waits.entry((until, failures, since)).or_default().push(index);
        }
    }
    waits
        .into_iter()
        .map(|((until, failures, since), indexes)| Backoff {
            failures,
            since,
            until,
            indexes: Some(Indexes::from_numbers(indexes)),
        })
        .collect()
}
