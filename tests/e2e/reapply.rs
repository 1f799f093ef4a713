//! Whoever applies a manifest again, unchanged, is not stopped by what Jobgate has filled in: whether it is
//! up, down, removed, follows another policy, or was asked to keep away. For each of these the same objects
//! are made under the default policy, and then applied again.

use std::fs;
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::gate::{Gate, Setup, judged, unregister};
use crate::manifests::{asking, cron_job, gpu_job, over, pytorch_job, toleration};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("reapply_with_jobgate_up", up).needs(Needs::CustomResources).ungated(),
    Scenario::new("reapply_with_jobgate_down", down).needs(Needs::CustomResources).ungated(),
    Scenario::new("reapply_with_jobgate_removed", removed).needs(Needs::CustomResources).ungated(),
    Scenario::new("reapply_with_another_policy", another_policy).needs(Needs::CustomResources).ungated(),
    Scenario::new("reapply_with_values_kept", kept).needs(Needs::CustomResources).ungated(),
    Scenario::new("reapply_of_what_an_earlier_version_filled_in", filled_by_an_earlier_version)
        .needs(Needs::CustomResources)
        .ungated(),
];

/// How people write an object again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ClientSide,
    ServerSide,
    Replace,
}

const WAYS: [Way; 3] = [Way::ClientSide, Way::ServerSide, Way::Replace];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::ClientSide => "client",
            Self::ServerSide => "server",
            Self::Replace => "replace",
        }
    }

    fn first(self) -> &'static [&'static str] {
        match self {
            Self::Replace => &["create"],
            again => again.again(),
        }
    }

    fn again(self) -> &'static [&'static str] {
        match self {
            Self::ClientSide => &["apply"],
            Self::ServerSide => &["apply", "--server-side"],
            Self::Replace => &["replace"],
        }
    }
}

fn own() -> Value {
    json!({"key": "team", "operator": "Equal", "value": "fraud", "effect": "NoSchedule"})
}

/// The author's own list of tolerations, an empty one, and none.
fn lists() -> [(&'static str, Value); 3] {
    [("own", json!([own()])), ("empty", json!([])), ("none", Value::Null)]
}

/// A Job that nobody runs, so that its status is what a scenario makes it.
fn job(way: Way, name: &str, tolerations: &Value, suspend: bool) -> Value {
    let unmanaged = json!({"spec": {"managedBy": "e2e.jobgate.dev/nobody", "suspend": suspend, "template": {"spec": {"tolerations": tolerations}}}});
    let object = gpu_job(name, unmanaged);
    // Only a manifest with a selector can replace a Job as it is.
    let selected = json!({"spec": {"manualSelector": true, "selector": {"matchLabels": {"run": name}}, "template": {"metadata": {"labels": {"run": name}}}}});
    if way == Way::Replace { over(object, selected) } else { object }
}

fn gpus_for(container: &str) -> Value {
    let mut containers = asking("nvidia.com/gpu");
    containers[0]["name"] = container.into();
    containers
}

/// All the manifests that are written in one way: the three kinds with the three lists, and Jobs also
/// suspended and finished.
fn manifests(way: Way) -> Vec<Value> {
    let mut all = Vec::new();
    for (list, tolerations) in lists() {
        let name = |what: &str| format!("{what}-{list}-{}", way.name());
        all.push(job(way, &name("running"), &tolerations, false));
        all.push(job(way, &name("suspended"), &tolerations, true));
        all.push(job(way, &name("finished"), &tolerations, false));
        let pod =
            json!({"template": {"spec": {"containers": gpus_for("trainer"), "tolerations": tolerations}}});
        all.push(cron_job(&name("cron"), json!({"spec": {"suspend": true, "jobTemplate": {"spec": pod}}})));
        let pod =
            json!({"template": {"spec": {"containers": gpus_for("pytorch"), "tolerations": tolerations}}});
        let replicas = json!({"pytorchReplicaSpecs": {"Master": pod, "Worker": pod}});
        all.push(pytorch_job(&name("pytorch"), json!({"spec": replicas})));
        all.push(pytorch_job(
            &name("queued"),
            over(json!({"spec": {"runPolicy": {"suspend": true}}}), json!({"spec": replicas})),
        ));
    }
    all
}

/// Returns where an object is: `job/name`.
fn what(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).expect("a text");
    format!("{}/{}", text("/kind").to_lowercase(), text("/metadata/name"))
}

