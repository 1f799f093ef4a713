//! Jobs as people create them.

use jobgate::text::value::{Value, json};

use crate::manifests::{asking, cron_job, endless, gpu_job, job, over, toleration};
use crate::scenario::{Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("job_create_is_filled", create_is_filled),
    Scenario::new("job_client_side_apply_is_filled", client_side_apply_is_filled),
    Scenario::new("job_server_side_apply_is_filled", server_side_apply_is_filled),
    Scenario::new("job_create_cannot_tell_explicit_terminating", create_cannot_tell_explicit_terminating),
    Scenario::new(
        "job_client_side_apply_keeps_explicit_terminating",
        client_side_apply_keeps_explicit_terminating,
    ),
    Scenario::new(
        "job_server_side_apply_keeps_explicit_terminating",
        server_side_apply_keeps_explicit_terminating,
    ),
    Scenario::new("job_explicit_failed_stays", explicit_failed_stays),
    Scenario::new("job_keep_annotation_keeps", keep_annotation_keeps),
    Scenario::new("job_explicit_ttl_stays", explicit_ttl_stays),
    Scenario::new("job_of_argo_cd_gets_no_ttl", argo_cd_gets_no_ttl),
    Scenario::new("job_of_helm_gets_no_ttl", helm_gets_no_ttl),
    Scenario::new("job_of_flux_gets_no_ttl", flux_gets_no_ttl),
    Scenario::new("job_with_gpu_gets_toleration", gpu_gets_toleration),
    Scenario::new("job_with_gpu_tolerated_is_left_alone", tolerated_gpu_is_left_alone),
    Scenario::new("job_with_gpu_tolerating_everything_is_left_alone", tolerating_everything_is_left_alone),
    Scenario::new("job_with_other_tolerations_keeps_them", other_tolerations_are_kept),
    Scenario::new("job_with_mig_slice_gets_gpu_toleration", mig_slice_gets_gpu_toleration),
    Scenario::new("job_with_amd_gpu_gets_its_toleration", amd_gpu_gets_its_toleration),
    Scenario::new("job_with_gpu_in_an_init_container_gets_toleration", gpu_in_an_init_container),
    Scenario::new("job_with_rdma_card_is_left_alone", rdma_card_is_left_alone),
    Scenario::new("job_with_zero_gpus_is_left_alone", zero_gpus_are_left_alone),
    Scenario::new("job_with_sidecar_is_admitted", sidecar_is_admitted),
    Scenario::new(
        "job_restart_always_is_denied_with_all_findings",
        restart_always_is_denied_with_all_findings,
    ),
    Scenario::new("job_restart_unset_is_denied", restart_unset_is_denied),
    Scenario::new("job_restart_on_failure_is_admitted", restart_on_failure_is_admitted),
    Scenario::new("job_without_deadline_is_denied", without_deadline_is_denied),
    Scenario::new("job_with_deadline_zero_is_denied", deadline_zero_is_denied),
    Scenario::new("job_with_deadline_of_the_pod_only_is_denied", deadline_of_the_pod_only_is_denied),
    Scenario::new("job_dry_run_shows_and_stores_nothing", dry_run_shows_and_stores_nothing),
    Scenario::new("job_dry_run_is_denied", dry_run_is_denied),
    Scenario::new("job_dry_run_of_client_side_apply", dry_run_of_apply),
    Scenario::new("job_generate_name", generate_name),
    Scenario::new("job_pod_failure_policy", pod_failure_policy),
    Scenario::new("job_backoff_limit_per_index", backoff_limit_per_index),
    Scenario::new("job_suspended_for_kueue", suspended_for_kueue),
    Scenario::new("job_ignore_annotation_lifts_no_denial", ignore_annotation_lifts_no_denial),
    Scenario::new("job_large_is_answered", large_is_answered),
    Scenario::new("job_by_a_trusted_controller_is_left_alone", trusted_controller_is_left_alone),
    Scenario::new("job_with_a_forged_owner_is_denied", forged_owner_is_denied),
    Scenario::new("job_with_unknown_fields_is_filled", unknown_fields),
    Scenario::new("job_with_wrong_types_is_refused_by_the_api_server", wrong_types),
    Scenario::new("job_list_of_two_denies_only_the_bad_one", list_of_two),
    Scenario::new("job_stored_is_what_a_second_create_would_store", idempotent),
];

