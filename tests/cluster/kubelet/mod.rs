//! A scripted kubelet: binds, starts, ends and fails the pods of a cluster that has no nodes, as a scenario
//! says. Plain data in (`script`), what was seen out (`timeline`); a library, so that whoever runs
//! scenarios also records them.
//!
//! It acts on pods by uid: an operator makes another pod of the same name at once. Pods of namespaces that no
//! scenario has taken are left alone.

mod pod;
mod role;
pub(crate) mod script;
pub(crate) mod timeline;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::pod::Pod;
use self::script::Script;
use self::timeline::Timeline;
pub(crate) use self::world::Controllers;

/// The node that all pods are bound to. There is no object of it.
const NODE: &str = "scripted";

/// The kubelet of a cluster; it stops when this is dropped.
pub(crate) struct Kubelet {
    server: Server,
    handle: Handle,
    scenarios: Arc<Mutex<BTreeMap<String, Arc<Running>>>>,
    watching: JoinHandle<()>,
}

/// A scenario in one namespace; its pods are left alone when this is dropped.
pub(crate) struct Scenario {
    running: Arc<Running>,
    server: Server,
    handle: Handle,
    scenarios: Arc<Mutex<BTreeMap<String, Arc<Running>>>>,
}

/// What the tasks of a scenario share.
struct Running {
    namespace: String,
    script: Script,
    began: Mutex<Instant>,
    timeline: Mutex<Timeline>,
    /// Whoever looks after a pod learns of its deletion here.
    pods: Mutex<BTreeMap<String, watch::Sender<Fate>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// What has become of a pod.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Living,
    /// It is being deleted, with this grace in seconds.
    Dying(u64),
    Gone,
}

impl Kubelet {
    /// Starts it. The client's user must be allowed to bind, change and delete pods.
    pub(crate) fn start(handle: &Handle, client: Client) -> Self {
        let server = Server { client };
        let scenarios: Arc<Mutex<BTreeMap<String, Arc<Running>>>> = Arc::default();
        let watching = handle.spawn(watch_pods(server.clone(), Arc::clone(&scenarios)));
        Self { server, handle: handle.clone(), scenarios, watching }
    }

