//! TrainJobs, judged with the runtimes that the cluster has.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::gate::{Gate, Setup, unregister};
use crate::manifests::{claim, mounting, over, runtime, train_job};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("runtime_of_all_namespaces_is_judged_with_its_job", of_all).needs(Needs::CustomResources),
    Scenario::new("runtime_of_the_namespace_is_judged_with_its_job", of_namespace)
        .needs(Needs::CustomResources),
    Scenario::new("runtime_is_read_live_or_not_at_all", live_or_off).needs(Needs::CustomResources).ungated(),
    Scenario::new("runtime_of_the_cluster_is_judged_in_a_dry_run", in_a_dry_run)
        .needs(Needs::CustomResources),
    Scenario::new("runtimes_that_are_not_served_change_nothing", unserved).ungated(),
];

const RULE: &str = "checkpoint-volume-access";

/// Waits for an answer of the webhook: it learns of a new runtime by a watch.
#[track_caller]
fn denied_soon(place: &Place<'_>, job: &Value, parts: &[&str]) {
    let denied = || {
        let output = place.dry_run(job);
        if output.is_denied(parts) { Ok(()) } else { Err(output.to_string()) }
    };
    eventually(Duration::from_secs(20), denied).unwrap_or_else(|e| panic!("{e}"));
}

/// Creates a runtime of all namespaces, under a name of its own, and returns the name.
fn shared_runtime(place: &Place<'_>) -> String {
    let name = place.cluster.unique("runtime");
    place.create(&runtime("ClusterTrainingRuntime", &name, "checkpoints")).ok();
    name
}

fn of_all(place: &Place<'_>) {
    let name = shared_runtime(place);
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    let job = |name: &str, runtime: &str, nodes| train_job(name, "ClusterTrainingRuntime", runtime, nodes);
    let parts = [RULE, "spec.runtimeRef.name", "`checkpoints`", "up to 4 pods"];
    denied_soon(place, &job("a", &name, 4), &parts);
    place.create(&job("a", &name, 4)).denied(&parts);
    assert!(!place.is_stored("trainjob/a"));
    // One node is no clash, and what nobody knows is no reason to deny.
    place.create(&job("one", &name, 1)).quiet();
    place.create(&job("unknown", "nothing-of-this-name", 4)).quiet();
    // A patch of the job counts.
    place.create(&claim("shared", "ReadWriteMany")).ok();
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "shared"}});
    let patched =
        json!({"name": "node", "template": {"spec": {"template": {"spec": {"volumes": [volume]}}}}});
    let patch = json!({"manager": "example.com/team", "trainingRuntimeSpec": {
        "template": {"spec": {"replicatedJobs": [patched]}},
    }});
    place.create(&over(job("patched", &name, 4), json!({"spec": {"runtimePatches": [patch]}}))).quiet();
}

fn of_namespace(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    let beside = place.beside();
    beside.create(&runtime("TrainingRuntime", "own", "checkpoints")).ok();
    let job = train_job("a", "TrainingRuntime", "own", 4);
    place.dry_run(&job).ok();
    place.create(&runtime("TrainingRuntime", "own", "checkpoints")).ok();
    denied_soon(place, &job, &[RULE, "spec.runtimeRef.name"]);
    let other = json!({"spec": {"mlPolicy": {"numNodes": 4}}});
    place.create(&over(runtime("TrainingRuntime", "wide", "checkpoints"), other)).ok();
    let mut job = train_job("b", "TrainingRuntime", "wide", 1);
    drop(job["spec"].as_object_mut().expect("a spec").remove("trainer"));
    denied_soon(place, &job, &[RULE, "up to 4 pods"]);
}

fn live_or_off(place: &Place<'_>) {
    let name = shared_runtime(place);
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    let job = train_job("a", "ClusterTrainingRuntime", &name, 4);
    for (claims, denies) in [("live", true), ("off", false)] {
        let mut setup = Setup::only(&place.cluster.unique("own"), &place.namespace);
        setup.claims = claims;
        let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
        let output = place.dry_run(&job);
        if denies {
            output.denied(&[RULE, "spec.runtimeRef.name"]);
        } else {
            output.quiet();
        }
        unregister(place.cluster, &setup.name);
        drop(gate);
    }
}

fn in_a_dry_run(place: &Place<'_>) {
    let name = shared_runtime(place);
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    let verdict = |job: &Value| {
        let kubeconfig = place.cluster.kubeconfig_of("admin");
        let mut child = Command::new(env!("CARGO_BIN_EXE_jobgate"))
            .args(["dry-run", "-n", &place.namespace, "--cluster", "--format", "json", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start jobgate");
        child.stdin.take().expect("its input").write_all(job.to_string().as_bytes()).expect("write");
        let output = child.wait_with_output().expect("wait for jobgate");
        serde_json::from_slice::<Value>(&output.stdout).expect("a report")
    };
    let denied = verdict(&train_job("a", "ClusterTrainingRuntime", &name, 4));
    assert_eq!(denied["verdicts"][0]["verdict"], "denied by jobgate", "{denied:#}");
    assert_eq!(denied["summary"]["unjudged"], 0, "{denied:#}");
    let allowed = verdict(&train_job("a", "ClusterTrainingRuntime", &name, 1));
    assert_eq!(allowed["verdicts"][0]["verdict"], "allowed", "{allowed:#}");
    let unknown = verdict(&train_job("a", "ClusterTrainingRuntime", "nothing-of-this-name", 4));
    assert_eq!(unknown["verdicts"][0]["verdict"], "allowed", "{unknown:#}");
    assert_eq!(unknown["unjudged"][0]["reason"], "runtime", "{unknown:#}");
}

/// A cluster without the definitions: Jobgate is ready, and judges claims as ever.
fn unserved(place: &Place<'_>) {
    let cluster = place.cluster.another(&[]).expect("start a cluster");
    let other = Place::new(&cluster, true);
    other.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    denied_soon(&other, &mounting("a", "checkpoints", 4), &[RULE, "`checkpoints`"]);
    let log = cluster.gate.as_ref().expect("a Jobgate").log();
    assert!(!log.contains("runtimes"), "{log}");
}
