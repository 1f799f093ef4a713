//! What `deploy/` installs, under names of its own so that many can stand side by side, with its Jobgates on
//! this machine.
//!
//! Everything is as it is rendered but for what cannot be the same here: the names of what is not in a
//! namespace; the Service, which leads to this machine (an `ExternalName` that is resolved to the loopback
//! interface), on a port of it; and a label that limits the webhooks to the scenario's namespaces. The
//! Jobgates run with the arguments of the Deployment, and with the token of its service account: what they
//! may do is what the rendered roles allow, and no more.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::api::Api;
use crate::cluster::Cluster;
use crate::gate::{PATIENT, filled, judged};
use crate::kubectl::Output;
use crate::process::{Process, count, eventually, free_port, http_get};

/// The label of the namespaces that an installation looks after; its value is the installation's name.
const FOR: &str = "jobgate-e2e-for";

/// One way to install Jobgate, under a name of its own.
pub(crate) struct Installation<'c> {
    cluster: &'c Cluster,
    /// The namespace it is in, and the name of what is in no namespace.
    pub(crate) name: String,
    pub(crate) objects: Vec<Value>,
    service: Service,
    pub(crate) replicas: Vec<Replica>,
}

/// Returns the manifests as they are in the repository: an overlay, or `install.yaml` for `self-managed`,
/// which is the same.
pub(crate) fn rendered(cluster: &Cluster, overlay: &str) -> Vec<Value> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let text = match overlay {
        "self-managed" => fs::read_to_string(deploy.join("install.yaml")).expect("read install.yaml"),
        _ => {
            cluster
                .admin
                .run(&["kustomize", &deploy.join("overlays").join(overlay).display().to_string()], "")
                .ok()
                .stdout
        }
    };
    jobgate::text::yaml::documents(text.as_bytes())
        .map(|document| document.expect("YAML").value)
        .filter(|value| !value.is_null())
        .collect()
}

/// Creates an object in a namespace, which is not stored.
pub(crate) fn dry_run(cluster: &Cluster, namespace: &str, object: &Value) -> Output {
    cluster.admin.run(&["-n", namespace, "create", "--dry-run=server", "-f", "-"], &object.to_string())
}

/// Returns the only object of a kind and, if several have the kind, of the name.
fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let mut all = objects
        .iter()
        .filter(|object| object["kind"] == kind && (name.is_empty() || object["metadata"]["name"] == name));
    match (all.next(), all.next()) {
        (Some(object), None) => object,
        _ => panic!("not one {kind} {name}"),
    }
}

impl<'c> Installation<'c> {
    /// Renders a way to install Jobgate; nothing is in the cluster yet. `closed` is the namespace in place of
    /// the one that the overlay `fail-closed` names as an example.
    pub(crate) fn of(cluster: &'c Cluster, overlay: &str, closed: &str) -> Self {
        let name = cluster.unique("jobgate");
        let mut installation =
            Self { cluster, service: Service::start(), replicas: Vec::new(), objects: Vec::new(), name };
        installation.render(overlay, closed);
        installation
    }

    /// Renders another way to install it, under the same name.
    pub(crate) fn render(&mut self, overlay: &str, closed: &str) {
        self.objects = rendered(self.cluster, overlay);
        for object in &mut self.objects {
            adapt(object, &self.name, closed, self.service.port);
        }
    }

    /// Marks a namespace as one to look after, if nothing in the manifests excludes it.
    pub(crate) fn look_after(&self, namespace: &str) {
        self.cluster
            .admin
            .run(&["label", "--overwrite", "namespace", namespace, &format!("{FOR}={}", self.name)], "")
            .ok();
    }

    /// Looks after a namespace, and waits until jobs in it are judged and filled in: the API server knows of
    /// labels and configurations by watches.
    pub(crate) fn judge(&self, namespace: &str) {
        self.look_after(namespace);
        self.wait_until_judged(namespace);
    }

    /// Waits until jobs in a namespace are judged and filled in.
    pub(crate) fn wait_until_judged(&self, namespace: &str) {
        let in_force = || judged(self.cluster, namespace).and_then(|()| filled(self.cluster, namespace));
        eventually(Duration::from_secs(40), in_force).unwrap_or_else(|e| panic!("{e}\n{}", self.logs()));
    }

