//! Limits requests to the API server, whatever causes them: a token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket. It has no clock of its own.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    burst: f64,
    tokens: f64,
    /// The time of `tokens`.
    at: Option<Instant>,
}

impl Rate {
    /// Makes a full bucket of `burst` tokens, refilled with `per_second` tokens a second.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { per_second: f64::from(per_second), burst, tokens: burst, at: None }
    }

    /// Takes a token, if there is one. Half of the bucket is reserved for urgent requests, which may cause a
    /// denial: look-ups of claims that do not exist, which anyone can cause in any number, must not use up
    /// the tokens.
    pub(super) fn take(&mut self, now: Instant, urgent: bool) -> bool {
        let elapsed = self.at.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.tokens = elapsed.as_secs_f64().mul_add(self.per_second, self.tokens).min(self.burst);
        let kept = if urgent { 0.0 } else { self.burst / 2.0 };
        let granted = self.tokens >= kept + 1.0;
        if granted {
            self.tokens -= 1.0;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rate: &mut Rate, now: Instant, urgent: bool) -> usize {
        (0..1000).take_while(|_| rate.take(now, urgent)).count()
    }

    #[test]
    fn a_burst_is_granted_and_then_the_rate() {
        let now = Instant::now();
        let mut rate = Rate::new(50, 100);
        assert_eq!(taken(&mut rate, now, true), 100);
        assert_eq!(taken(&mut rate, now + Duration::from_secs(1), true), 50);
        assert_eq!(
            taken(&mut rate, now + Duration::from_secs(3600), true),
            100,
            "no more than a burst is saved up"
        );
    }

    #[test]
    fn half_of_the_bucket_is_for_urgent_requests() {
        let now = Instant::now();
        let mut rate = Rate::new(50, 100);
        assert_eq!(taken(&mut rate, now, false), 50);
        assert_eq!(taken(&mut rate, now, true), 50);
        assert_eq!(taken(&mut rate, now + Duration::from_secs(1), false), 0);
    }

    #[test]
    fn a_clock_that_stands_still_grants_nothing_more() {
        let now = Instant::now();
        let mut rate = Rate::new(1, 1);
        assert!(rate.take(now, true) && !rate.take(now, true));
        assert!(!rate.take(now + Duration::from_millis(900), true), "a part of a token is none");
        assert!(rate.take(now + Duration::from_millis(1000), true));
    }
}
