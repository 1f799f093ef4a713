use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::observations::{
    Canary, Expected, MountedSource, Operator, Place, PolicySource, Replica, Right, Says, Seen, Served,
    mounted,
};
use super::*;
use crate::certs::Names;
use crate::certs::authority::Authority;
use crate::certs::publish::Kind;
use crate::doctor::observations::Unread;
use jobgate_core::judge::policy::Policy;
use jobgate_core::text::value::{Value, json};

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
    secret["data"] =
        json!({"ca.crt": base64(&authority.root().pem()), "ca.key": base64(&authority.key_pem())});
    let leaf = authority.sign(&names(), now(), leaf_life).unwrap();
    serve(observed, &leaf.certificate_pem());
}

fn serve(observed: &mut Observed, pem: &str) {
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    observed.served =
        vec![Served { at: "pod jobgate-0".to_owned(), conclusive: false, chain: Seen::Known(chain) }];
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
    let install = include_str!("../../../../deploy/install.yaml");
    let objects: Vec<Value> = jobgate_core::text::yaml::documents(install.as_bytes())
        .map(|document| document.unwrap().value)
        .collect();
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
    let right = |verb, group, resource, certificates| Right {
        verb,
        group,
        resource,
        namespace: String::new(),
        name: String::new(),
        certificates,
    };
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
        rights: vec![
            (right("get", "", "secrets", true), Seen::Known(true)),
            (right("list", "", "persistentvolumeclaims", false), Seen::Known(true)),
            (right("get", "ray.io", "rayjobs", false), Seen::Known(true)),
        ],
        operators: Seen::Known(vec![Operator {
            account: "system:serviceaccount:jobset-system:jobset-controller-manager".to_owned(),
            kinds: vec!["JobSet"],
        }]),
        served: Vec::new(),
        replicas: vec![Replica { pod: "jobgate-0".to_owned(), says: Seen::Known(says) }],
        fail_open: Seen::Known(BTreeMap::from([("somebody.else".to_owned(), 7)])),
        canary_namespace: Seen::Known(namespace("default")),
        namespaces: Seen::Known(
            ["default", "jobgate", "kube-node-lease", "kube-public", "kube-system", "team-a"]
                .map(namespace)
                .into(),
        ),
        renamed: Vec::new(),
        judged: Seen::Known(Canary {
            expected: Some(Expected { denied: true, rules: vec!["deadline".into()], fills: Vec::new() }),
            status: 403,
            answer: json!({"kind": "Status", "message": denial}),
            warnings: Vec::new(),
            failed_open: Some(0),
        }),
        filled: Seen::Known(Canary {
            expected: Some(Expected {
                denied: false,
                rules: Vec::new(),
                fills: vec!["ttl-after-finished".into()],
            }),
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

#[test]
fn a_fine_installation_is_fine() {
    let examination = examine(&fine());
    let bad: Vec<&Outcome> =
        examination.outcomes.iter().filter(|outcome| outcome.status != Status::Ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(examination.outcomes.len(), CHECKS.len());
    assert!(
        examination.outcomes.iter().all(|outcome| outcome.remedy.is_none() && !outcome.finding.is_empty())
    );
}

#[test]
fn every_check_says_what_must_hold_why_and_what_to_do() {
    let mut ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    for check in CHECKS {
        for text in [check.title, check.about, check.remedy] {
            assert!(
                text.len() > 20 && !text.ends_with('.') && !text.contains("  "),
                "{}: {text:?}",
                check.id
            );
        }
        let remedy = check.usual_remedy();
        assert!(
            !["{ns}", "{deployment}", "{service}", "{secret}", "{policy}", "{key}"]
                .iter()
                .any(|mark| remedy.contains(mark)),
            "{}: {remedy}",
            check.id
        );
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CHECKS.len(), "no id twice");
}

/// Nothing can be read.
fn dark() -> Observed {
    let fine = fine();
    fn no<T>() -> Seen<T> {
        Seen::Unread(Unread::Forbidden("get it".to_owned()))
    }
    Observed {
        version: no(),
        mutating: no(),
        validating: no(),
        all: [no(), no()],
        namespace: no(),
        service: no(),
        slices: no(),
        deployment: no(),
        pods: no(),
        budgets: no(),
        network_policies: no(),
        priority_class: no(),
        secret: no(),
        policy: no(),
        rights: fine.rights.into_iter().map(|(right, _)| (right, no())).collect(),
        served: Vec::new(),
        replicas: Vec::new(),
        fail_open: no(),
        canary_namespace: no(),
        namespaces: no(),
        judged: no(),
        filled: no(),
        ..fine
    }
}

#[test]
fn what_cannot_be_read_is_never_fine() {
    for outcome in examine(&dark()).outcomes {
        assert_eq!(outcome.status, NotChecked, "{outcome:?}");
        assert!(outcome.remedy.is_some(), "{outcome:?}");
    }
}

#[test]
fn one_thing_that_cannot_be_read_is_said_where_it_matters() {
    fn no<T>() -> Seen<T> {
        Seen::Unread(Unread::Forbidden("get it".to_owned()))
    }
    type Break = fn(&mut Observed);
    let cases: [(Break, &[&str]); 14] = [
        (|o| o.version = no(), &["api-server"]),
        (|o| o.all[0] = no(), &["timeouts", "duplicates"]),
        (|o| o.namespace = no(), &["namespace"]),
        (|o| o.deployment = no(), &["replicas", "network-policy", "disruption-budget", "priority-class"]),
        (|o| o.pods = no(), &["pods"]),
        (|o| o.budgets = no(), &["disruption-budget"]),
        (|o| o.network_policies = no(), &["network-policy"]),
        (|o| o.slices = no(), &["service"]),
        (|o| o.secret = no(), &["certificate-secret", "ca-bundle-is-ours"]),
        (|o| o.policy = no(), &["policy", "exemptions", "policy-in-force", "canary-filled"]),
        (|o| o.rights[0].1 = no(), &["permissions"]),
        (|o| o.served[0].chain = no(), &["served-certificate"]),
        (|o| o.replicas[0].says = no(), &["policy-in-force"]),
        (|o| o.fail_open = no(), &["fail-open"]),
    ];
    for (breaks, ids) in cases {
        let mut observed = fine();
        breaks(&mut observed);
        let outcomes = examine(&observed).outcomes;
        let unread: Vec<&str> = outcomes
            .iter()
            .filter(|outcome| outcome.status == NotChecked)
            .map(|outcome| outcome.id)
            .collect();
        assert!(ids.iter().all(|id| unread.contains(id)), "{ids:?}: {unread:?}");
        assert!(
            outcomes.iter().all(|outcome| outcome.status <= NotChecked),
            "nothing is wrong for that: {outcomes:#?}"
        );
    }
}

type Break = Box<dyn Fn(&mut Observed)>;

/// One row: the check that tells, how bad it is, words of its finding, and what is broken.
struct Case(&'static str, Status, &'static str, Break);

fn case(
    id: &'static str,
    status: Status,
    words: &'static str,
    breaks: impl Fn(&mut Observed) + 'static,
) -> Case {
    Case(id, status, words, Box::new(breaks))
}

fn value<T>(seen: &mut Seen<T>) -> &mut T {
    let Seen::Known(value) = seen else { panic!("it is there") };
    value
}

/// Changes every webhook of both configurations.
fn each(observed: &mut Observed, change: impl Fn(&mut Value)) {
    for configuration in [&mut observed.mutating, &mut observed.validating] {
        value(configuration)["webhooks"].as_array_mut().unwrap().iter_mut().for_each(&change);
    }
}

fn first(seen: &mut Seen<Value>) -> &mut Value {
    &mut value(seen)["webhooks"][0]
}

fn run(cases: Vec<Case>) {
    for Case(id, status, words, breaks) in cases {
        let mut observed = fine();
        breaks(&mut observed);
        let outcome = outcome(&observed, id);
        assert_eq!(outcome.status, status, "{outcome:?}");
        assert!(outcome.finding.contains(words), "{words:?}: {outcome:?}");
        assert_eq!(outcome.remedy.is_some(), status != Status::Ok, "{outcome:?}");
        let rest = outcome.remedy.unwrap_or_default();
        assert!(
            !["{ns}", "{deployment}", "{service}", "{secret}", "{policy}", "{key}"]
                .iter()
                .any(|mark| rest.contains(mark)),
            "{rest}"
        );
    }
}

use Status::{NotChecked, Ok as Fine, Problem, Warning};

#[test]
fn registration() {
    run(vec![
        case("api-server", Problem, "v1.28", |o| {
            o.version = Seen::Known(json!({"major": "1", "minor": "28", "gitVersion": "v1.28.0"}));
        }),
        case("api-server", Warning, "newer", |o| {
            o.version = Seen::Known(json!({"major": "1", "minor": "99+", "gitVersion": "v1.99.0"}));
        }),
        case("api-server", NotChecked, "version", |o| o.version = Seen::Known(json!("garbage"))),
        case(
            "configurations",
            Problem,
            "no MutatingWebhookConfiguration `jobgate`: nothing is filled in",
            |o| o.mutating = Seen::Absent,
        ),
        case("configurations", Problem, "no ValidatingWebhookConfiguration", |o| o.validating = Seen::Absent),
        case("configurations", Problem, "has no webhooks", |o| {
            value(&mut o.validating)["webhooks"] = json!(null);
        }),
        case("target", Problem, "not one in jobgate", |o| {
            first(&mut o.mutating)["clientConfig"]["service"]["namespace"] = json!("old");
        }),
        case("target", Problem, "different Services", |o| {
            first(&mut o.mutating)["clientConfig"]["service"]["name"] = json!("old");
        }),
        case("target", Problem, "not /validate", |o| {
            first(&mut o.validating)["clientConfig"]["service"]["path"] = json!("/mutate");
        }),
        case("target", Problem, "no such port", |o| {
            each(o, |w| w["clientConfig"]["service"]["port"] = json!(8443));
        }),
        case("target", Problem, "neither a Service nor a URL", |o| {
            first(&mut o.mutating)["clientConfig"] = json!({});
        }),
        case("target", Fine, "https://127.0.0.1:1/mutate", |o| {
            first(&mut o.mutating)["clientConfig"] = json!({"url": "https://127.0.0.1:1/mutate"});
            first(&mut o.validating)["clientConfig"] = json!({"url": "https://127.0.0.1:1/validate"});
        }),
        case("rules", Problem, "CREATE of scaledjobs.keda.sh, UPDATE of scaledjobs", |o| {
            first(&mut o.validating)["rules"].as_array_mut().unwrap().pop();
        }),
        case("rules", Fine, "; not scaledjobs.keda.sh", |o| {
            first(&mut o.validating)["rules"].as_array_mut().unwrap().pop();
            first(&mut o.mutating)["rules"].as_array_mut().unwrap().pop();
        }),
        case("rules", Problem, "UPDATE of jobs.batch", |o| {
            first(&mut o.mutating)["rules"][0]["operations"] = json!(["CREATE"]);
        }),
        case("rules", Warning, "* in apiGroups", |o| {
            first(&mut o.mutating)["rules"][0]["apiGroups"] = json!(["*"]);
        }),
        case("rules", Warning, "DELETE in operations", |o| {
            first(&mut o.mutating)["rules"][0]["operations"] = json!(["CREATE", "UPDATE", "DELETE"]);
        }),
        case("failure-policy", Warning, "whole cluster", |o| {
            first(&mut o.validating)["failurePolicy"] = json!("Fail");
        }),
        case("failure-policy", Warning, "mutate.jobgate.dev has `Fail`", |o| {
            first(&mut o.mutating)["failurePolicy"] = json!(null);
        }),
        case("failure-policy", Fine, "fails closed in training", |o| {
            let mut closed = first(&mut o.validating).clone();
            closed["failurePolicy"] = json!("Fail");
            let only =
                json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["training"]});
            closed["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
            value(&mut o.validating)["webhooks"].as_array_mut().unwrap().push(closed);
        }),
        case("selectors", Warning, "called for kube-node-lease, kube-public, kube-system", |o| {
            first(&mut o.mutating)["namespaceSelector"] = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["jobgate"]}]});
        }),
        case("selectors", Problem, "own namespace jobgate", |o| {
            each(o, |w| (w["failurePolicy"], w["namespaceSelector"]) = (json!("Fail"), json!({})));
        }),
        case(
            "selectors",
            Warning,
            "1 namespace skipped, where no job is filled in or denied or warned about: team-a",
            |o| {
                each(o, |w| {
                    w["namespaceSelector"]["matchExpressions"][0]["values"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!("team-a"));
                });
            },
        ),
        case(
            "selectors",
            Warning,
            "2 namespaces skipped, where no job is denied or warned about: default, team-a",
            |o| {
                first(&mut o.validating)["namespaceSelector"] = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-b"]}]});
            },
        ),
        case("configurations", Problem, "a Jobgate elsewhere is called by `away`", |o| {
            let Seen::Known(all) = &mut o.all[0] else { panic!("a list") };
            all[0]["metadata"]["name"] = json!("away");
            o.mutating = Seen::Absent;
        }),
        case("selectors", NotChecked, "list namespaces", |o| {
            o.namespaces = Seen::Unread(Unread::Forbidden("list namespaces".to_owned()));
        }),
        case(
            "configurations",
            Warning,
            "no ValidatingWebhookConfiguration `jobgate`; `batch-gate` calls Jobgate",
            |o| {
                o.place.validating = "batch-gate".to_owned();
                o.renamed = vec![(Kind::Validating, "jobgate".to_owned())];
            },
        ),
        case("selectors", Warning, "who may label a namespace", |o| {
            each(o, |w| w["namespaceSelector"] = json!({"matchLabels": {"gate": "on"}}));
        }),
        case("selectors", Warning, "object selector", |o| {
            first(&mut o.validating)["objectSelector"] = json!({"matchLabels": {"a": "b"}});
        }),
        case("selectors", Warning, "mine", |o| {
            first(&mut o.validating)["matchConditions"] = json!([{"name": "mine", "expression": "false"}]);
        }),
        case("settings", Warning, "`matchPolicy: Exact`", |o| {
            first(&mut o.validating)["matchPolicy"] = json!("Exact");
        }),
        case("settings", Warning, "`reinvocationPolicy: Never`", |o| {
            first(&mut o.mutating)["reinvocationPolicy"] = json!("Never");
        }),
        case("settings", Problem, "v1", |o| {
            first(&mut o.mutating)["admissionReviewVersions"] = json!(["v1beta1"]);
        }),
        case("timeouts", Warning, "delay every job", |o| {
            first(&mut o.mutating)["timeoutSeconds"] = json!(10);
        }),
        case("timeouts", Warning, "45 s together", |o| {
            let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]);
            let other = json!({"metadata": {"name": "others"}, "webhooks": (0..4).map(|n| json!({"name": format!("w{n}"), "rules": rules})).collect::<Vec<_>>()});
            let Seen::Known(all) = &mut o.all[0] else { panic!("a list") };
            all.push(other);
        }),
        case("duplicates", Warning, "`old` calls it", |o| {
            let Seen::Known(all) = &mut o.all[1] else { panic!("a list") };
            let mut old = all[0].clone();
            old["metadata"]["name"] = json!("old");
            all.push(old);
        }),
    ]);
}

