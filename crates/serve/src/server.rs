//! The HTTPS server of `jobgate serve`. It handles connections, certificates and deadlines; an
//! [`Application`] answers the reviews.
//!
//! ```text
//! accept ──> TLS ──> connection: clock of idle and header time ──> requests: cap, deadline, shedding ──> Application::review
//!   caps      certificate, hot                                                         second port: probe (health, readiness, metrics)
//! ```
//!
//! Two properties of the API server's client matter here. It counts a connection that ends during a request
//! as a failed webhook and does not retry; so connections outlive its own idle timeout, and a drain sends
//! `Connection: close` long before it closes anything. It does retry after a 429 with `Retry-After`; so
//! overload is answered and never cut off.

mod accept;
mod activity;
mod body;
pub mod certificate;
mod connection;
mod connections;
mod deferrals;
mod duration;
mod fair_queue;
mod framing;
mod limits;
pub mod log;
mod metered;
pub(crate) mod metrics;
mod names;
mod pool;
pub(crate) mod probe;
mod queue;
pub mod reload;
mod requests;
pub mod stop;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use accept::{Acceptor, Tls};
use certificate::{Authorities, Identity, Tokens};
use connection::{ServerStage, Surroundings};
use fair_queue::FairQueue;
use jobgate_core::admission::{Answer, Endpoint, Estimate, Fault};
pub use limits::Limits;
pub use metrics::Metrics;
pub use probe::Readiness;
pub use stop::Stop;

/// How long the API server waits by default (`timeoutSeconds` is 10 unless set).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look for reviews that were put off and not retried.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// How many connections the system may accept before we do; it has its own limit, too (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// One review to answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// The endpoint that it was posted to.
    pub endpoint: Endpoint,
    /// Whether the caller had to present a certificate or a token. If not, it can be anyone who reaches the
    /// port.
    pub authenticated: bool,
    /// The whole body.
    pub body: Bytes,
    /// When the answer is due, earlier than the timeout of the API server; after it, [`Application::fault`]
    /// answers.
    pub deadline: Instant,
}

/// The application that answers reviews.
pub trait Application: Send + Sync + 'static {
    /// Answers a review. It may wait as long as it needs. Its computation is counted by
    /// [`jobgate_core::text::meter::spend`], which stops it at the deadline; a review that takes many steps
    /// is started again on another thread.
    fn review(&self, call: Call) -> impl Future<Output = Answer> + Send;

    /// Answers a review whose body is larger than `limit` bytes, from its first bytes. If `None`, the server
    /// answers 413, a failed webhook for the API server: fail-open then admits any object padded to this
    /// size.
    fn too_large(&self, _prefix: &[u8], _limit: usize) -> Option<Answer> {
        None
    }

    /// Estimates the maximum number of bytes of memory that an answer to this body takes. It is called for
    /// every review, for bodies up to [`Limits::weighed_bytes`] on the connection's thread, so it must be
    /// quick.
    fn weight(&self, body: &[u8]) -> usize {
        self.estimate(body).weight
    }

    /// Estimates the cost of an answer to this body, and identifies the requester. It is called when a review
    /// has to wait or is put off, with its body or with the first part of a body that was not read to its
    /// end.
    fn estimate<'b>(&self, body: &'b [u8]) -> Estimate<'b> {
        Estimate { weight: body.len(), ..Estimate::default() }
    }

    /// Answers a review whose weight exceeds the limit for all reviews together. If `None`, the server
    /// answers 413. It may take long to compute.
    fn too_heavy(&self, _endpoint: Endpoint, _body: &[u8]) -> Option<Answer> {
        None
    }

    /// Answers a review that [`review`](Self::review) failed to answer. If `None`, the server answers 500, a
    /// failed webhook for the API server.
    fn fault(&self, _body: &[u8], _fault: Fault) -> Option<Answer> {
        None
    }
}

/// The addresses, the certificate, the accepted clients and the limits of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where reviews are served, over TLS.
    pub address: SocketAddr,
    /// Where health, readiness and metrics are served, in plain text.
    pub probe_address: SocketAddr,
    /// The certificate.
    pub identity: Arc<Identity>,
    /// The authorities of accepted client certificates; if `None`, clients need no certificate.
    pub clients: Option<Arc<Authorities>>,
    /// The accepted bearer tokens; if `None`, clients need no token. With `clients`, they need both.
    pub tokens: Option<Arc<Tokens>>,
    /// Whether to offer HTTP/2.
    pub http2: bool,
    /// Checks of `/readyz` in addition to the certificate and not being stopped.
    pub readiness: Readiness,
    /// The limits.
    pub limits: Limits,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
}

