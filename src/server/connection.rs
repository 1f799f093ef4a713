//! One connection, from the first byte of its requests to its end.
//!
//! hyper has one clock for "the next request has not begun" and "its headers do not get finished". They must differ: the first has to be longer than
//! the 90 s after which the API server drops an idle connection (or it would be told of our end when it has just sent a review), the second short.
//! So the clock is here, driven by what passes through the socket.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::Sleep;
use tower::Service as _;

use super::body::Source;
use super::{Limits, Metrics};

/// What all connections are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Serve.
    #[default]
    Serving,
    /// Serve, and let every answer be the last of its connection.
    Draining,
    /// End what is idle; the rest after its answer.
    Closing,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for the first byte of a request.
    Idle,
    /// Waiting for the rest of its headers.
    Head,
    /// A request is being read and answered; its own deadlines hold.
    Busy,
    /// Waiting for the client to take the answer.
    Writing,
    /// Told to end.
    Closing,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Idle, Self::Head, Self::Busy, Self::Writing, Self::Closing];
    const BITS: u32 = 3;
}

/// What is known of a connection from outside it. Times are milliseconds since `origin`.
#[derive(Debug)]
pub(super) struct Activity {
    origin: Instant,
    /// The phase in the low bits, the time it began above them.
    state: AtomicU64,
    active: AtomicU32,
    served: AtomicBool,
    evicted: AtomicBool,
    wake: Notify,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            origin: Instant::now(),
            state: AtomicU64::new(Phase::Idle as u64),
            active: AtomicU32::new(0),
            served: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// Returns since when the connection has been waiting for a request, unless it is doing something or has been evicted.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        match self.get() {
            (Phase::Idle, since) if !self.evicted.load(Relaxed) => Some(self.origin + Duration::from_millis(since)),
            _ => None,
        }
    }

    /// Asks the connection to make room.
    pub(super) fn evict(&self) {
        self.evicted.store(true, Relaxed);
        self.wake.notify_one();
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn get(&self) -> (Phase, u64) {
        let state = self.state.load(Relaxed);
        let phase = Phase::ALL[(state as usize & ((1 << Phase::BITS) - 1)) % Phase::ALL.len()];
        // Streams of one HTTP/2 connection come and go on several threads; the count is right where the phase may be late.
        (if phase != Phase::Closing && self.active.load(Relaxed) > 0 { Phase::Busy } else { phase }, state >> Phase::BITS)
    }

    fn set(&self, phase: Phase) {
        self.state.store(self.now() << Phase::BITS | phase as u64, Relaxed);
    }

    fn phase(&self) -> Phase {
        self.get().0
    }
}

/// A request being answered, as seen from its connection.
struct Serving {
    activity: Arc<Activity>,
    then: Phase,
}

impl Serving {
    fn begin(activity: Arc<Activity>, then: Phase) -> Self {
        if activity.active.fetch_add(1, Relaxed) == 0 && activity.phase() != Phase::Closing {
            activity.set(Phase::Busy);
        }
        Self { activity, then }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.activity.served.store(true, Relaxed);
        if self.activity.active.fetch_sub(1, Relaxed) == 1 && self.activity.phase() != Phase::Closing {
            self.activity.set(self.then);
        }
    }
}

/// A socket that tells [`Activity`] what an HTTP/1 connection is doing.
struct Observed<IO> {
    io: IO,
    activity: Arc<Activity>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Observed<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        if buffer.filled().len() > before && self.activity.phase() == Phase::Idle {
            self.activity.set(Phase::Head);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> Observed<IO> {
    /// Something was written: the client takes its answer.
    fn wrote(&self) {
        if matches!(self.activity.phase(), Phase::Idle | Phase::Writing) {
            self.activity.set(Phase::Writing);
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Observed<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.wrote();
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bytes))?;
        self.wrote();
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        if self.activity.phase() == Phase::Writing {
            self.activity.set(Phase::Idle);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Which protocol the two ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

/// What a connection needs to know besides its socket.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) router: Router,
    pub(super) limits: Arc<Limits>,
    pub(super) metrics: Metrics,
    pub(super) stages: watch::Receiver<Stage>,
}

/// Serves a connection to its end. Each of its requests carries its `source` as an extension.
pub(super) async fn serve<IO>(io: IO, protocol: Protocol, source: Source, activity: Arc<Activity>, around: Surroundings)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Surroundings { router, limits, metrics, stages } = around;
    let then = if protocol == Protocol::One { Phase::Writing } else { Phase::Idle };
    let serving = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let serving = Serving::begin(serving.clone(), then);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(source);
        let answer = router.clone().call(request);
        async move {
            let answer = answer.await;
            drop(serving);
            answer
        }
    });
    match protocol {
        Protocol::One => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.header_read_timeout(None).max_headers(limits.header_fields).max_header_size(limits.header_bytes);
            // Its own default is 408 KiB, for each connection.
            builder.max_buf_size(limits.connection_buffer);
            let io = TokioIo::new(Observed { io, activity: activity.clone() });
            drive(builder.serve_connection(io, service), protocol, &activity, &limits, &metrics, stages).await;
        }
        Protocol::Two => {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let streams = u32::try_from(limits.in_flight).unwrap_or(u32::MAX);
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(streams)
                .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
                .initial_stream_window_size(u32::try_from(limits.connection_buffer).unwrap_or(u32::MAX))
                .initial_connection_window_size(u32::try_from(limits.connection_buffer).unwrap_or(u32::MAX))
                .keep_alive_interval(limits.keep_alive)
                .keep_alive_timeout(limits.header);
            let connection = builder.serve_connection(TokioIo::new(io), service);
            drive(connection, protocol, &activity, &limits, &metrics, stages).await;
        }
    }
}

