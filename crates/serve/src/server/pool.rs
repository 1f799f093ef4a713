//! A resource that sources of requests share: bytes of memory, or turns.
//!
//! Three rules protect sources from each other. A source never has more than its cap. Requests are served in
//! the order of how much their source would then have, the least first. While the first in the queue waits,
//! revocable portions are revoked, starting with the largest of the source that has most.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

/// The pool. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<PoolInner>);

#[derive(Debug)]
struct PoolInner {
    total: usize,
    per_source: usize,
    taken: Gauge,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    taken: usize,
    sources: BTreeMap<IpAddr, usize>,
    /// The next key of `waiting` or `revocable`.
    next: u64,
    /// The queue, in order of arrival.
    waiting: BTreeMap<u64, PoolWaiter>,
    revocable: BTreeMap<u64, Revocable>,
    /// The total of revoked portions that have not been returned yet.
    coming_back: usize,
}

#[derive(Debug)]
struct PoolWaiter {
    source: IpAddr,
    amount: usize,
    grant: oneshot::Sender<Portion>,
}

#[derive(Debug)]
struct Revocable {
    source: IpAddr,
    amount: usize,
    /// Empty once used.
    revoke: Option<oneshot::Sender<()>>,
}

impl Pool {
    /// Makes a pool. `taken` is the gauge of what is taken; several pools can share one.
    pub(super) fn new(total: usize, per_source: usize, taken: Gauge) -> Self {
        Self(Arc::new(PoolInner { total, per_source: per_source.min(total), taken, state: Mutex::default() }))
    }

