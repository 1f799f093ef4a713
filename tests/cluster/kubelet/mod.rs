//! A scripted kubelet: binds, starts, ends and fails the pods of a cluster that has no nodes, as a scenario
//! says. Plain data in (`script`), what was seen out (`timeline`); a library, so that whoever runs
//! scenarios also records them.
//!
//! It acts on pods by uid: an operator makes another pod of the same name at once. Pods of namespaces that no
//! scenario has taken are left alone.

mod dashboard;
pub(crate) mod event;
mod groups;
pub(crate) mod pod;
mod ray;
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

use self::groups::Groups;
use self::pod::Pod;
use self::ray::Ray;
use self::script::Script;
use self::timeline::Timeline;
pub(crate) use self::world::Controllers;

/// The node that all pods are bound to. There is no object of it, unless somebody makes one.
pub(crate) const NODE: &str = "scripted";

/// The scenarios by their namespaces.
type Scenarios = Arc<Mutex<BTreeMap<String, Arc<Running>>>>;

/// The kubelet of a cluster; it stops when this is dropped.
pub(crate) struct Kubelet {
    server: Server,
    handle: Handle,
    scenarios: Scenarios,
    /// The schedulers that bind pods themselves.
    binders: Arc<[String]>,
    watching: JoinHandle<()>,
    watching_groups: Mutex<Option<JoinHandle<()>>>,
}

/// A scenario in one namespace; its pods are left alone when this is dropped.
pub(crate) struct Scenario {
    running: Arc<Running>,
    server: Server,
    handle: Handle,
    scenarios: Scenarios,
}

