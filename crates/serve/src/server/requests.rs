//! Turns an HTTP request into a [`Call`], and an [`Answer`] into an HTTP response.

mod admit;

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{timeout, timeout_at};

use self::admit::{Permits, Unfit, WEIGHED_AT_ONCE};
use super::body::{Bodies, BodyError, PREFIX_BYTES, PeerAddress, Received};
use super::certificate::Tokens;
use super::connection::ServerStage;
use super::deferrals::{DeferralTimes, Deferrals};
use super::fair_queue::FairQueue;
use super::metered::{MeteredFuture, StopOnDrop};
use super::queue::{Capacity, ReviewQueue};
use super::{Application, Call, duration};
use crate::server::limits::Limits;
use crate::server::metrics::Metrics;
use jobgate_core::admission::{Answer, Endpoint, Estimate, Fault, Meta, Outcome};
use jobgate_core::judge::finding::Level;
use jobgate_core::judge::rule::RuleId;
use jobgate_core::text::lines::character_at;
use jobgate_core::text::meter::{Bounds, Stopped};

/// The state of the server that requests need.
pub(super) struct Site<A> {
    app: Arc<A>,
    limits: Arc<Limits>,
    metrics: Metrics,
    tokens: Option<Arc<Tokens>>,
    /// Whether callers that get this far are authenticated.
    authenticated: bool,
    stages: watch::Receiver<ServerStage>,
    bodies: Bodies,
    /// All reviews, with the memory of light ones.
    reviews: ReviewQueue,
    /// Reviews that are evaluated on their own threads, with the memory of heavy ones.
    long_reviews: ReviewQueue,
    /// Turns for weighing bodies that take long to weigh.
    weighing: FairQueue,
    put_off: Deferrals,
    malformed_lines: Sparing,
    fault_lines: Sparing,
}

impl<A: Application> Site<A> {
    pub(super) fn new(
        app: A,
        limits: Arc<Limits>,
        metrics: Metrics,
        tokens: Option<Arc<Tokens>>,
        stages: watch::Receiver<ServerStage>,
    ) -> Self {
        let (light, heavy) = (limits.light_evaluation_memory, limits.evaluation_memory);
        Self {
            app: Arc::new(app),
            bodies: Bodies::new(limits.clone(), &metrics),
            reviews: ReviewQueue::new(Capacity {
                turns: limits.in_flight,
                memory: light,
                // One source leaves a quarter for others.
                memory_per_source: light - light / 4,
                light: usize::MAX,
            }),
            long_reviews: ReviewQueue::new(Capacity {
                turns: limits.long_reviews,
                memory: heavy,
                memory_per_source: heavy,
                light: limits.light,
            }),
            weighing: FairQueue::new(WEIGHED_AT_ONCE),
            put_off: Deferrals::new(metrics.clone()),
            metrics,
            authenticated: tokens.is_some(),
            tokens,
            stages,
            malformed_lines: Sparing::default(),
            fault_lines: Sparing::default(),
            limits,
        }
    }

    /// Returns the reviews that were put off.
    pub(super) fn put_off(&self) -> Deferrals {
        self.put_off.clone()
    }

    /// Sets whether clients have presented a certificate.
    pub(super) fn authenticated(mut self, by_certificate: bool) -> Self {
        self.authenticated |= by_certificate;
        self
    }

    pub(super) fn router(self) -> Router {
        let site = Arc::new(self);
        let mut router = Router::new();
        for endpoint in Endpoint::ALL {
            let site = site.clone();
            router =
                router.route(endpoint.path(), post(move |request| site.clone().respond(endpoint, request)));
        }
        let (not_found, not_allowed) = (site.clone(), site);
        router
            .fallback(move || std::future::ready(not_found.refuse(StatusCode::NOT_FOUND)))
            .method_not_allowed_fallback(move || {
                std::future::ready(not_allowed.refuse(StatusCode::METHOD_NOT_ALLOWED))
            })
    }

