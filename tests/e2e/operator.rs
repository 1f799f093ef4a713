//! Real operators, as programs on this machine: their own definitions, permissions and webhooks of their
//! release, under their own service account.
//!
//! Only three things are not as in production: an operator is no pod, so that its webhook's Service leads to
//! this machine; it gets its certificate from us where it would have one made; and it does not ask who else
//! leads where that can be switched off.

mod chosen;
mod given;

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobgate::text::value::{Value, json};

use crate::certificates::{Authority, Pair};
use crate::cluster::Cluster;
use crate::definitions::{self, without_descriptions};
use crate::kubectl::Kubectl;
use crate::kubelet::{Kubelet, NODE};
use crate::process::{Process, eventually, free_port, http_get};
use crate::simulated;

pub(crate) use chosen::{chosen, folders, not_run};

/// An operator as data.
pub(crate) struct Operator {
    /// Its name: that of the component of `tests/cluster`, or the one in the list of `.ci/operators`.
    pub(crate) name: &'static str,
    /// What people call it.
    title: &'static str,
    /// The namespace that it runs in, and its service account.
    namespace: &'static str,
    account: &'static str,
    /// The folders of manifests that are put together, below its own folder.
    manifests: &'static [&'static str],
    /// Objects that are not made, such as definitions that are left to another operator: a cluster has one of
    /// each resource.
    without: &'static [&'static str],
    programs: &'static [Program],
    /// How it makes its own certificate, if that cannot be switched off.
    own_certificate: Option<OwnCertificate>,
    /// The scheduler that is one of its programs.
    pub(crate) scheduler: Option<Scheduler>,
    /// What an administrator makes once it is ready.
    then: &'static [fn() -> Value],
}

/// A scheduler: it binds pods to the nodes that there are. Where rows are recorded the scripted kubelet does what it does.
pub(crate) struct Scheduler {
    /// Its name in pods.
    pub(crate) name: &'static str,
    /// Where the program is, as in the list of programs.
    program: &'static str,
}

/// A certificate that an operator makes, into a Secret of its namespace.
struct OwnCertificate {
    secret: &'static str,
    /// Where it wants to see a file before it starts, if that is not where it reads. In production this is the
    /// Secret.
    looks_at: Option<&'static str>,
}

/// One of the programs of an operator.
pub(crate) struct Program {
    /// Where it is in the operator's folder.
    path: &'static str,
    /// Its service account, if it is not that of the operator.
    account: Option<&'static str>,
    arguments: fn(&At) -> Vec<String>,
    /// Its configuration file, if it has one.
    configuration: Option<fn(&At) -> Value>,
    /// A port that it always listens on.
    fixed_port: Option<u16>,
    /// The path that says whether it is ready; none: it is when it listens for webhooks.
    ready: Option<&'static str>,
    /// Who answers what it asks over plain HTTP, at a port of this machine.
    answered_by: Option<Proxy>,
}

/// Starts whoever answers what a program asks over plain HTTP, and returns the port.
type Proxy = fn(&Kubelet) -> Result<u16, String>;

/// Where a program has its files and listens.
pub(crate) struct At {
    dir: PathBuf,
    kubeconfig: PathBuf,
    webhook: u16,
    health: u16,
    /// Where somebody answers what it asks over plain HTTP.
    proxy: Option<u16>,
}

impl At {
    fn certificates(&self) -> PathBuf {
        // Where controller-runtime looks, below the folder for temporary files.
        self.dir.join("k8s-webhook-server/serving-certs")
    }

    fn certificate(&self, name: &str) -> String {
        self.certificates().join(name).display().to_string()
    }

    fn write_certificate(&self, pair: &Pair) -> Result<(), String> {
        write(&self.certificates().join("tls.crt"), &pair.certificate)?;
        write(&self.certificates().join("tls.key"), &pair.key)
    }

    fn configuration(&self) -> String {
        format!("--config={}", self.dir.join("configuration.yaml").display())
    }

    fn probes(&self) -> String {
        format!("127.0.0.1:{}", self.health)
    }
}

