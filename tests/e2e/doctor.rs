//! `jobgate doctor` beside an installation in which one thing after another is broken: it must name exactly
//! that.
//!
//! Nobody runs pods here. Jobgate is a process of this machine behind a Service of the type ExternalName;
//! what controllers and a kubelet would say of the Deployment and its pods is written down.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use jobgate::text::value::{Value, json};

use crate::certificates::Authority;
use crate::process::{Process, eventually, free_port, http_get};
use crate::scenario::{Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("doctor_names_what_is_broken", names_what_is_broken).ungated(),
    Scenario::new("doctor_without_permission_checks_nothing", without_permission).ungated(),
    Scenario::new("doctor_needs_what_its_page_says", needs_what_its_page_says).ungated(),
];

/// An installation of its own: its namespace and everything of the cluster's that it needs are called by the
/// scenario's namespace.
struct Installation<'p> {
    place: &'p Place<'p>,
    /// Where the canaries are tried: the only namespace for which the webhooks are called.
    canary: String,
    port: u16,
    metrics: u16,
    kubeconfig: String,
    process: Option<Process>,
}

/// What the doctor said.
struct Said {
    code: Option<i32>,
    report: Value,
}

impl Said {
    fn with(&self, status: &str) -> Vec<&str> {
        let checks = self.report["checks"].as_array().expect("checks").iter();
        checks
            .filter(|check| check["status"] == status)
            .map(|check| check["id"].as_str().expect("id"))
            .collect()
    }

    fn of(&self, id: &str) -> String {
        let mut checks = self.report["checks"].as_array().expect("checks").iter();
        let check = checks.find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}"));
        format!(
            "{}: {}",
            check["status"].as_str().expect("status"),
            check["finding"].as_str().expect("finding")
        )
    }
}

impl<'p> Installation<'p> {
    fn new(place: &'p Place<'p>) -> Self {
        let canary = place.cluster.unique("canary");
        place.cluster.admin.run(&["create", "namespace", &canary], "").ok();
        let kubeconfig = place.cluster.unique("doctored");
        let installation =
            Self { place, canary, port: free_port(), metrics: free_port(), kubeconfig, process: None };
        let objects = installation.objects();
        installation.admin(&["create", "-f", "-"], &objects);
        installation.let_it_run();
        installation
    }

    fn admin(&self, arguments: &[&str], input: &Value) {
        self.place.cluster.admin.run(arguments, &input.to_string()).ok();
    }