#[test]
fn certificates() {
    run(vec![
        case("ca-bundle", Problem, "is empty", |o| {
            first(&mut o.mutating)["clientConfig"]["caBundle"] = json!("");
        }),
        case("ca-bundle", Problem, "is empty", |o| {
            first(&mut o.mutating)["clientConfig"]["caBundle"] = json!(null);
        }),
        case("ca-bundle", Problem, "is not base64", |o| {
            first(&mut o.mutating)["clientConfig"]["caBundle"] = json!("%%%");
        }),
        case("ca-bundle", Problem, "contains no certificate", |o| {
            first(&mut o.mutating)["clientConfig"]["caBundle"] = json!("Z2FyYmFnZQ==");
        }),
        case("ca-bundle", Problem, "expired on 2026-11-20", |o| trust(o, &authority(now() - 366 * DAY), DAY)),
        case("ca-bundle", Problem, "is not valid before", |o| trust(o, &authority(now() + 9 * DAY), DAY)),
        case("ca-bundle", Warning, "expires in 15 days", |o| trust(o, &authority(now() - 350 * DAY), DAY)),
        // A rotation: the old one is about to end, the new one is there.
        case("ca-bundle", Fine, "364 days", |o| {
            let (old, new) = (authority(now() - 350 * DAY), authority(now() - DAY));
            bundle(o, &format!("{}{}", old.root().pem(), new.root().pem()));
        }),
        case("ca-bundle-agrees", Warning, "they differ", |o| {
            first(&mut o.mutating)["clientConfig"]["caBundle"] =
                base64(&authority(now()).root().pem()).into();
        }),
        case(
            "ca-bundle-is-ours",
            Problem,
            "not in the caBundle of mutate.jobgate.dev, validate.jobgate.dev",
            |o| {
                bundle(o, &authority(now()).root().pem());
            },
        ),
        case("ca-bundle-is-ours", NotChecked, "has no certificate", |o| {
            mount(o, json!({"secretName": "ours"}), &[]);
        }),
        case("ca-bundle-is-ours", NotChecked, "has no authority", |o| {
            value(&mut o.secret)["data"] = json!({});
        }),
        case(
            "served-certificate",
            Problem,
            "pod jobgate-0: no authority in the caBundle of mutate.jobgate.dev, validate.jobgate.dev has signed",
            |o| {
                bundle(o, &authority(now()).root().pem());
            },
        ),
        case("served-certificate", Problem, "not for the name other.jobgate.svc", |o| {
            each(o, |w| w["clientConfig"]["service"]["name"] = json!("other"));
        }),
        case("served-certificate", Problem, "expired on", |o| o.now += 8 * DAY),
        case("served-certificate", Warning, "expires in", |o| {
            o.now += 6 * DAY + 20 * Duration::from_secs(3600);
        }),
        case("served-certificate", Problem, "connection refused", |o| {
            o.served[0].conclusive = true;
            o.served[0].chain = Seen::Unread(Unread::Failed("connection refused".to_owned()));
        }),
        case("served-certificate", NotChecked, "no pod is running", |o| o.served.clear()),
        case("served-certificate", NotChecked, "needs permission to list pods", |o| {
            o.served.clear();
            o.pods = Seen::Unread(Unread::Forbidden("list pods".to_owned()));
        }),
        case("certificate-secret", Problem, "no Secret jobgate-tls in jobgate", |o| o.secret = Seen::Absent),
        case("certificate-secret", Problem, "it is empty", |o| value(&mut o.secret)["data"] = json!(null)),
        case("certificate-secret", Problem, "ca.crt and ca.key", |o| {
            value(&mut o.secret)["data"]["ca.key"] = json!("Z2FyYmFnZQ==");
        }),
        case("certificate-secret", Problem, "the authority expired", |o| o.now += 400 * DAY),
        case("certificate-secret", Fine, "the next one", |o| {
            let next = authority(now());
            value(&mut o.secret)["data"]["ca-next.crt"] = base64(&next.root().pem()).into();
            value(&mut o.secret)["data"]["ca-next.key"] = base64(&next.key_pem()).into();
        }),
        case(
            "certificate-secret",
            Problem,
            "ca.crt and ca.key: the key belongs to another certificate",
            |o| {
                value(&mut o.secret)["data"]["ca.key"] = base64(&authority(now()).key_pem()).into();
            },
        ),
        case(
            "certificate-secret",
            Problem,
            "ca-next.crt and ca-next.key: the key belongs to another certificate",
            |o| {
                value(&mut o.secret)["data"]["ca-next.crt"] = base64(&authority(now()).root().pem()).into();
                value(&mut o.secret)["data"]["ca-next.key"] = base64(&authority(now()).key_pem()).into();
            },
        ),
    ]);
}

