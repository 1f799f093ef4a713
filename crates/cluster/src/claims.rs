//! The look-ups of a webhook: claims, the objects that a workload names, and its parents.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use futures::future::join_all;
use kube::Client;
use tokio::time::{Instant, timeout};

use crate::access::Modes;
use crate::facts::ClaimFacts;
use crate::fetch;
use crate::live::{Gate, Live, LookupKey, LookupReason, LookupResult};
use crate::mirrored::Mirrored;
use crate::objects::ObjectLookup;
use crate::parents::ParentLookup;
use crate::resource::{ClaimResource, ResourcePlace};
use crate::settings::{Mode, Settings};
use crate::stats::{Counts, Stats, Why};
use crate::store::Standing;
use jobgate_core::judge::facts::{Claim, Fact, FactKind, FactTable, WantedClaim};
use jobgate_core::judge::finding::Source;

/// The claims of the cluster. Clones share everything; the watch ends when the last one is dropped.
#[derive(Clone)]
pub struct Claims(pub(crate) Arc<ClaimsInner>);

pub(crate) struct ClaimsInner {
    pub(crate) settings: Settings,
    counts: Arc<Counts>,
    live: Option<Live<ClaimResource>>,
    cache: Option<Mirrored<Modes>>,
    /// Each kind of other objects.
    pub(crate) objects: Vec<ObjectLookup>,
    /// Each kind whose controller makes objects that are judged.
    pub(crate) parents: Vec<ParentLookup>,
    observer: OnceLock<Box<Observer>>,
}

type Observer = dyn Fn(&'static str, &'static str) + Send + Sync;

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
        let place = ResourcePlace::from_facts(FactKind::Claim, &settings);
        let cache = (mode == Mode::Cache).then(|| {
            Mirrored::start::<ClaimResource>(client.clone(), &settings, place.clone(), Arc::clone(&counts))
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
