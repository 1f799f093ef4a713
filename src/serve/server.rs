//! The HTTPS server of `jobgate serve`. It knows connections, certificates and deadlines, and nothing of a
//! rule or of what is in an AdmissionReview: what to answer, in the words of `admission`, is the business of
//! an [`Application`].
//!
//! ```text
//! accept ──> TLS ──> connection: clock of idle and header time ──> requests: cap, deadline, shedding ──> Application::review
//!   caps      certificate, hot                                                         second port: probe (health, readiness, metrics)
//! ```
//!
//! Two habits of the API server's client shape it. It takes a connection that ends under a request for a
//! failed webhook, and does not try again; so connections outlive its own idle time, and a drain says
//! `Connection: close` long before it closes anything. And it does try again after a 429 that carries
//! `Retry-After`; so overload is answered, never cut off.

mod activity;
mod body;
mod bounded;
pub mod certificate;
mod connection;
mod duration;
mod framing;
mod guests;
pub mod hot;
pub mod log;
pub mod metrics;
mod names;
mod pool;
pub mod probe;
mod requests;
pub mod stop;
mod turns;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::admission::{Answer, Endpoint, Fault};
use activity::Activity;
use body::Source;
use certificate::{Authorities, Identity, Tokens};
use connection::{Capped, Protocol, Stage, Surroundings};
use guests::{Guest, Guests};
pub use metrics::Metrics;
pub use probe::Readiness;
pub use stop::Stop;
use turns::Turns;

/// What the API server waits when it does not say (`timeoutSeconds` is 10 unless set).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to leave the listener alone when the system has no descriptor for another connection.
const EXHAUSTED: Duration = Duration::from_millis(50);
/// How many connections the system may accept for us before we look; it has a cap of its own
/// (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;
/// How many bytes a client may send before its handshake is over: some 2 KiB are usual, and a chain of client
/// certificates has a few more.
const MAX_HANDSHAKE_BYTES: usize = 24 << 10;
/// How many connections are accepted before others that share the thread have their turn.
const ACCEPT_BATCH: usize = 32;

/// One review to answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where it was posted.
    pub endpoint: Endpoint,
    /// Whether the caller had to show a certificate or a token. If not, it can be anybody who reaches the
    /// port.
    pub authenticated: bool,
    /// The whole body.
    pub body: Bytes,
    /// When the answer must be there. It is less than the API server waits; after it, [`Application::fault`]
    /// answers.
    pub deadline: Instant,
}

/// What is served.
pub trait Application: Send + Sync + 'static {
    /// Answers a review. It may wait as long as it likes. What it computes it counts with
    /// [`crate::text::meter::spend`], which ends it when its time is over; a review that takes many steps is
    /// begun again, on another thread.
    fn review(&self, call: Call) -> impl Future<Output = Answer> + Send;

    /// Answers a review whose body is larger than `limit` bytes, from the first bytes of it. With nothing,
    /// the server answers 413, which the API server takes for a failed webhook: fail-open then admits
    /// whatever was padded to this size.
    fn too_large(&self, _prefix: &[u8], _limit: usize) -> Option<Answer> {
        None
    }

    /// Returns about how many bytes of memory it takes at most to answer a review with this body. It is
    /// called for each, small bodies where they are read, and should take little time for them.
    fn weight(&self, body: &[u8]) -> usize {
        body.len()
    }

    /// Answers a review whose body is heavier than all reviews together may be. With nothing, the server
    /// answers 413. It is called where it may compute.
    fn too_heavy(&self, _endpoint: Endpoint, _body: &[u8]) -> Option<Answer> {
        None
    }

    /// Answers a review that [`review`](Self::review) did not. With nothing, the server answers 500, which
    /// the API server takes for a failed webhook.
    fn fault(&self, _body: &[u8], _fault: Fault) -> Option<Answer> {
        None
    }
}

