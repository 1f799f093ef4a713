//! What happens to Jobs after they were created, by people and by controllers.

use std::fs;
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::gate::{Gate, Setup, unregister};
use crate::manifests::{claim, cron_job, endless, gpu_job, job, mounting, over, pytorch_job, toleration};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("reapply_client_side_of_an_unchanged_gpu_job", reapply_client_side),
    Scenario::new("reapply_server_side_of_an_unchanged_gpu_job", reapply_server_side),
    Scenario::new("reapply_server_side_of_a_job_applied_before", from_client_to_server),
    Scenario::new("own_list_of_tolerations_is_left_alone_with_a_warning", own_list),
    Scenario::new("own_list_of_tolerations_is_filled_and_restored_where_the_policy_says_so", own_list_filled)
        .ungated(),
    Scenario::new("reapply_with_a_changed_template_is_refused_as_ever", changed_template),
    Scenario::new("label_edit_of_a_violator_from_before", label_edit_of_a_violator).ungated(),
    Scenario::new("label_edit_of_a_gpu_job_from_before", label_edit_of_a_gpu_job).ungated(),
    Scenario::new("update_never_sets_a_ttl", update_never_sets_a_ttl).ungated(),
    Scenario::new("update_that_breaks_a_rule_is_denied", update_that_breaks_a_rule),
    Scenario::new("suspend_and_resume", suspend_and_resume),
    Scenario::new("suspend_and_resume_of_a_violator_from_before", suspend_and_resume_of_a_violator).ungated(),
    Scenario::new("kueue_admits_a_suspended_job", kueue_admits),
    Scenario::new("scale_up_with_a_claim_of_one_node_is_denied", scale_up_is_denied),
    Scenario::new("scale_up_of_a_violator_from_before_is_a_warning", scale_up_of_a_violator).ungated(),
    Scenario::new("patches_of_every_kind", patches_of_every_kind),
    Scenario::new("replace", replace),
    Scenario::new("status_update_is_not_sent", status_update),
    Scenario::new("delete", delete).ungated(),
    Scenario::new("finalizer_removal_of_a_violator", finalizer_removal).ungated(),
    Scenario::new("foreground_deletion_of_a_violator", foreground_deletion)
        .needs(Needs::Controllers)
        .ungated(),
    Scenario::new("garbage_collector_orphans_a_violator", orphaned).needs(Needs::Controllers).ungated(),
    Scenario::new("update_in_two_steps_is_denied_as_in_one", in_two_steps).needs(Needs::CustomResources),
    Scenario::new("update_after_bytes_that_are_no_text_is_denied", bytes_that_are_no_text),
    Scenario::new("update_of_a_deep_violator_from_before", update_of_a_deep_violator)
        .needs(Needs::CustomResources)
        .ungated(),
    Scenario::new("update_of_an_unreadable_violator_from_before", update_of_an_unreadable_violator)
        .needs(Needs::CustomResources)
        .ungated(),
];

fn template(place: &Place<'_>, what: &str) -> Value {
    place.stored(what)["spec"]["template"]["spec"].clone()
}

/// kubectl hands what `kubectl apply` wrote to the new owner, the API server's defaults among it.
fn from_client_to_server(place: &Place<'_>) {
    let object = job("a", json!({}));
    place.apply(&object).ok();
    let before = place.stored("job/a");
    is(&before, "/spec/podReplacementPolicy", "Failed".into());
    place.apply_server_side(&object).warns(&["restored what it had filled in: spec.podReplacementPolicy"]);
    assert_eq!(place.stored("job/a")["spec"], before["spec"]);
    place.apply_server_side(&object).quiet();
    assert_eq!(place.stored("job/a")["spec"], before["spec"]);
    // Whoever sets it, owns it.
    let other = json!({"spec": {"podReplacementPolicy": "TerminatingOrFailed"}});
    place.patch("job/a", "merge", &other).ok();
    is(&place.stored("job/a"), "/spec/podReplacementPolicy", "TerminatingOrFailed".into());
}

