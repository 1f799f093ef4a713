//! The server over real TLS on the loopback interface, in front of an application that does what the body
//! tells it.
mod crowds;
mod framing;
mod updates;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobgate::admission::{self, Answer, Endpoint, Estimate, Fault, Meta, Outcome};
use jobgate::kinds::Kind;
use jobgate::serve::server::certificate::{Authorities, Development, Identity, Tokens};
use jobgate::serve::server::{Application, Call, Config, Limits, Metrics, Readiness, Server, Stop};
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Obeys the word after `"do":"` in the body.
struct Obedient;

impl Application for Obedient {
    async fn review(&self, call: Call) -> Answer {
        match word(&call.body) {
            "panic" => panic!("as told"),
            "hang" => pending().await,
            "wait" => sleep(Duration::from_millis(300)).await,
            "linger" => sleep(Duration::from_millis(1500)).await,
            "compute" => std::thread::sleep(Duration::from_millis(1500)),
            "churn" => {
                let _running = Churning::begin();
                loop {
                    jobgate::text::meter::spend(1);
                }
            }
            _ => {}
        }
        let left = call.deadline.saturating_duration_since(Instant::now()).as_millis();
        answer(
            Outcome::Allowed,
            &format!(
                r#"{{"endpoint":"{}","length":{},"left":{left}}}"#,
                call.endpoint.as_str(),
                call.body.len()
            ),
        )
    }

    fn weight(&self, body: &[u8]) -> usize {
        match word(body) {
            "weigh" => usize::MAX,
            "overweigh" => panic!("asked to"),
            _ => 5 * body.len(),
        }
    }