    /// Takes a namespace, in which no pod has been made yet.
    pub(crate) fn take(&self, namespace: &str, script: Script) -> Scenario {
        let running = Arc::new(Running {
            namespace: namespace.to_owned(),
            script,
            began: Mutex::new(Instant::now()),
            timeline: Mutex::default(),
            pods: Mutex::default(),
            tasks: Mutex::default(),
        });
        lock(&self.scenarios).insert(namespace.to_owned(), Arc::clone(&running));
        let (server, handle) = (self.server.clone(), self.handle.clone());
        Scenario { running, server, handle, scenarios: Arc::clone(&self.scenarios) }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Scenario {
    /// Begins to count time, and has the events of the script happen: those without a target to the object
    /// at this path. Call it when the object is created.
    pub(crate) fn begin(&self, main: &str, controllers: Arc<dyn Controllers>) {
        *lock(&self.running.began) = Instant::now();
        for event in self.running.script.events.clone() {
            let task = world::happen(
                self.server.clone(),
                Arc::clone(&self.running),
                event,
                main.to_owned(),
                Arc::clone(&controllers),
            );
            lock(&self.running.tasks).push(self.handle.spawn(task));
        }
    }

    /// Returns what was seen until now.
    pub(crate) fn timeline(&self) -> Timeline {
        lock(&self.running.timeline).clone()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        lock(&self.scenarios).remove(&self.running.namespace);
        for task in lock(&self.running.tasks).drain(..) {
            task.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn now(&self) -> Duration {
        lock(&self.began).elapsed()
    }

    fn refused(&self, what: &str, status: u16, answer: &Value) {
        let message = format!("{what}: {status} {}", answer["message"].as_str().unwrap_or_default());
        let at = self.now().as_secs_f64();
        lock(&self.timeline).refused.push((at, message));
    }

    /// Takes one event of the watch. The pod is looked after from its first one on.
    fn seen(self: &Arc<Self>, server: &Server, kind: &str, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let (uid, name) = (text("uid"), text("name"));
        let is_gone = kind == "DELETED";
        let now = self.now();
        if !lock(&self.timeline).knows(uid) {
            if is_gone {
                return;
            }
            let path = format!("/api/v1/namespaces/{}/pods/{name}", self.namespace);
            let named = lock(&self.timeline).created(now, &path, object);
            let pod = Pod::new(object, self.script.plan(&named), Timestamp::now());
            let (sender, fate) = watch::channel(Fate::Living);
            lock(&self.pods).insert(uid.to_owned(), sender);
            let live = live(server.clone(), Arc::clone(self), pod, path, uid.to_owned(), fate);
            lock(&self.tasks).push(tokio::spawn(live));
        }
        lock(&self.timeline).changed(now, object, is_gone);
        let fate = match object["metadata"].get("deletionTimestamp") {
            _ if is_gone => Fate::Gone,
            None => return,
            Some(_) => Fate::Dying(object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30)),
        };
        if let Some(sender) = lock(&self.pods).get(uid) {
            sender.send_replace(fate);
        }
    }
}

/// Looks after one pod until it is gone.
async fn live(
    server: Server,
    running: Arc<Running>,
    mut pod: Pod,
    path: String,
    uid: String,
    mut fate: watch::Receiver<Fate>,
) {
    let born = Instant::now();
    loop {
        for request in pod.act(born.elapsed()) {
            if *fate.borrow() == Fate::Gone {
                return;
            }
            let (status, answer) = server.carry_out(&path, &uid, &request).await;
            // It may be gone, or a pod of another uid may have its name.
            if !matches!(status, 200..300 | 404 | 409) {
                running.refused(&format!("{request:?}"), status, &answer);
            }
        }
        let wait = pod.due().map(|due| due.saturating_sub(born.elapsed()));
        let changed = async {
            match wait {
                Some(wait) => tokio::time::timeout(wait, fate.changed()).await.is_ok(),
                None => fate.changed().await.is_ok(),
            }
        };
        if changed.await {
            match *fate.borrow_and_update() {
                Fate::Living => {}
                Fate::Dying(grace) => pod.deleted(born.elapsed(), grace),
                Fate::Gone => return,
            }
        }
    }
}

/// Watches all pods of the cluster, and looks them up again when a watch breaks off.
async fn watch_pods(server: Server, scenarios: Arc<Mutex<BTreeMap<String, Arc<Running>>>>) {
    let dispatch = |kind: &str, object: &Value| {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let running = lock(&scenarios).get(namespace).cloned();
        if let Some(running) = running {
            running.seen(&server, kind, object);
        }
    };
    loop {
        let (status, list) = server.send(Method::GET, "/api/v1/pods", "", String::new()).await;
        if status == 200 {
            for object in list["items"].as_array().into_iter().flatten() {
                dispatch("ADDED", object);
            }
            forget_the_gone(&scenarios, &list);
            let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            server.follow(&format!("/api/v1/pods?watch=true&resourceVersion={version}"), dispatch).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A pod that is in no list any more was removed while nobody watched.
fn forget_the_gone(scenarios: &Mutex<BTreeMap<String, Arc<Running>>>, list: &Value) {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    for running in lock(scenarios).values() {
        for (uid, sender) in lock(&running.pods).iter() {
            let is_there = items.iter().any(|object| object["metadata"]["uid"] == uid.as_str());
            if !is_there && *sender.borrow() != Fate::Gone {
                let gone = json!({"metadata": {"uid": uid}});
                lock(&running.timeline).changed(running.now(), &gone, true);
                sender.send_replace(Fate::Gone);
            }
        }
    }
}

/// The API server.
#[derive(Clone)]
struct Server {
    client: Client,
}

impl Server {
    async fn carry_out(&self, path: &str, uid: &str, request: &pod::Request) -> (u16, Value) {
        match request {
            pod::Request::Bind => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": NODE});
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid}, "target": target,
                });
                self.json(Method::POST, &format!("{path}/binding"), &binding).await
            }
            pod::Request::Status(status) => {
                let patch = json!({"metadata": {"uid": uid}, "status": status});
                self.merge(&format!("{path}/status"), &patch).await
            }
            pod::Request::Delete { grace } => {
                let mut options =
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
                if let Some(grace) = grace {
                    options["gracePeriodSeconds"] = json!(*grace);
                }
                self.json(Method::DELETE, path, &options).await
            }
        }
    }

    async fn json(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        self.send(method, path, "application/json", body.to_string()).await
    }

    async fn merge(&self, path: &str, patch: &Value) -> (u16, Value) {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch.to_string()).await
    }

    /// Sends a request, a few times if no answer comes; then the status is 0.
    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> (u16, Value) {
        let mut answer = (0, Value::Null);
        for _ in 0..5 {
            answer = self.once(method.clone(), path, kind, body.clone()).await;
            if !matches!(answer.0, 0 | 429) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        answer
    }

    async fn once(&self, method: Method, path: &str, kind: &str, body: String) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        let failed = |message: String| (0, json!({"message": message}));
        let request = match request.body(Body::from(body.into_bytes())) {
            Ok(request) => request,
            Err(error) => return failed(error.to_string()),
        };
        let exchange = async {
            let response = self.client.send(request).await.map_err(|e| format!("{e:?}"))?;
            let status = response.status().as_u16();
            let bytes = response.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
            Ok::<_, String>((status, serde_json::from_slice(&bytes).unwrap_or_default()))
        };
        match tokio::time::timeout(Duration::from_secs(20), exchange).await {
            Ok(answer) => answer.unwrap_or_else(failed),
            Err(_) => failed("no answer within 20 s".to_owned()),
        }
    }

    /// Follows a watch until it breaks off.
    async fn follow(&self, path: &str, mut each: impl FnMut(&str, &Value)) {
        let Ok(request) = Request::get(path).body(Body::empty()) else { return };
        let Ok(response) = self.client.send(request).await else { return };
        let (mut body, mut buffer) = (response.into_body(), Vec::new());
        while let Some(Ok(frame)) = body.frame().await {
            buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { return };
                let kind = event["type"].as_str().unwrap_or_default();
                if kind == "ERROR" {
                    return;
                }
                each(kind, &event["object"]);
            }
        }
    }
}
