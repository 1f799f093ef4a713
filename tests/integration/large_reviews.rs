//! Memory of `jobgate serve` under the worst that clients do at the same time: the most costly reviews that
//! an API server lets through, large bodies held by several sources, bodies without an end, in crumbs and in
//! trickles. The memory limit of the manifests must hold, and ordinary reviews must be answered all the time.
//!
//! `JOBGATE_ROUNDS=50` makes it a long run; a round is five seconds.
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobgate::text::value::{Value, json};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

/// Most costly reviews at once, from one source.
const COSTLY: usize = 4;
/// Sources that attack, and connections of each that hold a body of 31 of 32 MiB.
const ATTACKERS: u8 = 6;
const HELD: usize = 6;
/// How long each waits before it begins again: it is their memory that is tried here, and not the processors
/// of the machine.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long an API server waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

type Stream = StreamOwned<ClientConnection, TcpStream>;
/// How often each status was the answer; 0 is none at all.
type Statuses = BTreeMap<u16, usize>;

/// A `jobgate serve --dev`; it ends when this is dropped.
struct Server {
    child: Child,
    port: u16,
    metrics_port: u16,
    tls: Arc<ClientConfig>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Self {
        Self::logging("error", Stdio::null()).0
    }

    /// Starts it with a level of log, and returns with it what it says before it serves.
    fn logging(level: &str, log: Stdio) -> (Self, String) {
        // Nothing says which port it was given, so one that was free a moment ago is asked for.
        let metrics_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        command.args(["serve", "--dev", "--claims=off", "--listen=127.0.0.1:0"]);
        command.arg(format!("--log={level}"));
        command.arg(format!("--metrics-listen=127.0.0.1:{metrics_port}"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (mut pem, mut port) = (String::new(), None);
        let mut said = BufReader::new(child.stdout.take().unwrap());
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
            port = port.or_else(|| {
                line.split("https://localhost:")
                    .nth(1)?
                    .split(|char: char| !char.is_ascii_digit())
                    .next()?
                    .parse()
                    .ok()
            });
            pem += &line;
            // The last it says.
            if line.starts_with("kubectl delete") {
                break;
            }
        }
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Self { child, port: port.unwrap(), metrics_port, tls: Arc::new(tls) }, pem)
    }

    /// Connects from one of the addresses of the loopback interface.
    fn connect(&self, source: u8) -> io::Result<Stream> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from(([127, 0, 2, source], 0)).into())?;
        socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)).into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(2 * TIMEOUT))?;
        stream.set_write_timeout(Some(2 * TIMEOUT))?;
        let name = ServerName::try_from("localhost").unwrap();
        Ok(StreamOwned::new(ClientConnection::new(Arc::clone(&self.tls), name).unwrap(), stream))
    }

    /// Begins a request from a source, lets `send` send its body, and returns the status of the answer.
    fn request(
        &self,
        source: u8,
        path: &str,
        framing: &str,
        send: impl FnOnce(&mut Stream) -> io::Result<()>,
    ) -> io::Result<u16> {
        let mut stream = self.connect(source)?;
        write!(
            stream,
            "POST {path}?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
        )?;
        // The answer may come before all is sent.
        let sent = send(&mut stream);
        let mut head = [0; 12];
        stream.read_exact(&mut head).map_err(|error| sent.err().unwrap_or(error))?;
        std::str::from_utf8(&head[9..]).unwrap().parse().map_err(io::Error::other)
    }

    /// Posts a review and returns the status of the answer.
    fn post(&self, source: u8, path: &str, body: &str) -> io::Result<u16> {
        self.request(source, path, &format!("Content-Length: {}", body.len()), |stream| {
            stream.write_all(body.as_bytes())
        })
    }

    /// Returns the lines of its metrics that begin with one of these words and are above zero.
    fn counted(&self, words: &[&str]) -> Vec<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.metrics_port)).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let counted = |line: &&str| words.iter().any(|word| line.starts_with(word)) && !line.ends_with(" 0");
        text.lines().filter(counted).map(str::to_owned).collect()
    }

    /// Returns the most resident memory it has had, in MiB.
    fn peak(&self) -> u64 {
        self.kibibytes("VmHWM:") >> 10
    }

    fn kibibytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }
}

/// An update of a Job with as many environment variables as fit into 3 MiB, before and after.
fn costly() -> String {
    let variables: Vec<Value> =
        (0..120_000).map(|i| json!({"name": format!("V{i}"), "value": "x"})).collect();
    let object = job(&json!({"name": "a", "image": "registry.example.com/a:1", "env": variables}));
    review("UPDATE", &object, &object)
}