    /// Waits for a portion. The future can be dropped at any time.
    ///
    /// An amount above the cap of a source, or above what the pool has, is never granted.
    pub(super) async fn take(&self, source: IpAddr, amount: usize) -> Portion {
        let (ticket, granted) = {
            let mut state = self.0.lock();
            if state.waiting.is_empty() && state.fits(&self.0, source, amount) {
                return self.0.grant(&mut state, source, amount);
            }
            let (grant, granted) = oneshot::channel();
            let ticket = state.ticket();
            state.waiting.insert(ticket, PoolWaiter { source, amount, grant });
            (ticket, granted)
        };
        // Dropped with the future: a request that has left the queue must not delay those behind it.
        let _place = PoolPlaceGuard { pool: &self.0, ticket };
        self.0.serve();
        match granted.await {
            Ok(portion) => portion,
            // The sender is in the pool, which lives as long as `self`.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns whether a portion of this amount would have to wait because its own source has too much.
    pub(super) fn is_over_cap(&self, source: IpAddr, amount: usize) -> bool {
        self.0.lock().of(source).saturating_add(amount) > self.0.per_source
    }
}

impl PoolInner {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grant(self: &Arc<Self>, state: &mut PoolState, source: IpAddr, amount: usize) -> Portion {
        state.taken += amount;
        *state.sources.entry(source).or_default() += amount;
        self.taken.inc_by(i64::try_from(amount).unwrap_or(i64::MAX));
        Portion { pool: self.clone(), source, amount, revocable: None }
    }

    /// Grants waiting requests the available portions.
    fn serve(self: &Arc<Self>) {
        let mut granted = Vec::new();
        let mut state = self.lock();
        while let Some(ticket) = state.first(self) {
            let Some(&PoolWaiter { source, amount, .. }) = state.waiting.get(&ticket) else { break };
            if !state.fits(self, source, amount) {
                state.revoke(self, source, amount);
                break;
            }
            if let Some(waiting) = state.waiting.remove(&ticket) {
                granted.push((waiting.grant, self.grant(&mut state, source, amount)));
            }
        }
        drop(state);
        // Not under the lock: a portion whose request is gone is returned at once.
        for (grant, portion) in granted {
            drop(grant.send(portion));
        }
    }
}

impl PoolState {
    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn of(&self, source: IpAddr) -> usize {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    fn fits(&self, pool: &PoolInner, source: IpAddr, amount: usize) -> bool {
        amount <= pool.total.saturating_sub(self.taken)
            && self.of(source).saturating_add(amount) <= pool.per_source
    }

    /// Returns the next request: the one whose source would then have the least, and of these the first to
    /// arrive.
    fn first(&self, pool: &PoolInner) -> Option<u64> {
        let next = |(ticket, waiting): (&u64, &PoolWaiter)| {
            (self.of(waiting.source).saturating_add(waiting.amount), *ticket)
        };
        self.waiting
            .iter()
            .map(next)
            .filter(|(then, _)| *then <= pool.per_source)
            .min()
            .map(|(_, ticket)| ticket)
    }

    /// Revokes portions until enough is coming back for the first request in the queue; never from a source
    /// that has no more than the request's source will have.
    fn revoke(&mut self, pool: &PoolInner, source: IpAddr, amount: usize) {
        let will_have = self.of(source).saturating_add(amount);
        while amount > pool.total.saturating_sub(self.taken).saturating_add(self.coming_back) {
            let coming = |source: IpAddr| {
                self.revocable
                    .values()
                    .filter(|it| it.source == source && it.revoke.is_none())
                    .map(|it| it.amount)
                    .sum()
            };
            let richest = self.revocable.values().filter(|it| it.revoke.is_some() && it.amount > 0);
            let richest =
                richest.map(|it| (self.of(it.source).saturating_sub(coming(it.source)), it.source)).max();
            let Some((_, richest)) = richest.filter(|(has, _)| *has > will_have) else { break };
            let largest = self
                .revocable
                .values_mut()
                .filter(|it| it.source == richest && it.revoke.is_some())
                .max_by_key(|it| it.amount);
            let Some(largest) = largest else { break };
            self.coming_back += largest.amount;
            if let Some(revoke) = largest.revoke.take() {
                let _ = revoke.send(());
            }
        }
    }

    fn forget(&mut self, ticket: u64) {
        if let Some(it) = self.revocable.remove(&ticket)
            && it.revoke.is_none()
        {
            self.coming_back -= it.amount;
        }
    }

    fn give_back(&mut self, source: IpAddr, amount: usize) {
        self.taken -= amount;
        if let Some(has) = self.sources.get_mut(&source) {
            *has -= amount;
            if *has == 0 {
                self.sources.remove(&source);
            }
        }
    }
}

/// A place in the queue.
struct PoolPlaceGuard<'p> {
    pool: &'p Arc<PoolInner>,
    ticket: u64,
}

impl Drop for PoolPlaceGuard<'_> {
    fn drop(&mut self) {
        let left = self.pool.lock().waiting.remove(&self.ticket);
        if left.is_some() {
            self.pool.serve();
        }
    }
}

/// A portion of a pool, returned when dropped.
#[derive(Debug)]
pub(super) struct Portion {
    pool: Arc<PoolInner>,
    source: IpAddr,
    amount: usize,
    revocable: Option<u64>,
}

impl Portion {
    /// Allows the pool to revoke it for sources that have less. The receiver resolves when it must be
    /// returned.
    pub(super) fn revocable(&mut self) -> oneshot::Receiver<()> {
        self.keep();
        let (revoke, revoked) = oneshot::channel();
        let mut state = self.pool.lock();
        let ticket = state.ticket();
        state
            .revocable
            .insert(ticket, Revocable { source: self.source, amount: self.amount, revoke: Some(revoke) });
        let waiting = !state.waiting.is_empty();
        drop(state);
        self.revocable = Some(ticket);
        if waiting {
            self.pool.serve();
        }
        revoked
    }