/// The operators whose programs are Go modules, in the order in which they start.
static OPERATORS: &[Operator] = &[
    Operator {
        name: "jobset",
        title: "JobSet",
        namespace: "jobset-system",
        account: "jobset-controller-manager",
        manifests: &["manifests/default"],
        without: &[],
        programs: &[Program {
            path: "jobset",
            account: None,
            arguments: |at| vec![at.configuration()],
            configuration: Some(|at| {
                json!({
                    "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
                    "leaderElection": {"leaderElect": false}, "internalCertManagement": {"enable": false},
                    "webhook": {"port": at.webhook, "certDir": at.certificates()},
                    "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": at.probes()},
                })
            }),
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: None,
        }],
        own_certificate: None,
        scheduler: None,
        then: &[],
    },
    Operator {
        name: "trainer",
        title: "Trainer",
        namespace: "kubeflow-system",
        account: "kubeflow-trainer-controller-manager",
        // Without the JobSet that its overlay fetches.
        manifests: &["manifests/base/crds", "manifests/base/rbac", "manifests/base/webhook"],
        without: &[],
        programs: &[Program {
            path: "trainer",
            account: None,
            arguments: |at| vec![at.configuration()],
            configuration: Some(|at| {
                json!({
                    "apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration",
                    "leaderElection": {"leaderElect": false}, "certManagement": {"enable": false},
                    "webhook": {"port": at.webhook}, "metrics": {"bindAddress": "0"},
                    "health": {"healthProbeBindAddress": at.probes(), "readinessEndpointName": "readyz", "livenessEndpointName": "healthz"},
                    "clientConnection": {"qps": 50, "burst": 100},
                })
            }),
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: None,
        }],
        own_certificate: None,
        scheduler: None,
        then: &[],
    },
    Operator {
        name: "training-operator",
        title: "training-operator",
        namespace: "kubeflow",
        account: "training-operator",
        manifests: &["manifests/overlays/standalone"],
        without: &["mpijobs.kubeflow.org"],
        programs: &[Program {
            path: "training-operator",
            account: None,
            arguments: |at| {
                let schemes = ["tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob"];
                let others = [
                    format!("--webhook-server-port={}", at.webhook),
                    format!("--health-probe-bind-address={}", at.probes()),
                    "--metrics-bind-address=0".to_owned(),
                    // Of many objects at once, the last would wait for the client's own limit.
                    "--kube-api-qps=1000".to_owned(),
                    "--kube-api-burst=2000".to_owned(),
                ];
                // Without MPIJobs, which are the MPI operator's here.
                schemes.iter().map(|scheme| format!("--enable-scheme={scheme}")).chain(others).collect()
            },
            configuration: None,
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: None,
        }],
        own_certificate: Some(OwnCertificate {
            secret: "training-operator-webhook-cert",
            looks_at: Some("/tmp/k8s-webhook-server/serving-certs"),
        }),
        scheduler: None,
        then: &[],
    },
    Operator {
        name: "mpi-operator",
        title: "mpi-operator",
        namespace: "mpi-operator",
        account: "mpi-operator",
        manifests: &["manifests/overlays/standalone"],
        without: &[],
        programs: &[Program {
            path: "mpi-operator",
            account: None,
            arguments: |_| {
                ["-alsologtostderr", "--kube-api-qps=1000", "--kube-api-burst=2000"]
                    .map(str::to_owned)
                    .to_vec()
            },
            configuration: None,
            fixed_port: Some(8080),
            ready: Some("/healthz"),
            answered_by: None,
        }],
        own_certificate: None,
        scheduler: None,
        then: &[],
    },
];

/// Returns all operators, in the order in which they start.
fn known() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.iter().chain(given::OPERATORS)
}

/// Returns the user of an operator.
pub(crate) fn user_of(name: &str) -> String {
    known().find(|operator| operator.name == name).expect("a known operator").user()
}

/// An operator that runs; it ends when this is dropped.
pub(crate) struct Installed {
    pub(crate) operator: &'static Operator,
    processes: Vec<Process>,
}

impl Installed {
    /// Returns what its programs printed last.
    pub(crate) fn log(&self) -> String {
        let logs = self.processes.iter().map(Process::log).collect::<Vec<_>>().join("\n");
        format!("the last that {} printed:\n{logs}", self.operator.name)
    }
}

