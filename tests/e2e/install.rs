//! The manifests of `deploy/`, on a real API server that checks every field.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};

use crate::api::Api;
use crate::deploy::{self, Rendering};
use crate::installation::Installation;
use crate::kubectl::Output;
use crate::manifests::{claim, endless, gpu_job, mounting, toleration};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("install_is_accepted_in_every_way", installed).ungated(),
    Scenario::new("install_works_at_once_and_leaves_nothing", works_and_goes)
        .needs(Needs::Controllers)
        .ungated(),
    Scenario::new("install_with_a_certificate_by_hand", by_hand).ungated(),
];

/// Kinds that an overlay needs somebody else to define; here they take anything.
const FOREIGN: [(&str, &str, &str); 4] = [
    ("cert-manager.io", "Issuer", "issuers"),
    ("cert-manager.io", "Certificate", "certificates"),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
];

fn definition((group, kind, plural): (&str, &str, &str)) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// Returns the objects, with webhooks that are called for the scenario's namespace only: nobody listens
/// behind them.
fn objects(place: &Place<'_>, rendering: &Rendering) -> Value {
    let mut items = rendering.objects.clone();
    // It exists already, and stays: nothing here ends namespaces.
    items.retain(|item| item["kind"] != "Namespace");
    for webhook in items.iter_mut().filter_map(|item| item.get_mut("webhooks")?.as_array_mut()).flatten() {
        let only =
            json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [place.namespace]});
        webhook["namespaceSelector"]["matchExpressions"].as_array_mut().expect("expressions").push(only);
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn admin(place: &Place<'_>, arguments: &[&str], objects: &Value) -> Output {
    place.cluster.admin.run(arguments, &objects.to_string())
}

fn installed(place: &Place<'_>) {
    let definitions: Vec<Value> = FOREIGN.map(definition).to_vec();
    admin(place, &["create", "-f", "-"], &json!({"apiVersion": "v1", "kind": "List", "items": definitions}))
        .ok();
    place
        .cluster
        .admin
        .run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "")
        .ok();
    let install = deploy::install();
    admin(place, &["create", "--validate=strict", "-f", "-"], install.the("Namespace")).quiet();
    // An established kind is served a moment later.
    for (group, kind, plural) in FOREIGN {
        let probe = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "probe", "namespace": place.namespace}});
        eventually(Duration::from_secs(60), || {
            let output = admin(
                place,
                &["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"],
                &probe,
            );
            if output.success { Ok(()) } else { Err(output.to_string()) }
        })
        .unwrap_or_else(|e| panic!("{plural}: {e}"));
    }

    // The overlays, and the chart with all sorts of values.
    for rendering in deploy::all() {
        let all = objects(place, rendering);
        admin(place, &["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"], &all)
            .quiet();
    }
    let components = ["service-monitor/service-monitor.yaml", "alerts/prometheus-rule.yaml"];
    for file in components {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/components").join(file).display().to_string();
        place.cluster.admin.run(&["apply", "--dry-run=server", "--validate=strict", "-f", &path], "").quiet();
    }

    let all = objects(place, &install);
    admin(place, &["apply", "--validate=strict", "-f", "-"], &all).quiet();
    permissions_are_minimal(place);
    admin(place, &["delete", "--wait=false", "-f", "-"], &all).ok();
}

fn permissions_are_minimal(place: &Place<'_>) {
    let asked = |arguments: &[&str]| {
        let all = [&["auth", "can-i", "--as=system:serviceaccount:jobgate:jobgate"], arguments].concat();
        place.cluster.admin.run(&all, "")
    };
    // The API server knows of roles and bindings by watches. What it allows comes first: then they are all in
    // force, and a rejection is one.
    let must = |arguments: &[&str]| {
        eventually(Duration::from_secs(20), || {
            let output = asked(arguments);
            if output.success { Ok(()) } else { Err(output.to_string()) }
        })
        .unwrap_or_else(|e| panic!("{e}"));
    };
    for verb in ["get", "list", "watch"] {
        must(&[verb, "persistentvolumeclaims", "-A"]);
        must(&[verb, "trainingruntimes.trainer.kubeflow.org", "-A"]);
        must(&[verb, "clustertrainingruntimes.trainer.kubeflow.org"]);
    }
    let parents = || Kind::with_children().map(|kind| format!("{}.{}", kind.resource, kind.group));
    parents().for_each(|parents| must(&["get", &parents, "-A"]));
    for verb in ["get", "watch", "update"] {
        must(&[verb, "secrets/jobgate-tls", "-n", "jobgate"]);
    }
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    for resource in configurations {
        for verb in ["get", "watch", "patch"] {
            must(&[verb, &format!("{resource}/jobgate")]);
        }
    }
    let may = |arguments: &[&str]| {
        let output = asked(arguments);
        assert!(output.success || output.stdout.starts_with("no"), "{output}");
        output.success
    };
    for resource in configurations {
        for verb in ["create", "delete", "list"] {
            assert!(!may(&[verb, resource]), "{verb} {resource}");
        }
        assert!(!may(&["patch", &format!("{resource}/another")]), "patch another");
    }
    for no in [
        ["get", "secrets"],
        ["list", "secrets"],
        ["get", "secrets/another"],
        ["create", "secrets"],
        ["get", "pods"],
        ["create", "pods"],
        ["get", "configmaps"],
    ] {
        assert!(!may(&[no[0], no[1], "-n", "jobgate"]), "{no:?}");
    }
    assert!(!may(&["get", "secrets/jobgate-tls", "-n", "default"]));
    assert!(!may(&["update", "persistentvolumeclaims", "-A"]));
    assert!(!may(&["update", "trainingruntimes.trainer.kubeflow.org", "-A"]));
    for parents in parents() {
        for verb in ["list", "watch", "update", "create", "delete"] {
            assert!(!may(&[verb, &parents, "-A"]), "{verb} {parents}");
        }
    }
}

