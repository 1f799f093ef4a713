//! The cluster's facts about the claims and the other objects that a workload names.
//!
//! ```text
//!            hit, and the watch is open              found, absent, unknown
//! review ──> cache ──────────────────────────────────────> FactTable ──> engine
//!              ^ │                                             ^
//!     list + watch └─miss, or to be confirmed──> live GET ─────┘
//!                    one flight per claim, 32 at once, 16 for one review, 50 a second, a circuit breaker
//! ```
//!
//! A claim that is not in the cache may have been created a moment ago, so only the API server's own answer
//! makes it "absent". A claim that would be a reason for a denial is read again while the watch is not open,
//! as it may have been created again. If anything fails, the answer is "unknown", in time: it never denies
//! anything, and the author gets a warning.
//!
//! Other objects, such as runtimes, are looked up in the same way before claims, as runtimes decide which claims are
//! used. A cluster may lack their kinds: then they are listed again after some minutes, with no other difference.
//!
//! The last look-up is for the parent in the controlling owner reference of an object, if the account that
//! made the object is trusted with children (`judge::trust`). Only an API server's own
//! answer counts: an operator makes a child right after its parent, when no watch knows the parent yet.
//! Answers are kept by uid for seconds, so the thousand Jobs of a set cost one request, and a look-up of
//! another uid does not affect this one.
//!
//! The cache is not kube's reflector, which keeps whole objects, hides the bookmarks that distinguish a quiet
//! cluster from a dead watch, and logs every rejection. Here, a list, a watch and one byte for each claim are
//! enough.

mod access;
pub mod audit;
mod breaker;
mod client;
mod excluded;
mod facts;
pub mod fetch;
mod inventory;
pub mod jobs;
pub(crate) mod list;
mod live;
mod mirror;
mod objects;
mod parents;
mod pods;
pub mod publish;
mod rate;
mod resource;
mod snapshot;
mod stats;
mod store;
mod wire;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

pub use self::client::{ClientError, Connection, client_in_cluster, connection, in_cluster, is_own};
pub use self::excluded::excluded;
pub use self::mirror::{LONG_ENOUGH, Pause, chance};
pub use self::pods::{Tried, try_pods};
pub use self::snapshot::{Snapshot, Wanted, snapshot};
pub use self::stats::{Stats, Why};

use self::access::Modes;
use self::facts::ClaimFacts;
use self::live::{Gate, Live, LookupKey, LookupReason, LookupResult};
use self::objects::ObjectLookup;
use self::parents::ParentLookup;
use self::resource::{Resource, ResourcePlace, Weigh};
use self::stats::Counts;
use self::store::{Cache, Standing};
use jobgate_core::judge::facts::{Claim, Fact, FactKind, FactTable, WantedClaim};
use jobgate_core::judge::finding::Source;

/// How claims and other objects are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Keep all claims and runtimes of the cluster in memory by a watch, and ask the API server for those that are missing
    /// there. Needs get, list and watch.
    Cache,
    /// Ask the API server for each claim and runtime. Needs get.
    Live,
    /// Look nothing up: all claims and runtimes are unknown. Needs no token and no permission.
    Off,
}