    /// Puts everything into the cluster; the arguments are those of `kubectl apply`.
    pub(crate) fn apply(&self, arguments: &[&str]) -> Output {
        // The namespace must be there before what is in it, and kubectl sends a list in its order.
        self.cluster.admin.run(
            &[&["apply", "--validate=strict"], arguments, &["-f", "-"]].concat(),
            &self.list().to_string(),
        )
    }

    /// Has the API server reject what it gets no answer about, so that a failed review is to be seen as a
    /// failed request; and lets it wait longer than in production: two cores run the API server, the webhooks
    /// and every scenario.
    pub(crate) fn must_answer(&mut self) {
        for webhook in
            self.objects.iter_mut().filter_map(|object| object.get_mut("webhooks")?.as_array_mut()).flatten()
        {
            webhook["failurePolicy"] = "Fail".into();
            webhook["timeoutSeconds"] = 10.into();
        }
    }

    /// Returns everything as one object.
    pub(crate) fn list(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "items": self.objects})
    }

    /// Takes everything out of the cluster again but for the namespace, which takes long to go.
    pub(crate) fn delete(&self) {
        let items: Vec<&Value> = self.objects.iter().filter(|object| object["kind"] != "Namespace").collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.cluster
            .admin
            .run(&["delete", "--ignore-not-found", "--wait=false", "-f", "-"], &list.to_string())
            .ok();
    }

    /// Starts so many Jobgates at once, with arguments after those of the Deployment. They join the Service
    /// as they become ready.
    pub(crate) fn start(&mut self, replicas: usize, arguments: &[&str]) {
        self.wait_until_permitted();
        let kubeconfig = self.kubeconfig();
        let policy = self.cluster.dir.path().join(format!("{}.policy.yaml", self.name));
        fs::write(
            &policy,
            find(&self.objects, "ConfigMap", "")["data"]["policy.yaml"].as_str().expect("a policy"),
        )
        .expect("write the policy");
        let container = &find(&self.objects, "Deployment", "")["spec"]["template"]["spec"]["containers"][0];
        for _ in 0..replicas {
            let (port, metrics) = (free_port(), free_port());
            let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
            for argument in container["args"].as_array().expect("args") {
                match argument.as_str().expect("text") {
                    "--policy=/etc/jobgate/policy.yaml" => command.arg("--policy").arg(&policy),
                    "--self-managed-certs" => command.args([
                        "--self-managed-certs".to_owned(),
                        format!("--mutating-configuration={}", self.name),
                        format!("--validating-configuration={}", self.name),
                    ]),
                    "--tls-server-name=jobgate.jobgate.svc" => {
                        command.arg(format!("--tls-server-name=jobgate.{}.svc", self.name))
                    }
                    other => {
                        command.arg(other.replace("/etc/jobgate-tls", &self.mounted().display().to_string()))
                    }
                };
            }
            command
                .arg(format!("--listen=127.0.0.1:{port}"))
                .arg(format!("--metrics-listen=127.0.0.1:{metrics}"))
                .arg(PATIENT)
                .args(arguments)
                .env("POD_NAMESPACE", &self.name)
                .env("KUBECONFIG", &kubeconfig)
                .env_remove("KUBERNETES_SERVICE_HOST");
            let log = self.cluster.dir.path().join(format!("{}-{}.log", self.name, self.replicas.len()));
            let process = Process::start(&mut command, &log).expect("start a Jobgate");
            self.replicas.push(Replica { process, port, metrics });
        }
    }

    /// Waits until every Jobgate is ready and part of the Service.
    pub(crate) fn wait_until_ready(&mut self) {
        for replica in &mut self.replicas {
            let port = replica.port;
            eventually(Duration::from_secs(60), || {
                replica.process.check()?;
                replica.ready()
            })
            .unwrap_or_else(|e| panic!("{e}\n{}", replica.process.log()));
            self.service.add(port);
        }
    }

    /// Makes a Jobgate part of the Service.
    pub(crate) fn join(&self, replica: usize) {
        self.service.add(self.replicas[replica].port);
    }

    /// Ends every Jobgate at once, without a farewell.
    pub(crate) fn kill(&mut self) {
        self.service.clear();
        self.replicas.clear();
    }

    /// Returns the folder in place of the one where a certificate is mounted.
    pub(crate) fn mounted(&self) -> PathBuf {
        self.cluster.dir.path().join(format!("{}.tls", self.name))
    }

    /// Returns the name of the Deployment's service account.
    fn account(&self) -> &str {
        find(&self.objects, "Deployment", "")["spec"]["template"]["spec"]["serviceAccountName"]
            .as_str()
            .expect("a name")
    }

    /// Waits until the API server, which hears of roles and bindings by watches, lets the Jobgates do all
    /// that the roles say. One that is rejected once says so, and takes its time to ask again.
    fn wait_until_permitted(&self) {
        let user = format!("system:serviceaccount:{}:{}", self.name, self.account());
        let mut reviews = Vec::new();
        for role in self
            .objects
            .iter()
            .filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")))
        {
            for rule in role["rules"].as_array().expect("rules") {
                // Every rule of ours is about one group, and one name if any.
                let (group, name) = (&rule["apiGroups"][0], &rule["resourceNames"][0]);
                for resource in rule["resources"].as_array().expect("resources") {
                    for verb in rule["verbs"].as_array().expect("verbs") {
                        let what = json!({"namespace": role["metadata"]["namespace"], "group": group, "resource": resource, "verb": verb, "name": name});
                        let spec = json!({"user": user, "resourceAttributes": what});
                        reviews.push(json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}));
                    }
                }
            }
        }
        if reviews.is_empty() {
            return;
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": reviews}).to_string();
        eventually(Duration::from_secs(40), || {
            let output =
                self.cluster.admin.run(&["create", "-o", "jsonpath={.status.allowed} ", "-f", "-"], &list);
            let all = output.stdout.split_whitespace().collect::<Vec<_>>() == vec!["true"; reviews.len()];
            if output.success && all { Ok(()) } else { Err(output.to_string()) }
        })
        .expect("the roles must be in force");
    }

    /// Returns a kubeconfig with a token of the Deployment's service account, as the kubelet would mount it.
    fn kubeconfig(&self) -> PathBuf {
        let token =
            self.cluster.admin.run(&["-n", &self.name, "create", "token", self.account()], "").ok().stdout;
        self.cluster
            .write_kubeconfig(&self.name, token.trim(), self.cluster.url())
            .expect("write a kubeconfig");
        self.cluster.kubeconfig_of(&self.name)
    }

    pub(crate) fn secret(&self) -> String {
        format!("{}/jobgate-tls", self.secrets())
    }

    pub(crate) fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.name)
    }

    /// Returns the path of a configuration: of the mutating or the validating one.
    pub(crate) fn configuration(&self, kind: &str) -> String {
        format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{}", self.name)
    }

    /// Returns the `caBundle` of every webhook of both configurations, as PEM.
    pub(crate) fn bundles(&self, api: &Api) -> Vec<String> {
        ["mutating", "validating"]
            .iter()
            .flat_map(|kind| bundles(&api.get(&self.configuration(kind))))
            .collect()
    }

    /// Sums a counter with the label over all Jobgates.
    pub(crate) fn count(&self, counter: &str, label: &str) -> f64 {
        self.replicas.iter().map(|replica| replica.count(counter, label)).sum()
    }

    /// Returns what the Jobgates printed last.
    pub(crate) fn logs(&self) -> String {
        self.replicas.iter().map(|replica| replica.process.log()).collect::<Vec<_>>().join("\n---\n")
    }
}

