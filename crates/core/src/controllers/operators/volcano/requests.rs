//! What the job controller is to look at, in order (`pkg/controllers/job/job_controller.go`).

use std::collections::VecDeque;

use super::super::super::time::Time;
use super::policy::{JobAction, Request, RequestEvent, request_of};

/// The first wait after an error (`DefaultTypedControllerRateLimiter`, `client-go/util/workqueue`).
const FIRST_ERROR_WAIT: i64 = 5;
/// How many tries of a request are made again after an error (`--max-requeue-num`).
const MOST_ERRORS: u32 = 15;

/// Requests that wait, and those that ended in errors.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// In order of time.
    queue: VecDeque<(Time, Request)>,
    /// What was tried last: whether it ended in an error is not known yet.
    tried: Option<Request>,
    /// How many tries in a row ended in an error.
    errors: Vec<(Request, u32)>,
}

impl Requests {
    /// Adds a request; one that waits already, and comes no sooner, is not added again.
    pub(super) fn push(&mut self, request: Request, at: Time) {
        if self.queue.iter().any(|(due, other)| *due >= at && *other == request) {
            return;
        }
        // Of what happens in one moment, policies see to it before a sync does: the sync of the first of two pods that end
        // together seldom knows of the second.
        let is_late = |request: &Request| request.event == RequestEvent::OutOfSync;
        let key = (at, is_late(&request));
        let place = self.queue.partition_point(|(due, other)| (*due, is_late(other)) <= key);
        self.queue.insert(place, (at, request));
    }

    /// Adds a request that comes before all others.
    pub(super) fn push_first(&mut self, request: Request, at: Time) {
        self.queue.push_front((at, request));
    }

    /// Returns when the first is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub(super) fn take(&mut self, at: Time) -> Option<Request> {
        self.due().filter(|due| *due <= at)?;
        self.queue.pop_front().map(|(_, request)| request)
    }

    /// Notes that a request is tried.
    pub(super) fn begin(&mut self, request: &Request) {
        self.tried = Some(request.clone());
    }

    /// Forgets the errors of the last try, which ended in none.
    pub(super) fn accept(&mut self) {
        if let Some(tried) = self.tried.take() {
            self.errors.retain(|(request, _)| *request != tried);
        }
    }

    /// Takes an error of the last try: it is made again, later each time, and after the last the job is terminated
    /// (`handleJobError`).
    pub(super) fn refuse(&mut self, at: Time) {
        let Some(tried) = self.tried.take() else { return };
        let known = self.errors.iter_mut().find(|(request, _)| *request == tried);
        let before = match known {
            Some((_, count)) => {
                *count += 1;
                *count - 1
            }
            None => {
                self.errors.push((tried.clone(), 1));
                0
            }
        };
        if before >= MOST_ERRORS {
            let terminate = request_of(tried.job, RequestEvent::CommandIssued);
            self.push(Request { action: Some(JobAction::TerminateJob), ..terminate }, at);
            return;
        }
        let wait = FIRST_ERROR_WAIT.checked_shl(before).unwrap_or(i64::MAX);
        self.push(tried, at + Time::from_millis(wait));
    }
}
