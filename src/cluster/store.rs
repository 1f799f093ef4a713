//! The cache: every claim of the cluster in a few bytes, whether the watch is open, and the time of the last
//! contact with the API server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::access::Modes;

/// What is kept of a claim.
#[derive(Clone, Copy, Debug)]
struct Entry {
    modes: Modes,
    /// The last list with this entry; see [`Cache::finish`].
    round: u32,
}

/// How reliable the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The watch is open: the cache is up to date, except for events on their way.
    Current,
    /// The watch is not open. Good enough to admit an object, not to deny it.
    Behind,
    /// No contact for too long, no list yet, or the cache was given up.
    Stale,
}

/// Claims by `namespace/name`, filled by one task and read by every review.
#[derive(Debug)]
pub(super) struct Cache {
    /// One boxed string per key, so that a claim takes its name and two words.
    claims: RwLock<HashMap<Box<str>, Entry>>,
    /// Milliseconds after `born` of the last event, bookmark, complete list, or working watch; 0 before the
    /// first list.
    heard: AtomicU64,
    /// Milliseconds after `born` from which the open watch is used; 0 while none is open.
    open_from: AtomicU64,
    born: Instant,
    stale_after: Duration,
    /// Too many claims: the cache is empty and every claim is read from the API server.
    given_up: AtomicBool,
    settled: Notify,
}

impl Cache {
    pub(super) fn new(stale_after: Duration) -> Self {
        Self {
            claims: RwLock::default(),
            heard: AtomicU64::new(0),
            open_from: AtomicU64::new(0),
            born: Instant::now(),
            stale_after,
            given_up: AtomicBool::new(false),
            settled: Notify::new(),
        }
    }