/// Serves from a Secret that somebody else fills.
fn mount(observed: &mut Observed, source: Value, data: &[(&str, &str)]) {
    let pod = &mut value(&mut observed.deployment)["spec"]["template"]["spec"];
    pod["containers"][0]["args"] = json!(["serve", "--tls-cert=/certs/tls.crt", "--tls-key=/certs/tls.key"]);
    let mounts = pod["containers"][0]["volumeMounts"].as_array_mut().unwrap();
    mounts.push(json!({"name": "certificate", "mountPath": "/certs"}));
    pod["volumes"].as_array_mut().unwrap().push(json!({"name": "certificate", "secret": source}));
    value(&mut observed.secret)["data"] =
        data.iter().map(|(key, text)| ((*key).to_owned(), Value::from(base64(text)))).collect();
}

#[test]
fn mounted_certificates() {
    let authority = authority(now());
    let [(leaf, key), (_, other)] = [(); 2].map(|()| {
        let leaf = authority.sign(&names(), now(), 7 * DAY).unwrap();
        (leaf.certificate_pem(), leaf.key_pem().to_owned())
    });
    let holding = |status: Status, words: &'static str, data: [(&'static str, &str); 2]| {
        let data = data.map(|(key, text)| (key, text.to_owned()));
        case("certificate-secret", status, words, move |o| {
            mount(
                o,
                json!({"secretName": "ours"}),
                &data.each_ref().map(|(key, text)| (*key, text.as_str())),
            );
        })
    };
    let garbled = key.replace('M', "N");
    run(vec![
        holding(Fine, "the certificate is valid for 7 days", [("tls.crt", &leaf), ("tls.key", &key)]),
        holding(
            Problem,
            "tls.crt and tls.key in the Secret ours cannot be served: the private key belongs to another certificate",
            [("tls.crt", &leaf), ("tls.key", &other)],
        ),
        holding(
            Problem,
            "cannot be served: read the private key from PEM",
            [("tls.crt", &leaf), ("tls.key", "garbage")],
        ),
        holding(
            Problem,
            "cannot be served: read the private key from PEM",
            [("tls.crt", &leaf), ("tls.key", &leaf)],
        ),
        holding(
            Problem,
            "cannot be served: use the private key",
            [("tls.crt", &leaf), ("tls.key", &garbled)],
        ),
        holding(
            Problem,
            "cannot be served: read the certificate from PEM",
            [("tls.crt", &format!("{leaf}-----BEGIN CERTIFICATE-----")), ("tls.key", &key)],
        ),
        holding(Problem, "no key at tls.key", [("tls.crt", &leaf), ("tls.key", "\n")]),
        holding(Problem, "no key at tls.key", [("tls.crt", &leaf), ("other", &key)]),
        holding(Problem, "no certificate at tls.crt", [("tls.crt", "garbage"), ("tls.key", &key)]),
    ]);
    let mut observed = fine();
    mount(&mut observed, json!({"secretName": "ours"}), &[("tls.crt", &leaf), ("tls.key", &other)]);
    let remedy = outcome(&observed, "certificate-secret").remedy.unwrap();
    assert!(remedy.contains("jobgate certs init --service jobgate --namespace jobgate"), "{remedy}");
    observed.now += 400 * DAY;
    let finding = outcome(&observed, "certificate-secret").finding;
    assert!(
        finding.contains("belongs to another") && finding.contains("the certificate expired on"),
        "all is listed: {finding}"
    );
    // Whether the API server trusts it, with the authority beside it and without.
    let root = authority.root().pem();
    for (data, words) in [
        (vec![("tls.crt", leaf.as_str()), ("ca.crt", &root)], "ca.crt in the Secret ours"),
        (vec![("tls.crt", &leaf)], "tls.crt in the Secret ours"),
    ] {
        let mut observed = fine();
        mount(&mut observed, json!({"secretName": "ours"}), &data);
        let strange = outcome(&observed, "ca-bundle-is-ours");
        assert!(strange.status == Problem && strange.finding.contains(words), "{strange:?}");
        assert!(strange.remedy.is_some_and(|remedy| remedy.starts_with("write the authority")));
        bundle(&mut observed, &root);
        let ours = outcome(&observed, "ca-bundle-is-ours");
        assert!(ours.status == Fine && ours.finding.contains(words), "{ours:?}");
        let mut bare = observed.clone();
        each(&mut bare, |webhook| webhook["clientConfig"]["caBundle"] = json!(null));
        assert_ne!(outcome(&bare, "ca-bundle-is-ours").status, Fine, "there is none to hold it against");
        observed.now += 8 * DAY;
        let late = outcome(&observed, "ca-bundle-is-ours");
        assert!(
            late.status == if data.len() > 1 { Fine } else { NotChecked },
            "an authority may outlive what it has signed: {late:?}"
        );
        observed.now -= 8 * DAY;
        each(&mut observed, |webhook| webhook["clientConfig"]["service"]["name"] = json!("other"));
        let other = outcome(&observed, "ca-bundle-is-ours");
        assert!(
            data.len() > 1
                || other.status == Problem && other.finding.contains("not for the name other.jobgate.svc"),
            "{other:?}"
        );
    }
    // The Secret may call them otherwise.
    let items = json!([{"key": "chain.pem", "path": "tls.crt"}, {"key": "key.pem", "path": "tls.key"}]);
    let mut observed = fine();
    mount(
        &mut observed,
        json!({"secretName": "ours", "items": items}),
        &[("chain.pem", &leaf), ("key.pem", &key)],
    );
    assert_eq!(outcome(&observed, "certificate-secret").status, Fine);
    let mut observed = fine();
    mount(
        &mut observed,
        json!({"secretName": "ours", "items": [items[0]]}),
        &[("chain.pem", &leaf), ("key.pem", &key)],
    );
    let keyless = outcome(&observed, "certificate-secret");
    assert!(
        keyless.status == NotChecked && keyless.finding.contains("not in the Secret ours"),
        "never fine: {keyless:?}"
    );
}

