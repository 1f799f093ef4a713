//! Jobgate is down, has company, or gets new orders.

use std::fs;
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::gate::{Gate, Setup, register, unregister};
use crate::manifests::{asking, endless, gpu_job, job, over, toleration};
use crate::mutator::Mutator;
use crate::process::{eventually, free_port, sum};
use crate::scenario::{Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("down_with_ignore_admits", down_with_ignore).ungated(),
    Scenario::new("down_with_fail_refuses", down_with_fail).ungated(),
    Scenario::new("killed_and_back", killed_and_back).ungated(),
    Scenario::new("production_timeouts_answer", production_timeouts).ungated(),
    Scenario::new("competing_mutator_after_us_is_seen_by_reinvocation", mutator_after),
    Scenario::new("competing_mutator_before_us", mutator_before),
    Scenario::new("competing_mutator_takes_our_values_back", mutator_takes_back),
    Scenario::new("policy_is_reloaded_and_a_broken_one_is_not", policy_reload).ungated(),
    Scenario::new("policy_exemption_holds", policy_exemption).ungated(),
    Scenario::new("policy_audit_denies_and_changes_nothing", policy_audit).ungated(),
    Scenario::new("policy_accelerators_denies_only_what_asks_for_one", policy_accelerators).ungated(),
    Scenario::new("match_policy_equivalent_is_accepted", match_policy),
    Scenario::new("metrics_count_reviews", metrics),
];

fn own(place: &Place<'_>) -> Setup {
    Setup::only(&place.cluster.unique("own"), &place.namespace)
}

fn start(place: &Place<'_>, setup: &Setup) -> Gate {
    Gate::start(place.cluster, setup).expect("start a Jobgate")
}

/// Returns how often the API server called the webhooks of a set-up in vain and went on, by its own count.
pub(crate) fn failed_open(place: &Place<'_>, name: &str) -> f64 {
    let metrics = place.cluster.admin.run(&["get", "--raw=/metrics"], "").ok().stdout;
    sum(&metrics, "apiserver_admission_webhook_fail_open_count", &format!(".{name}.jobgate.dev\""))
}

fn down_with_ignore(place: &Place<'_>) {
    let setup = Setup { failure_policy: "Ignore", timeout: 2, ..own(place) };
    register(place.cluster, &setup, free_port()).expect("register");
    eventually(Duration::from_secs(20), || {
        place.dry_run(&endless("a")).ok();
        if failed_open(place, &setup.name) > 0.0 { Ok(()) } else { Err("not called yet".to_owned()) }
    })
    .expect("the API server must have called in vain");
    place.create(&endless("a")).ok();
    let stored = place.stored("job/a");
    is(&stored, "/spec/podReplacementPolicy", json!("TerminatingOrFailed"));
    unregister(place.cluster, &setup.name);
}

fn down_with_fail(place: &Place<'_>) {
    let setup = Setup { timeout: 2, ..own(place) };
    register(place.cluster, &setup, free_port()).expect("register");
    let refused = || {
        let output = place.dry_run(&job("a", json!({})));
        if output.success { Err(output.to_string()) } else { Ok(output) }
    };
    let output = eventually(Duration::from_secs(20), refused).expect("the API server must reject");
    assert!(output.stderr.contains("failed calling webhook"), "{output}");
    unregister(place.cluster, &setup.name);
    let admitted = || {
        if place.dry_run(&job("a", json!({}))).success { Ok(()) } else { Err("still rejected".to_owned()) }
    };
    eventually(Duration::from_secs(20), admitted).expect("taking the registration back must help");
}

fn killed_and_back(place: &Place<'_>) {
    let setup = own(place);
    let gate = start(place, &setup);
    drop(gate);
    let output = place.create(&job("a", json!({})));
    assert!(!output.success && output.stderr.contains("failed calling webhook"), "{output}");
    unregister(place.cluster, &setup.name);
    let again = own(place);
    let _gate = start(place, &again);
    let admitted = || {
        if place.dry_run(&job("a", json!({}))).success { Ok(()) } else { Err("still rejected".to_owned()) }
    };
    eventually(Duration::from_secs(20), admitted).expect("the first registration must go");
    place.create(&job("a", json!({}))).quiet();
    is(&place.stored("job/a"), "/spec/podReplacementPolicy", json!("Failed"));
    unregister(place.cluster, &again.name);
}