    /// Returns `deploy/install.yaml`, for this namespace.
    fn objects(&self) -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/install.yaml");
        let text = std::fs::read_to_string(path).expect("read install.yaml");
        let own = self.place.namespace.as_str();
        let mut items: Vec<Value> = jobgate::text::yaml::documents(text.as_bytes())
            .map(|document| document.expect("YAML").value)
            .collect();
        items.retain(|item| item["kind"] != "Namespace");
        for item in &mut items {
            let kind = item["kind"].as_str().unwrap_or_default().to_owned();
            if item["metadata"]["namespace"].is_string() {
                item["metadata"]["namespace"] = own.into();
            } else {
                let name = item["metadata"]["name"].as_str().expect("a name").to_owned();
                let ours = if kind.ends_with("WebhookConfiguration") {
                    own.to_owned()
                } else {
                    format!("{own}-{name}")
                };
                item["metadata"]["name"] = ours.into();
            }
            for subject in item.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
                subject["namespace"] = own.into();
            }
            if kind == "ClusterRoleBinding" {
                let name = item["roleRef"]["name"].as_str().expect("a role").to_owned();
                item["roleRef"]["name"] = format!("{own}-{name}").into();
            }
            if kind == "ClusterRole" && item["rules"][0]["resourceNames"].is_array() {
                item["rules"][0]["resourceNames"] = json!([own]);
            }
            match kind.as_str() {
                "Service" => item["spec"] = json!({"type": "ExternalName", "externalName": "localhost"}),
                "Deployment" => {
                    item["spec"]["template"]["spec"]["priorityClassName"] = format!("{own}-jobgate").into();
                    let args = item["spec"]["template"]["spec"]["containers"][0]["args"]
                        .as_array_mut()
                        .expect("args");
                    args.extend(
                        ["mutating", "validating"].map(|kind| format!("--{kind}-configuration={own}").into()),
                    );
                }
                _ => {}
            }
            for webhook in item.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
                let name = webhook["name"]
                    .as_str()
                    .expect("a name")
                    .replace(".jobgate.dev", &format!(".{own}.jobgate.dev"));
                webhook["name"] = name.into();
                webhook["clientConfig"]["service"]["namespace"] = own.into();
                webhook["clientConfig"]["service"]["port"] = self.port.into();
                let expressions =
                    webhook["namespaceSelector"]["matchExpressions"].as_array_mut().expect("expressions");
                expressions.push(
                    json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [own]}),
                );
                expressions.push(
                    json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.canary]}),
                );
                // Two cores run everything here.
                webhook["timeoutSeconds"] = 5.into();
            }
        }
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }

    /// Writes what controllers and the kubelet would.
    fn let_it_run(&self) {
        let own = self.place.namespace.as_str();
        let token = self.place.kubectl(&["create", "token", "jobgate"]).ok().stdout;
        let api = self
            .place
            .cluster
            .admin
            .run(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"], "")
            .ok()
            .stdout;
        self.place
            .cluster
            .write_kubeconfig(&self.kubeconfig, token.trim(), &api)
            .expect("write a kubeconfig");
        self.ready(2);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "jobgate-0", "namespace": own, "labels": {"app.kubernetes.io/name": "jobgate"}},
            "spec": {"nodeName": "nowhere", "containers": [{"name": "jobgate", "image": "jobgate:0.1.0"}]},
        });
        self.place.create(&pod).ok();
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
                .to_string();
        self.place
            .kubectl(&["patch", "pod", "jobgate-0", "--subresource=status", "--type=merge", "-p", &status])
            .ok();
    }

    fn ready(&self, replicas: u32) {
        let status =
            json!({"status": {"replicas": 2, "readyReplicas": replicas, "availableReplicas": replicas, "observedGeneration": 1}}).to_string();
        self.place
            .kubectl(&[
                "patch",
                "deployment",
                "jobgate",
                "--subresource=status",
                "--type=merge",
                "-p",
                &status,
            ])
            .ok();
    }

    fn start(&mut self) {
        let own = self.place.namespace.as_str();
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        command
            .args([
                "serve",
                "--self-managed-certs",
                "--claims=off",
                "--drain-seconds=0",
                "--log-text",
                "--namespace",
                own,
            ])
            .args(["--mutating-configuration", own, "--validating-configuration", own])
            .args([
                "--listen",
                &format!("127.0.0.1:{}", self.port),
                "--metrics-listen",
                &format!("127.0.0.1:{}", self.metrics),
            ])
            .env("KUBECONFIG", self.place.cluster.kubeconfig_of(&self.kubeconfig))
            .env_remove("KUBERNETES_SERVICE_HOST");
        let process = Process::start(&mut command, &self.place.cluster.dir.path().join(format!("{own}.log")))
            .expect("start Jobgate");
        eventually(Duration::from_secs(30), || http_get(self.metrics, "/readyz"))
            .unwrap_or_else(|error| panic!("{error}\n{}", process.log()));
        self.process = Some(process);
    }

    fn doctor(&self, user: &str) -> Said {
        let own = self.place.namespace.as_str();
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        command
            .args([
                "doctor",
                "--format",
                "json",
                "--timeout",
                "30",
                "--namespace",
                own,
                "--canary-namespace",
                &self.canary,
            ])
            .args(["--mutating-configuration", own, "--validating-configuration", own, "--kubeconfig"])
            .arg(self.place.cluster.kubeconfig_of(user));
        let output = command.output().expect("run jobgate doctor");
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Said { code: output.status.code(), report }
    }

    /// Waits until exactly these are problems: the API server takes a second or so to follow a configuration.
    #[track_caller]
    fn finds(&self, problems: &[&str]) -> Said {
        let found = eventually(Duration::from_secs(60), || {
            let said = self.doctor("admin");
            if said.with("problem") == problems { Ok(said) } else { Err(format!("{:#}", said.report)) }
        });
        let said = found.unwrap_or_else(|error| panic!("{problems:?}: {error}"));
        assert_eq!(said.code, Some(i32::from(!problems.is_empty())));
        said
    }

    fn patch_configurations(&self, patch: &Value) {
        for kind in ["mutating", "validating"] {
            let object = format!("{kind}webhookconfiguration/{}", self.place.namespace);
            self.place
                .cluster
                .admin
                .run(&["patch", &object, "--type=json", "-p", &patch.to_string()], "")
                .ok();
        }
    }

    fn fail_closed(&self, closed: bool) {
        let policy = if closed { "Fail" } else { "Ignore" };
        self.patch_configurations(
            &json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy}]),
        );
    }
}

