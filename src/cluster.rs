//! What the cluster knows of the claims that a workload names.
//!
//! ```text
//!            hit, and the watch is open              found, absent, unknown
//! review ──> cache ──────────────────────────────────────> ClaimFacts ──> engine
//!              ^ │                                             ^
//!     list + watch └─miss, or to be confirmed──> live GET ─────┘
//!                    one flight per claim, 32 at once, 16 for one review, 50 a second, a circuit breaker
//! ```
//!
//! A claim that the cache does not know may have been made a moment ago, so "absent" is only said when the
//! API server itself said so. A claim that would be a reason for a denial is asked for again while the watch
//! is not open: it may have been made anew. Whatever goes wrong, the answer is "unknown", comes in time,
//! never denies anything, and is not kept from the author.
//!
//! The cache is not kube's reflector: that one keeps whole objects, hides the bookmarks by which one tells a
//! quiet cluster from a dead watch, and logs every refusal. What is needed here is a list, a watch and a byte
//! for each claim.

mod access;
pub mod audit;
mod breaker;
mod client;
mod excluded;
pub(crate) mod fetch;
mod inventory;
pub(crate) mod list;
mod live;
mod mirror;
mod rate;
mod snapshot;
mod stats;
mod store;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

pub use self::client::{
    ClientError, Connection, client_from_kubeconfig, client_in_cluster, connection, in_cluster, is_own,
};
pub use self::excluded::excluded;
pub use self::inventory::Inventory;
pub(crate) use self::mirror::{LONG_ENOUGH, Pause, chance};
pub use self::snapshot::{Snapshot, Wanted, snapshot};
pub use self::stats::{Stats, Why};

use self::live::{Key, Live, Looked, Question};
use self::stats::Counts;
use self::store::{Cache, Standing};
use crate::judge::facts::{Claim, Fact, FactTable, Facts, WantedClaim};
use crate::judge::finding::Source;

/// How claims are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Keep all claims of the cluster in memory by a watch, and ask the API server for those that are missing
    /// there. Needs get, list and watch.
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
    /// How many claims the API server is asked for, for one review: those that matter most. Beyond, what the
    /// cache does not know is unknown, and the author gets a warning. What is answered from memory does not
    /// count.
    pub requests_per_review: usize,
    /// How many requests may be under way at once.
    pub parallel: usize,
    /// How many requests are sent each second for all reviews together, whoever they come from; beyond, a
    /// claim is unknown.
    pub requests_per_second: u32,
    /// How many may be sent at once after a quiet time. One half is kept for claims that a denial may rest
    /// on.
    pub request_burst: u32,
    /// How long the API server's answer that a claim is there holds.
    pub known_for: Duration,
    /// How long its answer that a claim is not there holds.
    pub absent_for: Duration,
    /// How long an answer holds that was asked for because the watch is not open: no longer than the two
    /// reviews of one request are apart.
    pub confirmed_for: Duration,
    /// So many failures in a row open the circuit breaker.
    pub failures: u32,
    /// So long the circuit breaker stays open.
    pub open_for: Duration,
    /// After so long without a word from the API server the cache is not believed at all. Longer than a watch
    /// may be silent.
    pub stale_after: Duration,
    /// Claims on one page of a list.
    pub page_size: u32,
    /// How long one page, or the opening of a watch, may take.
    pub list_timeout: Duration,
    /// After this time, or somewhat less, the API server is asked to end a watch. It is all that is heard
    /// from it on a quiet cluster, and so bounds how long a dead connection goes unnoticed.
    pub watch_for: Duration,
    /// So much later than asked for may a watch end; one that is silent beyond that is given up.
    pub watch_grace: Duration,
    /// A watch that is opened after a longer gap than this is relied on only when this time has passed: what
    /// happened in the gap comes in first.
    pub catch_up: Duration,
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
            requests_per_review: 16,
            parallel: 32,
            requests_per_second: 50,
            request_burst: 100,
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
        Self(Arc::new(Inner {
            settings: Settings::default(),
            counts: Arc::default(),
            live: None,
            cache: None,
            observer: OnceLock::new(),
        }))
    }

    /// Starts looking claims up with the default settings; in [`Mode::Cache`] this starts the watch, which
    /// needs a tokio runtime.
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
            let task = tokio::spawn(mirror::run(
                client.clone(),
                settings.clone(),
                Arc::clone(&cache),
                Arc::clone(&counts),
            ));
            Mirrored { cache, task: task.abort_handle() }
        });
        let live = Some(Live::new(client, settings.clone(), Arc::clone(&counts)));
        Self(Arc::new(Inner { settings, counts, live, cache, observer: OnceLock::new() }))
    }

    /// Has every look-up reported from now on: where the answer came from (`cache`, `live`, or `none` where
    /// nobody was asked) and what it was (`found`, `absent`, or [`Why::as_str`]). There can be one observer;
    /// a second is ignored.
    pub fn observe(&self, observer: impl Fn(&'static str, &'static str) + Send + Sync + 'static) {
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Returns what is known of the claims, given in the order of their importance. Every one of them has an
    /// entry. Comes back by the deadline, and sooner where [`Settings::budget`] is over; what is not known by
    /// then is unknown.
    pub async fn facts(&self, wanted: &[WantedClaim], deadline: Instant) -> ClaimFacts {
        let until = deadline.min(Instant::now() + self.0.settings.budget);
        let standing = self.0.cache.as_ref().map_or(Standing::Stale, |mirrored| mirrored.cache.standing());
        let mut facts = ClaimFacts::default();
        let mut open = Vec::new();
        for (at, claim) in wanted.iter().enumerate() {
            // An object can name tens of thousands of claims: others get their turn meanwhile.
            if at % LOOKUPS_BETWEEN_YIELDS == LOOKUPS_BETWEEN_YIELDS - 1 {
                tokio::task::yield_now().await;
            }
            crate::text::meter::spend(16);
            let key = (claim.namespace.clone(), claim.name.clone());
            match self.0.at_hand(claim, &key, standing) {
                AtHand::Answer(source, looked) => self.0.enter(&mut facts, claim, key, source, looked),
                AtHand::Ask(question) => open.push((claim, key, question)),
            }
        }
        // What the cache has is likelier to be a reason for a denial than what it does not know.
        open.sort_by_key(|(_, _, question)| *question != Question::Confirming);
        let beyond = open.split_off(open.len().min(self.0.settings.requests_per_review));
        let looked = open.into_iter().map(|(claim, key, question)| async move {
            let looked = match &self.0.live {
                Some(live) => live.look(&key, question, until).await,
                None => Looked::Unknown(Why::Off),
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
            self.0.enter(&mut facts, claim, key, NOBODY, Looked::Unknown(Why::TooMany));
        }
        facts.explain();
        facts
    }

    /// Tells whether the cache has been filled once; true where there is no cache to fill.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0
            .cache
            .as_ref()
            .is_none_or(|mirrored| mirrored.cache.is_synced() || mirrored.cache.is_given_up())
    }

    /// Waits until the cache is filled, but no longer than [`Settings::startup_wait`]: the API server may be
    /// waiting for us. Returns [`Claims::is_synced`]; where it is false, claims are looked up one by one
    /// until the cache is filled.
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
            stats.watching = cache.standing() == Standing::Current;
        }
        stats.breaker_open = self.0.live.as_ref().is_some_and(Live::is_open);
        stats
    }
}