impl Drop for Installation<'_> {
    /// Webhooks that fail closed must not outlive those who answer.
    fn drop(&mut self) {
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
        self.cluster.admin.run(&["delete", kinds, &self.name, "--ignore-not-found"], "");
        if thread::panicking() {
            eprintln!("the last that the Jobgates of {} printed:\n{}", self.name, self.logs());
        }
    }
}

/// Returns the `caBundle` of every webhook of a configuration, as PEM; an empty text where there is none.
pub(crate) fn bundles(configuration: &Value) -> Vec<String> {
    use base64::Engine as _;
    let decode = |webhook: &Value| {
        let text = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).expect("base64"))
            .expect("PEM")
    };
    configuration["webhooks"].as_array().expect("webhooks").iter().map(decode).collect()
}

/// Gives an object the installation's names.
fn adapt(object: &mut Value, name: &str, closed: &str, port: u16) {
    let kind = object["kind"].as_str().expect("a kind").to_owned();
    match kind.as_str() {
        "ClusterRole" | "ClusterRoleBinding" | "PriorityClass" => {
            let own = format!("{name}-{}", object["metadata"]["name"].as_str().expect("a name"));
            object["metadata"]["name"] = own.into();
        }
        "Namespace" => {
            object["metadata"]["name"] = name.into();
            object["metadata"]["labels"][FOR] = name.into();
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            object["metadata"]["name"] = name.into();
        }
        _ => object["metadata"]["namespace"] = name.into(),
    }
    match kind.as_str() {
        "ClusterRole" => {
            for rule in object["rules"].as_array_mut().expect("rules") {
                if rule["resourceNames"] == json!(["jobgate"]) {
                    rule["resourceNames"] = json!([name]);
                }
            }
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            if kind == "ClusterRoleBinding" {
                object["roleRef"]["name"] =
                    format!("{name}-{}", object["roleRef"]["name"].as_str().expect("a name")).into();
            }
            object["subjects"][0]["namespace"] = name.into();
        }
        "Service" => object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"}),
        "Deployment" => {
            let class = &mut object["spec"]["template"]["spec"]["priorityClassName"];
            *class = format!("{name}-{}", class.as_str().expect("a name")).into();
        }
        _ => {}
    }
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        webhook["clientConfig"]["service"]["namespace"] = name.into();
        webhook["clientConfig"]["service"]["port"] = port.into();
        let expressions =
            webhook["namespaceSelector"]["matchExpressions"].as_array_mut().expect("expressions");
        for value in
            expressions.iter_mut().filter_map(|expression| expression["values"].as_array_mut()).flatten()
        {
            match value.as_str() {
                Some("jobgate") => *value = name.into(),
                Some("training") => *value = closed.into(),
                _ => {}
            }
        }
        expressions.push(json!({"key": FOR, "operator": "In", "values": [name]}));
        // The label does not keep it from objects in no namespace, which are those of others.
        webhook["rules"].as_array_mut().expect("rules").retain(|rule| rule["scope"] != "Cluster");
    }
}

