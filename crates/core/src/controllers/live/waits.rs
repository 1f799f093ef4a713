//! What a Job of a cluster waits for, and since when.

use super::super::indexes::Indexes;
use super::super::pod::Phase;
use super::super::time::Time;
use super::backoff::{Backoff, backoffs, whole};
use super::job::LiveJob;
use super::pod::LivePod;
use super::pod_waits::{Watch, Watched, in_trouble, running};
use super::wait::{Wait, WaitFor};

/// How long a controller takes to make the pods that are missing: that of Jobs looks a second after an event.
pub(super) const CREATION: Time = Time::from_seconds(10);

impl LiveJob {
    /// Returns what it waits for, what stands in its way first.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let (own, watched) = self.own_waits();
        let pods = || self.watched(watched);
        if watched != Watch::All {
            return own.into_iter().chain(in_trouble(pods())).collect();
        }
        let running = running(pods(), self.deadline());
        let mut waits: Vec<Wait> = in_trouble(pods()).into_iter().chain(own).chain(running).collect();
        waits.sort_by_key(Wait::order);
        waits
    }

    /// Returns its pods, as far as they are looked at.
    pub(super) fn watched(&self, watch: Watch) -> impl Iterator<Item = Watched<'_>> {
        // Of an index that has another pod already, nothing is waited for but the end of the Job.
        let is_held = self.spec.only_failed;
        self.pods.iter().map(move |pod| Watched { pod, is_held, watch })
    }

    /// Returns what it waits for beside its pods, and which of its pods matter.
    pub(super) fn own_waits(&self) -> (Vec<Wait>, Watch) {
        if let Some(at) = self.deletion {
            let finalizers = self.finalizers.clone();
            return (vec![WaitFor::Deletion { finalizers }.alone(Some(at), None)], Watch::InDeletion);
        }
        if let Some(end) = self.finished() {
            let what = if self.spec.ttl.is_some() { WaitFor::Ttl } else { WaitFor::Nobody };
            return (vec![what.alone(Some(end.at), self.expiry())], Watch::Nothing);
        }
        if let Some(name) = self.manager.clone() {
            return (vec![WaitFor::Manager { name }.alone(None, None)], Watch::Nothing);
        }
        if self.spec.suspend {
            let since = self.condition("Suspended").map(|condition| condition.at);
            let resume = WaitFor::Resume { queue: self.queue.clone() }.alone(since, None);
            return (vec![resume], Watch::InDeletion);
        }
        let ending = self.condition("SuccessCriteriaMet").or_else(|| self.condition("FailureTarget"));
        if let Some(ending) = ending {
            let (sort, reason) = (ending.sort.clone(), ending.reason.clone());
            let last = WaitFor::LastCondition { sort, reason }.alone(Some(ending.at), None);
            return (vec![last], Watch::InDeletion);
        }
        if self.spec.parallelism == 0 {
            return (vec![WaitFor::NoPods.alone(None, None)], Watch::InDeletion);
        }
        (self.of_missing(), Watch::All)
    }

    /// Returns how many pods the controller has still to make, as it counts them.
    fn missing(&self) -> u32 {
        let count = |is_one: &dyn Fn(&LivePod) -> bool| {
            u32::try_from(self.pods.iter().filter(|pod| is_one(pod)).count()).unwrap_or(u32::MAX)
        };
        let active = count(&LivePod::is_active);
        let terminating = count(&|pod| !pod.is_ended() && pod.deletion.is_some());
        let uncounted = |pod: &&LivePod| pod.is_tracked && pod.phase == Phase::Succeeded;
        let succeeded = if self.spec.indexed {
            let more = Indexes::from_numbers(self.pods.iter().filter(uncounted).filter_map(|pod| pod.index));
            self.status.completed.union(&more).len()
        } else {
            self.status.succeeded.saturating_add(count(&|pod| uncounted(&pod)))
        };
        let wanted = match self.spec.completions {
            None if succeeded > 0 => 0,
            None => self.spec.parallelism,
            Some(all) => {
                let failed = self.status.failed_indexes.as_ref().map_or(0, Indexes::len);
                all.saturating_sub(succeeded).saturating_sub(failed).min(self.spec.parallelism)
            }
        };
        let held = if self.spec.only_failed { terminating } else { 0 };
        wanted.saturating_sub(active).saturating_sub(held)
    }

    /// Returns for what the pods wait that are missing.
    fn of_missing(&self) -> Vec<Wait> {
        let missing = self.missing();
        if missing == 0 {
            return Vec::new();
        }
        let backoffs = backoffs(self);
        if !backoffs.is_empty() {
            let wait = |backoff: Backoff| {
                let what = WaitFor::Backoff { failures: backoff.failures, indexes: backoff.indexes };
                what.alone(Some(backoff.since), Some(backoff.until))
            };
            return backoffs.into_iter().map(wait).collect();
        }
        if self.status.start.is_none() && self.pods.is_empty() {
            return vec![WaitFor::FirstLook.alone(Some(self.created), None)];
        }
        let ended = self.pods.iter().flat_map(|pod| pod.containers.iter().filter_map(|one| one.terminated));
        let backoff = whole(self).filter(|_| !self.is_per_index()).map(|backoff| backoff.until);
        let last = ended.map(|(_, at)| at).chain(self.status.start).chain(backoff).max();
        // Within seconds, the controller makes them.
        let is_late = last.is_none_or(|last| last + CREATION < Time::START);
        if is_late {
            vec![WaitFor::Missing { count: missing, role: None }.alone(last, None)]
        } else {
            Vec::new()
        }
    }
}