impl Drop for Installation<'_> {
    fn drop(&mut self) {
        let own = &self.place.namespace;
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
        self.place.cluster.admin.run(&["delete", kinds, own, "--ignore-not-found"], "");
        for kind in ["clusterrole", "clusterrolebinding"] {
            for name in ["certificates", "claims", "doctor"] {
                self.place
                    .cluster
                    .admin
                    .run(&["delete", kind, &format!("{own}-jobgate-{name}"), "--ignore-not-found"], "");
            }
        }
        self.place
            .cluster
            .admin
            .run(&["delete", "priorityclass", &format!("{own}-jobgate"), "--ignore-not-found"], "");
    }
}

fn names_what_is_broken(place: &Place<'_>) {
    let mut it = Installation::new(place);
    it.start();
    let own = place.namespace.clone();

    let said = it.finds(&[]);
    // Other scenarios register webhooks beside this one, and there is no kubelet to ask. What the API server
    // let pass before all was in force, it counts for good.
    assert!(
        said.with("warning").iter().all(|id| ["selectors", "timeouts", "fail-open"].contains(id)),
        "{:#}",
        said.report
    );
    assert!(
        said.of("selectors").contains("skipped, where no job is filled in or denied or warned about: "),
        "{:#}",
        said.report
    );
    assert_eq!(said.with("not-checked"), ["policy-in-force"], "{:#}", said.report);
    assert!(
        said.of("canary-denied").ends_with("for deadline")
            && said.of("served-certificate").contains("localhost:"),
        "{:#}",
        said.report
    );

    it.ready(0);
    it.finds(&["replicas"]);
    it.ready(2);

    let broken = json!({"data": {"policy.yaml": "kind: Nonsense\n"}}).to_string();
    let policy = place.stored("configmap/jobgate-policy");
    place.patch("configmap/jobgate-policy", "merge", &serde_json::from_str(&broken).expect("JSON")).ok();
    assert!(it.finds(&["policy"]).of("policy").contains("cannot be read: line 1"));
    place.patch("configmap/jobgate-policy", "merge", &json!({"data": policy["data"]})).ok();

    // Without its permission the caBundle of a stranger stays.
    let binding = format!("{own}-jobgate-certificates");
    let bound = place.cluster.admin.run(&["get", "clusterrolebinding", &binding, "-o", "json"], "").json();
    place.cluster.admin.run(&["delete", "clusterrolebinding", &binding], "").ok();
    let said = it.finds(&["permissions"]);
    assert!(
        said.of("permissions").contains(&format!("get/watch/patch mutatingwebhookconfigurations/{own}")),
        "{:#}",
        said.report
    );
    let bundle =
        place.cluster.admin.run(&["get", "mutatingwebhookconfiguration", &own, "-o", "json"], "").json();
    let bundle = bundle["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let strange: Value =
        base64::engine::general_purpose::STANDARD.encode(Authority::new("stranger").certificate()).into();
    let trust = |bundle: &Value| json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
    it.patch_configurations(&trust(&strange));
    let distrust =
        ["ca-bundle-is-ours", "served-certificate", "permissions", "canary-denied", "canary-filled"];
    let said = it.finds(&distrust);
    assert!(said.of("canary-denied").contains("got no usable answer"), "{:#}", said.report);
    it.fail_closed(true);
    let said = eventually(Duration::from_secs(20), || {
        let said = it.finds(&distrust);
        if said.of("canary-denied").contains("x509") { Ok(said) } else { Err(said.of("canary-denied")) }
    });
    let said = said.expect("the API server must say why");
    assert!(
        said.of("canary-denied").starts_with("problem: the API server does not trust the certificate"),
        "{:#}",
        said.report
    );
    assert!(
        said.of("failure-policy").starts_with("warning: ") && said.of("fail-open").starts_with("warning: "),
        "{:#}",
        said.report
    );
    it.patch_configurations(&trust(&bundle));
    it.finds(&["permissions"]);

    it.process = None;
    let said = it.finds(&["permissions", "canary-denied", "canary-filled"]);
    assert!(
        said.of("canary-denied").contains("nothing listens where the API server calls"),
        "{:#}",
        said.report
    );
    it.fail_closed(false);
    let bound = json!({"apiVersion": bound["apiVersion"], "kind": bound["kind"], "metadata": {"name": binding}, "roleRef": bound["roleRef"], "subjects": bound["subjects"]});
    it.admin(&["create", "-f", "-"], &bound);
    it.start();
    it.finds(&[]);

    place.cluster.admin.run(&["delete", "validatingwebhookconfiguration", &own], "").ok();
    let said = it.finds(&["configurations", "canary-denied"]);
    assert!(said.of("canary-denied").contains("or was not called"), "{:#}", said.report);
    place.cluster.admin.run(&["delete", "mutatingwebhookconfiguration", &own], "").ok();
    let said = it.finds(&["configurations", "canary-denied", "canary-filled"]);
    assert!(said.of("configurations").contains("nothing is filled in"), "{:#}", said.report);
}

fn without_permission(place: &Place<'_>) {
    let it = Installation::new(place);
    let said = it.doctor("nobody");
    assert_eq!(
        (said.code, said.with("problem").len(), said.with("warning").len()),
        (Some(0), 0, 0),
        "{:#}",
        said.report
    );
    assert_eq!(said.with("ok"), ["api-server"], "{:#}", said.report);
    assert!(said.of("canary-denied").contains("needs permission to create jobs.batch"), "{:#}", said.report);
}

fn needs_what_its_page_says(place: &Place<'_>) {
    let it = Installation::new(place);
    let own = place.namespace.as_str();
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/doctor.md"))
        .expect("read docs/doctor.md");
    let (_, permissions) = page.split_once("## Permissions").expect("the page lists permissions");
    let (_, roles) = permissions.split_once("```yaml\n").expect("as roles");
    let (roles, _) = roles.split_once("```").expect("to the end");
    place.kubectl(&["create", "serviceaccount", "reader"]).ok();
    for document in jobgate::text::yaml::documents(roles.as_bytes()) {
        let mut role = document.expect("YAML").value;
        let kind = role["kind"].as_str().expect("a kind").to_owned();
        let namespace = role["metadata"]["namespace"]
            .as_str()
            .map(|namespace| if namespace == "default" { it.canary.as_str() } else { own });
        role["metadata"] = json!({"name": format!("{own}-jobgate-doctor"), "namespace": namespace});
        let binding = json!({
            "apiVersion": role["apiVersion"], "kind": format!("{kind}Binding"), "metadata": role["metadata"],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role["metadata"]["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": own}],
        });
        it.admin(
            &["create", "-f", "-"],
            &json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}),
        );
    }
    let token = place.kubectl(&["create", "token", "reader"]).ok().stdout;
    let api = place
        .cluster
        .admin
        .run(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"], "")
        .ok()
        .stdout;
    let user = place.cluster.unique("reader");
    place.cluster.write_kubeconfig(&user, token.trim(), &api).expect("write a kubeconfig");
    let said = eventually(Duration::from_secs(20), || {
        let said = it.doctor(&user);
        if said.report.to_string().contains("needs permission") {
            Err(format!("{:#}", said.report))
        } else {
            Ok(said)
        }
    });
    let said = said.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        said.with("problem"),
        ["ca-bundle", "certificate-secret", "canary-denied", "canary-filled"],
        "nothing runs yet: {:#}",
        said.report
    );
}
