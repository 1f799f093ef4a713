//! The cluster: etcd, kube-apiserver, kube-controller-manager and Jobgate, started at the first scenario.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use jobgate::judge::facts::FactKind;
use jobgate::kinds::{ApiResource, Kind};
use jobgate::text::value::{Value, json};
use tempfile::TempDir;

use crate::certificates::{self, Authority};
use crate::definitions::{self, Definitions};
use crate::gate::{Gate, Setup};
use crate::kubectl::Kubectl;
use crate::process::{Process, eventually, free_port};
use crate::programs::Servers;

/// The label of namespaces that the Jobgate of the whole cluster looks after.
pub(crate) const GATED: &str = "jobgate-e2e";

/// Where the binaries are.
#[derive(Clone)]
pub(crate) struct Assets(PathBuf);

impl Assets {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(crate) fn has_controllers(&self) -> bool {
        self.0.join("kube-controller-manager").is_file()
    }

    fn command(&self, name: &str) -> Command {
        Command::new(self.0.join(name))
    }

    /// Returns the gates that are on everywhere, for servers of which some have them off: without `managedBy`,
    /// the Job controller works on Jobs that scenarios keep for themselves.
    fn gates(&self) -> Option<&'static str> {
        let output = self.command("kube-apiserver").arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout);
        let is_off = ["v1.30.", "v1.31."].iter().any(|minor| version.contains(minor));
        is_off.then_some("--feature-gates=JobManagedBy=true")
    }
}

