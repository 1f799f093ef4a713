use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::observed::{Canary, Expected, Place, PolicySource, Replica, Right, Says, Seen, Served};
use super::*;
use crate::certs::Names;
use crate::certs::authority::Authority;
use crate::policy::Policy;

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> SystemTime {
    UNIX_EPOCH + 20_778 * DAY
}

fn names() -> Names {
    Names::new("jobgate", "jobgate").unwrap()
}

fn base64(pem: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(pem)
}

fn authority(at: SystemTime) -> Authority {
    Authority::generate(&names(), at, 365 * DAY).unwrap()
}

/// Puts an authority into everything that holds one, and serves what it signs.
fn trust(observed: &mut Observed, authority: &Authority, leaf_life: Duration) {
    bundle(observed, &authority.root().pem());
    let Seen::Known(secret) = &mut observed.secret else { panic!("there is a Secret") };
    secret["data"] = json!({"ca.crt": base64(&authority.root().pem()), "ca.key": base64(&authority.key_pem())});
    let leaf = authority.sign(&names(), now(), leaf_life).unwrap();
    serve(observed, &leaf.certificate_pem());
}

fn serve(observed: &mut Observed, pem: &str) {
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    observed.served = vec![Served { at: "pod jobgate-0".to_owned(), telling: false, chain: Seen::Known(chain) }];
}

fn bundle(observed: &mut Observed, pem: &str) {
    for configuration in [&mut observed.mutating, &mut observed.validating] {
        let Seen::Known(configuration) = configuration else { continue };
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = base64(pem).into();
        }
    }
}

/// An installation of `deploy/install.yaml` with which everything is fine.
pub(super) fn fine() -> Observed {
    let install = include_str!("../../deploy/install.yaml");
    let objects: Vec<Value> = crate::yaml::documents(install.as_bytes()).map(|document| document.unwrap().value).collect();
    let the = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap().clone();
    let mut deployment = the("Deployment");
    deployment["status"] = json!({"readyReplicas": 2, "observedGeneration": 1});
    let policy = the("ConfigMap")["data"]["policy.yaml"].as_str().unwrap().to_owned();
    let hash = Policy::parse(&policy, "p").unwrap().hash;
    let pod = |name: &str| {
        json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "jobgate"}},
            "status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "jobgate", "restartCount": 0, "state": {"running": {}}}],
            },
        })
    };
    let endpoint = |ready: bool| json!({"addresses": ["10.1.0.1"], "conditions": {"ready": ready}});
    let (mutating, validating) = (the("MutatingWebhookConfiguration"), the("ValidatingWebhookConfiguration"));
    let right = |verb, resource, certificates| Right { verb, group: "", resource, namespace: String::new(), name: String::new(), certificates };
    let namespace = |name: &str| json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}, "status": {"phase": "Active"}});
    let denial = "admission webhook \"validate.jobgate.dev\" denied the request: 1 problem:\ndeadline: spec.activeDeadlineSeconds: missing";
    let stored = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "jobgate-doctor"},
        "spec": {
            "activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 86400, "podReplacementPolicy": "Failed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    });
    let says = Says { version: env!("CARGO_PKG_VERSION").to_owned(), policy: hash, failed_reloads: 0 };
    let mut observed = Observed {
        place: Place::default(),
        now: now(),
        today: jiff::civil::date(2026, 11, 21),
        version: Seen::Known(json!({"major": "1", "minor": "36+", "gitVersion": "v1.36.1"})),
        all: [Seen::Known(vec![mutating.clone()]), Seen::Known(vec![validating.clone()])],
        mutating: Seen::Known(mutating),
        validating: Seen::Known(validating),
        namespace: Seen::Known(namespace("jobgate")),
        service: Seen::Known(the("Service")),
        slices: Seen::Known(vec![json!({"endpoints": [endpoint(true), endpoint(false)]})]),
        deployment: Seen::Known(deployment),
        pods: Seen::Known(vec![pod("jobgate-0"), pod("jobgate-1")]),
        budgets: Seen::Known(vec![the("PodDisruptionBudget")]),
        network_policies: Seen::Known(vec![the("NetworkPolicy")]),
        priority_class: Seen::Known(the("PriorityClass")),
        secret: Seen::Known(the("Secret")),
        policy: Seen::Known(PolicySource { name: "configmap/jobgate-policy".to_owned(), text: policy }),
        rights: vec![(right("get", "secrets", true), Seen::Known(true)), (right("list", "persistentvolumeclaims", false), Seen::Known(true))],
        served: Vec::new(),
        replicas: vec![Replica { pod: "jobgate-0".to_owned(), says: Seen::Known(says) }],
        fail_open: Seen::Known(BTreeMap::from([("somebody.else".to_owned(), 7)])),
        canary_namespace: Seen::Known(namespace("default")),
        judged: Seen::Known(Canary {
            expected: Some(Expected { denied: true, rules: vec!["deadline"], fills: Vec::new() }),
            status: 403,
            answer: json!({"kind": "Status", "message": denial}),
            warnings: Vec::new(),
            failed_open: Some(0),
        }),
        filled: Seen::Known(Canary {
            expected: Some(Expected { denied: false, rules: Vec::new(), fills: vec!["ttl-after-finished"] }),
            status: 201,
            answer: stored,
            warnings: Vec::new(),
            failed_open: Some(0),
        }),
    };
    trust(&mut observed, &authority(now()), 7 * DAY);
    observed
}

fn outcome(observed: &Observed, id: &str) -> Outcome {
    CHECKS.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("{id}")).outcome(observed)
}
