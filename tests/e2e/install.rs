//! The manifests of `deploy/`, on a real API server that checks every field.

use std::path::Path;

use serde_json::{Value, json};

use crate::gate::{Gate, Setup, unregister};
use crate::kubectl::Output;
use crate::manifests::{claim, mounting};
use crate::scenario::{Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[Scenario::new("install_is_accepted_kept_and_removed", installed).ungated()];

/// Kinds that an overlay needs somebody else to define; here they take anything.
const FOREIGN: [(&str, &str, &str); 4] = [
    ("cert-manager.io", "Issuer", "issuers"),
    ("cert-manager.io", "Certificate", "certificates"),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
];

const WAYS: [&str; 5] = ["self-managed", "audit", "cert-manager", "fail-closed", "no-rbac"];

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

/// Returns the objects, with webhooks that are called for the scenario's namespace only: nobody listens behind them.
fn objects(place: &Place<'_>, text: &str) -> Value {
    let mut items: Vec<Value> = jobgate::yaml::documents(text.as_bytes()).map(|document| document.expect("YAML").value).collect();
    // It exists already, and stays: nothing here ends namespaces.
    items.retain(|item| item["kind"] != "Namespace");
    for webhook in items.iter_mut().filter_map(|item| item.get_mut("webhooks")?.as_array_mut()).flatten() {
        let only = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [place.namespace]});
        webhook["namespaceSelector"]["matchExpressions"].as_array_mut().expect("expressions").push(only);
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn admin(place: &Place<'_>, arguments: &[&str], objects: &Value) -> Output {
    place.cluster.admin.run(arguments, &objects.to_string())
}

fn installed(place: &Place<'_>) {
    let definitions: Vec<Value> = FOREIGN.map(definition).to_vec();
    admin(place, &["create", "-f", "-"], &json!({"apiVersion": "v1", "kind": "List", "items": definitions})).ok();
    place.cluster.admin.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").ok();
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let install = std::fs::read_to_string(deploy.join("install.yaml")).expect("read install.yaml");
    let namespace = jobgate::yaml::documents(install.as_bytes()).next().expect("a document").expect("YAML").value;
    admin(place, &["create", "--validate=strict", "-f", "-"], &namespace).quiet();

    for way in WAYS {
        let text = place.cluster.admin.run(&["kustomize", &deploy.join("overlays").join(way).display().to_string()], "").ok().stdout;
        let all = objects(place, &text);
        admin(place, &["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"], &all).quiet();
    }
    let components = ["service-monitor/service-monitor.yaml", "alerts/prometheus-rule.yaml"];
    for file in components {
        let path = deploy.join("components").join(file).display().to_string();
        place.cluster.admin.run(&["apply", "--dry-run=server", "--validate=strict", "-f", &path], "").quiet();
    }

    let all = objects(place, &install);
    admin(place, &["apply", "--validate=strict", "-f", "-"], &all).quiet();
    bundle_is_kept(place, &all);
    permissions_are_minimal(place);
    claims_are_read_with_the_pods_own_token(place);

    admin(place, &["delete", "--wait=false", "-f", "-"], &all).ok();
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings,priorityclasses,\
                 roles,rolebindings,serviceaccounts,secrets,configmaps,services,deployments,poddisruptionbudgets,networkpolicies";
    let left = place.cluster.admin.run(&["get", kinds, "-A", "-l", "app.kubernetes.io/name=jobgate", "-o", "name"], "").ok();
    assert_eq!(left.stdout, "", "nothing may be left: {left}");
}

/// Whoever makes the certificates writes the bundle and the Secret; applying the manifests again changes neither.
fn bundle_is_kept(place: &Place<'_>, all: &Value) {
    use base64::Engine as _;
    let ca = base64::engine::general_purpose::STANDARD.encode(place.cluster.authority().certificate());
    let kinds = [("Mutating", "mutate"), ("Validating", "validate")];
    for (kind, name) in kinds {
        let bundle = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"), "metadata": {"name": "jobgate"},
            "webhooks": [{"name": format!("{name}.jobgate.dev"), "clientConfig": {"caBundle": ca}, "admissionReviewVersions": ["v1"], "sideEffects": "None"}],
        });
        admin(place, &["apply", "--server-side", "--force-conflicts", "--field-manager=jobgate-certs", "-f", "-"], &bundle).ok();
    }
    let secret = json!({"data": {"ca.crt": ca}}).to_string();
    place.cluster.admin.run(&["-n", "jobgate", "patch", "secret", "jobgate-tls", "--type=merge", "-p", &secret], "").ok();
    let again: [&[&str]; 2] = [&["apply", "-f", "-"], &["apply", "--server-side", "--force-conflicts", "-f", "-"]];
    for arguments in again {
        admin(place, arguments, all).ok();
        for (kind, _) in kinds {
            let stored = place.cluster.admin.run(&["get", &format!("{kind}WebhookConfiguration"), "jobgate", "-o", "json"], "").json();
            is(&stored, "/webhooks/0/clientConfig/caBundle", json!(ca));
        }
        let stored = place.cluster.admin.run(&["-n", "jobgate", "get", "secret", "jobgate-tls", "-o", "json"], "").json();
        is(&stored, "/data/ca.crt", json!(ca));
    }
}

fn permissions_are_minimal(place: &Place<'_>) {
    let may = |arguments: &[&str]| {
        let all = [&["auth", "can-i", "--as=system:serviceaccount:jobgate:jobgate"], arguments].concat();
        place.cluster.admin.run(&all, "").success
    };
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    for verb in ["get", "list", "watch"] {
        assert!(may(&[verb, "persistentvolumeclaims", "-A"]), "{verb}");
    }
    for verb in ["get", "watch", "update"] {
        assert!(may(&[verb, "secrets/jobgate-tls", "-n", "jobgate"]), "{verb}");
    }
    for resource in configurations {
        for verb in ["get", "watch", "patch"] {
            assert!(may(&[verb, &format!("{resource}/jobgate")]), "{verb} {resource}");
        }
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
}

fn claims_are_read_with_the_pods_own_token(place: &Place<'_>) {
    let token = place.cluster.admin.run(&["-n", "jobgate", "create", "token", "jobgate"], "").ok().stdout;
    let user = place.cluster.unique("account");
    let api = place.cluster.admin.run(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"], "").ok().stdout;
    place.cluster.write_kubeconfig(&user, token.trim(), &api).expect("write a kubeconfig");
    let setup = Setup { user, ..Setup::only(&place.cluster.unique("own"), &place.namespace) };
    let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    place.create(&mounting("a", "checkpoints", 4)).denied(&["checkpoint-volume-access"]);
    drop(gate);
    unregister(place.cluster, &setup.name);
}
