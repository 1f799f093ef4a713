//! Stops requests to an API server that does not answer: most of the harm of a slow dependency comes from
//! waiting.

use std::time::Duration;

use tokio::time::Instant;

/// A circuit breaker. It has no clock of its own.
#[derive(Debug)]
pub(super) struct Breaker {
    /// Failures in a row that open it.
    failures: u32,
    /// How long it stays open before one request may probe.
    pause: Duration,
    state: BreakerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    /// Requests pass; the number of failures in a row.
    Closed(u32),
    /// No request passes before this time.
    Open(Instant),
    /// One request is probing; no other passes before this time.
    Probing(Instant),
}

impl Breaker {
    pub(super) fn new(failures: u32, pause: Duration) -> Self {
        Self { failures: failures.max(1), pause, state: BreakerState::Closed(0) }
    }

    /// Returns whether a request would be held back now. Changes nothing.
    pub(super) fn holds_back(&self, now: Instant) -> bool {
        matches!(self.state, BreakerState::Open(until) | BreakerState::Probing(until) if now < until)
    }

    /// Returns whether a request may be sent; if so, its outcome must be reported.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        if self.holds_back(now) {
            return false;
        }
        if self.is_open() {
            self.state = BreakerState::Probing(now + self.pause);
        }
        true
    }

    /// Records an answer of the API server, also to a request from before the breaker opened.
    pub(super) fn succeeded(&mut self) {
        self.state = BreakerState::Closed(0);
    }

    /// Records a missing or invalid answer.
    pub(super) fn failed(&mut self, now: Instant) {
        self.state = match self.state {
            BreakerState::Closed(failures) if failures + 1 < self.failures => {
                BreakerState::Closed(failures + 1)
            }
            BreakerState::Closed(_) | BreakerState::Probing(_) => BreakerState::Open(now + self.pause),
            // A late failure from before it opened must not delay the probe.
            BreakerState::Open(until) => BreakerState::Open(until),
        };
    }

    /// Returns whether it is open or half open.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, BreakerState::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(5, PAUSE);
        for _ in 0..5 {
            assert!(breaker.admit(now));
            breaker.failed(now);
        }
        breaker
    }

    #[test]
    fn opens_at_the_fifth_failure_in_a_row() {
        let now = Instant::now();
        let mut breaker = Breaker::new(5, PAUSE);
        for _ in 0..4 {
            breaker.failed(now);
        }
        assert!(!breaker.is_open() && breaker.admit(now));
        breaker.succeeded();
        for _ in 0..4 {
            breaker.failed(now);
        }
        assert!(!breaker.is_open(), "a success in between starts the count anew");
        breaker.failed(now);
        assert!(breaker.is_open() && !breaker.admit(now));
    }

    #[test]
    fn lets_one_probe_through_when_the_pause_is_over() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(!breaker.admit(now + PAUSE - Duration::from_millis(1)));
        assert!(breaker.admit(now + PAUSE));
        assert!(!breaker.admit(now + PAUSE), "the second must wait for the probe");
        breaker.succeeded();
        assert!(breaker.admit(now + PAUSE) && breaker.admit(now + PAUSE) && !breaker.is_open());
    }

    #[test]
    fn a_failed_probe_opens_it_for_another_pause() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(breaker.admit(now + PAUSE));
        breaker.failed(now + PAUSE);
        assert!(!breaker.admit(now + PAUSE * 2 - Duration::from_millis(1)));
        assert!(breaker.admit(now + PAUSE * 2));
    }

    #[test]
    fn stragglers_do_not_put_the_probe_off() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.failed(now + PAUSE / 2);
        assert!(breaker.admit(now + PAUSE));
    }

    #[test]
    fn a_probe_that_never_reports_is_followed_by_another() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(breaker.admit(now + PAUSE));
        assert!(!breaker.admit(now + PAUSE * 2 - Duration::from_millis(1)));
        assert!(breaker.admit(now + PAUSE * 2));
    }
}