/// As a cluster would register it: short timeouts, open on failure.
fn production_timeouts(place: &Place<'_>) {
    let setup = Setup { failure_policy: "Ignore", timeout: 2, ..own(place) };
    let _gate = start(place, &setup);
    // Whatever passes is one that the API server says it got no answer about in time: on a busy machine that
    // is right now and then.
    let mut names = (0..20).map(|i| format!("a{i}"));
    let mut judged = |holds: &dyn Fn(&str) -> Result<(), String>| {
        for name in &mut names {
            let before = failed_open(place, &setup.name);
            match holds(&name) {
                Ok(()) => return,
                Err(error) => assert!(failed_open(place, &setup.name) > before, "{error}"),
            }
        }
        panic!("the API server hardly ever gets an answer within {} s", setup.timeout);
    };
    for _ in 0..5 {
        judged(&|name| {
            place.create(&gpu_job(name, json!({}))).quiet();
            let stored = place.stored(&format!("job/{name}"));
            let filled =
                stored["spec"]["template"]["spec"]["tolerations"] == json!([toleration("nvidia.com/gpu")]);
            if filled { Ok(()) } else { Err(format!("{stored:#}")) }
        });
    }
    judged(&|name| {
        let output = place.create(&endless(name));
        if output.is_denied(&["deadline"]) { Ok(()) } else { Err(output.to_string()) }
    });
    unregister(place.cluster, &setup.name);
}

/// Waits until the API server has noticed the mutator. Namespaces and configurations reach it by watches.
fn called(place: &Place<'_>, mutator: &Mutator) {
    eventually(Duration::from_secs(20), || {
        place.dry_run(&job("probe", json!({}))).ok();
        if mutator.calls() > 0 { Ok(()) } else { Err("not called yet".to_owned()) }
    })
    .expect("the mutator must be called");
}

fn adds_a_gpu(object: &Value) -> Value {
    let limits = asking("nvidia.com/gpu")[0]["resources"].clone();
    let helper = json!({"name": "helper", "image": "registry.example.com/helper:1", "resources": limits});
    let has = object.pointer("/spec/template/spec/containers/1").is_some();
    if has {
        json!([])
    } else {
        json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": helper}])
    }
}

fn mutator_after(place: &Place<'_>) {
    let mutator =
        Mutator::start(place.cluster, &place.cluster.unique("zz-mutator"), &place.namespace, adds_a_gpu);
    called(place, &mutator);
    place.create(&job("a", json!({}))).quiet();
    let stored = place.stored("job/a");
    is(&stored, "/spec/template/spec/containers/1/name", json!("helper"));
    is(&stored, "/spec/template/spec/tolerations", json!([toleration("nvidia.com/gpu")]));
    is(&stored, "/spec/podReplacementPolicy", json!("Failed"));
}

fn mutator_before(place: &Place<'_>) {
    let mutator =
        Mutator::start(place.cluster, &place.cluster.unique("aa-mutator"), &place.namespace, adds_a_gpu);
    called(place, &mutator);
    place.create(&job("a", json!({}))).quiet();
    let stored = place.stored("job/a");
    is(&stored, "/spec/template/spec/tolerations", json!([toleration("nvidia.com/gpu")]));
    is(&stored, "/spec/ttlSecondsAfterFinished", json!(86400));
}

/// Two webhooks that disagree: nobody may loop, and the object is stored with one of the two values.
fn mutator_takes_back(place: &Place<'_>) {
    let takes_back = |_: &Value| {
        json!([
            {"op": "add", "path": "/spec/podReplacementPolicy", "value": "TerminatingOrFailed"},
            {"op": "add", "path": "/metadata/labels", "value": {"by": "mutator"}},
        ])
    };
    let mutator =
        Mutator::start(place.cluster, &place.cluster.unique("zz-mutator"), &place.namespace, takes_back);
    called(place, &mutator);
    place.create(&job("a", json!({}))).ok();
    let stored = place.stored("job/a");
    is(&stored, "/metadata/labels/by", json!("mutator"));
    is(&stored, "/spec/ttlSecondsAfterFinished", json!(86400));
    is(&stored, "/spec/podReplacementPolicy", json!("Failed"));
}