impl Operator {
    /// Returns the user that it is to the API server.
    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account)
    }

    /// Returns the scheduler that is run with it: none where rows are recorded, which say what comes of each pod.
    pub(crate) fn scheduler(&self) -> Option<&Scheduler> {
        self.scheduler.as_ref().filter(|_| !simulated::is_recorded())
    }

    /// Tells whether somebody else is to do what its scheduler does.
    pub(crate) fn is_without_its_scheduler(&self) -> bool {
        self.scheduler.is_some() && self.scheduler().is_none()
    }

    /// Makes its objects and starts its programs, whose folder is given.
    pub(crate) fn install(
        &'static self,
        cluster: &Cluster,
        kubelet: &Kubelet,
        folder: &Path,
    ) -> Result<Installed, String> {
        self.try_install(cluster, kubelet, folder).map_err(|e| format!("{}: {e}", self.name))
    }

    fn try_install(
        &'static self,
        cluster: &Cluster,
        kubelet: &Kubelet,
        folder: &Path,
    ) -> Result<Installed, String> {
        let ports: Vec<u16> = self.programs.iter().map(|_| free_port()).collect();
        let authority = Authority::new(self.name);
        let webhook = *ports.first().ok_or("it has no program")?;
        let objects = Manifests::of(self, folder, &cluster.admin, cluster.dir.path())?;
        let services = objects.services();
        let names: Vec<String> =
            services.iter().map(|name| format!("{name}.{}.svc", self.namespace)).collect();
        let pair = authority.server_of(&names);
        objects.create(cluster, self, webhook, &authority)?;
        if self.scheduler().is_some() {
            make_node(&cluster.admin)?;
        }

        let mut processes = Vec::new();
        let is_run = |program: &&Program| {
            let is_scheduler =
                self.scheduler.as_ref().is_some_and(|scheduler| scheduler.program == program.path);
            !(is_scheduler && self.is_without_its_scheduler())
        };
        for (program, webhook) in self.programs.iter().filter(is_run).zip(ports) {
            let name = Path::new(program.path).file_name().unwrap_or_default();
            let at = At {
                dir: cluster.dir.path().join(self.name).join(name),
                kubeconfig: self.kubeconfig(cluster, program.account.unwrap_or(self.account))?,
                webhook,
                health: program.fixed_port.unwrap_or_else(free_port),
                proxy: program.answered_by.map(|answer| answer(kubelet)).transpose()?,
            };
            write(&at.certificates().join("ca.crt"), &authority.certificate())?;
            processes.push(self.start(cluster, program, folder, &at, &pair)?);
        }
        for make in self.then {
            let object = make().to_string();
            eventually(Duration::from_secs(60), || {
                let output = cluster.admin.run(&["apply", "-f", "-"], &object);
                if output.success { Ok(()) } else { Err(output.to_string()) }
            })?;
        }
        Ok(Installed { operator: self, processes })
    }

    fn start(
        &self,
        cluster: &Cluster,
        program: &Program,
        folder: &Path,
        at: &At,
        pair: &Pair,
    ) -> Result<Process, String> {
        at.write_certificate(pair)?;
        if let Some(configuration) = program.configuration {
            write(&at.dir.join("configuration.yaml"), &configuration(at).to_string())?;
        }
        if let Some(port) = program.fixed_port {
            // Another run on this machine has it for some minutes.
            eventually(Duration::from_secs(300), || {
                let free = TcpListener::bind(("0.0.0.0", port)).map(drop);
                free.map_err(|e| format!("port {port}, which it always takes: {e}"))
            })?;
        }
        if let Some(own) = &self.own_certificate {
            // It makes the certificate, and a kubelet would bring it back as files.
            let mut first = self.spawn(program, folder, at)?;
            let made = eventually(Duration::from_secs(60), || {
                let made = self.made_certificate(cluster, own.secret);
                made.map_err(|e| format!("{e}\n{}", first.log()))
            })?;
            first.kill();
            at.write_certificate(&made)?;
            if let Some(folder) = own.looks_at {
                write(&Path::new(folder).join("tls.crt"), &made.certificate)?;
            }
        }
        let mut process = self.spawn(program, folder, at)?;
        let ready = eventually(Duration::from_secs(120), || {
            // One that has ended will not come up any more.
            if let Err(ended) = process.check() {
                return Ok(Err(ended));
            }
            let ready = match program.ready {
                Some(path) => http_get(at.health, path).map(drop),
                None => TcpStream::connect(("127.0.0.1", at.webhook)).map(drop).map_err(|e| e.to_string()),
            };
            ready.map(Ok)
        });
        ready.and_then(|ended| ended).map_err(|e| format!("{e}\n{}", process.log()))?;
        Ok(process)
    }

    fn spawn(&self, program: &Program, folder: &Path, at: &At) -> Result<Process, String> {
        // In a checkout it is where its own build puts it.
        let path = first_of(folder, program.path, &[&format!("_output/bin/{}", program.path), "bin/manager"]);
        let mut command = Command::new(path);
        command
            .args((program.arguments)(at))
            .env("KUBECONFIG", &at.kubeconfig)
            .env("TMPDIR", &at.dir)
            .env("MY_POD_NAMESPACE", self.namespace)
            .env("POD_NAMESPACE", self.namespace)
            .env("DEBUG_SOCKET_DIR", at.dir.join("sockets"))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBEFLOW_NAMESPACE");
        if let Some(port) = at.proxy {
            command.env("HTTP_PROXY", format!("http://127.0.0.1:{port}"));
        }
        Process::start(&mut command, &at.dir.join("log"))
    }

    fn made_certificate(&self, cluster: &Cluster, secret: &str) -> Result<Pair, String> {
        let output = cluster.admin.run(&["get", "secret", secret, "-n", self.namespace, "-o", "json"], "");
        let object: Value = serde_json::from_str(&output.stdout).map_err(|_| output.to_string())?;
        let file = |name: &str| {
            let bytes = STANDARD.decode(text(&object["data"][name])).map_err(|e| e.to_string())?;
            let file = String::from_utf8(bytes).map_err(|e| e.to_string())?;
            if file.is_empty() { Err(format!("no {name} in the Secret {secret}")) } else { Ok(file) }
        };
        Ok(Pair { certificate: file("tls.crt")?, key: file("tls.key")? })
    }

    /// Writes a kubeconfig with a token of one of its service accounts.
    fn kubeconfig(&self, cluster: &Cluster, account: &str) -> Result<PathBuf, String> {
        let token = ["create", "token", account, "-n", self.namespace, "--duration=24h"];
        // The account was made a moment ago.
        let output = eventually(Duration::from_secs(20), || {
            let output = cluster.admin.run(&token, "");
            if output.success { Ok(output) } else { Err(output.to_string()) }
        })?;
        // Not its user's name: KUBECONFIG is a list, with colons between the files.
        let name = format!("operator-{}-{account}", self.name);
        cluster.write_kubeconfig(&name, output.stdout.trim(), cluster.url())?;
        Ok(cluster.kubeconfig_of(&name))
    }
}

