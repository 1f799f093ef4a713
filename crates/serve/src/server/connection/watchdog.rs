//! The clock of a connection: idle, header, write and close time.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use crate::server::activity::{Activity, Phase};
use crate::server::limits::Limits;

/// Notices a phase that lasts too long.
pub(super) struct Watchdog {
    sleep: Pin<Box<Sleep>>,
    /// When the sleep ends; 0 if unknown.
    armed: u64,
    /// How long the connection may wait for a request.
    pub(super) idle: Duration,
}

impl Watchdog {
    pub(super) fn new(idle: Duration) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(idle)), armed: 0, idle }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, activity: &Activity, limits: &Limits) -> Poll<Phase> {
        loop {
            let (phase, since) = activity.get();
            let limit = match phase {
                Phase::Body | Phase::Busy => return Poll::Pending,
                Phase::Idle => self.idle,
                Phase::Handshake | Phase::Head => limits.header,
                Phase::Writing => limits.write,
                Phase::Closing => limits.close,
            };
            let due = since.saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            if activity.now() >= due {
                return Poll::Ready(phase);
            }
            // A later end is checked when the sleep is over; only an earlier one needs another sleep.
            if self.armed == 0 || due < self.armed {
                let deadline = activity
                    .origin()
                    .checked_add(Duration::from_millis(due))
                    .unwrap_or_else(|| activity.origin() + limits.idle);
                self.sleep.as_mut().reset(deadline.into());
                self.armed = due;
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.armed = 0;
        }
    }
}
