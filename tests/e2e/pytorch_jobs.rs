//! PyTorchJobs: a custom resource, which reaches the mutating webhook before anybody has checked its types.

use jobgate::text::value::{Value, json};

use crate::manifests::{asking, claim, mounts, over, pytorch_job, toleration};
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("pytorch_job_create_is_filled", create_is_filled).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_apply_in_both_flavours", apply).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_with_gpus_gets_tolerations", gpus).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_with_gpus_as_string_gets_tolerations", gpus_as_string)
        .needs(Needs::CustomResources),
    Scenario::new("pytorch_job_without_deadline_is_denied", without_deadline).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_without_run_policy_is_denied", without_run_policy)
        .needs(Needs::CustomResources),
    Scenario::new("pytorch_job_restart_always_is_denied", restart_always).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_restart_unset_is_admitted", restart_unset).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_restart_in_the_template_is_a_warning", restart_in_the_template)
        .needs(Needs::CustomResources),
    Scenario::new("pytorch_job_with_a_claim_of_one_node_is_denied", claim_of_one_node)
        .needs(Needs::CustomResources),
    Scenario::new("pytorch_job_with_a_shared_claim_is_admitted", shared_claim).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_label_edit_changes_nothing_else", label_edit)
        .needs(Needs::CustomResources)
        .ungated(),
    Scenario::new("pytorch_job_scale_up_through_the_scale_subresource", scale).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_finalizer_removal", finalizer_removal).needs(Needs::CustomResources).ungated(),
    Scenario::new("pytorch_job_with_wrong_types_is_never_a_fault", wrong_types).needs(Needs::CustomResources),
    Scenario::new("pytorch_job_of_helm_gets_no_ttl", helm).needs(Needs::CustomResources),
];

const TTL: &str = "/spec/runPolicy/ttlSecondsAfterFinished";

fn replicas(change: &Value) -> Value {
    json!({"spec": {"pytorchReplicaSpecs": {"Master": change, "Worker": change}}})
}

fn pods(change: &Value) -> Value {
    replicas(&json!({"template": {"spec": change}}))
}

fn asking_for(quantity: Value) -> Value {
    let mut containers = asking("nvidia.com/gpu");
    containers[0]["name"] = json!("pytorch");
    containers[0]["resources"]["limits"]["nvidia.com/gpu"] = quantity;
    pods(&json!({"containers": containers}))
}

fn mounting(claim: &str) -> Value {
    let mut pod = mounts(claim);
    pod["containers"][0]["name"] = json!("pytorch");
    pods(&pod)
}

fn create_is_filled(place: &Place<'_>) {
    place.create(&pytorch_job("a", json!({}))).quiet();
    let stored = place.stored("pytorchjob/a");
    is(&stored, TTL, json!(86400));
    is(&stored, "/spec/runPolicy/activeDeadlineSeconds", json!(3600));
    is(&stored, "/spec/podReplacementPolicy", Value::Null);
}

fn apply(place: &Place<'_>) {
    let client = pytorch_job("a", asking_for(json!(4)));
    let server = pytorch_job("b", asking_for(json!(4)));
    place.apply(&client).quiet();
    place.apply_server_side(&server).quiet();
    let before = [place.stored("pytorchjob/a"), place.stored("pytorchjob/b")];
    let label = json!({"metadata": {"labels": {"run": "2"}}});
    place.apply(&client).quiet();
    place.apply_server_side(&server).quiet();
    place.apply(&over(client, label.clone())).ok();
    place.apply_server_side(&over(server, label)).ok();
    assert_eq!(place.stored("pytorchjob/a")["spec"], before[0]["spec"]);
    assert_eq!(place.stored("pytorchjob/b")["spec"], before[1]["spec"]);
}

fn tolerated(place: &Place<'_>) {
    let stored = place.stored("pytorchjob/a");
    for replica in ["Master", "Worker"] {
        let pointer = format!("/spec/pytorchReplicaSpecs/{replica}/template/spec/tolerations");
        is(&stored, &pointer, json!([toleration("nvidia.com/gpu")]));
    }
}

fn gpus(place: &Place<'_>) {
    place.create(&pytorch_job("a", asking_for(json!(4)))).quiet();
    tolerated(place);
}

fn gpus_as_string(place: &Place<'_>) {
    place.create(&pytorch_job("a", asking_for(json!("4")))).quiet();
    tolerated(place);
}

fn without_deadline(place: &Place<'_>) {
    let endless = json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null, "backoffLimit": 3}}});
    place.create(&pytorch_job("a", endless)).denied(&["deadline: spec.runPolicy"]);
    assert!(!place.is_stored("pytorchjob/a"));
}

fn without_run_policy(place: &Place<'_>) {
    place.create(&pytorch_job("a", json!({"spec": {"runPolicy": null}}))).denied(&["deadline: spec"]);
}