/// The objects of an operator's own manifests.
struct Manifests(Vec<Value>);

impl Manifests {
    /// Reads those in files, and has Kustomize put those in folders together, for the operator's namespace.
    fn of(operator: &Operator, folder: &Path, kubectl: &Kubectl, scratch: &Path) -> Result<Self, String> {
        let place = scratch.join(format!("manifests-{}", operator.name));
        // Kustomize wants relative paths.
        let up = "../".repeat(place.components().count() - 1);
        let (mut texts, mut bases) = (Vec::new(), Vec::new());
        for base in operator.manifests {
            let in_checkout = ["config", "installer"].map(|name| base.replacen("manifests", name, 1));
            let base = first_of(folder, base, &in_checkout.each_ref().map(String::as_str));
            if base.is_file() {
                let text = fs::read_to_string(&base);
                texts.push(text.map_err(|e| format!("read {}: {e}", base.display()))?);
            } else {
                bases.push(format!("{up}{}", base.display().to_string().trim_start_matches('/')));
            }
        }
        if !bases.is_empty() {
            let kustomization = json!({"namespace": operator.namespace, "resources": bases});
            write(&place.join("kustomization.yaml"), &kustomization.to_string())?;
            let output = kubectl.run(&["kustomize", &place.display().to_string()], "");
            if !output.success {
                return Err(output.to_string());
            }
            texts.push(output.stdout);
        }
        let documents = texts.iter().flat_map(|text| jobgate::text::yaml::documents(text.as_bytes()));
        let objects: Result<Vec<Value>, String> = documents
            .map(|document| document.map(|document| document.value).map_err(|e| e.to_string()))
            .collect();
        Ok(Self(objects?))
    }

