//! A plain user applies the costliest objects there are while others create Jobs without a deadline: none of
//! those gets in.
//!
//! The webhooks are registered as in production, open on failure and with short timeouts, so whoever
//! slows Jobgate down turns it off.
//! `JOBGATE_ATTACK_SECONDS=60` makes it a long run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use jobgate::kinds::accelerator::TAINTS;
use jobgate::text::value::{Map, Value, json};
use kube::Client;
use kube::client::Body;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::api::Api;
use crate::failures::failed_open;
use crate::gate::{Gate, Setup, unregister};
use crate::manifests::{endless, job, over};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("costly_objects_of_a_plain_user_do_not_open_the_gate", |place| {
        attacked(place, &objects(), objects().len(), false);
    })
    .ungated()
    .needs(Needs::CustomResources),
    Scenario::new("dry_runs_of_a_plain_user_do_not_open_the_gate", |place| {
        for clients in [3, 12, 40] {
            attacked(place, &dry_runs(), clients, true);
        }
    })
    .ungated()
    .needs(Needs::CustomResources),
];

/// Jobs without a deadline that are created in a second.
const ENDLESS_PER_SECOND: u32 = 20;
/// The memory limit of the manifests, in KiB.
const MEMORY_LIMIT: u64 = 512 << 10;
/// How much memory is resident ten seconds after an attack, in KiB.
const AT_REST: u64 = 96 << 10;
const ATTACKER: &str = "mallory";

/// One that is sent again and again: a word, the list that it is posted to, and the object.
type Costly = (&'static str, &'static str, String);

/// Lets clients of a plain user send costly objects while Jobs without a deadline are created, small ones and,
/// where `padded`, ones that are padded to look large, by the same user.
fn attacked(place: &Place<'_>, objects: &[Costly], clients: usize, padded: bool) {
    let seconds =
        std::env::var("JOBGATE_ATTACK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let setup = Setup {
        failure_policy: "Ignore",
        timeout: 3,
        claims: "off",
        patient: false,
        ..Setup::only(&place.cluster.unique("attacked"), &place.namespace)
    };
    let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
    allow(place, ATTACKER);
    let api = Api::admin(place.cluster);
    let opened = failed_open(place, &setup.name);
    let until = Instant::now() + Duration::from_secs(seconds);

    let answers: Arc<Mutex<BTreeMap<(&'static str, u16), usize>>> = Arc::default();
    let count = |answers: &Mutex<BTreeMap<_, usize>>, key| {
        *answers.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
    };
    let attackers = objects.iter().cycle().take(clients).map(|(what, list, object)| {
        let (client, answers) = (api.client.clone(), Arc::clone(&answers));
        let path = format!("{}?dryRun=All", list.replace("{namespace}", &place.namespace));
        let (what, object) = (*what, object.clone());
        api.spawn(async move {
            while Instant::now() < until {
                let status = post(&client, &path, ATTACKER, &object).await;
                count(&answers, (what, status));
                sleep(Duration::from_millis(20)).await;
            }
        })
    });
    let attackers: Vec<_> = attackers.collect();
    let path = format!("/apis/batch/v1/namespaces/{}/jobs", place.namespace);
    let (client, refused) = (api.client.clone(), Arc::clone(&answers));
    let author = api.spawn(async move {
        let mut ticks = interval(Duration::from_secs(1) / ENDLESS_PER_SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut flying = tokio::task::JoinSet::new();
        for serial in 0.. {
            ticks.tick().await;
            if Instant::now() >= until {
                break;
            }
            let (client, refused, path) = (client.clone(), Arc::clone(&refused), path.clone());
            let mut object = endless(&format!("endless-{serial}"));
            if padded && serial % 2 == 1 {
                object["metadata"]["annotations"] = json!({"example.com/notes": "x".repeat(70_000)});
            }
            let object = object.to_string();
            flying.spawn(async move {
                let status = post(&client, &path, ATTACKER, &object).await;
                count(&refused, ("endless", status));
            });
        }
        flying.join_all().await;
    });
    api.wait(async {
        for attacker in attackers {
            attacker.await.expect("an attacker must not panic");
        }
        author.await.expect("the author must not panic");
    });

    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let peak = gate.memory("VmHWM");
    println!(
        "{seconds} s, {clients} clients: {answers:?}; faults {}; {} MiB at most",
        gate.count("jobgate_faults_total", ""),
        peak >> 10
    );
    assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 10);
    let rested = eventually(Duration::from_secs(10), || match gate.memory("VmRSS") {
        resident if resident < AT_REST => Ok(()),
        resident => Err(format!("{} MiB", resident >> 10)),
    });
    assert!(rested.is_ok(), "memory does not come back: {rested:?}");
    let stored = place.kubectl(&["get", "jobs", "-o", "name"]).ok().stdout;
    assert_eq!(stored, "", "no Job without a deadline gets in\n{}", gate.log());
    let endless: BTreeMap<_, _> = answers.iter().filter(|((what, _), _)| *what == "endless").collect();
    assert!(endless.keys().all(|(_, status)| *status == 403), "{endless:?}");
    assert!(
        endless.values().copied().sum::<usize>() >= usize::try_from(seconds).expect("few"),
        "too few to say anything: {endless:?}"
    );
    // A dry run stores nothing: many of the attackers' are shed for what others ask, and all that is to be
    // stored was denied above.
    let dry_runs: usize =
        answers.iter().filter(|((what, _), _)| *what != "endless").map(|(_, count)| count).sum();
    let went_on = failed_open(place, &setup.name) - opened;
    #[allow(clippy::cast_precision_loss, reason = "some dozens")]
    let most = if padded { 2.0 * dry_runs as f64 } else { 0.0 };
    assert!(
        went_on < most + 0.5,
        "the API server has gone on {went_on} times without an answer, for {dry_runs} dry runs"
    );
    // A build without optimization may begin with a dry run that has waited, and not end in time.
    assert!(
        padded || gate.count("jobgate_faults_total", "cause=\"deadline\"") < 0.5,
        "every object must be judged in time\n{}",
        gate.log()
    );
    unregister(place.cluster, &setup.name);
}

/// Returns what costs the server most of what the API server accepts as a dry run from anybody who may create
/// jobs: scripts of nothing but commands, and replica types with a finding each.
fn dry_runs() -> Vec<Costly> {
    // A build without optimization takes ten times as long.
    let bytes = if cfg!(debug_assertions) { 120_000 } else { 1_200_000 };
    let jobs = "/apis/batch/v1/namespaces/{namespace}/jobs";
    let script = |part: &str| {
        let text = part.repeat(bytes / part.len()) + "tee x";
        let container = json!({"name": "c", "image": "i", "command": ["bash", "-c", text]});
        over(job("x", json!({})), json!({"spec": {"template": {"spec": {"containers": [container]}}}}))
            .to_string()
    };
    let ignored = json!({"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]}}});
    let replicas: Map = (0..bytes / 110).map(|nth| (format!("r{nth}"), ignored.clone())).collect();
    let torch = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}, "spec": {"pytorchReplicaSpecs": replicas}});
    vec![
        ("pipes", jobs, script("a|")),
        ("commands", jobs, script("a;")),
        ("either", jobs, script("a||true;")),
        ("replicas", "/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs", torch.to_string()),
    ]
}

