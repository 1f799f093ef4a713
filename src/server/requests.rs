//! From an HTTP request to a [`Call`], and from an [`Answer`] to an HTTP response.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{timeout, timeout_at};

use super::bounded::{Bounded, StopOnDrop};
use super::certificate::Tokens;
use super::connection::Stage;
use super::{Answer, Application, Call, Endpoint, Fault, Limits, Metrics, Note, Outcome, duration};
use crate::lines::character_at;
use crate::meter::{Bounds, Stopped};

/// How much of a body that is too large is kept, for the application to find the uid in.
const PREFIX: usize = 4096;

/// The part of the server that requests see.
pub(super) struct Site<A> {
    app: Arc<A>,
    limits: Arc<Limits>,
    metrics: Metrics,
    tokens: Option<Arc<Tokens>>,
    /// Whether who comes as far as this has shown who it is.
    authenticated: bool,
    stages: watch::Receiver<Stage>,
    reviews: Arc<Semaphore>,
    large_reviews: Arc<Semaphore>,
    /// A permit for each KiB of [`Limits::evaluation_memory`].
    evaluation_memory: Arc<Semaphore>,
    memory: Arc<AtomicUsize>,
    malformed_lines: Sparing,
}

impl<A: Application> Site<A> {
    pub(super) fn new(app: A, limits: Arc<Limits>, metrics: Metrics, tokens: Option<Arc<Tokens>>, stages: watch::Receiver<Stage>) -> Self {
        Self {
            app: Arc::new(app),
            metrics,
            authenticated: tokens.is_some(),
            tokens,
            stages,
            reviews: Arc::new(Semaphore::new(limits.in_flight)),
            large_reviews: Arc::new(Semaphore::new(limits.large_reviews)),
            evaluation_memory: Arc::new(Semaphore::new(limits.evaluation_memory >> 10)),
            memory: Arc::default(),
            malformed_lines: Sparing::default(),
            limits,
        }
    }

    /// Says whether the connections are those of clients that have shown a certificate.
    pub(super) fn authenticated(mut self, by_certificate: bool) -> Self {
        self.authenticated |= by_certificate;
        self
    }

    pub(super) fn router(self) -> Router {
        let site = Arc::new(self);
        let mut router = Router::new();
        for endpoint in Endpoint::ALL {
            let site = site.clone();
            router = router.route(endpoint.path(), post(move |request| site.clone().respond(endpoint, request)));
        }
        let (not_found, not_allowed) = (site.clone(), site);
        router
            .fallback(move || std::future::ready(not_found.refuse(StatusCode::NOT_FOUND)))
            .method_not_allowed_fallback(move || std::future::ready(not_allowed.refuse(StatusCode::METHOD_NOT_ALLOWED)))
    }

