use super::*;
use crate::controllers::pod::{Phase, PodGroup};
use crate::controllers::script::Script;
use crate::controllers::time::Clock;
use crate::controllers::world::World;
use crate::text::value::json;

/// Makes a job: a list of types, each with its number of pods and its restart policy, and a run policy.
fn job(kind: &str, roles: &[(&str, u32, &str)], policy: serde_json::Value) -> Value {
    let row = Kind::find(kind).unwrap();
    let container = serde_json::json!({"name": row.container, "image": "i"});
    let role = |(sort, replicas, restart): &(&str, u32, &str)| {
        let spec = serde_json::json!({"containers": [container]});
        let role = serde_json::json!({
            "replicas": replicas, "restartPolicy": restart, "template": {"spec": spec},
        });
        ((*sort).to_owned(), role)
    };
    let roles: serde_json::Map<String, serde_json::Value> = roles.iter().map(role).collect();
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "j"},
        "spec": {row.field: roles, "runPolicy": policy},
    })
}

fn world_of(manifest: &Value, before: &[Value], script: Script, until: i64) -> World {
    let mut world = World::with_object(manifest, before, script, Clock { start: 100 }).unwrap();
    world.run(Time::from_seconds(until)).unwrap();
    world
}

fn run(manifest: &Value, script: serde_json::Value, until: i64) -> World {
    world_of(manifest, &[], Script::parse(&Value::from(script)).unwrap(), until)
}

/// Returns when a condition became true; nothing where it is not.
fn since(world: &World, sort: &str) -> Option<f64> {
    world.cluster.objects[0].condition(sort).map(|condition| condition.at.seconds())
}

fn ending(world: &World) -> &'static str {
    ["Failed", "Succeeded", "Restarting"].into_iter().find(|sort| since(world, sort).is_some()).unwrap_or("")
}

fn made(world: &World, role: &str) -> u32 {
    let is_of_role = |pods: &&PodGroup| *world.cluster.sets[pods.set].role == *role;
    world.cluster.pods.iter().filter(is_of_role).map(PodGroup::count).sum()
}

#[test]
fn a_drained_worker_restarts_a_job_or_fails_it_by_its_kind_and_policy() {
    let script = serde_json::json!([
        {"role": "worker", "index": 1, "attempt": 0, "run": null, "disrupt": {"after": 3, "cause": "taint"}},
        {"run": null},
    ]);
    for (kind, never, on_failure, exit_code) in [
        ("PyTorchJob", "Failed", "Restarting", "Restarting"),
        ("PaddleJob", "Failed", "Restarting", "Restarting"),
        ("JAXJob", "Failed", "Restarting", "Restarting"),
        ("XGBoostJob", "Failed", "Failed", "Restarting"),
        ("TFJob", "Failed", "Failed", "Failed"),
    ] {
        for (policy, expected) in [("Never", never), ("OnFailure", on_failure), ("ExitCode", exit_code)] {
            let roles = [("Master", 1, policy), ("Worker", 2, policy)];
            let roles = if kind == "JAXJob" { &roles[1..] } else { &roles };
            // The pod is in its grace.
            let world = run(&job(kind, roles, serde_json::json!({})), script.clone(), 4);
            assert_eq!(ending(&world), expected, "{kind} {policy}");
        }
    }
}

#[test]
fn a_job_resumed_while_its_old_pods_are_in_their_grace_fails() {
    let script = |resumed| {
        serde_json::json!([
            {"attempt": 0, "run": null, "term": {"after": 4}},
            {"run": 5},
            {"at": 5, "patch": {"runPolicy": {"suspend": true}}},
            {"at": resumed, "patch": {"runPolicy": {"suspend": false}}},
        ])
    };
    let roles = [("Master", 1, "Never"), ("Worker", 2, "Never")];
    let manifest = job("PyTorchJob", &roles, serde_json::json!({"suspend": false}));
    assert_eq!(since(&run(&manifest, script(7), 30), "Failed").map(f64::floor), Some(7.0));
    assert_eq!(ending(&run(&manifest, script(10), 30)), "Succeeded");
}

#[test]
fn a_pod_that_is_refused_freezes_the_status_until_a_later_try() {
    let limit = json!({
        "kind": "LimitRange", "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]},
    });
    let script = |ends| {
        let script = serde_json::json!([
            {"role": "master", "run": ends},
            {"run": null},
            {"at": 8, "path": "/api/v1/namespaces/$NS/limitranges/l", "delete": "Background"},
        ]);
        Script::parse(&Value::from(script)).unwrap()
    };
    let mut manifest =
        job("PyTorchJob", &[("Master", 1, "Never"), ("Worker", 2, "Never")], serde_json::json!({}));
    let containers = "/spec/pytorchReplicaSpecs/Worker/template/spec/containers";
    *manifest.pointer_mut(containers).unwrap() =
        json!([{"name": "pytorch", "image": "i", "resources": {"limits": {"cpu": "4"}}}]);
    let world = |ends, until| world_of(&manifest, std::slice::from_ref(&limit), script(ends), until);
    let frozen = world(None, 9);
    assert_eq!((frozen.cluster.objects[0].conditions.len(), made(&frozen, "worker")), (0, 0));
    let tried = world(None, 12);
    assert_eq!(since(&tried, "Running").map(f64::floor), Some(10.0));
    // The end of the master is a try as well: it fails, and the next one waits twice as long from then on.
    let late = world(Some(7), 20);
    assert_eq!((since(&late, "Succeeded").map(f64::floor), made(&late, "worker")), (Some(17.0), 2));
}