/// What a person sees who follows docs/install.md: it denies and fills in as soon as it is ready, and one
/// command takes all of it away again.
fn works_and_goes(place: &Place<'_>) {
    let mut installation = Installation::of(place.cluster, "self-managed", "");
    installation.must_answer();
    installation.apply(&[]).quiet();
    installation.start(2, &["--claims=cache"]);
    installation.wait_until_ready();
    installation.judge(&place.namespace);
    place.create(&endless("a")).denied(&["deadline"]);
    place.create(&gpu_job("b", json!({}))).quiet();
    let stored = place.stored("job/b");
    is(&stored, "/spec/podReplacementPolicy", json!("Failed"));
    is(&stored, "/spec/template/spec/tolerations", json!([toleration("nvidia.com/gpu")]));
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    place.create(&mounting("c", "checkpoints", 4)).denied(&["checkpoint-volume-access"]);

    assert!(!left(place, &installation.name).expect("list everything").is_empty());
    admin(place, &["delete", "--wait=false", "-f", "-"], &installation.list()).ok();
    eventually(Duration::from_secs(120), || {
        let left = left(place, &installation.name)?;
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    })
    .expect("nothing may be left");
    let admitted = || {
        let output = place.dry_run(&endless("d"));
        if output.success { Ok(()) } else { Err(output.to_string()) }
    };
    eventually(Duration::from_secs(20), admitted).expect("nobody may be asked any more");
}

/// Returns what there is of an installation in the whole cluster, whatever its kind but for those that
/// another scenario defines meanwhile: they may be known and not be served yet.
fn left(place: &Place<'_>, name: &str) -> Result<Vec<String>, String> {
    let run = |arguments: &[&str]| {
        let output = place.cluster.admin.run(arguments, "");
        if output.success { Ok(output.stdout) } else { Err(output.to_string()) }
    };
    let foreign = FOREIGN.map(|(group, _, plural)| format!("{plural}.{group}"));
    let kinds = run(&["api-resources", "--verbs=list", "-o", "name"])?;
    let kinds: Vec<&str> = kinds
        .lines()
        .filter(|kind| !kind.starts_with("events") && !foreign.iter().any(|one| one == kind))
        .collect();
    let format = "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
    let all = run(&["get", &kinds.join(","), "-A", "-o", format])?;
    let of_it = |line: &&str| {
        line.split([' ', '/']).any(|part| part == name || part.starts_with(&format!("{name}-")))
    };
    Ok(all.lines().filter(of_it).map(str::to_owned).collect())
}

/// No permission and a certificate of one's own, as `jobgate certs init` makes it and says what to do with
/// it.
fn by_hand(place: &Place<'_>) {
    let mut installation = Installation::of(place.cluster, "no-rbac", "");
    // A second webhook, as the component fail-closed adds it: it has a bundle of its own.
    let validating = installation
        .objects
        .iter_mut()
        .find(|object| object["kind"] == "ValidatingWebhookConfiguration")
        .expect("a configuration");
    let mut closed = validating["webhooks"][0].clone();
    closed["name"] = "validate-closed.jobgate.dev".into();
    closed["failurePolicy"] = "Fail".into();
    validating["webhooks"].as_array_mut().expect("webhooks").push(closed);
    installation.must_answer();
    installation.apply(&[]).quiet();

    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command.args(["certs", "init", "--namespace", &installation.name, "--out"]).arg(installation.mounted());
    let output = command.output().expect("run jobgate certs init");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let script = String::from_utf8(output.stdout)
        .expect("UTF-8")
        .replace("webhookconfiguration jobgate", &format!("webhookconfiguration {}", installation.name));
    let kubectl = place.cluster.admin.program.parent().expect("a folder").to_owned();
    let path = std::env::join_paths(
        [kubectl].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", &script])
        .env("PATH", path.expect("a path"))
        .env("KUBECONFIG", place.cluster.kubeconfig_of("admin"));
    let output = shell.output().expect("run what it says");
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));

    let right = std::fs::read_to_string(installation.mounted().join("ca.crt")).expect("read ca.crt");
    assert_eq!(
        installation.bundles(&Api::admin(place.cluster)),
        [right.clone(), right.clone(), right],
        "every webhook has it"
    );
    place
        .cluster
        .admin
        .run(&["-n", &installation.name, "get", "secret", "jobgate-tls", "-o", "jsonpath={.type}"], "")
        .ok();
    installation.start(2, &[]);
    installation.wait_until_ready();
    installation.judge(&place.namespace);
    place.create(&gpu_job("a", json!({}))).quiet();
    is(&place.stored("job/a"), "/spec/podReplacementPolicy", json!("Failed"));
    installation.delete();
}