/// One Jobgate.
pub(crate) struct Replica {
    pub(crate) process: Process,
    pub(crate) port: u16,
    metrics: u16,
}

impl Replica {
    pub(crate) fn ready(&self) -> Result<(), String> {
        http_get(self.metrics, "/readyz").map(drop)
    }

    /// Sums a counter with the label, for example `jobgate_x_total` and `step="sign"`; 0 where nothing was
    /// counted.
    pub(crate) fn count(&self, counter: &str, label: &str) -> f64 {
        count(self.metrics, counter, label)
    }
}

/// What a Service is to those who call it: one address, behind which each connection goes to the next who is
/// ready.
struct Service {
    port: u16,
    ready: Arc<Mutex<Vec<u16>>>,
    stop: Arc<AtomicBool>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let service = Self { port, ready: Arc::default(), stop: Arc::default() };
        let (ready, stop) = (Arc::clone(&service.ready), Arc::clone(&service.stop));
        thread::spawn(move || {
            let turn = AtomicUsize::new(0);
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let next = {
                    let ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
                    ready.get(turn.fetch_add(1, Ordering::Relaxed) % ready.len().max(1)).copied()
                };
                // With nobody there the connection ends, as it would be refused.
                if let Some(Ok(to)) = next.map(|port| TcpStream::connect(("127.0.0.1", port))) {
                    let _ = join(stream, to);
                }
            }
        });
        service
    }

    fn add(&self, port: u16) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&port) {
            ready.push(port);
        }
    }

    fn clear(&self) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Has two connections speak to each other.
fn join(a: TcpStream, b: TcpStream) -> io::Result<()> {
    for stream in [&a, &b] {
        stream.set_nodelay(true)?;
    }
    for (mut from, mut to) in [(a.try_clone()?, b.try_clone()?), (b, a)] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
    Ok(())
}