/// Returns a place in the shared data, if it is there.
pub(crate) fn shared(what: &str) -> Option<PathBuf> {
    let place = env::var_os("JOBGATE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    Some(place.join(what)).filter(|path| path.exists())
}

/// A cluster that starts when it is first needed.
pub(crate) struct Lazy {
    servers: Servers,
    definitions: Option<Definitions>,
    cluster: OnceLock<Result<Cluster, String>>,
    starting: Mutex<()>,
}

impl Lazy {
    pub(crate) const fn new(servers: Servers, definitions: Option<Definitions>) -> Self {
        Self { servers, definitions, cluster: OnceLock::new(), starting: Mutex::new(()) }
    }

    pub(crate) fn get(&self) -> Result<&Cluster, String> {
        if self.cluster.get().is_none() {
            let _one = self.starting.lock();
            self.cluster.get_or_init(|| {
                let assets = Assets::new(self.servers.folder()?);
                let definitions = self.definitions.as_ref().map_or(Ok(Vec::new()), Definitions::all)?;
                Cluster::start(&assets, &definitions, None)
            });
        }
        match self.cluster.get() {
            Some(Ok(cluster)) => Ok(cluster),
            Some(Err(error)) => Err(format!("start the cluster: {error}")),
            None => Err("the cluster did not start".to_owned()),
        }
    }
}

/// A running cluster. The order of the fields is the order of their end.
pub(crate) struct Cluster {
    pub(crate) gate: Option<Gate>,
    pub(crate) admin: Kubectl,
    _processes: Vec<Process>,
    pub(crate) dir: TempDir,
    assets: Assets,
    url: String,
    authority: Authority,
    serial: AtomicU32,
}

/// Users by token: name, token, groups.
const USERS: [(&str, &str, &str); 5] = [
    ("admin", "admin-token", "system:masters"),
    ("system:kube-controller-manager", "controllers-token", ""),
    ("jobgate", "jobgate-token", ""),
    ("nobody", "nobody-token", ""),
    ("watcher", "watcher-token", ""),
];

/// The controllers that run.
const CONTROLLERS: [&str; 6] = [
    "garbage-collector-controller",
    "job-controller",
    "cronjob-controller",
    "statefulset-controller",
    "serviceaccount-controller",
    "namespace-controller",
];

impl Cluster {
    fn start(assets: &Assets, definitions: &[Value], audit: Option<&str>) -> Result<Self, String> {
        let dir = tempfile::Builder::new()
            .prefix("jobgate-e2e-")
            .tempdir()
            .map_err(|e| format!("make a directory: {e}"))?;
        let at = |name: &str| dir.path().join(name);
        let write =
            |name: &str, text: &str| fs::write(at(name), text).map_err(|e| format!("write {name}: {e}"));
        let authority = Authority::new("e2e");
        let server = authority.server();
        write("ca.crt", &authority.certificate())?;
        write("server.crt", &server.certificate)?;
        write("server.key", &server.key)?;
        let (private, public) = certificates::key_pair();
        write("accounts.key", &private)?;
        write("accounts.pub", &public)?;
        let tokens = USERS.map(|(user, token, groups)| format!("{token},{user},{user},\"{groups}\"\n"));
        write("tokens.csv", &tokens.concat())?;
        if let Some(policy) = audit {
            write("audit.json", policy)?;
        }

        let (etcd, peer, api) = (free_port(), free_port(), free_port());
        let etcd_url = format!("http://127.0.0.1:{etcd}");
        let peer_url = format!("http://127.0.0.1:{peer}");
        let url = format!("https://127.0.0.1:{api}");
        let file = |flag: &str, name: &str| format!("--{flag}={}", at(name).display());
        let mut processes = vec![Process::start(
            assets.command("etcd").args([
                "--name=e2e".to_owned(),
                file("data-dir", "etcd"),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=e2e={peer_url}"),
                "--unsafe-no-fsync".to_owned(),
            ]),
            &at("etcd.log"),
        )?];
        processes.push(Process::start(
            assets
                .command("kube-apiserver")
                // As envtest has it: without a controller, no namespace gets the account that pods need.
                .args((!assets.has_controllers()).then_some("--disable-admission-plugins=ServiceAccount"))
                .args(assets.gates())
                .args(audit.map(|_| file("audit-policy-file", "audit.json")))
                .args(audit.map(|_| file("audit-log-path", "audit.log")))
                .args([
                    format!("--etcd-servers={etcd_url}"),
                    "--bind-address=127.0.0.1".to_owned(),
                    "--advertise-address=127.0.0.1".to_owned(),
                    format!("--secure-port={api}"),
                    file("tls-cert-file", "server.crt"),
                    file("tls-private-key-file", "server.key"),
                    file("cert-dir", "."),
                    "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                    file("service-account-key-file", "accounts.pub"),
                    file("service-account-signing-key-file", "accounts.key"),
                    file("token-auth-file", "tokens.csv"),
                    "--authorization-mode=RBAC".to_owned(),
                    // As clusters have it; the default rejects privileged containers.
                    "--allow-privileged=true".to_owned(),
                    "--endpoint-reconciler-type=none".to_owned(),
                    "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                ]),
            &at("apiserver.log"),
        )?);

        let cluster = Self {
            gate: None,
            admin: Kubectl {
                program: assets.0.join("kubectl"),
                kubeconfig: at("admin.kubeconfig"),
                cache: at("kubectl"),
            },
            _processes: Vec::new(),
            assets: assets.clone(),
            url,
            authority,
            serial: AtomicU32::new(0),
            dir,
        };
        for (user, token, _) in USERS {
            cluster.write_kubeconfig(user, token, &cluster.url)?;
        }
        eventually(Duration::from_secs(90), || {
            // One that has ended will not come up any more.
            if let Err(ended) = processes.iter_mut().try_for_each(Process::check) {
                return Ok(Err(ended));
            }
            let answer = cluster.admin.run(&["get", "--raw=/readyz"], "");
            if answer.success { Ok(Ok(())) } else { Err(answer.to_string()) }
        })??;
        if assets.has_controllers() {
            processes.push(cluster.controllers(assets)?);
        }
        let cluster = Self { _processes: processes, ..cluster };
        cluster.prepare(definitions)?;
        let gate = Gate::start(
            &cluster,
            &Setup {
                selector: json!({"matchLabels": {GATED: "yes"}}),
                cluster_scoped: true,
                ..Setup::named("everywhere")
            },
        )?;
        Ok(Self { gate: Some(gate), ..cluster })
    }

    /// Starts another cluster, with other custom resources.
    pub(crate) fn another(&self, definitions: &[Value]) -> Result<Self, String> {
        Self::start(&self.assets, definitions, None)
    }

    /// Starts a cluster without custom resources, whose API server writes into `audit.log` what a policy says.
    pub(crate) fn audited(assets: &Assets, policy: &str) -> Result<Self, String> {
        Self::start(assets, &[], Some(policy))
    }

    fn controllers(&self, assets: &Assets) -> Result<Process, String> {
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.dir.path().join(name).display());
        let mut controllers: Vec<&str> = CONTROLLERS.to_vec();
        // Scenarios look at Jobs that have ended; rows also say when they are deleted.
        controllers.extend(crate::simulated::is_recorded().then_some("ttl-after-finished-controller"));
        Process::start(
            assets.command("kube-controller-manager").args(assets.gates()).args([
                // Of many Jobs at once, the last would wait for the client's own limit.
                "--kube-api-qps=1000".to_owned(),
                "--kube-api-burst=2000".to_owned(),
                file("kubeconfig", "system:kube-controller-manager.kubeconfig"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", free_port()),
                file("cert-dir", "."),
                "--leader-elect=false".to_owned(),
                "--use-service-account-credentials=true".to_owned(),
                file("service-account-private-key-file", "accounts.key"),
                file("root-ca-file", "ca.crt"),
                file("flex-volume-plugin-dir", "plugins"),
                format!("--controllers={}", controllers.join(",")),
                "--concurrent-gc-syncs=4".to_owned(),
            ]),
            &self.dir.path().join("controllers.log"),
        )
    }

    /// What every scenario may rely on.
    fn prepare(&self, definitions: &[Value]) -> Result<(), String> {
        let facts: Vec<ApiResource> = FactKind::all().map(|kind| kind.definition().resource).collect();
        let parents: Vec<ApiResource> = Kind::with_children().map(ApiResource::from_kind).collect();
        let read = |resources: &[ApiResource], verbs: &[&str]| {
            json!({
                "apiGroups": resources.iter().map(|resource| resource.group).collect::<Vec<_>>(),
                "resources": resources.iter().map(|resource| resource.name).collect::<Vec<_>>(),
                "verbs": verbs,
            })
        };
        let reader = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "jobgate"},
                "rules": [read(&facts, &["get", "list", "watch"]), read(&parents, &["get"])],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "jobgate"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jobgate"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jobgate"}],
            },
        ]});
        let output = self.admin.run(&["create", "-f", "-"], &reader.to_string());
        if !output.success {
            return Err(output.to_string());
        }
        if definitions.is_empty() {
            return Ok(());
        }
        definitions::apply(&self.admin, &mut definitions.to_vec())?;
        let names: Vec<&str> =
            definitions.iter().filter_map(|definition| definition["metadata"]["name"].as_str()).collect();
        eventually(Duration::from_secs(60), || {
            let output = self.admin.run(&["get", &names.join(","), "-A"], "");
            if output.success { Ok(()) } else { Err(output.to_string()) }
        })
        .map(drop)
    }

    /// Writes a kubeconfig for a user and a server.
    pub(crate) fn write_kubeconfig(&self, user: &str, token: &str, url: &str) -> Result<(), String> {
        let path = self.kubeconfig_of(user);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority": self.dir.path().join("ca.crt")}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
        });
        fs::write(&path, config.to_string()).map_err(|e| format!("write {}: {e}", path.display()))
    }

    /// Returns the kubeconfig of a user: `admin`, `jobgate` (may read claims), `nobody` (may read nothing) or
    /// `watcher` (may do what the one scenario that uses it says).
    pub(crate) fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.dir.path().join(format!("{user}.kubeconfig"))
    }

    /// Returns where the API server is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns a name that no other call returns.
    pub(crate) fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.serial.fetch_add(1, Ordering::Relaxed))
    }
}
