//! The doctor and an API server that forbids, hangs, lies, and forwards ports.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::support::fake::Answer;
use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use hyper_util::rt::TokioIo;
use jobgate::cluster::{self, Connection};
use jobgate::policies;
use jobgate::serve::certs::Names;
use jobgate::serve::certs::authority::Authority;
use jobgate::serve::doctor::observations::{Observed, Place, Seen};
use jobgate::serve::doctor::observe::{Options, observe};
use jobgate::serve::doctor::{Examination, Outcome, Status, examine};
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

fn ok(body: &Value) -> Answer {
    Answer::Reply(200, body.to_string())
}

fn options() -> Options {
    Options {
        place: Place::default(),
        canary: true,
        timeout: Duration::from_secs(5),
        builtin: policies::source,
    }
}

/// Looks at what a script answers to each method and path, and returns what was asked, too.
async fn look(script: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> (Observed, Vec<String>) {
    let diary: Arc<Mutex<Vec<String>>> = Arc::default();
    let (script, seen) = (Arc::new(script), Arc::clone(&diary));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, uri) = (request.method().to_string(), request.uri().to_string());
        seen.lock().unwrap().push(format!("{method} {uri}"));
        script(&method, &uri).give()
    });
    let connection =
        Connection { client: Client::new(service, "default"), server: "https://fake".to_owned() };
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

fn outcome(observed: &Observed, id: &str) -> Outcome {
    examine(observed).outcomes.into_iter().find(|outcome| outcome.id == id).unwrap()
}