fn reapply_client_side(place: &Place<'_>) {
    let object = gpu_job("a", json!({}));
    place.apply(&object).quiet();
    let before = place.stored("job/a");
    let again = place.apply(&object).quiet();
    assert!(again.stdout.contains("unchanged"), "{again}");
    assert_eq!(place.stored("job/a")["spec"], before["spec"]);
    place.apply(&over(object, json!({"metadata": {"labels": {"run": "2"}}}))).ok();
    assert_eq!(place.stored("job/a")["spec"], before["spec"]);
}

fn reapply_server_side(place: &Place<'_>) {
    let object = gpu_job("a", json!({}));
    place.apply_server_side(&object).quiet();
    let before = place.stored("job/a");
    place.apply_server_side(&object).quiet();
    assert_eq!(place.stored("job/a")["spec"], before["spec"]);
    place.apply_server_side(&over(object, json!({"metadata": {"labels": {"run": "2"}}}))).ok();
    assert_eq!(place.stored("job/a")["spec"], before["spec"]);
}

fn with_own_toleration() -> (Value, Value) {
    let own = json!({"key": "team", "operator": "Equal", "value": "fraud", "effect": "NoSchedule"});
    let object = gpu_job("a", json!({"spec": {"template": {"spec": {"tolerations": [own]}}}}));
    (object, json!([own, toleration("nvidia.com/gpu")]))
}

/// The list of tolerations is the author's as a whole, so each re-apply would take an addition out; for a Job
/// that is an edit of an immutable template.
fn own_list(place: &Place<'_>) {
    let (object, _) = with_own_toleration();
    let lacks = [
        "gpu-toleration: …template.spec.tolerations: no toleration `{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}`",
    ];
    let own = json!([object["spec"]["template"]["spec"]["tolerations"][0]]);
    place.apply(&object).warns(&lacks);
    place.apply(&over(object.clone(), json!({"metadata": {"labels": {"run": "2"}}}))).warns(&lacks);
    assert_eq!(template(place, "job/a")["tolerations"], own);
    let server_side = over(object, json!({"metadata": {"name": "b"}}));
    place.apply_server_side(&server_side).warns(&lacks);
    place.apply_server_side(&server_side).warns(&lacks);
    assert_eq!(template(place, "job/b")["tolerations"], own);
    // As the warning says.
    let fixed = json!({"metadata": {"name": "c"}, "spec": {"template": {"spec": {"tolerations": [own[0], toleration("nvidia.com/gpu")]}}}});
    place.apply(&over(server_side, fixed)).quiet();
}

/// A policy may fill such lists all the same; then each apply needs Jobgate to be there.
fn own_list_filled(place: &Place<'_>) {
    let file = place.cluster.dir.path().join(format!("{}.yaml", place.namespace));
    let rules = "{gpu-toleration: {params: {ownLists: true}}}";
    fs::write(&file, format!("{{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {{name: lists}}, spec: {{rules: {rules}}}}}"))
        .expect("write a policy");
    let setup = Setup { policy: Some(file), ..Setup::only(&place.cluster.unique("lists"), &place.namespace) };
    let _gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
    let (object, both) = with_own_toleration();
    let server_side = over(object.clone(), json!({"metadata": {"name": "b"}}));
    place.apply(&object).quiet();
    place.apply_server_side(&server_side).quiet();
    for run in ["1", "2"] {
        let label = json!({"metadata": {"labels": {"run": run}}});
        place.apply(&over(object.clone(), label.clone())).quiet();
        place.apply_server_side(&over(server_side.clone(), label)).quiet();
        for what in ["job/a", "job/b"] {
            let stored = place.stored(what);
            is(&stored, "/spec/template/spec/tolerations", both.clone());
            is(&stored, "/metadata/labels/run", json!(run));
        }
    }
    unregister(place.cluster, &setup.name);
}