#[test]
fn files_of_a_pod_lead_to_what_they_are_made_of() {
    let deployment = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "jobgate", "volumeMounts": [
            {"name": "all", "mountPath": "/etc"}, {"name": "map", "mountPath": "/etc/jobgate"},
            {"name": "secret", "mountPath": "/one/tls.pem", "subPath": "deep/tls.crt"}, {"name": "items", "mountPath": "/items"}, {"name": "empty", "mountPath": "/tmp"},
        ]}],
        "volumes": [
            {"name": "all", "projected": {"sources": [
                {"secret": {"name": "first", "items": [{"key": "a", "path": "x/a"}]}}, {"configMap": {"name": "map-of-all"}}, {"secret": {"name": "rest"}},
            ]}},
            {"name": "map", "configMap": {"name": "policy"}}, {"name": "secret", "secret": {"secretName": "pair"}},
            {"name": "items", "secret": {"secretName": "few", "items": [{"key": "k", "path": "p"}]}}, {"name": "empty", "emptyDir": {}},
        ],
    }}}});
    for (file, source, expected) in [
        ("/etc/jobgate/policy.yaml", MountedSource::ConfigMap, Some(("policy", "policy.yaml"))),
        ("/etc/jobgate/policy.yaml", MountedSource::Secret, None),
        ("/etc/x/a", MountedSource::Secret, Some(("first", "a"))),
        ("/etc/y", MountedSource::Secret, Some(("rest", "y"))),
        ("/etc/y", MountedSource::ConfigMap, Some(("map-of-all", "y"))),
        ("/one/tls.pem", MountedSource::Secret, Some(("pair", "deep/tls.crt"))),
        ("/items/p", MountedSource::Secret, Some(("few", "k"))),
        ("/items/q", MountedSource::Secret, None),
        ("/tmp/x", MountedSource::Secret, None),
        ("/elsewhere", MountedSource::Secret, None),
    ] {
        let found = mounted(&deployment, Path::new(file), source);
        assert_eq!(found.as_ref().map(|(name, key)| (name.as_str(), key.as_str())), expected, "{file}");
    }
    assert_eq!(mounted(&json!({}), Path::new("/x"), MountedSource::Secret), None);
}

