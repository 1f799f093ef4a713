//! Clients that want the gate to be slow for others: pods with a few addresses, and users who may create
//! objects.
//!
//! Each attack is bounded in connections, in rate and, by its caller, in time. A connection that the server
//! ends is made again, at a bounded rate.

mod objects;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use crate::client::{Client, connect, connect_tls};
use crate::reviews;
use crate::schedule::REVIEW_TIMEOUT;
use crate::server::{NAME, Target};

/// One way to attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Whether it is left out of the gate, where another attack is much the same.
    pub(crate) full_only: bool,
    start: fn(&Rc<Field>),
}

const fn gate(name: &'static str, start: fn(&Rc<Field>)) -> Attack {
    Attack { name, full_only: false, start }
}

const fn full(name: &'static str, start: fn(&Rc<Field>)) -> Attack {
    Attack { name, full_only: true, start }
}

/// All of them, in the order of the table.
pub(crate) const ATTACKS: &[Attack] = &[
    gate("bodies of 32 MiB without their last byte", |field| field.crowd(4, 1, 20, unfinished_body)),
    full("bodies of 32 MiB, declared and not sent", |field| field.crowd(16, 1, 20, declared_body)),
    gate("chunked bodies without end", |field| field.crowd(4, 1, 20, endless_body)),
    full("slow headers from 1 address", |field| field.crowd(field.scaled(1200), 1, RECONNECTS, slow_header)),
    gate("slow headers from 6 addresses", |field| {
        field.crowd(field.scaled(1200), 6, RECONNECTS, slow_header);
    }),
    full("slow bodies from 1 address", |field| field.crowd(field.scaled(1200), 1, RECONNECTS, slow_body)),
    gate("slow bodies from 6 addresses", |field| field.crowd(field.scaled(1200), 6, RECONNECTS, slow_body)),
    gate("idle TCP connections from 40 addresses", |field| {
        field.crowd(field.scaled(10_000), 40, 4000, idle_tcp);
    }),
    gate("idle TLS connections from 6 addresses", |field| {
        field.crowd(field.scaled(1300), 6, RECONNECTS, idle_tls);
    }),
    full("handshakes from 1 address, 1,200/s", |field| handshakes(field, 1)),
    gate("handshakes from 6 addresses, 1,200/s", |field| handshakes(field, 6)),
    full("probe port: 1 byte each from 1 address", |field| field.crowd(300, 1, RECONNECTS, probe_byte)),
    gate("probe port: 1 byte each from 6 addresses", |field| field.crowd(300, 6, RECONNECTS, probe_byte)),
    gate("probe port: half heads from 40 addresses", |field| {
        field.crowd(300, 40, RECONNECTS, probe_half_head);
    }),
    gate("probe port: GET /metrics from 6 addresses, 200/s", |field| field.flood(200, 6, probe_metrics)),
    gate("malformed bodies from 6 addresses, 300/s", malformed),
    gate("PyTorchJobs of 5 KB (8 to 16 replica types), 10/s", |field| {
        costly(field, 10.0, objects::py_torch_jobs);
    }),
    gate("annotations of 2.8 MB with distinct names, 1/s", |field| {
        costly(field, 1.0, objects::distinct_names);
    }),
    gate("annotations of 2.8 MB with one name repeated, 1/s", |field| {
        costly(field, 1.0, objects::repeated_names);
    }),
    gate("updates of 1.3 MB with 2,600 templates, 1/s", |field| {
        costly(field, 1.0, objects::updated_templates);
    }),
    gate("20,000 replica types with a restartPolicy in the template, 1/s", |field| {
        costly(field, 1.0, objects::replica_types);
    }),
    gate("50,000 tolerations, 1/s", |field| costly(field, 1.0, objects::tolerations)),
    gate("4,000 mounts, volumes and variables, 1/s", |field| costly(field, 1.0, objects::mounts)),
];

/// How many connections a second are made again after the server has ended them.
const RECONNECTS: u32 = 400;
/// Descriptors that this process keeps for everything but an attack.
const DESCRIPTORS_KEPT: usize = 500;
/// How large a body the server takes; what it keeps of it in memory is the attack.
const LARGE_BODY: usize = 32 << 20;
/// The first address of attackers; an API server and the kubelet are 127.0.0.1.
const FIRST_SOURCE: u8 = 2;

/// Where an attack takes place, and what came of it.
pub(crate) struct Field {
    pub(crate) server: SocketAddr,
    pub(crate) probe: SocketAddr,
    pub(crate) tls: TlsConnector,
    /// The server has only this part of its places, and so there are fewer attackers to take them.
    scale: usize,
    /// Events by name.
    pub(crate) counts: RefCell<BTreeMap<&'static str, u64>>,
    /// The slowest right answer to a costly object.
    slowest: Cell<Duration>,
}