/// A new Job of about this size.
fn ordinary(bytes: usize) -> String {
    let object = job(&json!({"name": "a", "image": "registry.example.com/a:1", "args": ["x".repeat(bytes)]}));
    review("CREATE", &object, &Value::Null)
}

fn job(container: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "large", "namespace": "team"},
        "spec": {"activeDeadlineSeconds": 60, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    })
}

fn review(operation: &str, object: &Value, old: &Value) -> String {
    let request = json!({
        "uid": "0b5bd3ee-8d25-4a26-9f5d-6b2c5e1b6f0a", "operation": operation, "name": "large", "namespace": "team",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"}, "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "userInfo": {"username": "somebody"}, "object": object, "oldObject": old,
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
}

/// Does something again and again until a time, with a pause after each, and counts what came of it.
fn repeat(until: Instant, pause: Duration, mut once: impl FnMut() -> io::Result<u16>) -> Statuses {
    let mut statuses = Statuses::new();
    while Instant::now() < until {
        *statuses.entry(once().unwrap_or_default()).or_default() += 1;
        std::thread::sleep(pause);
    }
    statuses
}

/// Sends bytes at once until the server has enough, or `most` are sent.
fn flood(stream: &mut Stream, piece: &[u8], most: usize) -> io::Result<()> {
    for _ in 0..most / piece.len() {
        stream.write_all(piece)?;
    }
    stream.flush()
}

#[test]
fn the_memory_limit_holds_under_the_worst_mix() {
    let limit = crate::support::deploy::install().memory_limit() as u64;

    let rounds: u32 = std::env::var("JOBGATE_ROUNDS").map_or(3, |text| text.parse().unwrap());
    let (server, body) = (&Server::start(), &costly());
    let until = Instant::now() + rounds * Duration::from_secs(5);
    let (small, sixty) = (&ordinary(8 << 10), &ordinary(60 << 10));
    assert!(
        server.post(1, "/validate", small).unwrap() == 200
            && server.post(1, "/mutate", sixty).unwrap() == 200
    );

    let mut slowest = Duration::ZERO;
    let mut all: BTreeMap<&str, Statuses> = BTreeMap::new();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut start = |what: &'static str, once: Box<dyn FnMut() -> io::Result<u16> + Send>| {
            threads.push((what, scope.spawn(move || repeat(until, BETWEEN, once))));
        };
        for i in 0..COSTLY {
            start("costly", Box::new(move || server.post(2, ["/mutate", "/validate"][i % 2], body)));
        }
        for source in 10..10 + ATTACKERS {
            for _ in 0..HELD {
                let hold = move || {
                    server.request(source, "/validate", "Content-Length: 33554432", |stream| {
                        flood(stream, &[b' '; 16384], 31 << 20)
                    })
                };
                start("held", Box::new(hold));
            }
            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
            let endless = move || {
                server.request(source, "/mutate", "Transfer-Encoding: chunked", |stream| {
                    flood(stream, chunk.as_bytes(), 100 << 20)
                })
            };
            start("endless", Box::new(endless));
            let trickle = move || {
                server.request(source, "/validate", "Content-Length: 65536", |stream| {
                    (0..100).try_for_each(|_| {
                        std::thread::sleep(Duration::from_millis(100));
                        stream.write_all(b" ").and_then(|()| stream.flush())
                    })
                })
            };
            start("trickle", Box::new(trickle));
        }
        let crumbs = "1\r\n \r\n".repeat(4096);
        start(
            "crumbs",
            Box::new(move || {
                server.request(20, "/validate", "Transfer-Encoding: chunked", |s| {
                    flood(s, crumbs.as_bytes(), 8 << 20)
                })
            }),
        );
        let mut calls = 0;
        let slowest = &mut slowest;
        let ordinary = scope.spawn(move || {
            repeat(until, Duration::from_millis(20), || {
                calls += 1;
                let start = Instant::now();
                let status =
                    server.post(1, ["/mutate", "/validate"][calls % 2], [small, sixty][calls / 2 % 2]);
                *slowest = start.elapsed().max(*slowest);
                status
            })
        });
        for (what, thread) in threads {
            for (status, count) in thread.join().unwrap() {
                *all.entry(what).or_default().entry(status).or_default() += count;
            }
        }
        all.insert("ordinary", ordinary.join().unwrap());
    });
    let counted = server.counted(&[
        "jobgate_shed_total",
        "jobgate_bodies_ended_total",
        "jobgate_requests_rejected_total",
        "jobgate_reviews_total",
    ]);
    println!("{}", counted.join("\n"));
    println!(
        "{} MiB at most of {limit}; slowest ordinary review {slowest:?}; answers by status (0: none): {all:?}",
        server.peak()
    );
    assert!(server.peak() < limit, "{} MiB of {limit}", server.peak());
    let ordinary = &all["ordinary"];
    assert!(ordinary.keys().eq([&200]) && ordinary[&200] > 10, "{ordinary:?}");
    assert!(all["costly"].keys().all(|status| [200, 408, 429].contains(status)), "{all:?}");
    for cause in ["slow", "pieces"] {
        assert!(counted.iter().any(|line| line.contains(cause)), "{cause}: {counted:?}");
    }
    // A machine with much else to do may put off all that come at once; one that comes alone is judged.
    assert!((0..20).any(|_| server.post(1, "/validate", body).is_ok_and(|status| status == 200)));
}