#[test]
fn workload() {
    fn status(observed: &mut Observed) -> &mut Value {
        let Seen::Known(pods) = &mut observed.pods else { panic!("pods") };
        &mut pods[0]["status"]
    }
    run(vec![
        case("namespace", Problem, "no namespace jobgate", |o| o.namespace = Seen::Absent),
        case("namespace", Problem, "being deleted", |o| {
            value(&mut o.namespace)["status"]["phase"] = json!("Terminating");
        }),
        case("replicas", Problem, "no Deployment", |o| o.deployment = Seen::Absent),
        case("replicas", Problem, "none of 2", |o| value(&mut o.deployment)["status"] = json!({})),
        case("replicas", Warning, "1 of 2", |o| {
            value(&mut o.deployment)["status"]["readyReplicas"] = json!(1);
        }),
        case("replicas", Problem, "scaled to zero", |o| {
            value(&mut o.deployment)["spec"]["replicas"] = json!(0);
        }),
        case("replicas", Warning, "scaled to one", |o| {
            (
                value(&mut o.deployment)["spec"]["replicas"],
                value(&mut o.deployment)["status"]["readyReplicas"],
            ) = (json!(1), json!(1));
        }),
        case("replicas", Problem, "FailedCreate: violates PodSecurity", |o| {
            value(&mut o.deployment)["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "violates PodSecurity"}]);
        }),
        case("pods", Problem, "no pods", |o| o.pods = Seen::Known(Vec::new())),
        case("pods", Problem, "ImagePullBackOff: no such image", |o| {
            status(o)["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        }),
        case("pods", Warning, "restarted 5 times, last: OOMKilled", |o| {
            status(o)["containerStatuses"][0]["restartCount"] = json!(5);
            status(o)["containerStatuses"][0]["lastState"] = json!({"terminated": {"reason": "OOMKilled"}});
        }),
        case("pods", Warning, "jobgate-0 is not ready", |o| {
            status(o)["conditions"][0]["status"] = json!("False");
        }),
        case("pods", Problem, "is not scheduled: Insufficient memory", |o| {
            status(o)["conditions"] =
                json!([{"type": "PodScheduled", "status": "False", "message": "Insufficient memory"}]);
        }),
        case("version", Warning, "the cluster runs 9.9.9", |o| {
            o.replicas[0].says = Seen::Known(Says { version: "9.9.9".to_owned(), ..Says::default() });
        }),
        case("version", Fine, env!("CARGO_PKG_VERSION"), |o| o.replicas.clear()),
        case("version", NotChecked, "has no version tag", |o| {
            o.replicas.clear();
            value(&mut o.deployment)["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!("jobgate@sha256:00");
        }),
        case("service", Problem, "no Service jobgate", |o| o.service = Seen::Absent),
        case("service", Problem, "no endpoint", |o| o.slices = Seen::Known(Vec::new())),
        case("service", Problem, "none of its 1 endpoint is ready", |o| {
            o.slices = Seen::Known(vec![json!({"endpoints": [{"conditions": {"ready": false}}]})]);
        }),
        case("service", Problem, "does not match the pods' labels: app", |o| {
            value(&mut o.service)["spec"]["selector"] = json!({"app": "other"});
        }),
        case("network-policy", Fine, "none selects", |o| o.network_policies = Seen::Known(Vec::new())),
        case("network-policy", Problem, "blocks the API server from port 10250", |o| {
            o.network_policies = Seen::Known(vec![
                json!({"metadata": {"name": "deny-all"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
            ]);
        }),
        case("network-policy", Fine, "from 10.0.0.0/24", |o| {
            let rule = json!({"ports": [{"port": 10250}], "from": [{"ipBlock": {"cidr": "10.0.0.0/24"}}]});
            o.network_policies = Seen::Known(vec![
                json!({"metadata": {"name": "x"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]}}),
            ]);
        }),
        case("disruption-budget", Warning, "none covers", |o| o.budgets = Seen::Known(Vec::new())),
        case("priority-class", Problem, "no PriorityClass jobgate", |o| o.priority_class = Seen::Absent),
        case("priority-class", Warning, "have none", |o| {
            value(&mut o.deployment)["spec"]["template"]["spec"]["priorityClassName"] = json!(null);
        }),
        case("permissions", Problem, "it may not get secrets", |o| o.rights[0].1 = Seen::Known(false)),
        case("permissions", Warning, "it may not list persistentvolumeclaims", |o| {
            o.rights[1].1 = Seen::Known(false);
        }),
        case("permissions", Warning, "it may not get rayjobs: a trusted controller is believed", |o| {
            o.rights[2].1 = Seen::Known(false);
        }),
        case("permissions", Fine, "needs none", |o| o.rights.clear()),
        case("permissions", NotChecked, "no Deployment", |o| o.deployment = Seen::Absent),
        case("operators", Fine, "jobset-system:jobset-controller-manager", |_| {}),
        case("operators", Fine, "there is none", |o| o.operators = Seen::Known(Vec::new())),
        case(
            "operators",
            Warning,
            "system:serviceaccount:kuberay-system:kuberay-operator is not trusted and acts as the operator of RayJob",
            |o| {
                let account = "system:serviceaccount:kuberay-system:kuberay-operator".to_owned();
                value(&mut o.operators).push(Operator { account, kinds: vec!["RayJob"] });
            },
        ),
        case("operators", NotChecked, "no policy", |o| {
            o.policy = Seen::Unread(Unread::Skipped("no policy".to_owned()));
        }),
        case("operators", NotChecked, "needs permission to list roles", |o| {
            o.operators = Seen::Unread(Unread::Forbidden("list roles".to_owned()));
        }),
    ]);
}

#[test]
fn the_remedy_is_for_the_worst() {
    let mut observed = fine();
    observed.rights[0].1 = Seen::Known(false);
    observed.rights[1].1 = Seen::Unread(Unread::Skipped("nobody asked".to_owned()));
    let outcome = outcome(&observed, "permissions");
    assert!(
        outcome.finding.contains("it may not get secrets") && outcome.finding.contains("nobody asked"),
        "{outcome:?}"
    );
    assert!(outcome.remedy.unwrap().starts_with("apply the manifests again"));
}

#[test]
fn policies() {
    fn write(observed: &mut Observed, spec: &str) {
        let text = format!(
            "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: ours}}\nspec:\n{spec}"
        );
        observed.policy = Seen::Known(PolicySource { name: "configmap/jobgate-policy".to_owned(), text });
    }
    let ended = "  exemptions:\n  - {match: {names: [a]}, rules: [deadline], reason: see PLAT-1, until: 2026-01-01}\n";
    run(vec![
        case(
            "policy",
            Problem,
            "read policy.yaml of the ConfigMap jobgate-policy in jobgate, which does not exist",
            |o| o.policy = Seen::Absent,
        ),
        case("policy", Problem, "configmap/jobgate-policy cannot be read: line 6: ", |o| {
            write(o, "  rules:\n    deadlin: {action: deny}\n");
        }),
        case("policy", Fine, "it denies nothing", |o| {
            o.policy = Seen::Known(PolicySource {
                name: "p".to_owned(),
                text: include_str!("../../../../policies/audit.yaml").to_owned(),
            });
        }),
        case("exemptions", Warning, "spec.exemptions[0] ended on 2026-01-01 (see PLAT-1)", move |o| {
            write(o, ended);
        }),
        case("exemptions", NotChecked, "cannot be read", |o| write(o, "  rules: 1\n")),
        case("policy-in-force", Warning, "jobgate-0 uses none, not ", |o| {
            o.replicas[0].says = Seen::Known(Says::default());
        }),
        case("policy-in-force", Warning, "rejected 2 changed files", |o| {
            let Seen::Known(says) = &mut o.replicas[0].says else { panic!("it says") };
            says.failed_reloads = 2;
        }),
        case("policy-in-force", NotChecked, "no pod is running", |o| o.replicas.clear()),
        case("policy-in-force", NotChecked, "needs permission to list pods", |o| {
            o.replicas.clear();
            o.pods = Seen::Unread(Unread::Forbidden("list pods".to_owned()));
        }),
    ]);
}

#[test]
fn canaries() {
    fn canary(seen: &mut Seen<Canary>) -> &mut Canary {
        let Seen::Known(canary) = seen else { panic!("it was sent") };
        canary
    }
    /// Both get the same answer.
    fn both(observed: &mut Observed, status: u16, message: &str) {
        for seen in [&mut observed.judged, &mut observed.filled] {
            let canary = canary(seen);
            (canary.status, canary.answer) = (status, json!({"kind": "Status", "message": message}));
        }
    }
    let failing = |cause: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"mutate.jobgate.dev\": failed to call webhook: Post \"https://jobgate.jobgate.svc:443/mutate?timeout=2s\": {cause}"
        )
    };
    let mut cases = Vec::new();
    for (cause, meaning) in [
        (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "does not trust the certificate",
        ),
        (
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time",
            "has expired, or is not valid yet",
        ),
        (
            "tls: failed to verify certificate: x509: certificate is valid for localhost, not jobgate.jobgate.svc",
            "another name",
        ),
        ("no endpoints available for service \"jobgate\"", "no pod is ready"),
        ("service \"jobgate\" not found", "the Service, or its port, does not exist"),
        ("dial tcp 10.0.0.7:10250: connect: connection refused", "nothing listens"),
        ("dial tcp 10.0.0.7:10250: connect: no route to host", "cannot reach the pods' network"),
        ("dial tcp: lookup nowhere.example on 10.0.0.1:53: no such host", "cannot resolve"),
        ("context deadline exceeded", "no answer came in time"),
        (
            "net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            "no answer came in time",
        ),
        ("EOF", "the connection broke"),
        ("something nobody has seen", "cannot use the webhook; it says: Internal error"),
    ] {
        let text = failing(cause);
        for id in ["canary-denied", "canary-filled"] {
            let text = text.clone();
            cases.push(case(id, Problem, meaning, move |o| both(o, 500, &text)));
        }
    }
    run(cases);
    let admitted = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "c"},
        "spec": {"podReplacementPolicy": "TerminatingOrFailed", "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let (first, second, third, fourth) =
        (admitted.clone(), admitted.clone(), admitted.clone(), admitted.clone());
    run(vec![
        case("canary-denied", NotChecked, "--no-canary", |o| o.judged = Seen::skipped("--no-canary")),
        case("canary-denied", NotChecked, "there is no namespace default", |o| {
            o.canary_namespace = Seen::Absent;
        }),
        case("canary-denied", NotChecked, "skip the namespace kube-system", |o| {
            o.place.canary_namespace = "kube-system".to_owned();
            o.canary_namespace =
                Seen::Known(json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}}));
        }),
        case(
            "canary-denied",
            Problem,
            "the webhook failed open: the API server called it, got no usable answer",
            move |o| {
                let canary = canary(&mut o.judged);
                (canary.status, canary.answer, canary.failed_open) = (201, first.clone(), Some(1));
            },
        ),
        case("canary-denied", Problem, "the webhook failed open: the API server called it", move |o| {
            // Whatever the policy says, which nobody may read.
            let canary = canary(&mut o.judged);
            (canary.status, canary.answer, canary.failed_open, canary.expected) =
                (201, fourth.clone(), Some(1), None);
        }),
        case("canary-denied", NotChecked, "an object selector skips the canary", |o| {
            value(&mut o.validating)["webhooks"][0]["objectSelector"] =
                json!({"matchLabels": {"gate": "on"}});
        }),
        case("canary-denied", Problem, "the API server did not call the webhook, or", move |o| {
            let canary = canary(&mut o.judged);
            (canary.status, canary.answer) = (201, second.clone());
        }),
        case(
            "canary-filled",
            Problem,
            "admitted without what pod-replacement-policy, ttl-after-finished fills in: the webhook failed open, or was not called",
            move |o| {
                let canary = canary(&mut o.filled);
                (canary.answer, canary.failed_open) = (third.clone(), None);
            },
        ),
        case(
            "canary-filled",
            Problem,
            "another webhook takes away what ttl-after-finished fills in (those that may change Jobs: zzz)",
            |o| {
                let change = json!({
                    "metadata": {"name": "zzz"},
                    "webhooks": [{"name": "zzz.example.com", "rules": [
                        {"apiGroups": ["batch"], "operations": ["CREATE"], "resources": ["jobs", "cronjobs"]},
                    ]}],
                });
                let pods = json!({
                    "metadata": {"name": "pods"},
                    "webhooks": [{"rules": [{"apiGroups": [""], "operations": ["*"], "resources": ["*"]}]}],
                });
                value(&mut o.all[0]).extend([change, pods]);
                let canary = canary(&mut o.filled);
                let spec = canary.answer["spec"].as_object_mut().unwrap();
                spec.remove("ttlSecondsAfterFinished");
                canary.warnings = vec!["jobgate filled in: spec.ttlSecondsAfterFinished=86400".to_owned()];
            },
        ),
        case(
            "canary-denied",
            NotChecked,
            "another webhook has changed it so that the policy does not deny",
            {
                let answer = fine().filled.known().unwrap().answer.clone();
                move |o| {
                    let canary = canary(&mut o.judged);
                    (canary.status, canary.answer) = (201, answer.clone());
                }
            },
        ),
        case("canary-denied", Warning, "but not for gpu-toleration", |o| {
            canary(&mut o.judged).expected.as_mut().unwrap().rules.push("gpu-toleration".into());
        }),
        case("canary-denied", Problem, "though the policy admits it", |o| {
            canary(&mut o.judged).expected = Some(Expected::default());
        }),
        case("canary-denied", NotChecked, "whether it should be is unknown", |o| {
            canary(&mut o.judged).expected = None;
        }),
        case("canary-denied", NotChecked, "neither denies it nor warns", |o| {
            let canary = canary(&mut o.judged);
            (canary.status, canary.expected) = (201, Some(Expected::default()));
        }),
        case("canary-denied", Fine, "it got the warnings of deadline", |o| {
            let canary = canary(&mut o.judged);
            (canary.status, canary.warnings) =
                (201, vec!["deadline: spec.activeDeadlineSeconds: missing".to_owned()]);
            canary.expected = Some(Expected { rules: vec!["deadline".into()], ..Expected::default() });
        }),
        case("canary-denied", Problem, "admitted without the warnings of deadline", |o| {
            let canary = canary(&mut o.judged);
            canary.status = 201;
            canary.expected = Some(Expected { rules: vec!["deadline".into()], ..Expected::default() });
        }),
        case("canary-denied", NotChecked, "something else rejected it first", |o| {
            both(o, 403, "admission webhook \"validate.kyverno.svc\" denied the request: no");
        }),
        case("canary-denied", NotChecked, "needs permission to create jobs.batch", |o| {
            both(
                o,
                403,
                "jobs.batch is forbidden: User \"a\" cannot create resource \"jobs\" in API group \"batch\" in the namespace \"default\"",
            );
        }),
        case(
            "canary-denied",
            NotChecked,
            "something else rejected it first: jobs.batch \"jobgate-doctor\" is forbidden: exceeded quota",
            |o| {
                both(
                    o,
                    403,
                    "jobs.batch \"jobgate-doctor\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1",
                );
            },
        ),
        case("canary-denied", NotChecked, "before the webhook was called", |o| {
            both(
                o,
                422,
                "jobs.batch \"jobgate-doctor\" is forbidden: ValidatingAdmissionPolicy 'jobgate-deadline' with binding 'jobgate-deadline' denied request: no deadline",
            );
        }),
        case("canary-denied", NotChecked, "another webhook, other.example.com, fails", |o| {
            both(o, 500, "Internal error occurred: failed calling webhook \"other.example.com\": x");
        }),
        case("canary-denied", Problem, "no answer came in time", |o| {
            both(o, 504, "Timeout: request did not complete within the allotted timeout");
        }),
        case("canary-filled", NotChecked, "fills in nothing", |o| {
            canary(&mut o.filled).expected = Some(Expected::default());
        }),
        case("canary-filled", Problem, "though the policy admits it", |o| {
            both(o, 403, "admission webhook \"mutate.jobgate.dev\" denied the request: x");
        }),
        case("fail-open", Warning, "mutate.jobgate.dev 3", |o| {
            o.fail_open = Seen::Known(BTreeMap::from([("mutate.jobgate.dev".to_owned(), 3)]));
        }),
        case("fail-open", Warning, "did not judge: jobgate-deadline 3", |o| {
            o.fail_open = Seen::Known(BTreeMap::from([
                ("policy/jobgate-deadline".to_owned(), 3),
                ("policy/of-somebody-else".to_owned(), 3),
            ]));
        }),
        case("fail-open", Warning, "the webhook was not called: validate.jobgate.dev 2", |o| {
            o.fail_open = Seen::Known(BTreeMap::from([("condition/validate.jobgate.dev".to_owned(), 2)]));
        }),
    ]);
}

#[test]
fn the_worst_comes_first_and_everything_is_listed() {
    let mut observed = fine();
    observed.validating = Seen::Absent;
    observed.budgets = Seen::Known(Vec::new());
    observed.fail_open = Seen::Unread(Unread::Forbidden("get the path /metrics".to_owned()));
    let examination = examine(&observed);
    let statuses: Vec<Status> = examination.outcomes.iter().map(|outcome| outcome.status).collect();
    assert!(statuses.is_sorted_by(|a, b| a >= b), "{statuses:?}");
    let mut text = Vec::new();
    write_human(&examination, "https://example.com", &mut text).unwrap();
    let text = anstream::adapter::strip_str(&String::from_utf8(text).unwrap()).to_string();
    assert!(
        text.starts_with(
            "problem      configurations      there is no ValidatingWebhookConfiguration `jobgate`"
        ),
        "{text}"
    );
    assert!(
        text.contains("\nnot checked  fail-open           needs permission to get the path /metrics\n"),
        "{text}"
    );
    assert!(
        text.ends_with(&format!(
            "\nhttps://example.com: 1 problem, 1 warning, 1 not checked, {} ok\n",
            CHECKS.len() - 3
        )),
        "{text}"
    );
    let mut json = Vec::new();
    write_json(&examination, "https://example.com", &mut json).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["summary"], json!({"problem": 1, "warning": 1, "notChecked": 1, "ok": CHECKS.len() - 3}));
    assert_eq!(json["checks"].as_array().map(Vec::len), Some(CHECKS.len()));
    assert_eq!(json["checks"][0]["status"], "problem");
}

#[test]
fn the_versions_are_those_that_are_promised() {
    let promised = include_str!("../../../../docs/compatibility.md");
    assert!(promised.contains("Kubernetes 1.29 to 1.37.") && CHECKS[0].about.contains("1.29 to 1.37"));
    for (minor, status) in [(28, Problem), (29, Fine), (37, Fine), (38, Warning)] {
        let mut observed = fine();
        observed.version = Seen::Known(
            json!({"major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0")}),
        );
        assert_eq!(outcome(&observed, "api-server").status, status);
    }
}

#[test]
fn text_from_the_cluster_cannot_steer_a_terminal() {
    let mut observed = fine();
    value(&mut observed.deployment)["status"]["conditions"] =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "x", "message": "\u{1b}[2J\u{202e}"}]);
    let mut text = Vec::new();
    write_human(&examine(&observed), "s", &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{202e}'), "{text:?}");
}
