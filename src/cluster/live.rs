//! Reads one claim from the API server, at most once at a time, no more often than needed, and with a short
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

use super::Settings;
use super::access::Modes;
use super::breaker::Breaker;
use super::fetch::{self, Failure};
use super::rate::Rate;
use super::stats::{Counts, Why};
use super::wire;

/// Namespace and name of a claim.
pub(super) type Key = (String, String);

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The claim exists.
    Found(Modes),
    /// It does not exist, says the API server.
    Absent,
    /// It is unknown.
    Unknown(Why),
}

/// Maximum number of remembered answers, so that memory stays bounded.
const MAX_ANSWERS: usize = 4096;

/// Why a claim is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// It is not in the cache, and can cause no denial.
    Idle,
    /// The cache cannot answer, and the claim may cause a denial.
    Deciding,
    /// It is in the cache, but the watch is not open, and it would cause a denial: only a current answer will
    /// do.
    Confirming,
}

/// The look-up of single claims.
#[derive(Clone)]
pub(super) struct Live(Arc<Inner>);

struct Inner {
    client: Client,
    settings: Settings,
    permits: Semaphore,
    gate: Mutex<Gate>,
    asked: Mutex<Asked>,
    counts: Arc<Counts>,
    /// The missing permission was logged.
    forbidden: AtomicBool,
}

/// The limits for every request.
struct Gate {
    breaker: Breaker,
    rate: Rate,
}

/// Recent answers and current requests.
#[derive(Default)]
struct Asked {
    /// An answer and its time.
    answers: HashMap<Key, (Looked, Instant)>,
    flights: HashMap<Key, Shared<BoxFuture<'static, Looked>>>,
}

impl Live {
    pub(super) fn new(client: Client, settings: Settings, counts: Arc<Counts>) -> Self {
        Self(Arc::new(Inner {
            client,
            permits: Semaphore::new(settings.parallel),
            gate: Mutex::new(Gate {
                breaker: Breaker::new(settings.failures, settings.open_for),
                rate: Rate::new(settings.requests_per_second, settings.request_burst),
            }),
            asked: Mutex::default(),
            counts,
            forbidden: AtomicBool::new(false),
            settings,
        }))
    }

    /// Returns a recent answer of the API server, if it is recent enough.
    pub(super) fn remembered(&self, key: &Key, question: Question) -> Option<Looked> {
        let settings = &self.0.settings;
        let asked = self.0.asked();
        let (answer, at) = asked.answers.get(key)?;
        let mut life = settings.life(*answer)?;
        if question == Question::Confirming && !matches!(answer, Looked::Unknown(_)) {
            life = life.min(settings.confirmed_for);
        }
        (at.elapsed() < life).then_some(*answer)
    }

    /// Reads a claim; concurrent calls for the same claim share one request. Both parts of the key must be
    /// valid names.
    pub(super) async fn look(&self, key: &Key, question: Question, until: Instant) -> Looked {
        let flight = {
            let mut asked = self.0.asked();
            // A finished flight that is still listed has panicked.
            match asked.flights.get(key).filter(|flight| flight.peek().is_none()) {
                Some(flight) => flight.clone(),
                None => {
                    if let Err(why) = self.0.admit(question) {
                        return Looked::Unknown(why);
                    }
                    // A separate task: other callers want the answer, too, and the first may go away.
                    let task = tokio::spawn(Inner::fly(Arc::clone(&self.0), key.clone()));
                    let flight =
                        task.map(|ended| ended.unwrap_or(Looked::Unknown(Why::Unavailable))).boxed().shared();
                    asked.flights.insert(key.clone(), flight.clone());
                    flight
                }
            }
        };
        timeout_at(until, flight).await.unwrap_or(Looked::Unknown(Why::Timeout))
    }

    /// Returns whether the circuit breaker is open.
    pub(super) fn is_open(&self) -> bool {
        self.0.gate().breaker.is_open()
    }
}

