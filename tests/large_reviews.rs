//! Memory of `jobgate serve` under the most costly reviews that an API server lets through, several at once. The memory limit of the manifests must hold.
//!
//! `JOBGATE_ROUNDS=50` makes it a long run.
#![cfg(all(feature = "serve", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests; what was measured is printed")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jobgate::value::{Value, json};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

const AT_ONCE: usize = 4;

/// A `jobgate serve --dev`; it ends when this is dropped.
struct Server {
    child: Child,
    port: u16,
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        command.args(["serve", "--dev", "--claims=off", "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--log=error"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut pem, mut port) = (String::new(), None);
        let mut said = BufReader::new(child.stdout.take().unwrap());
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
            port = port.or_else(|| line.split("https://localhost:").nth(1)?.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok());
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
        Self { child, port: port.unwrap(), tls: Arc::new(tls) }
    }

    /// Posts a review and returns the status of the answer.
    fn post(&self, path: &str, body: &str) -> u16 {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(&self.tls), name).unwrap(), stream);
        let length = body.len();
        write!(stream, "POST {path}?timeout=3s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
            .unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
    }

    /// Returns the most resident memory it has had, in MiB.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }
}

/// An update of a Job with as many environment variables as fit into 3 MiB, before and after.
fn costly() -> String {
    let variables: Vec<Value> = (0..120_000).map(|i| json!({"name": format!("V{i}"), "value": "x"})).collect();
    let container = json!({"name": "a", "image": "registry.example.com/a:1", "env": variables});
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "large", "namespace": "team"},
        "spec": {"activeDeadlineSeconds": 60, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    });
    let request = json!({
        "uid": "0b5bd3ee-8d25-4a26-9f5d-6b2c5e1b6f0a", "operation": "UPDATE", "name": "large", "namespace": "team",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"}, "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "userInfo": {"username": "somebody"}, "object": object, "oldObject": object,
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
}

#[test]
fn the_memory_limit_holds_under_the_most_costly_reviews() {
    let text = include_str!("../deploy/install.yaml");
    let objects = jobgate::yaml::documents(text.as_bytes()).map(|document| document.unwrap().value);
    let deployment = objects.into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let limit: u64 = container["resources"]["limits"]["memory"].as_str().unwrap().strip_suffix("Mi").unwrap().parse().unwrap();

    let rounds: usize = std::env::var("JOBGATE_ROUNDS").map_or(2, |text| text.parse().unwrap());
    let (server, body) = (Server::start(), costly());
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let one = |i: usize| (0..rounds).map(|_| server.post(["/mutate", "/validate"][i % 2], &body)).collect::<Vec<_>>();
        let all: Vec<_> = (0..AT_ONCE).map(|i| scope.spawn(move || one(i))).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let judged = statuses.iter().filter(|status| **status == 200).count();
    // A machine with much else to do may put off all that come at once; one that comes alone is judged.
    let alone = (0..20).any(|_| server.post("/validate", &body) == 200);
    println!(
        "{AT_ONCE} at once of {} MB, {rounds} rounds: {judged} judged, {} put off, {} MiB at most",
        body.len() / 1_000_000,
        statuses.len() - judged,
        server.peak()
    );
    assert!(alone && statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!(server.peak() < limit, "{} MiB of {limit}", server.peak());
    // Ordinary ones go on, once the last of the others has given its memory back.
    let ordinary = body.replace(",\"value\":\"x\"", "").replace("UPDATE", "DELETE");
    assert!((0..20).any(|_| server.post("/validate", &ordinary) == 200));
}
