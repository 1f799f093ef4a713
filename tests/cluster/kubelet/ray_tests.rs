//! Dashboards, programs and the containers that submit them, without a cluster.

use std::time::Duration;

use jobgate::text::value::{Value, json};

use super::super::event::Dashboard;
use super::super::script::{Name, Plan, Script};
use super::super::timeline::Timeline;
use super::{Answer, Ray, Submission};

fn seconds(number: f64) -> Duration {
    Duration::from_secs_f64(number)
}

fn script(entries: serde_json::Value) -> Script {
    Script::parse(&entries).expect("a script")
}

fn head(uid: &str) -> Value {
    let labels = json!({"ray.io/node-type": "head", "ray.io/cluster": "j-x"});
    json!({"metadata": {"uid": uid, "labels": labels}, "status": {"phase": "Running"}})
}

/// Has a head run.
fn runs(timeline: &mut Timeline, uid: &str) {
    timeline.created(seconds(0.0), "/p", &head(uid));
    timeline.changed(seconds(0.5), &head(uid), false);
}

fn state(ray: &mut Ray, timeline: &Timeline, at: f64) -> &'static str {
    match ray.ask(timeline, "j-x", "id", seconds(at)) {
        Answer::Silence => "silence",
        Answer::Unknown => "unknown",
        Answer::Is(stand) => stand.state,
    }
}

fn submit(ray: &mut Ray, timeline: &Timeline, script: &Script, at: f64) -> Option<bool> {
    ray.submit(timeline, script, ("j-x", "id"), "operator", seconds(at))
}

#[test]
fn a_dashboard_lives_and_dies_with_the_head_of_its_cluster() {
    let (mut ray, mut timeline, script) =
        (Ray::default(), Timeline::default(), script(serde_json::json!([])));
    assert_eq!(submit(&mut ray, &timeline, &script, 0.0), None);
    runs(&mut timeline, "a");
    assert_eq!(state(&mut ray, &timeline, 1.0), "unknown");
    assert_eq!(submit(&mut ray, &timeline, &script, 1.0), Some(true));
    assert_eq!(submit(&mut ray, &timeline, &script, 2.0), Some(false));
    assert_eq!(state(&mut ray, &timeline, 8.9), "RUNNING");
    // The container of the head is restarted.
    let mut restarted = head("a");
    restarted["status"]["containerStatuses"] = json!([{"restartCount": 1}]);
    timeline.changed(seconds(5.0), &restarted, false);
    assert_eq!(state(&mut ray, &timeline, 5.0), "unknown");
    assert_eq!(ray.programs(&timeline, seconds(6.0))[0].state, "LOST");
    timeline.changed(seconds(6.0), &head("a"), true);
    assert_eq!(state(&mut ray, &timeline, 6.0), "silence");
}

#[test]
fn programs_go_as_their_rules_say() {
    let rules =
        serde_json::json!([{"program": 0, "pending": 2, "run": 3, "end": "FAILED", "message": "boom"}]);
    let (mut ray, mut timeline, script) = (Ray::default(), Timeline::default(), script(rules));
    runs(&mut timeline, "a");
    submit(&mut ray, &timeline, &script, 1.0);
    let states = [2.9, 3.0, 5.9, 6.0].map(|at| state(&mut ray, &timeline, at));
    assert_eq!(states, ["PENDING", "RUNNING", "RUNNING", "FAILED"]);
    let Answer::Is(stand) = ray.ask(&timeline, "j-x", "id", seconds(7.0)) else { panic!("an answer") };
    assert_eq!((stand.message.as_str(), stand.ended), ("boom", Some(seconds(6.0))));
    // What is over is not stopped.
    assert!(!ray.stop(&timeline, "j-x", "id", seconds(7.0)));
    let seen = &ray.programs(&timeline, seconds(7.0))[0];
    assert_eq!((seen.state, seen.ended, seen.stopped, seen.by), ("FAILED", Some(6.0), None, "operator"));
}

#[test]
fn people_stop_programs_and_dashboards_fail() {
    let (mut ray, mut timeline, script) =
        (Ray::default(), Timeline::default(), script(serde_json::json!([])));
    runs(&mut timeline, "a");
    submit(&mut ray, &timeline, &script, 1.0);
    ray.happen(Dashboard::Down, seconds(2.0));
    assert_eq!(state(&mut ray, &timeline, 2.0), "silence");
    ray.happen(Dashboard::Up, seconds(3.0));
    assert_eq!(state(&mut ray, &timeline, 3.0), "RUNNING");
    ray.happen(Dashboard::Stop, seconds(4.0));
    assert_eq!(state(&mut ray, &timeline, 4.0), "STOPPED");
    ray.happen(Dashboard::Forget, seconds(5.0));
    assert_eq!(state(&mut ray, &timeline, 5.0), "unknown");
    let seen = &ray.programs(&timeline, seconds(6.0))[0];
    // Not by KubeRay.
    assert_eq!((seen.state, seen.ended, seen.stopped), ("STOPPED", Some(4.0), None));
    assert_eq!(submit(&mut ray, &timeline, &script, 6.0), Some(true));
    assert!(ray.stop(&timeline, "j-x", "id", seconds(7.0)));
    let seen = &ray.programs(&timeline, seconds(8.0))[1];
    assert_eq!((seen.state, seen.ended, seen.stopped), ("STOPPED", Some(7.0), Some(7.0)));
}

