use std::time::Instant;

use super::super::super::cluster::Cluster;
use super::super::super::object::{Object, ObjectStatus};
use super::super::super::pod_set::Owner;
use super::super::super::script::Script;
use super::super::super::time::Clock;
use super::super::super::world::World;
use super::*;
use crate::text::value::{Value, json};

fn job(name: &str, replicas: u32, pods: u32) -> Value {
    json!({"name": name, "replicas": replicas, "template": {"spec": {
        "parallelism": pods, "completions": pods, "backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m"}]}},
    }}})
}

fn job_set(fields: &Value, jobs: &[Value]) -> Value {
    let mut spec = fields.clone();
    spec.as_object_mut().unwrap().insert("replicatedJobs", jobs.to_vec().into());
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"}, "spec": spec,
    })
}

fn run(manifest: &Value, script: &Value, seconds: i64) -> World {
    let script = Script::parse(script).unwrap();
    let mut world = World::with_object(manifest, &[], script, Clock { start: 100 }).unwrap();
    world.run(Time::from_seconds(seconds)).unwrap();
    world
}

fn main_of(world: &World) -> &Object {
    world.cluster.objects.first().unwrap()
}

/// Restarts, and those that count.
fn restarts(world: &World) -> (u32, u32) {
    match &main_of(world).status {
        ObjectStatus::JobSet(status) => (status.restarts, status.restarts_count_towards_max),
        _ => (0, 0),
    }
}

/// Why it ended.
fn reason(world: &World) -> &str {
    let object = main_of(world);
    let end = object.condition("Completed").or_else(|| object.condition("Failed"));
    end.map_or("", |condition| &condition.reason)
}

/// When the Jobs of a name were made, in whole seconds.
fn made(world: &World, name: &str) -> Vec<i64> {
    let jobs = world.cluster.jobs.iter().filter(|job| job.name() == name);
    jobs.map(|job| job.created.millis() / 1_000).collect()
}

#[test]
fn jobs_that_fail_together_cost_one_restart() {
    let manifest = job_set(&json!({"failurePolicy": {"maxRestarts": 3}}), &[job("w", 2, 2)]);
    let script = json!([
        {"role": "w-0", "index": 0, "attempt": 0, "run": 3, "exit": 1},
        {"role": "w-1", "index": 0, "attempt": 0, "run": 3, "exit": 1},
        {"attempt": 0, "run": null},
        {"run": 5},
    ]);
    let world = run(&manifest, &script, 60);
    assert_eq!((restarts(&world), reason(&world)), ((1, 1), "AllJobsCompleted"));
}

#[test]
fn a_job_counts_when_it_failed_and_not_when_its_pod_did() {
    let manifest = job_set(&json!({"failurePolicy": {"maxRestarts": 3}}), &[job("w", 1, 2)]);
    let lost = json!([
        {"index": 0, "attempt": 0, "run": 3, "exit": 1},
        {"index": 1, "run": null, "disrupt": {"after": 2, "cause": "lost"}},
        {"run": 5},
    ]);
    let world = run(&manifest, &lost, 3_600);
    assert_eq!((restarts(&world), reason(&world)), ((0, 0), ""));
}

#[test]
fn max_restarts_counts_attempts_after_the_first() {
    let script = json!([{"run": 2, "exit": 1}]);
    for (policy, attempts, why) in [
        (json!({}), 1, "FailedJobs"),
        (json!({"failurePolicy": {}}), 1, "ReachedMaxRestarts"),
        (json!({"failurePolicy": {"maxRestarts": 2}}), 3, "ReachedMaxRestarts"),
    ] {
        let world = run(&job_set(&policy, &[job("w", 1, 1)]), &script, 60);
        assert_eq!((world.cluster.jobs.len(), reason(&world)), (attempts, why));
    }
}

