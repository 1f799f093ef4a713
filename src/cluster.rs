//! What the cluster knows of the claims that a workload names.
//!
//! ```text
//!            hit                                   found, absent, unknown
//! review ──> cache ──miss or stale──> live GET ──> FactTable ──> engine
//!              ^                        │ one flight per claim, 32 at once, answers kept for seconds, a circuit breaker
//!            list + watch               │
//! ```
//!
//! A claim that the cache does not know may have been made a moment ago, so "absent" is only said when the API server itself said so.
//! Whatever goes wrong, the answer is "unknown", comes in time, and never denies anything.
//!
//! The cache is not kube's reflector: that one keeps whole objects, hides the bookmarks by which one tells a quiet cluster from a dead watch,
//! and logs every refusal. What is needed here is a list, a watch and a byte for each claim.

mod access;
mod breaker;
mod client;
pub(crate) mod fetch;
mod inventory;
pub(crate) mod list;
mod live;
mod mirror;
mod snapshot;
mod stats;
mod store;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

pub use self::client::{ClientError, Connection, client_from_kubeconfig, client_in_cluster, connection, in_cluster, is_own};
pub use self::inventory::Inventory;
pub(crate) use self::mirror::{LONG_ENOUGH, Pause, chance};
pub use self::snapshot::{Snapshot, Wanted, snapshot};
pub use self::stats::{Stats, Why};

use self::live::{Key, Live, Looked};
use self::stats::Counts;
use self::store::Cache;
use crate::facts::{Claim, Fact, FactTable};
use crate::finding::Source;

/// How claims are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Keep all claims of the cluster in memory by a watch, and ask the API server for those that are missing there. Needs get, list and watch.
    Cache,
    /// Ask the API server for each claim. Needs get.
    Live,
    /// Look nothing up: nothing is known of any claim. Needs no token and no permission.
    Off,
}

impl Mode {
    /// Returns the mode for when none is asked for: [`Mode::Cache`] in a cluster, [`Mode::Off`] outside one.
    #[must_use]
    pub fn by_default() -> Self {
        if in_cluster() { Self::Cache } else { Self::Off }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cache => "cache",
            Self::Live => "live",
            Self::Off => "off",
        })
    }
}

/// The numbers of the look-ups; [`Settings::default`] is what the server uses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long all look-ups of one review may take together, within the review's own deadline.
    pub budget: Duration,
    /// How many different claims are looked up for one review; the rest is unknown.
    pub per_review: usize,
    /// How many requests may be under way at once.
    pub parallel: usize,
    /// How long the API server's answer that a claim is there holds.
    pub known_for: Duration,
    /// How long its answer that a claim is not there holds.
    pub absent_for: Duration,
    /// So many failures in a row open the circuit breaker.
    pub failures: u32,
    /// So long the circuit breaker stays open.
    pub open_for: Duration,
    /// After so long without an event or a bookmark the cache is not believed. The API server sends a bookmark every minute.
    pub stale_after: Duration,
    /// Claims on one page of a list.
    pub page_size: u32,
    /// How long one page, or the opening of a watch, may take.
    pub list_timeout: Duration,
    /// After about so long the API server is asked to end a watch.
    pub watch_for: Duration,
    /// The first pause after a failed list or watch; it doubles from there.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// A list that has to be read again is read at a random time within this span.
    pub relist_spread: Duration,
    /// How long [`Claims::ready`] waits for the first list.
    pub startup_wait: Duration,
    /// Beyond so many claims the cache is given up and each claim is asked for.
    pub max_claims: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Duration::from_millis(300),
            per_review: 16,
            parallel: 32,
            known_for: Duration::from_secs(5),
            absent_for: Duration::from_secs(1),
            failures: 5,
            open_for: Duration::from_secs(10),
            stale_after: Duration::from_secs(90),
            page_size: 500,
            list_timeout: Duration::from_secs(30),
            watch_for: Duration::from_secs(290),
            first_pause: Duration::from_millis(800),
            longest_pause: Duration::from_secs(30),
            relist_spread: Duration::from_secs(10),
            startup_wait: Duration::from_secs(10),
            max_claims: 200_000,
        }
    }
}

/// The claims of the cluster. Clones share everything; the watch ends with the last of them.
#[derive(Clone)]
pub struct Claims(Arc<Inner>);

struct Inner {
    settings: Settings,
    counts: Arc<Counts>,
    live: Option<Live>,
    cache: Option<Mirrored>,
    observer: OnceLock<Box<Observer>>,
}

type Observer = dyn Fn(&'static str, &'static str) + Send + Sync;

