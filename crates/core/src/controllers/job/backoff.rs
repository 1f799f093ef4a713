//! How long the Job controller waits before it replaces pods (`pkg/controller/job/backoff_utils.go`).

use super::super::pod::PodGroup;
use super::super::time::{Clock, Time};

/// The wait after the first failure (`DefaultJobPodFailureBackOff`).
const FIRST: Time = Time::from_seconds(10);
/// The longest wait (`MaxJobPodFailureBackOff`).
const MOST: Time = Time::from_seconds(600);

/// The pods of a Job that failed since the last one succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BackoffRecord {
    failures: u32,
    last: Option<Time>,
}

impl BackoffRecord {
    /// Returns the record of so many failures, the last of which was at a time.
    pub(super) fn new(failures: u32, last: Option<Time>) -> Self {
        Self { failures, last }
    }

    /// Returns the record with what has ended since.
    pub(super) fn with(&self, succeeded: &[&PodGroup], failed: &[&PodGroup], clock: Clock) -> Self {
        let ends = |pods: &[&PodGroup]| pods.iter().map(|pods| pods.finished(clock)).max();
        let count = |pods: &mut dyn Iterator<Item = &&PodGroup>| {
            pods.map(|pods| pods.count()).fold(0, u32::saturating_add)
        };
        let Some(success) = ends(succeeded) else {
            return match ends(failed) {
                None => self.clone(),
                last => Self { failures: self.failures.saturating_add(count(&mut failed.iter())), last },
            };
        };
        let after: Vec<&PodGroup> =
            failed.iter().copied().filter(|pods| pods.finished(clock) > success).collect();
        Self { failures: count(&mut after.iter()), last: ends(&after) }
    }

    /// Returns how long no pod is made.
    pub(super) fn remaining(&self, at: Time) -> Time {
        self.last.map_or(Time::START, |last| remaining(self.failures, last, at))
    }
}

/// Returns what is left of the wait after a number of failures.
pub(super) fn remaining(failures: u32, last: Time, at: Time) -> Time {
    (wait_after(failures) - (at - last)).max(Time::START)
}

/// Returns the wait after a number of failures: 10 s, and twice as long for each more, at most 10 min.
pub(crate) fn wait_after(failures: u32) -> Time {
    let Some(doublings) = failures.checked_sub(1) else { return Time::START };
    let mut wait = FIRST;
    for _ in 0..doublings.min(16) {
        wait = (wait + wait).min(MOST);
    }
    wait
}
