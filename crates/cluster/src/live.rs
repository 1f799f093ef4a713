//! Reads one object from the API server, at most once at a time, no more often than needed, and with a short
//! deadline.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::breaker::Breaker;
use super::fetch::{self, Failure};
use super::rate::Rate;
use super::resource::{NamedObject as _, Resource, ResourcePlace};
use super::stats::{Counts, Why};
use crate::settings::Settings;
use jobgate_core::kinds::ApiResource;

/// The key of the object to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LookupKey {
    /// Its namespace, which may be empty.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// Its uid, if another object with the same name must not match; otherwise empty.
    pub(super) uid: String,
    /// The API version to try first; empty for the usual one.
    pub(super) version: String,
}

impl LookupKey {
    /// Returns the key of any object with this name.
    pub(super) fn named(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), ..Self::default() }
    }
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupResult<T> {
    /// The object exists.
    Found(T),
    /// The API server answered that it does not exist.
    Absent,
    /// It is unknown.
    Unknown(Why),
}

/// Why an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupReason {
    /// It is not in the cache, and can cause no denial.
    Idle,
    /// The cache cannot answer, and the claim may cause a denial.
    Deciding,
    /// It is in the cache, but the watch is not open, and it would cause a denial: only a current answer will
    /// do.
    Confirming,
}

/// The look-up of single objects of one resource.
pub(super) struct Live<R: Resource>(Arc<LiveInner<R>>);

struct LiveInner<R: Resource> {
    client: Client,
    settings: Settings,
    place: ResourcePlace,
    permits: Semaphore,
    gate: Arc<Mutex<Gate>>,
    asked: Mutex<LiveLookups<R::Kept>>,
    counts: Arc<Counts>,
    /// The missing permission was logged.
    forbidden: AtomicBool,
}

/// The limits for every request, of any resource.
pub(super) struct Gate {
    /// The name of the resource in log lines.
    what: &'static str,
    breaker: Breaker,
    rate: Rate,
}

impl Gate {
    pub(super) fn new(what: &'static str, settings: &Settings) -> Self {
        Self {
            what,
            breaker: Breaker::new(settings.failures, settings.open_for),
            rate: Rate::new(settings.requests_per_second, settings.request_burst),
        }
    }
}

/// Recent answers and current requests.
struct LiveLookups<T> {
    /// An answer and its time.
    answers: HashMap<LookupKey, (LookupResult<T>, Instant)>,
    flights: HashMap<LookupKey, Shared<BoxFuture<'static, LookupResult<T>>>>,
}

impl<R: Resource> Live<R> {
    pub(super) fn new(
        client: Client,
        settings: Settings,
        place: ResourcePlace,
        gate: Arc<Mutex<Gate>>,
        counts: Arc<Counts>,
    ) -> Self {
        Self(Arc::new(LiveInner {
            client,
            permits: Semaphore::new(place.parallel),
            place,
            gate,
            asked: Mutex::new(LiveLookups { answers: HashMap::new(), flights: HashMap::new() }),
            counts,
            forbidden: AtomicBool::new(false),
            settings,
        }))
    }

    /// Returns the remembered answer of the API server, if it is recent enough.
    pub(super) fn remembered(
        &self,
        key: &LookupKey,
        question: LookupReason,
    ) -> Option<LookupResult<R::Kept>> {
        let settings = &self.0.settings;
        let asked = self.0.asked();
        let (answer, at) = asked.answers.get(key)?;
        let mut life = settings.life(answer)?;
        if question == LookupReason::Confirming && !matches!(answer, LookupResult::Unknown(_)) {
            life = life.min(settings.confirmed_for);
        }
        (at.elapsed() < life).then(|| answer.clone())
    }

    /// Reads an object; concurrent calls for the same one share one request. The namespace and the name in
    /// the key must be valid names; the namespace may be empty.
    pub(super) async fn look(
        &self,
        key: &LookupKey,
        question: LookupReason,
        until: Instant,
    ) -> LookupResult<R::Kept> {
        let flight = {
            let mut asked = self.0.asked();
            // A finished flight that is still listed has panicked.
            match asked.flights.get(key).filter(|flight| flight.peek().is_none()) {
                Some(flight) => flight.clone(),
                None => {
                    if let Err(why) = self.0.admit(question) {
                        return LookupResult::Unknown(why);
                    }
                    // A separate task: other callers wait for the answer, too, and the first may go away.
                    let task = tokio::spawn(LiveInner::fly(Arc::clone(&self.0), key.clone()));
                    let flight = task
                        .map(|ended| ended.unwrap_or(LookupResult::Unknown(Why::Unavailable)))
                        .boxed()
                        .shared();
                    asked.flights.insert(key.clone(), flight.clone());
                    flight
                }
            }
        };
        timeout_at(until, flight).await.unwrap_or(LookupResult::Unknown(Why::Timeout))
    }

    /// Returns whether the circuit breaker is open.
    pub(super) fn is_open(&self) -> bool {
        self.0.gate().breaker.is_open()
    }
}