/// A cache and the task that fills it.
struct Mirrored {
    cache: Arc<Cache>,
    task: AbortHandle,
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Claims {
    /// Looks nothing up. Needs no client and no runtime.
    #[must_use]
    pub fn off() -> Self {
        Self(Arc::new(Inner { settings: Settings::default(), counts: Arc::default(), live: None, cache: None, observer: OnceLock::new() }))
    }

    /// Starts looking claims up with the default settings; in [`Mode::Cache`] this starts the watch, which needs a tokio runtime.
    #[must_use]
    pub fn start(mode: Mode, client: Client) -> Self {
        Self::with(mode, client, Settings::default())
    }

    /// Starts looking claims up with other settings.
    #[must_use]
    pub fn with(mode: Mode, client: Client, settings: Settings) -> Self {
        if mode == Mode::Off {
            return Self::off();
        }
        let counts = Arc::<Counts>::default();
        let cache = (mode == Mode::Cache).then(|| {
            let cache = Arc::new(Cache::new(settings.stale_after));
            let task = tokio::spawn(mirror::run(client.clone(), settings.clone(), Arc::clone(&cache), Arc::clone(&counts)));
            Mirrored { cache, task: task.abort_handle() }
        });
        let live = Some(Live::new(client, settings.clone(), Arc::clone(&counts)));
        Self(Arc::new(Inner { settings, counts, live, cache, observer: OnceLock::new() }))
    }

    /// Has every look-up reported from now on: where the answer came from (`cache`, `live`, or `none` where nobody was asked) and what it was
    /// (`found`, `absent`, or [`Why::as_str`]). There can be one observer; a second is ignored.
    pub fn observe(&self, observer: impl Fn(&'static str, &'static str) + Send + Sync + 'static) {
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Returns what is known of the claims, given as namespace and name. Every one of them has an entry. Comes back by the deadline, and sooner
    /// where [`Settings::budget`] is over; what is not known by then is unknown.
    pub async fn facts(&self, wanted: &[(String, String)], deadline: Instant) -> FactTable {
        let until = deadline.min(Instant::now() + self.0.settings.budget);
        let distinct: BTreeSet<&Key> = wanted.iter().collect();
        let looks = distinct.into_iter().enumerate().map(|(i, key)| async move {
            let (source, looked) =
                if i < self.0.settings.per_review { self.0.look(key, until).await } else { (NOBODY, Looked::Unknown(Why::TooMany)) };
            (key.clone(), self.0.fact(source, looked))
        });
        let mut table = FactTable::default();
        table.claims.extend(join_all(looks).await);
        table
    }

    /// Tells whether the cache has been filled once; true where there is no cache to fill.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.cache.as_ref().is_none_or(|mirrored| mirrored.cache.is_synced() || mirrored.cache.is_given_up())
    }

    /// Waits until the cache is filled, but no longer than [`Settings::startup_wait`]: the API server may be waiting for us. Returns
    /// [`Claims::is_synced`]; where it is false, claims are looked up one by one until the cache is filled.
    pub async fn ready(&self) -> bool {
        if let Some(mirrored) = &self.0.cache {
            let _ = timeout(self.0.settings.startup_wait, mirrored.cache.settled()).await;
        }
        self.is_synced()
    }

    /// Returns what the look-ups have done so far and how they stand.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.0.counts.read();
        if let Some(Mirrored { cache, .. }) = &self.0.cache {
            stats.claims = cache.len() as u64;
            stats.silence = cache.silence();
            stats.stale = cache.is_stale() && !cache.is_given_up();
        }
        stats.breaker_open = self.0.live.as_ref().is_some_and(Live::is_open);
        stats
    }
}

/// Where answers come from, as [`Claims::observe`] tells it.
const CACHE: &str = "cache";
const LIVE: &str = "live";
const NOBODY: &str = "none";

impl Inner {
    async fn look(&self, key: &Key, until: Instant) -> (&'static str, Looked) {
        let (namespace, name) = key;
        let Some(live) = &self.live else {
            return (NOBODY, Looked::Unknown(Why::Off));
        };
        if !fetch::is_name(namespace) || !fetch::is_name(name) {
            return (NOBODY, Looked::Absent);
        }
        if let Some(modes) = self.cache.as_ref().and_then(|mirrored| mirrored.cache.get(namespace, name)) {
            return (CACHE, Looked::Found(modes));
        }
        (LIVE, live.look(key, until).await)
    }

    /// Counts an answer, and says it in the words of the rules.
    fn fact(&self, source: &'static str, looked: Looked) -> Fact<Claim> {
        let (fact, word) = match looked {
            Looked::Absent => (Fact::Absent, "absent"),
            Looked::Unknown(why) => self.unknown(why),
            Looked::Found(modes) => match modes.names() {
                Some(access_modes) => (Fact::Known(Claim { access_modes, source: Source::Cluster }), "found"),
                None => self.unknown(Why::Modes),
            },
        };
        match (&fact, source) {
            (Fact::Known(_), CACHE) => self.counts.cached.add(),
            (Fact::Known(_), _) => self.counts.found.add(),
            (Fact::Absent, _) => self.counts.absent.add(),
            (Fact::Unknown, _) => {}
        }
        if let Some(observer) = self.observer.get() {
            observer(source, word);
        }
        fact
    }

    fn unknown(&self, why: Why) -> (Fact<Claim>, &'static str) {
        self.counts.unknown[why as usize].add();
        (Fact::Unknown, why.as_str())
    }
}