#[tokio::test]
async fn what_is_forbidden_is_not_checked_and_says_what_it_takes() {
    let (observed, diary) =
        look(|_, uri| if uri == "/version" { ok(&version()) } else { Answer::status(403, "Forbidden") })
            .await;
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

/// Answers as a cluster in which all is as the manifests have it, for what the checks of a guess are about.
fn installed(uri: &str) -> Answer {
    let objects: Vec<Value> = jobgate::text::yaml::documents(include_bytes!("../../deploy/install.yaml"))
        .map(|document| document.unwrap().value)
        .collect();
    let the = |kind: &str| ok(objects.iter().find(|object| object["kind"] == kind).unwrap());
    match uri {
        "/version" => ok(&version()),
        "/api/v1/namespaces/jobgate/configmaps/jobgate-policy" => the("ConfigMap"),
        "/api/v1/namespaces/jobgate/secrets/jobgate-tls" => the("Secret"),
        "/apis/apps/v1/namespaces/jobgate/deployments/jobgate" => the("Deployment"),
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => ok(&json!({"status": {"allowed": true}})),
        _ => Answer::absent(),
    }
}

#[tokio::test]
async fn what_only_the_deployment_names_is_not_guessed() {
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/jobgate/deployments/jobgate";
    let named = ["permissions", "policy", "exemptions", "certificate-secret"];
    let (observed, _) = look(|_, uri| installed(uri)).await;
    let expected = [Status::Ok, Status::Ok, Status::Ok, Status::Problem];
    assert_eq!(named.map(|id| outcome(&observed, id).status), expected, "the Secret is empty");
    let (observed, _) =
        look(|_, uri| if uri == DEPLOYMENT { Answer::status(403, "Forbidden") } else { installed(uri) })
            .await;
    for id in named {
        let outcome = outcome(&observed, id);
        assert_eq!(outcome.status, Status::NotChecked, "{outcome:?}");
        assert_eq!(
            outcome.finding,
            "needs permission to get deployments/jobgate in the namespace jobgate, which says what the pods use",
            "{outcome:?}"
        );
    }
    // Under another name than the manifests' there may be a policy; the one under this name is not missing.
    let (observed, _) = look(|_, uri| match uri {
        DEPLOYMENT => Answer::status(500, "InternalError"),
        _ if uri.contains("jobgate-") => Answer::absent(),
        _ => installed(uri),
    })
    .await;
    for id in named {
        let outcome = outcome(&observed, id);
        assert_eq!(outcome.status, Status::NotChecked, "{outcome:?}");
        assert!(outcome.finding.starts_with("could not get deployments/jobgate"), "{outcome:?}");
    }
}

#[tokio::test]
async fn arguments_of_another_version_are_not_guessed_at() {
    let mut deployment =
        json!({"metadata": {}, "spec": {"template": {"spec": {"containers": [{"name": "jobgate"}]}}}});
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] =
        json!(["serve", "--self-managed-certs", "--brand-new"]);
    let (observed, _) =
        look(
            move |_, uri| {
                if uri.ends_with("/deployments/jobgate") { ok(&deployment) } else { installed(uri) }
            },
        )
        .await;
    for id in ["permissions", "policy", "exemptions", "certificate-secret"] {
        let outcome = outcome(&observed, id);
        assert!(
            outcome.status == Status::NotChecked
                && outcome.finding.contains("unexpected argument found: --brand-new"),
            "{outcome:?}"
        );
        assert!(
            outcome
                .remedy
                .as_ref()
                .is_some_and(|remedy| remedy.contains("-n jobgate get deployment jobgate")),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_certificate_that_is_in_no_secret_is_not_looked_for() {
    let mut deployment =
        json!({"metadata": {}, "spec": {"template": {"spec": {"containers": [{"name": "jobgate"}]}}}});
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] =
        json!(["serve", "--tls-cert=/host/tls.crt", "--tls-key=/host/tls.key"]);
    let (observed, diary) =
        look(
            move |_, uri| {
                if uri.ends_with("/deployments/jobgate") { ok(&deployment) } else { installed(uri) }
            },
        )
        .await;
    let outcome = outcome(&observed, "certificate-secret");
    assert_eq!(
        (outcome.status, outcome.finding.as_str()),
        (Status::NotChecked, "the pods read /host/tls.crt, which is in no Secret")
    );
    assert!(!diary.iter().any(|request| request.contains("/secrets/")), "{diary:?}");
}

#[tokio::test]
async fn nothing_is_changed() {
    let (_, diary) = look(|_, uri| if uri == "/version" { ok(&version()) } else { Answer::absent() }).await;
    for request in &diary {
        let harmless = request.starts_with("GET ")
            || request == "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
            || (request.starts_with("POST /apis/batch/v1/namespaces/default/jobs?")
                && request.contains("dryRun=All"));
        assert!(harmless, "{request}");
    }
    assert_eq!(diary.iter().filter(|request| request.contains("dryRun=All")).count(), 2);
}

#[tokio::test]
async fn an_empty_cluster_has_no_webhook() {
    let (observed, _) =
        look(|_, uri| if uri == "/version" { ok(&version()) } else { Answer::absent() }).await;
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
    assert!(
        examination.outcomes.iter().skip(1).all(|outcome| outcome.status <= Status::NotChecked),
        "{examination:#?}"
    );
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

/// What becomes of a port-forward.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It leads to a pod that serves a certificate.
    Through,
    /// The API server never answers.
    Hang,
    /// The API server answers with a status and this body.
    Reject(&'static str, &'static str),
    /// The API server switches protocols, but not in answer to this request.
    Mistaken,
    /// Nobody listens in the pod: the kubelet says so, and leaves the connection open.
    Trouble(&'static str),
    /// The pod says this, which is no TLS, and then nothing more.
    Say(&'static [u8]),
    /// What comes after the switch is no WebSocket.
    Garbage(&'static [u8]),
    /// The connection ends after the switch.
    End,
}

/// A connection, over TCP or in this process.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket for S {}

/// A fake API server that forwards the port of a pod which serves a certificate.
struct Forwarding {
    way: Way,
    tls: tokio_rustls::TlsAcceptor,
    bundle: String,
}

impl Forwarding {
    fn new(way: Way) -> Arc<Self> {
        let (names, now, day) =
            (Names::new("jobgate", "jobgate").unwrap(), SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate(&names, now, 30 * day).unwrap();
        let leaf = authority.sign(&names, now, 7 * day).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(leaf.certificate_pem().as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes()).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let bundle = base64::engine::general_purpose::STANDARD.encode(authority.root().pem());
        Arc::new(Self { way, tls: tokio_rustls::TlsAcceptor::from(Arc::new(config)), bundle })
    }

    /// Looks at one through a kubeconfig, over TCP.
    async fn look_from_outside(self: &Arc<Self>) -> Observed {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let file = kubeconfig(&format!("http://{}", listener.local_addr().unwrap()));
        let server = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&server).answer(stream));
            }
        });
        let connection = cluster::connection(Some(file.path()), None).await.unwrap();
        observe(&connection, &Options { timeout: Duration::from_secs(60), ..options() }).await
    }

    /// Looks at one in this process, where the clock may stand still.
    async fn look(way: Way) -> Observed {
        let server = Self::new(way);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (near, far) = tokio::io::duplex(1 << 16);
            tokio::spawn(Arc::clone(&server).answer(far));
            async move {
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
                tokio::spawn(connection.with_upgrades());
                sender.send_request(request).await
            }
        });
        observe(
            &Connection { client: Client::new(service, "default"), server: "https://fake".to_owned() },
            &options(),
        )
        .await
    }

    /// Answers one request of a connection.
    async fn answer<S: Socket>(self: Arc<Self>, mut stream: S) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap();
        if let Some(query) = path.strip_prefix("/api/v1/namespaces/jobgate/pods/jobgate-0/portforward?") {
            assert!(query.split('&').any(|pair| pair == "ports=10250"), "{query}");
            return self.forward(stream, &head).await;
        }
        let webhooks = |path: &str| {
            let client = json!({"service": {"namespace": "jobgate", "name": "jobgate", "path": path, "port": 443}, "caBundle": self.bundle});
            json!({"metadata": {"name": "jobgate"}, "webhooks": [{"name": path, "clientConfig": client}]})
        };
        let body = match path {
            "/api/v1/namespaces/jobgate/pods/jobgate-0:8080/proxy/metrics" => {
                "# HELP x\njobgate_build_info{version=\"0.1.0\"} 1\njobgate_policy_info{name=\"default\",hash=\"94db1c48fb7b\"} 1\n# EOF\n".to_owned()
            }
            "/version" => version().to_string(),
            path if path.ends_with("mutatingwebhookconfigurations/jobgate") => webhooks("/mutate").to_string(),
            path if path.ends_with("validatingwebhookconfigurations/jobgate") => webhooks("/validate").to_string(),
            path if path.contains("/pods?") => {
                json!({"metadata": {}, "items": [{"metadata": {"name": "jobgate-0"}, "status": {"phase": "Running"}}]}).to_string()
            }
            _ => return reply(stream, "403 Forbidden", "{}").await,
        };
        reply(stream, "200 OK", &body).await;
    }

    /// Answers a request to forward a port (RFC 6455, and the channels of `v4.channel.k8s.io`).
    async fn forward<S: Socket>(&self, mut stream: S, head: &str) {
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .unwrap_or_else(|| panic!("no {name}: {head}"))
                .1
        };
        assert!(
            header("sec-websocket-protocol").split(", ").any(|protocol| protocol == "v4.channel.k8s.io"),
            "{head}"
        );
        let mut key = header("sec-websocket-key").to_owned();
        match self.way {
            Way::Hang => return std::future::pending().await,
            Way::Reject(status, body) => return reply(stream, status, body).await,
            Way::Mistaken => key.push('x'),
            _ => {}
        }
        let accept = derive_accept_key(key.as_bytes());
        let switch = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\
             Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
        );
        stream.write_all(switch.as_bytes()).await.unwrap();
        if let Way::Garbage(bytes) = self.way {
            stream.write_all(bytes).await.unwrap();
            return std::future::pending().await;
        }
        if matches!(self.way, Way::End) {
            return;
        }
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        let mut tell = async |channel: u8, bytes: &[u8]| {
            socket.send(Message::binary([&[channel], bytes].concat())).await.unwrap();
        };
        for channel in [0, 1] {
            tell(channel, &10_250_u16.to_le_bytes()).await;
        }
        match self.way {
            Way::Trouble(text) => tell(1, text.as_bytes()).await,
            Way::Say(bytes) => tell(0, bytes).await,
            _ => return self.pod(socket).await,
        }
        std::future::pending::<()>().await;
    }

    /// Carries bytes between a WebSocket and the pod.
    async fn pod<S: Socket>(&self, socket: WebSocketStream<S>) {
        let (pod, far) = tokio::io::duplex(1 << 16);
        let tls = self.tls.clone();
        tokio::spawn(async move { drop(tls.accept(pod).await) });
        let (mut from_pod, mut to_pod) = tokio::io::split(far);
        let (mut to, mut from) = socket.split();
        tokio::spawn(async move {
            while let Some(Ok(message)) = from.next().await {
                if let Some((0, bytes)) = message.into_data().split_first() {
                    to_pod.write_all(bytes).await.unwrap();
                }
            }
        });
        let mut buffer = vec![0; 1 << 14];
        while let Ok(count @ 1..) = from_pod.read(&mut buffer[1..]).await {
            if to.send(Message::binary(buffer[..=count].to_vec())).await.is_err() {
                return;
            }
        }
    }
}

