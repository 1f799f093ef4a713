//! One connection, from the first byte of its requests to its end.
//!
//! hyper has one clock for "the next request has not begun" and "its headers do not get finished". They must
//! differ: the first has to be longer than the 90 s after which the API server drops an idle connection (or
//! it would be told of our end when it has just sent a review), the second short. So the clock is here,
//! driven by what passes through the socket.

use std::future::{Future as _, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use http::{HeaderValue, Request, Version, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustls::InvalidMessage;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tower::Service as _;

use super::activity::{Activity, Incomplete, Phase, Serving};
use super::body::Source;
use super::framing::{Framing, Misframed};
use super::{Limits, Metrics};

/// What hyper gets to see instead of a request that is not framed well: a byte that no head can have, and the
/// end of the head. It answers 400.
const MISFRAMED: &[u8] = b"\0\r\n\r\n";

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

/// A socket that can tell whether something has arrived that nobody has read.
pub(super) trait Arrivals {
    /// Asks the system, and not the runtime, which learns of it later.
    fn has_arrivals(&self) -> bool;
}

impl Arrivals for TcpStream {
    fn has_arrivals(&self) -> bool {
        SockRef::from(self).peek(&mut [MaybeUninit::uninit()]).is_ok()
    }
}

impl Arrivals for TlsStream<Capped> {
    fn has_arrivals(&self) -> bool {
        self.get_ref().0.stream.has_arrivals()
    }
}

/// A socket from which no more is read than a handshake needs. rustls would keep 64 KiB of one that does not
/// end, for each connection.
pub(super) struct Capped {
    stream: TcpStream,
    left: usize,
}

impl Capped {
    pub(super) fn new(stream: TcpStream, bytes: usize) -> Self {
        Self { stream, left: bytes }
    }

    /// Takes the cap away.
    pub(super) fn release(&mut self) {
        self.left = usize::MAX;
    }
}

impl AsyncRead for Capped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if self.left < usize::MAX {
            let error = || {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    rustls::Error::from(InvalidMessage::HandshakePayloadTooLarge),
                )
            };
            self.left = self.left.checked_sub(buffer.filled().len() - before).ok_or_else(error)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Capped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A socket that tells [`Activity`] what an HTTP/1 connection is doing, and lets no request through whose end
/// is in doubt.
struct Observed<IO> {
    io: IO,
    activity: Arc<Activity>,
    metrics: Metrics,
    framing: Framing,
    /// What is left to be shown of [`MISFRAMED`].
    refusal: &'static [u8],
    /// How many bytes are still read after a refusal, so that it is not lost with a connection that is cut
    /// while the client sends.
    discard: usize,
    shut_down: bool,
}

impl<IO: AsyncRead + Arrivals + Unpin> AsyncRead for Observed<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.framing.refused() {
            return this.poll_refusal(buffer);
        }
        let before = buffer.filled().len();
        match Pin::new(&mut this.io).poll_read(cx, buffer) {
            Poll::Ready(result) => result?,
            Poll::Pending => {
                if this.activity.is_evicted()
                    && this.activity.phase() == Phase::Idle
                    && this.io.has_arrivals()
                {
                    this.activity.set(Phase::Head);
                }
                return Poll::Pending;
            }
        }
        let arrived = &buffer.filled()[before..];
        if !arrived.is_empty() && this.activity.phase() == Phase::Idle {
            this.activity.set(Phase::Head);
        }
        if let Err(Misframed(at)) = this.framing.scan(arrived) {
            this.metrics.connection_closed("framing");
            this.refusal = MISFRAMED;
            buffer.set_filled(before + at);
            return this.poll_refusal(buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO> Observed<IO> {
    fn poll_refusal(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (now, later) = self.refusal.split_at(self.refusal.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.refusal = later;
        // There is nothing to wait for: hyper has all that it needs to end the connection.
        if now.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Something was written: the client takes its answer.
    fn wrote(&self) {
        if self.activity.phase() == Phase::Idle {
            self.activity.set(Phase::Writing);
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Observed<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.wrote();
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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
            // The beginning of the next request may have come together with the last one.
            self.activity.set(if self.framing.in_head() { Phase::Head } else { Phase::Idle });
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut_down {
            ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
            this.shut_down = true;
            if this.framing.refused() {
                this.activity.set(Phase::Closing);
            }
        }
        while this.framing.refused() && this.discard > 0 {
            let mut scratch = [MaybeUninit::uninit(); 4096];
            let mut scratch = ReadBuf::uninit(&mut scratch);
            ready!(Pin::new(&mut this.io).poll_read(cx, &mut scratch))?;
            if scratch.filled().is_empty() {
                break;
            }
            this.discard = this.discard.saturating_sub(scratch.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}

/// A body that says when it is complete.
struct Watched {
    body: Incoming,
    incomplete: Option<Incomplete>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) || self.body.is_end_stream() {
            self.incomplete = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
    /// Whether a connection ends with its first answer.
    pub(super) once: bool,
}

/// Serves a connection to its end. Each of its requests carries its `source` as an extension.
pub(super) async fn serve<IO>(
    io: IO,
    protocol: Protocol,
    source: Source,
    activity: Arc<Activity>,
    around: Surroundings,
) where
    IO: AsyncRead + AsyncWrite + Arrivals + Unpin + Send + 'static,
{
    let Surroundings { router, limits, metrics, stages, once } = around;
    activity.set(Phase::Idle);
    let then = if protocol == Protocol::One { Phase::Writing } else { Phase::Idle };
    let serving = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (serving, incomplete) = Serving::begin(&serving, then);
        // Nobody counts chunks off but hyper, so nothing may follow them.
        let last = request.version() < Version::HTTP_2
            && (once || request.headers().contains_key(header::TRANSFER_ENCODING));
        let mut request = request.map(|body| {
            let incomplete = Some(incomplete).filter(|_| !http_body::Body::is_end_stream(&body));
            Body::new(Watched { body, incomplete })
        });
        request.extensions_mut().insert(source);
        let answer = router.clone().call(request);
        async move {
            let mut answer = answer.await;
            if let Ok(response) = &mut answer {
                if response.status().is_success() {
                    serving.succeeded();
                }
                if last {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
            }
            drop(serving);
            answer
        }
    });
    match protocol {
        Protocol::One => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder
                .header_read_timeout(None)
                .max_headers(limits.header_fields)
                .max_header_size(limits.header_bytes);
            // Its own default is 408 KiB, kept for as long as the connection lives.
            builder.max_buf_size(limits.connection_buffer);
            let io = TokioIo::new(Observed {
                io,
                activity: activity.clone(),
                metrics: metrics.clone(),
                framing: Framing::default(),
                refusal: &[],
                discard: limits.body_bytes,
                shut_down: false,
            });
            drive(builder.serve_connection(io, service), protocol, &activity, &limits, &metrics, stages)
                .await;
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

async fn drive<C>(
    connection: C,
    protocol: Protocol,
    activity: &Activity,
    limits: &Limits,
    metrics: &Metrics,
    mut stages: watch::Receiver<Stage>,
) where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut connection = pin!(connection);
    let mut watchdog =
        Watchdog { sleep: Box::pin(tokio::time::sleep(limits.idle)), armed: 0, idle: limits.idle };
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
                // What has arrived by now counts, even if the runtime does not know of it yet.
                if poll_fn(|cx| Poll::Ready(connection.as_mut().poll(cx))).await.is_ready() {
                    return;
                }
                if !activity.gives_way() {
                    continue;
                }
                metrics.connection_closed("evicted");
                if !activity.served() || activity.phase() != Phase::Idle {
                    return;
                }
                true
            }
            Event::Stage => match (*stages.borrow_and_update(), protocol) {
                (Stage::Serving, _) | (Stage::Draining, Protocol::One) => false,
                // HTTP/2 has a word for it (GOAWAY), after which nothing that was sent is lost.
                (Stage::Draining | Stage::Closing, Protocol::Two) => true,
                (Stage::Closing, Protocol::One) => {
                    // A connection that has just been made is about to be used; one that is being used ends
                    // by its answer.
                    if activity.phase() == Phase::Idle && !activity.served() {
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
                Phase::Body | Phase::Busy => return Poll::Pending,
                Phase::Idle => self.idle,
                Phase::Handshake | Phase::Head => limits.header,
                Phase::Writing => limits.write,
                Phase::Closing => limits.close,
            };
            let due = since.saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            if activity.now() >= due {
                return Poll::Ready(phase);
            }
            // A later end is noticed when the sleep is over; only an earlier one needs another sleep.
            if self.armed == 0 || due < self.armed {
                let deadline = activity
                    .origin()
                    .checked_add(Duration::from_millis(due))
                    .unwrap_or_else(|| activity.origin() + limits.idle);
                self.sleep.as_mut().reset(deadline.into());
                self.armed = due;
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.armed = 0;
        }
    }
}