/// Runs an attack until `stop` is sent, and returns what came of it in words.
pub(crate) fn run(attack: &Attack, target: Target, stop: oneshot::Receiver<()>) -> String {
    lower_priority();
    let Target { address: server, probe, tls, scale } = target;
    let field =
        Rc::new(Field { server, probe, tls, scale, counts: RefCell::default(), slowest: Cell::default() });
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        (attack.start)(&field);
        let _ = stop.await;
    });
    // What is still open ends here.
    drop(local);
    let mut words: Vec<String> =
        field.counts.borrow().iter().map(|(event, count)| format!("{count} {event}")).collect();
    if !field.slowest.get().is_zero() {
        words.push(format!("slowest {} ms", field.slowest.get().as_millis()));
    }
    words.join(", ")
}

/// An attacker is another machine: what it computes must not be taken from the server's processors. So its
/// thread runs when the others do not, as far as the system lets it.
pub(crate) fn lower_priority() {
    let Ok(thread) = fs::read_link("/proc/thread-self") else { return };
    let Some(id) = thread.file_name() else { return };
    let _ = Command::new("renice")
        .args(["-n", "15", "-p"])
        .arg(id)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

impl Field {
    fn count(&self, event: &'static str) {
        *self.counts.borrow_mut().entry(event).or_default() += 1;
    }

    fn scaled(&self, clients: usize) -> usize {
        clients / self.scale
    }

    /// Keeps so many clients busy, spread over addresses, each of which begins again when the server has
    /// ended it.
    fn crowd<F>(
        self: &Rc<Self>,
        clients: usize,
        sources: u8,
        connects_per_second: u32,
        act: impl Fn(Rc<Self>, IpAddr) -> F + Copy + 'static,
    ) where
        F: Future<Output = io::Result<()>> + 'static,
    {
        let most = descriptors().saturating_sub(DESCRIPTORS_KEPT);
        let shown = if clients > most { "clients (too few descriptors for more)" } else { "clients" };
        let clients = clients.min(most);
        self.counts.borrow_mut().insert(shown, clients as u64);
        let next = Rc::new(Cell::new(Instant::now()));
        for client in 0..clients {
            let (field, next, source) = (Rc::clone(self), Rc::clone(&next), source(client, sources));
            spawn_local(async move {
                loop {
                    let turn = next.get().max(Instant::now());
                    next.set(turn + Duration::from_secs(1) / connects_per_second);
                    sleep_until(turn.into()).await;
                    let _ = act(Rc::clone(&field), source).await;
                    field.count("connections ended");
                }
            });
        }
    }

    /// Begins something so many times a second, from addresses in turn.
    fn flood<F>(self: &Rc<Self>, per_second: u32, sources: u8, act: impl Fn(Rc<Self>, IpAddr) -> F + 'static)
    where
        F: Future<Output = io::Result<()>> + 'static,
    {
        const PATIENCE: Duration = Duration::from_secs(5);
        let field = Rc::clone(self);
        spawn_local(async move {
            let mut ticks = interval(Duration::from_secs(1) / per_second);
            // What this thread has no time for is left out, not made up for.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for number in 0.. {
                ticks.tick().await;
                let (field, act) = (Rc::clone(&field), act(Rc::clone(&field), source(number, sources)));
                spawn_local(async move {
                    field.count(match timeout(PATIENCE, act).await {
                        Ok(Ok(())) => "done",
                        Ok(Err(_)) => "cut off",
                        Err(_) => "given up",
                    });
                });
            }
        });
    }
}

fn source(number: usize, sources: u8) -> IpAddr {
    let last = FIRST_SOURCE + u8::try_from(number % usize::from(sources)).unwrap_or_default();
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Returns how many files this process may have open.
fn descriptors() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    limit.unwrap_or(1024)
}

// ------------------------------------------------------------------------------------------- connections

async fn until_end(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Sends a byte a second until the server says something or closes.
async fn drip(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => return read.map(drop),
            () = sleep(Duration::from_secs(1)) => {
                stream.write_all(b"a").await?;
                stream.flush().await?;
            }
        }
    }
}

async fn idle_tcp(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    until_end(&mut connect(source, field.server).await?).await
}

async fn idle_tls(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    until_end(&mut connect_tls(source, field.server, &field.tls).await?).await
}

async fn slow_header(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect_tls(source, field.server, &field.tls).await?;
    stream.write_all(format!("POST /validate HTTP/1.1\r\nHost: {NAME}\r\nX-Slow: ").as_bytes()).await?;
    drip(&mut stream).await
}

async fn slow_body(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect_tls(source, field.server, &field.tls).await?;
    stream.write_all(head("Content-Length: 4096").as_bytes()).await?;
    drip(&mut stream).await
}

async fn declared_body(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect_tls(source, field.server, &field.tls).await?;
    stream.write_all(head(&format!("Content-Length: {LARGE_BODY}")).as_bytes()).await?;
    until_end(&mut stream).await
}

