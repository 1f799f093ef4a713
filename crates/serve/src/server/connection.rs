//! One connection, from the first byte of its requests to its end.
//!
//! hyper has one timeout for "the next request has not begun" and "its headers are not complete". The first
//! has to be longer than the 90 s after which the API server closes an idle connection (or we could close it
//! just as a review is sent), the second short. So the clock is here, driven by the data on the socket.

mod socket;
mod watchdog;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, Bytes};
use http::{HeaderValue, Request, Version, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::Service as _;

use self::socket::Arrivals;
pub(super) use self::socket::Capped;
use self::socket::ObservedSocket;
use self::watchdog::Watchdog;
use super::activity::{Activity, Incomplete, Phase, Serving};
use super::body::PeerAddress;
use crate::server::limits::Limits;
use crate::server::metrics::Metrics;

/// The state of the server that connections follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerStage {
    /// Serve.
    #[default]
    Serving,
    /// Serve, and end each connection with its next answer.
    Draining,
    /// End idle connections; the rest after their answers.
    Closing,
}

/// A body that records when it is complete.
struct WatchedBody {
    body: Incoming,
    incomplete: Option<Incomplete>,
}

impl http_body::Body for WatchedBody {
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

/// The negotiated protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

/// What a connection needs besides its socket.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) router: Router,
    pub(super) limits: Arc<Limits>,
    pub(super) metrics: Metrics,
    pub(super) stages: watch::Receiver<ServerStage>,
    /// Whether a connection ends with its first answer.
    pub(super) once: bool,
}

/// Serves a connection to its end. Each of its requests carries its `source` as an extension.
pub(super) async fn serve<IO>(
    io: IO,
    protocol: Protocol,
    source: PeerAddress,
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
        // Only hyper finds the end of a chunked body, so nothing may follow it.
        let last = request.version() < Version::HTTP_2
            && (once || request.headers().contains_key(header::TRANSFER_ENCODING));
        let mut request = request.map(|body| {
            let incomplete = Some(incomplete).filter(|_| !http_body::Body::is_end_stream(&body));
            Body::new(WatchedBody { body, incomplete })
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
            let io =
                TokioIo::new(ObservedSocket::new(io, activity.clone(), metrics.clone(), limits.body_bytes));
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

enum ConnectionEvent {
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
    mut stages: watch::Receiver<ServerStage>,
) where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut connection = pin!(connection);
    let mut watchdog = Watchdog::new(limits.idle);
    if *stages.borrow() == ServerStage::Closing {
        stages.mark_changed();
    }
    loop {
        let event = tokio::select! {
            // The connection first: it changes the phase, which the watchdog then sees.
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(error = jobgate_cluster::chain(&error), "connection ended");
                }
                return;
            }
            phase = poll_fn(|cx| watchdog.poll(cx, activity, limits)) => ConnectionEvent::Overdue(phase),
            Ok(()) = stages.changed() => ConnectionEvent::Stage,
            () = activity.wake.notified() => ConnectionEvent::Evicted,
        };
        let end = match event {
            ConnectionEvent::Overdue(Phase::Idle) => {
                metrics.connection_closed("idle");
                true
            }
            ConnectionEvent::Overdue(phase) => {
                let cause = match phase {
                    Phase::Head => "header-timeout",
                    Phase::Writing => "write-timeout",
                    _ => "close-timeout",
                };
                metrics.connection_closed(cause);
                return;
            }
            ConnectionEvent::Evicted => {
                // Data that has arrived counts, even if the runtime has not seen it yet.
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
            ConnectionEvent::Stage => match (*stages.borrow_and_update(), protocol) {
                (ServerStage::Serving, _) | (ServerStage::Draining, Protocol::One) => false,
                // HTTP/2 has GOAWAY for this, with which no request that was sent is lost.
                (ServerStage::Draining | ServerStage::Closing, Protocol::Two) => true,
                (ServerStage::Closing, Protocol::One) => {
                    // A new connection is about to be used; a used one ends with its answer.
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