/// What the tasks of a scenario share.
struct Running {
    namespace: String,
    script: Script,
    binders: Arc<[String]>,
    began: Mutex<Instant>,
    timeline: Mutex<Timeline>,
    /// Taken before the timeline by whoever takes both, as are the groups.
    ray: Mutex<Ray>,
    groups: Mutex<Groups>,
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
    /// Starts it. The client's user must be allowed to bind, change and delete pods. The pods of the named
    /// schedulers live from the moment at which those have bound them.
    pub(crate) fn start<'a>(
        handle: &Handle,
        client: Client,
        binders: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let server = Server { client };
        let scenarios = Scenarios::default();
        let binders = binders.into_iter().map(str::to_owned).collect();
        let watching = handle.spawn(watch_pods(server.clone(), Arc::clone(&scenarios)));
        let handle = handle.clone();
        Self { server, handle, scenarios, binders, watching, watching_groups: Mutex::default() }
    }

    /// Also does what Volcano's scheduler does with groups of pods, as far as Volcano waits for it. For a
    /// cluster with Volcano's definitions and without its scheduler.
    pub(crate) fn take_groups(&self) {
        let watch = watch_groups(self.server.clone(), Arc::clone(&self.scenarios));
        if let Some(before) = lock(&self.watching_groups).replace(self.handle.spawn(watch)) {
            before.abort();
        }
    }

    /// Starts what answers KubeRay in the place of Ray's dashboards: a proxy for plain HTTP on loopback, of
    /// which this is the port. It answers until the program ends.
    pub(crate) fn dashboards(&self) -> Result<u16, String> {
        dashboard::start(Arc::clone(&self.scenarios))
    }

    /// Takes a namespace, in which no pod has been made yet.
    pub(crate) fn take(&self, namespace: &str, script: Script) -> Scenario {
        let running = Arc::new(Running {
            namespace: namespace.to_owned(),
            script,
            binders: Arc::clone(&self.binders),
            began: Mutex::new(Instant::now()),
            timeline: Mutex::default(),
            ray: Mutex::default(),
            groups: Mutex::default(),
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
        if let Some(watching) = lock(&self.watching_groups).take() {
            watching.abort();
        }
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
        let now = self.running.now();
        let ray = lock(&self.running.ray);
        let mut timeline = lock(&self.running.timeline).clone();
        timeline.programs = ray.programs(&timeline, now);
        timeline
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

    /// Takes one event of the watch of pods. The pod is looked after from its first one on.
    fn seen(self: &Arc<Self>, server: &Server, kind: &str, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let (uid, name) = (text("uid"), text("name"));
        let is_gone = kind == "DELETED";
        let now = self.now();
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.namespace);
        if !lock(&self.timeline).knows(uid) {
            if is_gone {
                return;
            }
            lock(&self.timeline).created(now, &path, object);
        }
        if !is_gone && !self.waits_for_its_scheduler(object) {
            self.look_after(server, uid, path, object);
        }
        lock(&self.timeline).changed(now, object, is_gone);
        self.groups_started(server);
        let fate = match object["metadata"].get("deletionTimestamp") {
            _ if is_gone => Fate::Gone,
            None => return,
            Some(_) => Fate::Dying(object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30)),
        };
        if let Some(sender) = lock(&self.pods).get(uid) {
            sender.send_replace(fate);
        }
    }

    /// Tells whether somebody else is to bind a pod first.
    fn waits_for_its_scheduler(&self, object: &Value) -> bool {
        let spec = &object["spec"];
        let is_bound = spec["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        !is_bound && self.binders.iter().any(|binder| spec["schedulerName"] == binder.as_str())
    }

    /// Begins to look after a pod, if nobody does.
    fn look_after(self: &Arc<Self>, server: &Server, uid: &str, path: String, object: &Value) {
        let mut pods = lock(&self.pods);
        let named = lock(&self.timeline).name(uid);
        let Some(name) = named.filter(|_| !pods.contains_key(uid)) else { return };
        let pod = Pod::new(object, self.script.plan(&name), Timestamp::now());
        let (sender, fate) = watch::channel(Fate::Living);
        pods.insert(uid.to_owned(), sender);
        let live = live(server.clone(), Arc::clone(self), pod, path, uid.to_owned(), fate);
        lock(&self.tasks).push(tokio::spawn(live));
    }

    /// Has the container of a pod that submits a program to Ray act.
    fn submit(&self, pod: &mut Pod, uid: &str, age: Duration) -> Vec<pod::Request> {
        let Some((submission, since)) = pod.submission(age) else { return Vec::new() };
        let now = self.now();
        let (mut ray, mut timeline) = (lock(&self.ray), lock(&self.timeline));
        let Some(code) = submission.act((&mut ray, &timeline, &self.script), since, now) else {
            return Vec::new();
        };
        if submission.is_sidecar {
            timeline.sidecar_ended(now, uid, code);
        }
        pod.submission_ended(code, age)
    }

    /// Takes one event of the watch of Volcano's groups of pods.
    fn group_seen(self: &Arc<Self>, server: &Server, kind: &str, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let least = object["spec"]["minMember"].as_u64().unwrap_or(1);
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        let new = lock(&self.groups).seen(text("uid"), text("name"), least, kind == "DELETED");
        let Some((number, after)) = new.and_then(|number| Some((number, self.script.group(number)?))) else {
            return;
        };
        let (running, server) = (Arc::clone(self), server.clone());
        let task = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let name = lock(&running.groups).enqueue(number).map(str::to_owned);
            if let Some(name) = name {
                running.set_group(&server, &name, "Inqueue").await;
                running.groups_started(&server);
            }
        });
        lock(&self.tasks).push(task);
    }

    /// Has the groups run of which enough pods run.
    fn groups_started(self: &Arc<Self>, server: &Server) {
        let started = lock(&self.groups).started(&lock(&self.timeline));
        for name in started {
            let (running, server) = (Arc::clone(self), server.clone());
            let task = tokio::spawn(async move { running.set_group(&server, &name, "Running").await });
            lock(&self.tasks).push(task);
        }
    }

    /// Returns the path of a group of pods.
    fn group(&self, name: &str) -> String {
        format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups/{name}", self.namespace)
    }

    async fn set_group(&self, server: &Server, name: &str, phase: &str) {
        let path = self.group(name);
        // It has no status of its own at the API server.
        let (status, answer) = server.merge(&path, &json!({"status": {"phase": phase}})).await;
        if !matches!(status, 200..300 | 404) {
            self.refused(&path, status, &answer);
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
        let age = born.elapsed();
        let mut requests = pod.act(age);
        requests.extend(running.submit(&mut pod, &uid, age));
        for request in requests {
            if *fate.borrow() == Fate::Gone {
                return;
            }
            let (status, answer) = server.carry_out(&path, &uid, &request).await;
            // It may be gone, or a pod of another uid may have its name.
            if !matches!(status, 200..300 | 404 | 409) {
                running.refused(&format!("{request:?}"), status, &answer);
            }
        }
        let mut wait = pod.due().map(|due| due.saturating_sub(born.elapsed()));
        if let Some((submission, since)) = pod.submission(born.elapsed()) {
            // It asks a dashboard again and again.
            let next = submission.next(since);
            wait = Some(wait.map_or(next, |wait| wait.min(next)));
        }
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

/// Where Volcano's groups of pods are.
const GROUPS: &str = "/apis/scheduling.volcano.sh/v1beta1/podgroups";

/// Watches all pods of the cluster.
async fn watch_pods(server: Server, scenarios: Scenarios) {
    let each = |running: &Arc<Running>, kind: &str, object: &Value| running.seen(&server, kind, object);
    watch_all(&server, "/api/v1/pods", &scenarios, each, forget_the_gone).await;
}

/// Watches all of Volcano's groups of pods.
async fn watch_groups(server: Server, scenarios: Scenarios) {
    let each = |running: &Arc<Running>, kind: &str, object: &Value| running.group_seen(&server, kind, object);
    watch_all(&server, GROUPS, &scenarios, each, |_, _| ()).await;
}

/// Watches all objects of a resource, and looks them up again when a watch breaks off.
async fn watch_all(
    server: &Server,
    path: &str,
    scenarios: &Scenarios,
    each: impl Fn(&Arc<Running>, &str, &Value),
    listed: impl Fn(&Scenarios, &Value),
) {
    let dispatch = |kind: &str, object: &Value| {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let running = lock(scenarios).get(namespace).cloned();
        if let Some(running) = running {
            each(&running, kind, object);
        }
    };
    loop {
        let (status, list) = server.send(Method::GET, path, "", String::new()).await;
        if status == 200 {
            for object in list["items"].as_array().into_iter().flatten() {
                dispatch("ADDED", object);
            }
            listed(scenarios, &list);
            let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            server.follow(&format!("{path}?watch=true&resourceVersion={version}"), dispatch).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A pod that is in no list any more was removed while nobody watched.
fn forget_the_gone(scenarios: &Scenarios, list: &Value) {
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