/// Every number of the server. The reasons for the defaults are in the fields' descriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. When there are as many, one makes room for a new one: first one that has never given
    /// an answer of success, of the address that has most of those; of the others the one that has been idle
    /// longest, of the address that has most. 1024.
    pub connections: usize,
    /// Open connections from one address, so that one pod cannot take them all. 256.
    pub connections_per_source: usize,
    /// TLS handshakes computed at the same time. Each keeps a core busy, longer with an RSA key than with an
    /// ECDSA key; the other cores stay free for reviews, and addresses take turns. 1.
    pub handshakes: usize,
    /// Reviews evaluated at the same time. 64.
    pub in_flight: usize,
    /// Bodies above `inline_bytes` evaluated at the same time; each keeps a core busy for a while. 4.
    pub large_reviews: usize,
    /// Small bodies that take more than `inline_steps` evaluated at the same time. They take some
    /// milliseconds each, and large ones must not keep them waiting. 4.
    pub slow_reviews: usize,
    /// How long a review waits for its turn before it is shed. 500 ms.
    pub queue: Duration,
    /// How long a connection may wait for a request: longer than the 90 s after which the API server closes
    /// it. 150 s.
    pub idle: Duration,
    /// How long a TLS handshake may take. 5 s.
    pub handshake: Duration,
    /// How long headers may take from their first byte. 5 s.
    pub header: Duration,
    /// How many bytes of headers there may be. 16 KiB.
    pub header_bytes: usize,
    /// How many header fields there may be. 64.
    pub header_fields: usize,
    /// How much of what a client sends one connection buffers before it is looked at, in bytes. A TLS record
    /// is 16 KiB. 64 KiB.
    pub connection_buffer: usize,
    /// How much of what a client sends the system buffers for one connection, in bytes; it takes twice as
    /// much for it. The system counts it as the container's memory, and would let it grow to some MiB while
    /// nothing is read. 48 KiB: 24 MB/s over a millisecond.
    pub receive_buffer: usize,
    /// How much of the answers the system buffers for one connection until the client takes them, in bytes;
    /// as above. 16 KiB.
    pub send_buffer: usize,
    /// How long a body may go without progress (see `body_rate`). A busy API server may pause for some tenths
    /// of a second. In any case a body ends with the deadline of its review, after which nobody waits for the
    /// answer. 1 s.
    pub body_grace: Duration,
    /// What counts as progress of a body, in bytes a second: each byte buys the time it takes at this rate,
    /// and no
    /// more than `body_grace` can be saved up. An API server sends a hundred times as fast. 64 KiB/s.
    pub body_rate: usize,
    /// How many bytes there must be to each piece (HTTP chunk, frame or TLS record) of a body, beyond the
    /// first 1024 pieces: a piece of one byte costs as much time as one of a thousand. 64 bytes.
    pub body_piece: usize,
    /// How large a body may be. An object of 3 MiB and its old version can take 27 MiB of escaped JSON. 32
    /// MiB.
    pub body_bytes: usize,
    /// How much memory bodies above `inline_bytes` may take together, in bytes of their buffers. Smaller ones
    /// have memory of their own ([`small_body_memory`](Self::small_body_memory)). 128 MiB: two of the largest
    /// while their buffers grow.
    pub body_memory: usize,
    /// How much of `body_memory` one address may take. 64 MiB: one of the largest while its buffer grows from
    /// 16 to 32 MiB, or ten of an update of 3 MiB, more than are evaluated at the same time. Whoever is below
    /// it and finds the memory taken gets it from whoever has most, so that any number of others cannot keep
    /// it.
    pub body_memory_per_source: usize,
    /// How much memory the evaluation of bodies above `inline_bytes` may take together, in bytes by
    /// [`Application::weight`]; one that would take more by itself is refused. 192 MiB: a new object of 3
    /// MiB, as large as the API server takes, in the most costly shape, or an update of one of 1.5 MiB, as
    /// large as etcd takes.
    pub evaluation_memory: usize,
    /// How much memory the evaluation of bodies up to `inline_bytes` may take together, by
    /// [`Application::weight`]. 64 MiB: `in_flight` of ordinary size, or eighteen of the largest in the most
    /// costly shape.
    pub small_evaluation_memory: usize,
    /// Bodies up to this size are evaluated where they are read, if that takes no more than `inline_steps`.
    /// 64 KiB.
    pub inline_bytes: usize,
    /// Steps of [`crate::text::meter`] after which an evaluation is taken from the threads that serve
    /// connections, and done again on one of its own: under a millisecond. A step takes up to 100 ns; an
    /// ordinary review takes some 500 steps. 4,000.
    pub inline_steps: u64,
    /// How long an answer may take at most, however long the API server would wait. 2.5 s.
    pub review: Duration,
    /// How much sooner than that, or than the API server gives up, we answer; never more than a quarter of
    /// it. 200 ms.
    pub margin: Duration,
    /// How long the client may take to accept bytes of an answer. 10 s.
    pub write: Duration,
    /// How long a connection may take to say goodbye. 5 s.
    pub close: Duration,
    /// Time between TCP keep-alive probes (and HTTP/2 pings). 15 s.
    pub keep_alive: Duration,
    /// How long to go on accepting after being told to stop, until no client comes any more. 10 s.
    pub drain_accept: Duration,
    /// How long to wait then for requests to be answered. 20 s.
    pub drain: Duration,
    /// How long a connection without any request yet may take to send one, once the listener is closed. 2 s.
    pub first_request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_source: 256,
            handshakes: 1,
            in_flight: 64,
            large_reviews: 4,
            slow_reviews: 4,
            queue: Duration::from_millis(500),
            idle: Duration::from_secs(150),
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            header_bytes: 16 << 10,
            header_fields: 64,
            connection_buffer: 64 << 10,
            receive_buffer: 48 << 10,
            send_buffer: 16 << 10,
            body_grace: Duration::from_secs(1),
            body_rate: 64 << 10,
            body_piece: 64,
            body_bytes: 32 << 20,
            body_memory: 128 << 20,
            body_memory_per_source: 64 << 20,
            evaluation_memory: 192 << 20,
            small_evaluation_memory: 64 << 20,
            inline_bytes: 64 << 10,
            inline_steps: 4_000,
            review: Duration::from_millis(2500),
            margin: Duration::from_millis(200),
            write: Duration::from_secs(10),
            close: Duration::from_secs(5),
            keep_alive: Duration::from_secs(15),
            drain_accept: Duration::from_secs(10),
            drain: Duration::from_secs(20),
            first_request: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// Memory of a process that does nothing yet, with its certificate, policy and the claims of a large
    /// cluster, in bytes. Some 12 MiB without claims, 18 MiB for 5,000 of them.
    const PROCESS: usize = 48 << 20;
    /// Memory of a connection besides the bodies that it carries, in bytes: TLS, headers, and the answer on
    /// its way.
    const CONNECTION: usize = 64 << 10;

    /// Returns how much memory bodies up to `inline_bytes` may take together: one on each connection.
    #[must_use]
    pub const fn small_body_memory(&self) -> usize {
        self.connections * self.inline_bytes
    }

    /// Returns the most memory that a process with these limits takes, in bytes. The memory limit of the
    /// container must be above it.
    ///
    /// | | |
    /// |---|---|
    /// | the process itself, with policy, certificate and claims | 48 MiB |
    /// | connections: 1,024 of 64 KiB | 64 MiB |
    /// | buffers of the system for them: 1,024 of twice 48 KiB and twice 16 KiB | 128 MiB |
    /// | small bodies: one of 64 KiB on each connection | 64 MiB |
    /// | large bodies | 128 MiB |
    /// | evaluation of small bodies | 64 MiB |
    /// | evaluation of large bodies | 192 MiB |
    /// | what the allocator rounds up, or has yet to give back: an eighth of connections, bodies and evaluation | 64 MiB |
    /// | together | 752 MiB |
    #[must_use]
    pub const fn memory_ceiling(&self) -> usize {
        let system = self.connections * 2 * (self.receive_buffer + self.send_buffer);
        let connections = self.connections * Self::CONNECTION;
        let bodies = self.small_body_memory() + self.body_memory;
        let evaluation = self.small_evaluation_memory + self.evaluation_memory;
        let bounded = connections + bodies + evaluation;
        Self::PROCESS + system + bounded + bounded / 8
    }
}

