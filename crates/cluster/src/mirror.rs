//! Keeps a cache up to date: lists all objects of a kind in pages, then watches, and starts again if either fails.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::fetch::{self, Failure, Lines};
use super::list::Pages;
use super::resource::{NamedObject as _, Resource, ResourcePlace};
use super::stats::Counts;
use super::store::Cache;
use super::wire::{self, ListPage, Metadata, WireEvent};
use crate::settings::Settings;
use jobgate_core::kinds::ApiResource;

/// Maximum size of a page.
pub(super) const MAX_PAGE_BYTES: usize = 4 << 20;

/// Pause before the next list of a kind that the cluster does not serve or forbids reading. Meanwhile, the
/// cache is empty and each object is read individually.
const UNSERVED: Duration = Duration::from_secs(600);

/// A watch that ends after this time has worked, even without events: the protocol allows this.
pub const LONG_ENOUGH: Duration = Duration::from_secs(5);

/// Fills the cache forever; returns only if there are too many objects for it.
pub(super) async fn run<R: Resource>(
    client: Client,
    settings: Settings,
    place: ResourcePlace,
    cache: Arc<Cache<R::Kept>>,
    counts: Arc<Counts>,
) {
    let pause = Pause::between(settings.first_pause, settings.longest_pause);
    let (round, failing, as_of) = (0, false, Instant::now());
    let mut mirror: Mirror<R> =
        Mirror { client, pause, settings, place, cache, counts, round, failing, as_of };
    let mut version = None;
    loop {
        if mirror.is_full() {
            return mirror.give_up();
        }
        version = match version {
            None => match mirror.list().await {
                Ok(Some(version)) => Some(version),
                Ok(None) => return mirror.give_up(),
                Err(failure) if mirror.is_unserved(&failure) => {
                    mirror.unserved(&failure).await;
                    None
                }
                Err(failure) => {
                    mirror.failed(&failure).await;
                    None
                }
            },
            Some(from) => mirror.watch(from).await,
        };
    }
}

struct Mirror<R: Resource> {
    client: Client,
    settings: Settings,
    place: ResourcePlace,
    cache: Arc<Cache<R::Kept>>,
    counts: Arc<Counts>,
    pause: Pause,
    /// Number of the current list, which marks its entries.
    round: u32,
    /// The last attempt failed, and this was logged.
    failing: bool,
    /// When the cache was last known to be up to date.
    as_of: Instant,
}

impl<R: Resource> Mirror<R> {
    /// Reads all pages; returns the version to watch from, or `None` if there are too many objects.
    async fn list(&mut self) -> Result<Option<String>, Failure> {
        self.round = self.round.wrapping_add(1);
        let began = Instant::now();
        let client = self.client.clone();
        let Settings { page_size, list_timeout, .. } = self.settings;
        let list = self.place.api.list("");
        let mut pages = Pages::new(&client, &list, page_size, MAX_PAGE_BYTES, list_timeout);
        loop {
            let body = pages.fetch().await?;
            let page: ListPage<'_, R::Object<'_>> = serde_json::from_slice(&body)?;
            for object in &page.items {
                self.put(object);
            }
            if self.is_full() {
                return Ok(None);
            }
            if !pages.turn(&page.metadata.next) {
                if page.metadata.resource_version.is_empty() {
                    return Err(Failure::Foreign);
                }
                self.cache.finish(self.round);
                self.as_of = began;
                self.counts.lists.add();
                self.well();
                return Ok(Some(page.metadata.resource_version.into_owned()));
            }
        }
    }

    fn put(&self, object: &R::Object<'_>) {
        let Metadata { namespace, name, .. } = object.metadata();
        self.cache.put(namespace, name, R::keep(&self.place, object), self.round);
    }

    fn is_full(&self) -> bool {
        self.cache.weight() > self.place.most
    }

    /// Returns whether a failure means that the cluster does not serve the kind, which is optional, or
    /// forbids reading it.
    fn is_unserved(&self, failure: &Failure) -> bool {
        self.place.api.is_optional
            && matches!(failure, Failure::NotFound | Failure::Foreign | Failure::Forbidden)
    }

    /// Empties the cache, and waits for a long time before the next attempt.
    async fn unserved(&mut self, failure: &Failure) {
        self.cache.forget();
        if matches!(failure, Failure::Forbidden) {
            self.log(failure);
        }
        sleep(UNSERVED.mul_f64(0.5 + 0.5 * chance())).await;
    }

    /// Watches from a version until the watch ends; returns the version to continue from, or `None` if a new
    /// list is needed.
    async fn watch(&mut self, mut version: String) -> Option<String> {
        let began = Instant::now();
        let outcome = self.follow(&mut version).await;
        // Until the next watch is open, the cache alone denies nothing.
        self.cache.closed();
        match outcome {
            Ok(()) => {
                if began.elapsed() < LONG_ENOUGH {
                    self.pause.wait().await;
                }
                Some(version)
            }
            Err(Failure::Expired) => {
                // All watchers of the API server get this at the same time, and must not all list at once.
                tracing::info!("the watch of {} is too old; listing again", self.place.title);
                sleep(self.settings.relist_spread.mul_f64(chance())).await;
                None
            }
            // The kind was removed, as the next list will show.
            Err(failure) if self.is_unserved(&failure) && !matches!(failure, Failure::Forbidden) => {
                self.pause.wait().await;
                None
            }
            // A failed watch does not need a new list: the cache is right up to this version.
            Err(failure) => {
                self.failed(&failure).await;
                Some(version)
            }
        }
    }