async fn reply(mut stream: impl Socket, status: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
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
    let server = Forwarding::new(Way::Through);
    let mut observed = server.look_from_outside().await;
    let says = observed.replicas[0].says.known().unwrap();
    assert_eq!(
        (says.version.as_str(), says.policy.as_str()),
        ("0.1.0", "94db1c48fb7b"),
        "and so are its metrics"
    );
    let fine = outcome(&observed, "served-certificate");
    assert_eq!(fine.status, Status::Ok, "{fine:?}");
    assert!(fine.finding.starts_with("pod jobgate-0: the certificate is valid for 6 days"), "{fine:?}");
    // The same certificate, under a bundle of somebody else.
    let stranger = Authority::generate(
        &Names::new("jobgate", "jobgate").unwrap(),
        SystemTime::now(),
        Duration::from_secs(86_400),
    )
    .unwrap();
    let text = serde_json::to_string(observed.mutating.known().unwrap()).unwrap();
    let strange = base64::engine::general_purpose::STANDARD.encode(stranger.root().pem());
    let text = text.replace(&server.bundle, &strange);
    observed.mutating = Seen::Known(serde_json::from_str(&text).unwrap());
    let bad = outcome(&observed, "served-certificate");
    assert_eq!(bad.status, Status::Problem);
    assert!(bad.finding.contains("no authority in the caBundle of /mutate has signed"), "{bad:?}");
}