#[test]
fn backoff_limit_counts_restarts_in_place_and_nothing_else() {
    let roles = [("Master", 1, "OnFailure"), ("Worker", 2, "OnFailure")];
    let manifest = job("PyTorchJob", &roles, serde_json::json!({"backoffLimit": 3}));
    let restarts =
        serde_json::json!([{"role": "worker", "run": null, "restarts": null, "every": 2}, {"run": null}]);
    // Two workers that restart each 2 s: the third restart is at 4 s.
    assert_eq!(since(&run(&manifest, restarts, 30), "Failed").map(f64::floor), Some(4.0));
    let evicted = serde_json::json!([
        {"role": "worker", "run": null, "disrupt": {"after": 2, "cause": "kubelet"}},
        {"run": null},
    ]);
    let world = run(&manifest, evicted, 30);
    assert_eq!(since(&world, "Failed"), None);
    assert!(made(&world, "worker") > 20);
}

#[test]
fn a_deadline_is_asked_for_when_something_else_happens() {
    let roles = [("Master", 1, "OnFailure"), ("Worker", 2, "OnFailure")];
    let manifest = job("TFJob", &roles, serde_json::json!({"activeDeadlineSeconds": 10}));
    let ends = serde_json::json!([{"role": "master", "run": 20}, {"run": null}]);
    let world = run(&manifest, ends, 30);
    assert_eq!((ending(&world), since(&world, "Failed").map(f64::floor)), ("Failed", Some(20.0)));
    let silent = run(&manifest, serde_json::json!([{"run": null}]), 86_400);
    assert_eq!(since(&silent, "Failed"), Some(36_000.0));
}

#[test]
fn what_ends_in_one_moment_is_settled_by_the_order_of_a_map() {
    let script = serde_json::json!([{"role": "worker", "index": 0, "run": 5, "exit": 1}, {"run": 5}]);
    let manifest =
        job("XGBoostJob", &[("Master", 1, "Never"), ("Worker", 2, "Never")], serde_json::json!({}));
    for (map_order, expected) in [(MapOrder::Forward, "Succeeded"), (MapOrder::Backward, "Failed")] {
        let script = Script { map_order, ..Script::parse(&Value::from(script.clone())).unwrap() };
        assert_eq!(ending(&world_of(&manifest, &[], script, 20)), expected);
    }
}

#[test]
fn an_older_release_deletes_all_pods_at_a_limit() {
    let roles = [("Worker", 2, "OnFailure")];
    let script = serde_json::json!([{"run": null, "restarts": null, "every": 2}]);
    let mut world = run(&job("JAXJob", &roles, serde_json::json!({})), script, 5);
    world.cluster.objects[0].manifest = job("JAXJob", &roles, serde_json::json!({"backoffLimit": 1}));
    for (release, is_deleted) in [(Release::V1_9_3, true), (Release::V1_9_4, false)] {
        let mut controller = TrainingController::new(release, MapOrder::Forward);
        controller.start(&world.cluster, Time::START);
        let actions = controller.sync(&world.cluster, Time::from_seconds(5));
        let deletes = actions.iter().any(|action| matches!(action, Action::DeletePods { .. }));
        assert_eq!((deletes, actions.is_empty()), (is_deleted, false), "{release:?}");
    }
}

#[test]
fn a_ttl_needs_a_time_of_the_end_and_no_suspension() {
    let ttl = serde_json::json!({"ttlSecondsAfterFinished": 10});
    let fails = serde_json::json!([{"role": "worker", "run": 3, "exit": 1}, {"run": null}]);
    let gone = |manifest: &Value, script: &serde_json::Value| {
        run(manifest, script.clone(), 60).cluster.objects[0].gone.map(|gone| gone.seconds().floor())
    };
    let roles = [("Master", 1, "ExitCode"), ("Worker", 1, "ExitCode")];
    // Only TFJob writes when it ended by a permanent exit code.
    assert_eq!(gone(&job("PyTorchJob", &roles, ttl.clone()), &fails), None);
    assert_eq!(gone(&job("TFJob", &roles, ttl.clone()), &fails), Some(12.0));
    let suspended = serde_json::json!([
        {"run": 3},
        {"at": 5, "patch": {"runPolicy": {"suspend": true}}},
        {"at": 30, "patch": {"runPolicy": {"suspend": false}}},
    ]);
    assert_eq!(gone(&job("TFJob", &roles, ttl), &suspended), Some(30.0));
}