fn with_policy(place: &Place<'_>, text: &str) -> (Setup, std::path::PathBuf) {
    let path = place.cluster.dir.path().join(format!("{}.policy.yaml", place.namespace));
    fs::write(&path, text).expect("write a policy");
    (Setup { policy: Some(path.clone()), ..own(place) }, path)
}

const HEAD: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata:\n  name: e2e\nspec:\n";

fn policy_reload(place: &Place<'_>) {
    let (setup, path) = with_policy(place, &format!("{HEAD}  rules:\n    deadline: {{action: deny}}\n"));
    let _gate = start(place, &setup);
    place.dry_run(&endless("a")).denied(&["deadline"]);
    fs::write(&path, format!("{HEAD}  rules:\n    deadline: {{action: warn}}\n")).expect("write a policy");
    let admitted = || {
        let output = place.dry_run(&endless("a"));
        if output.success && output.stderr.contains("deadline") { Ok(()) } else { Err(output.to_string()) }
    };
    eventually(Duration::from_secs(45), admitted).expect("the new policy must be in force");
    fs::write(&path, "{{{").expect("write a policy");
    std::thread::sleep(Duration::from_secs(15));
    place.dry_run(&endless("a")).warns(&["deadline"]);
    fs::write(&path, format!("{HEAD}  rules:\n    deadline: {{action: deny}}\n")).expect("write a policy");
    let denied = || {
        let output = place.dry_run(&endless("a"));
        if output.success { Err(output.to_string()) } else { Ok(()) }
    };
    eventually(Duration::from_secs(45), denied).expect("a good policy after a broken one must be in force");
    unregister(place.cluster, &setup.name);
}

fn policy_exemption(place: &Place<'_>) {
    let exemption = "  exemptions:\n  - match: {names: [\"legacy-*\"]}\n    rules: [deadline]\n    reason: moves out next quarter\n";
    let (setup, _) =
        with_policy(place, &format!("{HEAD}  rules:\n    deadline: {{action: deny}}\n{exemption}"));
    let _gate = start(place, &setup);
    place.create(&endless("legacy-report")).ok();
    place.create(&endless("report")).denied(&["deadline"]);
    unregister(place.cluster, &setup.name);
}

fn built_in(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name);
    fs::read_to_string(path).expect("read a policy")
}

fn policy_audit(place: &Place<'_>) {
    let (setup, _) = with_policy(place, &built_in("audit.yaml"));
    let _gate = start(place, &setup);
    place
        .create(&over(gpu_job("a", json!({})), json!({"spec": {"activeDeadlineSeconds": null}})))
        .warns(&["deadline"]);
    let stored = place.stored("job/a");
    is(&stored, "/spec/podReplacementPolicy", json!("TerminatingOrFailed"));
    is(&stored, "/spec/ttlSecondsAfterFinished", Value::Null);
    is(&stored, "/spec/template/spec/tolerations", Value::Null);
    unregister(place.cluster, &setup.name);
}

fn policy_accelerators(place: &Place<'_>) {
    let (setup, _) = with_policy(place, &built_in("accelerators.yaml"));
    let _gate = start(place, &setup);
    place.create(&endless("a")).warns(&["deadline"]);
    place
        .create(&over(gpu_job("b", json!({})), json!({"spec": {"activeDeadlineSeconds": null}})))
        .denied(&["deadline"]);
    unregister(place.cluster, &setup.name);
}

/// `batch` has one version, so there is nothing to convert; the setting must do no harm.
fn match_policy(place: &Place<'_>) {
    let stored = place
        .cluster
        .admin
        .run(&["get", "mutatingwebhookconfiguration", "everywhere", "-o", "json"], "")
        .json();
    is(&stored, "/webhooks/0/matchPolicy", json!("Equivalent"));
    place.create(&job("a", json!({}))).quiet();
    place.create(&endless("b")).denied(&["deadline"]);
}

fn metrics(place: &Place<'_>) {
    place.create(&job("a", json!({}))).ok();
    let gate = place.cluster.gate.as_ref().expect("the cluster has a Jobgate");
    let text = gate.metrics().expect("read the metrics");
    assert!(text.contains("jobgate_") && text.contains("le="), "{text}");
}
