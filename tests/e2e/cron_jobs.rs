//! CronJobs, and the Jobs they make.

use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::manifests::{asking, claim, cron_job, mounts, over, toleration};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("cron_job_is_run_by_its_controller", run_by_its_controller).needs(Needs::Controllers),
    Scenario::new("cron_job_of_a_violator_runs_on", violator_runs_on).needs(Needs::Controllers).ungated(),
    Scenario::new("cron_job_create_is_filled", create_is_filled),
    Scenario::new("cron_job_reapply_in_both_flavours", reapply),
    Scenario::new("cron_job_is_filled_on_update", filled_on_update).ungated(),
    Scenario::new("cron_job_without_deadline_is_denied", without_deadline),
    Scenario::new("cron_job_restart_unset_is_denied", restart_unset),
    Scenario::new("cron_job_suspend_of_a_violator_from_before", suspend_of_a_violator).ungated(),
    Scenario::new("cron_job_explicit_values_stay", explicit_values_stay),
    Scenario::new("cron_job_started_by_hand", started_by_hand),
    Scenario::new("cron_job_with_a_claim_of_one_node", claim_of_one_node),
];

const REPLACEMENT: &str = "/spec/jobTemplate/spec/podReplacementPolicy";
const TTL: &str = "/spec/jobTemplate/spec/ttlSecondsAfterFinished";
const TOLERATIONS: &str = "/spec/jobTemplate/spec/template/spec/tolerations";

fn job_spec(change: Value) -> Value {
    json!({"spec": {"jobTemplate": {"spec": change}}})
}

fn gpu() -> Value {
    job_spec(json!({"template": {"spec": {"containers": asking("nvidia.com/gpu")}}}))
}

fn first_child(place: &Place<'_>) -> Value {
    eventually(Duration::from_secs(100), || {
        let jobs = place.stored("jobs");
        jobs.pointer("/items/0").cloned().ok_or_else(|| "no Job yet".to_owned())
    })
    .expect("the controller must make a Job")
}

fn run_by_its_controller(place: &Place<'_>) {
    place.create(&cron_job("a", over(gpu(), json!({"spec": {"schedule": "* * * * *"}})))).quiet();
    let child = first_child(place);
    is(&child, "/spec/podReplacementPolicy", json!("Failed"));
    is(&child, "/spec/ttlSecondsAfterFinished", json!(604_800));
    is(&child, "/spec/activeDeadlineSeconds", json!(3600));
    is(&child, "/spec/template/spec/tolerations", json!([toleration("nvidia.com/gpu")]));
}

/// A CronJob from before the webhook keeps running: denying its children would only be seen in events.
fn violator_runs_on(place: &Place<'_>) {
    let endless =
        over(job_spec(json!({"activeDeadlineSeconds": null})), json!({"spec": {"schedule": "* * * * *"}}));
    place.create(&cron_job("a", endless)).ok();
    place.gate();
    let child = first_child(place);
    is(&child, "/spec/activeDeadlineSeconds", Value::Null);
    is(&child, "/spec/podReplacementPolicy", json!("TerminatingOrFailed"));
    is(&child, "/spec/ttlSecondsAfterFinished", Value::Null);
}

fn filled(place: &Place<'_>, what: &str) -> Value {
    let stored = place.stored(what);
    is(&stored, REPLACEMENT, json!("Failed"));
    is(&stored, TTL, json!(604_800));
    stored
}

fn create_is_filled(place: &Place<'_>) {
    place.create(&cron_job("a", gpu())).quiet();
    is(&filled(place, "cronjob/a"), TOLERATIONS, json!([toleration("nvidia.com/gpu")]));
}

fn reapply(place: &Place<'_>) {
    let own = json!({"key": "team", "operator": "Exists"});
    let change = over(gpu(), job_spec(json!({"template": {"spec": {"tolerations": [own]}}})));
    let lacks = [
        "gpu-toleration",
        "tolerations: no toleration `{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}`",
    ];
    let client = cron_job("a", change.clone());
    let server = cron_job("b", change);
    place.apply(&client).warns(&lacks);
    place.apply_server_side(&server).warns(&lacks);
    for run in ["2", "3"] {
        let label = json!({"metadata": {"labels": {"run": run}}});
        place.apply(&over(client.clone(), label.clone())).warns(&lacks);
        place.apply_server_side(&over(server.clone(), label)).warns(&lacks);
        for what in ["cronjob/a", "cronjob/b"] {
            is(&filled(place, what), TOLERATIONS, json!([own]));
        }
    }
}

fn filled_on_update(place: &Place<'_>) {
    place.create(&cron_job("a", gpu())).ok();
    place.gate();
    place.kubectl(&["label", "cronjob/a", "run=2"]).ok();
    is(&filled(place, "cronjob/a"), TOLERATIONS, json!([toleration("nvidia.com/gpu")]));
}

fn without_deadline(place: &Place<'_>) {
    place
        .create(&cron_job("a", job_spec(json!({"activeDeadlineSeconds": null}))))
        .denied(&["deadline: spec.jobTemplate.spec"]);
    place.create(&cron_job("b", json!({}))).ok();
    place
        .patch("cronjob/b", "merge", &job_spec(json!({"activeDeadlineSeconds": null})))
        .denied(&["deadline: spec.jobTemplate.spec"]);
}

fn restart_unset(place: &Place<'_>) {
    let unset = job_spec(json!({"template": {"spec": {"restartPolicy": null}}}));
    place.create(&cron_job("a", unset)).denied(&["restart-policy: spec.jobTemplate.spec.template.spec"]);
}

fn suspend_of_a_violator(place: &Place<'_>) {
    place.create(&cron_job("a", job_spec(json!({"activeDeadlineSeconds": null})))).ok();
    place.gate();
    place.patch("cronjob/a", "merge", &json!({"spec": {"suspend": true}})).ok();
    is(&place.stored("cronjob/a"), "/spec/suspend", json!(true));
    place.kubectl(&["delete", "cronjob/a", "--wait=false"]).quiet();
}

fn explicit_values_stay(place: &Place<'_>) {
    let explicit =
        job_spec(json!({"podReplacementPolicy": "TerminatingOrFailed", "ttlSecondsAfterFinished": 60}));
    place.create(&cron_job("a", explicit)).ok();
    let stored = place.stored("cronjob/a");
    is(&stored, REPLACEMENT, json!("TerminatingOrFailed"));
    is(&stored, TTL, json!(60));
}

fn started_by_hand(place: &Place<'_>) {
    place.create(&cron_job("a", gpu())).quiet();
    place.kubectl(&["create", "job", "by-hand", "--from=cronjob/a"]).quiet();
    let stored = place.stored("job/by-hand");
    is(&stored, "/spec/podReplacementPolicy", json!("Failed"));
    is(&stored, "/spec/template/spec/tolerations", json!([toleration("nvidia.com/gpu")]));
}

fn claim_of_one_node(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    let pod = job_spec(json!({"template": {"spec": mounts("checkpoints")}}));
    place.create(&cron_job("a", pod.clone())).ok();
    let many = over(pod, job_spec(json!({"parallelism": 3, "completions": 3})));
    place.create(&cron_job("b", many)).denied(&["checkpoint-volume-access: spec.jobTemplate.spec"]);
}
