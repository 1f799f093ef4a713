//! `jobgate audit` over what a namespace holds.

use std::process::{Command, Output};

use jobgate::text::value::{Value, json};

use crate::manifests::{
    claim, cron_job, endless, gpu_job, job, mounting, mounts, over, pytorch_job, toleration,
};
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("audit_says_what_would_be_denied_and_patched", says_what).ungated(),
    Scenario::new("audit_finds_what_was_scaled_past_the_webhook", scaled).needs(Needs::CustomResources),
    Scenario::new("audit_of_pytorch_jobs", pytorch_jobs).needs(Needs::CustomResources).ungated(),
    Scenario::new("audit_judges_the_cron_job_and_not_its_runs", runs).ungated(),
    Scenario::new("audit_lists_what_was_filled_in", filled_in),
    Scenario::new("audit_without_permission_says_so", without_permission).ungated(),
];

fn audit(place: &Place<'_>, user: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command
        .args(["audit", "--format", "json", "-n", &place.namespace, "--kubeconfig"])
        .arg(place.cluster.kubeconfig_of(user));
    command.output().expect("run jobgate audit")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn says_what(place: &Place<'_>) {
    place.create(&endless("endless")).ok();
    place.create(&job("good", json!({}))).ok();
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    place.create(&mounting("shared", "checkpoints", 4)).ok();
    let output = audit(place, "admin");
    assert_eq!(output.status.code(), Some(1));
    let report = report(&output);
    is(
        &report,
        "/impact/total",
        json!({"objects": 3, "denied": 2, "patched": 1, "warned": 0, "unchanged": 0}),
    );
    // What the audit foretells is what the webhook then does.
    place.gate();
    place.dry_run(&endless("again")).denied(&["deadline"]);
    place.dry_run(&mounting("again", "checkpoints", 4)).denied(&["checkpoint-volume-access"]);
    place.dry_run(&job("again", json!({}))).ok();
}

fn pytorch_jobs(place: &Place<'_>) {
    place
        .create(&pytorch_job(
            "train",
            json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null, "ttlSecondsAfterFinished": 60}}}),
        ))
        .ok();
    let report = report(&audit(place, "admin"));
    is(&report, "/impact/total/denied", json!(1));
    is(&report, "/findings/0/object/kind", json!("PyTorchJob"));
}

/// One worker with a claim that one node can mount is fine, and eight are not; `kubectl scale` asks nobody.
fn scaled(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    let worker = |replicas: u32| {
        json!({"spec": {"pytorchReplicaSpecs": {"Master": null, "Worker": {
            "replicas": replicas, "template": {"spec": mounts("checkpoints")},
        }}}})
    };
    place.create(&pytorch_job("scaled", worker(1))).ok();
    place.create(&pytorch_job("written", worker(1))).ok();
    let told = |report: &Value| -> Vec<String> {
        let findings = report["findings"].as_array().expect("findings").iter();
        let related = findings.flat_map(|finding| finding["related"].as_array().into_iter().flatten());
        let texts = related.filter_map(|related| related["message"].as_str());
        texts.filter(|text| text.contains("scale")).map(str::to_owned).collect()
    };
    assert_eq!(told(&report(&audit(place, "admin"))), [""; 0]);
    let rule = "checkpoint-volume-access";
    place.patch("pytorchjob/scaled", "merge", &worker(8)).denied(&[rule]);
    place.kubectl(&["scale", "pytorchjob/scaled", "--replicas=8"]).quiet();
    is(&place.stored("pytorchjob/scaled"), "/spec/pytorchReplicaSpecs/Worker/replicas", json!(8));
    let report = report(&audit(place, "admin"));
    is(&report, "/impact/total/denied", json!(1));
    is(&report, "/findings/0/object/name", json!("scaled"));
    assert_eq!(
        told(&report),
        ["set to 8 by `kubectl` through the subresource `scale`, which is not judged"],
        "{report:#}"
    );
}

/// A run as the CronJob controller makes it, owned and controlled by the CronJob. Waiting for the
/// controller's own would take a minute.
fn runs(place: &Place<'_>) {
    let often = cron_job(
        "often",
        json!({"spec": {"suspend": true, "jobTemplate": {"spec": {"activeDeadlineSeconds": null}}}}),
    );
    place.create(&often).ok();
    let uid = place.stored("cronjob/often")["metadata"]["uid"].clone();
    let owner =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "often", "uid": uid, "controller": true});
    let run = over(endless("often-29393280"), json!({"metadata": {"ownerReferences": [owner]}}));
    place.create(&run).ok();
    let report = report(&audit(place, "admin"));
    is(&report, "/impact/leftOut/children", json!(1));
    is(
        &report,
        "/impact/total",
        json!({"objects": 1, "denied": 1, "patched": 0, "warned": 0, "unchanged": 0}),
    );
}

fn filled_in(place: &Place<'_>) {
    place.apply(&gpu_job("client", json!({}))).ok();
    place.apply_server_side(&gpu_job("server", json!({}))).ok();
    place.create(&gpu_job("created", json!({}))).ok();
    let complete = json!({"spec": {"ttlSecondsAfterFinished": 60, "podReplacementPolicy": "Failed", "template": {"spec": {"tolerations": [toleration("nvidia.com/gpu")]}}}});
    place.apply(&gpu_job("complete", complete.clone())).ok();
    place.apply_server_side(&gpu_job("complete-too", complete)).ok();
    // As an earlier version left it: more tolerations than were applied.
    let manifest = gpu_job(
        "earlier",
        json!({"spec": {"template": {"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}}}}),
    );
    let annotation = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest.to_string()}}});
    // `kubectl create` would write the annotation itself.
    let both = json!([{"key": "team", "operator": "Exists"}, toleration("nvidia.com/gpu")]);
    place.create(&over(manifest, json!({"spec": {"template": {"spec": {"tolerations": both}}}}))).ok();
    place.patch("job/earlier", "merge", &annotation).ok();

    let report = report(&audit(place, "admin"));
    let field =
        |path: &str, value: Value, reapply: &str| json!({"path": path, "value": value, "reapply": reapply});
    let fields = |tolerations: &str| {
        json!([
            field("spec.ttlSecondsAfterFinished", json!(86400), "kept"),
            field("spec.podReplacementPolicy", json!("Failed"), "kept"),
            field("spec.template.spec.tolerations", json!([toleration("nvidia.com/gpu")]), tolerations),
        ])
    };
    let object = |name: &str, tolerations: &str| json!({"object": format!("job/{}/{name}", place.namespace), "fields": fields(tolerations)});
    is(
        &report,
        "/impact/filled",
        json!([object("client", "kept"), object("earlier", "rejected"), object("server", "kept")]),
    );
}

fn without_permission(place: &Place<'_>) {
    let output = audit(place, "nobody");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot list jobs.batch") && said.contains("claims are unknown"), "{said}");
}