/// A pod that submits, and the plan that a script has for it.
fn submitter(entries: serde_json::Value) -> (Submission, Script) {
    let script = script(entries);
    let labels = json!({"ray.io/originated-from-crd": "RayJob", "batch.kubernetes.io/job-name": "j"});
    let variables = json!([
        {"name": "RAY_JOB_SUBMISSION_ID", "value": "id"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": "http://j-x-head-svc.ns.svc.cluster.local:8265"},
    ]);
    let containers = json!([{"name": "main", "env": variables}]);
    let pod = json!({"metadata": {"uid": "s", "labels": labels}, "spec": {"containers": containers}});
    (Submission::of(&pod, &plan_of(&script, &pod)).expect("it submits"), script)
}

fn plan_of(script: &Script, pod: &Value) -> Plan {
    let mut timeline = Timeline::default();
    timeline.created(seconds(0.0), "/p", pod);
    let name: Name = timeline.name(pod["metadata"]["uid"].as_str().expect("a uid")).expect("it was created");
    script.plan(&name)
}

/// Lets it act five times a second, and returns when it ended and how.
fn until(
    (submission, script): &mut (Submission, Script),
    (ray, timeline): (&mut Ray, &Timeline),
    (from, to): (u32, u32),
) -> Option<(f64, i64)> {
    for fifth in from * 5..to * 5 {
        let at = f64::from(fifth) / 5.0;
        if let Some(code) = submission.act((ray, timeline, script), seconds(at), seconds(at)) {
            return Some((at, code));
        }
    }
    None
}

#[test]
fn a_submitter_follows_its_program_to_the_end() {
    let mut pod = submitter(serde_json::json!([]));
    let (mut ray, mut timeline) = (Ray::default(), Timeline::default());
    // It waits for a dashboard.
    assert_eq!(until(&mut pod, (&mut ray, &timeline), (0, 3)), None);
    runs(&mut timeline, "a");
    let end = until(&mut pod, (&mut ray, &timeline), (3, 30));
    // Submitted at 3.0, over at 11.0, seen, and half a second later.
    assert_eq!(end, Some((11.6, 0)));
    assert_eq!(ray.programs(&timeline, seconds(12.0))[0].by, "submitter");
}

#[test]
fn a_submitter_whose_dashboard_goes_ends_as_its_rule_says() {
    for (rule, code) in [
        (serde_json::json!({"role": "submitter", "follow": true}), 1),
        (serde_json::json!({"role": "submitter", "follow": true, "on_loss": 0}), 0),
    ] {
        let mut pod = submitter(serde_json::json!([rule]));
        let (mut ray, mut timeline) = (Ray::default(), Timeline::default());
        runs(&mut timeline, "a");
        assert_eq!(until(&mut pod, (&mut ray, &timeline), (0, 3)), None);
        timeline.changed(seconds(3.0), &head("a"), true);
        assert_eq!(until(&mut pod, (&mut ray, &timeline), (3, 9)), Some((4.0, code)));
    }
}

#[test]
fn a_submitter_may_never_submit() {
    let mut pod = submitter(serde_json::json!([{"role": "submitter", "submit": null, "run": 2}]));
    let (mut ray, mut timeline) = (Ray::default(), Timeline::default());
    runs(&mut timeline, "a");
    // Its pod ends by its plan.
    assert_eq!(until(&mut pod, (&mut ray, &timeline), (0, 9)), None);
    assert!(ray.programs(&timeline, seconds(9.0)).is_empty());
}

#[test]
fn a_head_may_have_a_container_that_submits() {
    let pod = |rule: serde_json::Value| {
        let script = script(serde_json::json!([rule]));
        let mut pod = head("a");
        let variables = json!([{"name": "RAY_JOB_SUBMISSION_ID", "value": "id"}]);
        pod["spec"] =
            json!({"containers": [{"name": "head"}, {"name": "ray-job-submitter", "env": variables}]});
        (Submission::of(&pod, &plan_of(&script, &pod)).expect("it submits"), script)
    };
    let mut timeline = Timeline::default();
    runs(&mut timeline, "a");
    let mut ray = Ray::default();
    let mut follows = pod(serde_json::json!({"role": "worker"}));
    assert_eq!(until(&mut follows, (&mut ray, &timeline), (0, 20)), Some((9.2, 0)));
    assert_eq!(ray.programs(&timeline, seconds(20.0))[0].by, "sidecar");
    let mut fails = pod(
        serde_json::json!({"role": "head", "run": null, "submitter": {"submit": null, "run": 3, "exit": 1}}),
    );
    assert_eq!(until(&mut fails, (&mut Ray::default(), &timeline), (0, 20)), Some((3.0, 1)));
    // A head without one has nothing to submit.
    assert!(Submission::of(&head("a"), &Plan::default()).is_none());
}