/// What `Limits::memory_ceiling` allows for each, of which there may be 1,024.
#[test]
fn a_connection_takes_little_memory() {
    const CONNECTIONS: u64 = 200;
    let (server, body) = (Server::start(), ordinary(50 << 10));
    let fields = format!("X-Filler: {}\r\nContent-Length: {}", "x".repeat(15 << 10), body.len());
    let open = || {
        let mut stream = server.connect(1).unwrap();
        let path = "/validate?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json";
        write!(stream, "POST {path}\r\n{fields}\r\n\r\n{body}").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head[9..], b"200");
        stream
    };
    let first: Vec<Stream> = (0..20).map(|_| open()).collect();
    let before = server.kibibytes("VmRSS:");
    let more: Vec<Stream> = (0..CONNECTIONS).map(|_| open()).collect();
    let each = server.kibibytes("VmRSS:").saturating_sub(before) / CONNECTIONS;
    println!("{each} KiB for each connection that has served a review");
    assert!(each <= 64, "{each} KiB");
    drop((first, more));
}

/// What a review may take goes by its weight, so the weight must be more than what it takes.
#[test]
fn a_review_takes_no_more_memory_than_it_weighs() {
    let pad = |item: &str| format!("[{}]", vec![item; (1 << 20) / (item.len() + 1)].join(","));
    let shaped = |template: Value, item: &str| {
        let mut object = job(&json!({"name": "a", "image": "registry.example.com/a:1"}));
        object["spec"]["template"]["spec"]["tolerations"] = template;
        review("UPDATE", &object, &object).replace("\"PAD\"", &pad(item))
    };
    for item in [r#"{"":0}"#, "[0]", "0", "{}", r#"{"key":"a"}"#, r#""""#] {
        let body = shaped(json!("PAD"), item);
        let server = Server::start();
        assert_eq!(server.post(1, "/mutate", &ordinary(8 << 10)).unwrap(), 200);
        let before = server.peak();
        let status = (0..5).map(|_| server.post(1, "/mutate", &body).unwrap()).find(|status| *status == 200);
        assert_eq!(status, Some(200), "{item}");
        let took = (server.peak() - before) << 20;
        // The body comes on top of it: its buffer, and the one before that while it grows.
        let allowed = (jobgate::admission::weight(body.as_bytes()) + 2 * body.len()) as u64;
        println!("{item}: {} of {} MiB", took >> 20, allowed >> 20);
        assert!(took <= allowed + allowed / 8, "{item}: {took} of {allowed}");
    }
}

/// Who looks for a denial knows the user and the operation, not the moment.
#[test]
fn a_denial_is_logged_with_who_asked_for_what() {
    let (mut server, said) = Server::logging("info", Stdio::piped());
    assert!(said.contains("PyTorchJob") && !said.contains("HyperPod"), "kinds without a known CRD: {said}");
    let review = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u",
        "kind":{"group":"batch","version":"v1","kind":"Job"},"operation":"CREATE","namespace":"n","dryRun":true,
        "userInfo":{"username":"alice"},"object":{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},
        "spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"name":"a","image":"i"}]}}}}}}"#;
    assert_eq!(server.post(1, "/validate", review).unwrap(), 200);
    // The line is written behind the answer.
    std::thread::sleep(Duration::from_millis(200));
    server.child.kill().unwrap();
    let mut log = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    let line =
        log.lines().find(|line| line.ends_with("denied") || line.contains("restart-policy")).expect("a line");
    for field in ["operation=\"CREATE\"", "user=\"alice\"", "dry_run=true"] {
        assert!(line.contains(field), "{field}: {line}");
    }
}