enum Event {
    Overdue(Phase),
    Stage,
    Evicted,
}

async fn drive<C>(connection: C, protocol: Protocol, activity: &Activity, limits: &Limits, metrics: &Metrics, mut stages: watch::Receiver<Stage>)
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut connection = pin!(connection);
    let mut watchdog = Watchdog { sleep: Box::pin(tokio::time::sleep(limits.idle)), armed: 0, idle: limits.idle };
    if *stages.borrow() == Stage::Closing {
        stages.mark_changed();
    }
    loop {
        let event = tokio::select! {
            // The connection first: it moves the phase on, which the watchdog then sees.
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(error = super::hot::chain(&error), "connection ended");
                }
                return;
            }
            phase = poll_fn(|cx| watchdog.poll(cx, activity, limits)) => Event::Overdue(phase),
            Ok(()) = stages.changed() => Event::Stage,
            () = activity.wake.notified() => Event::Evicted,
        };
        let end = match event {
            Event::Overdue(Phase::Idle) => {
                metrics.connection_closed("idle");
                true
            }
            Event::Overdue(phase) => {
                let cause = match phase {
                    Phase::Head => "header-timeout",
                    Phase::Writing => "write-timeout",
                    _ => "close-timeout",
                };
                metrics.connection_closed(cause);
                return;
            }
            Event::Evicted => {
                let idle = activity.phase() == Phase::Idle;
                if idle {
                    metrics.connection_closed("evicted");
                } else {
                    activity.evicted.store(false, Relaxed);
                }
                idle
            }
            Event::Stage => match (*stages.borrow_and_update(), protocol) {
                (Stage::Serving, _) | (Stage::Draining, Protocol::One) => false,
                // HTTP/2 has a word for it (GOAWAY), after which nothing that was sent is lost.
                (Stage::Draining | Stage::Closing, Protocol::Two) => true,
                (Stage::Closing, Protocol::One) => {
                    // A connection that has just been made is about to be used; one that is being used ends by its answer.
                    if activity.phase() == Phase::Idle && !activity.served.load(Relaxed) {
                        watchdog.idle = limits.first_request;
                        activity.set(Phase::Idle);
                        false
                    } else {
                        activity.phase() == Phase::Idle
                    }
                }
            },
        };
        if end {
            if protocol == Protocol::One || activity.phase() == Phase::Idle {
                activity.set(Phase::Closing);
            }
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Notices a phase that lasts too long.
struct Watchdog {
    sleep: Pin<Box<Sleep>>,
    /// When the sleep ends; 0 if that is not known.
    armed: u64,
    /// How long the connection may wait for a request.
    idle: Duration,
}

impl Watchdog {
    fn poll(&mut self, cx: &mut Context<'_>, activity: &Activity, limits: &Limits) -> Poll<Phase> {
        loop {
            let (phase, since) = activity.get();
            let limit = match phase {
                Phase::Busy => return Poll::Pending,
                Phase::Idle => self.idle,
                Phase::Head => limits.header,
                Phase::Writing => limits.write,
                Phase::Closing => limits.close,
            };
            let due = since.saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            if activity.now() >= due {
                return Poll::Ready(phase);
            }
            // A later end is noticed when the sleep is over; only an earlier one needs another sleep.
            if self.armed == 0 || due < self.armed {
                let deadline = activity.origin.checked_add(Duration::from_millis(due)).unwrap_or_else(|| activity.origin + limits.idle);
                self.sleep.as_mut().reset(deadline.into());
                self.armed = due;
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.armed = 0;
        }
    }
}
