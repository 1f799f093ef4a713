use super::super::super::indexes::Indexes;
use super::super::super::object::{MpiStatus, ObjectStatus};
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::script::Script;
use super::super::super::time::Clock;
use super::super::super::world::World;
use super::super::Settings;
use super::*;
use crate::text::patch::merge;
use crate::text::value::json;

/// An MPIJob of two workers with a change.
fn job(patch: &Value) -> Value {
    let template = json!({"spec": {"containers": [{"name": "mpi", "image": "i"}]}});
    let mut job = json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "j"},
        "spec": {"mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template.clone()},
            "Worker": {"replicas": 2, "template": template},
        }},
    });
    merge(&mut job, &json!({ "spec": patch.clone() }));
    job
}

fn run_release(job: &Value, script: &Value, until: i64, mpi: MpiRelease) -> World {
    let script = Script::parse(script).expect("a script");
    let settings = Settings { mpi, ..Settings::default() };
    let clock = Clock { start: 100 };
    let mut world = World::with_operators(job, &[], script, clock, &settings).expect("an operator");
    world.run(Time::from_seconds(until)).expect("an end");
    world
}

fn run(job: &Value, script: &Value, until: i64) -> World {
    run_release(job, script, until, MpiRelease::default())
}

fn status(world: &World) -> &MpiStatus {
    match &world.cluster.objects.first().expect("the MPIJob").status {
        ObjectStatus::Mpi(status) => status,
        other => panic!("{other:?}"),
    }
}

/// The conditions that are true, with their reasons.
fn conditions(world: &World) -> Vec<String> {
    let conditions = &world.cluster.objects.first().expect("the MPIJob").conditions;
    let is_true = conditions.iter().filter(|condition| condition.is_true);
    is_true.map(|condition| format!("{} {}", condition.sort, condition.reason)).collect()
}

fn pods<'a>(world: &'a World, role: &str) -> Vec<&'a PodGroup> {
    let is_of = |pods: &&PodGroup| world.cluster.set_of(pods).is_some_and(|set| *set.role == *role);
    world.cluster.pods.iter().filter(is_of).collect()
}

fn count(world: &World, role: &str) -> u32 {
    pods(world, role).iter().map(|pods| pods.count()).sum()
}

#[test]
fn a_worker_that_ended_is_not_replaced_and_a_deleted_one_is() {
    let ended = json!([{"role": "worker", "index": 0, "run": 4, "exit": 1}, {"run": null}]);
    let world = run(&job(&json!({})), &ended, 60);
    assert_eq!(count(&world, "worker"), 2);
    assert_eq!(conditions(&world), ["Created MPIJobCreated", "Running MPIJobRunning"]);
    let disrupt = json!({"after": 4, "cause": "delete"});
    let deleted =
        json!([{"role": "worker", "index": 0, "attempt": 0, "run": null, "disrupt": disrupt}, {"run": null}]);
    assert_eq!(count(&run(&job(&json!({})), &deleted, 60), "worker"), 3);
}

#[test]
fn an_evicted_worker_fails_the_job_and_ends_nothing() {
    let script = json!([
        {"role": "worker", "index": 0, "run": null, "disrupt": {"after": 4, "cause": "kubelet"}},
        {"role": "launcher", "run": 15},
        {"run": null},
    ]);
    let job = job(&json!({"runPolicy": {"cleanPodPolicy": "All"}}));
    let before = run(&job, &script, 12);
    assert_eq!(conditions(&before), ["Created MPIJobCreated", "Failed MPIJobEvicted"]);
    assert_eq!(status(&before).completion, None);
    assert!(before.cluster.pods.iter().all(|pods| pods.deletion.is_none()));
    let after = run(&job, &script, 30);
    assert_eq!(conditions(&after), ["Created MPIJobCreated", "Succeeded MPIJobSucceeded"]);
    assert!(pods(&after, "worker").iter().all(|pods| pods.gone.is_some()));
}

#[test]
fn a_launcher_at_its_limit_fails_the_job_with_the_reason_of_its_youngest_failed_pod() {
    let failed = |plan: Value| {
        let script = json!([plan, {"run": null}]);
        let world = run(&job(&json!({"runPolicy": {"backoffLimit": 0}})), &script, 60);
        conditions(&world).pop().expect("a condition")
    };
    let disrupted = |cause: &str| {
        failed(json!({"role": "launcher", "run": null, "disrupt": {"after": 4, "cause": cause}}))
    };
    assert_eq!(failed(json!({"role": "launcher", "run": 4, "exit": 1})), "Failed BackoffLimitExceeded/");
    assert_eq!(disrupted("kubelet"), "Failed BackoffLimitExceeded/Evicted");
    // Its object is gone.
    assert_eq!(disrupted("evict"), "Failed BackoffLimitExceeded");
}

#[test]
fn a_suspension_makes_the_wait_for_workers_void() {
    let policy = |suspend: bool| {
        job(&json!({"launcherCreationPolicy": "WaitForWorkersReady", "runPolicy": {"suspend": suspend}}))
    };
    let workers = json!({"role": "worker", "start": 5, "run": null});
    let waited = run(&policy(false), &json!([workers.clone(), {"run": null}]), 20);
    let launcher = pods(&waited, "launcher").first().map(|pods| pods.created.millis() / 1_000);
    assert_eq!(launcher, Some(5));
    let resume = json!({"at": 6, "patch": {"runPolicy": {"suspend": false}}});
    let resumed = run(&policy(true), &json!([workers, {"run": null}, resume]), 20);
    let launcher = pods(&resumed, "launcher").first().map(|pods| pods.created.millis() / 1_000);
    assert_eq!(launcher, Some(6));
}

