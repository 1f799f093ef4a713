//! Remembers the reviews that were put off with 429, until they are retried.
//!
//! An API server retries within its timeout, with the same uid. If it does not, the time was over, and with
//! the default `failurePolicy` the object was admitted unjudged: that is our fault, and operators must learn
//! of it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::server::metrics::Metrics;

/// The cause that counts a review that was put off and not retried.
pub(super) const LOST: &str = "shed";
/// Maximum number of remembered reviews of one source. One more counts as lost at once, as it may well be.
const MAX_PER_SOURCE: usize = 256;
/// Maximum number of remembered reviews in all.
const MAX: usize = 4096;

/// The reviews that were put off. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Deferrals(Arc<DeferralsInner>);

#[derive(Debug)]
struct DeferralsInner {
    hasher: RandomState,
    metrics: Metrics,
    /// Their number, which can be read without the lock.
    count: AtomicUsize,
    /// Reviews that were lost since the last log line about that.
    unsaid: AtomicUsize,
    reviews: Mutex<BTreeMap<PutOffKey, DeferralTimes>>,
}

/// The source of a review, and the hash of its uid.
type PutOffKey = (IpAddr, u64);

/// The times of a review that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeferralTimes {
    /// When the caller gives up, by the timeout of its first attempt.
    pub(super) until: Instant,
}

/// A review that was put off and is being retried. Dropped without an answer, it is lost.
#[derive(Debug)]
pub(super) struct Again {
    all: Deferrals,
    pub(super) times: DeferralTimes,
    answered: bool,
}

impl Deferrals {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self(Arc::new(DeferralsInner {
            hasher: RandomState::new(),
            metrics,
            count: AtomicUsize::new(0),
            unsaid: AtomicUsize::new(0),
            reviews: Mutex::default(),
        }))
    }

    /// Returns whether any review was put off and has not been retried.
    pub(super) fn any(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) > 0
    }

    /// Remembers a review. Without a uid it cannot be recognized again, and counts as lost.
    pub(super) fn remember(&self, source: IpAddr, uid: &[u8], times: DeferralTimes) {
        let key = self.key(source, uid);
        let mut reviews = self.lock();
        let own = || reviews.range((source, 0)..=(source, u64::MAX)).count();
        let has_room = || reviews.len() < MAX && own() < MAX_PER_SOURCE;
        let fits = !uid.is_empty() && (reviews.contains_key(&key) || has_room());
        if fits {
            reviews.entry(key).or_insert(times);
            self.0.count.store(reviews.len(), Ordering::Relaxed);
        }
        drop(reviews);
        if !fits {
            self.lost(1);
        }
    }

    /// Removes and returns a review that was put off, when it is retried.
    pub(super) fn again(&self, source: IpAddr, uid: &[u8]) -> Option<Again> {
        let key = self.key(source, uid);
        let mut reviews = self.lock();
        let times = reviews.remove(&key)?;
        self.0.count.store(reviews.len(), Ordering::Relaxed);
        Some(Again { all: self.clone(), times, answered: false })
    }

    /// Counts and forgets reviews that were not retried in time. The log has one line for all that were lost
    /// since the last time, as anyone can cause any number of them.
    pub(super) fn expire(&self, now: Instant) {
        if self.any() {
            let mut reviews = self.lock();
            let before = reviews.len();
            reviews.retain(|_, times| times.until > now);
            let lost = before - reviews.len();
            self.0.count.store(reviews.len(), Ordering::Relaxed);
            drop(reviews);
            self.lost(lost);
        }
        let reviews = self.0.unsaid.swap(0, Ordering::Relaxed);
        if reviews > 0 {
            tracing::error!(
                reviews,
                "put off with 429 and not asked again: the objects were admitted unjudged, or rejected where the webhook fails closed"
            );
        }
    }

    fn lost(&self, count: usize) {
        for _ in 0..count {
            self.0.metrics.fault(LOST);
        }
        self.0.unsaid.fetch_add(count, Ordering::Relaxed);
    }

    fn key(&self, source: IpAddr, uid: &[u8]) -> PutOffKey {
        (source, self.0.hasher.hash_one(uid))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PutOffKey, DeferralTimes>> {
        self.0.reviews.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Again {
    /// Records that it was answered or put off again.
    pub(super) fn settled(mut self) {
        self.answered = true;
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        if !self.answered {
            self.all.lost(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn source(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn lost(metrics: &Metrics) -> u64 {
        let text = metrics.text();
        let series = "jobgate_faults_total{cause=\"shed\"} ";
        text.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).unwrap()
    }

    fn times(now: Instant) -> DeferralTimes {
        DeferralTimes { until: now + Duration::from_secs(3) }
    }

    #[test]
    fn what_is_not_asked_again_in_time_is_a_fault() {
        let (metrics, now) = (Metrics::new(), Instant::now());
        let all = Deferrals::new(metrics.clone());
        assert_eq!(lost(&metrics), 0, "the series is there from the start");
        for uid in ["a", "b", "c"] {
            all.remember(source(1), uid.as_bytes(), times(now));
        }
        assert!(all.again(source(2), b"a").is_none(), "somebody else's");
        let again = all.again(source(1), b"a").unwrap();
        assert_eq!(again.times, times(now));
        again.settled();
        // It is gone before it has an answer.
        drop(all.again(source(1), b"b").unwrap());
        assert_eq!(lost(&metrics), 1);
        all.expire(now + Duration::from_secs(2));
        assert_eq!(lost(&metrics), 1);
        all.expire(now + Duration::from_secs(4));
        assert_eq!((lost(&metrics), all.any()), (2, false));
        assert!(all.again(source(1), b"c").is_none());
    }

    #[test]
    fn put_off_twice_it_keeps_its_time() {
        let (metrics, now) = (Metrics::new(), Instant::now());
        let all = Deferrals::new(metrics.clone());
        all.remember(source(1), b"a", times(now));
        let again = all.again(source(1), b"a").unwrap();
        all.remember(source(1), b"a", again.times);
        again.settled();
        all.remember(source(1), b"a", times(now + Duration::from_secs(9)));
        all.expire(now + Duration::from_secs(4));
        assert_eq!(lost(&metrics), 1, "one review is lost once");
    }

    #[test]
    fn the_table_is_bounded_and_what_does_not_fit_counts() {
        let (metrics, now) = (Metrics::new(), Instant::now());
        let all = Deferrals::new(metrics.clone());
        for number in 0..1000_u32 {
            all.remember(source(1), &number.to_le_bytes(), times(now));
        }
        assert_eq!((all.lock().len(), lost(&metrics)), (MAX_PER_SOURCE, 1000 - MAX_PER_SOURCE as u64));
        all.remember(source(2), b"a", times(now));
        assert!(all.again(source(2), b"a").is_some(), "another source has its own places");
        for number in 0..100_u8 {
            for uid in 0..100_u32 {
                all.remember(source(number), &uid.to_le_bytes(), times(now));
            }
        }
        assert!(all.lock().len() <= MAX);
        let before = lost(&metrics);
        all.remember(source(200), b"", times(now));
        assert_eq!(lost(&metrics), before + 1, "what has no uid cannot be known again");
    }
}
