//! Permits that sources take in turn: a source with a thousand requests waits for itself and does not delay
//! others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Permits and a queue for them. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct FairQueue(Arc<Mutex<TurnQueue>>);

#[derive(Debug)]
struct TurnQueue {
    free: usize,
    waiting: BTreeMap<IpAddr, VecDeque<oneshot::Sender<Turn>>>,
    /// The sources in `waiting`, each once, the next first.
    order: VecDeque<IpAddr>,
}

/// A permit. Dropped, it goes to the next source.
#[derive(Debug)]
pub(super) struct Turn(Option<FairQueue>);

impl FairQueue {
    /// Makes a queue with this number of permits.
    pub(super) fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(TurnQueue {
            free: permits.max(1),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
        })))
    }

    /// Waits for a permit. Sources take turns; calls of one source are served in order. Dropping the future
    /// affects no one else.
    pub(super) async fn take(&self, source: IpAddr) -> Turn {
        let receiver = {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Turn(Some(self.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            let line = queue.waiting.entry(source).or_default();
            let first = line.is_empty();
            line.push_back(sender);
            if first {
                queue.order.push_back(source);
            }
            receiver
        };
        // The sender is dropped only after it has sent.
        receiver.await.unwrap_or(Turn(None))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TurnQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(self) {
        let mut queue = self.lock();
        loop {
            let Some(next) = queue.next() else {
                queue.free += 1;
                return;
            };
            // A send to a dropped receiver returns the permit, which must not be dropped under the lock.
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

impl TurnQueue {
    /// Removes the first call of the next source from its queue.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        loop {
            let source = self.order.pop_front()?;
            let line = self.waiting.get_mut(&source)?;
            let next = std::iter::from_fn(|| line.pop_front()).find(|sender| !sender.is_closed());
            if line.is_empty() {
                self.waiting.remove(&source);
            } else {
                self.order.push_back(source);
            }
            if next.is_some() {
                return next;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn source(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[test]
    fn sources_take_turns() {
        let turns = FairQueue::new(1);
        let mut held = turns.take(source(1)).now_or_never();
        assert!(held.is_some());
        let mut waiting: Vec<_> = [1, 1, 1, 1, 2, 2, 3]
            .into_iter()
            .map(|last| (last, Box::pin(turns.take(source(last)))))
            .collect();
        assert!(waiting.iter_mut().all(|(_, turn)| turn.now_or_never().is_none()));
        let mut order = Vec::new();
        while held.take().is_some() {
            let next =
                waiting.iter_mut().enumerate().find_map(|(at, (_, turn))| Some((at, turn.now_or_never()?)));
            if let Some((at, turn)) = next {
                order.push(waiting.remove(at).0);
                held = Some(turn);
            }
        }
        assert_eq!(order, [1, 2, 3, 1, 2, 1, 1]);
        assert!(turns.take(source(9)).now_or_never().is_some(), "the permit is free again");
    }

    #[test]
    fn whoever_goes_away_gives_way() {
        let turns = FairQueue::new(2);
        let held: Vec<_> = (0..2).map(|_| turns.take(source(1)).now_or_never().unwrap()).collect();
        let mut gone: Vec<_> = (0..5).map(|_| Box::pin(turns.take(source(1)))).collect();
        let mut stays = Box::pin(turns.take(source(2)));
        assert!(
            gone.iter_mut().all(|turn| turn.now_or_never().is_none())
                && stays.as_mut().now_or_never().is_none()
        );
        gone.truncate(1);
        drop(held);
        // A permit that was sent and not received yet is not lost either.
        drop(gone);
        drop(stays.as_mut().now_or_never().expect("its turn"));
        drop(stays);
        let all: Vec<_> = (0..2).map(|_| turns.take(source(3)).now_or_never()).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(turns.lock().waiting.is_empty() && turns.lock().order.is_empty());
    }
}
