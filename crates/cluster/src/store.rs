//! The cache: every object of a kind in a few bytes, whether the watch is open, and the time of the last
//! contact with the API server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::resource::Weigh;

/// The kept part of an object.
#[derive(Clone, Debug)]
struct CacheEntry<T> {
    kept: T,
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

/// The entries with their weight.
#[derive(Debug)]
struct CacheEntries<T> {
    /// One boxed string per key, so that a claim takes its name and two words.
    by_key: HashMap<Box<str>, CacheEntry<T>>,
    weight: usize,
}

/// Objects by `namespace/name`, filled by one task and read by every review.
#[derive(Debug)]
pub(super) struct Cache<T> {
    entries: RwLock<CacheEntries<T>>,
    /// Milliseconds after `born` of the last event, bookmark, complete list, or working watch; 0 before the
    /// first list.
    heard: AtomicU64,
    /// Milliseconds after `born` from which the open watch is used; 0 while none is open.
    open_from: AtomicU64,
    born: Instant,
    stale_after: Duration,
    /// There were too many objects: the cache stays empty and every object is read from the API server.
    given_up: AtomicBool,
    settled: Notify,
}

impl<T> Default for CacheEntries<T> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), weight: 0 }
    }
}

impl<T: Clone + Weigh> Cache<T> {
    pub(super) fn new(stale_after: Duration) -> Self {
        Self {
            entries: RwLock::default(),
            heard: AtomicU64::new(0),
            open_from: AtomicU64::new(0),
            born: Instant::now(),
            stale_after,
            given_up: AtomicBool::new(false),
            settled: Notify::new(),
        }
    }

    /// Returns the kept part of an object, if it is in the cache. See [`Cache::standing`] for how reliable
    /// that is.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<T> {
        self.read().by_key.get(&*key(namespace, name)).map(|entry| entry.kept.clone())
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
        self.read().by_key.len()
    }

    /// Returns the weight of all entries.
    pub(super) fn weight(&self) -> usize {
        self.read().weight
    }

    pub(super) fn put(&self, namespace: &str, name: &str, kept: T, round: u32) {
        let (key, weight) = (key(namespace, name), kept.weight());
        let mut entries = self.write();
        let before = entries.by_key.insert(key, CacheEntry { kept, round });
        entries.weight = entries.weight + weight - before.map_or(0, |before| before.kept.weight());
    }

    pub(super) fn remove(&self, namespace: &str, name: &str) {
        let mut entries = self.write();
        if let Some(before) = entries.by_key.remove(&*key(namespace, name)) {
            entries.weight -= before.kept.weight();
        }
    }

    /// Records contact with the API server.
    pub(super) fn hear(&self) {
        self.heard.store(self.now(), Ordering::Release);
    }

    /// Returns milliseconds after `born`, counted from 1, as 0 means never.
    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Ends a list, and removes objects that were not in it. Entries are marked with the list and swept, so
    /// the old answers stay available without a second copy.
    pub(super) fn finish(&self, round: u32) {
        {
            let mut entries = self.write();
            let CacheEntries { by_key, weight } = &mut *entries;
            by_key.retain(|_, entry| {
                let stays = entry.round == round;
                *weight -= if stays { 0 } else { entry.kept.weight() };
                stays
            });
            if by_key.capacity() > by_key.len() * 4 {
                by_key.shrink_to_fit();
            }
        }
        self.hear();
        self.settled.notify_waiters();
    }

    /// Empties the cache until the next complete list.
    pub(super) fn forget(&self) {
        *self.write() = CacheEntries::default();
        self.closed();
        self.heard.store(0, Ordering::Release);
    }

    /// Empties the cache for good.
    pub(super) fn give_up(&self) {
        self.forget();
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
    fn read(&self) -> RwLockReadGuard<'_, CacheEntries<T>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CacheEntries<T>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
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
    use super::super::access::Modes;
    use super::*;

    const STALE: Duration = Duration::from_secs(90);

    fn modes(name: &str) -> Modes {
        serde_json::from_value(serde_json::json!([name])).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn believes_nothing_before_the_first_list() {
        let cache = Cache::<Modes>::new(STALE);
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
        let cache = Cache::<Modes>::new(STALE);
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
        let cache = Cache::<Modes>::new(STALE);
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
        let cache = Cache::<Modes>::new(STALE);
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
    async fn entries_weigh_what_is_there() {
        use super::super::resource::KeptObject;
        let cache = Cache::<KeptObject>::new(STALE);
        let spec = |length: usize| KeptObject::Spec("x".repeat(length).into());
        cache.put("", "a", spec(1000), 1);
        cache.put("", "b", spec(10), 1);
        let both = cache.weight();
        cache.put("", "a", spec(500), 1);
        assert_eq!(cache.weight(), both - 500);
        cache.put("", "a", spec(1000), 2);
        cache.finish(2);
        assert_eq!(cache.weight(), spec(1000).weight());
        cache.remove("", "b");
        cache.remove("", "a");
        assert_eq!(cache.weight(), 0);
        cache.put("", "a", spec(1), 2);
        cache.forget();
        assert_eq!((cache.weight(), cache.len(), cache.is_synced()), (0, 0, false));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_list_or_with_giving_up() {
        let cache = Cache::<Modes>::new(STALE);
        let (): () = tokio::join!(cache.settled(), async { cache.finish(1) }).0;
        cache.settled().await;
        let other = Cache::<Modes>::new(STALE);
        let (): () = tokio::join!(other.settled(), async { other.give_up() }).0;
        assert!(other.is_given_up() && !other.is_synced());
    }

    #[test]
    fn parts_of_a_key_do_not_run_into_each_other() {
        assert_ne!(key("a", "b-c"), key("a-b", "c"));
    }
}