fn write(place: &Place<'_>, verb: &[&str], objects: &[Value]) -> Result<(), String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let output = place.with_input(&[verb, &["-f", "-"]].concat(), &list.to_string());
    if output.success { Ok(()) } else { Err(output.to_string()) }
}

/// Writes all objects for the first time, and ends those that are to be finished.
fn make(place: &Place<'_>) {
    for way in WAYS {
        write(place, way.first(), &manifests(way)).expect("the objects are admitted");
        for (list, _) in lists() {
            let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2030-01-01T01:00:00Z"});
            let name = format!("job/finished-{list}-{}", way.name());
            let finish = |conditions: &[Value]| {
                let status = json!({"status": {
                    "startTime": "2030-01-01T00:00:00Z", "completionTime": "2030-01-01T01:00:00Z", "succeeded": 1,
                    "conditions": conditions,
                }});
                let status = status.to_string();
                place.kubectl(&["patch", &name, "--subresource=status", "--type=merge", "-p", &status])
            };
            // Since 1.31 a Job has the one before the other; before, it has the other only.
            let (first, last) = (condition("SuccessCriteriaMet"), condition("Complete"));
            if !finish(&[first, last.clone()]).success {
                finish(&[last]).ok();
            }
        }
    }
}

/// Writes everything again, unchanged, then with another label: nobody may be rejected, and what stays filled
/// in stays.
fn write_again(place: &Place<'_>, change: &Value) {
    let labelled = over(change.clone(), json!({"metadata": {"labels": {"run": "2"}}}));
    let mut refusals = Vec::new();
    for way in WAYS {
        let objects = manifests(way);
        for change in [change, change, &labelled] {
            let again: Vec<Value> =
                objects.iter().map(|object| over(object.clone(), change.clone())).collect();
            refusals.extend(write(place, way.again(), &again).err());
        }
    }
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
    for object in WAYS.into_iter().flat_map(manifests) {
        assert_eq!(place.stored(&what(&object))["metadata"]["labels"]["run"], "2", "{}", what(&object));
    }
}

/// Returns the tolerations of the stored object's first pod template.
fn stored_tolerations(place: &Place<'_>, name: &str) -> Value {
    let stored = place.stored(name);
    let templates =
        ["/spec/template", "/spec/jobTemplate/spec/template", "/spec/pytorchReplicaSpecs/Worker/template"];
    let template = templates.into_iter().find_map(|place| stored.pointer(place)).expect("a template");
    template.pointer("/spec/tolerations").cloned().unwrap_or_default()
}

/// What is filled in at first: lists that will not be applied again, and what has none.
fn expect_fills(place: &Place<'_>) {
    let ours = || toleration("nvidia.com/gpu");
    for kind in ["job/running", "job/suspended", "cronjob/cron", "pytorchjob/pytorch"] {
        for way in ["client", "server"] {
            let of = |list: &str| stored_tolerations(place, &format!("{kind}-{list}-{way}"));
            assert_eq!(of("none"), json!([ours()]), "{kind} {way}");
            assert_eq!(of("own"), json!([own()]), "{kind} {way}");
            assert!(matches!(of("empty").as_array().map(Vec::as_slice), None | Some([])), "{kind} {way}");
        }
    }
    assert_eq!(stored_tolerations(place, "cronjob/cron-own-replace"), json!([own(), ours()]));
    assert_eq!(
        stored_tolerations(place, "job/running-none-replace"),
        Value::Null,
        "its manifest can replace it"
    );
}

fn setup(place: &Place<'_>) -> Setup {
    // As in production: what is down is in nobody's way.
    Setup { failure_policy: "Ignore", ..Setup::only(&place.cluster.unique("reapply"), &place.namespace) }
}