async fn unfinished_body(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect_tls(source, field.server, &field.tls).await?;
    stream.write_all(head(&format!("Content-Length: {LARGE_BODY}")).as_bytes()).await?;
    let mut left = LARGE_BODY - 1;
    while left > 0 {
        let part = left.min(PART.len());
        stream.write_all(&PART[..part]).await?;
        left -= part;
    }
    stream.flush().await?;
    until_end(&mut stream).await
}

async fn endless_body(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect_tls(source, field.server, &field.tls).await?;
    stream.write_all(head("Transfer-Encoding: chunked").as_bytes()).await?;
    let chunk = [format!("{:x}\r\n", PART.len()).as_bytes(), PART, b"\r\n"].concat();
    loop {
        stream.write_all(&chunk).await?;
        // 32 MiB take about a second.
        sleep(Duration::from_millis(2)).await;
    }
}

static PART: &[u8] = &[b' '; 64 << 10];

fn head(length: &str) -> String {
    format!(
        "POST /validate?timeout=30s HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    )
}

/// Of six handshakes one is completed, two and a half end after the ClientHello, and the rest are not TLS.
fn handshakes(field: &Rc<Field>, sources: u8) {
    let hello = client_hello(&field.tls);
    field.flood(200, sources, |field, source| async move {
        connect_tls(source, field.server, &field.tls).await.map(drop)
    });
    field.flood(500, sources, move |field, source| {
        let hello = Rc::clone(&hello);
        async move { connect(source, field.server).await?.write_all(&hello).await }
    });
    field.flood(500, sources, |field, source| async move {
        let mut stream = connect(source, field.server).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: not-tls\r\n\r\n").await?;
        until_end(&mut stream).await
    });
}

fn client_hello(tls: &TlsConnector) -> Rc<[u8]> {
    let name = ServerName::try_from(NAME).expect("a name");
    let mut connection = ClientConnection::new(tls.config().clone(), name).expect("a client");
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).expect("room in memory");
    hello.into()
}

async fn probe_byte(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect(source, field.probe).await?;
    stream.write_all(b"G").await?;
    until_end(&mut stream).await
}

async fn probe_half_head(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect(source, field.probe).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nX-Half: ").await?;
    until_end(&mut stream).await
}

async fn probe_metrics(field: Rc<Field>, source: IpAddr) -> io::Result<()> {
    let mut stream = connect(source, field.probe).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
    until_end(&mut stream).await
}

// ------------------------------------------------------------------------------------------------ bodies

/// Posts what is not a review, over connections that are kept.
fn malformed(field: &Rc<Field>) {
    const SOURCES: u8 = 6;
    let clients: Vec<Rc<Client>> = (0..SOURCES)
        .map(|number| {
            Client::new(field.server, Ipv4Addr::new(127, 0, 0, FIRST_SOURCE + number), field.tls.clone())
        })
        .collect();
    let bodies = objects::malformed();
    let number = Cell::new(0_usize);
    field.flood(300, SOURCES, move |field, source| {
        let number = number.replace(number.get() + 1);
        let IpAddr::V4(source) = source else { unreachable!("attackers have IPv4 addresses") };
        let client = Rc::clone(&clients[usize::from(source.octets()[3] - FIRST_SOURCE)]);
        let body = bodies[number % bodies.len()].clone();
        async move {
            let reply =
                client.post("/validate?timeout=3s", body, REVIEW_TIMEOUT).await.map_err(io::Error::other)?;
            field.count(if reply.status == 400 { "of status 400" } else { "of another status" });
            Ok(())
        }
    });
}

/// Posts objects as an API server does for a user who may create them: from its address, over connections of
/// its pool, to both endpoints.
fn costly(field: &Rc<Field>, per_second: f64, objects: fn() -> Vec<objects::Costly>) {
    let client = Client::new(field.server, Ipv4Addr::LOCALHOST, field.tls.clone());
    let field = Rc::clone(field);
    let bodies: Vec<Bytes> = objects()
        .iter()
        .map(|costly| reviews::body_of(objects::UID, &costly.object, costly.old.as_ref()))
        .collect();
    spawn_local(async move {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0_usize.. {
            ticks.tick().await;
            let (client, field, body) =
                (Rc::clone(&client), Rc::clone(&field), bodies[number / 2 % bodies.len()].clone());
            let path = ["/mutate?timeout=3s", "/validate?timeout=3s"][number % 2];
            spawn_local(async move {
                let began = Instant::now();
                match client.post(path, body, REVIEW_TIMEOUT).await {
                    Ok(reply) if reply.status == 200 => {
                        field.slowest.set(field.slowest.get().max(began.elapsed()));
                        field.count("answered");
                    }
                    Ok(_) => field.count("refused"),
                    Err(_) => field.count("not answered"),
                }
            });
        }
    });
}
