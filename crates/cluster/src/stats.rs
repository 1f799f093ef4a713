//! Statistics of the look-ups.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why a claim is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Look-ups are switched off.
    Off,
    /// The answer did not come in time.
    Timeout,
    /// There were too many concurrent look-ups.
    Busy,
    /// RBAC does not allow it.
    Forbidden,
    /// The API server could not be reached, or answered 401, 429 or 5xx.
    Unavailable,
    /// The answer was invalid or too large.
    Garbage,
    /// The last look-ups failed, so this one was not tried.
    BreakerOpen,
    /// One object names more claims than are requested from the API server.
    TooMany,
    /// The rate limit of all reviews together was reached.
    RateLimited,
    /// The claim has access modes that this program does not know.
    Modes,
}

impl Why {
    /// Every reason, in order.
    pub(crate) const ALL: [Self; 10] = [
        Self::Off,
        Self::Timeout,
        Self::Busy,
        Self::Forbidden,
        Self::Unavailable,
        Self::Garbage,
        Self::BreakerOpen,
        Self::TooMany,
        Self::RateLimited,
        Self::Modes,
    ];

    /// Returns the value of a metric's label.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Timeout => "timeout",
            Self::Busy => "busy",
            Self::Forbidden => "forbidden",
            Self::Unavailable => "unavailable",
            Self::Garbage => "garbage",
            Self::BreakerOpen => "breaker_open",
            Self::TooMany => "too_many",
            Self::RateLimited => "rate_limited",
            Self::Modes => "modes",
        }
    }

    /// Returns the reason for a warning; nothing if look-ups are off.
    pub(super) fn explain(self) -> Option<&'static str> {
        Some(match self {
            Self::Off => return None,
            Self::Timeout => "no answer in time",
            Self::Busy | Self::RateLimited => "too many requests",
            Self::Forbidden => "no permission",
            Self::Unavailable | Self::BreakerOpen => "the API server does not answer",
            Self::Garbage => "the answer was not understood",
            Self::TooMany => "too many in one object",
            Self::Modes => "unknown access modes",
        })
    }
}

/// The state of the look-ups. Counts start from 0 with the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Claims answered from the cache.
    pub cached: u64,
    /// Claims that exist, as the API server answered now or recently.
    pub found: u64,
    /// Likewise, claims that do not exist.
    pub absent: u64,
    /// Unknown claims by reason, in the order of [`Why::ALL`].
    pub(crate) unknown: [u64; Why::ALL.len()],
    /// GET requests sent.
    pub requests: u64,
    /// Complete lists read.
    pub lists: u64,
    /// Lists and watches that failed.
    pub watch_failures: u64,
    /// Claims in the cache.
    pub claims: u64,
    /// Time since the last contact of the watch; nothing without a cache or before its first list.
    pub silence: Option<Duration>,
    /// The cache is not used: it is not filled yet, or there was no contact for too long.
    pub stale: bool,
    /// The watch is open and has caught up: denials rely on the cache.
    pub watching: bool,
    /// The circuit breaker is open.
    pub breaker_open: bool,
}

impl Stats {
    /// Returns the number of claims that were unknown for this reason.
    #[must_use]
    pub fn unknown_for(&self, why: Why) -> u64 {
        self.unknown[why as usize]
    }
}

/// The counts behind [`Stats`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) cached: StatsCounter,
    pub(super) found: StatsCounter,
    pub(super) absent: StatsCounter,
    pub(super) unknown: [StatsCounter; Why::ALL.len()],
    pub(super) requests: StatsCounter,
    pub(super) lists: StatsCounter,
    pub(super) watch_failures: StatsCounter,
}

impl Counts {
    pub(super) fn read(&self) -> Stats {
        Stats {
            cached: self.cached.get(),
            found: self.found.get(),
            absent: self.absent.get(),
            unknown: std::array::from_fn(|i| self.unknown[i].get()),
            requests: self.requests.get(),
            lists: self.lists.get(),
            watch_failures: self.watch_failures.get(),
            ..Stats::default()
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct StatsCounter(AtomicU64);

impl StatsCounter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_where_their_number_says() {
        for (i, why) in Why::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, i);
        }
        let counts = Counts::default();
        counts.unknown[Why::Forbidden as usize].add();
        assert_eq!(counts.read().unknown_for(Why::Forbidden), 1);
        assert_eq!(counts.read().unknown_for(Why::Timeout), 0);
    }
}