const REPLACEMENT: &str = "/spec/podReplacementPolicy";
const TTL: &str = "/spec/ttlSecondsAfterFinished";
const TOLERATIONS: &str = "/spec/template/spec/tolerations";

fn terminating() -> Value {
    json!({"spec": {"podReplacementPolicy": "TerminatingOrFailed"}})
}

fn filled(place: &Place<'_>, name: &str) -> Value {
    let stored = place.stored(&format!("job/{name}"));
    is(&stored, REPLACEMENT, json!("Failed"));
    is(&stored, TTL, json!(86400));
    stored
}

fn create_is_filled(place: &Place<'_>) {
    place.create(&job("a", json!({}))).quiet();
    let stored = filled(place, "a");
    is(&stored, "/spec/activeDeadlineSeconds", json!(3600));
    is(&stored, TOLERATIONS, Value::Null);
}

fn client_side_apply_is_filled(place: &Place<'_>) {
    place.apply(&job("a", json!({}))).quiet();
    filled(place, "a");
}

fn server_side_apply_is_filled(place: &Place<'_>) {
    place.apply_server_side(&job("a", json!({}))).quiet();
    filled(place, "a");
}

fn create_cannot_tell_explicit_terminating(place: &Place<'_>) {
    // `kubectl create` leaves no trace of what the author wrote, so this looks like the API server's default;
    // the keep annotation is the way out.
    place.create(&job("a", terminating())).ok();
    filled(place, "a");
}

fn client_side_apply_keeps_explicit_terminating(place: &Place<'_>) {
    place.apply(&job("a", terminating())).ok();
    let stored = place.stored("job/a");
    is(&stored, REPLACEMENT, json!("TerminatingOrFailed"));
    is(&stored, TTL, json!(86400));
}

fn server_side_apply_keeps_explicit_terminating(place: &Place<'_>) {
    place.apply_server_side(&job("a", terminating())).ok();
    let stored = place.stored("job/a");
    is(&stored, REPLACEMENT, json!("TerminatingOrFailed"));
    is(&stored, TTL, json!(86400));
}

fn explicit_failed_stays(place: &Place<'_>) {
    let failed = json!({"spec": {"podReplacementPolicy": "Failed"}});
    place.create(&job("a", failed.clone())).quiet();
    place.apply(&job("b", failed.clone())).quiet();
    place.apply_server_side(&job("c", failed)).quiet();
    for name in ["a", "b", "c"] {
        filled(place, name);
    }
}

fn keep_annotation_keeps(place: &Place<'_>) {
    let keep = |rules: &str| json!({"metadata": {"annotations": {"jobgate.dev/keep": rules}}});
    place.create(&job("a", over(terminating(), keep("pod-replacement-policy")))).ok();
    let stored = place.stored("job/a");
    is(&stored, REPLACEMENT, json!("TerminatingOrFailed"));
    is(&stored, TTL, json!(86400));
    place.create(&gpu_job("b", keep("ttl-after-finished,gpu-toleration"))).ok();
    let stored = place.stored("job/b");
    is(&stored, REPLACEMENT, json!("Failed"));
    is(&stored, TTL, Value::Null);
    is(&stored, TOLERATIONS, Value::Null);
}

fn explicit_ttl_stays(place: &Place<'_>) {
    place.create(&job("a", json!({"spec": {"ttlSecondsAfterFinished": 60}}))).quiet();
    is(&place.stored("job/a"), TTL, json!(60));
}

fn no_ttl(place: &Place<'_>, metadata: &Value) {
    place.create(&job("a", json!({"metadata": metadata}))).warns(&["ttl"]);
    let stored = place.stored("job/a");
    is(&stored, TTL, Value::Null);
    is(&stored, REPLACEMENT, json!("Failed"));
}

fn argo_cd_gets_no_ttl(place: &Place<'_>) {
    no_ttl(place, &json!({"annotations": {"argocd.argoproj.io/tracking-id": "train:batch/Job:team/a"}}));
}

fn helm_gets_no_ttl(place: &Place<'_>) {
    no_ttl(
        place,
        &json!({
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "train", "meta.helm.sh/release-namespace": "team"},
        }),
    );
}

fn flux_gets_no_ttl(place: &Place<'_>) {
    no_ttl(
        place,
        &json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "train", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}}),
    );
}

