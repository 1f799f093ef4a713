//! The Job controller of a cluster that runs already: what it has in memory.

use super::super::time::Time;
use super::backoff::{BackoffRecord, remaining};
use super::{JobController, JobQueue};

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// How many.
    pub(crate) failures: u32,
    /// When the last one was.
    pub(crate) last: Option<Time>,
}

impl Record {
    /// Returns the record with one more.
    pub(crate) fn with(self, at: Time) -> Self {
        Self { failures: self.failures.saturating_add(1), last: self.last.max(Some(at)) }
    }
}

/// Returns how long no pod is made after so many failures.
pub(crate) fn wait(failures: u32) -> Time {
    remaining(failures, Time::START, Time::START)
}

impl JobController {
    /// Lets it look at a Job, with a record of failures.
    pub(crate) fn resume(&mut self, job: usize, record: Record, at: Time) {
        let record = BackoffRecord::new(record.failures, record.last);
        self.queue.insert(job, JobQueue { now: Some(at), record, ..JobQueue::default() });
    }
}