#[test]
fn the_webhook_refuses_some_changes() {
    let old = job("PyTorchJob", &[("Master", 1, "Never"), ("Worker", 2, "Never")], serde_json::json!({}));
    let change = |patch: serde_json::Value| {
        let mut new = old.clone();
        crate::text::patch::merge(&mut new, &Value::from(serde_json::json!({"spec": patch})));
        admits("PyTorchJob", &old, &new)
    };
    for (patch, is_taken) in [
        (serde_json::json!({"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}), true),
        (serde_json::json!({"pytorchReplicaSpecs": {"Worker": {"replicas": 0}}}), false),
        (serde_json::json!({"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}), false),
        (
            serde_json::json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}}),
            false,
        ),
        (serde_json::json!({"runPolicy": {"managedBy": "example.com/x"}}), false),
        // Its webhook compares the new object with itself.
        (serde_json::json!({"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}), true),
    ] {
        assert_eq!(change(patch.clone()), is_taken, "{patch}");
    }
}

#[test]
fn strange_manifests_are_survived() {
    let odd = [
        serde_json::json!(null),
        serde_json::json!(-1),
        serde_json::json!(2_147_483_648_u64),
        serde_json::json!(1e300),
        serde_json::json!("x"),
        serde_json::json!([]),
        serde_json::json!([null]),
        serde_json::json!({}),
    ];
    let fields = [
        "/spec",
        "/spec/pytorchReplicaSpecs",
        "/spec/pytorchReplicaSpecs/Worker",
        "/spec/pytorchReplicaSpecs/Worker/replicas",
        "/spec/pytorchReplicaSpecs/Worker/template",
        "/spec/pytorchReplicaSpecs/Worker/template/spec/containers",
        "/spec/pytorchReplicaSpecs/Worker/restartPolicy",
        "/spec/runPolicy",
        "/spec/runPolicy/backoffLimit",
        "/spec/runPolicy/activeDeadlineSeconds",
        "/spec/runPolicy/ttlSecondsAfterFinished",
        "/metadata/name",
    ];
    let policy =
        serde_json::json!({"backoffLimit": 3, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 3});
    let plain = job("PyTorchJob", &[("Master", 1, "ExitCode"), ("Worker", 2, "ExitCode")], policy);
    for field in fields {
        for value in &odd {
            let mut manifest = plain.clone();
            *manifest.pointer_mut(field).unwrap() = Value::from(value.clone());
            let script = serde_json::json!([{"run": 3, "exit": 137}, {"at": 5, "patch": {"runPolicy": {"suspend": true}}}]);
            run(&manifest, script, 20);
        }
    }
}

#[test]
fn ten_thousand_pods_cost_no_more_than_what_happens_to_them() {
    let mut script: Vec<serde_json::Value> = (0..1_000_u32)
        .map(|nth| {
            let after = f64::from(nth) / 100.0;
            serde_json::json!({
                "index": nth * 7, "attempt": 0, "run": null, "disrupt": {"after": after, "cause": "kubelet"},
            })
        })
        .collect();
    script.push(serde_json::json!({"run": null}));
    let manifest = job("JAXJob", &[("Worker", 10_000, "OnFailure")], serde_json::json!({}));
    let begun = std::time::Instant::now();
    let world = run(&manifest, serde_json::Value::Array(script), 60);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    assert_eq!(made(&world, "worker"), 11_000);
    let running =
        world.cluster.pods.iter().filter(|pods| pods.phase == Phase::Running && pods.gone.is_none());
    assert_eq!(running.map(PodGroup::count).sum::<u32>(), 10_000);
}

/// The recordings have both for one scenario (`b-q-force-*-never` of `operator-either.jsonl`).
#[test]
fn a_pod_is_made_once_more_where_the_end_is_seen_late() {
    let script = json!([
        {"role": "worker", "attempt": 0, "run": null, "disrupt": {"after": 5, "cause": "force"}}, {"run": 14},
    ]);
    let job = job("PyTorchJob", &[("Master", 1, "Never"), ("Worker", 1, "Never")], serde_json::json!({}));
    for (lag, pods) in [(0, 1), (40, 2)] {
        let mut script = Script::parse(&script).unwrap();
        script.end_lag = Time::from_millis(lag);
        let world = world_of(&job, &[], script, 25);
        let object = &world.cluster.objects[0];
        assert!(object.conditions.iter().any(|one| one.sort == "Failed" && one.is_true), "{lag}");
        let is_worker = |pods: &&PodGroup| &*world.cluster.sets[pods.set].role == "worker";
        let workers: Vec<&PodGroup> = world.cluster.pods.iter().filter(is_worker).collect();
        assert_eq!(workers.len(), pods, "{lag}");
        if lag > 0 {
            assert_eq!(workers[1].phase, Phase::Succeeded);
        }
    }
}