impl Settings {
    /// Returns how long an answer is used; `None` if it is not remembered.
    fn life<T>(&self, looked: &LookupResult<T>) -> Option<Duration> {
        match looked {
            LookupResult::Found(_) | LookupResult::Unknown(Why::Forbidden) => Some(self.known_for),
            LookupResult::Absent => Some(self.absent_for),
            LookupResult::Unknown(_) => None,
        }
    }
}

impl<R: Resource> LiveInner<R> {
    async fn fly(inner: Arc<Self>, key: LookupKey) -> LookupResult<R::Kept> {
        let looked = inner.ask(&key).await;
        let mut asked = inner.asked();
        asked.flights.remove(&key);
        if inner.settings.life(&looked).is_none() {
            return looked;
        }
        if asked.answers.len() >= inner.place.answers {
            asked.answers.retain(|_, (answer, at)| {
                inner.settings.life(answer).is_some_and(|life| at.elapsed() < life)
            });
            if asked.answers.len() >= inner.place.answers {
                asked.answers.clear();
            }
        }
        asked.answers.insert(key, (looked.clone(), Instant::now()));
        looked
    }

    /// Returns whether a request may be prepared. If not, nothing is started: no task, no wait.
    fn admit(&self, question: LookupReason) -> Result<(), Why> {
        let now = Instant::now();
        let mut gate = self.gate();
        if gate.breaker.holds_back(now) {
            return Err(Why::BreakerOpen);
        }
        if gate.rate.take(now, question != LookupReason::Idle) { Ok(()) } else { Err(Why::RateLimited) }
    }

    async fn ask(&self, key: &LookupKey) -> LookupResult<R::Kept> {
        let until = Instant::now() + self.settings.budget;
        let Ok(Ok(_permit)) = timeout_at(until, self.permits.acquire()).await else {
            return LookupResult::Unknown(Why::Busy);
        };
        if !self.gate().breaker.admit(Instant::now()) {
            return LookupResult::Unknown(Why::BreakerOpen);
        }
        self.counts.requests.add();
        let outcome = timeout_at(until, self.fetch(key)).await.unwrap_or(Err(Failure::Silence));
        let (looked, healthy) = match &outcome {
            Ok(kept) => (LookupResult::Found(kept.clone()), true),
            Err(Failure::NotFound) => (LookupResult::Absent, true),
            Err(Failure::Forbidden) => (LookupResult::Unknown(Why::Forbidden), true),
            Err(Failure::Silence) => (LookupResult::Unknown(Why::Timeout), false),
            Err(Failure::Garbage(_) | Failure::Foreign | Failure::TooLarge(_)) => {
                (LookupResult::Unknown(Why::Garbage), false)
            }
            Err(Failure::Transport(_) | Failure::Status(_) | Failure::Expired) => {
                (LookupResult::Unknown(Why::Unavailable), false)
            }
        };
        self.report(healthy, outcome.as_ref().err());
        if looked == LookupResult::Unknown(Why::Forbidden) && !self.forbidden.swap(true, Ordering::Relaxed) {
            let ResourcePlace { title, api: ApiResource { name: resource, .. }, .. } = self.place;
            tracing::warn!(
                "no permission to read {title}: grant the service account `get` on `{resource}`, or run with `--claims off`; logged once"
            );
        }
        looked
    }

    /// Updates the breaker, and logs when that opens or closes it.
    fn report(&self, healthy: bool, failure: Option<&Failure>) {
        let mut gate = self.gate();
        let Gate { what, breaker, .. } = &mut *gate;
        let before = breaker.is_open();
        if healthy {
            breaker.succeeded();
        } else {
            breaker.failed(Instant::now());
        }
        match (before, breaker.is_open(), failure) {
            (false, true, Some(failure)) => {
                tracing::warn!(
                    error = failure as &dyn std::error::Error,
                    "{what} look-ups keep failing; {what}s are unknown until they work again"
                );
            }
            (true, false, _) => tracing::info!("{what} look-ups work again"),
            _ => {}
        }
    }

    async fn fetch(&self, key: &LookupKey) -> Result<R::Kept, Failure> {
        let mut response = Err(Failure::Foreign);
        for path in self.place.paths(key) {
            response = fetch::get_as(&self.client, path, self.place.accept()).await;
            if !matches!(response, Err(Failure::Foreign)) {
                break;
            }
        }
        let response = match response {
            // A cluster without the kind has no object of it, and answers in plain text.
            Err(Failure::Foreign) if self.place.api.is_optional => return Err(Failure::NotFound),
            response => response?,
        };
        let body = fetch::read(response, fetch::MAX_OBJECT_BYTES).await?;
        let object: R::Object<'_> = serde_json::from_slice(&body)?;
        let metadata = object.metadata();
        if metadata.name != key.name || metadata.namespace != key.namespace {
            return Err(Failure::Foreign);
        }
        // Another object with the same name is not the requested one.
        if !key.uid.is_empty() && metadata.uid != key.uid {
            return Err(Failure::NotFound);
        }
        Ok(R::keep(&self.place, &object))
    }

    fn asked(&self) -> MutexGuard<'_, LiveLookups<R::Kept>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