fn restart_always(place: &Place<'_>) {
    place.create(&pytorch_job("a", replicas(&json!({"restartPolicy": "Always"})))).denied(&[
        "restart-policy: spec.pytorchReplicaSpecs[Master].restartPolicy",
        "restart-policy: spec.pytorchReplicaSpecs[Worker].restartPolicy",
    ]);
}

fn restart_unset(place: &Place<'_>) {
    place.create(&pytorch_job("a", replicas(&json!({"restartPolicy": null})))).quiet();
}

fn restart_in_the_template(place: &Place<'_>) {
    place.create(&pytorch_job("a", pods(&json!({"restartPolicy": "Never"})))).warns(&["restart-policy"]);
}

fn claim_of_one_node(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    place.create(&pytorch_job("a", mounting("checkpoints"))).denied(&[
        "checkpoint-volume-access",
        "checkpoints",
        "ReadWriteOnce",
    ]);
}

fn shared_claim(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteMany")).ok();
    place.create(&pytorch_job("a", mounting("checkpoints"))).quiet();
}

fn label_edit(place: &Place<'_>) {
    let endless = json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null, "backoffLimit": 3}}});
    place.create(&pytorch_job("a", over(asking_for(json!(4)), endless))).ok();
    place.gate();
    let before = place.stored("pytorchjob/a");
    place.kubectl(&["label", "pytorchjob/a", "run=2"]).ok();
    let after = place.stored("pytorchjob/a");
    assert_eq!(after["spec"], before["spec"]);
    is(&after, "/metadata/labels/run", json!("2"));
}

/// The scale subresource is not sent to the webhook; the next change of the object itself sees what came of
/// it, and only warns.
fn scale(place: &Place<'_>) {
    place.create(&pytorch_job("a", json!({}))).ok();
    place.kubectl(&["scale", "pytorchjob/a", "--replicas=5"]).quiet();
    is(&place.stored("pytorchjob/a"), "/spec/pytorchReplicaSpecs/Worker/replicas", json!(5));
    place.kubectl(&["label", "pytorchjob/a", "run=2"]).ok();
}

fn finalizer_removal(place: &Place<'_>) {
    let held = json!({"metadata": {"finalizers": ["e2e.jobgate.dev/hold"]}, "spec": {"runPolicy": null}});
    place.create(&pytorch_job("a", held)).ok();
    place.gate();
    place.kubectl(&["delete", "pytorchjob/a", "--wait=false"]).quiet();
    place.patch("pytorchjob/a", "merge", &json!({"metadata": {"finalizers": null}})).quiet();
    assert!(!place.is_stored("pytorchjob/a"));
}

/// The API server says what is wrong with these, after the mutating webhook and in its own words; ours must
/// not get in between with a patch that does not fit or an answer that cannot be read.
fn wrong_types(place: &Place<'_>) {
    let changes = [
        json!({"spec": {"runPolicy": {"activeDeadlineSeconds": "3600"}}}),
        json!({"spec": {"runPolicy": {"ttlSecondsAfterFinished": {"a": 1}}}}),
        json!({"spec": {"runPolicy": "soon"}}),
        json!({"spec": {"runPolicy": [1, 2]}}),
        json!({"spec": {"pytorchReplicaSpecs": []}}),
        json!({"spec": {"pytorchReplicaSpecs": {"Worker": 3}}}),
        json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": "two"}}}}),
        json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"restartPolicy": ["Always"]}}}}),
        json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": "x"}}}}),
        json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": 7}}}}}),
        json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": {"a": "b"}}}}}}}),
        over(asking_for(json!(4)), pods(&json!({"tolerations": {"key": "nvidia.com/gpu"}}))),
        over(asking_for(json!(4)), pods(&json!({"tolerations": "all"}))),
        over(asking_for(json!(4)), pods(&json!({"tolerations": [7]}))),
        asking_for(json!({"a": 1})),
        asking_for(json!([1])),
        asking_for(json!(true)),
        mounting_wrongly(),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let object = pytorch_job(&format!("a{i}"), change.clone());
        let output = place.create(&object);
        assert!(!output.success, "{change}: {output}");
        for fault in ["failed calling webhook", "InternalError", "Internal error", "patch", "panic"] {
            assert!(!output.stderr.contains(fault), "{change}: {output}");
        }
    }
}

fn mounting_wrongly() -> Value {
    pods(&json!({"volumes": [{"name": 3, "persistentVolumeClaim": {"claimName": ["a"]}}]}))
}

fn helm(place: &Place<'_>) {
    let tracked = json!({
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "train", "meta.helm.sh/release-namespace": "team"},
    });
    place.create(&pytorch_job("a", json!({"metadata": tracked}))).warns(&["ttl"]);
    is(&place.stored("pytorchjob/a"), TTL, Value::Null);
}
