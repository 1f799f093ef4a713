//! What the look-ups have done so far: plain numbers, for whoever exports them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why nothing is known of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Look-ups are switched off.
    Off,
    /// The answer did not come in time.
    Timeout,
    /// Too many look-ups were under way.
    Busy,
    /// The API server does not let us: RBAC is missing.
    Forbidden,
    /// The API server could not be reached, or answered 401, 429 or 5xx.
    Unavailable,
    /// The answer could not be understood, or was too large.
    Garbage,
    /// The last look-ups failed, so this one was not tried.
    BreakerOpen,
    /// One object names more claims that only the API server knows than it is asked for.
    TooMany,
    /// All reviews together would have asked the API server more often than it is asked.
    RateLimited,
    /// The claim has access modes that this program does not know.
    Modes,
}

impl Why {
    /// Every reason, in order.
    pub const ALL: [Self; 10] = [
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

    /// Returns the reason as the value of a metric's label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
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

    /// Returns the reason in the words of a warning; nothing where the operator chose that nothing is looked
    /// up.
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

/// A picture of the look-ups at one moment. Counts grow from 0 at the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Claims answered from the cache.
    pub cached: u64,
    /// Claims answered by the API server, or by its answer of a moment ago: it is there.
    pub found: u64,
    /// Likewise: it is not there.
    pub absent: u64,
    /// Claims of which nothing is known, by reason, in the order of [`Why::ALL`].
    pub unknown: [u64; Why::ALL.len()],
    /// GET requests sent.
    pub requests: u64,
    /// Complete lists read.
    pub lists: u64,
    /// Lists and watches that failed.
    pub watch_failures: u64,
    /// Claims in the cache.
    pub claims: u64,
    /// How long ago the watch was last heard of; nothing without a cache or before its first list.
    pub silence: Option<Duration>,
    /// The cache is not believed now: it is not filled yet, or nothing was heard for too long.
    pub stale: bool,
    /// The watch is open, and what it missed before it was opened has had the time to come in: denials rest
    /// on the cache.
    pub watching: bool,
    /// The circuit breaker holds requests back.
    pub breaker_open: bool,
}

impl Stats {
    /// Returns how many claims were not known for the reason.
    #[must_use]
    pub fn unknown_for(&self, why: Why) -> u64 {
        self.unknown[why as usize]
    }
}

/// The counts behind [`Stats`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) cached: Count,
    pub(super) found: Count,
    pub(super) absent: Count,
    pub(super) unknown: [Count; Why::ALL.len()],
    pub(super) requests: Count,
    pub(super) lists: Count,
    pub(super) watch_failures: Count,
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
pub(super) struct Count(AtomicU64);

impl Count {
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