/// Where answers come from, as [`Claims::observe`] tells it.
const CACHE: &str = "cache";
const LIVE: &str = "live";
const NOBODY: &str = "none";

/// So many claims are looked up in memory in one go: about a tenth of a millisecond's work.
const LOOKUPS_BETWEEN_YIELDS: usize = 256;

/// So many names are in a warning about claims that could not be looked up.
const NAMES_IN_CAVEAT: usize = 3;

/// What is known of the claims of one object.
#[derive(Clone, Debug, Default)]
pub struct ClaimFacts {
    /// The facts themselves.
    pub table: FactTable,
    /// The claims that may decide and are unknown: how many for each reason, and the first few of their
    /// names.
    unknown: BTreeMap<Why, usize>,
    names: Vec<String>,
    caveat: Option<String>,
}

impl ClaimFacts {
    /// Takes note of a claim of which nothing is known.
    fn note(&mut self, claim: &WantedClaim, why: Why) {
        // Other claims decide nothing, and the operator knows that nothing is looked up where nothing is.
        if !claim.shared || why.explain().is_none() {
            return;
        }
        *self.unknown.entry(why).or_default() += 1;
        if self.names.len() < NAMES_IN_CAVEAT {
            self.names.push(claim.name.clone());
        }
    }

    /// Puts into words what could not be learned.
    fn explain(&mut self) {
        let (total, reasons) =
            self.unknown.iter().fold((0, Vec::new()), |(total, mut reasons), (why, count)| {
                reasons.extend(why.explain().filter(|reason| !reasons.contains(reason)));
                (total + count, reasons)
            });
        if total == 0 {
            return;
        }
        let (claims, them) = if total == 1 { ("claim", "it") } else { ("claims", "them") };
        let more = if total > self.names.len() { ", …" } else { "" };
        let (names, reasons) = (self.names.join(", "), reasons.join("; "));
        self.caveat = Some(format!(
            "jobgate could not look up {total} {claims} and did not check {them} ({reasons}): {names}{more}"
        ));
    }
}

impl Facts for ClaimFacts {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        self.table.claim(namespace, name)
    }

    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }
}

/// What there is to say of a claim without a request.
enum AtHand {
    /// This, by that source.
    Answer(&'static str, Looked),
    /// Nothing: the API server is to be asked.
    Ask(Question),
}

impl Inner {
    fn at_hand(&self, claim: &WantedClaim, key: &Key, standing: Standing) -> AtHand {
        let (namespace, name) = key;
        let Some(live) = &self.live else {
            return AtHand::Answer(NOBODY, Looked::Unknown(Why::Off));
        };
        if !fetch::is_name(namespace) || !fetch::is_name(name) {
            return AtHand::Answer(NOBODY, Looked::Absent);
        }
        let cached = self.cache.as_ref().and_then(|mirrored| mirrored.cache.get(namespace, name));
        let question = match (cached, standing) {
            (Some(modes), Standing::Current) => return AtHand::Answer(CACHE, Looked::Found(modes)),
            (Some(modes), _) if claim.shared && modes.can_deny() => Question::Confirming,
            (Some(modes), Standing::Behind) => return AtHand::Answer(CACHE, Looked::Found(modes)),
            (_, Standing::Stale) if claim.shared => Question::Deciding,
            _ => Question::Idle,
        };
        live.remembered(key, question).map_or(AtHand::Ask(question), |looked| AtHand::Answer(LIVE, looked))
    }

    /// Puts an answer into the facts.
    fn enter(
        &self,
        facts: &mut ClaimFacts,
        claim: &WantedClaim,
        key: Key,
        source: &'static str,
        looked: Looked,
    ) {
        if let Looked::Unknown(why) = looked {
            facts.note(claim, why);
        }
        let fact = self.fact(source, looked);
        if fact == Fact::Unknown && matches!(looked, Looked::Found(_)) {
            facts.note(claim, Why::Modes);
        }
        facts.table.claims.insert(key, fact);
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
/// Writes an error and what caused it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