impl Mode {
    /// Returns the default mode: [`Mode::Cache`] in a cluster, [`Mode::Off`] outside one.
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

/// The settings of the look-ups; [`Settings::default`] is what the server uses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long all look-ups of one review may take together, within the review's own deadline.
    pub budget: Duration,
    /// Maximum number of claims requested from the API server in one review, the most important first. Others
    /// that are not in the cache are unknown, and the author gets a warning. Answers from memory do not
    /// count. Of other objects, so many are looked up, wherever the answer comes from.
    pub requests_per_review: usize,
    /// Concurrent requests.
    pub parallel: usize,
    /// Requests per second for all reviews together, from any client; beyond, a claim is unknown.
    pub requests_per_second: u32,
    /// Requests that may be sent at once after a quiet time. Half of them are reserved for claims that may
    /// cause a denial.
    pub request_burst: u32,
    /// The same for parents, which have a separate limit: a review names at most one parent, so an API server
    /// that creates that many objects can also answer that many requests.
    pub parents_per_second: u32,
    /// `request_burst` for parents.
    pub parent_burst: u32,
    /// How long an answer that an object exists is used.
    pub known_for: Duration,
    /// How long an answer that an object does not exist is used.
    pub absent_for: Duration,
    /// How long to use an answer that was requested because the watch is not open: no longer than the time
    /// between the two reviews of one request.
    pub confirmed_for: Duration,
    /// Failures in a row that open the circuit breaker.
    pub failures: u32,
    /// How long the circuit breaker stays open.
    pub open_for: Duration,
    /// After this time without contact with the API server the cache is not used. Longer than a watch may be
    /// silent.
    pub stale_after: Duration,
    /// Claims on one page of a list.
    pub page_size: u32,
    /// How long one page, or the opening of a watch, may take.
    pub list_timeout: Duration,
    /// How long a watch is requested for, or a little less. On a quiet cluster its end is the only message
    /// from the API server, and so bounds how long a dead connection goes unnoticed.
    pub watch_for: Duration,
    /// How much later a watch may end; a silent one is closed then.
    pub watch_grace: Duration,
    /// After a gap between watches longer than this, the next watch is only used after this time, when the
    /// events of the gap have arrived.
    pub catch_up: Duration,
    /// The first pause after a failed list or watch; it doubles from there.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// A repeated list starts at a random time within this span.
    pub relist_spread: Duration,
    /// How long [`Claims::ready`] waits for the first list.
    pub startup_wait: Duration,
    /// With more claims than this, the cache is not used and each claim is read by itself.
    pub max_claims: usize,
    /// With more bytes than this of other objects of one kind, their cache is not used either.
    pub max_object_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Duration::from_millis(300),
            requests_per_review: 16,
            parallel: 32,
            requests_per_second: 50,
            request_burst: 100,
            parents_per_second: 500,
            parent_burst: 1000,
            known_for: Duration::from_secs(5),
            absent_for: Duration::from_secs(1),
            confirmed_for: Duration::from_millis(250),
            failures: 5,
            open_for: Duration::from_secs(10),
            stale_after: Duration::from_secs(90),
            page_size: 500,
            list_timeout: Duration::from_secs(30),
            watch_for: Duration::from_secs(60),
            watch_grace: Duration::from_secs(15),
            catch_up: Duration::from_secs(1),
            first_pause: Duration::from_millis(800),
            longest_pause: Duration::from_secs(30),
            relist_spread: Duration::from_secs(10),
            startup_wait: Duration::from_secs(10),
            max_claims: 200_000,
            max_object_bytes: 16 << 20,
        }
    }
}

/// The claims of the cluster. Clones share everything; the watch ends when the last one is dropped.
#[derive(Clone)]
pub struct Claims(Arc<ClaimsInner>);

struct ClaimsInner {
    settings: Settings,
    counts: Arc<Counts>,
    live: Option<Live<resource::ClaimResource>>,
    cache: Option<Mirrored<Modes>>,
    /// Each kind of other objects.
    objects: Vec<ObjectLookup>,
    /// Each kind whose controller makes objects that are judged.
    parents: Vec<ParentLookup>,
    observer: OnceLock<Box<Observer>>,
}

type Observer = dyn Fn(&'static str, &'static str) + Send + Sync;

/// A cache and the task that fills it.
struct Mirrored<T> {
    cache: Arc<Cache<T>>,
    task: AbortHandle,
}

impl<T: Weigh + Clone + Send + Sync + 'static> Mirrored<T> {
    /// Starts the task.
    fn start<R: Resource<Kept = T>>(
        client: Client,
        settings: &Settings,
        place: ResourcePlace,
        counts: Arc<Counts>,
    ) -> Self {
        let cache = Arc::new(Cache::new(settings.stale_after));
        let filled = Arc::clone(&cache);
        let task = tokio::spawn(mirror::run::<R>(client, settings.clone(), place, filled, counts));
        Self { cache, task: task.abort_handle() }
    }
}