fn tolerations_after_create(place: &Place<'_>, object: &Value, expected: Value) {
    place.create(object).quiet();
    let name = object["metadata"]["name"].as_str().expect("a name");
    is(&filled(place, name), TOLERATIONS, expected);
}

fn gpu_gets_toleration(place: &Place<'_>) {
    tolerations_after_create(place, &gpu_job("a", json!({})), json!([toleration("nvidia.com/gpu")]));
}

fn tolerated_gpu_is_left_alone(place: &Place<'_>) {
    let own = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
    let object = gpu_job("a", json!({"spec": {"template": {"spec": {"tolerations": own}}}}));
    tolerations_after_create(place, &object, own);
}

fn tolerating_everything_is_left_alone(place: &Place<'_>) {
    let own = json!([{"operator": "Exists"}]);
    let object = gpu_job("a", json!({"spec": {"template": {"spec": {"tolerations": own}}}}));
    tolerations_after_create(place, &object, own);
}

fn other_tolerations_are_kept(place: &Place<'_>) {
    let own = json!({"key": "team", "operator": "Equal", "value": "fraud", "effect": "NoSchedule"});
    let object = gpu_job("a", json!({"spec": {"template": {"spec": {"tolerations": [own]}}}}));
    tolerations_after_create(place, &object, json!([own, toleration("nvidia.com/gpu")]));
}

fn mig_slice_gets_gpu_toleration(place: &Place<'_>) {
    let object =
        job("a", json!({"spec": {"template": {"spec": {"containers": asking("nvidia.com/mig-1g.5gb")}}}}));
    tolerations_after_create(place, &object, json!([toleration("nvidia.com/gpu")]));
}

fn amd_gpu_gets_its_toleration(place: &Place<'_>) {
    let object = job("a", json!({"spec": {"template": {"spec": {"containers": asking("amd.com/gpu")}}}}));
    tolerations_after_create(place, &object, json!([toleration("amd.com/gpu")]));
}