fn changed_template(place: &Place<'_>) {
    let (object, _) = with_own_toleration();
    place.apply(&object).ok();
    let containers = json!([{"name": "trainer", "image": "registry.example.com/trainer:1.5", "resources": {"limits": {"nvidia.com/gpu": 1}}}]);
    place
        .apply(&over(object, json!({"spec": {"template": {"spec": {"containers": containers}}}})))
        .refused(&["field is immutable"]);
}

fn label_edit_of_a_violator(place: &Place<'_>) {
    place.create(&endless("a")).ok();
    place.gate();
    let before = place.stored("job/a");
    place.kubectl(&["label", "job/a", "cost-centre=7"]).ok();
    place.kubectl(&["annotate", "job/a", "note=late"]).ok();
    let after = place.stored("job/a");
    assert_eq!(after["spec"], before["spec"]);
    is(&after, "/metadata/labels/cost-centre", json!("7"));
}

fn label_edit_of_a_gpu_job(place: &Place<'_>) {
    place.create(&gpu_job("a", json!({}))).ok();
    place.gate();
    place.kubectl(&["label", "job/a", "cost-centre=7"]).ok();
    assert_eq!(
        template(place, "job/a")["tolerations"],
        Value::Null,
        "a template in use cannot be changed any more"
    );
}

fn update_never_sets_a_ttl(place: &Place<'_>) {
    place.create(&job("a", json!({}))).ok();
    place.gate();
    place.kubectl(&["label", "job/a", "cost-centre=7"]).ok();
    place.patch("job/a", "merge", &json!({"spec": {"backoffLimit": 2}})).ok();
    let stored = place.stored("job/a");
    is(&stored, "/spec/ttlSecondsAfterFinished", Value::Null);
    is(&stored, "/spec/podReplacementPolicy", json!("TerminatingOrFailed"));
    is(&stored, "/spec/backoffLimit", json!(2));
}

fn update_that_breaks_a_rule(place: &Place<'_>) {
    place.create(&job("a", json!({}))).ok();
    place
        .patch("job/a", "merge", &json!({"spec": {"activeDeadlineSeconds": null}}))
        .denied(&["deadline: spec"]);
    is(&place.stored("job/a"), "/spec/activeDeadlineSeconds", json!(3600));
}

fn suspend_and_resume(place: &Place<'_>) {
    place.create(&gpu_job("a", json!({}))).ok();
    let before = template(place, "job/a");
    place.patch("job/a", "merge", &json!({"spec": {"suspend": true}})).quiet();
    is(&place.stored("job/a"), "/spec/suspend", json!(true));
    place.patch("job/a", "merge", &json!({"spec": {"suspend": false}})).quiet();
    is(&place.stored("job/a"), "/spec/suspend", json!(false));
    assert_eq!(template(place, "job/a"), before);
}

fn suspend_and_resume_of_a_violator(place: &Place<'_>) {
    place.create(&over(gpu_job("a", json!({})), json!({"spec": {"activeDeadlineSeconds": null}}))).ok();
    place.gate();
    let before = template(place, "job/a");
    place.patch("job/a", "merge", &json!({"spec": {"suspend": true}})).ok();
    place.patch("job/a", "merge", &json!({"spec": {"suspend": false}})).ok();
    let stored = place.stored("job/a");
    is(&stored, "/spec/suspend", json!(false));
    is(&stored, "/spec/ttlSecondsAfterFinished", Value::Null);
    assert_eq!(template(place, "job/a"), before);
}

/// Kueue starts a Job with one patch that resumes it and says where it may run.
fn kueue_admits(place: &Place<'_>) {
    let queued =
        json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "fraud"}}, "spec": {"suspend": true}});
    place.create(&gpu_job("a", queued)).ok();
    let flavour = json!({"key": "spot", "operator": "Exists", "effect": "NoSchedule"});
    let tolerations = json!([toleration("nvidia.com/gpu"), flavour]);
    let start = json!({"spec": {"suspend": false, "template": {"spec": {"nodeSelector": {"gpu": "a100"}, "tolerations": tolerations}}}});
    place.patch("job/a", "merge", &start).ok();
    let stored = place.stored("job/a");
    is(&stored, "/spec/suspend", json!(false));
    is(&stored, "/spec/template/spec/tolerations", tolerations);
    is(&stored, "/spec/template/spec/nodeSelector", json!({"gpu": "a100"}));
}

