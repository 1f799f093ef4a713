//! Moments and the seconds of a clock.

use std::fmt;
use std::ops::{Add, Sub};

/// A moment or a length of time, in milliseconds. Moments count from the creation of the object that is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The creation of the object.
    pub const START: Self = Self(0);

    /// Returns a number of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns a number of seconds. What is longer than the range is the longest.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Returns a number of seconds with a fraction; nothing for what is no number.
    #[must_use]
    pub fn from_fraction(seconds: f64) -> Option<Self> {
        let millis = (seconds * 1_000.0).round();
        #[allow(clippy::cast_possible_truncation, reason = "the range was compared")]
        (millis.abs() < 9e15).then_some(Self(millis as i64))
    }

    /// Returns the milliseconds.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Time {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.seconds())
    }
}

/// The clock of the cluster: the API keeps times in whole seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// The time of day at the creation of the object, in milliseconds.
    pub start: i64,
}

impl Clock {
    /// Returns a moment as the API keeps it: cut to the second.
    #[must_use]
    pub(crate) const fn stored(self, at: Time) -> Time {
        Time(at.0.saturating_add(self.start).div_euclid(1_000) * 1_000 - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_keeps_whole_seconds() {
        let clock = Clock { start: 300 };
        for (at, stored) in [(0, -300), (699, -300), (700, 700), (1_800, 1_700), (-301, -1_300)] {
            assert_eq!(clock.stored(Time::from_millis(at)), Time::from_millis(stored), "{at}");
        }
    }
}
