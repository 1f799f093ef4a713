//! Accepts connections, admits or evicts them, and does TLS handshakes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use super::body::PeerAddress;
use super::connection::{self, Capped, Protocol, Surroundings};
use super::connections::{Guest, OpenConnections};
use super::fair_queue::FairQueue;

/// Pause of the listener when the system has no file descriptor left.
const EXHAUSTION_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of bytes that a client may send during its handshake: some 2 KiB are usual, and a chain of
/// client certificates adds a few.
const MAX_HANDSHAKE_BYTES: usize = 24 << 10;
/// Connections accepted before other tasks on the thread get their turn.
const ACCEPT_BATCH: usize = 32;

/// A listener and its connections.
pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    tls: Option<Tls>,
    guests: OpenConnections,
    around: Surroundings,
    pub(super) connections: JoinSet<()>,
}

impl Acceptor {
    pub(super) fn new(listener: TcpListener, tls: Option<Tls>, around: Surroundings) -> Self {
        let guests = OpenConnections::new(around.limits.connections, around.limits.connections_per_source);
        Self { listener, tls, guests, around, connections: JoinSet::new() }
    }

    /// Accepts connections. It can be dropped and called again without losing any.
    pub(super) async fn accept(&mut self) {
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
                        tokio::time::sleep(EXHAUSTION_PAUSE).await;
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

    /// Accepts the connections that the system has queued; closing the listener would cut them off.
    pub(super) fn accept_waiting(&mut self) {
        while let Some(Ok((stream, peer))) = self.listener.accept().now_or_never() {
            self.let_in(stream, peer);
        }
    }

    /// Admits a connection, or closes it. This never waits.
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

/// The shared state of handshakes.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    pub(super) turns: FairQueue,
}

impl Tls {
    /// Does the TLS handshake. Computing takes a turn; waiting for the client does not.
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
    let source = PeerAddress(peer.ip().to_canonical());
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
            // Load balancers probe the port by connecting and closing: not worth a log line
            // (cert-manager#4594).
            tracing::debug!(%peer, %error, "handshake failed");
            handshake_cause(&error)
        }
        Err(_) => "timeout",
    };
    around.metrics.handshake_error(cause);
}

/// Waits until a connection must make room.
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

/// Returns whether the system has run out of a resource that a pause may free.
fn is_exhaustion(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOMEM and ENOBUFS of Linux.
    matches!(error.raw_os_error(), Some(24 | 23 | 12 | 105))
}