#[test]
fn a_launcher_that_counts_as_a_worker_shifts_the_labels_and_one_worker_too_many_goes() {
    let job = job(&json!({"runLauncherAsWorker": true, "mpiReplicaSpecs": {"Worker": {"replicas": 3}}}));
    let fewer = json!({"at": 5, "patch": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}});
    let world = run(&job, &json!([{"run": null}, fewer]), 20);
    let of = |goes: bool| -> Indexes {
        let pods = pods(&world, "worker").into_iter().filter(|pods| pods.gone.is_some() == goes);
        pods.map(|pods| &pods.members).collect()
    };
    assert_eq!((of(true), of(false)), (Indexes::from_range(2, 3), Indexes::from_range(1, 2)));
}

#[test]
fn later_releases_wait_for_the_end_of_a_launcher_in_deletion() {
    let script = json!([
        {"role": "launcher", "attempt": 0, "run": null, "disrupt": {"after": 4, "cause": "delete"},
         "term": {"after": 3, "code": 0}},
        {"role": "launcher", "run": 5},
        {"run": null},
    ]);
    let launchers = |release| {
        let world = run_release(&job(&json!({})), &script, 60, release);
        assert!(conditions(&world).contains(&"Succeeded MPIJobSucceeded".to_owned()), "{release:?}");
        count(&world, "launcher")
    };
    assert_eq!((launchers(MpiRelease::V0_8_0), launchers(MpiRelease::V0_8_1)), (2, 1));
}

#[test]
fn later_releases_do_not_say_running_beside_failed() {
    let script = json!([
        {"role": "worker", "index": 0, "attempt": 0, "run": null, "disrupt": {"after": 4, "cause": "kubelet"}},
        {"run": null},
        {"at": 8, "on": "Pod/worker/0", "delete": "Background"},
    ]);
    let says = |release| conditions(&run_release(&job(&json!({})), &script, 20, release)).join(", ");
    assert_eq!(
        says(MpiRelease::V0_8_0),
        "Created MPIJobCreated, Running MPIJobRunning, Failed MPIJobEvicted"
    );
    assert_eq!(says(MpiRelease::V0_8_1), "Created MPIJobCreated, Failed MPIJobEvicted");
}

#[test]
fn while_pods_are_refused_nothing_is_said_and_events_wait_as_long_as_the_next_try() {
    let script = json!([
        {"run": null},
        {"at": 0, "refusePods": true},
        {"at": 6, "patch": {"runPolicy": {"suspend": true}}},
    ]);
    let at = |until| conditions(&run(&job(&json!({})), &script, until)).join(", ");
    assert_eq!(at(9), "");
    assert_eq!(at(12), "Created MPIJobCreated, Suspended MPIJobSuspended");
}

#[test]
fn what_is_invalid_or_another_s_is_left_alone() {
    for patch in [
        json!({"mpiReplicaSpecs": {"Launcher": {"replicas": 2}}}),
        json!({"mpiReplicaSpecs": {"Launcher": {"restartPolicy": "Always"}}}),
        json!({"mpiReplicaSpecs": {"Launcher": null}}),
        json!({"mpiReplicaSpecs": {"Worker": {"replicas": 0}}}),
        json!({"mpiReplicaSpecs": {"Worker": {"replicas": -1}}}),
        json!({"mpiReplicaSpecs": {"Worker": {"replicas": "two"}}}),
        json!({"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}}),
        json!({"mpiReplicaSpecs": 3}),
        json!({"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
        json!({"runPolicy": {"backoffLimit": -1}}),
        json!({"runPolicy": {"cleanPodPolicy": "Sometimes"}}),
        json!({"mpiImplementation": "LAM"}),
    ] {
        let world = run(&job(&patch), &json!([{"run": null}]), 20);
        assert!(world.cluster.pods.is_empty() && conditions(&world).is_empty(), "{patch:?}");
    }
    let mut other = job(&json!({}));
    merge(&mut other, &json!({"apiVersion": "kubeflow.org/v1"}));
    assert!(World::with_object(&other, &[], Script::default(), Clock::default()).is_none());
    let nameless = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": 3}});
    assert!(run(&nameless, &json!([]), 20).cluster.pods.is_empty());
}

#[test]
fn thousands_of_workers_and_failures_take_little() {
    let many = job(&json!({"mpiReplicaSpecs": {"Worker": {"replicas": 10_000}}}));
    let disrupt = json!({"after": 4, "cause": "delete"});
    let mut script = vec![json!({"role": "worker", "index": [0, 8_999], "run": null})];
    for nth in 0..1_000 {
        let term = json!({"after": 1 + nth % 20, "code": 1});
        let index = 9_000 + nth;
        let plan = json!({"role": "worker", "index": index, "attempt": 0, "run": null, "disrupt": disrupt.clone(), "term": term});
        script.push(plan);
    }
    script.push(json!({"run": null}));
    let world = run(&many, &Value::Array(script), 60);
    assert_eq!(count(&world, "worker"), 11_000);
    let largest = job(&json!({"mpiReplicaSpecs": {"Worker": {"replicas": 2_147_483_648_i64}}}));
    assert_eq!(count(&run(&largest, &json!([{"run": null}]), 20), "worker"), i32::MAX.unsigned_abs());
    assert!(pods(&world, "worker").iter().all(|pods| pods.phase != Phase::Pending));
}
