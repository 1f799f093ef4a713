//! Somebody else's mutating webhook: a few lines of HTTPS that answer every review with the same patch.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobgate::text::value::{Value, json};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::cluster::Cluster;
use crate::gate::one;

/// A webhook that adds things to objects as they are created; it ends when this is dropped.
pub(crate) struct Mutator {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    port: u16,
    name: String,
}

impl Mutator {
    /// Starts one for the Jobs of a namespace. Its configuration's name decides whether it is called before
    /// Jobgate or after.
    pub(crate) fn start(
        cluster: &Cluster,
        name: &str,
        namespace: &str,
        patch: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::of(cluster, name, namespace, &[("batch", "jobs")], patch)
    }

    /// Starts one for resources, each with its group.
    pub(crate) fn of(
        cluster: &Cluster,
        name: &str,
        namespace: &str,
        resources: &[(&str, &str)],
        patch: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let pair = cluster.authority().server();
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .expect("a TLS configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let mutator = Self { stop: Arc::default(), calls: Arc::default(), port, name: name.to_owned() };
        let (stop, calls, config, patch) =
            (Arc::clone(&mutator.stop), Arc::clone(&mutator.calls), Arc::new(config), Arc::new(patch));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (calls, config, patch) = (Arc::clone(&calls), Arc::clone(&config), Arc::clone(&patch));
                thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
                    if let Ok(connection) = ServerConnection::new(config) {
                        let _ = answer(StreamOwned::new(connection, stream), &calls, &*patch);
                    }
                });
            }
        });
        mutator.register(cluster, namespace, resources);
        mutator
    }

    fn register(&self, cluster: &Cluster, namespace: &str, resources: &[(&str, &str)]) {
        let rule = |(group, resource): &(&str, &str)| json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["CREATE"]});
        let rules: Vec<Value> = resources.iter().map(rule).collect();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": self.name},
            "webhooks": [{
                "name": "mutator.e2e.jobgate.dev",
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/", self.port),
                    "caBundle": STANDARD.encode(cluster.authority().certificate()),
                },
                "rules": rules,
                "namespaceSelector": one(namespace),
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 10, "reinvocationPolicy": "Never",
            }],
        });
        cluster.admin.run(&["create", "-f", "-"], &configuration.to_string()).ok();
    }

    /// Returns how often it was called.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Mutator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn answer(
    stream: StreamOwned<ServerConnection, std::net::TcpStream>,
    calls: &AtomicUsize,
    patch: &dyn Fn(&Value) -> Value,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let review: Value = serde_json::from_slice(&body)?;
    calls.fetch_add(1, Ordering::Relaxed);
    let patch = STANDARD.encode(patch(&review["request"]["object"]).to_string());
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch},
    })
    .to_string();
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}