fn work_queue(name: &str, claim: &str, parallelism: u32) -> Value {
    over(mounting(name, claim, parallelism), json!({"spec": {"completions": null}}))
}

fn scale_up_is_denied(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    place.create(&work_queue("a", "checkpoints", 1)).ok();
    place
        .patch("job/a", "merge", &json!({"spec": {"parallelism": 4}}))
        .denied(&["checkpoint-volume-access", "ReadWriteOnce"]);
    is(&place.stored("job/a"), "/spec/parallelism", json!(1));
}

fn scale_up_of_a_violator(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    place.create(&work_queue("a", "checkpoints", 2)).ok();
    place.gate();
    place.patch("job/a", "merge", &json!({"spec": {"parallelism": 4}})).warns(&["checkpoint-volume-access"]);
    is(&place.stored("job/a"), "/spec/parallelism", json!(4));
}

fn patches_of_every_kind(place: &Place<'_>) {
    place.create(&gpu_job("a", json!({}))).ok();
    let before = template(place, "job/a");
    place.patch("job/a", "merge", &json!({"metadata": {"labels": {"by": "merge"}}})).quiet();
    place.patch("job/a", "strategic", &json!({"spec": {"backoffLimit": 1}})).quiet();
    place
        .patch(
            "job/a",
            "json",
            &json!([{"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 7200}]),
        )
        .quiet();
    place
        .patch("job/a", "json", &json!([{"op": "remove", "path": "/spec/activeDeadlineSeconds"}]))
        .denied(&["deadline"]);
    place.patch("job/a", "strategic", &json!({"spec": {"activeDeadlineSeconds": 0}})).denied(&["deadline"]);
    let stored = place.stored("job/a");
    is(&stored, "/metadata/labels/by", json!("merge"));
    is(&stored, "/spec/backoffLimit", json!(1));
    is(&stored, "/spec/activeDeadlineSeconds", json!(7200));
    assert_eq!(template(place, "job/a"), before);
}

fn replace(place: &Place<'_>) {
    place.create(&gpu_job("a", json!({}))).ok();
    let stored = place.stored("job/a");
    place.replace(&over(stored.clone(), json!({"metadata": {"labels": {"run": "2"}}}))).quiet();
    let after = place.stored("job/a");
    is(&after, "/metadata/labels/run", json!("2"));
    assert_eq!(after["spec"], stored["spec"]);
    place.replace(&over(after, json!({"spec": {"activeDeadlineSeconds": null}}))).denied(&["deadline"]);
}

fn status_update(place: &Place<'_>) {
    // Of a CronJob that is suspended no controller writes the status.
    place.create(&cron_job("a", json!({"spec": {"suspend": true}}))).ok();
    let status = json!({"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}}).to_string();
    place.kubectl(&["patch", "cronjob/a", "--subresource=status", "--type=merge", "-p", &status]).quiet();
    is(&place.stored("cronjob/a"), "/status/lastScheduleTime", json!("2026-01-01T00:00:00Z"));
}

fn delete(place: &Place<'_>) {
    place.create(&endless("a")).ok();
    place.create(&endless("b")).ok();
    place.gate();
    place.kubectl(&["delete", "job/a", "--cascade=orphan", "--wait=false"]).quiet();
    place.kubectl(&["delete", "job/b", "--cascade=background", "--wait=false"]).quiet();
    gone(place, "job/b");
}

fn gone(place: &Place<'_>, what: &str) {
    let absent = || if place.is_stored(what) { Err(format!("{what} is still there")) } else { Ok(()) };
    eventually(Duration::from_secs(60), absent).expect("the object must go");
}

/// The last finalizer goes by an UPDATE of an object that breaks the rules; were it denied, the object would
/// stay for ever.
fn finalizer_removal(place: &Place<'_>) {
    let held = json!({"metadata": {"finalizers": ["e2e.jobgate.dev/hold"]}});
    place.create(&over(endless("a"), held.clone())).ok();
    place.create(&over(gpu_job("b", json!({})), held)).ok();
    place.gate();
    for what in ["job/a", "job/b"] {
        place.kubectl(&["delete", what, "--wait=false", "--cascade=background"]).quiet();
        place.patch(what, "merge", &json!({"metadata": {"finalizers": null}})).quiet();
        gone(place, what);
    }
}

fn foreground_deletion(place: &Place<'_>) {
    place.create(&over(endless("a"), json!({"spec": {"suspend": true}}))).ok();
    place.gate();
    place.kubectl(&["delete", "job/a", "--cascade=foreground", "--wait=false"]).quiet();
    gone(place, "job/a");
}

fn orphaned(place: &Place<'_>) {
    place.create(&over(endless("a"), json!({"spec": {"suspend": true}}))).ok();
    place.gate();
    place.kubectl(&["delete", "job/a", "--cascade=orphan", "--wait=false"]).quiet();
    gone(place, "job/a");
}

/// A mapping in a mapping in a mapping: deeper than what Jobgate reads of an object.
fn deep(key: &str) -> Value {
    (0..150).fold(json!({}), |inside, _| json!({key: inside}))
}

/// Managed fields that somebody made up, which the API server stores as they are.
fn managed(fields: &Value) -> Value {
    let entry = json!({
        "manager": "m", "operation": "Update", "apiVersion": "batch/v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    json!({"metadata": {"managedFields": [entry]}})
}

/// Every part of managed fields that is passed over, with something deep in it.
fn deep_fields() -> Vec<(String, Value)> {
    let fields = ["f:containers", "f:initContainers", "f:metadata", "f:status", "f:volumes", "f:spec"];
    let named = |field: &str| field.trim_start_matches("f:").to_lowercase();
    fields.iter().map(|field| (named(field), json!({*field: deep("f:a")}))).collect()
}

fn job_set(name: &str) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": job("x", json!({}))["spec"]}}]},
    })
}

/// Something deep first, then the deadline out: from then on nothing would be judged any more.
fn in_two_steps(place: &Place<'_>) {
    let violations = [
        ("job", job("a", json!({})), json!({"spec": {"activeDeadlineSeconds": null}})),
        (
            "cronjob",
            cron_job("a", json!({})),
            json!({"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": null}}}}),
        ),
        (
            "pytorchjob",
            pytorch_job("a", json!({})),
            json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null}}}),
        ),
    ];
    for (field, fields) in deep_fields() {
        for (resource, object, violation) in &violations {
            let name = format!("a-{field}");
            let object = over(over(object.clone(), json!({"metadata": {"name": name}})), managed(&fields));
            place.create(&object).quiet();
            let what = format!("{resource}/{name}");
            let before = place.stored(&what);
            place.patch(&what, "merge", violation).denied(&["1 problem:", "deadline: "]);
            assert_eq!(place.stored(&what)["spec"], before["spec"]);
            place.kubectl(&["label", &what, "cost-centre=7"]).quiet();
        }
        // A JobSet without a deadline is a warning; pods that never end are denied.
        let name = format!("a-{field}");
        let named = json!({"metadata": {"name": name}});
        let object = over(over(job_set("a"), named), managed(&fields));
        place.create(&object).ok();
        let what = format!("jobset/{name}");
        let before = place.stored(&what);
        let always = json!([{"op": "add", "path": "/spec/replicatedJobs/0/template/spec/template/spec/restartPolicy", "value": "Always"}]);
        place.patch(&what, "json", &always).denied(&["1 problem", "restart-policy: "]);
        assert_eq!(place.stored(&what)["spec"], before["spec"]);
        place.kubectl(&["label", &what, "cost-centre=7"]).ok();
    }
}