    async fn respond(self: Arc<Self>, endpoint: Endpoint, request: Request) -> Response {
        let version = request.version();
        let mut response = self.clone().review(endpoint, request).await;
        // HTTP/2 has a frame instead of this header.
        if version < Version::HTTP_2 && *self.stages.borrow() > ServerStage::Serving {
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
        let timeout = asked_for(request.uri().query());
        let mut deadline = began + self.limits.time_for(timeout);
        let mut times = DeferralTimes { until: began + timeout };
        let version = request.version();
        // Requests without a connection (in tests of the router) have one source.
        let PeerAddress(source) =
            request.extensions().get().copied().unwrap_or(PeerAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let received = match self.bodies.read(request.into_body(), source, deadline).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%source, cause = error.cause(), "no body");
                if let BodyError::Late(prefix, _) | BodyError::NoMemory(_, prefix, _) = &error {
                    self.remember(source, prefix, times);
                }
                return closing(version, self.no_body(endpoint, error, began));
            }
        };
        let prefix = received.bytes.slice(..received.bytes.len().min(PREFIX_BYTES));
        let again =
            if self.put_off.any() { self.put_off.again(source, self.estimate(&prefix).uid) } else { None };
        if let Some(again) = &again {
            // The caller has waited since its first attempt, and sends the same timeout each time.
            times = again.times;
            deadline =
                times.until.checked_sub(self.limits.margin).map_or(deadline, |until| deadline.min(until));
        }
        let response = match self.judge(endpoint, received, source, deadline, began).await {
            Ok(response) => response,
            Err(cause) => {
                self.metrics.shed(cause);
                self.remember(source, &prefix, times);
                self.refuse_for_now()
            }
        };
        if let Some(again) = again {
            again.settled();
        }
        response
    }

    /// Answers a complete review. The error is the cause for which it is put off.
    async fn judge(
        &self,
        endpoint: Endpoint,
        received: Received,
        source: IpAddr,
        deadline: Instant,
        began: Instant,
    ) -> Result<Response, &'static str> {
        let (body, bytes) = (received.bytes.clone(), received.bytes.len());
        let permits = match self.admit(endpoint, received, source, deadline).await {
            Ok(permits) => permits,
            Err(Unfit::Now) => return Err("in-flight"),
            Err(Unfit::Ever(Some(answer))) => return Ok(self.finish(endpoint, answer, bytes, began)),
            Err(Unfit::Ever(None)) => return Ok(self.refuse(StatusCode::PAYLOAD_TOO_LARGE)),
            Err(Unfit::Unknown) => {
                return Ok(self.finish(endpoint, self.excuse(body, Fault::Panic).await, bytes, began));
            }
        };
        let in_flight = self.metrics.begin_review();
        let call = Call { endpoint, authenticated: self.authenticated, body, deadline };
        let answer = self.evaluate(call, source, permits).await;
        drop(in_flight);
        Ok(self.finish(endpoint, answer.ok_or("evaluation")?, bytes, began))
    }

    /// Remembers a review that is put off, by the uid in the first part of its body.
    fn remember(&self, source: IpAddr, prefix: &[u8], times: DeferralTimes) {
        self.put_off.remember(source, self.estimate(prefix).uid, times);
    }

    fn estimate<'b>(&self, body: &'b [u8]) -> Estimate<'b> {
        std::panic::catch_unwind(AssertUnwindSafe(|| self.app.estimate(body))).unwrap_or_default()
    }

    fn no_body(&self, endpoint: Endpoint, error: BodyError, began: Instant) -> Response {
        let cause = error.cause();
        match error {
            BodyError::Broken => self.refuse(StatusCode::BAD_REQUEST),
            // The API server waits longer than we do, and may be faster next time.
            BodyError::Late(_, rest) => {
                self.bodies.discard(rest);
                self.metrics.body_ended(cause);
                self.refuse_for_now()
            }
            BodyError::Unreasonable(_) => {
                self.metrics.body_ended(cause);
                self.refuse(StatusCode::REQUEST_TIMEOUT)
            }
            BodyError::NoMemory(_, _, rest) => {
                self.bodies.discard(rest);
                self.metrics.shed(cause);
                self.refuse_for_now()
            }
            BodyError::TooLarge(prefix, rest) => {
                self.bodies.discard(rest);
                match std::panic::catch_unwind(AssertUnwindSafe(|| {
                    self.app.too_large(&prefix, self.limits.body_bytes)
                })) {
                    Ok(Some(answer)) => self.finish(endpoint, answer, self.limits.body_bytes, began),
                    Ok(None) | Err(_) => self.refuse(StatusCode::PAYLOAD_TOO_LARGE),
                }
            }
        }
    }

    /// Lets the application answer, or answers for it if it cannot; `None` if there was no turn for it.
    ///
    /// A light review is evaluated on the thread that read it, as nearly all need less time than the hand-over
    /// to another thread. That is limited by steps; one that needs more, and every heavy one, is evaluated on
    /// a thread of its own.
    async fn evaluate(&self, call: Call, source: IpAddr, permits: Permits) -> Option<Answer> {
        let (body, deadline) = (call.body.clone(), call.deadline);
        let result = if let Some(weight) = permits.inline {
            let bounds = Bounds { steps: Some(self.limits.inline_steps), stop: None };
            let answer =
                AssertUnwindSafe(MeteredFuture::new(self.app.review(call.clone()), bounds)).catch_unwind();
            match timeout_at(deadline.into(), answer).await {
                Ok(Ok(Err(Stopped))) => {
                    let Permits { _review: review, _body: memory, .. } = permits;
                    // It waits among the long ones, and must not hold the memory of light ones meanwhile.
                    drop(review);
                    let turns = async {
                        let long = self.wait(&self.long_reviews, source, &body, weight, weight).await;
                        (long, self.wait(&self.reviews, source, &body, weight, 0).await)
                    };
                    let turns = timeout(self.queue_time(deadline), turns).await.ok()?;
                    self.evaluate_apart(call, (turns, memory)).await
                }
                Ok(Ok(Ok(answer))) => Ok(answer),
                Ok(Err(_)) => Err(Fault::Panic),
                Err(_) => Err(Fault::Deadline),
            }
        } else {
            self.evaluate_apart(call, permits).await
        };
        Some(match result {
            Ok(answer) => answer,
            Err(fault) => self.excuse(body, fault).await,
        })
    }

    /// Lets the application answer on a thread of its own. The work ends at the deadline, or when the client
    /// is gone, and keeps its permits until then.
    async fn evaluate_apart(&self, call: Call, taken: impl Send + 'static) -> Result<Answer, Fault> {
        let (app, deadline, runtime) = (self.app.clone(), call.deadline, Handle::current());
        let stop = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(stop.clone());
        let task = spawn_blocking(move || {
            let bounds = Bounds { steps: None, stop: Some(stop) };
            let answer = AssertUnwindSafe(MeteredFuture::new(async move { app.review(call).await }, bounds))
                .catch_unwind();
            let result = runtime.block_on(async { timeout_at(deadline.into(), answer).await });
            drop(taken);
            result
        });
        match timeout_at(deadline.into(), task).await {
            Ok(Ok(Ok(Ok(Ok(answer))))) => Ok(answer),
            Ok(Ok(Ok(Err(_))) | Err(_)) => Err(Fault::Panic),
            Ok(Ok(Ok(Ok(Err(Stopped))) | Err(_))) | Err(_) => Err(Fault::Deadline),
        }
    }

    /// Lets the application answer for a review that it failed to answer.
    async fn excuse(&self, body: Bytes, fault: Fault) -> Answer {
        self.metrics.fault(fault.as_str());
        let (app, inline) = (self.app.clone(), body.len() <= self.limits.inline_bytes);
        let answer = move || app.fault(&body, fault);
        let answer = if inline {
            std::panic::catch_unwind(AssertUnwindSafe(answer)).ok()
        } else {
            spawn_blocking(answer).await.ok()
        };
        answer.flatten().unwrap_or_else(|| Answer {
            status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
            body: Vec::new(),
            meta: Meta { outcome: Outcome::Faulted, ..Meta::default() },
        })
    }

    /// Counts and logs an answer, and turns it into a response.
    fn finish(&self, endpoint: Endpoint, answer: Answer, bytes: usize, began: Instant) -> Response {
        let Answer { status, body, meta } = answer;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let took = began.elapsed();
        let finding =
            |((rule, level), count): (&(RuleId, Level), &usize)| format!("{}:{rule}={count}", level.as_str());
        let findings = || meta.findings.iter().map(finding).collect::<Vec<_>>().join(" ");
        self.metrics.review(endpoint, &meta, took);
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    endpoint = endpoint.as_str(),
                    uid = short(&meta.uid),
                    kind = meta.kind(),
                    object = short(&meta.object()),
                    operation = meta.operation,
                    user = short(&meta.user),
                    dry_run = meta.dry_run,
                    findings = findings(),
                    status = status.as_u16(),
                    bytes,
                    micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                    "{}",
                    meta.outcome.as_str()
                )
            };
        }
        match meta.outcome {
            Outcome::Allowed | Outcome::Patched | Outcome::Warned => log!(debug),
            Outcome::Denied => log!(info),
            // Anyone can send any number of these; the metric counts every one.
            Outcome::Malformed if self.malformed_lines.allows(Instant::now()) => log!(warn),
            Outcome::Malformed => log!(debug),
            // Any tenant can trigger these with costly objects; the metric counts every one.
            Outcome::Faulted if self.fault_lines.allows(Instant::now()) => log!(error),
            Outcome::Faulted => log!(debug),
        }
        let media = if status.is_success() { "application/json" } else { "text/plain; charset=utf-8" };
        (status, [(header::CONTENT_TYPE, media)], body).into_response()
    }

    fn refuse(&self, status: StatusCode) -> Response {
        self.metrics.rejected(status.as_u16());
        (status, status.canonical_reason().unwrap_or_default()).into_response()
    }

    /// The API server's client tries again after a 429 with this header, within the time it has for the
    /// webhook (client-go `rest/with_retry.go`).
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

