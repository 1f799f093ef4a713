//! The rules of Volcano that stories depend on, each in a small world.

use std::time::{Duration, Instant};

use super::super::super::object::{JobPhase, ObjectStatus, VolcanoStatus};
use super::super::super::script::Script;
use super::super::super::script::TimedActions;
use super::super::super::time::{Clock, Time};
use super::super::super::world::World;
use crate::text::value::{Value, json};

/// Lets a job happen for a time.
fn world(spec: Value, script: Value, seconds: i64) -> World {
    timed_world(spec, script, seconds, TimedActions::default())
}

fn timed_world(spec: Value, script: Value, seconds: i64, timed: TimedActions) -> World {
    let manifest = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec,
    });
    let script = Script::parse(&script).unwrap();
    let mut world = World::with_object(&manifest, &[], script, Clock { start: 100 }).unwrap();
    world.cluster.timed_actions = timed;
    world.run(Time::from_seconds(seconds)).unwrap();
    world
}

fn status(world: &World) -> &VolcanoStatus {
    match &world.cluster.objects[0].status {
        ObjectStatus::Volcano(status) => status,
        other => panic!("{other:?}"),
    }
}

/// Returns the phase, the retries, and how many pods each index of a task has had.
fn outcome(world: &World, task: &str, pods: u32) -> (JobPhase, u32, Vec<usize>) {
    let of_task = |set: usize| *world.cluster.sets[set].role == *task;
    let made = |index| {
        let groups = world.cluster.pods.iter().filter(|group| of_task(group.set));
        groups.filter(|group| group.members.iter().any(|member| member == index)).count()
    };
    (status(world).phase, status(world).retry_count, (0..pods).map(made).collect())
}

fn task(name: &str, replicas: i64) -> Value {
    let container = json!({"name": "m", "image": "i"});
    let pod =
        json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "containers": [container]});
    json!({"name": name, "replicas": replicas, "template": {"spec": pod}})
}

fn policy(event: &str, action: &str) -> Value {
    json!([{"event": event, "action": action}])
}

#[test]
fn max_retry_counts_runs_and_the_last_pods_stay() {
    let spec = json!({"tasks": [task("w", 2)], "policies": policy("PodFailed", "RestartJob"), "maxRetry": 2});
    let world = world(spec, json!([{"index": 0, "run": 3, "exit": 1}, {"run": 60}]), 40);
    assert_eq!(outcome(&world, "w", 2), (JobPhase::Failed, 2, vec![2, 2]));
    let last = world.cluster.pods.iter().filter(|pods| pods.attempt == 1);
    assert!(last.clone().any(|pods| pods.gone.is_none()) && last.clone().any(|pods| pods.gone.is_some()));
}

#[test]
fn all_restarts_share_one_counter() {
    let spec = json!({"tasks": [task("w", 4)], "policies": policy("PodFailed", "RestartPod"), "maxRetry": 3});
    let script = json!([
        {"index": 0, "attempt": 0, "run": 3, "exit": 1}, {"index": 1, "attempt": 0, "run": 8, "exit": 1},
        {"index": 2, "attempt": 0, "run": 13, "exit": 1}, {"run": 30},
    ]);
    assert_eq!(outcome(&world(spec, script, 40), "w", 4), (JobPhase::Failed, 3, vec![2, 2, 1, 1]));
}

#[test]
fn a_pod_that_goes_without_a_policy_is_made_again_uncounted() {
    let deletions = (0..10).map(|nth| json!({"at": 3 + nth * 3, "on": "Pod/w/0", "delete": "Background"}));
    let script: Vec<Value> = std::iter::once(json!({"run": 60})).chain(deletions).collect();
    let world = world(json!({"tasks": [task("w", 1)]}), Value::from(script), 50);
    assert_eq!(outcome(&world, "w", 1), (JobPhase::Running, 0, vec![11]));
}

