//! Asks the API server for one claim, at most once at a time and not more often than needed, and never waits long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::Settings;
use super::access::Modes;
use super::breaker::Breaker;
use super::fetch::{self, Failure};
use super::stats::{Counts, Why};
use super::wire;

/// Namespace and name of a claim.
pub(super) type Key = (String, String);

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The claim is there.
    Found(Modes),
    /// The API server says that it is not.
    Absent,
    /// Nobody can say.
    Unknown(Why),
}

/// Answers of a moment ago are forgotten beyond this many, so that nobody can fill our memory with names.
const REMEMBERED: usize = 4096;

/// The look-up of single claims.
#[derive(Clone)]
pub(super) struct Live(Arc<Inner>);

struct Inner {
    client: Client,
    settings: Settings,
    permits: Semaphore,
    breaker: Mutex<Breaker>,
    asked: Mutex<Asked>,
    counts: Arc<Counts>,
    /// RBAC was found missing, and this was said.
    forbidden: AtomicBool,
}

/// What was asked lately, and what is being asked now.
#[derive(Default)]
struct Asked {
    /// An answer and the end of its life.
    answers: HashMap<Key, (Looked, Instant)>,
    flights: HashMap<Key, Shared<BoxFuture<'static, Looked>>>,
}

impl Live {
    pub(super) fn new(client: Client, settings: Settings, counts: Arc<Counts>) -> Self {
        Self(Arc::new(Inner {
            client,
            permits: Semaphore::new(settings.parallel),
            breaker: Mutex::new(Breaker::new(settings.failures, settings.open_for)),
            asked: Mutex::default(),
            counts,
            forbidden: AtomicBool::new(false),
            settings,
        }))
    }

    /// Looks a claim up; whoever asks for the same claim meanwhile gets the same answer. Both parts of the key must be names.
    pub(super) async fn look(&self, key: &Key, until: Instant) -> Looked {
        let flight = {
            let mut asked = self.0.asked();
            if let Some((answer, _)) = asked.answers.get(key).filter(|(_, end)| Instant::now() < *end) {
                return *answer;
            }
            // A flight that is over but still listed is one that panicked.
            match asked.flights.get(key).filter(|flight| flight.peek().is_none()) {
                Some(flight) => flight.clone(),
                None => {
                    // A task of its own: the answer is wanted by others too, and must not die with the first who asked.
                    let task = tokio::spawn(Inner::fly(Arc::clone(&self.0), key.clone()));
                    let flight = task.map(|ended| ended.unwrap_or(Looked::Unknown(Why::Unavailable))).boxed().shared();
                    asked.flights.insert(key.clone(), flight.clone());
                    flight
                }
            }
        };
        timeout_at(until, flight).await.unwrap_or(Looked::Unknown(Why::Timeout))
    }

    /// Tells whether the circuit breaker holds requests back.
    pub(super) fn is_open(&self) -> bool {
        self.0.breaker().is_open()
    }
}

impl Inner {
    async fn fly(inner: Arc<Self>, key: Key) -> Looked {
        let looked = inner.ask(&key).await;
        let mut asked = inner.asked();
        asked.flights.remove(&key);
        let life = match looked {
            Looked::Found(_) | Looked::Unknown(Why::Forbidden) => inner.settings.known_for,
            Looked::Absent => inner.settings.absent_for,
            Looked::Unknown(_) => return looked,
        };
        let now = Instant::now();
        if asked.answers.len() >= REMEMBERED {
            asked.answers.retain(|_, (_, end)| now < *end);
            if asked.answers.len() >= REMEMBERED {
                asked.answers.clear();
            }
        }
        asked.answers.insert(key, (looked, now + life));
        looked
    }

    async fn ask(&self, key: &Key) -> Looked {
        let until = Instant::now() + self.settings.budget;
        let Ok(Ok(_permit)) = timeout_at(until, self.permits.acquire()).await else {
            return Looked::Unknown(Why::Busy);
        };
        if !self.breaker().admit(Instant::now()) {
            return Looked::Unknown(Why::BreakerOpen);
        }
        self.counts.requests.add();
        let outcome = timeout_at(until, self.fetch(key)).await.unwrap_or(Err(Failure::Silence));
        let (looked, healthy) = match &outcome {
            Ok(modes) => (Looked::Found(*modes), true),
            Err(Failure::NotFound) => (Looked::Absent, true),
            Err(Failure::Forbidden) => (Looked::Unknown(Why::Forbidden), true),
            Err(Failure::Silence) => (Looked::Unknown(Why::Timeout), false),
            Err(Failure::Garbage(_) | Failure::Foreign | Failure::TooLarge(_)) => (Looked::Unknown(Why::Garbage), false),
            Err(Failure::Transport(_) | Failure::Status(_) | Failure::Expired) => (Looked::Unknown(Why::Unavailable), false),
        };
        self.report(healthy, outcome.as_ref().err());
        if looked == Looked::Unknown(Why::Forbidden) && !self.forbidden.swap(true, Ordering::Relaxed) {
            tracing::warn!("may not read claims: give the service account `get` on `persistentvolumeclaims`, or run with `--claims off`; said once");
        }
        looked
    }

    /// Tells the breaker, and says so where that opens or closes it.
    fn report(&self, healthy: bool, failure: Option<&Failure>) {
        let mut breaker = self.breaker();
        let before = breaker.is_open();
        if healthy {
            breaker.succeeded();
        } else {
            breaker.failed(Instant::now());
        }
        match (before, breaker.is_open(), failure) {
            (false, true, Some(failure)) => {
                tracing::warn!(error = failure as &dyn std::error::Error, "claim look-ups keep failing; claims are unknown until they work again");
            }
            (true, false, _) => tracing::info!("claim look-ups work again"),
            _ => {}
        }
    }

    async fn fetch(&self, (namespace, name): &Key) -> Result<Modes, Failure> {
        let response = fetch::get(&self.client, format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")).await?;
        let body = fetch::read(response, fetch::LARGEST_OBJECT).await?;
        let claim: wire::Claim<'_> = serde_json::from_slice(&body)?;
        if claim.metadata.name != *name || claim.metadata.namespace != *namespace {
            return Err(Failure::Foreign);
        }
        Ok(claim.modes())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
