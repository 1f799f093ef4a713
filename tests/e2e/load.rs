//! Reviews without end: through the API server, or straight to the Jobgates over connections that trust what
//! the configurations publish.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use jobgate::text::value::{Value, json};
use kube::Client;
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::api::{Api, send};
use crate::installation::{Installation, bundles};
use crate::manifests::job;

/// Requests at a steady rate, until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    began: Instant,
    task: JoinHandle<()>,
}

/// What came of it.
pub(crate) struct Tally {
    pub(crate) answered: usize,
    pub(crate) failed: Vec<String>,
    pub(crate) per_second: f64,
}

/// So many wait for an answer at the same time at most, which is what slows the load down where the rate
/// cannot be had.
const AT_ONCE: usize = 32;

impl Load {
    fn start<F>(api: &Api, per_second: u32, one: impl Fn(usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let stop: Arc<AtomicBool> = Arc::default();
        let answered: Arc<AtomicUsize> = Arc::default();
        let failed: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stopped, count, failures) = (Arc::clone(&stop), Arc::clone(&answered), Arc::clone(&failed));
        let task = api.spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / per_second);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let permits = Arc::new(Semaphore::new(AT_ONCE));
            let mut flying = JoinSet::new();
            for serial in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                ticks.tick().await;
                let permit = Arc::clone(&permits).acquire_owned().await;
                let (request, count, failures) = (one(serial), Arc::clone(&count), Arc::clone(&failures));
                flying.spawn(async move {
                    let _permit = permit;
                    match request.await {
                        Ok(()) => drop(count.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => failures.lock().unwrap_or_else(PoisonError::into_inner).push(error),
                    }
                });
                while flying.try_join_next().is_some() {}
            }
            flying.join_all().await;
        });
        Self { stop, answered, failed, began: Instant::now(), task }
    }

    /// Creates Jobs, which are not stored, in a namespace whose webhooks fail closed. Each is two reviews.
    pub(crate) fn through_the_api_server(api: &Api, namespace: &str, per_second: u32) -> Self {
        let (client, path) =
            (api.client.clone(), format!("/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"));
        Self::start(api, per_second, move |serial| {
            let (client, path, body) =
                (client.clone(), path.clone(), job(&format!("load-{serial}"), json!({})).to_string());
            async move {
                match send(&client, Method::POST, &path, "application/json", body).await? {
                    (201, _) => Ok(()),
                    (status, said) => Err(format!("{status}: {}", said["message"])),
                }
            }
        })
    }

    /// Posts reviews to the Jobgates in turn, each over a connection of its own that trusts what the
    /// configuration holds at the moment.
    pub(crate) fn direct(api: &Api, installation: &Installation<'_>, per_second: u32) -> Self {
        let trust = Arc::new(api.wait(Trust::of(
            api.client.clone(),
            ["mutating", "validating"].map(|kind| installation.configuration(kind)),
        )));
        let following = Arc::downgrade(&trust);
        api.spawn(async move {
            while let Some(trust) = following.upgrade() {
                trust.look().await;
                drop(trust);
                sleep(Duration::from_millis(50)).await;
            }
        });
        let ports: Vec<u16> = installation.replicas.iter().map(|replica| replica.port).collect();
        let host = format!("jobgate.{}.svc", installation.name);
        let body = Arc::new(review().to_string());
        Self::start(api, per_second, move |serial| {
            let (which, port) = (serial % 2, ports[serial / 2 % ports.len()]);
            let (tls, host, body) = (trust.now(which), host.clone(), Arc::clone(&body));
            async move {
                let exchange = post(tls, port, &host, ["/mutate", "/validate"][which], &body);
                let answer = timeout(Duration::from_secs(10), exchange)
                    .await
                    .map_err(|_| "no answer within 10 s".to_owned())?;
                let answer = answer.map_err(|e| format!("{port}: {e}"))?;
                let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
                let review: Value = serde_json::from_str(body).map_err(|e| format!("{e}: {answer}"))?;
                if review["response"]["allowed"] == true { Ok(()) } else { Err(answer) }
            }
        })
    }

    /// Returns how many requests have been answered as they should.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Stops, and waits for the last answers.
    pub(crate) fn stop(self, api: &Api) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        api.wait(self.task).expect("the load must not panic");
        let answered = self.answered.load(Ordering::Relaxed);
        let failed = std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        #[allow(clippy::cast_precision_loss, reason = "nobody counts so far")]
        let per_second = answered as f64 / self.began.elapsed().as_secs_f64();
        Tally { answered, failed, per_second }
    }
}

impl Tally {
    /// Fails the test if any request failed, or if there were too few to say anything.
    #[track_caller]
    pub(crate) fn all_well(&self, what: &str, at_least: usize) {
        println!(
            "{what}: {} answered at {:.0}/s, {} failed",
            self.answered,
            self.per_second,
            self.failed.len()
        );
        assert!(
            self.failed.is_empty(),
            "{what}: {} failed, the first with: {}",
            self.failed.len(),
            self.failed[0]
        );
        assert!(self.answered >= at_least, "{what}: only {} answered", self.answered);
    }
}

/// What a client trusts that believes the two configurations.
struct Trust {
    client: Client,
    paths: [String; 2],
    now: Mutex<[(String, Arc<ClientConfig>); 2]>,
}

impl Trust {
    async fn of(client: Client, paths: [String; 2]) -> Self {
        let nothing = || (String::new(), trusting(""));
        let trust = Self { client, paths, now: Mutex::new([nothing(), nothing()]) };
        trust.look().await;
        trust
    }

    async fn look(&self) {
        for (index, path) in self.paths.iter().enumerate() {
            let Ok((200, configuration)) = send(&self.client, Method::GET, path, "", String::new()).await
            else {
                continue;
            };
            let pem = bundles(&configuration).concat();
            let now = &mut self.now.lock().unwrap_or_else(PoisonError::into_inner)[index];
            if now.0 != pem {
                *now = (pem.clone(), trusting(&pem));
            }
        }
    }

    fn now(&self, index: usize) -> Arc<ClientConfig> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner)[index].1)
    }
}

/// Returns a client that trusts authorities given as PEM, and remembers no session, so that every connection
/// verifies the certificate.
pub(crate) fn trusting(pem: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).flatten());
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Posts a body over a connection of its own and returns the whole answer.
pub(crate) async fn post(
    tls: Arc<ClientConfig>,
    port: u16,
    host: &str,
    path: &str,
    body: &str,
) -> Result<String, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    let exchange = async {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let mut stream = TlsConnector::from(tls).connect(name, stream).await?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    exchange.await.map_err(|e| e.to_string())
}

/// A review of a Job that is admitted.
fn review() -> Value {
    let mut object = job("load", json!({}));
    object["metadata"]["namespace"] = "team".into();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "0b5bd3ee-8d25-4a26-9f5d-6b2c5e1b6f0a", "operation": "CREATE", "dryRun": true, "name": "load", "namespace": "team",
            "kind": {"group": "batch", "version": "v1", "kind": "Job"}, "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "userInfo": {"username": "somebody"}, "object": object,
        },
    })
}