fn start(place: &Place<'_>, setup: &Setup) -> Gate {
    Gate::start(place.cluster, setup).expect("start a Jobgate")
}

fn up(place: &Place<'_>) {
    let setup = setup(place);
    let _gate = start(place, &setup);
    make(place);
    expect_fills(place);
    write_again(place, &json!({}));
    expect_fills(place);
    unregister(place.cluster, &setup.name);
}

fn down(place: &Place<'_>) {
    let setup = setup(place);
    let gate = start(place, &setup);
    make(place);
    drop(gate);
    write_again(place, &json!({}));
    unregister(place.cluster, &setup.name);
}

/// Takes Jobgate away, and waits until the API server has noticed.
fn remove(place: &Place<'_>, setup: &Setup, gate: Gate) {
    unregister(place.cluster, &setup.name);
    let gone = || {
        if judged(place.cluster, &place.namespace).is_err() {
            Ok(())
        } else {
            Err("it is still asked".to_owned())
        }
    };
    eventually(Duration::from_secs(40), gone).expect("the registration goes");
    drop(gate);
}

fn removed(place: &Place<'_>) {
    let setup = setup(place);
    let gate = start(place, &setup);
    make(place);
    remove(place, &setup, gate);
    write_again(place, &json!({}));
}

fn another_policy(place: &Place<'_>) {
    let first = setup(place);
    let gate = start(place, &first);
    make(place);
    remove(place, &first, gate);
    let file = place.cluster.dir.path().join(format!("{}.yaml", first.name));
    let rules = "{gpu-toleration: {params: {taints: {nvidia.com/gpu: accelerator}}}, ttl-after-finished: {action: warn}, pod-replacement-policy: {action: ignore}}";
    fs::write(&file, format!("{{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {{name: other}}, spec: {{rules: {rules}}}}}"))
        .expect("write a policy");
    let second = Setup { policy: Some(file), ..setup(place) };
    let _gate = start(place, &second);
    write_again(place, &json!({}));
    unregister(place.cluster, &second.name);
}

fn kept(place: &Place<'_>) {
    let setup = setup(place);
    let _gate = start(place, &setup);
    make(place);
    let keep = json!({"metadata": {"annotations": {"jobgate.dev/keep": "gpu-toleration,pod-replacement-policy,ttl-after-finished"}}});
    write_again(place, &keep);
    unregister(place.cluster, &setup.name);
}

/// Version 0.1 filled lists of the author's, too. Such a Job is there, and its manifest is applied again,
/// under a policy that would not fill it.
fn filled_by_an_earlier_version(place: &Place<'_>) {
    let manifest =
        |name: &str| gpu_job(name, json!({"spec": {"template": {"spec": {"tolerations": [own()]}}}}));
    let both = json!([own(), toleration("nvidia.com/gpu")]);
    for name in ["client", "kept"] {
        // kubectl keeps what it applied in an annotation; `kubectl create` would write what it creates.
        let annotation = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest(name).to_string()}}});
        let filled = json!({"spec": {"template": {"spec": {"tolerations": both}}}});
        place.create(&over(manifest(name), filled)).ok();
        place.patch(&format!("job/{name}"), "merge", &annotation).ok();
    }
    let file = place.cluster.dir.path().join(format!("{}.yaml", place.namespace));
    fs::write(&file, "{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {name: quiet}, spec: {rules: {gpu-toleration: {action: ignore}}}}")
        .expect("write a policy");
    let setup = Setup { policy: Some(file), ..setup(place) };
    let _gate = start(place, &setup);
    place
        .apply(&manifest("client"))
        .warns(&["jobgate restored what it had filled in: spec.template.spec.tolerations"]);
    let label =
        json!({"metadata": {"labels": {"run": "2"}, "annotations": {"jobgate.dev/keep": "gpu-toleration"}}});
    place.apply(&over(manifest("kept"), label)).ok();
    for name in ["job/client", "job/kept"] {
        assert_eq!(stored_tolerations(place, name), both, "{name}");
    }
    unregister(place.cluster, &setup.name);
}