impl Limits {
    /// Returns how long the answer may take: less than the API server will wait.
    fn time_for(&self, timeout: Duration) -> Duration {
        let time = timeout.min(self.review);
        time.saturating_sub(self.margin.min(time / 4))
    }
}

/// Returns how long the API server waits for the answer to a request with this query.
fn asked_for(query: Option<&str>) -> Duration {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let asked = pairs.filter(|(name, _)| *name == "timeout").find_map(|(_, value)| duration::parse(value));
    asked.unwrap_or(super::DEFAULT_TIMEOUT).min(LONGEST_TIMEOUT)
}

/// The longest timeout of a webhook that Kubernetes allows.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether the headers declare a body of plain JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let media = text(header::CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
        && text(header::CONTENT_ENCODING).is_none_or(|coding| coding.eq_ignore_ascii_case("identity"))
}

/// Minimum time between two log lines of one level about reviews that anyone can send.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Allows one event in each [`LINE_EVERY`].
#[derive(Default)]
struct Sparing(Mutex<Option<Instant>>);

impl Sparing {
    fn allows(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = last.is_none_or(|last| now.saturating_duration_since(last) >= LINE_EVERY);
        if allowed {
            *last = Some(now);
        }
        allowed
    }
}

/// Shortens client input, which must not fill the log.
fn short(text: &str) -> &str {
    &text[..character_at(text, 128)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_comes_before_the_client_gives_up() {
        let limits = Limits::default();
        let time = |query| limits.time_for(asked_for(query)).as_millis();
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
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
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