    /// Applies events, and advances the version with each.
    ///
    /// The API server sends nothing while nothing changes: bookmarks come about once a minute, but only if
    /// they are newer than the version that the watch began with, and on a quiet cluster there is none until
    /// etcd's next progress notice (ten minutes by default). So silence is not a failure. But the API server
    /// ends a watch after the requested time; a watch that does not end then is dead.
    async fn follow(&mut self, version: &mut String) -> Result<(), Failure> {
        let seconds = self.settings.watch_for.mul_f64(0.9 + 0.1 * chance()).as_secs().max(1);
        let from = fetch::escaped(version);
        let uri = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={from}",
            self.place.api.list("")
        );
        let opened = timeout(self.settings.list_timeout, fetch::get(&self.client, uri))
            .await
            .unwrap_or(Err(Failure::Silence))?;
        let missed = self.as_of.elapsed() >= self.settings.catch_up;
        self.cache.opened(if missed { self.settings.catch_up } else { Duration::ZERO });
        let longest_silence = Duration::from_secs(seconds) + self.settings.watch_grace;
        let lasts_from = Instant::now() + LONG_ENOUGH;
        let mut dead_from = Instant::now() + longest_silence;
        let mut lines = Lines::new(opened);
        let mut lasts = false;
        loop {
            let line = match timeout_at(if lasts { dead_from } else { lasts_from }, lines.next()).await {
                Ok(line) => line?,
                Err(_) if lasts => return Err(Failure::Silence),
                Err(_) => {
                    lasts = true;
                    self.heard();
                    continue;
                }
            };
            let Some(line) = line else { break };
            dead_from = Instant::now() + longest_silence;
            if line.is_empty() {
                continue;
            }
            *version = match wire::event::<R::Object<'_>>(&line)? {
                WireEvent::There(object) => {
                    self.put(&object);
                    // The loop in `run` then gives up the cache.
                    if self.is_full() {
                        return Ok(());
                    }
                    object.metadata().resource_version.clone().into_owned()
                }
                WireEvent::Gone(object) => {
                    let Metadata { namespace, name, resource_version, uid: _ } = object.metadata();
                    self.cache.remove(namespace, name);
                    resource_version.clone().into_owned()
                }
                WireEvent::Bookmark(version) => version,
                WireEvent::Error(410) => return Err(Failure::Expired),
                WireEvent::Error(code) => {
                    return Err(StatusCode::from_u16(code).map_or(Failure::Foreign, Failure::Status));
                }
            };
            if version.is_empty() {
                return Err(Failure::Expired);
            }
            self.heard();
        }
        // A watch that ends at once does not count: something on the way to the API server may have answered.
        if lasts {
            self.heard();
        }
        Ok(())
    }

    /// Records that the cache is up to date.
    fn heard(&mut self) {
        self.cache.hear();
        self.as_of = Instant::now();
        self.well();
    }

    fn well(&mut self) {
        self.pause.reset();
        if std::mem::take(&mut self.failing) {
            tracing::info!("the watch of {} works again", self.place.title);
        }
    }

    /// Logs a failure once, and waits before the next attempt.
    async fn failed(&mut self, failure: &Failure) {
        self.counts.watch_failures.add();
        self.log(failure);
        if matches!(failure, Failure::Forbidden) {
            self.pause.longest();
        }
        self.pause.wait().await;
    }

    fn log(&mut self, failure: &Failure) {
        if std::mem::replace(&mut self.failing, true) {
            return;
        }
        let ResourcePlace { title, api: ApiResource { name: resource, .. }, .. } = self.place;
        match failure {
            Failure::Forbidden => tracing::warn!(
                "no permission to list or watch {title}: grant the service account `list` and `watch` on `{resource}`, or run with `--claims live`; logged once"
            ),
            _ => tracing::warn!(
                error = failure as &dyn std::error::Error,
                "the watch of {title} failed; trying again"
            ),
        }
    }

    fn give_up(&self) {
        self.cache.give_up();
        let ResourcePlace { title, most, .. } = self.place;
        tracing::warn!(most, "there are too many {title} for the cache; reading each one instead");
    }
}

/// The pause between attempts: doubles up to a limit, and is random, so that replicas do not act in step.
pub struct Pause {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Pause {
    /// Makes a pause from the first to the longest.
    #[must_use]
    pub fn between(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// Resets the next pause to the first one.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// Sets the next pause to the longest one.
    pub fn longest(&mut self) {
        self.next = self.most;
    }

    /// Waits.
    pub async fn wait(&mut self) {
        let pause = self.next.mul_f64(0.5 + 0.5 * chance());
        self.next = (self.next * 2).min(self.most);
        sleep(pause).await;
    }
}

/// Returns a random number from 0 to 1. The keys of std's hash maps are random enough.
pub fn chance() -> f64 {
    let bits = std::hash::RandomState::new().hash_one(0) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_stays_in_its_range_and_moves() {
        let drawn: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(drawn.iter().all(|x| (0.0..=1.0).contains(x)));
        assert!(drawn.iter().any(|x| *x != drawn[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_bound() {
        let mut pause = Pause::between(Duration::from_secs(1), Duration::from_secs(4));
        for longest in [1, 2, 4, 4] {
            let before = Instant::now();
            pause.wait().await;
            let longest = Duration::from_secs(longest);
            let slack = Duration::from_millis(2);
            assert!(
                before.elapsed() + slack >= longest / 2 && before.elapsed() <= longest + slack,
                "{:?} of {longest:?}",
                before.elapsed()
            );
        }
        pause.reset();
        assert_eq!(pause.next, Duration::from_secs(1));
    }
}
