//! A client that keeps connections as the API server's does (Go's `net/http` below client-go).
//!
//! A request takes the connection that was used last; without one it dials, and goes over whichever is there
//! first: the new one, or one that another request has given back. A request that was written on a connection
//! that then breaks is not tried again, because a POST may have had an effect; one that was not written at
//! all is. An answer of 429 or 5xx with `Retry-After` is waited for and tried again, within the time of the
//! call.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::server::NAME;

/// What client-go keeps for one host (`MaxIdleConnsPerHost`).
pub(crate) const IDLE_CONNECTIONS: usize = 25;
/// After this an idle connection is closed (Go's `IdleConnTimeout`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often client-go tries again at most.
const MAX_RETRIES: u32 = 10;

/// What came back, after the retries.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
    /// How many answers before it asked to try again.
    pub(crate) retries: u32,
}

/// Connections from one address to the server.
pub(crate) struct Client {
    address: SocketAddr,
    source: IpAddr,
    tls: TlsConnector,
    idle: RefCell<Vec<Connection>>,
    waiting: RefCell<VecDeque<Waiter>>,
    next_waiter: Cell<u64>,
    /// How many connections it has made.
    pub(crate) dialed: Cell<u64>,
}

struct Waiter {
    id: u64,
    give: oneshot::Sender<Result<Connection, String>>,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    idle_since: Instant,
}

#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why one exchange came to nothing.
enum Broken {
    /// Nothing of the request was sent.
    Unsent,
    Sent(String),
}

impl Client {
    pub(crate) fn new(address: SocketAddr, source: Ipv4Addr, tls: TlsConnector) -> Rc<Self> {
        Rc::new(Self {
            address,
            source: source.into(),
            tls,
            idle: RefCell::default(),
            waiting: RefCell::default(),
            next_waiter: Cell::default(),
            dialed: Cell::default(),
        })
    }

    /// Posts a body and returns the answer.
    ///
    /// # Errors
    /// If there is none within the time: what happened.
    pub(crate) async fn post(
        self: &Rc<Self>,
        path: &'static str,
        body: Bytes,
        within: Duration,
    ) -> Result<Reply, String> {
        let stage = Cell::new("waits for a connection");
        let retries = Cell::new(0);
        match timeout(within, self.post_with_retries(path, body, &stage, &retries)).await {
            Ok(result) => result,
            Err(_) if retries.get() > 0 => {
                Err(format!("timeout: {}, after being put off {} times", stage.get(), retries.get()))
            }
            Err(_) => Err(format!("timeout: {}", stage.get())),
        }
    }

    async fn post_with_retries(
        self: &Rc<Self>,
        path: &'static str,
        body: Bytes,
        stage: &Cell<&'static str>,
        retries: &Cell<u32>,
    ) -> Result<Reply, String> {
        loop {
            stage.set("waits for a connection");
            let mut connection = self.connection().await?;
            stage.set("waits for the answer");
            let (status, retry_after, body) = match exchange(&mut connection.sender, path, body.clone()).await
            {
                Ok(answer) => answer,
                Err(Broken::Unsent) => continue,
                Err(Broken::Sent(error)) => return Err(error),
            };
            self.give_back(connection);
            match retry_after {
                Some(wait) if (status == 429 || status >= 500) && retries.get() < MAX_RETRIES => {
                    retries.set(retries.get() + 1);
                    stage.set("put off");
                    sleep(wait).await;
                }
                _ => return Ok(Reply { status, body, retries: retries.get() }),
            }
        }
    }

    /// Returns an idle connection, or the first that is made or given back.
    async fn connection(self: &Rc<Self>) -> Result<Connection, String> {
        loop {
            let Some(connection) = self.idle.borrow_mut().pop() else { break };
            if connection.sender.is_ready() && connection.idle_since.elapsed() < IDLE_TIMEOUT {
                return Ok(connection);
            }
        }
        let (give, got) = oneshot::channel();
        let id = self.next_waiter.replace(self.next_waiter.get() + 1);
        self.waiting.borrow_mut().push_back(Waiter { id, give });
        let client = Rc::clone(self);
        spawn_local(async move {
            let dialed = timeout(DIAL_TIMEOUT, client.dial())
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let waiter = {
                let mut waiting = client.waiting.borrow_mut();
                let place = waiting.iter().position(|waiter| waiter.id == id);
                place.and_then(|place| waiting.remove(place))
            };
            match (dialed, waiter) {
                (Ok(connection), None) => client.keep(connection),
                (Ok(connection), Some(waiter)) => {
                    if let Err(Ok(connection)) = waiter.give.send(Ok(connection)) {
                        client.keep(connection);
                    }
                }
                (Err(error), waiter) => {
                    waiter.map(|waiter| waiter.give.send(Err(format!("connect: {error}"))));
                }
            }
        });
        got.await.unwrap_or_else(|_| Err("connect: given up".to_owned()))
    }

    async fn dial(&self) -> io::Result<Connection> {
        self.dialed.set(self.dialed.get() + 1);
        let stream = connect_tls(self.source, self.address, &self.tls).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let driver = Driver(spawn_local(async move { drop(connection.await) }));
        Ok(Connection { sender, driver, idle_since: Instant::now() })
    }

    /// Takes a connection back when it is ready for another request.
    fn give_back(self: &Rc<Self>, mut connection: Connection) {
        let client = Rc::clone(self);
        spawn_local(async move {
            if connection.sender.ready().await.is_ok() {
                client.keep(connection);
            }
        });
    }

    fn keep(&self, mut connection: Connection) {
        connection.idle_since = Instant::now();
        while let Some(waiter) = self.next_in_line() {
            match waiter.give.send(Ok(connection)) {
                Ok(()) => return,
                Err(Ok(back)) => connection = back,
                Err(Err(_)) => return,
            }
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_CONNECTIONS && !connection.driver.0.is_finished() {
            idle.push(connection);
        }
    }

    fn next_in_line(&self) -> Option<Waiter> {
        self.waiting.borrow_mut().pop_front()
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &str,
    body: Bytes,
) -> Result<(u16, Option<Duration>, Bytes), Broken> {
    let request = Request::post(path)
        .header(header::HOST, format!("{NAME}:443"))
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_LENGTH, body.len())
        .body(Full::new(body))
        .map_err(|e| Broken::Sent(e.to_string()))?;
    let answer = match sender.try_send_request(request).await {
        Ok(answer) => answer,
        Err(mut error) => {
            return Err(match error.take_message() {
                Some(_) => Broken::Unsent,
                None => Broken::Sent(format!("broken: {}", chain(error.error()))),
            });
        }
    };
    let status = answer.status().as_u16();
    let retry_after =
        answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = answer
        .into_body()
        .collect()
        .await
        .map_err(|error| Broken::Sent(format!("broken in the answer: {}", chain(&error))))?;
    Ok((status, retry_after.map(Duration::from_secs), body.to_bytes()))
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// Connects from an address of this machine.
pub(crate) async fn connect(source: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects from an address of this machine, and completes the TLS handshake.
pub(crate) async fn connect_tls(
    source: IpAddr,
    to: SocketAddr,
    tls: &TlsConnector,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    tls.connect(name, connect(source, to).await?).await
}
