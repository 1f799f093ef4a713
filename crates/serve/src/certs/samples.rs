//! What the tests of certificates have in common.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::authority::{Authority, Names};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// A moment in 2027.
pub(super) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

pub(super) fn names() -> Names {
    Names::new("jobgate", "jobgate-system").expect("these are labels")
}

/// A new authority for a year from [`now`].
pub(super) fn authority() -> Authority {
    Authority::generate(&names(), now(), 365 * DAY).expect("randomness")
}
