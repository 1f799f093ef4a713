//! Stops asking an API server that does not answer: most of the harm a slow dependency does is the waiting
//! for it.

use std::time::Duration;

use tokio::time::Instant;

/// A circuit breaker. It has no clock of its own.
#[derive(Debug)]
pub(super) struct Breaker {
    /// So many failures in a row open it.
    failures: u32,
    /// So long it stays open before one request may probe.
    pause: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Requests pass; so many have failed in a row.
    Closed(u32),
    /// Nothing passes before this time.
    Open(Instant),
    /// One request is on its way to find out; nothing else passes before this time, and then another may try.
    Probing(Instant),
}

impl Breaker {
    pub(super) fn new(failures: u32, pause: Duration) -> Self {
        Self { failures: failures.max(1), pause, state: State::Closed(0) }
    }

    /// Returns whether a request would not be sent now. Asking changes nothing.
    pub(super) fn holds_back(&self, now: Instant) -> bool {
        matches!(self.state, State::Open(until) | State::Probing(until) if now < until)
    }

    /// Asks whether a request may be sent; if so, its outcome must be reported.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        if self.holds_back(now) {
            return false;
        }
        if self.is_open() {
            self.state = State::Probing(now + self.pause);
        }
        true
    }

    /// Takes note that the API server answered. An answer to a request from before the opening counts as
    /// well.
    pub(super) fn succeeded(&mut self) {
        self.state = State::Closed(0);
    }

    /// Takes note that it did not answer, or not sensibly.
    pub(super) fn failed(&mut self, now: Instant) {
        self.state = match self.state {
            State::Closed(failures) if failures + 1 < self.failures => State::Closed(failures + 1),
            State::Closed(_) | State::Probing(_) => State::Open(now + self.pause),
            // A straggler from before the opening must not put the probe off.
            State::Open(until) => State::Open(until),
        };
    }

    /// Tells whether it is open or half open.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed(_))
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