/// The API server hands on the bytes of managed fields as they are.
fn bytes_that_are_no_text(place: &Place<'_>) {
    let path = format!("/apis/batch/v1/namespaces/{}/jobs", place.namespace);
    let post = |object: &Value| {
        let object =
            over(object.clone(), managed(&json!({"f:metadata": {"f:?": {}}, "f:spec": {"f:?": {}}})));
        let bytes: Vec<u8> =
            object.to_string().bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
        let file = place.cluster.dir.path().join(format!("{}-bytes.json", place.namespace));
        fs::write(&file, bytes).expect("write an object");
        place.kubectl(&["create", "--raw", &path, "-f", &file.to_string_lossy()])
    };
    let answer = post(&endless("a"));
    assert!(!answer.success && answer.stderr.contains("deadline: "), "must be denied: {answer}");
    assert!(!place.is_stored("job/a"));
    post(&job("b", json!({}))).ok();
    place
        .patch("job/b", "merge", &json!({"spec": {"activeDeadlineSeconds": null}}))
        .denied(&["1 problem:", "deadline: "]);
}

/// Whoever broke rules before Jobgate came can still be labelled, held and let go.
fn update_of_a_deep_violator(place: &Place<'_>) {
    let held = json!({"metadata": {"finalizers": ["e2e.jobgate.dev/hold"]}});
    let made_up = managed(&json!({"f:metadata": deep("f:a"), "f:spec": deep("f:b")}));
    let objects = [
        ("job/a", endless("a")),
        (
            "cronjob/a",
            cron_job("a", json!({"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": null}}}})),
        ),
        ("pytorchjob/a", pytorch_job("a", json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null}}}))),
        ("jobset/a", {
            let mut object = job_set("a");
            object["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["restartPolicy"] =
                "Always".into();
            object
        }),
    ];
    for (_, object) in &objects {
        place.create(&over(over(object.clone(), held.clone()), made_up.clone())).ok();
    }
    place.gate();
    for (what, _) in &objects {
        let before = place.stored(what);
        place.kubectl(&["label", what, "cost-centre=7"]).ok();
        place.kubectl(&["annotate", what, "note=late"]).ok();
        let after = place.stored(what);
        // A CronJob is filled whenever it is written.
        if !what.starts_with("cronjob/") {
            assert_eq!(after["spec"], before["spec"]);
        }
        is(&after, "/metadata/labels/cost-centre", json!("7"));
        place.kubectl(&["delete", what, "--wait=false", "--cascade=background"]).ok();
        place.patch(what, "merge", &json!({"metadata": {"finalizers": null}})).quiet();
        gone(place, what);
    }
}

