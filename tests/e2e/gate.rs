//! `jobgate serve`, and how it is registered.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use jobgate::kinds::registration::{Target, configurations};
use jobgate::text::value::{Value, json};

use crate::cluster::Cluster;
use crate::installation::dry_run;
use crate::manifests;
use crate::process::{Process, count, eventually, free_port, http_get};

/// How a Jobgate is run and registered.
pub(crate) struct Setup {
    /// The name of the configuration objects. Mutating webhooks are called in the order of these names.
    pub(crate) name: String,
    /// The label selector of the namespaces it looks after.
    pub(crate) selector: Value,
    /// The policy file; none for the built-in policy.
    pub(crate) policy: Option<PathBuf>,
    /// The value of `--claims`.
    pub(crate) claims: &'static str,
    /// The user whose kubeconfig it has.
    pub(crate) user: String,
    /// What the API server does when it gets no answer. `Fail` here: `Ignore` would hide an answer that the
    /// API server cannot use.
    pub(crate) failure_policy: &'static str,
    /// Seconds that the API server waits. More than in production: two cores run the API server, the webhook
    /// and every scenario.
    pub(crate) timeout: u32,
    /// Whether it runs with [`PATIENT`].
    pub(crate) patient: bool,
    /// Whether it is called for objects in no namespace, too: selectors do not keep it from those of others.
    pub(crate) cluster_scoped: bool,
}

/// Lets a Jobgate wait for a claim nearly as long as the API server waits for the Jobgate. In production it
/// would rather admit what it knows too little of after 300 ms, which on two cores that run everything
/// happens to any review.
pub(crate) const PATIENT: &str = "--patience-for-testing=8";

impl Setup {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            selector: Value::Null,
            policy: None,
            claims: "cache",
            user: "jobgate".to_owned(),
            failure_policy: "Fail",
            timeout: 10,
            patient: true,
            cluster_scoped: false,
        }
    }

    /// Looks after one namespace only.
    pub(crate) fn only(name: &str, namespace: &str) -> Self {
        Self { selector: one(namespace), ..Self::named(name) }
    }
}

/// Selects one namespace.
pub(crate) fn one(namespace: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}})
}

/// A running Jobgate; it ends when this is dropped.
pub(crate) struct Gate {
    process: Process,
    metrics: u16,
}

impl Gate {
    /// Starts a Jobgate, registers it and waits until the API server calls it.
    pub(crate) fn start(cluster: &Cluster, setup: &Setup) -> Result<Self, String> {
        let port = free_port();
        let mut gate = Self::launch(cluster, setup, port)?;
        eventually(Duration::from_secs(30), || {
            gate.process.check()?;
            http_get(gate.metrics, "/readyz")
        })
        .map_err(|e| format!("{e}\n{}", gate.log()))?;
        register(cluster, setup, port)?;
        gate.wait_until_called(cluster, setup)?;
        Ok(gate)
    }

    fn launch(cluster: &Cluster, setup: &Setup, port: u16) -> Result<Self, String> {
        let dir = cluster.dir.path().join(&setup.name);
        fs::create_dir_all(&dir).map_err(|e| format!("make {}: {e}", dir.display()))?;
        let pair = cluster.authority().server();
        let write = |name: &str, text: &str| {
            fs::write(dir.join(name), text).map_err(|e| format!("write {name}: {e}"))
        };
        write("tls.crt", &pair.certificate)?;
        write("tls.key", &pair.key)?;
        let metrics = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        command
            .arg("serve")
            .arg("--tls-cert")
            .arg(dir.join("tls.crt"))
            .arg("--tls-key")
            .arg(dir.join("tls.key"))
            .arg("--listen")
            .arg(format!("127.0.0.1:{port}"))
            .arg("--metrics-listen")
            .arg(format!("127.0.0.1:{metrics}"))
            .args(["--claims", setup.claims])
            .env("KUBECONFIG", cluster.kubeconfig_of(&setup.user))
            .env_remove("KUBERNETES_SERVICE_HOST");
        if setup.patient {
            command.arg(PATIENT);
        }
        if let Some(policy) = &setup.policy {
            command.arg("--policy").arg(policy);
        }
        Ok(Self { process: Process::start(&mut command, &dir.join("log"))?, metrics })
    }