#[test]
fn a_pod_that_dies_of_its_deletion_has_failed_before_it_is_evicted() {
    let spec = |exit: i64| {
        let policies = json!([
            {"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "TerminateJob"},
        ]);
        let script = json!([
            {"attempt": 0, "run": 60, "term": {"after": 1, "code": exit}}, {"run": 60},
            {"at": 5, "on": "Pod/w/0", "delete": "Background"},
        ]);
        let world = world(json!({"tasks": [task("w", 2)], "policies": policies}), script, 20);
        (status(&world).phase, status(&world).retry_count)
    };
    assert_eq!(spec(143), (JobPhase::Terminated, 0));
    assert_eq!(spec(0), (JobPhase::Running, 1));
}

#[test]
fn the_task_comes_before_the_job_and_only_the_first_container_has_an_exit_code() {
    let mut first = task("w", 1);
    first["policies"] = json!([{"exitCode": 3, "action": "AbortJob"}]);
    let container = |name: &str| json!({"name": name, "image": "i"});
    first["template"]["spec"]["containers"] = json!([container("m"), container("side")]);
    let phase = |exit: Value| {
        let spec = json!({"tasks": [first], "policies": policy("PodFailed", "CompleteJob")});
        status(&world(spec, json!([{"run": 3, "exit": exit}]), 20)).phase
    };
    assert_eq!(phase(json!({"m": 3, "side": 1})), JobPhase::Aborted);
    assert_eq!(phase(json!({"m": 1, "side": 3})), JobPhase::Completed);
}

#[test]
fn a_partition_restarts_alone() {
    let mut workers = task("w", 4);
    workers["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 2});
    let spec = json!({"tasks": [workers], "policies": policy("PodFailed", "RestartPartition")});
    let script = json!([{"index": 3, "attempt": 0, "run": 3, "exit": 1}, {"run": 10}]);
    assert_eq!(outcome(&world(spec, script, 30), "w", 4), (JobPhase::Completed, 1, vec![1, 1, 2, 2]));
}

#[test]
fn a_task_waits_for_those_that_it_depends_on_and_a_job_for_its_pod_group() {
    let mut worker = task("b", 1);
    worker["dependsOn"] = json!({"name": ["a"]});
    let script = json!([{"podgroup": 0, "inqueue": 4}, {"role": "a", "start": 3, "run": 10}]);
    let world = world(json!({"tasks": [task("a", 1), worker]}), script, 30);
    let made = world.cluster.pods.iter().map(|pods| pods.created.millis() / 1_000);
    assert_eq!(made.collect::<Vec<_>>(), [4, 7]);
    assert_eq!(status(&world).phase, JobPhase::Completed);
}

#[test]
fn a_timed_action_takes_effect_or_is_lost() {
    let spec = |action: &str, timeout: &str| {
        let policies = json!([{"event": "PodPending", "action": action, "timeout": timeout}]);
        json!({"tasks": [task("w", 3)], "policies": policies})
    };
    let script = || json!([{"index": 0, "attempt": 0, "start": null}, {"run": 8}]);
    let run = |timed| outcome(&timed_world(spec("AbortJob", "5s"), script(), 30, timed), "w", 3);
    assert_eq!(run(TimedActions::Taken), (JobPhase::Aborted, 0, vec![1, 1, 1]));
    // All pods die, and nobody knows why.
    assert_eq!(run(TimedActions::Lost), (JobPhase::Completed, 0, vec![2, 2, 2]));
    assert_eq!(run(TimedActions::Likely), run(TimedActions::Lost));
    // A request about some pods is not outdated: it comes again, and kills the healthy successor.
    let again = timed_world(spec("RestartPod", "5s"), script(), 14, TimedActions::Lost);
    assert_eq!(outcome(&again, "w", 3), (JobPhase::Running, 0, vec![3, 1, 1]));
}

#[test]
fn a_controller_that_was_away_knows_of_no_failure_and_takes_running_pods_for_pending_ones() {
    let away = |restart: &str| json!({"at": 3, "controller": restart});
    let spec = json!({"tasks": [task("w", 2)], "policies": policy("PodFailed", "RestartJob")});
    let script = json!([{"index": 0, "run": 4, "exit": 1}, {"run": 20}, away("stop-x"), {"at": 8, "controller": "start-x"}]);
    assert_eq!(outcome(&world(spec, script, 30), "w", 2), (JobPhase::Failed, 0, vec![1, 1]));
    let policies = json!([{"event": "PodPending", "action": "RestartJob", "timeout": "6s"}]);
    let spec = json!({"tasks": [task("w", 1)], "policies": policies});
    let restarted = world(spec, json!([{"run": 60}, away("restart-x")]), 20);
    assert_eq!(outcome(&restarted, "w", 1), (JobPhase::Running, 1, vec![2]));
}

#[test]
fn a_command_waits_for_the_controller_and_a_resumed_job_has_used_a_retry() {
    let script = json!([
        {"run": 60}, {"at": 3, "controller": "stop-x"}, {"at": 4, "command": "AbortJob"},
        {"at": 8, "controller": "start-x"}, {"at": 15, "command": "ResumeJob"},
    ]);
    let world = world(json!({"tasks": [task("w", 1)]}), script, 20);
    assert_eq!(outcome(&world, "w", 1), (JobPhase::Running, 1, vec![2]));
}

#[test]
fn what_is_refused_again_and_again_ends_in_a_termination() {
    let world = world(json!({"tasks": [task("w", 2)]}), json!([{"at": 0, "refusePods": true}]), 200);
    assert_eq!(outcome(&world, "w", 2), (JobPhase::Terminated, 0, vec![0, 0]));
    assert_eq!(status(&world).transition, Time::from_millis(163_900));
}

#[test]
fn a_finished_job_is_deleted_and_the_webhook_takes_few_changes() {
    let spec = json!({"tasks": [task("w", 2)], "ttlSecondsAfterFinished": 5});
    let script = json!([{"at": 2, "patch": {"ttlSecondsAfterFinished": 100}}]);
    let world = world(spec, script, 30);
    let gone = world.cluster.objects[0].gone.unwrap();
    assert!((Time::from_millis(10_900)..Time::from_millis(11_500)).contains(&gone), "{gone}");
}

#[test]
fn strange_manifests_do_no_harm() {
    let huge = i64::from(i32::MAX) + 1;
    let mut depends = task("w", 2);
    depends["dependsOn"] = json!({"name": ["nobody", 4], "iteration": 7});
    for spec in [
        json!(null),
        json!("text"),
        json!({"tasks": 3}),
        json!({"tasks": [null, 7, {"name": 4}, {"replicas": -5}], "policies": [null, {}, {"action": 1}]}),
        json!({"tasks": [task("w", huge), task("x", huge)], "policies": policy("*", "RestartTask")}),
        json!({"tasks": [task("w", huge)], "policies": policy("PodFailed", "RestartPod"), "minAvailable": -huge}),
        json!({"tasks": [task("w", 2), task("w", 1)], "maxRetry": -1, "minSuccess": -3}),
        json!({"tasks": [depends], "policies": [{"event": "*", "action": "RestartJob", "timeout": "-3s"}]}),
        json!({"tasks": [], "policies": policy("*", "AbortJob"), "ttlSecondsAfterFinished": huge}),
    ] {
        world(spec, json!([{"run": 3, "exit": 1}, {"at": 2, "command": "Nonsense"}]), 30);
    }
}

#[test]
fn ten_thousand_pods_with_a_thousand_failures_are_soon_done() {
    let spec = json!({"tasks": [task("w", 10_000)], "policies": policy("PodFailed", "RestartPod"), "maxRetry": 5_000});
    let failures = (0..1_000).map(|nth| json!({"index": nth, "attempt": 0, "run": 10 + nth * 2, "exit": 1}));
    let script: Vec<Value> = failures.chain([json!({"run": 10_000})]).collect();
    let begun = Instant::now();
    let world = world(spec, Value::from(script), 2_100);
    let took = begun.elapsed();
    assert_eq!((status(&world).phase, status(&world).retry_count), (JobPhase::Running, 1_000));
    // About three seconds of one core.
    assert!(took < Duration::from_secs(60), "{took:?}");
}