/// A server that listens but does not accept yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    probes: std::net::TcpListener,
    /// Where reviews are served; with the real port if port 0 was requested.
    pub address: SocketAddr,
    /// Where health, readiness and metrics are served.
    pub probe_address: SocketAddr,
    tls: Arc<ServerConfig>,
    config: Config,
    metrics: Metrics,
}

impl Server {
    /// Binds the two ports. From here on connections queue up, until [`run`](Self::run) accepts them.
    ///
    /// # Errors
    /// If a port cannot be bound, or TLS cannot be set up.
    pub async fn bind(config: Config, metrics: Metrics) -> Result<Self, ServeError> {
        let tls = certificate::tls(config.identity.clone(), config.clients.clone(), config.http2)
            .map_err(ServeError::Tls)?;
        let (listener, address) = bind(config.address)?;
        // Connections inherit the sizes. Set later, they would come after the window size is negotiated.
        let socket = SockRef::from(&listener);
        let sizes = socket
            .set_recv_buffer_size(config.limits.receive_buffer)
            .and_then(|()| socket.set_send_buffer_size(config.limits.send_buffer));
        sizes.map_err(|source| ServeError::Bind { address: config.address, source })?;
        let (probes, probe_address) = bind(config.probe_address)?;
        let probes =
            probes.into_std().map_err(|source| ServeError::Bind { address: probe_address, source })?;
        Ok(Self { listener, probes, address, probe_address, tls, config, metrics })
    }

    /// Serves until stopped, and returns when every request has been answered, or when the time for that is
    /// over.
    pub async fn run(self, app: impl Application, stop: watch::Receiver<Stop>) {
        let mut orders = StopOrders(stop.clone());
        tokio::select! {
            () = self.run_and_drain(app, stop) => {}
            () = orders.at_least(Stop::Now) => {}
        }
    }

    async fn run_and_drain(self, app: impl Application, stop: watch::Receiver<Stop>) {
        let Self { listener, probes, address, probe_address, tls, config, metrics } = self;
        let limits = Arc::new(config.limits);
        let (stage, stages) = watch::channel(ServerStage::Serving);
        let site = requests::Site::new(app, limits.clone(), metrics.clone(), config.tokens, stages.clone())
            .authenticated(config.clients.is_some());
        let put_off = site.put_off();
        let expiring = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EXPIRY_INTERVAL);
            loop {
                put_off.expire(ticks.tick().await.into_std());
            }
        });
        let _expiring = AbortOnDrop(expiring);
        let router = site.router();
        let around =
            Surroundings { router, limits: limits.clone(), metrics: metrics.clone(), stages, once: false };

        let readiness = config.readiness;
        let identity = config.identity;
        readiness.require("certificate", move || identity.ready().map_err(str::to_owned));
        let stopping = stop.clone();
        readiness.require("running", move || {
            if *stopping.borrow() == Stop::No { Ok(()) } else { Err("stopping".into()) }
        });
        let probes = match probe::Probes::start(probes, readiness, metrics) {
            Ok(probes) => probes,
            Err(error) => return tracing::error!(%error, "cannot answer probes"),
        };

        tracing::info!(%address, %probe_address, "serving");
        let tls = Tls { config: tls, turns: FairQueue::new(limits.handshakes) };
        let mut acceptor = Acceptor::new(listener, Some(tls), around);
        let mut orders = StopOrders(stop);
        tokio::select! {
            () = acceptor.accept() => {}
            () = orders.at_least(Stop::Drain) => {}
        }

        // Clients see a drain late: the endpoint has to be removed from every proxy first.
        stage.send_replace(ServerStage::Draining);
        tracing::info!(connections = acceptor.connections.len(), "draining: still accepting");
        let _ = tokio::time::timeout(limits.drain_accept, acceptor.accept()).await;
        stage.send_replace(ServerStage::Closing);
        acceptor.accept_waiting();
        let Acceptor { listener, mut connections, .. } = acceptor;
        drop(listener);
        tracing::info!(connections = connections.len(), "draining: no longer accepting");
        let finished =
            tokio::time::timeout(limits.drain, async { while connections.join_next().await.is_some() {} })
                .await;
        if finished.is_err() {
            tracing::warn!(connections = connections.len(), "connections cut off");
        }
        connections.shutdown().await;
        probes.stop().await;
        tracing::info!("stopped");
    }
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Otherwise a port could not be bound for a minute after its last server.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| ServeError::Bind { address, source })
}

/// Ends a task when dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the order to stop; forever if the sender is gone.
struct StopOrders(watch::Receiver<Stop>);

impl StopOrders {
    async fn at_least(&mut self, stop: Stop) {
        if self.0.wait_for(|order| *order >= stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