#[test]
fn only_blocking_recreate_waits_for_the_pods_of_other_jobs() {
    let script = json!([
        {"role": "w-0", "attempt": 0, "run": 3, "exit": 1},
        {"role": "w-1", "attempt": 0, "run": null, "term": {"after": null}},
        {"run": 5},
    ]);
    for (strategy, again) in [("Recreate", 4), ("BlockingRecreate", 34)] {
        let policy = json!({"failurePolicy": {"maxRestarts": 1, "restartStrategy": strategy}});
        let world = run(&job_set(&policy, &[job("w", 2, 1)]), &script, 60);
        assert_eq!(made(&world, "j-w-0"), [0, again]);
        assert_eq!(made(&world, "j-w-1"), [0, 34]);
    }
}

#[test]
fn an_earlier_rule_wins_over_an_earlier_failure() {
    let rules = json!([
        {"name": "end", "action": "FailJobSet", "targetReplicatedJobs": ["b"]},
        {"name": "again", "action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["a"]},
    ]);
    let policy = json!({"failurePolicy": {"maxRestarts": 0, "rules": rules}});
    let manifest = job_set(&policy, &[job("a", 1, 1), job("b", 1, 1)]);
    let fail = |role: &str, run: i64| json!({"role": role, "attempt": 0, "run": run, "exit": 1});
    let alone = json!([fail("a-0", 3), {"run": 20}]);
    let world = run(&manifest, &alone, 60);
    assert_eq!((restarts(&world), reason(&world)), ((1, 0), "AllJobsCompleted"));
    // The controller sees both failures when it comes back.
    let away = json!([
        fail("a-0", 3),
        fail("b-0", 5),
        {"run": 20},
        {"at": 2, "controller": "stop", "which": "operator"},
        {"at": 10, "controller": "start", "which": "operator"},
    ]);
    let world = run(&manifest, &away, 60);
    assert_eq!((restarts(&world), reason(&world)), ((0, 0), "FailJobSetFailurePolicyAction"));
}

#[test]
fn a_rule_looks_at_reasons_and_messages_and_a_bad_pattern_matches_nothing() {
    for (asked, ends) in [
        (json!({"onJobFailureReasons": ["BackoffLimitExceeded"]}), true),
        (json!({"onJobFailureReasons": ["DeadlineExceeded"]}), false),
        (json!({"onJobFailureMessagePatterns": ["^Job has reached .* limit$"]}), true),
        (json!({"onJobFailureMessagePatterns": ["(", "exit code 42"]}), false),
    ] {
        let mut rule = asked.clone();
        rule.as_object_mut().unwrap().insert("action", "FailJobSet".into());
        let policy = json!({"failurePolicy": {"maxRestarts": 1, "rules": [rule]}});
        let world = run(&job_set(&policy, &[job("w", 1, 1)]), &json!([{"run": 2, "exit": 1}]), 60);
        let expected = if ends { "FailJobSetFailurePolicyAction" } else { "ReachedMaxRestarts" };
        assert_eq!(reason(&world), expected, "{asked}");
    }
}

#[test]
fn a_restart_runs_what_is_complete_again() {
    let mut second = job("b", 1, 1);
    second.as_object_mut().unwrap().insert("dependsOn", json!([{"name": "a", "status": "Complete"}]));
    let manifest = job_set(&json!({"failurePolicy": {"maxRestarts": 1}}), &[job("a", 1, 1), second]);
    let script = json!([{"role": "b-0", "attempt": 0, "run": 3, "exit": 1}, {"run": 2}]);
    let world = run(&manifest, &script, 60);
    assert_eq!(made(&world, "j-a-0"), [0, 8]);
    assert_eq!(made(&world, "j-b-0"), [3, 11]);
    assert_eq!(reason(&world), "AllJobsCompleted");
}

#[test]
fn what_depends_on_itself_never_starts() {
    let mut second = job("b", 1, 1);
    second.as_object_mut().unwrap().insert("dependsOn", json!([{"name": "b", "status": "Ready"}]));
    let world = run(&job_set(&json!({}), &[job("a", 1, 1), second]), &json!([{"run": 2}]), 3_600);
    assert_eq!((made(&world, "j-b-0"), reason(&world)), (vec![], ""));
}

#[test]
fn a_failure_is_counted_while_suspended() {
    let manifest = job_set(&json!({"failurePolicy": {"maxRestarts": 1}}), &[job("w", 1, 2)]);
    let script = json!([
        {"index": 0, "attempt": 0, "run": 3, "exit": 1},
        {"run": 5},
        {"at": 4.5, "patch": {"suspend": true}},
    ]);
    let world = run(&manifest, &script, 60);
    assert_eq!(restarts(&world), (1, 1));
    let last = world.cluster.jobs.len() - 1;
    assert!(world.cluster.jobs[last].spec.suspend);
    assert!(world.cluster.pods.iter().all(|pods| world.cluster.owner_of(pods) != Some(Owner::Job(last))));
}

#[test]
fn a_child_that_is_suspended_by_hand_loses_its_pods_and_goes_on() {
    let script = json!([{"run": null}, {"at": 5, "on": "Job/j-w-0", "patch": {"suspend": true}}]);
    let world = run(&job_set(&json!({}), &[job("w", 2, 2)]), &script, 60);
    let started: Vec<(bool, i64)> = world
        .cluster
        .pods
        .iter()
        .map(|pods| (pods.deletion.is_some(), pods.created.millis() / 1_000))
        .collect();
    assert_eq!(started, [(true, 0), (false, 0), (false, 5)]);
    // The Job controller finds it resumed before it says that it is suspended.
    assert!(world.cluster.jobs.iter().all(|job| job.status.conditions.is_empty()));
}

#[test]
fn a_child_that_fails_is_not_ready_for_a_moment_before_it_is_failed() {
    let manifest = job_set(&json!({"startupPolicy": {"startupPolicyOrder": "InOrder"}}), &[job("w", 2, 1)]);
    let world = run(&manifest, &json!([{"role": "w-1", "run": 2, "exit": 1}, {"run": 9}]), 60);
    let conditions = &main_of(&world).conditions;
    let states: Vec<(&str, bool)> =
        conditions.iter().map(|condition| (condition.sort, condition.is_true)).collect();
    let expected = [("StartupPolicyInProgress", true), ("StartupPolicyCompleted", false), ("Failed", true)];
    assert_eq!(states, expected);
}

#[test]
fn a_child_with_a_time_of_its_own_runs_again_while_the_set_is_not_done() {
    let mut short = job("a", 1, 1);
    let spec = short.pointer_mut("/template/spec").and_then(Value::as_object_mut).unwrap();
    spec.insert("ttlSecondsAfterFinished", 2.into());
    let script = json!([{"role": "a-0", "run": 2}, {"run": 14}]);
    let world = run(&job_set(&json!({}), &[short, job("b", 1, 1)]), &script, 60);
    assert_eq!(made(&world, "j-a-0").len(), 4);
    assert_eq!((restarts(&world), reason(&world)), ((0, 0), "AllJobsCompleted"));
}

#[test]
fn a_job_with_parallelism_and_no_completions_is_refused() {
    let mut refused = job("w", 1, 2);
    refused.pointer_mut("/template/spec").and_then(Value::as_object_mut).unwrap().remove("completions");
    let world = run(&job_set(&json!({}), &[refused]), &json!([]), 3_600);
    assert_eq!((world.cluster.jobs.len(), reason(&world)), (0, ""));
}

/// Returns what a release does about a cluster.
fn sync(release: JobSetRelease, cluster: &Cluster, at: Time) -> Vec<Action> {
    let mut controller = JobSetController::new(release);
    controller.start(cluster, at);
    let due = controller.due().unwrap();
    controller.sync(cluster, due)
}

#[test]
fn up_to_0_11_no_condition_says_that_it_restarts() {
    let manifest = job_set(&json!({"failurePolicy": {"maxRestarts": 1}}), &[job("w", 1, 1)]);
    let script = json!([{"run": 2, "exit": 1}, {"at": 1, "controller": "stop", "which": "operator"}]);
    let world = run(&manifest, &script, 20);
    for (release, expected) in
        [(JobSetRelease::V0_11, vec![]), (JobSetRelease::V0_12, vec!["RestartingJobSet"])]
    {
        let actions = sync(release, &world.cluster, Time::from_seconds(20));
        let Some(Action::WriteObject { conditions, .. }) = actions.last() else { panic!("{actions:?}") };
        assert_eq!(conditions.iter().map(|condition| condition.sort).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn up_to_0_11_a_set_takes_the_jobs_of_an_earlier_one_of_its_name() {
    let manifest = job_set(&json!({}), &[job("w", 1, 1)]);
    let script =
        json!([{"run": null}, {"at": 5, "delete": "Background"}, {"at": 5, "create": manifest.clone()}]);
    let script = Script::parse(&script).unwrap();
    let mut world = World::with_object(&manifest, &[], script, Clock { start: 100 }).unwrap();
    world.run(Time::from_seconds(5)).unwrap();
    for (release, makes) in [(JobSetRelease::V0_11, false), (JobSetRelease::V0_12, true)] {
        let actions = sync(release, &world.cluster, Time::from_seconds(5));
        let is_new = |action: &Action| matches!(action, Action::CreateJob(_));
        assert_eq!(actions.iter().any(is_new), makes, "{release:?}");
    }
    // The name is free when the garbage collector was there.
    world.run(Time::from_seconds(10)).unwrap();
    assert_eq!(made(&world, "j-w-0"), [0, 5]);
}

#[test]
fn ten_thousand_pods_and_a_thousand_failures_are_simulated_soon() {
    let manifest = job_set(&json!({"failurePolicy": {"maxRestarts": 1_000}}), &[job("w", 1, 10_000)]);
    let started = Instant::now();
    let script = json!([{"index": 0, "run": 2, "exit": 1}, {"run": null}]);
    let world = run(&manifest, &script, 20_000);
    assert_eq!((restarts(&world), reason(&world)), ((1_000, 1_000), "ReachedMaxRestarts"));
    // It takes less than two seconds; the machine may be busy.
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

#[test]
fn strange_manifests_do_no_harm() {
    let huge = 2_147_483_648_u64;
    let strange = [
        json!({}),
        json!({"replicatedJobs": []}),
        json!({"replicatedJobs": "x", "failurePolicy": 3, "successPolicy": [], "startupPolicy": null}),
        json!({"replicatedJobs": [null, 3, {}, {"name": 5, "replicas": -1, "template": []}]}),
        json!({"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": {"parallelism": -1}}}]}),
        json!({"replicatedJobs": [job("w", 1, 1), job("w", 2, 1)], "ttlSecondsAfterFinished": i64::MAX}),
        json!({"replicatedJobs": [job("w", 1, 1)], "ttlSecondsAfterFinished": i64::MIN}),
        json!({"replicatedJobs": [job("w", 1, 1)], "failurePolicy": {"maxRestarts": -1, "rules": [null, {}]}}),
        json!({"replicatedJobs": [{"name": "w", "dependsOn": [null, {"name": 3, "status": "Ready"}]}]}),
    ];
    for spec in strange {
        let manifest = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec});
        run(&manifest, &json!([{"run": 2, "exit": 1}]), 100);
    }
    let mut many = job("w", 1, 1);
    many["replicas"] = huge.into();
    let manifest = job_set(&json!({}), &[many]);
    let mut world = World::with_object(&manifest, &[], Script::default(), Clock::default()).unwrap();
    assert!(world.run(Time::from_seconds(100)).is_err());
}