    /// Returns the names of the Services that its webhooks are called by.
    fn services(&self) -> BTreeSet<String> {
        let mut objects = self.0.clone();
        let called = objects.iter_mut().flat_map(clients);
        called.map(|client| text(&client["service"]["name"]).to_owned()).collect()
    }

    /// Makes all but what runs it.
    fn create(
        mut self,
        cluster: &Cluster,
        operator: &Operator,
        webhook: u16,
        authority: &Authority,
    ) -> Result<(), String> {
        self.0.retain(|object| {
            let is_left = operator.without.iter().any(|name| object["metadata"]["name"] == *name);
            let is_run = ["Deployment", "Job", "Service"].iter().any(|kind| object["kind"] == *kind);
            !is_run && !is_left
        });
        for object in &mut self.0 {
            without_descriptions(object);
            lead_webhooks_here(object, webhook, &authority.certificate());
        }
        for name in self.services() {
            self.0.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": operator.namespace},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            }));
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": operator.namespace}});
        if !self.0.iter().any(|object| object["kind"] == "Namespace") {
            self.0.push(namespace);
        }
        let definitions: Vec<String> = self
            .0
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
            .map(|object| text(&object["metadata"]["name"]).to_owned())
            .collect();
        // A second try finds the namespace.
        eventually(Duration::from_secs(60), || definitions::apply(&cluster.admin, &mut self.0))?;
        let names = definitions.join(",");
        eventually(Duration::from_secs(60), || {
            let output = cluster.admin.run(&["get", &names, "-A"], "");
            if output.success { Ok(()) } else { Err(output.to_string()) }
        })
    }
}

/// Makes the node that the scripted kubelet is: one that has room for everything.
fn make_node(kubectl: &Kubectl) -> Result<(), String> {
    let room = json!({"cpu": "100000", "memory": "100000Gi", "pods": "100000", "nvidia.com/gpu": "100000"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "status": {
            "capacity": room.clone(), "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let output = kubectl.run(&["create", "-f", "-"], &node.to_string());
    if !output.success {
        return Err(output.to_string());
    }
    // The API server gives every new node this taint, and there is no controller that takes it away.
    let output = kubectl.run(&["taint", "node", NODE, "node.kubernetes.io/not-ready-"], "");
    if output.success { Ok(()) } else { Err(output.to_string()) }
}

/// Returns the path of what is in a folder under a name, or under one of the names that it has in a checkout.
fn first_of(folder: &Path, name: &str, in_checkout: &[&str]) -> PathBuf {
    let paths = [name].into_iter().chain(in_checkout.iter().copied()).map(|name| folder.join(name));
    paths.clone().find(|path| path.exists()).unwrap_or_else(|| folder.join(name))
}

/// Writes a file, and makes the folders that it is in.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().expect("a file is in a folder");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|e| format!("write {}: {e}", path.display()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the configurations of clients in webhooks, and in a definition with a conversion.
fn clients(object: &mut Value) -> Vec<&mut Value> {
    match object["kind"].as_str() {
        Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            let hooks = object["webhooks"].as_array_mut().into_iter().flatten();
            hooks.filter_map(|hook| hook.get_mut("clientConfig")).collect()
        }
        Some("CustomResourceDefinition") => {
            object.pointer_mut("/spec/conversion/webhook/clientConfig").into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn lead_webhooks_here(object: &mut Value, port: u16, authority: &str) {
    for client in clients(object) {
        client["service"]["port"] = json!(port);
        client["caBundle"] = json!(STANDARD.encode(authority));
    }
}