/// What an AppWrapper wraps may be anything, so it is the way to a spec that cannot be read.
fn update_of_an_unreadable_violator(place: &Place<'_>) {
    let mut inner = endless("inner");
    inner["spec"]["deep"] = deep("a");
    let object = |name: &str, template: &Value| {
        json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": name, "finalizers": ["e2e.jobgate.dev/hold"]},
            "spec": {"components": [{"template": template}]},
        })
    };
    place.create(&object("a", &inner)).ok();
    place.gate();
    place.create(&object("b", &inner)).denied(&["depth: "]);
    place.kubectl(&["label", "appwrapper/a", "cost-centre=7"]).quiet();
    place.patch("appwrapper/a", "merge", &json!({"spec": {"suspend": true}})).denied(&["depth: "]);
    let shallow = json!({"spec": {"components": [{"template": endless("inner")}]}});
    let answer = place.patch("appwrapper/a", "merge", &shallow);
    assert!(answer.is_denied(&["deadline: "]) && answer.stderr.contains("judged the new one"), "{answer}");
    place.kubectl(&["delete", "appwrapper/a", "--wait=false", "--cascade=background"]).quiet();
    place.patch("appwrapper/a", "merge", &json!({"metadata": {"finalizers": null}})).quiet();
    gone(place, "appwrapper/a");
}