/// Returns the objects, each with a word for it and the list that it is posted to.
fn objects() -> Vec<Costly> {
    let jobs = "/apis/batch/v1/namespaces/{namespace}/jobs";
    let py_torch_jobs = "/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs";
    let py_torch_job = |replicas: Map| {
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}, "spec": {"pytorchReplicaSpecs": replicas}})
            .to_string()
    };
    // A fill for each taint in each replica type.
    let limits: Map = TAINTS.iter().map(|(resource, _)| (resource.replace('*', "1g"), 1.into())).collect();
    let pod = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}], "tolerations": [{"key": "x", "operator": "Exists"}]});
    let fills = (0..16).map(|nth| (format!("r{nth}"), json!({"template": {"spec": pod}}))).collect();
    // As many as a build without optimization judges in time: it takes twice as long.
    let ignored = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let policies = (0..10_000).map(|nth| (format!("r{nth}"), ignored.clone())).collect();
    let annotated = |names: String| {
        over(job("x", json!({})), json!({"metadata": {"annotations": {"jobgate.dev/ignore": names}}}))
            .to_string()
    };
    let distinct = (0..400_000).map(|nth| format!("{nth:x}")).collect::<Vec<_>>().join(",");
    let tolerations: Vec<Value> =
        (0..40_000).map(|nth| json!({"key": format!("k{nth}"), "operator": "Exists"})).collect();
    let tolerating = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}], "tolerations": tolerations,
    }}}});
    vec![
        ("fills", py_torch_jobs, py_torch_job(fills)),
        ("policies", py_torch_jobs, py_torch_job(policies)),
        ("distinct names", jobs, annotated(distinct)),
        ("same names", jobs, annotated("deadlin,".repeat(340_000))),
        ("tolerations", jobs, over(job("x", json!({})), tolerating).to_string()),
    ]
}

/// Posts as a user; returns the status, or 0 where no answer came.
async fn post(client: &Client, path: &str, user: &str, object: &str) -> u16 {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("content-type", "application/json")
        .header("impersonate-user", user);
    let request = request.body(Body::from(object.as_bytes().to_vec())).expect("a request");
    let Ok(response) = client.send(request).await else { return 0 };
    let status = response.status().as_u16();
    if response.into_body().collect().await.is_err() { 0 } else { status }
}

/// Lets a user create workloads in the namespace, and nothing else.
fn allow(place: &Place<'_>, user: &str) {
    let rules = json!([
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
        {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["create"]},
    ]);
    let api = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": {"name": "author"}, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": "author"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "author"}, "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    });
    place.apply(&role).ok();
    place.apply(&binding).ok();
}