/// Where and as whom to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where reviews are served, over TLS.
    pub address: SocketAddr,
    /// Where health, readiness and metrics are served, in plain text.
    pub probe_address: SocketAddr,
    /// The certificate.
    pub identity: Arc<Identity>,
    /// Whose client certificates are let in; without it, a client needs none.
    pub clients: Option<Arc<Authorities>>,
    /// Which bearer tokens are let in; without it, a client needs none. With `clients` too, it needs both.
    pub tokens: Option<Arc<Tokens>>,
    /// Whether to offer HTTP/2.
    pub http2: bool,
    /// What must hold for `/readyz`, besides a certificate and not being told to stop.
    pub readiness: Readiness,
    /// The numbers.
    pub limits: Limits,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
}

/// A server that listens, and does not accept yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    probes: std::net::TcpListener,
    /// Where reviews are served; with the real port if port 0 was asked for.
    pub address: SocketAddr,
    /// Where health, readiness and metrics are served.
    pub probe_address: SocketAddr,
    tls: Arc<ServerConfig>,
    config: Config,
    metrics: Metrics,
}

/// Binds and runs a server.
///
/// # Errors
/// If it cannot start.
pub async fn serve(
    app: impl Application,
    config: Config,
    metrics: Metrics,
    stop: watch::Receiver<Stop>,
) -> Result<(), ServeError> {
    Server::bind(config, metrics).await?.run(app, stop).await;
    Ok(())
}