    /// A new configuration takes the API server a second or so to notice, and each of the two has a watch of
    /// its own.
    fn wait_until_called(&self, cluster: &Cluster, setup: &Setup) -> Result<(), String> {
        let labels = setup.selector.pointer("/matchLabels").cloned().unwrap_or_default();
        let namespace = match labels.get("kubernetes.io/metadata.name").and_then(Value::as_str) {
            Some(namespace) => namespace.to_owned(),
            None => {
                let namespace = cluster.unique("probe");
                let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
                cluster.admin.run(&["create", "-f", "-"], &object.to_string()).ok();
                namespace
            }
        };
        eventually(Duration::from_secs(40), || {
            judged(cluster, &namespace)?;
            // Not every policy fills something in.
            let asked = self.count("jobgate_reviews_total", "endpoint=\"mutate\"");
            if asked > 0.0 { Ok(()) } else { Err("it is not asked what to fill in".to_owned()) }
        })
        .map_err(|e| format!("{e}\n{}", self.log()))
    }

    /// Returns what it printed last.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Sums one of its counters with the label, for example `jobgate_x_total` and `step="sign"`; 0 where
    /// nothing was counted.
    pub(crate) fn count(&self, counter: &str, label: &str) -> f64 {
        count(self.metrics, counter, label)
    }

    /// Returns a size of the process by its name in `/proc/PID/status`, in KiB; 0 where there is none.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let size = status.lines().find_map(|line| {
            line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
        });
        size.unwrap_or_default()
    }

    /// Returns its metrics.
    pub(crate) fn metrics(&self) -> Result<String, String> {
        http_get(self.metrics, "/metrics")
    }
}

/// Tells whether jobs in a namespace are judged, by one that every policy has something to say about.
pub(crate) fn judged(cluster: &Cluster, namespace: &str) -> Result<(), String> {
    let output = dry_run(cluster, namespace, &manifests::endless("probe"));
    // With the place: an API server that gets no answer in time speaks of a deadline, too.
    if output.stderr.contains("deadline: spec") { Ok(()) } else { Err(output.to_string()) }
}

/// Tells whether jobs in a namespace are filled in.
pub(crate) fn filled(cluster: &Cluster, namespace: &str) -> Result<(), String> {
    let probe = manifests::job("probe", json!({})).to_string();
    let output = cluster.admin.run(
        &[
            "-n",
            namespace,
            "create",
            "--dry-run=server",
            "-o",
            "jsonpath={.spec.podReplacementPolicy}",
            "-f",
            "-",
        ],
        &probe,
    );
    if output.success && output.stdout == "Failed" { Ok(()) } else { Err(output.to_string()) }
}

/// Returns the rules of Jobgate's own registration.
fn rules(cluster_scoped: bool) -> Vec<Value> {
    let [mutating, _] = configurations("e2e", &Target::Url("https://127.0.0.1".to_owned()), None);
    let mut rules = mutating["webhooks"][0]["rules"].as_array().expect("rules").clone();
    rules.retain(|rule| cluster_scoped || rule["scope"] != "Cluster");
    rules
}

/// Registers webhooks on a port of this machine.
pub(crate) fn register(cluster: &Cluster, setup: &Setup, port: u16) -> Result<(), String> {
    let ca = base64::engine::general_purpose::STANDARD.encode(cluster.authority().certificate());
    let rules = rules(setup.cluster_scoped);
    let webhook = |path: &str, timeout: u32, extra: Value| {
        let base = json!({
            "name": format!("{path}.{}.jobgate.dev", setup.name),
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/{path}"), "caBundle": ca},
            "rules": rules,
            "namespaceSelector": setup.selector,
            "failurePolicy": setup.failure_policy,
            "timeoutSeconds": timeout,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        manifests::over(base, extra)
    };
    let configuration = |kind: &str, webhook: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": setup.name}, "webhooks": [webhook]});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        configuration("MutatingWebhookConfiguration", webhook("mutate", setup.timeout, json!({"reinvocationPolicy": "IfNeeded"}))),
        configuration("ValidatingWebhookConfiguration", webhook("validate", setup.timeout + 1, json!({}))),
    ]});
    let output = cluster.admin.run(&["create", "-f", "-"], &list.to_string());
    if output.success { Ok(()) } else { Err(output.to_string()) }
}

/// Takes the registration back, so that an ended Jobgate is in nobody's way.
pub(crate) fn unregister(cluster: &Cluster, name: &str) {
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    cluster.admin.run(&["delete", kinds, name, "--ignore-not-found"], "");
}