    /// Returns the modes of a claim, if it is in the cache. [`Cache::standing`] says how reliable they are.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Modes> {
        self.read().get(&*key(namespace, name)).map(|entry| entry.modes)
    }

    /// Returns how reliable the cache is now.
    pub(super) fn standing(&self) -> Standing {
        if self.is_stale() {
            return Standing::Stale;
        }
        match self.open_from.load(Ordering::Acquire) {
            0 => Standing::Behind,
            from if from <= self.now() => Standing::Current,
            _ => Standing::Behind,
        }
    }

    /// Records that a watch was opened, which is used after `catch_up`.
    pub(super) fn opened(&self, catch_up: Duration) {
        let catch_up = u64::try_from(catch_up.as_millis()).unwrap_or(u64::MAX);
        self.open_from.store(self.now().saturating_add(catch_up), Ordering::Release);
    }

    /// Records that no watch is open.
    pub(super) fn closed(&self) {
        self.open_from.store(0, Ordering::Release);
    }

    /// Returns whether there has been a complete list.
    pub(super) fn is_synced(&self) -> bool {
        self.heard.load(Ordering::Acquire) != 0
    }

    /// Returns whether the last contact with the API server is too old, or there was none.
    pub(super) fn is_stale(&self) -> bool {
        self.silence().is_none_or(|silence| silence > self.stale_after)
    }

    /// Returns the time since the last contact with the API server; nothing before the first list.
    pub(super) fn silence(&self) -> Option<Duration> {
        let heard = self.heard.load(Ordering::Acquire);
        (heard != 0).then(|| Duration::from_millis(self.now().saturating_sub(heard)))
    }

    pub(super) fn len(&self) -> usize {
        self.read().len()
    }

    pub(super) fn put(&self, namespace: &str, name: &str, modes: Modes, round: u32) {
        let key = key(namespace, name);
        self.write().insert(key, Entry { modes, round });
    }

    pub(super) fn remove(&self, namespace: &str, name: &str) {
        self.write().remove(&*key(namespace, name));
    }

    /// Records contact with the API server.
    pub(super) fn hear(&self) {
        self.heard.store(self.now(), Ordering::Release);
    }

    /// Returns milliseconds after `born`, counted from 1, as 0 means never.
    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Ends a list, and removes claims that were not in it. Entries are marked with the list and swept, so
    /// the old answers stay available without a second copy.
    pub(super) fn finish(&self, round: u32) {
        {
            let mut claims = self.write();
            claims.retain(|_, entry| entry.round == round);
            if claims.capacity() > claims.len() * 4 {
                claims.shrink_to_fit();
            }
        }
        self.hear();
        self.settled.notify_waiters();
    }

    /// Empties the cache for good.
    pub(super) fn give_up(&self) {
        *self.write() = HashMap::new();
        self.closed();
        self.heard.store(0, Ordering::Release);
        self.given_up.store(true, Ordering::Release);
        self.settled.notify_waiters();
    }

    /// Returns whether the cache was given up.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Waits for the first complete list, or until the cache is given up.
    pub(super) async fn settled(&self) {
        let notified = self.settled.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if !self.is_synced() && !self.is_given_up() {
            notified.await;
        }
    }

    // A panic under the lock cannot have left the map inconsistent.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, Entry>> {
        self.claims.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, Entry>> {
        self.claims.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins the parts of a key; neither may contain a slash.
fn key(namespace: &str, name: &str) -> Box<str> {
    let mut key = String::with_capacity(namespace.len() + 1 + name.len());
    key.push_str(namespace);
    key.push('/');
    key.push_str(name);
    key.into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Duration = Duration::from_secs(90);

    fn modes(name: &str) -> Modes {
        serde_json::from_value(serde_json::json!([name])).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn believes_nothing_before_the_first_list() {
        let cache = Cache::new(STALE);
        cache.put("ml", "a", modes("ReadWriteOnce"), 1);
        assert_eq!(cache.standing(), Standing::Stale);
        assert!(!cache.is_synced() && cache.is_stale() && cache.silence().is_none());
        cache.finish(1);
        assert_eq!(cache.get("ml", "a"), Some(modes("ReadWriteOnce")));
        assert!(cache.is_synced() && !cache.is_stale());
        assert_eq!(cache.standing(), Standing::Behind, "there is no watch yet");
    }

    #[tokio::test(start_paused = true)]
    async fn is_current_while_a_watch_is_open_and_has_caught_up() {
        let cache = Cache::new(STALE);
        cache.finish(1);
        cache.opened(Duration::ZERO);
        assert_eq!(cache.standing(), Standing::Current);
        cache.closed();
        assert_eq!(cache.standing(), Standing::Behind);
        cache.opened(Duration::from_secs(1));
        assert_eq!(cache.standing(), Standing::Behind, "what happened meanwhile is still on its way");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.standing(), Standing::Current);
        tokio::time::advance(STALE).await;
        assert_eq!(cache.standing(), Standing::Stale);
    }

    #[tokio::test(start_paused = true)]
    async fn goes_stale_in_silence_and_comes_back_with_a_word() {
        let cache = Cache::new(STALE);
        cache.put("ml", "a", modes("ReadWriteOnce"), 1);
        cache.finish(1);
        tokio::time::advance(STALE).await;
        assert!(!cache.is_stale());
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(cache.is_stale() && cache.is_synced());
        assert_eq!(cache.standing(), Standing::Stale);
        cache.hear();
        assert_eq!(cache.standing(), Standing::Behind);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_list_sweeps_what_it_does_not_name() {
        let cache = Cache::new(STALE);
        cache.put("ml", "old", modes("ReadWriteOnce"), 1);
        cache.put("ml", "kept", modes("ReadWriteOnce"), 1);
        cache.finish(1);
        cache.put("ml", "kept", modes("ReadWriteMany"), 2);
        assert!(cache.get("ml", "old").is_some(), "the old list answers until the new one is complete");
        cache.finish(2);
        assert_eq!(cache.get("ml", "old"), None);
        assert_eq!(cache.get("ml", "kept"), Some(modes("ReadWriteMany")));
        cache.remove("ml", "kept");
        assert_eq!(cache.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_list_or_with_giving_up() {
        let cache = Cache::new(STALE);
        let (): () = tokio::join!(cache.settled(), async { cache.finish(1) }).0;
        cache.settled().await;
        let other = Cache::new(STALE);
        let (): () = tokio::join!(other.settled(), async { other.give_up() }).0;
        assert!(other.is_given_up() && !other.is_synced());
    }

    #[test]
    fn parts_of_a_key_do_not_run_into_each_other() {
        assert_ne!(key("a", "b-c"), key("a-b", "c"));
    }
}