impl Server {
    /// Takes the two ports. From here on connections queue up; they are accepted by [`run`](Self::run).
    ///
    /// # Errors
    /// If a port cannot be had, or TLS cannot be set up.
    pub async fn bind(config: Config, metrics: Metrics) -> Result<Self, ServeError> {
        let tls = certificate::tls(config.identity.clone(), config.clients.clone(), config.http2)
            .map_err(ServeError::Tls)?;
        let (listener, address) = bind(config.address)?;
        // Connections inherit it. Set later, it would come after the size of the window has been agreed on.
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

    /// Serves until told to stop, and returns when every request that came has been answered, or when there
    /// is no more time for it.
    pub async fn run(self, app: impl Application, stop: watch::Receiver<Stop>) {
        let mut orders = Orders(stop.clone());
        tokio::select! {
            () = self.run_and_drain(app, stop) => {}
            () = orders.at_least(Stop::Now) => {}
        }
    }

    async fn run_and_drain(self, app: impl Application, stop: watch::Receiver<Stop>) {
        let Self { listener, probes, address, probe_address, tls, config, metrics } = self;
        let limits = Arc::new(config.limits);
        let (stage, stages) = watch::channel(Stage::Serving);
        let site = requests::Site::new(app, limits.clone(), metrics.clone(), config.tokens, stages.clone())
            .authenticated(config.clients.is_some());
        let router = site.router();
        let around =
            Surroundings { router, limits: limits.clone(), metrics: metrics.clone(), stages, once: false };

        let readiness = config.readiness;
        let identity = config.identity;
        readiness.require("certificate", move || identity.ready().map_err(str::to_owned));
        let told = stop.clone();
        readiness.require("running", move || {
            if *told.borrow() == Stop::No { Ok(()) } else { Err("stopping".into()) }
        });
        let probes = match probe::Probes::start(probes, readiness, metrics) {
            Ok(probes) => probes,
            Err(error) => return tracing::error!(%error, "cannot answer probes"),
        };

        tracing::info!(%address, %probe_address, "serving");
        let tls = Tls { config: tls, turns: Turns::new(limits.handshakes) };
        let mut door = Door::new(listener, Some(tls), around);
        let mut orders = Orders(stop);
        tokio::select! {
            () = door.accept() => {}
            () = orders.at_least(Stop::Drain) => {}
        }

        // Clients learn of a drain late: the endpoint has to be taken out of every proxy first.
        stage.send_replace(Stage::Draining);
        tracing::info!(connections = door.connections.len(), "draining: still accepting");
        let _ = tokio::time::timeout(limits.drain_accept, door.accept()).await;
        stage.send_replace(Stage::Closing);
        door.accept_waiting();
        let Door { listener, mut connections, .. } = door;
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
        // Otherwise a port could not be had again for a minute after its last server.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| ServeError::Bind { address, source })
}

/// Waits for the order to stop. Where nobody is left to give it, it never comes.
struct Orders(watch::Receiver<Stop>);

impl Orders {
    async fn at_least(&mut self, stop: Stop) {
        if self.0.wait_for(|told| *told >= stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A listener and the connections that came through it.
struct Door {
    listener: TcpListener,
    tls: Option<Tls>,
    guests: Guests,
    around: Surroundings,
    connections: JoinSet<()>,
}

impl Door {
    fn new(listener: TcpListener, tls: Option<Tls>, around: Surroundings) -> Self {
        let guests = Guests::new(around.limits.connections, around.limits.connections_per_source);
        Self { listener, tls, guests, around, connections: JoinSet::new() }
    }

    /// Accepts connections. Nothing is lost when this is dropped and called again.
    async fn accept(&mut self) {
        let mut batch = 0;
        loop {
            tokio::select! {
                biased;
                Some(_) = self.connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        self.let_in(stream, peer);
                        batch += 1;
                    }
                    Err(error) if is_exhaustion(&error) => {
                        self.around.metrics.connection_refused("no-descriptors");
                        tracing::warn!(%error, "cannot accept");
                        self.guests.thin_out();
                        tokio::time::sleep(EXHAUSTED).await;
                    }
                    // The client of a queued connection has gone away.
                    Err(error) => tracing::debug!(%error, "cannot accept"),
                },
            }
            if batch == ACCEPT_BATCH {
                batch = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes in what the system has accepted for us already; closing the listener would cut it off.
    fn accept_waiting(&mut self) {
        while let Some(Ok((stream, peer))) = self.listener.accept().now_or_never() {
            self.let_in(stream, peer);
        }
    }

    /// Gives a connection a place, or closes it. This never waits: those behind it may be worth more.
    fn let_in(&mut self, stream: TcpStream, peer: SocketAddr) {
        match self.guests.admit(peer.ip()) {
            Ok(guest) => self.start(stream, peer, guest),
            Err(refusal) => {
                self.around.metrics.connection_refused(refusal.as_str());
                tracing::debug!(%peer, cause = refusal.as_str(), "connection refused");
            }
        }
    }

    fn start(&mut self, stream: TcpStream, peer: SocketAddr, guest: Guest) {
        let around = self.around.clone();
        let tls = self.tls.clone();
        self.connections.spawn(async move {
            let open = around.metrics.begin_connection();
            attend(stream, peer, tls, guest.activity.clone(), around).await;
            drop((open, guest));
        });
    }
}

/// What handshakes need.
#[derive(Clone)]
struct Tls {
    config: Arc<ServerConfig>,
    turns: Turns,
}

impl Tls {
    /// Agrees with the client on keys. To compute them takes a turn; to wait for the client does not.
    async fn agree(self, stream: TcpStream, activity: &Activity) -> io::Result<TlsStream<Capped>> {
        let stream = Capped::new(stream, MAX_HANDSHAKE_BYTES);
        let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        let turn = self.turns.take(activity.source).await;
        let rest = start.into_stream(self.config);
        drop(turn);
        let mut stream = rest.await?;
        stream.get_mut().0.release();
        Ok(stream)
    }
}

async fn attend(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Tls>,
    activity: Arc<Activity>,
    around: Surroundings,
) {
    let limits = &around.limits;
    let keep_alive =
        TcpKeepalive::new().with_time(limits.keep_alive).with_interval(limits.keep_alive).with_retries(3);
    if let Err(error) =
        stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keep_alive))
    {
        tracing::debug!(%peer, %error, "socket options");
    }
    let source = Source(peer.ip().to_canonical());
    let Some(tls) = tls else {
        return connection::serve(stream, Protocol::One, source, activity, around).await;
    };
    let agreed = tokio::select! {
        biased;
        agreed = tokio::time::timeout(limits.handshake, tls.agree(stream, &activity)) => agreed,
        () = evicted(&activity) => return around.metrics.connection_closed("evicted"),
    };
    let cause = match agreed {
        Ok(Ok(stream)) => {
            let protocol =
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") { Protocol::Two } else { Protocol::One };
            return connection::serve(stream, protocol, source, activity, around).await;
        }
        Ok(Err(error)) => {
            // Load balancers probe the port by connecting and leaving: not worth a line (cert-manager#4594).
            tracing::debug!(%peer, %error, "handshake failed");
            handshake_cause(&error)
        }
        Err(_) => "timeout",
    };
    around.metrics.handshake_error(cause);
}

/// Waits until a connection has to make room.
async fn evicted(activity: &Activity) {
    loop {
        activity.wake.notified().await;
        if activity.gives_way() {
            return;
        }
    }
}

fn handshake_cause(error: &io::Error) -> &'static str {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return "disconnected";
    };
    match tls {
        rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_) => "client-certificate",
        rustls::Error::AlertReceived(_) => "alert",
        rustls::Error::PeerIncompatible(_) => "incompatible",
        rustls::Error::General(_) => "no-certificate",
        _ => "invalid",
    }
}

/// Tells whether the system has run out of something that a pause may bring back.
fn is_exhaustion(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOMEM and ENOBUFS of Linux.
    matches!(error.raw_os_error(), Some(24 | 23 | 12 | 105))
}