    /// Makes it irrevocable, even if it has been revoked.
    pub(super) fn keep(&mut self) {
        if let Some(ticket) = self.revocable.take() {
            let mut state = self.pool.lock();
            state.forget(ticket);
            let waiting = !state.waiting.is_empty();
            drop(state);
            // Waiting requests may have counted on it.
            if waiting {
                self.pool.serve();
            }
        }
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if let Some(ticket) = self.revocable.take() {
            state.forget(ticket);
        }
        state.give_back(self.source, self.amount);
        let waiting = !state.waiting.is_empty();
        drop(state);
        self.pool.taken.dec_by(i64::try_from(self.amount).unwrap_or(i64::MAX));
        if waiting {
            self.pool.serve();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn pool(total: usize, per_source: usize) -> Pool {
        Pool::new(total, per_source, Gauge::default())
    }

    fn source(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let pool = pool(10, 10);
        let first = pool.take(source(1), 6).now_or_never().unwrap();
        assert!(pool.take(source(2), 5).now_or_never().is_none());
        let second = pool.take(source(2), 4).now_or_never().unwrap();
        assert_eq!(pool.0.taken.get(), 10);
        drop((first, second));
        assert_eq!(pool.0.taken.get(), 0);
        let state = pool.0.lock();
        assert!(
            state.taken == 0
                && state.sources.is_empty()
                && state.waiting.is_empty()
                && state.revocable.is_empty()
        );
    }

    #[test]
    fn a_source_has_a_cap() {
        let pool = pool(10, 6);
        let _first = pool.take(source(1), 6).now_or_never().unwrap();
        assert!(pool.take(source(1), 1).now_or_never().is_none());
        assert!(pool.is_over_cap(source(1), 1) && !pool.is_over_cap(source(2), 4));
        // One that waits for its own source holds nobody else up.
        let mut waiting = Box::pin(pool.take(source(1), 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(pool.take(source(2), 4).now_or_never().is_some());
    }

    #[test]
    fn where_a_revoked_portion_is_kept_another_one_is_revoked() {
        let pool = pool(10, 10);
        let mut large = pool.take(source(1), 6).now_or_never().unwrap();
        let mut small = pool.take(source(3), 4).now_or_never().unwrap();
        let (mut large_revoked, mut small_revoked) = (large.revocable(), small.revocable());
        let mut waiting = Box::pin(pool.take(source(2), 3));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(
            (&mut large_revoked).now_or_never().is_some() && (&mut small_revoked).now_or_never().is_none()
        );
        large.keep();
        assert!(small_revoked.now_or_never().is_some(), "whoever waits counts on it instead");
        drop(small);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn the_source_that_has_least_is_served_first() {
        let pool = pool(10, 10);
        let (held, rest) = (
            pool.take(source(1), 2).now_or_never().unwrap(),
            pool.take(source(3), 8).now_or_never().unwrap(),
        );
        let mut rich = Box::pin(pool.take(source(1), 4));
        assert!(rich.as_mut().now_or_never().is_none());
        let mut poor = Box::pin(pool.take(source(2), 5));
        assert!(poor.as_mut().now_or_never().is_none());
        drop(rest);
        assert!(rich.as_mut().now_or_never().is_none());
        let got = poor.as_mut().now_or_never().unwrap();
        drop(got);
        assert!(rich.as_mut().now_or_never().is_some());
        drop(held);
    }

    #[test]
    fn one_that_gives_up_leaves_nothing_behind() {
        let pool = pool(10, 10);
        let held = pool.take(source(1), 6).now_or_never().unwrap();
        let mut large = Box::pin(pool.take(source(2), 5));
        assert!(large.as_mut().now_or_never().is_none());
        let mut next = Box::pin(pool.take(source(1), 4));
        assert!(next.as_mut().now_or_never().is_none());
        drop(large);
        assert!(next.as_mut().now_or_never().is_some());
        // Granted, and given up before it is looked at.
        let mut late = Box::pin(pool.take(source(1), 10));
        assert!(late.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(pool.0.taken.get(), 10);
        drop(late);
        assert_eq!(pool.0.taken.get(), 0);
    }

    #[test]
    fn the_source_that_has_most_gives_way() {
        let pool = pool(10, 8);
        let mut portions: Vec<_> = [(1, 2), (1, 5), (2, 3)]
            .map(|(from, amount)| pool.take(source(from), amount).now_or_never().unwrap())
            .into();
        let mut revoked: Vec<_> = portions.iter_mut().map(Portion::revocable).collect();
        let mut poor = Box::pin(pool.take(source(3), 4));
        assert!(poor.as_mut().now_or_never().is_none());
        let ready: Vec<bool> = revoked.iter_mut().map(|receiver| receiver.try_recv().is_ok()).collect();
        assert_eq!(ready, [false, true, false], "the largest of the richest, and no more than is needed");
        portions.remove(1);
        let got = poor.as_mut().now_or_never().unwrap();
        assert_eq!(pool.0.lock().coming_back, 0);
        // Among equals nobody gives way.
        let mut rich = Box::pin(pool.take(source(2), 3));
        assert!(rich.as_mut().now_or_never().is_none());
        assert!(revoked[0].try_recv().is_err());
        drop((rich, got));
        // What is kept is not asked for.
        portions[1].keep();
        let mut more = Box::pin(pool.take(source(3), 7));
        assert!(more.as_mut().now_or_never().is_none());
        assert!(revoked[2].try_recv().is_err());
    }
}
