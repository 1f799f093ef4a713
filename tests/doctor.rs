//! The doctor and an API server that forbids, hangs, lies, and forwards ports.
#![cfg(feature = "serve")]
#![allow(clippy::unwrap_used, reason = "the fake API server is part of the tests")]

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use http::{Request, Response};
use jobgate::certs::Names;
use jobgate::certs::authority::Authority;
use jobgate::cluster::{self, Connection};
use jobgate::doctor::observe::{Options, observe};
use jobgate::doctor::observed::{Observed, Place};
use jobgate::doctor::{Examination, Status, examine};
use kube::Client;
use kube::client::Body;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// What the fake API server does with a request.
enum Answer {
    Hang,
    Reset,
    Reply(u16, String),
}

fn ok(body: &Value) -> Answer {
    Answer::Reply(200, body.to_string())
}

fn status(code: u16, reason: &str) -> Answer {
    Answer::Reply(code, json!({"kind": "Status", "reason": reason, "code": code}).to_string())
}

fn options() -> Options {
    Options { place: Place::default(), canary: true, timeout: Duration::from_secs(5) }
}

/// Looks at what a script answers to each method and path, and returns what was asked, too.
async fn look(script: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> (Observed, Vec<String>) {
    let diary: Arc<Mutex<Vec<String>>> = Arc::default();
    let (script, seen) = (Arc::new(script), Arc::clone(&diary));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, uri) = (request.method().to_string(), request.uri().to_string());
        seen.lock().unwrap().push(format!("{method} {uri}"));
        let answer = script(&method, &uri);
        async move {
            match answer {
                Answer::Hang => std::future::pending().await,
                Answer::Reset => Err::<_, tower::BoxError>("connection reset".into()),
                Answer::Reply(code, body) => Ok(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap()),
            }
        }
    });
    let connection = Connection { client: Client::new(service, "default"), server: "https://fake".to_owned() };
    let observed = observe(&connection, &options()).await;
    let diary = diary.lock().unwrap().clone();
    (observed, diary)
}

fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
}

fn status_of(examination: &Examination, id: &str) -> Status {
    examination.outcomes.iter().find(|outcome| outcome.id == id).unwrap().status
}

#[tokio::test]
async fn what_is_forbidden_is_not_checked_and_says_what_it_takes() {
    let (observed, diary) = look(|_, uri| if uri == "/version" { ok(&version()) } else { status(403, "Forbidden") }).await;
    let examination = examine(&observed);
    for outcome in &examination.outcomes {
        let expected = if outcome.id == "api-server" { Status::Ok } else { Status::NotChecked };
        assert_eq!(outcome.status, expected, "{outcome:?}");
    }
    for needs in [
        "get mutatingwebhookconfigurations/jobgate",
        "get secrets/jobgate-tls in the namespace jobgate",
        "list pods in the namespace jobgate",
        "get configmaps/jobgate-policy in the namespace jobgate",
        "create subjectaccessreviews",
        "get the path /metrics",
    ] {
        assert!(examination.outcomes.iter().any(|outcome| outcome.finding.contains(needs)), "{needs}");
    }
    assert!(!diary.is_empty());
}

#[tokio::test]
async fn nothing_is_changed() {
    let (_, diary) = look(|_, uri| if uri == "/version" { ok(&version()) } else { status(404, "NotFound") }).await;
    for request in &diary {
        let harmless = request.starts_with("GET ")
            || request == "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
            || (request.starts_with("POST /apis/batch/v1/namespaces/default/jobs?") && request.contains("dryRun=All"));
        assert!(harmless, "{request}");
    }
    assert_eq!(diary.iter().filter(|request| request.contains("dryRun=All")).count(), 2);
}