    async fn respond(self: Arc<Self>, endpoint: Endpoint, request: Request) -> Response {
        let version = request.version();
        let mut response = self.clone().review(endpoint, request).await;
        // HTTP/2 has no such header, and says it with a frame.
        if version < Version::HTTP_2 && *self.stages.borrow() > Stage::Serving {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn review(self: Arc<Self>, endpoint: Endpoint, request: Request) -> Response {
        let began = Instant::now();
        if let Some(tokens) = &self.tokens
            && !tokens.admit(request.headers().get(header::AUTHORIZATION))
        {
            let mut response = self.refuse(StatusCode::UNAUTHORIZED);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        if !is_json(request.headers()) {
            return self.refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let deadline = began + self.limits.time_for(request.uri().query());
        let version = request.version();
        let mut share = Share { memory: self.memory.clone(), held: 0, metrics: self.metrics.clone() };
        let body = match timeout(self.limits.body, self.read(request.into_body(), &mut share)).await {
            Ok(Ok(body)) => body,
            Ok(Err(error)) => return closing(version, self.no_body(endpoint, error, began)),
            Err(_) => return closing(version, self.refuse(StatusCode::REQUEST_TIMEOUT)),
        };
        let bytes = body.len();
        let permits = match self.admit(&body, share, deadline).await {
            Ok(permits) => permits,
            Err(Unfit::Now) => {
                self.metrics.shed("in-flight");
                return self.refuse_for_now();
            }
            Err(Unfit::Ever) => {
                let (app, heavy) = (self.app.clone(), body.clone());
                return match spawn_blocking(move || app.too_heavy(endpoint, &heavy)).await {
                    Ok(Some(answer)) => self.finish(endpoint, answer, bytes, began),
                    Ok(None) => self.refuse(StatusCode::PAYLOAD_TOO_LARGE),
                    Err(_) => self.finish(endpoint, self.excuse(endpoint, &body, Fault::Panic), bytes, began),
                };
            }
            Err(Unfit::Unknown) => return self.finish(endpoint, self.excuse(endpoint, &body, Fault::Panic), bytes, began),
        };
        let in_flight = self.metrics.begin_review();
        let answer = self.evaluate(Call { endpoint, authenticated: self.authenticated, body, deadline }, permits).await;
        drop(in_flight);
        match answer {
            Ok(answer) => self.finish(endpoint, answer, bytes, began),
            Err(_) => {
                self.metrics.shed("evaluation");
                self.refuse_for_now()
            }
        }
    }

    /// Reads a whole body, within the cap and the memory that all bodies share.
    async fn read(&self, mut body: Body, share: &mut Share) -> Result<Bytes, BodyError> {
        let cap = self.limits.body_bytes;
        // What is declared too large is not read further than the uid.
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let cap = if announced > cap { PREFIX.min(cap) } else { cap };
        let mut whole = Bytes::new();
        let mut parts = BytesMut::new();
        loop {
            let frame = match body.frame().await {
                None => break,
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Err(BodyError::Broken(error)),
            };
            let Ok(data) = frame.into_data() else { continue };
            let held = whole.len() + parts.len();
            if data.len() > cap - held {
                let mut prefix = if whole.is_empty() { parts } else { whole.into() };
                prefix.extend_from_slice(&data[..data.len().min(PREFIX.saturating_sub(held))]);
                prefix.truncate(PREFIX);
                return Err(BodyError::TooLarge(Bytes::copy_from_slice(&prefix), body));
            }
            if !share.grow(data.len(), self.limits.body_memory) {
                return Err(BodyError::NoMemory(body));
            }
            // An ordinary body comes in one piece, and is not copied.
            if held == 0 {
                whole = data;
                continue;
            }
            if parts.is_empty() {
                parts.reserve(announced.max(held + data.len()));
                parts.extend_from_slice(&whole);
                whole = Bytes::new();
            }
            parts.extend_from_slice(&data);
        }
        Ok(if parts.is_empty() { whole } else { parts.freeze() })
    }

    fn no_body(&self, endpoint: Endpoint, error: BodyError, began: Instant) -> Response {
        match error {
            BodyError::Broken(error) => {
                tracing::debug!(%error, "body not read");
                self.refuse(StatusCode::BAD_REQUEST)
            }
            BodyError::NoMemory(rest) => {
                discard(rest, &self.limits);
                self.metrics.shed("memory");
                self.refuse_for_now()
            }
            BodyError::TooLarge(prefix, rest) => {
                discard(rest, &self.limits);
                match std::panic::catch_unwind(AssertUnwindSafe(|| self.app.too_large(endpoint, &prefix, self.limits.body_bytes))) {
                    Ok(Some(answer)) => self.finish(endpoint, answer, self.limits.body_bytes, began),
                    Ok(None) | Err(_) => self.refuse(StatusCode::PAYLOAD_TOO_LARGE),
                }
            }
        }
    }

    /// Waits a little for leave to evaluate a body.
    async fn admit(&self, body: &Bytes, share: Share, deadline: Instant) -> Result<Permits, Unfit> {
        let wait = self.queue_time(deadline);
        let all = async {
            let (large, share) = if body.len() > self.limits.inline_bytes {
                let (room, share) = self.make_room(body, share).await?;
                (Some(room), share)
            } else {
                (None, share)
            };
            let review = self.reviews.clone().acquire_owned().await.map_err(|_| Unfit::Now)?;
            Ok(Permits { _review: review, _large: large, _share: share })
        };
        timeout(wait, all).await.unwrap_or(Err(Unfit::Now))
    }

    /// Waits for a processor and for memory to evaluate a large body with.
    async fn make_room(&self, body: &Bytes, share: Share) -> Result<([OwnedSemaphorePermit; 2], Share), Unfit> {
        let turn = self.large_reviews.clone().acquire_owned().await.map_err(|_| Unfit::Now)?;
        let (app, body) = (self.app.clone(), body.clone());
        // What is weighed is held until that has ended, even if nobody waits for it any more.
        let weighing = spawn_blocking(move || (app.weight(&body), turn, share));
        let (weight, turn, share) = weighing.await.map_err(|_| Unfit::Unknown)?;
        let all = self.limits.evaluation_memory;
        // One that takes more than all may is evaluated alone, in what is left for memory that is yet to be given back.
        if weight > 2 * all {
            return Err(Unfit::Ever);
        }
        let kib = u32::try_from(weight.min(all) >> 10).map_err(|_| Unfit::Ever)?;
        let memory = self.evaluation_memory.clone().acquire_many_owned(kib).await.map_err(|_| Unfit::Now)?;
        Ok(([turn, memory], share))
    }

    /// Lets the application answer, and answers for it if it cannot.
    ///
    /// A small body is evaluated where it was read, as nearly all need less time than it takes to hand them to another thread. That is tried for
    /// a number of steps only; what needs more, and every large body, is evaluated on a thread that no connection waits for.
    async fn evaluate(&self, call: Call, permits: Permits) -> Result<Answer, Unfit> {
        let (endpoint, body, deadline) = (call.endpoint, call.body.clone(), call.deadline);
        let result = if body.len() <= self.limits.inline_bytes {
            let bounds = Bounds { steps: Some(self.limits.inline_steps), stop: None };
            let answer = AssertUnwindSafe(Bounded::new(self.app.review(call.clone()), bounds)).catch_unwind();
            match timeout_at(deadline.into(), answer).await {
                Ok(Ok(Err(Stopped))) => {
                    let turn = self.large_reviews.clone().acquire_owned();
                    let turn = timeout(self.queue_time(deadline), turn).await.ok().and_then(Result::ok).ok_or(Unfit::Now)?;
                    self.evaluate_apart(call, (permits, turn)).await
                }
                Ok(Ok(Ok(answer))) => Ok(answer),
                Ok(Err(_)) => Err(Fault::Panic),
                Err(_) => Err(Fault::Deadline),
            }
        } else {
            self.evaluate_apart(call, permits).await
        };
        Ok(result.unwrap_or_else(|fault| self.excuse(endpoint, &body, fault)))
    }

    /// Lets the application answer on a thread of its own. The work ends with the deadline, or when the client is gone; what it holds is held until
    /// then.
    async fn evaluate_apart(&self, call: Call, held: impl Send + 'static) -> Result<Answer, Fault> {
        let (app, deadline, runtime) = (self.app.clone(), call.deadline, Handle::current());
        let stop = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(stop.clone());
        let task = spawn_blocking(move || {
            let bounds = Bounds { steps: None, stop: Some(stop) };
            let answer = AssertUnwindSafe(Bounded::new(async move { app.review(call).await }, bounds)).catch_unwind();
            let result = runtime.block_on(async { timeout_at(deadline.into(), answer).await });
            drop(held);
            result
        });
        match timeout_at(deadline.into(), task).await {
            Ok(Ok(Ok(Ok(Ok(answer))))) => Ok(answer),
            Ok(Ok(Ok(Err(_))) | Err(_)) => Err(Fault::Panic),
            Ok(Ok(Ok(Ok(Err(Stopped))) | Err(_))) | Err(_) => Err(Fault::Deadline),
        }
    }

    /// Returns how long a review may wait for its turn.
    fn queue_time(&self, deadline: Instant) -> Duration {
        self.limits.queue.min(deadline.saturating_duration_since(Instant::now()) / 2)
    }

    /// Lets the application answer for what it did not answer.
    fn excuse(&self, endpoint: Endpoint, body: &[u8], fault: Fault) -> Answer {
        self.metrics.fault(fault.as_str());
        let answer = std::panic::catch_unwind(AssertUnwindSafe(|| self.app.fault(endpoint, body, fault)));
        answer.ok().flatten().unwrap_or_else(|| Answer {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            body: Vec::new(),
            note: Note { outcome: Outcome::Faulted, ..Note::default() },
        })
    }

    /// Counts and logs an answer, and turns it into a response.
    fn finish(&self, endpoint: Endpoint, answer: Answer, bytes: usize, began: Instant) -> Response {
        let Answer { status, body, note } = answer;
        let took = began.elapsed();
        let findings = || note.findings.iter().map(|(rule, level, count)| format!("{level}:{rule}={count}")).collect::<Vec<_>>().join(" ");
        self.metrics.review(endpoint, &note, took);
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    endpoint = endpoint.as_str(),
                    uid = short(&note.uid),
                    kind = note.kind,
                    object = short(&note.object),
                    findings = findings(),
                    status = status.as_u16(),
                    bytes,
                    micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                    "{}",
                    note.outcome.as_str()
                )
            };
        }
        match note.outcome {
            Outcome::Allowed | Outcome::Patched | Outcome::Warned => log!(debug),
            Outcome::Denied => log!(info),
            // Anybody can send these, as many as he likes; the metric has them all.
            Outcome::Malformed if self.malformed_lines.allows(Instant::now()) => log!(warn),
            Outcome::Malformed => log!(debug),
            Outcome::Faulted => log!(error),
        }
        let media = if status.is_success() { "application/json" } else { "text/plain; charset=utf-8" };
        (status, [(header::CONTENT_TYPE, media)], body).into_response()
    }

    fn refuse(&self, status: StatusCode) -> Response {
        self.metrics.rejected(status.as_u16());
        (status, status.canonical_reason().unwrap_or_default()).into_response()
    }

    /// The API server's client tries again after a 429 with this header, within the time it has for the webhook (client-go `rest/with_retry.go`).
    fn refuse_for_now(&self) -> Response {
        let mut response = StatusCode::TOO_MANY_REQUESTS.into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }
}

/// Ends the connection after a response to a request that was not read to its end.
fn closing(version: Version, mut response: Response) -> Response {
    if version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Why a body is not evaluated.
enum Unfit {
    /// Others are, and have been for too long.
    Now,
    /// It is too heavy.
    Ever,
    /// To weigh it has failed.
    Unknown,
}

enum BodyError {
    Broken(axum::Error),
    /// The first bytes, and what was not read.
    TooLarge(Bytes, Body),
    NoMemory(Body),
}

/// Reads on for a while without keeping anything: a client that is still sending when the connection is cut would not see the answer.
fn discard(mut body: Body, limits: &Limits) {
    let (time, mut left) = (limits.header, limits.body_bytes);
    tokio::spawn(timeout(time, async move {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    }));
}

/// Leave to evaluate. What an evaluation holds is held until it has ended, even if nobody waits for it any more.
struct Permits {
    _review: OwnedSemaphorePermit,
    _large: Option<[OwnedSemaphorePermit; 2]>,
    _share: Share,
}

/// One request's share of the memory for bodies.
struct Share {
    memory: Arc<AtomicUsize>,
    held: usize,
    metrics: Metrics,
}

impl Share {
    fn grow(&mut self, bytes: usize, limit: usize) -> bool {
        self.held += bytes;
        let all = self.memory.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.metrics.body_bytes(all);
        all <= limit
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let before = self.memory.fetch_sub(self.held, Ordering::Relaxed);
        self.metrics.body_bytes(before.saturating_sub(self.held));
    }
}

impl Limits {
    /// Returns how long the answer to a request with this query may take: less than the API server will wait.
    fn time_for(&self, query: Option<&str>) -> Duration {
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let asked = pairs.filter(|(name, _)| *name == "timeout").find_map(|(_, value)| duration::parse(value));
        let time = asked.unwrap_or(super::DEFAULT_TIMEOUT).min(self.review);
        time.saturating_sub(self.margin.min(time / 4))
    }
}

/// Tells whether a body is plain JSON by its headers.
fn is_json(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let media = text(header::CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json") && text(header::CONTENT_ENCODING).is_none_or(|coding| coding.eq_ignore_ascii_case("identity"))
}

/// The time between two log lines of warning about reviews that are malformed.
const MALFORMED_LINE_EVERY: Duration = Duration::from_secs(1);

/// Lets one thing happen in each [`MALFORMED_LINE_EVERY`].
#[derive(Default)]
struct Sparing(Mutex<Option<Instant>>);

impl Sparing {
    fn allows(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = last.is_none_or(|last| now.saturating_duration_since(last) >= MALFORMED_LINE_EVERY);
        if allowed {
            *last = Some(now);
        }
        allowed
    }
}

/// Keeps what a client made up from filling the log.
fn short(text: &str) -> &str {
    &text[..character_at(text, 128)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_comes_before_the_client_gives_up() {
        let limits = Limits::default();
        let time = |query| limits.time_for(query).as_millis();
        assert_eq!(time(None), 2300);
        assert_eq!(time(Some("timeout=10s")), 2300);
        assert_eq!(time(Some("timeout=2s")), 1800);
        assert_eq!(time(Some("a=b&timeout=1s&timeout=9s")), 800);
        assert_eq!(time(Some("timeout=400ms")), 300);
        assert_eq!(time(Some("timeout=soon")), 2300);
        assert_eq!(time(Some("timeout=0s")), 0);
    }

    #[test]
    fn only_plain_json_is_read() {
        let headers =
            |pairs: &[(&'static str, &'static str)]| pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        for (pairs, json) in [
            (&[("content-type", "application/json")][..], true),
            (&[("content-type", "Application/JSON; charset=utf-8")], true),
            (&[("content-type", "application/json"), ("content-encoding", "identity")], true),
            (&[("content-type", "application/json"), ("content-encoding", "gzip")], false),
            (&[("content-type", "application/jsonp")], false),
            (&[("content-type", "text/plain")], false),
            (&[], false),
        ] {
            assert_eq!(is_json(&headers(pairs)), json, "{pairs:?}");
        }
    }

    #[test]
    fn warnings_about_what_strangers_send_are_one_a_second() {
        let (lines, now) = (Sparing::default(), Instant::now());
        let allowed = (0..3000).filter(|ms| lines.allows(now + Duration::from_millis(*ms)));
        assert_eq!(allowed.collect::<Vec<_>>(), [0, 1000, 2000]);
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short(&"é".repeat(100)), "é".repeat(64));
        assert_eq!(short(&format!("a{}", "é".repeat(100))).len(), 127);
    }
}