#[tokio::test(start_paused = true)]
async fn a_port_that_cannot_be_forwarded_is_not_checked_and_says_why() {
    let forbidden =
        r#"{"kind": "Status", "reason": "Forbidden", "message": "pods is forbidden: User x", "code": 403}"#;
    let refusal = r#"{"kind": "Status", "reason": "InternalError", "message": "error dialing backend:\n dial tcp: lookup nowhere", "code": 500}"#;
    for (way, words) in [
        (
            Way::Reject("403 Forbidden", forbidden),
            "needs permission to create and get pods/portforward in the namespace jobgate",
        ),
        (
            Way::Reject("403 Forbidden", "no entry"),
            "needs permission to create and get pods/portforward in the namespace jobgate",
        ),
        (
            Way::Reject("500 Internal Server Error", refusal),
            "could not forward the port 10250: the API server says: error dialing backend: dial tcp: lookup nowhere",
        ),
        (
            Way::Reject("502 Bad Gateway", "{}"),
            "could not forward the port 10250: the API server rejects it without a reason",
        ),
        (
            Way::Reject("200 OK", "{}"),
            "could not forward the port 10250: the API server, or a proxy before it, does not support WebSocket: failed to switch protocol: 200 OK",
        ),
        (Way::Mistaken, "Sec-WebSocket-Accept key mismatched"),
        (
            Way::Trouble("dial tcp4 127.0.0.1:10250: connect: connection refused\n"),
            "could not forward the port 10250: dial tcp4 127.0.0.1:10250: connect: connection refused",
        ),
        (Way::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "no TLS handshake: received corrupt message"),
        (Way::Garbage(b"\xf2\x00"), "no TLS handshake: "),
        (Way::Garbage(b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), "no TLS handshake: "),
        (Way::End, "no TLS handshake: "),
    ] {
        let outcome = outcome(&Forwarding::look(way).await, "served-certificate");
        assert_eq!(outcome.status, Status::NotChecked, "{way:?}: {outcome:?}");
        assert!(
            outcome.finding.starts_with("pod jobgate-0: ") && outcome.finding.contains(words),
            "{way:?}: {outcome:?}"
        );
        assert!(outcome.remedy.is_some(), "{way:?}: {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_forward_that_hangs_ends_with_the_patience() {
    for (way, words) in [
        (Way::Hang, "could not forward the port 10250: the API server did not answer in time"),
        (Way::Say(b""), "no TLS handshake: no answer"),
        (Way::Garbage(b""), "no TLS handshake: no answer"),
        // Half a frame.
        (Way::Garbage(b"\x82\x05abc"), "no TLS handshake: no answer"),
    ] {
        let began = Instant::now();
        let outcome = outcome(&Forwarding::look(way).await, "served-certificate");
        assert_eq!(
            (outcome.status, outcome.finding.as_str()),
            (Status::NotChecked, format!("pod jobgate-0: {words}").as_str()),
            "{way:?}"
        );
        assert_eq!(began.elapsed(), options().timeout, "{way:?}: nothing else is waited for");
    }
}

#[test]
fn without_a_cluster_it_could_not_run() {
    let run = |arguments: &[&str], url: &str| {
        let file = kubeconfig(url);
        let output = Command::new(env!("CARGO_BIN_EXE_jobgate"))
            .arg("doctor")
            .arg("--kubeconfig")
            .arg(file.path())
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, said) = run(&[], &format!("http://{free}"));
    assert!(code == Some(2) && said.contains("reach the API server"), "{code:?} {said}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let began = std::time::Instant::now();
    let (code, said) = run(&["--timeout", "1"], &format!("http://{}", silent.local_addr().unwrap()));
    assert!(
        code == Some(2)
            && said.contains("did not answer in time")
            && began.elapsed() < Duration::from_secs(20),
        "{code:?} {said}"
    );
    let (code, said) = run(&["--canary-namespace", "../x"], "http://127.0.0.1:1");
    assert!(code == Some(2) && said.contains("is not the name of an object"), "{code:?} {said}");
}

#[tokio::test]
async fn a_configuration_of_another_name_is_found_by_where_it_leads() {
    let named = |kind: &str| {
        let objects = jobgate::text::yaml::documents(include_bytes!("../../deploy/install.yaml"))
            .map(|document| document.unwrap().value);
        let mut configuration = objects.into_iter().find(|object| object["kind"] == kind).unwrap();
        configuration["metadata"] = json!({"name": "batch-gate"});
        configuration["webhooks"][0]["name"] = json!("gate.example.com");
        configuration
    };
    let other = json!({"metadata": {"name": "other"}, "webhooks": [{"name": "x", "clientConfig": {"url": "https://example.com/mutate"}}]});
    let list = move |items: Vec<Value>| ok(&json!({"metadata": {}, "items": items}));
    let namespace =
        |name: &str| json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}});
    let (observed, _) = look(move |_, uri| match uri {
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations" => {
            list(vec![other.clone(), named("MutatingWebhookConfiguration")])
        }
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations" => {
            let mut configuration = named("ValidatingWebhookConfiguration");
            configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"]
                .as_array_mut()
                .unwrap()
                .push(json!("team-a"));
            list(vec![configuration])
        }
        "/api/v1/namespaces" => list(["kube-system", "jobgate", "team-a", "team-b"].map(namespace).into()),
        _ => installed(uri),
    })
    .await;
    let configurations = outcome(&observed, "configurations");
    assert_eq!(configurations.status, Status::Warning, "{configurations:?}");
    assert!(
        configurations
            .finding
            .contains("there is no MutatingWebhookConfiguration `jobgate`; `batch-gate` calls Jobgate"),
        "{configurations:?}"
    );
    assert!(
        configurations.remedy.is_some_and(|remedy| remedy.contains("--mutating-configuration batch-gate"))
    );
    let selectors = outcome(&observed, "selectors");
    assert_eq!(selectors.status, Status::Warning, "{selectors:?}");
    assert!(
        selectors.finding.contains("1 namespace skipped, where no job is denied or warned about: team-a"),
        "{selectors:?}"
    );
    assert_eq!(outcome(&observed, "rules").status, Status::Ok);
}