impl Settings {
    /// Returns how long an answer is used; nothing if it is not remembered.
    fn life(&self, looked: Looked) -> Option<Duration> {
        match looked {
            Looked::Found(_) | Looked::Unknown(Why::Forbidden) => Some(self.known_for),
            Looked::Absent => Some(self.absent_for),
            Looked::Unknown(_) => None,
        }
    }
}

impl Inner {
    async fn fly(inner: Arc<Self>, key: Key) -> Looked {
        let looked = inner.ask(&key).await;
        let mut asked = inner.asked();
        asked.flights.remove(&key);
        if inner.settings.life(looked).is_none() {
            return looked;
        }
        if asked.answers.len() >= MAX_ANSWERS {
            asked.answers.retain(|_, (answer, at)| {
                inner.settings.life(*answer).is_some_and(|life| at.elapsed() < life)
            });
            if asked.answers.len() >= MAX_ANSWERS {
                asked.answers.clear();
            }
        }
        asked.answers.insert(key, (looked, Instant::now()));
        looked
    }

    /// Returns whether a request may be prepared. If not, nothing is started: no task, no wait.
    fn admit(&self, question: Question) -> Result<(), Why> {
        let now = Instant::now();
        let mut gate = self.gate();
        if gate.breaker.holds_back(now) {
            return Err(Why::BreakerOpen);
        }
        if gate.rate.take(now, question != Question::Idle) { Ok(()) } else { Err(Why::RateLimited) }
    }

    async fn ask(&self, key: &Key) -> Looked {
        let until = Instant::now() + self.settings.budget;
        let Ok(Ok(_permit)) = timeout_at(until, self.permits.acquire()).await else {
            return Looked::Unknown(Why::Busy);
        };
        if !self.gate().breaker.admit(Instant::now()) {
            return Looked::Unknown(Why::BreakerOpen);
        }
        self.counts.requests.add();
        let outcome = timeout_at(until, self.fetch(key)).await.unwrap_or(Err(Failure::Silence));
        let (looked, healthy) = match &outcome {
            Ok(modes) => (Looked::Found(*modes), true),
            Err(Failure::NotFound) => (Looked::Absent, true),
            Err(Failure::Forbidden) => (Looked::Unknown(Why::Forbidden), true),
            Err(Failure::Silence) => (Looked::Unknown(Why::Timeout), false),
            Err(Failure::Garbage(_) | Failure::Foreign | Failure::TooLarge(_)) => {
                (Looked::Unknown(Why::Garbage), false)
            }
            Err(Failure::Transport(_) | Failure::Status(_) | Failure::Expired) => {
                (Looked::Unknown(Why::Unavailable), false)
            }
        };
        self.report(healthy, outcome.as_ref().err());
        if looked == Looked::Unknown(Why::Forbidden) && !self.forbidden.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "no permission to read claims: grant the service account `get` on `persistentvolumeclaims`, or run with `--claims off`; logged once"
            );
        }
        looked
    }

    /// Updates the breaker, and logs when that opens or closes it.
    fn report(&self, healthy: bool, failure: Option<&Failure>) {
        let mut gate = self.gate();
        let breaker = &mut gate.breaker;
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
                    "claim look-ups keep failing; claims are unknown until they work again"
                );
            }
            (true, false, _) => tracing::info!("claim look-ups work again"),
            _ => {}
        }
    }

    async fn fetch(&self, (namespace, name): &Key) -> Result<Modes, Failure> {
        let response =
            fetch::get(&self.client, format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"))
                .await?;
        let body = fetch::read(response, fetch::MAX_OBJECT_BYTES).await?;
        let claim: wire::Claim<'_> = serde_json::from_slice(&body)?;
        if claim.metadata.name != *name || claim.metadata.namespace != *namespace {
            return Err(Failure::Foreign);
        }
        Ok(claim.modes())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
