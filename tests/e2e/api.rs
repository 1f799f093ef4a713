//! The API server as a program speaks to it, for what kubectl is too slow for: timing, watching and load.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use jobgate::kinds::Kind;
use jobgate::text::value::Value;
use kube::Client;
use kube::client::Body;
use tokio::runtime::Runtime;

use crate::cluster::Cluster;

/// An administrator's connection, and threads for what goes on beside the scenario.
pub(crate) struct Api {
    runtime: Runtime,
    pub(crate) client: Client,
}

/// What the API server answered: the status and the object.
pub(crate) type Answer = (u16, Value);

impl Api {
    pub(crate) fn admin(cluster: &Cluster) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("start threads");
        let path = cluster.kubeconfig_of("admin");
        let client =
            runtime.block_on(jobgate::cluster::connection(Some(&path), None)).expect("make a client").client;
        Self { runtime, client }
    }

    /// Returns where its threads take tasks.
    pub(crate) fn handle(&self) -> tokio::runtime::Handle {
        self.runtime.handle().clone()
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(task)
    }

    pub(crate) fn wait<T>(&self, task: impl Future<Output = T>) -> T {
        self.runtime.block_on(task)
    }

    /// Returns an object.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, object) =
            self.wait(send(&self.client, Method::GET, path, "", String::new())).expect("get an object");
        assert_eq!(status, 200, "{path}: {object}");
        object
    }

    /// Has an object created without effect, unknown fields dropped, and returns the status with all that is
    /// said: the message, and the warnings.
    #[track_caller]
    pub(crate) fn dry_run(&self, namespace: &str, object: &Value) -> (u16, String) {
        let (status, warnings, answer) = self.create_without_effect(namespace, object, "Ignore");
        (status, if status < 300 { warnings } else { format!("{warnings}{answer}") })
    }

    /// Has an object created without effect, unknown fields rejected, and returns the status with the body; a
    /// status of 0 where no answer came.
    #[track_caller]
    pub(crate) fn strict_dry_run(&self, namespace: &str, object: &Value) -> (u16, Value) {
        let (status, _, answer) = self.create_without_effect(namespace, object, "Strict");
        (status, answer)
    }

    /// Has an object created without effect, unknown fields treated as said, and returns the status, the
    /// warnings and the body; a status of 0 where no answer came.
    #[track_caller]
    pub(crate) fn create_without_effect(
        &self,
        namespace: &str,
        object: &Value,
        fields: &str,
    ) -> (u16, String, Value) {
        let list = list_of(namespace, object);
        let request = Request::post(format!("{list}?dryRun=All&fieldValidation={fields}"))
            .header("content-type", "application/json");
        let request = request.body(Body::from(object.to_string().into_bytes())).expect("a request");
        self.wait(async {
            let Ok(response) = self.client.send(request).await else {
                return (0, String::new(), Value::Null);
            };
            let status = response.status().as_u16();
            let warnings = response
                .headers()
                .get_all("warning")
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            let warnings = warnings.collect::<Vec<_>>().join("\n");
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            (status, warnings, serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    /// Has an object replaced without effect, unknown fields rejected, and returns the status with the body;
    /// a status of 0 where no answer came.
    pub(crate) fn strict_update(&self, namespace: &str, name: &str, object: &Value) -> (u16, Value) {
        let uri = format!("{}/{name}?dryRun=All&fieldValidation=Strict", list_of(namespace, object));
        self.wait(send(&self.client, Method::PUT, &uri, "application/json", object.to_string()))
            .unwrap_or((0, Value::Null))
    }

    /// Patches with operations (`json`) or by merging (`merge`), and returns what the API server says.
    #[track_caller]
    pub(crate) fn patch(&self, path: &str, kind: &str, patch: &Value) -> Answer {
        let kind = format!("application/{}patch+json", if kind == "merge" { "merge-" } else { "json-" });
        self.wait(send(&self.client, Method::PATCH, path, &kind, patch.to_string())).expect("patch an object")
    }

    /// Sends a request of a user, who may do everything: `POST` and `PUT` objects, or `PATCH` by merging.
    #[track_caller]
    pub(crate) fn send_as(&self, user: &str, method: Method, path: &str, body: &Value) -> Answer {
        let kind = if method == Method::PATCH { "merge-patch+json" } else { "json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", format!("application/{kind}"))
            .header("impersonate-user", user)
            .header("impersonate-group", "system:masters");
        let request = request.body(Body::from(body.to_string().into_bytes())).expect("a request");
        self.wait(exchange(&self.client, request)).expect("an answer")
    }

    /// Collects what a value of an object has been, from the version that is there now on.
    pub(crate) fn values(&self, list: &str, name: &str, pointer: &'static str) -> Values {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (client, into) = (self.client.clone(), Arc::clone(&seen));
        let uri = format!("{list}?watch=true&timeoutSeconds=900&fieldSelector=metadata.name%3D{name}");
        let task = self.spawn(async move {
            let request = Request::get(uri).body(Body::empty()).expect("a request");
            let mut body = client.send(request).await.expect("watch").into_body();
            let mut buffer = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
                while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    let event: Value = serde_json::from_slice(&line).expect("an event");
                    let value = event["object"].pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                    into.lock().unwrap_or_else(PoisonError::into_inner).insert(value.to_owned());
                }
            }
        });
        Values { seen, task }
    }
}

/// See [`Api::values`].
pub(crate) struct Values {
    seen: Arc<Mutex<BTreeSet<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Values {
    /// Returns the values that were not empty.
    pub(crate) fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|value| !value.is_empty()).cloned().collect()
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the path of the objects of a kind, in a namespace unless they are in none.
pub(crate) fn list_of(namespace: &str, object: &Value) -> String {
    let kind = Kind::from_object(object).expect("a kind of ours");
    let within = if kind.cluster_scoped { String::new() } else { format!("namespaces/{namespace}/") };
    format!("/apis/{}/{}/{within}{}", kind.group, kind.version, kind.resource)
}

/// Sends one request; the answer must come within 10 s.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    kind: &str,
    body: String,
) -> Result<Answer, String> {
    let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
    if !kind.is_empty() {
        request = request.header("content-type", kind);
    }
    exchange(client, request.body(Body::from(body.into_bytes())).map_err(|e| e.to_string())?).await
}

async fn exchange(client: &Client, request: Request<Body>) -> Result<Answer, String> {
    let exchange = async {
        let response = client.send(request).await.map_err(|e| format!("{e:?}"))?;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
        Ok((
            status,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()),
        ))
    };
    tokio::time::timeout(Duration::from_secs(10), exchange)
        .await
        .unwrap_or_else(|_| Err("no answer within 10 s".to_owned()))
}

/// Tries every few milliseconds until it holds, and returns how long that took.
pub(crate) fn time_until(
    within: Duration,
    mut holds: impl FnMut() -> Result<(), String>,
) -> Result<Duration, String> {
    let began = Instant::now();
    loop {
        match holds() {
            Ok(()) => return Ok(began.elapsed()),
            Err(error) if began.elapsed() > within => return Err(format!("not within {within:?}: {error}")),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