impl<T> Drop for Mirrored<T> {
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
        Self(Arc::new(ClaimsInner {
            settings: Settings::default(),
            counts: Arc::default(),
            live: None,
            cache: None,
            objects: Vec::new(),
            parents: Vec::new(),
            observer: OnceLock::new(),
        }))
    }

    /// Starts look-ups with the default settings; [`Mode::Cache`] starts a watch, which needs a tokio
    /// runtime.
    #[must_use]
    pub fn start(mode: Mode, client: Client) -> Self {
        Self::with(mode, client, Settings::default())
    }

    /// Starts look-ups with other settings.
    #[must_use]
    pub fn with(mode: Mode, client: Client, settings: Settings) -> Self {
        if mode == Mode::Off {
            return Self::off();
        }
        let counts = Arc::<Counts>::default();
        let place = ResourcePlace::of_facts(FactKind::Claim, &settings);
        let cache = (mode == Mode::Cache).then(|| {
            Mirrored::start::<resource::ClaimResource>(
                client.clone(),
                &settings,
                place.clone(),
                Arc::clone(&counts),
            )
        });
        let gate = Arc::new(Mutex::new(Gate::new("claim", &settings)));
        let objects = ObjectLookup::of_all_kinds(mode, &client, &settings, &gate);
        let parents = ParentLookup::of_all_kinds(&client, &settings);
        let live = Some(Live::new(client, settings.clone(), place, gate, Arc::clone(&counts)));
        Self(Arc::new(ClaimsInner {
            settings,
            counts,
            live,
            cache,
            objects,
            parents,
            observer: OnceLock::new(),
        }))
    }

    /// Sets the observer of every look-up: the source of the answer (`cache`, `live`, or `none` without a
    /// request) and the answer (`found`, `absent`, or [`Why::as_str`]). Only the first observer counts.
    pub fn observe(&self, observer: impl Fn(&'static str, &'static str) + Send + Sync + 'static) {
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Returns the facts about the claims, which are in the order of their importance. Each of them has an
    /// entry. Returns by the deadline, or after [`Settings::budget`] if that is sooner; the rest is unknown
    /// then.
    pub async fn facts(&self, wanted: &[WantedClaim], deadline: Instant) -> FactTable {
        let until = deadline.min(Instant::now() + self.0.settings.budget);
        let standing = self.0.cache.as_ref().map_or(Standing::Stale, |mirrored| mirrored.cache.standing());
        let mut facts = ClaimFacts::default();
        let mut open = Vec::new();
        for (at, claim) in wanted.iter().enumerate() {
            // An object can name tens of thousands of claims: let other tasks run in between.
            if at % LOOKUPS_BETWEEN_YIELDS == LOOKUPS_BETWEEN_YIELDS - 1 {
                tokio::task::yield_now().await;
            }
            jobgate_core::text::meter::spend(16);
            let key = LookupKey::named(&claim.namespace, &claim.name);
            match self.0.at_hand(claim, &key, standing) {
                AtHand::Answer(source, looked) => self.0.enter(&mut facts, claim, key, source, looked),
                AtHand::Ask(question) => open.push((claim, key, question)),
            }
        }
        // Claims in the cache are more likely to cause a denial than missing ones.
        open.sort_by_key(|(_, _, question)| *question != LookupReason::Confirming);
        let beyond = open.split_off(open.len().min(self.0.settings.requests_per_review));
        let looked = open.into_iter().map(|(claim, key, question)| async move {
            let looked = match &self.0.live {
                Some(live) => live.look(&key, question, until).await,
                None => LookupResult::Unknown(Why::Off),
            };
            (claim, key, looked)
        });
        for (claim, key, looked) in join_all(looked).await {
            self.0.enter(&mut facts, claim, key, LIVE, looked);
        }
        for (at, (claim, key, _)) in beyond.into_iter().enumerate() {
            if at % LOOKUPS_BETWEEN_YIELDS == LOOKUPS_BETWEEN_YIELDS - 1 {
                tokio::task::yield_now().await;
            }
            self.0.enter(&mut facts, claim, key, NOBODY, LookupResult::Unknown(Why::TooMany));
        }
        facts.explained()
    }

    /// Returns whether the cache has been filled; true if there is none.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0
            .cache
            .as_ref()
            .is_none_or(|mirrored| mirrored.cache.is_synced() || mirrored.cache.is_given_up())
    }

    /// Waits until the cache is filled, but no longer than [`Settings::startup_wait`]: the API server may be
    /// waiting for the webhook. Returns [`Claims::is_synced`]; if false, claims are read one by one until the
    /// cache is filled.
    pub async fn ready(&self) -> bool {
        if let Some(mirrored) = &self.0.cache {
            let _ = timeout(self.0.settings.startup_wait, mirrored.cache.settled()).await;
        }
        self.is_synced()
    }

    /// Returns statistics of the look-ups.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.0.counts.read();
        if let Some(Mirrored { cache, .. }) = &self.0.cache {
            stats.claims = cache.len() as u64;
            stats.silence = cache.silence();
            stats.stale = cache.is_stale() && !cache.is_given_up();
            stats.watching = cache.standing() == Standing::Current;
        }
        stats.breaker_open = self.0.live.as_ref().is_some_and(Live::is_open);
        stats
    }
}