    fn estimate<'b>(&self, body: &'b [u8]) -> Estimate<'b> {
        Estimate { weight: self.weight(body), ..admission::estimate(body) }
    }

    fn too_heavy(&self, _: Endpoint, body: &[u8]) -> Option<Answer> {
        (!body.ends_with(b"no answer")).then(|| answer(Outcome::Denied, r#"{"heavy":true}"#))
    }

    fn too_large(&self, prefix: &[u8], limit: usize) -> Option<Answer> {
        let uid = String::from_utf8_lossy(prefix).split('"').nth(3)?.to_owned();
        Some(answer(
            Outcome::Denied,
            &format!(r#"{{"denied":"{uid}","limit":{limit},"prefix":{}}}"#, prefix.len()),
        ))
    }

    fn fault(&self, body: &[u8], fault: Fault) -> Option<Answer> {
        (!body.ends_with(b"no answer"))
            .then(|| answer(Outcome::Faulted, &format!(r#"{{"fault":"{}"}}"#, fault.as_str())))
    }
}

/// How many reviews are computing without an end.
static CHURNING: AtomicUsize = AtomicUsize::new(0);

struct Churning;

impl Churning {
    fn begin() -> Self {
        CHURNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Churning {
    fn drop(&mut self) {
        CHURNING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn word(body: &[u8]) -> &str {
    let text = std::str::from_utf8(&body[..body.len().min(64)]).unwrap_or_default();
    text.split(r#""do":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

fn answer(outcome: Outcome, body: &str) -> Answer {
    Answer {
        status: 200,
        body: body.as_bytes().to_vec(),
        meta: Meta { kind: Some(Kind::JOB), outcome, ..Meta::default() },
    }
}

fn order(word: &str) -> String {
    format!(r#"{{"do":"{word}"}}"#)
}

/// A server that runs until the end of the test.
struct Running {
    address: SocketAddr,
    probe_address: SocketAddr,
    metrics: Metrics,
    identity: Arc<Identity>,
    readiness: Readiness,
    ca: String,
    stop: watch::Sender<Stop>,
    task: JoinHandle<()>,
}

async fn start(change: impl FnOnce(&mut Config)) -> Running {
    start_with(Metrics::new(), Obedient, change).await
}

async fn start_with(metrics: Metrics, app: impl Application, change: impl FnOnce(&mut Config)) -> Running {
    let made = Development::generate().unwrap();
    let identity = Arc::new(Identity::empty(&metrics));
    identity.replace(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let mut config = Config {
        address: ([127, 0, 0, 1], 0).into(),
        probe_address: ([127, 0, 0, 1], 0).into(),
        identity,
        clients: None,
        tokens: None,
        http2: false,
        readiness: Readiness::default(),
        limits: Limits {
            drain_accept: Duration::ZERO,
            first_request: Duration::from_millis(100),
            ..Limits::default()
        },
    };
    change(&mut config);
    let (identity, readiness) = (config.identity.clone(), config.readiness.clone());
    let server = Server::bind(config, metrics.clone()).await.unwrap();
    let (address, probe_address) = (server.address, server.probe_address);
    let (stop, told) = watch::channel(Stop::No);
    let task = tokio::spawn(server.run(app, told));
    Running { address, probe_address, metrics, identity, readiness, ca: made.ca, stop, task }
}

impl Running {
    async fn connect(&self) -> Client {
        self.try_connect(self.tls()).await.unwrap()
    }

    fn tls(&self) -> ClientConfig {
        client_tls(&self.ca, None)
    }

    async fn connect_from(&self, source: SocketAddr) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(source).unwrap();
        self.shake_hands(self.tls(), socket.connect(self.address).await.unwrap()).await.unwrap()
    }

    async fn try_connect(&self, tls: ClientConfig) -> io::Result<Client> {
        self.shake_hands(tls, TcpStream::connect(self.address).await?).await
    }

    async fn shake_hands(&self, tls: ClientConfig, stream: TcpStream) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::new(tls))
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await?;
        Ok(Client { stream, buffer: Vec::new() })
    }

    /// Returns the value of a series, which must exist.
    fn metric(&self, series: &str) -> f64 {
        let text = self.metrics.text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no {series} in\n{text}"))
    }

    async fn until_metric(&self, series: &str, value: f64) {
        for _ in 0..2000 {
            if self.metrics.text().contains(series) && self.metric(series) >= value {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
        panic!("{series} stays below {value} in\n{}", self.metrics.text());
    }

    /// Asks the plain second port.
    async fn probe(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.probe_address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }
}

fn client_tls(ca: &str, own: Option<(&str, &str)>) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                .unwrap()
        }
    }
}

/// A client that sends exactly what it is given.
struct Client {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn closes(&self) -> bool {
        self.head.contains("\r\nconnection: close")
    }
}

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await?;
        self.stream.flush().await
    }

    async fn post(&mut self, path: &str, body: &str) -> io::Result<Reply> {
        self.send(request(path, body)).await?;
        self.reply().await
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
        let length = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next())
            .map_or(0, |length| length.parse().unwrap());
        while self.buffer.len() < end + length {
            self.more().await?;
        }
        let rest = self.buffer.split_off(end + length);
        let body = String::from_utf8_lossy(&self.buffer[end..]).into_owned();
        self.buffer = rest;
        Ok(Reply { status: head[9..12].parse().unwrap(), head, body })
    }

    async fn more(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }

    /// Waits for the server to end the connection, and returns how long it took.
    async fn closed(&mut self) -> Duration {
        let start = Instant::now();
        let ended = timeout(Duration::from_secs(10), async { while self.more().await.is_ok() {} });
        ended.await.expect("the server ends the connection");
        start.elapsed()
    }
}

fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[tokio::test]
async fn two_endpoints_and_nothing_else() {
    let server = start(|_| {}).await;
    let mut client = server.connect().await;
    let reply = client.post("/mutate?timeout=2s", "{}").await.unwrap();
    assert_eq!(
        (reply.status, reply.body.contains(r#""endpoint":"mutate","length":2"#)),
        (200, true),
        "{reply:?}"
    );
    let reply = client.post("/validate", "{}").await.unwrap();
    assert_eq!((reply.status, reply.body.contains(r#""endpoint":"validate""#)), (200, true), "{reply:?}");
    assert!(
        !reply.head.contains("\r\nserver:") && reply.head.contains("content-type: application/json"),
        "{}",
        reply.head
    );
    for (request, status) in [
        (request("/", "{}"), 404),
        (request("/mutate/", "{}"), 404),
        (request("//mutate", "{}"), 404),
        (request("/Mutate", "{}"), 404),
        (request("/metrics", "{}"), 404),
        (request("/mutate", "{}").replace("POST", "GET"), 405),
        (request("/mutate", "{}").replace("POST", "PUT"), 405),
        (request("/mutate", "{}").replace("POST", "DELETE"), 405),
        (request("/mutate", "{}").replace("application/json", "text/plain"), 415),
        (request("/mutate", "{}").replace("content-type", "x-type"), 415),
        (request("/mutate", "{}").replace("host:", "content-encoding: gzip\r\nhost:"), 415),
    ] {
        let mut client = server.connect().await;
        client.send(&request).await.unwrap();
        let reply = client.reply().await.unwrap();
        assert_eq!(reply.status, status, "{request}");
    }
    assert_eq!(server.metric(r#"jobgate_requests_rejected_total{code="405"}"#), 3.0);
    assert_eq!(
        server.metric(r#"jobgate_reviews_total{endpoint="mutate",kind="Job",verdict="allowed"}"#),
        1.0
    );
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let server = start(|_| {}).await;
    let body = "content-type: application/json\r\n";
    for bytes in [
        "GARBAGE\r\n\r\n".to_owned(),
        "POST /mutate HTTP/9.9\r\n\r\n".to_owned(),
        format!(
            "POST /mutate HTTP/1.1\r\nhost: x\r\n{body}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"
        ),
        format!("POST /mutate HTTP/1.1\r\nhost: x\r\n{body}content-length: -2\r\n\r\n{{}}"),
        format!(
            "POST /mutate HTTP/1.1\r\nhost: x\r\n{body}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"
        ),
        format!("POST /mutate HTTP/1.1\r\nhost: x\r\n{body}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("POST /mutate HTTP/1.1\r\nhost: x\r\n folded\r\n{body}content-length: 2\r\n\r\n{{}}"),
        format!("POST /mutate HTTP/1.1\r\nhost : x\r\n{body}content-length: 2\r\n\r\n{{}}"),
        format!(
            "POST /mutate HTTP/1.1\r\nhost: x\r\n{body}transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"
        ),
    ] {
        let mut client = server.connect().await;
        client.send(&bytes).await.unwrap();
        let reply = client.reply().await.unwrap_or_else(|error| panic!("{bytes:?}: {error}"));
        assert_eq!(reply.status, 400, "{bytes:?}");
        client.closed().await;
    }
}

#[tokio::test]
async fn headers_have_limits() {
    let server = start(|_| {}).await;
    let long = format!("x: {}\r\nhost:", "y".repeat(17 << 10));
    let many = format!("{}host:", (0..65).map(|number| format!("x{number}: y\r\n")).collect::<String>());
    for fields in [long, many] {
        let mut client = server.connect().await;
        client.send(request("/mutate", "{}").replace("host:", &fields)).await.unwrap();
        assert_eq!(client.reply().await.unwrap().status, 431);
        client.closed().await;
    }
    let mut client = server.connect().await;
    let some = format!(
        "x: {}\r\n{}host:",
        "y".repeat(15 << 10),
        (0..60).map(|number| format!("x{number}: y\r\n")).collect::<String>()
    );
    client.send(request("/mutate", "{}").replace("host:", &some)).await.unwrap();
    assert_eq!(client.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn idle_time_is_not_header_time() {
    let server = start(|config| (config.limits.idle, config.limits.header) = (ms(3000), ms(500))).await;
    let mut client = server.connect().await;
    for gap in [0, 1000, 1000] {
        sleep(ms(gap)).await;
        assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200, "after {gap} ms");
    }
    let idle = client.closed().await;
    assert!(idle >= ms(2000), "{idle:?}");
    assert_eq!(server.metric(r#"jobgate_connections_closed_total{cause="idle"}"#), 1.0);

    let mut client = server.connect().await;
    client.post("/mutate", "{}").await.unwrap();
    client.send("P").await.unwrap();
    let header = client.closed().await;
    assert!(header >= ms(250) && header < ms(2500), "{header:?}");
    assert_eq!(server.metric(r#"jobgate_connections_closed_total{cause="header-timeout"}"#), 1.0);

    let mut client = server.connect().await;
    let unused = client.closed().await;
    assert!(unused >= ms(2000), "a connection may be made for later: {unused:?}");
}

#[tokio::test]
async fn the_application_may_take_longer_than_idle_and_header_time() {
    let server = start(|config| (config.limits.idle, config.limits.header) = (ms(1000), ms(500))).await;
    let mut client = server.connect().await;
    assert_eq!(client.post("/mutate", &order("linger")).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_headers_do_not_hurt_others() {
    let server = Arc::new(start(|config| config.limits.header = ms(300)).await);
    let mut slow = JoinSet::new();
    for _ in 0..40 {
        let server = server.clone();
        slow.spawn(async move {
            let mut client = server.connect().await;
            let start = Instant::now();
            for byte in request("/mutate", "{}").bytes() {
                if client.send([byte]).await.is_err() || timeout(ms(20), client.more()).await.is_ok() {
                    return start.elapsed();
                }
            }
            panic!("a request sent at 50 bytes a second is not cut off");
        });
    }
    let mut client = server.connect().await;
    for _ in 0..50 {
        assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
        sleep(ms(10)).await;
    }
    for took in slow.join_all().await {
        assert!(took < ms(2500), "{took:?}");
    }
    assert_eq!(server.metric(r#"jobgate_connections_closed_total{cause="header-timeout"}"#), 40.0);
}

/// The beginning of a request whose body has this length, or comes in chunks.
fn head(path: &str, length: Option<usize>) -> String {
    let framing =
        length.map_or("transfer-encoding: chunked".to_owned(), |length| format!("content-length: {length}"));
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{framing}\r\n\r\n")
}

#[tokio::test]
async fn a_body_without_progress_is_ended() {
    let server =
        start(|config| (config.limits.body_grace, config.limits.review) = (ms(300), Duration::from_secs(60)))
            .await;
    for (length, sent) in [
        (Some(9), "{".into()),
        (Some(32 << 20), "x".repeat(3 << 20)),
        (None, "1\r\n{\r\n".into()),
        (Some(9), String::new()),
    ] {
        let mut client = server.connect().await;
        client.send(format!("{}{sent}", head("/mutate", length))).await.unwrap();
        let reply = client.reply().await.unwrap();
        assert_eq!((reply.status, reply.closes()), (408, true), "{length:?}");
        client.closed().await;
    }
    // A trickle is no progress either.
    let mut client = server.connect().await;
    client.send(head("/mutate", Some(60_000))).await.unwrap();
    let start = Instant::now();
    while client.send("x").await.is_ok() && timeout(ms(20), client.more()).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(10), "a body sent at 50 bytes a second is not ended");
    }
    assert_eq!(server.metric(r#"jobgate_bodies_ended_total{cause="slow"}"#), 5.0);
    assert_eq!(server.metric("jobgate_body_buffered_bytes"), 0.0);
}

#[tokio::test]
async fn a_body_that_makes_progress_is_waited_for() {
    let limits = |limits: &mut Limits| {
        (limits.body_grace, limits.body_rate, limits.review) = (ms(1000), 10_000, Duration::from_secs(60));
    };
    let server = start(|config| limits(&mut config.limits)).await;
    let mut client = server.connect().await;
    client.send(head("/mutate?timeout=30s", Some(60_000))).await.unwrap();
    for _ in 0..12 {
        sleep(ms(100)).await;
        client.send("x".repeat(5000)).await.unwrap();
    }
    assert_eq!(
        client.reply().await.unwrap().status,
        200,
        "five times the least rate, for longer than the grace"
    );
}

#[tokio::test]
async fn a_body_ends_with_the_time_of_its_review() {
    let server = start(|_| {}).await;
    let mut client = server.connect().await;
    let start = Instant::now();
    client.send(head("/mutate?timeout=1s", Some(32 << 20))).await.unwrap();
    let reply = loop {
        // Fast enough, and still too late.
        if client.send("x".repeat(20_000)).await.is_err() || timeout(ms(50), client.more()).await.is_ok() {
            break client.reply().await.unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(10), "nobody waits for the answer any more");
    };
    assert_eq!((reply.status, reply.closes(), reply.head.contains("retry-after: 1\r\n")), (429, true, true));
    assert_eq!(server.metric(r#"jobgate_bodies_ended_total{cause="late"}"#), 1.0);
}

#[tokio::test]
async fn a_body_in_crumbs_is_ended() {
    let server = start(|_| {}).await;
    let crumbs = |count: usize| format!("{}{}0\r\n\r\n", head("/mutate", None), "1\r\nx\r\n".repeat(count));
    let mut client = server.connect().await;
    client.send(crumbs(1000)).await.unwrap();
    assert!(client.reply().await.unwrap().body.contains(r#""length":1000"#), "a few are fine");
    let mut client = server.connect().await;
    let _ = client.send(crumbs(20_000)).await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, reply.closes()), (408, true));
    assert_eq!(server.metric(r#"jobgate_bodies_ended_total{cause="pieces"}"#), 1.0);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_given_up() {
    let server =
        start(|config| (config.limits.write, config.limits.idle) = (ms(300), Duration::from_secs(60))).await;
    let mut client = server.connect().await;
    // Answers pile up until the sockets between the two are full.
    let requests = request("/mutate", "{}").repeat(2000);
    let _ = timeout(ms(1500), async { while client.send(&requests).await.is_ok() {} }).await;
    server.until_metric(r#"jobgate_connections_closed_total{cause="write-timeout"}"#, 1.0).await;
}

#[tokio::test]
async fn a_body_above_the_cap_is_denied() {
    let server = start(|config| config.limits.body_bytes = 1 << 20).await;
    // Just below.
    let mut client = server.connect().await;
    let body = format!(r#"{{"uid":"u1","pad":"{}"}}"#, "x".repeat((1 << 20) - 21));
    assert_eq!(body.len(), 1 << 20);
    assert!(client.post("/mutate", &body).await.unwrap().body.contains(r#""length":1048576"#));
    // Declared, and sent whole before the answer is read.
    let mut client = server.connect().await;
    let reply = client.post("/mutate", &format!("{body}x")).await.unwrap();
    assert_eq!((reply.status, reply.closes()), (200, true), "{reply:?}");
    assert_eq!(reply.body, r#"{"denied":"u1","limit":1048576,"prefix":4096}"#);
    client.closed().await;
    // Declared, and not sent at all beyond the uid.
    let mut client = server.connect().await;
    let head = "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9000000000\r\n\r\n";
    client.send(format!("{head}{}", &body[..8000])).await.unwrap();
    assert!(client.reply().await.unwrap().body.contains(r#""denied":"u1""#));
    // Without a uid there is nothing to answer.
    let mut client = server.connect().await;
    let reply = client.post("/mutate", &"x".repeat((1 << 20) + 1)).await.unwrap();
    assert_eq!((reply.status, reply.closes()), (413, true));
    assert_eq!(server.metric(r#"jobgate_reviews_total{endpoint="mutate",kind="Job",verdict="denied"}"#), 2.0);
}

#[tokio::test]
async fn an_endless_body_takes_no_memory() {
    let server = start(|config| config.limits.body_bytes = 1 << 20).await;
    let mut client = server.connect().await;
    let before = server.metric("jobgate_process_resident_memory_bytes");
    client.send("POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    let (mut read, mut write) = tokio::io::split(client.stream);
    let sent = tokio::spawn(async move {
        let chunk = format!("10000\r\n{{\"uid\":\"u2\"{}\r\n", "x".repeat(0x10000 - 11));
        for megabytes in 0..100 {
            for _ in 0..16 {
                if write.write_all(chunk.as_bytes()).await.is_err() {
                    return megabytes;
                }
            }
        }
        100
    });
    let mut reply = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(Ok(count @ 1..)) = timeout(Duration::from_secs(10), read.read(&mut chunk)).await {
        reply.extend_from_slice(&chunk[..count]);
    }
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains(r#""denied":"u2""#), "{reply}");
    let sent = sent.await.unwrap();
    assert!(sent < 20, "the connection is cut: {sent} MiB were taken");
    let grown = server.metric("jobgate_process_resident_memory_bytes") - before;
    assert!(grown < 64e6, "{grown} bytes more");
    assert_eq!(server.metric("jobgate_body_buffered_bytes"), 0.0);
}

/// Limits under which a body of 1,000 bytes is large, and one source may have one of 80,000 while its buffer
/// grows.
fn narrow(config: &mut Config) {
    let limits = &mut config.limits;
    (limits.inline_bytes, limits.body_memory, limits.body_memory_per_source) = (1000, 240_000, 180_000);
    (limits.body_queue, limits.body_grace, limits.review) =
        (ms(100), Duration::from_secs(30), Duration::from_secs(60));
}

/// The address of one of several clients. All of 127.0.0.0/8 is the loopback interface's.
fn source(number: u8) -> SocketAddr {
    ([127, 0, 1, number], 0).into()
}

#[tokio::test]
async fn one_source_has_a_part_of_the_memory() {
    let server = start(narrow).await;
    let body = "x".repeat(80_000);
    let whole = request("/mutate?timeout=30s", &body);
    let mut first = server.connect_from(source(1)).await;
    first.send(&whole[..79_000]).await.unwrap();
    server.until_metric("jobgate_body_buffered_bytes", 80_000.0).await;
    let mut second = server.connect_from(source(1)).await;
    let reply = second.post("/mutate?timeout=30s", &body).await.unwrap();
    assert_eq!(
        (reply.status, reply.closes(), reply.head.contains("retry-after: 1\r\n")),
        (429, true, true),
        "{reply:?}"
    );
    assert_eq!(server.metric(r#"jobgate_shed_total{cause="memory-per-source"}"#), 1.0);
    // Another one has its own.
    assert_eq!(server.connect_from(source(2)).await.post("/mutate", &body).await.unwrap().status, 200);
    first.send(&whole[79_000..]).await.unwrap();
    assert_eq!(first.reply().await.unwrap().status, 200);
    second.closed().await;
    assert_eq!(server.connect_from(source(1)).await.post("/mutate", &body).await.unwrap().status, 200);
    assert_eq!(server.metric("jobgate_body_buffered_bytes"), 0.0);
}

#[tokio::test]
async fn small_bodies_cost_the_large_ones_nothing_and_the_other_way_round() {
    let server = start(narrow).await;
    let mut held = Vec::new();
    for number in 1..=6 {
        let mut client = server.connect_from(source(number)).await;
        client
            .send(format!("{}{}", head("/mutate?timeout=30s", Some(80_000)), "x".repeat(30_000)))
            .await
            .unwrap();
        held.push(client);
    }
    server.until_metric("jobgate_body_buffered_bytes", 120_000.0).await;
    for number in 1..=7 {
        let mut client = server.connect_from(source(number)).await;
        for _ in 0..20 {
            assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
        }
    }
}

#[tokio::test]
async fn whoever_has_most_gives_way() {
    let server = start(|config| {
        narrow(config);
        config.limits.body_memory = 200_000;
    })
    .await;
    let body = "x".repeat(60_000);
    // One source has what it may have, and would keep it.
    let mut greedy = [server.connect_from(source(1)).await, server.connect_from(source(1)).await];
    for client in &mut greedy {
        client
            .send(format!("{}{}", head("/mutate?timeout=30s", Some(60_000)), "x".repeat(59_000)))
            .await
            .unwrap();
        server.until_metric("jobgate_body_buffered_bytes", 60_000.0).await;
    }
    server.until_metric("jobgate_body_buffered_bytes", 120_000.0).await;
    assert_eq!(
        server.connect_from(source(2)).await.post("/mutate?timeout=30s", &body).await.unwrap().status,
        200
    );
    assert_eq!(server.metric(r#"jobgate_shed_total{cause="memory-revoked"}"#), 1.0);
    let mut statuses = Vec::new();
    for client in &mut greedy {
        let _ = client.send("x".repeat(1000)).await;
        let reply = client.reply().await.unwrap();
        statuses.push((reply.status, reply.closes()));
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [(200, false), (429, true)]);
}

#[tokio::test]
async fn what_is_too_heavy_is_denied_and_the_heavy_wait_for_each_other() {
    let server = start(|config| {
        (config.limits.evaluation_memory, config.limits.light) = (1 << 20, 100_000);
    })
    .await;
    let mut client = server.connect().await;
    let large = |order: &str, end: &str| format!("{order}{}{end}", "x".repeat(100_000));
    assert_eq!(client.post("/mutate", &large(&order("weigh"), "")).await.unwrap().body, r#"{"heavy":true}"#);
    assert_eq!(client.post("/mutate", &large(&order("weigh"), "no answer")).await.unwrap().status, 413);
    assert_eq!(
        client.post("/mutate", &large(&order("overweigh"), "")).await.unwrap().body,
        r#"{"fault":"panic"}"#
    );
    // A small one is never too heavy.
    assert!(client.post("/mutate", &order("weigh")).await.unwrap().body.contains(r#""length""#));
    // Two fit in, each with half a megabyte, and a third has to wait longer than it may.
    let mut busy = [server.connect().await, server.connect().await];
    for client in &mut busy {
        client.send(request("/mutate", &large(&order("compute"), ""))).await.unwrap();
    }
    server.until_metric("jobgate_reviews_in_flight", 2.0).await;
    let reply = client.post("/mutate", &large("{}", "")).await.unwrap();
    assert_eq!((reply.status, reply.head.contains("retry-after: 1\r\n")), (429, true), "{reply:?}");
    for client in &mut busy {
        assert_eq!(client.reply().await.unwrap().status, 200);
    }
    assert_eq!(client.post("/mutate", &large("{}", "")).await.unwrap().status, 200);
}

#[tokio::test]
async fn overload_is_shed_without_loss() {
    let server = start(|config| (config.limits.in_flight, config.limits.queue) = (1, ms(20))).await;
    let (mut busy, mut other) = (server.connect().await, server.connect().await);
    busy.send(request("/mutate", &order("linger"))).await.unwrap();
    server.until_metric("jobgate_reviews_in_flight", 1.0).await;
    let reply = other.post("/mutate", "{}").await.unwrap();
    assert_eq!(
        (reply.status, reply.closes(), reply.head.contains("retry-after: 1\r\n")),
        (429, false, true),
        "{reply:?}"
    );
    assert_eq!(busy.reply().await.unwrap().status, 200);
    assert_eq!(other.post("/mutate", "{}").await.unwrap().status, 200, "on the same connection");
    assert_eq!(server.metric(r#"jobgate_shed_total{cause="in-flight"}"#), 1.0);
}

#[tokio::test]
async fn what_is_put_off_and_not_asked_again_is_a_fault() {
    const LOST: &str = r#"jobgate_faults_total{cause="shed"}"#;
    let server = start(|config| (config.limits.in_flight, config.limits.queue) = (1, ms(20))).await;
    let (mut busy, mut other) = (server.connect().await, server.connect().await);
    let of = |uid: &str| format!(r#"{{"request":{{"uid":"{uid}"}}}}"#);
    busy.send(request("/mutate", &order("linger"))).await.unwrap();
    server.until_metric("jobgate_reviews_in_flight", 1.0).await;
    let began = Instant::now();
    for (uid, timeout) in [("lost", "1s"), ("again", "3s")] {
        let reply = other.post(&format!("/mutate?timeout={timeout}"), &of(uid)).await.unwrap();
        assert_eq!(reply.status, 429, "{uid}: {reply:?}");
    }
    assert_eq!(busy.reply().await.unwrap().status, 200);
    let reply = other.post("/mutate?timeout=3s", &of("again")).await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    // It has the time that is left since it came first, not three seconds again.
    let left: u64 = reply.body.split(r#""left":"#).nth(1).unwrap().trim_end_matches('}').parse().unwrap();
    assert!(u128::from(left) < 2900_u128.saturating_sub(began.elapsed().as_millis()), "{left} ms");
    server.until_metric(LOST, 1.0).await;
    sleep((began + Duration::from_millis(5500)).saturating_duration_since(Instant::now())).await;
    assert_eq!(server.metric(LOST), 1.0, "what was asked again in time was not lost");
    // A body that the server has no memory for is known by its first bytes.
    let body = format!("{}{}", of("body"), "x".repeat(70_000));
    let narrow = start(|config| (config.limits.body_memory, config.limits.body_queue) = (1000, ms(20))).await;
    assert_eq!(narrow.connect().await.post("/mutate?timeout=1s", &body).await.unwrap().status, 429);
    assert_eq!(narrow.metric(LOST), 0.0, "it may still be asked again");
    narrow.until_metric(LOST, 1.0).await;
}

#[tokio::test]
async fn heavy_reviews_of_a_user_hold_up_neither_light_ones_nor_those_of_others() {
    let server = start(|config| {
        config.limits.light = 100_000;
        config.limits.review = Duration::from_secs(60);
        config.limits.queue = Duration::from_secs(60);
    })
    .await;
    let review = |word: &str, user: &str, bytes: usize| {
        let head = format!(r#"{{"do":"{word}","request":{{"uid":"u","userInfo":{{"username":"{user}"}}}}}}"#);
        let more = "x".repeat(bytes.saturating_sub(head.len()));
        request("/validate?timeout=30s", &format!("{head}{more}"))
    };
    // Two of them are evaluated at a time, each for a second and a half.
    let mut mallory = Vec::new();
    for _ in 0..6 {
        let mut client = server.connect().await;
        client.send(review("linger", "mallory", 50_000)).await.unwrap();
        mallory.push(client);
        server.until_metric("jobgate_reviews_in_flight", mallory.len().min(2) as f64).await;
    }
    let began = Instant::now();
    let (mut alice, mut light) = (server.connect().await, server.connect().await);
    alice.send(review("", "alice", 50_000)).await.unwrap();
    light.send(review("", "mallory", 15_000)).await.unwrap();
    assert_eq!(light.reply().await.unwrap().status, 200);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}: light ones wait for nobody", began.elapsed());
    assert_eq!(alice.reply().await.unwrap().status, 200);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}: alice is next", began.elapsed());
    for client in &mut mallory {
        assert_eq!(client.reply().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_short_queue_hides_a_burst() {
    let server = Arc::new(
        start(|config| (config.limits.in_flight, config.limits.queue) = (1, Duration::from_secs(5))).await,
    );
    let mut burst = JoinSet::new();
    for _ in 0..3 {
        let server = server.clone();
        burst.spawn(
            async move { server.connect().await.post("/mutate", &order("wait")).await.unwrap().status },
        );
    }
    assert_eq!(burst.join_all().await, [200, 200, 200]);
}

#[tokio::test]
async fn a_panic_costs_one_review() {
    let server = start(|config| config.limits.inline_bytes = 1000).await;
    let mut client = server.connect().await;
    for pad in [0, 2000] {
        let reply = client.post("/mutate", &format!("{}{}", order("panic"), " ".repeat(pad))).await.unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"fault":"panic"}"#));
        assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200, "on the same connection");
    }
    assert_eq!(server.metric(r#"jobgate_faults_total{cause="panic"}"#), 2.0);
    assert_eq!(
        server.metric(r#"jobgate_reviews_total{endpoint="mutate",kind="Job",verdict="faulted"}"#),
        2.0
    );
    let reply = client.post("/mutate", &format!("{}no answer", order("panic"))).await.unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (500, ""));
    assert_eq!(server.metric("jobgate_reviews_in_flight"), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_application_is_answered_for_in_time() {
    let server = start(|config| (config.limits.inline_bytes, config.limits.light) = (1000, 1000)).await;
    let mut client = server.connect().await;
    let mut late = 0;
    for (word, pad) in [("hang", 0), ("hang", 2000), ("compute", 2000)] {
        // A machine with much else to do may miss 200 ms by itself now and then, but not three times in a
        // row.
        let mut tries = 3;
        loop {
            let start = Instant::now();
            let reply = client
                .post("/mutate?timeout=800ms", &format!("{}{}", order(word), " ".repeat(pad)))
                .await
                .unwrap();
            let took = start.elapsed();
            late += 1;
            tries -= 1;
            assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"fault":"deadline"}"#), "{word} {pad}");
            assert!(took >= ms(550) && (took < ms(800) || tries > 0), "{word} {pad}: {took:?}");
            if took < ms(800) {
                break;
            }
        }
    }
    assert_eq!(server.metric(r#"jobgate_faults_total{cause="deadline"}"#), f64::from(late));
}

#[tokio::test]
async fn the_application_knows_its_deadline() {
    let server = start(|_| {}).await;
    let mut client = server.connect().await;
    for (query, most) in [("", 2300), ("?timeout=30s", 2300), ("?timeout=1s", 800)] {
        // A machine with much else to do may take 300 ms by itself to come to it, but not five times in a
        // row.
        let mut tries = 5;
        loop {
            let reply = client.post(&format!("/mutate{query}"), "{}").await.unwrap();
            let left: u128 =
                reply.body.split(r#""left":"#).nth(1).unwrap().trim_end_matches('}').parse().unwrap();
            tries -= 1;
            assert!(left <= most && (left + 300 > most || tries > 0), "{query}: {left}");
            if left + 300 > most {
                break;
            }
        }
    }
}

#[tokio::test]
async fn idle_connections_make_room() {
    let server = start(|config| config.limits.connections_per_source = 2).await;
    let mut first = server.connect().await;
    first.post("/mutate", "{}").await.unwrap();
    sleep(ms(10)).await;
    let mut second = server.connect().await;
    second.post("/mutate", "{}").await.unwrap();
    let mut third = server.connect().await;
    assert_eq!(third.post("/mutate", "{}").await.unwrap().status, 200);
    first.closed().await;
    assert_eq!(second.post("/mutate", "{}").await.unwrap().status, 200);
    assert_eq!(server.metric(r#"jobgate_connections_closed_total{cause="evicted"}"#), 1.0);
    // Whoever is busy stays, and then a newcomer from the same place does not come in.
    second.send(request("/mutate", &order("linger"))).await.unwrap();
    third.send(request("/mutate", &order("linger"))).await.unwrap();
    server.until_metric("jobgate_reviews_in_flight", 2.0).await;
    assert!(server.try_connect(server.tls()).await.is_err());
    assert_eq!(server.metric(r#"jobgate_connections_refused_total{cause="connections-per-source"}"#), 1.0);
    assert_eq!((second.reply().await.unwrap().status, third.reply().await.unwrap().status), (200, 200));
}

#[tokio::test]
async fn where_all_are_being_answered_a_newcomer_is_refused_at_once() {
    let server = start(|config| config.limits.connections = 1).await;
    let mut busy = server.connect().await;
    busy.send(request("/mutate", &order("linger"))).await.unwrap();
    server.until_metric("jobgate_reviews_in_flight", 1.0).await;
    assert!(server.try_connect(server.tls()).await.is_err());
    assert_eq!(server.metric(r#"jobgate_connections_refused_total{cause="connections"}"#), 1.0);
    assert_eq!(
        server.metric("jobgate_reviews_in_flight"),
        1.0,
        "while the other one is still being answered"
    );
    assert_eq!(busy.reply().await.unwrap().status, 200);
    assert_eq!(server.connect().await.post("/mutate", "{}").await.unwrap().status, 200);
}

#[tokio::test]
async fn handshakes_have_a_limit() {
    let server = start(|config| config.limits.handshake = ms(2000)).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut garbage = TcpStream::connect(server.address).await.unwrap();
    drop(TcpStream::connect(server.address).await.unwrap());
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    for stream in [&mut silent, &mut garbage] {
        let mut rest = Vec::new();
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut rest))
            .await
            .expect("the server ends the connection");
    }
    for cause in ["timeout", "invalid", "disconnected"] {
        server.until_metric(&format!(r#"jobgate_handshake_errors_total{{cause="{cause}"}}"#), 1.0).await;
    }
    assert_eq!(server.connect().await.post("/mutate", "{}").await.unwrap().status, 200);
}

#[tokio::test]
async fn tls_1_2_and_1_3_and_no_resumption() {
    let server = start(|_| {}).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.ca.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let tls = builder
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        for _ in 0..2 {
            let mut client = server.try_connect(tls.clone()).await.unwrap();
            assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
            let connection = client.stream.get_ref().1;
            assert_eq!(connection.protocol_version(), Some(version.version));
            assert_eq!(connection.handshake_kind(), Some(rustls::HandshakeKind::Full));
        }
    }
}

/// Puts a pair where the kubelet would: files are links into `..data`, which is a link that is replaced in
/// one step.
fn mount(dir: &Path, generation: usize, certificate: &str, key: &str) {
    let real = format!("..{generation}");
    std::fs::create_dir(dir.join(&real)).unwrap();
    std::fs::write(dir.join(&real).join("tls.crt"), certificate).unwrap();
    std::fs::write(dir.join(&real).join("tls.key"), key).unwrap();
    std::os::unix::fs::symlink(&real, dir.join("..next")).unwrap();
    std::fs::rename(dir.join("..next"), dir.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        let _ = std::os::unix::fs::symlink(Path::new("..data").join(name), dir.join(name));
    }
    if generation > 0 {
        std::fs::remove_dir_all(dir.join(format!("..{}", generation - 1))).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_without_a_failed_request() {
    let dir = tempfile::tempdir().unwrap();
    let pairs: Vec<Development> = (0..6).map(|_| Development::generate().unwrap()).collect();
    mount(dir.path(), 0, &pairs[0].certificate, &pairs[0].key);
    let metrics = Metrics::new();
    let (identity, _follower) = Identity::empty(&metrics)
        .follow(dir.path().join("tls.crt"), dir.path().join("tls.key"), ms(20))
        .await
        .unwrap();
    let server = Arc::new(start(|config| config.identity = identity).await);
    let all: Vec<String> = pairs.iter().map(|pair| pair.ca.clone()).collect();
    let ended = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut load = JoinSet::new();
    for keep in [true, false] {
        let (server, ended, answered, all) = (server.clone(), ended.clone(), answered.clone(), all.clone());
        load.spawn(async move {
            let mut roots = rustls::RootCertStore::empty();
            for ca in &all {
                roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
            }
            let builder =
                ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
            let tls = builder
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let mut client = server.try_connect(tls.clone()).await.unwrap();
            while !ended.load(Ordering::SeqCst) {
                if !keep {
                    client = server.try_connect(tls.clone()).await.unwrap();
                }
                assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
                answered.fetch_add(1, Ordering::SeqCst);
                sleep(ms(1)).await;
            }
        });
    }
    let mut generation = 0;
    for (number, pair) in pairs.iter().enumerate().skip(1) {
        // First what must not be taken: torn, mismatched, garbage, nothing.
        let bad = [
            (&pair.certificate[..pair.certificate.len() / 2], pair.key.as_str()),
            (pair.certificate.as_str(), pairs[number - 1].key.as_str()),
            ("garbage", "garbage"),
            ("", ""),
        ];
        let (certificate, key) = bad[number % bad.len()];
        generation += 1;
        mount(dir.path(), generation, certificate, key);
        let failures = r#"jobgate_reloads_total{file="certificate",result="failure"}"#;
        for _ in 0..500 {
            if metrics.text().contains(&format!("{failures} {number}\n")) {
                break;
            }
            sleep(ms(5)).await;
        }
        assert!(metrics.text().contains(&format!("{failures} {number}\n")));
        let mut client = server
            .try_connect(client_tls(&pairs[number - 1].ca, None))
            .await
            .expect("the last good one is served");
        assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
        generation += 1;
        mount(dir.path(), generation, &pair.certificate, &pair.key);
        let mut taken = false;
        for _ in 0..500 {
            taken = server.try_connect(client_tls(&pair.ca, None)).await.is_ok();
            if taken {
                break;
            }
            sleep(ms(5)).await;
        }
        assert!(taken, "pair {number} is served");
    }
    ended.store(true, Ordering::SeqCst);
    load.join_all().await;
    assert!(answered.load(Ordering::SeqCst) > 50);
    assert!(
        metrics.text().contains("jobgate_reloads_total{file=\"certificate\",result=\"success\"} 6\n"),
        "{}",
        metrics.text()
    );
}

#[tokio::test]
async fn without_a_certificate_nothing_is_served_and_nobody_is_sent() {
    let server = start(|config| config.identity = Arc::new(Identity::empty(&Metrics::new()))).await;
    assert!(server.try_connect(server.tls()).await.is_err());
    assert_eq!(server.probe("/readyz").await, (503, "failed certificate: not loaded\nok running\n".into()));
    assert_eq!(server.probe("/healthz").await.0, 200);
    let made = Development::generate().unwrap();
    server.identity.replace(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    assert_eq!(server.probe("/readyz").await.0, 200);
    assert!(server.try_connect(client_tls(&made.ca, None)).await.is_ok());
}

/// Runs `jobgate serve` with a certificate for `localhost`, and returns how it ended; without a code if it
/// had to be ended.
fn serve_with(
    arguments: &[&str],
    change: impl FnOnce(&mut rcgen::CertificateParams),
) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| dir.path().join(name));
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    change(&mut params);
    let pair = rcgen::KeyPair::generate().unwrap();
    std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    std::fs::write(&key, pair.serialize_pem()).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command
        .args(["serve", "--claims=off", "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--tls-cert"])
        .arg(certificate);
    let mut process = command
        .arg("--tls-key")
        .arg(key)
        .args(arguments)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while process.try_wait().unwrap().is_none() && Instant::now() < patience {
        std::thread::sleep(ms(10));
    }
    process.kill().unwrap();
    let output = process.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_certificate_that_the_api_server_would_not_accept_stops_the_start() {
    let (code, said) = serve_with(&["--tls-server-name", "jobgate.jobgate.svc"], |_| {});
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains(
            "the certificate is for localhost, not for jobgate.jobgate.svc, which the API server calls"
        ),
        "{said}"
    );
    let (code, said) = serve_with(&[], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is not for servers") && said.contains("serverAuth"), "{said}");
    let (code, said) = serve_with(&[], |params| params.subject_alt_names.clear());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("subjectAltName"), "{said}");
    let (code, said) = serve_with(&["--tls-server-name", "jobgate.jobgate.svc:443"], |_| {});
    assert_eq!((code, said.contains("without a port")), (Some(2), true), "{said}");
}

/// Makes a client certificate under an authority of its own, and returns both with the key.
fn client_pair() -> (String, String, String) {
    let (authority, mut pairs) = client_pairs(&[("", "kube-apiserver")]);
    let (certificate, key) = pairs.remove(0);
    (authority, certificate, key)
}

/// Makes client certificates under one authority, each with a common name and a DNS name or URI.
fn client_pairs(names: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let sign = |(common_name, name): &(&str, &str)| {
        let mut client = rcgen::CertificateParams::default();
        client.distinguished_name = rcgen::DistinguishedName::new();
        client.distinguished_name.push(rcgen::DnType::CommonName, *common_name);
        let text = (*name).try_into().unwrap();
        client.subject_alt_names =
            vec![if name.contains(':') { rcgen::SanType::URI(text) } else { rcgen::SanType::DnsName(text) }];
        client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        (client.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    (authority, names.iter().map(sign).collect())
}

#[tokio::test]
async fn of_an_authoritys_clients_only_those_with_a_name_are_let_in() {
    let (authority, clients) = client_pairs(&[
        ("kube-apiserver", "other.example"),
        ("somebody", "API.example"),
        ("somebody", "spiffe://cluster/apiserver"),
        ("system:node:a", "node-a.example"),
        ("kube-apiserver2", "kube-apiserver.example"),
    ]);
    let names = ["kube-apiserver", "api.example", "spiffe://cluster/apiserver"].map(str::to_owned);
    let authorities = Authorities::default().naming(names.to_vec());
    authorities.replace(authority.as_bytes()).unwrap();
    let server = start(|config| config.clients = Some(Arc::new(authorities))).await;
    let ask = async |(certificate, key): &(String, String)| {
        let mut client = server.try_connect(client_tls(&server.ca, Some((certificate, key)))).await?;
        Ok::<_, io::Error>(client.post("/mutate", "{}").await?.status)
    };
    for known in &clients[..3] {
        assert_eq!(ask(known).await.unwrap(), 200);
    }
    for stranger in &clients[3..] {
        ask(stranger).await.unwrap_err();
    }
    server.until_metric(r#"jobgate_handshake_errors_total{cause="client-certificate"}"#, 2.0).await;
}

#[tokio::test]
async fn client_certificates_are_checked() {
    let (known, certificate, key) = client_pair();
    let (stranger, other_certificate, other_key) = client_pair();
    let authorities = Arc::new(Authorities::default());
    authorities.replace(known.as_bytes()).unwrap();
    let shared = authorities.clone();
    let server = start(|config| config.clients = Some(shared)).await;
    let ask = async |own: Option<(&str, &str)>| {
        let mut client = server.try_connect(client_tls(&server.ca, own)).await?;
        Ok::<_, io::Error>(client.post("/mutate", "{}").await?.status)
    };
    assert_eq!(ask(Some((&certificate, &key))).await.unwrap(), 200);
    ask(None).await.unwrap_err();
    ask(Some((&other_certificate, &other_key))).await.unwrap_err();
    assert_eq!(server.metric(r#"jobgate_handshake_errors_total{cause="client-certificate"}"#), 2.0);
    authorities.replace(b"garbage").unwrap_err();
    assert_eq!(ask(Some((&certificate, &key))).await.unwrap(), 200);
    authorities.replace(format!("{known}{stranger}").as_bytes()).unwrap();
    assert_eq!(ask(Some((&other_certificate, &other_key))).await.unwrap(), 200);
    authorities.replace(stranger.as_bytes()).unwrap();
    ask(Some((&certificate, &key))).await.unwrap_err();
}

#[tokio::test]
async fn tokens_are_checked_before_the_body() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "secret\n").unwrap();
    let (tokens, _follower) = Tokens::from_file(path.clone(), ms(10), &Metrics::new()).await.unwrap();
    let server = start(|config| config.tokens = Some(tokens)).await;
    let ask = async |token: &str| {
        let mut client = server.connect().await;
        client
            .send(
                request("/mutate", "{}").replace("host:", &format!("authorization: Bearer {token}\r\nhost:")),
            )
            .await
            .unwrap();
        client.reply().await.unwrap().status
    };
    assert_eq!(ask("secret").await, 200);
    assert_eq!(ask("secre").await, 401);
    let mut client = server.connect().await;
    client.send("POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n").await.unwrap();
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, reply.head.contains("www-authenticate: bearer")), (401, true));
    std::fs::write(&path, "new").unwrap();
    for _ in 0..500 {
        if ask("new").await == 200 {
            break;
        }
        sleep(ms(5)).await;
    }
    assert_eq!((ask("new").await, ask("secret").await), (200, 401));
}

#[tokio::test]
async fn http_2_is_spoken_only_when_asked_for() {
    for offered in [false, true] {
        let server = start(|config| config.http2 = offered).await;
        let mut tls = server.tls();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = server.try_connect(tls).await.unwrap();
        let agreed = client.stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if !offered {
            assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
            assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
            continue;
        }
        assert_eq!(agreed.as_deref(), Some(&b"h2"[..]));
        let io = hyper_util::rt::TokioIo::new(client.stream);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await.unwrap();
        let connection = tokio::spawn(connection);
        let ask = |body: String| {
            let mut sender = sender.clone();
            async move {
                let request = http::Request::post("https://localhost/validate?timeout=2s")
                    .header("content-type", "application/json");
                let response = sender.send_request(request.body(body).unwrap()).await.unwrap();
                (response.status().as_u16(), response.headers().contains_key("connection"))
            }
        };
        let many = futures::future::join_all((0..20).map(|_| ask("{}".into()))).await;
        assert!(many.iter().all(|answer| *answer == (200, false)), "{many:?}");
        // A drain tells the client by a frame, and what is under way is answered.
        let slow = tokio::spawn(ask(order("linger")));
        server.until_metric("jobgate_reviews_in_flight", 1.0).await;
        server.stop.send_replace(Stop::Drain);
        assert_eq!(slow.await.unwrap(), (200, false));
        timeout(Duration::from_secs(5), server.task).await.unwrap().unwrap();
        let _ = timeout(Duration::from_secs(5), connection).await.expect("the server ends the connection");
    }
}

#[tokio::test]
async fn http_2_connections_have_an_idle_time_too() {
    let server = start(|config| (config.http2, config.limits.idle) = (true, ms(1000))).await;
    let mut tls = server.tls();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let io = hyper_util::rt::TokioIo::new(server.try_connect(tls).await.unwrap().stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post("https://localhost/validate")
        .header("content-type", "application/json")
        .body(order("linger"))
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    assert!(!connection.is_finished());
    timeout(Duration::from_secs(5), connection)
        .await
        .expect("the server ends the connection")
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_loses_nothing() {
    let server =
        start(|config| (config.limits.drain_accept, config.limits.first_request) = (ms(2000), ms(2000)))
            .await;
    let (address, ca) = (server.address, server.ca.clone());
    let draining = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    for _ in 0..8 {
        let (tls, draining) = (Arc::new(client_tls(&ca, None)), draining.clone());
        load.spawn(async move {
            let (mut answered, mut after) = (0, 0);
            'connections: loop {
                let Ok(stream) = TcpStream::connect(address).await else { break };
                let name = ServerName::try_from("localhost").unwrap();
                let stream = match TlsConnector::from(tls.clone()).connect(name, stream).await {
                    Ok(stream) => stream,
                    // Between the last accept and the end of the listener the system may still have taken it
                    // in.
                    Err(error) => return (answered, after, Some(format!("handshake: {error}"))),
                };
                let mut client = Client { stream, buffer: Vec::new() };
                loop {
                    let told = draining.load(Ordering::SeqCst);
                    let reply = match client.post("/mutate", "{}").await {
                        Ok(reply) => reply,
                        Err(error) => return (answered, after, Some(format!("review: {error}"))),
                    };
                    assert_eq!(reply.status, 200);
                    answered += 1;
                    if reply.closes() {
                        after += 1;
                        continue 'connections;
                    }
                    assert!(!told, "every answer during a drain says that it is the last");
                    sleep(ms(2)).await;
                }
            }
            (answered, after, None)
        });
    }
    let mut idle = server.connect().await;
    idle.post("/mutate", "{}").await.unwrap();
    sleep(ms(200)).await;
    assert_eq!(server.probe("/readyz").await.0, 200);
    server.stop.send_replace(Stop::Drain);
    for _ in 0..2000 {
        if server.probe("/readyz").await.0 == 503 {
            break;
        }
        sleep(ms(1)).await;
    }
    sleep(ms(400)).await;
    draining.store(true, Ordering::SeqCst);
    assert_eq!(server.probe("/readyz").await, (503, "ok certificate\nfailed running: stopping\n".into()));
    let mut slow = server.connect().await;
    sleep(ms(500)).await;
    // Under way when the listener closes.
    slow.send(request("/mutate", &order("linger"))).await.unwrap();
    idle.closed().await;
    let reply = slow.reply().await.unwrap();
    assert_eq!((reply.status, reply.closes()), (200, true));
    timeout(Duration::from_secs(10), server.task).await.unwrap().unwrap();
    for (answered, after, error) in load.join_all().await {
        assert!(answered > 20 && after > 5, "{answered} answers, {after} in the drain");
        assert!(error.as_deref().is_none_or(|error| error.starts_with("handshake")), "{error:?}");
    }
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn a_connection_made_at_the_last_moment_is_served() {
    let server = start(|config| config.limits.first_request = ms(5000)).await;
    let mut client = server.connect().await;
    server.until_metric("jobgate_connections", 1.0).await;
    server.stop.send_replace(Stop::Drain);
    sleep(ms(100)).await;
    let reply = client.post("/mutate", "{}").await.unwrap();
    assert_eq!((reply.status, reply.closes()), (200, true));
    timeout(Duration::from_secs(5), server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_drain_has_an_end() {
    let server = start(|config| config.limits.drain = ms(200)).await;
    let mut client = server.connect().await;
    client.send(request("/mutate", &order("hang"))).await.unwrap();
    server.until_metric("jobgate_reviews_in_flight", 1.0).await;
    server.stop.send_replace(Stop::Drain);
    timeout(ms(5000), server.task).await.expect("not longer than it may take").unwrap();
    assert!(client.reply().await.is_err());
}

#[tokio::test]
async fn a_second_order_stops_at_once() {
    let server = start(|config| config.limits.drain_accept = Duration::from_secs(60)).await;
    server.stop.send_replace(Stop::Drain);
    sleep(ms(50)).await;
    assert!(!server.task.is_finished());
    server.stop.send_replace(Stop::Now);
    timeout(ms(5000), server.task).await.expect("at once").unwrap();
}

#[tokio::test]
async fn the_second_port() {
    let server = start(|_| {}).await;
    assert_eq!(server.probe("/healthz").await, (200, "ok\n".into()));
    assert_eq!(server.probe("/readyz").await, (200, "ok certificate\nok running\n".into()));
    assert_eq!(server.probe("/mutate").await.0, 404);
    let loaded = Arc::new(AtomicBool::new(false));
    let check = loaded.clone();
    server.readiness.require("claims", move || {
        if check.load(Ordering::SeqCst) { Ok(()) } else { Err("not synced".into()) }
    });
    assert_eq!(
        server.probe("/readyz").await,
        (503, "ok certificate\nok running\nfailed claims: not synced\n".into())
    );
    loaded.store(true, Ordering::SeqCst);
    assert_eq!(server.probe("/readyz").await.0, 200);

    server.connect().await.post("/mutate", "{}").await.unwrap();
    let (status, text) = server.probe("/metrics").await;
    assert_eq!(status, 200);
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines() {
        if line == "# EOF"
            || line.starts_with("# HELP jobgate_")
            || line.starts_with("# TYPE jobgate_")
            || line.starts_with("# UNIT jobgate_")
        {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(series.starts_with("jobgate_"), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(series.to_owned()), "{line} comes twice");
        if let Some((name, labels)) = series.split_once('{') {
            assert!(!name.is_empty() && labels.ends_with("\"}"), "{line}");
        }
    }
    assert!(text.ends_with("# EOF\n"));
    let first = text
        .find("jobgate_review_duration_seconds_bucket{le=\"0.00005\"")
        .or_else(|| text.find("le=\"5e-5\""));
    assert!(first.is_some(), "{text}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error() {
    let server = start(|_| {}).await;
    let metrics = Metrics::new();
    let config = Config {
        address: server.address,
        probe_address: ([127, 0, 0, 1], 0).into(),
        identity: server.identity.clone(),
        clients: None,
        tokens: None,
        http2: false,
        readiness: Readiness::default(),
        limits: Limits::default(),
    };
    let error = Server::bind(config, metrics).await.unwrap_err();
    assert_eq!(error.to_string(), format!("listen on {}", server.address));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_body_that_computes_without_end_is_stopped_at_its_deadline() {
    let server = start(|_| {}).await;
    let (mut churning, mut ordinary) = (server.connect().await, server.connect().await);
    let churn =
        tokio::spawn(async move { churning.post("/mutate?timeout=2s", &order("churn")).await.unwrap() });
    for _ in 0..20 {
        let reply = timeout(Duration::from_secs(1), ordinary.post("/mutate?timeout=2s", "{}"))
            .await
            .expect("others are answered")
            .unwrap();
        assert_eq!(reply.status, 200);
    }
    assert_eq!(churn.await.unwrap().body, r#"{"fault":"deadline"}"#);
    let ended = async {
        while CHURNING.load(Ordering::SeqCst) > 0 {
            sleep(ms(5)).await;
        }
    };
    timeout(Duration::from_secs(5), ended).await.expect("after the answer no work goes on");
    assert_eq!(server.metric(r#"jobgate_faults_total{cause="deadline"}"#), 1.0);
}