fn gpu_in_an_init_container(place: &Place<'_>) {
    let object = job(
        "a",
        json!({"spec": {"template": {"spec": {"initContainers": [
            {"name": "warm-up", "image": "registry.example.com/warm-up:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ]}}}}),
    );
    tolerations_after_create(place, &object, json!([toleration("nvidia.com/gpu")]));
}

fn rdma_card_is_left_alone(place: &Place<'_>) {
    let object =
        job("a", json!({"spec": {"template": {"spec": {"containers": asking("nvidia.com/rdma-vf")}}}}));
    tolerations_after_create(place, &object, Value::Null);
}

fn zero_gpus_are_left_alone(place: &Place<'_>) {
    let containers = json!([{"name": "trainer", "image": "registry.example.com/trainer:1.4", "resources": {"limits": {"nvidia.com/gpu": 0}}}]);
    let object = job("a", json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    tolerations_after_create(place, &object, Value::Null);
}

fn sidecar_is_admitted(place: &Place<'_>) {
    let sidecar =
        json!([{"name": "logs", "image": "registry.example.com/logs:2", "restartPolicy": "Always"}]);
    place.create(&job("a", json!({"spec": {"template": {"spec": {"initContainers": sidecar}}}}))).quiet();
    is(&filled(place, "a"), "/spec/template/spec/initContainers/0/restartPolicy", json!("Always"));
}

fn restart_always_is_denied_with_all_findings(place: &Place<'_>) {
    let object = over(endless("a"), json!({"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}));
    let both = ["restart-policy: spec.template.spec.restartPolicy", "deadline: spec"];
    place.create(&object).denied(&both).denied(&["mutate."]);
    place.apply(&object).denied(&both);
    place.apply_server_side(&object).denied(&both);
    assert!(!place.is_stored("job/a"));
}

fn restart_unset_is_denied(place: &Place<'_>) {
    place
        .create(&job("a", json!({"spec": {"template": {"spec": {"restartPolicy": null}}}})))
        .denied(&["restart-policy: spec.template.spec"]);
}

fn restart_on_failure_is_admitted(place: &Place<'_>) {
    place.create(&job("a", json!({"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}))).quiet();
    filled(place, "a");
}

fn without_deadline_is_denied(place: &Place<'_>) {
    let output = place.create(&endless("a")).denied(&["deadline: spec", "activeDeadlineSeconds"]);
    assert!(!output.stderr.contains("restart-policy"), "{output}");
    assert!(!place.is_stored("job/a"));
}

fn deadline_zero_is_denied(place: &Place<'_>) {
    place
        .create(&job("a", json!({"spec": {"activeDeadlineSeconds": 0}})))
        .denied(&["deadline: spec.activeDeadlineSeconds"]);
}

fn deadline_of_the_pod_only_is_denied(place: &Place<'_>) {
    let object = over(endless("a"), json!({"spec": {"template": {"spec": {"activeDeadlineSeconds": 600}}}}));
    place.create(&object).denied(&["deadline: spec.activeDeadlineSeconds"]);
}

fn dry_run_shows_and_stores_nothing(place: &Place<'_>) {
    let shown = place.dry_run(&gpu_job("a", json!({}))).quiet().json();
    is(&shown, REPLACEMENT, json!("Failed"));
    is(&shown, TTL, json!(86400));
    is(&shown, TOLERATIONS, json!([toleration("nvidia.com/gpu")]));
    assert!(!place.is_stored("job/a"));
}

fn dry_run_is_denied(place: &Place<'_>) {
    let dry = place.dry_run(&endless("a")).denied(&["deadline"]);
    let real = place.create(&endless("a")).denied(&["deadline"]);
    assert_eq!(dry.stderr, real.stderr, "a dry run says what the real one says");
}

fn dry_run_of_apply(place: &Place<'_>) {
    let text = job("a", json!({})).to_string();
    let path = place.cluster.dir.path().join(format!("{}.json", place.namespace));
    std::fs::write(&path, text).expect("write a manifest");
    let path = path.display().to_string();
    for flavour in [
        &["apply", "--dry-run=server", "-o", "json", "-f", &path][..],
        &["apply", "--server-side", "--dry-run=server", "-o", "json", "-f", &path],
    ] {
        is(&place.kubectl(flavour).quiet().json(), REPLACEMENT, json!("Failed"));
    }
    assert!(!place.is_stored("job/a"));
}

fn generate_name(place: &Place<'_>) {
    let object = job("a", json!({"metadata": {"name": null, "generateName": "train-"}}));
    place.create(&object).quiet();
    place.create(&object).quiet();
    let stored = place.stored("jobs");
    let items = stored["items"].as_array().expect("a list");
    assert_eq!(items.len(), 2);
    for item in items {
        assert!(item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("train-")), "{item:#}");
        is(item, REPLACEMENT, json!("Failed"));
        is(item, TTL, json!(86400));
    }
    let endless = over(endless("x"), json!({"metadata": {"name": null, "generateName": "bad-"}}));
    place.create(&endless).denied(&["deadline"]);
}

fn pod_failure_policy(place: &Place<'_>) {
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]);
    place.create(&job("a", json!({"spec": {"podFailurePolicy": {"rules": rules}}}))).quiet();
    is(&filled(place, "a"), "/spec/podFailurePolicy/rules/0/action", json!("Ignore"));
}

fn backoff_limit_per_index(place: &Place<'_>) {
    let change = json!({"spec": {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 1, "maxFailedIndexes": 2}});
    place.create(&job("a", change)).quiet();
    let stored = filled(place, "a");
    is(&stored, "/spec/backoffLimitPerIndex", json!(1));
    is(&stored, "/spec/backoffLimit", json!(2_147_483_647));
}

fn suspended_for_kueue(place: &Place<'_>) {
    let queued =
        json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "fraud"}}, "spec": {"suspend": true}});
    place.create(&gpu_job("a", queued.clone())).ok();
    let stored = filled(place, "a");
    is(&stored, "/spec/suspend", json!(true));
    is(&stored, TOLERATIONS, json!([toleration("nvidia.com/gpu")]));
    let bounded = json!({"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "3600"}}});
    // The policy does not say that Kueue runs.
    place.create(&over(endless("b"), over(queued.clone(), bounded))).denied(&["deadline"]);
    place.create(&over(endless("c"), queued)).denied(&["deadline"]);
}

fn ignore_annotation_lifts_no_denial(place: &Place<'_>) {
    let ignore = |rule: &str| json!({"metadata": {"annotations": {"jobgate.dev/ignore": rule}}});
    place.create(&over(endless("a"), ignore("deadline"))).denied(&["deadline"]);
    let tracked =
        json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "train:batch/Job:team/a"}}});
    place.create(&job("b", over(tracked, ignore("ttl-after-finished")))).quiet();
    is(&place.stored("job/b"), TTL, Value::Null);
}

fn large_is_answered(place: &Place<'_>) {
    let many: Vec<Value> =
        (0..64).map(|i| json!({"name": format!("TABLE_{i}"), "value": "<".repeat(5000)})).collect();
    let containers = json!([{"name": "trainer", "image": "registry.example.com/trainer:1.4", "env": many}]);
    let large = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    place.create(&job("a", large.clone())).quiet();
    filled(place, "a");
    place.create(&over(endless("b"), large)).denied(&["deadline"]);
    let notes = json!({"metadata": {"annotations": {"note": "x".repeat(250_000)}}});
    place.create(&job("c", notes)).quiet();
    filled(place, "c");
}

fn child(owner: &str, uid: &str) -> Value {
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": owner, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }]);
    over(endless("child-29400000"), json!({"metadata": {"ownerReferences": owner}}))
}

fn trusted_controller_is_left_alone(place: &Place<'_>) {
    const CONTROLLER: &str = "system:serviceaccount:kube-system:cronjob-controller";
    // Not even the controller is believed.
    place
        .create_as(CONTROLLER, &child("nightly", NOBODY))
        .denied(&["deadline", "does not exist with that uid"]);
    place.create(&cron_job("nightly", json!({"spec": {"suspend": true}}))).ok();
    let uid = place.stored("cronjob/nightly")["metadata"]["uid"].as_str().expect("a uid").to_owned();
    place.create_as(CONTROLLER, &child("nightly", &uid)).quiet();
    let stored = place.stored("job/child-29400000");
    is(&stored, REPLACEMENT, json!("TerminatingOrFailed"));
    is(&stored, TTL, Value::Null);
}

/// A uid that nothing has.
const NOBODY: &str = "7d1f4bd2-9a52-4d5a-9f0f-0d5d7bb0c9d1";

fn forged_owner_is_denied(place: &Place<'_>) {
    place.create(&child("nightly", NOBODY)).denied(&["deadline"]);
    assert!(!place.is_stored("job/child-29400000"));
}

fn unknown_fields(place: &Place<'_>) {
    // Without validation the API server drops what it does not know before the webhook sees it.
    let object = job("a", json!({"spec": {"backofLimit": 3, "template": {"spec": {"tolerationz": [{}]}}}}));
    let path = place.cluster.dir.path().join(format!("{}.json", place.namespace));
    std::fs::write(&path, object.to_string()).expect("write a manifest");
    place.kubectl(&["create", "--validate=false", "-f", &path.display().to_string()]).ok();
    filled(place, "a");
}

fn wrong_types(place: &Place<'_>) {
    place.create(&job("a", json!({"spec": {"parallelism": "four"}}))).refused(&["parallelism"]);
    place
        .create(&job("a", json!({"spec": {"template": {"spec": {"tolerations": {}}}}})))
        .refused(&["tolerations"]);
}

fn list_of_two(place: &Place<'_>) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [job("good", json!({})), endless("bad")]});
    place.create(&list).denied(&["deadline"]);
    filled(place, "good");
    assert!(!place.is_stored("job/bad"));
}

fn idempotent(place: &Place<'_>) {
    let first = place.dry_run(&gpu_job("a", json!({}))).json();
    let mut again = first.clone();
    for field in ["uid", "creationTimestamp", "managedFields", "generation", "labels"] {
        again["metadata"].as_object_mut().expect("metadata").remove(field);
    }
    for pointer in ["/spec", "/spec/template/metadata"] {
        for field in ["selector", "labels"] {
            again.pointer_mut(pointer).and_then(Value::as_object_mut).map(|map| map.remove(field));
        }
    }
    let second = place.dry_run(&again).quiet().json();
    let spec = |object: &Value| {
        let mut spec = object["spec"].clone();
        spec.as_object_mut().expect("a spec").remove("selector");
        spec.pointer_mut("/template/metadata").and_then(Value::as_object_mut).map(|map| map.remove("labels"));
        spec
    };
    assert_eq!(spec(&first), spec(&second), "what was filled in once is not filled in again");
}