#[tokio::test]
async fn an_empty_cluster_has_no_webhook() {
    let (observed, _) = look(|_, uri| if uri == "/version" { ok(&version()) } else { status(404, "NotFound") }).await;
    let examination = examine(&observed);
    for id in ["configurations", "namespace", "replicas", "certificate-secret", "service", "policy"] {
        assert_eq!(status_of(&examination, id), Status::Problem, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_is_not_waited_for() {
    let began = Instant::now();
    let (observed, _) = look(|_, uri| if uri == "/version" { ok(&version()) } else { Answer::Hang }).await;
    assert!(began.elapsed() <= 4 * options().timeout, "{:?}", began.elapsed());
    let examination = examine(&observed);
    assert!(examination.outcomes.iter().skip(1).all(|outcome| outcome.status <= Status::NotChecked), "{examination:#?}");
    assert_eq!(examination.count(Status::Ok), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_is_not_a_fault_of_the_installation() {
    let (observed, _) = look(|_, _| Answer::Reset).await;
    let examination = examine(&observed);
    assert_eq!(examination.status(), Status::NotChecked, "{examination:#?}");
    assert_eq!(examination.count(Status::Ok), 0);
}

#[tokio::test]
async fn garbage_is_never_fine() {
    let bodies = [
        "",
        "garbage",
        "null",
        "[]",
        "{}",
        "3",
        "\"x\"",
        "{\"items\": 3}",
        "{\"items\": [null, 3, {}]}",
        "{\"metadata\": {}}",
        "{\"metadata\": {}, \"webhooks\": 3}",
        "{\"metadata\": {}, \"webhooks\": [null, {}, {\"clientConfig\": {\"caBundle\": 3, \"service\": []}}], \"items\": [{\"webhooks\": {}}]}",
        "{\"metadata\": {}, \"spec\": [], \"status\": 3, \"data\": []}",
    ];
    for body in bodies {
        for code in [200, 201, 299, 400, 500] {
            let (observed, _) = look(move |_, _| Answer::Reply(code, body.to_owned())).await;
            let examination = examine(&observed);
            for id in [
                "target",
                "ca-bundle",
                "served-certificate",
                "certificate-secret",
                "replicas",
                "pods",
                "permissions",
                "policy",
                "canary-denied",
                "canary-filled",
            ] {
                assert_ne!(status_of(&examination, id), Status::Ok, "{id}: {code} {body}");
            }
        }
    }
}

/// A pod that serves a certificate, behind a fake API server that forwards its port over WebSocket.
struct Forwarding {
    url: String,
    bundle: String,
}

impl Forwarding {
    async fn start() -> Self {
        let (names, now, day) = (Names::new("jobgate", "jobgate").unwrap(), SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate(&names, now, 30 * day).unwrap();
        let leaf = authority.sign(&names, now, 7 * day).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(leaf.certificate_pem().as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let tls = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let bundle = base64::engine::general_purpose::STANDARD.encode(authority.root().pem());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let held = bundle.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, tls.clone(), held.clone()));
            }
        });
        Self { url, bundle }
    }
}

/// Answers one request of a connection.
async fn answer(mut stream: TcpStream, tls: tokio_rustls::TlsAcceptor, bundle: String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap();
    if path == "/api/v1/namespaces/jobgate/pods/jobgate-0/portforward?ports=10250" {
        assert!(head.contains("v4.channel.k8s.io"), "{head}");
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n",
            )
            .await
            .unwrap();
        let (pod, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { drop(tls.accept(pod).await) });
        return forward(stream, far).await;
    }
    let webhooks = |path: &str| {
        let client = json!({"service": {"namespace": "jobgate", "name": "jobgate", "path": path, "port": 443}, "caBundle": bundle});
        json!({"metadata": {"name": "jobgate"}, "webhooks": [{"name": path, "clientConfig": client}]})
    };
    if path == "/api/v1/namespaces/jobgate/pods/jobgate-0:8080/proxy/metrics" {
        let page = "# HELP x\njobgate_build_info{version=\"0.1.0\"} 1\njobgate_policy_info{name=\"default\",hash=\"94db1c48fb7b\"} 1\n# EOF\n";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
        let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
        return;
    }
    let body = match path {
        "/version" => version(),
        path if path.ends_with("mutatingwebhookconfigurations/jobgate") => webhooks("/mutate"),
        path if path.ends_with("validatingwebhookconfigurations/jobgate") => webhooks("/validate"),
        path if path.contains("/pods?") => json!({"metadata": {}, "items": [{"metadata": {"name": "jobgate-0"}, "status": {"phase": "Running"}}]}),
        _ => json!({"kind": "Status", "reason": "Forbidden"}),
    };
    let code = if body["kind"] == "Status" { "403 Forbidden" } else { "200 OK" };
    let body = body.to_string();
    let answer = format!("HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Speaks the API server's side of a port-forward.
async fn forward(stream: TcpStream, pod: DuplexStream) {
    let (mut from, mut to) = stream.into_split();
    let (mut from_pod, mut to_pod) = tokio::io::split(pod);
    tokio::spawn(async move {
        while let Ok(head) = from.read_u16().await {
            let length = match head & 0x7f {
                126 => usize::from(from.read_u16().await.unwrap()),
                length => usize::from(length),
            };
            let mut mask = [0; 4];
            from.read_exact(&mut mask).await.unwrap();
            let mut payload = vec![0; length];
            from.read_exact(&mut payload).await.unwrap();
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            if head >> 8 == 0x82 && payload[0] == 0 {
                to_pod.write_all(&payload[1..]).await.unwrap();
            }
        }
    });
    for channel in [0, 1] {
        to.write_all(&[0x82, 3, channel, 0x0a, 0x28]).await.unwrap();
    }
    let mut buffer = [0; 1000];
    while let Ok(count @ 1..) = from_pod.read(&mut buffer).await {
        let length = u16::try_from(count + 1).unwrap().to_be_bytes();
        if to.write_all(&[&[0x82, 126, length[0], length[1], 0][..], &buffer[..count]].concat()).await.is_err() {
            return;
        }
    }
}

fn kubeconfig(url: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(file.path(), config.to_string()).unwrap();
    file
}

#[tokio::test]
async fn the_certificate_of_a_pod_is_seen_through_the_api_server() {
    let server = Forwarding::start().await;
    let file = kubeconfig(&server.url);
    let connection = cluster::connection(Some(file.path()), None).await.unwrap();
    let mut observed = observe(&connection, &options()).await;
    let outcome = |observed: &Observed| {
        let all = examine(observed).outcomes;
        all.into_iter().find(|outcome| outcome.id == "served-certificate").unwrap()
    };
    let says = observed.replicas[0].says.known().unwrap();
    assert_eq!((says.version.as_str(), says.policy.as_str()), ("0.1.0", "94db1c48fb7b"), "and so are its metrics");
    let fine = outcome(&observed);
    assert_eq!(fine.status, Status::Ok, "{fine:?}");
    assert!(fine.finding.starts_with("pod jobgate-0: the certificate holds for 6 days"), "{fine:?}");
    // The same certificate, under a bundle of somebody else.
    let stranger = Authority::generate(&Names::new("jobgate", "jobgate").unwrap(), SystemTime::now(), Duration::from_secs(86_400)).unwrap();
    let text = serde_json::to_string(observed.mutating.known().unwrap()).unwrap();
    let strange = base64::engine::general_purpose::STANDARD.encode(stranger.root().pem());
    let text = text.replace(&server.bundle, &strange);
    observed.mutating = jobgate::doctor::observed::Seen::Known(serde_json::from_str(&text).unwrap());
    let bad = outcome(&observed);
    assert_eq!(bad.status, Status::Problem);
    assert!(bad.finding.contains("no authority in the caBundle of /mutate has signed"), "{bad:?}");
}

#[test]
fn without_a_cluster_it_could_not_run() {
    let run = |arguments: &[&str], url: &str| {
        let file = kubeconfig(url);
        let output = Command::new(env!("CARGO_BIN_EXE_jobgate")).arg("doctor").arg("--kubeconfig").arg(file.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, said) = run(&[], &format!("http://{free}"));
    assert!(code == Some(2) && said.contains("reach the API server"), "{code:?} {said}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let began = std::time::Instant::now();
    let (code, said) = run(&["--timeout", "1"], &format!("http://{}", silent.local_addr().unwrap()));
    assert!(code == Some(2) && said.contains("said nothing") && began.elapsed() < Duration::from_secs(20), "{code:?} {said}");
    let (code, said) = run(&["--canary-namespace", "../x"], "http://127.0.0.1:1");
    assert!(code == Some(2) && said.contains("is not the name of an object"), "{code:?} {said}");
}