/// The sources of answers, for [`Claims::observe`].
const CACHE: &str = "cache";
const LIVE: &str = "live";
const NOBODY: &str = "none";

/// Claims looked up in memory before other tasks run: about a tenth of a millisecond.
const LOOKUPS_BETWEEN_YIELDS: usize = 256;

/// What is known about a claim without a request.
enum AtHand {
    /// This answer, from that source.
    Answer(&'static str, LookupResult<Modes>),
    /// Nothing: a request is needed.
    Ask(LookupReason),
}

impl ClaimsInner {
    fn at_hand(&self, claim: &WantedClaim, key: &LookupKey, standing: Standing) -> AtHand {
        let LookupKey { namespace, name, .. } = key;
        let Some(live) = &self.live else {
            return AtHand::Answer(NOBODY, LookupResult::Unknown(Why::Off));
        };
        if !fetch::is_name(namespace) || !fetch::is_name(name) {
            return AtHand::Answer(NOBODY, LookupResult::Absent);
        }
        let cached = self.cache.as_ref().and_then(|mirrored| mirrored.cache.get(namespace, name));
        let question = match (cached, standing) {
            (Some(modes), Standing::Current) => return AtHand::Answer(CACHE, LookupResult::Found(modes)),
            (Some(modes), _) if claim.shared && modes.can_deny() => LookupReason::Confirming,
            (Some(modes), Standing::Behind) => return AtHand::Answer(CACHE, LookupResult::Found(modes)),
            (_, Standing::Stale) if claim.shared => LookupReason::Deciding,
            _ => LookupReason::Idle,
        };
        live.remembered(key, question).map_or(AtHand::Ask(question), |looked| AtHand::Answer(LIVE, looked))
    }

    /// Puts an answer into the facts.
    fn enter(
        &self,
        facts: &mut ClaimFacts,
        claim: &WantedClaim,
        key: LookupKey,
        source: &'static str,
        looked: LookupResult<Modes>,
    ) {
        if let LookupResult::Unknown(why) = looked {
            facts.note(claim, why);
        }
        let fact = self.fact(source, looked);
        if fact == Fact::Unknown && matches!(looked, LookupResult::Found(_)) {
            facts.note(claim, Why::Modes);
        }
        facts.table.claims.insert((key.namespace, key.name), fact);
    }

    /// Counts an answer, and converts it to a fact.
    fn fact(&self, source: &'static str, looked: LookupResult<Modes>) -> Fact<Claim> {
        let (fact, word) = match looked {
            LookupResult::Absent => (Fact::Absent, "absent"),
            LookupResult::Unknown(why) => self.unknown(why),
            LookupResult::Found(modes) => match modes.names() {
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
/// Formats an error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Many errors repeat their cause.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
