use super::super::super::meta::Propagation;
use super::super::super::object::ObjectStatus;
use super::super::super::script::Script;
use super::super::super::time::Clock;
use super::super::super::world::World;
use super::*;
use crate::text::value::{Value, json};

fn runtime(fields: &Value) -> Value {
    let mut spec = fields.clone();
    spec.as_object_mut().unwrap().insert(
        "replicatedJobs",
        json!([{
            "name": "node",
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"backoffLimit": 0, "template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "node"}],
                }}},
            },
        }]),
    );
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": "r"},
        "spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": spec}},
    })
}

fn train_job(fields: &Value) -> Value {
    let mut spec = fields.clone();
    if spec.get("runtimeRef").is_none() {
        let reference = json!({"name": "r", "kind": "TrainingRuntime"});
        spec.as_object_mut().unwrap().insert("runtimeRef", reference);
    }
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "j"}, "spec": spec,
    })
}

fn run(fields: &Value, of_runtime: &Value, script: &Value, seconds: i64) -> World {
    let script = Script::parse(script).unwrap();
    let before = [runtime(of_runtime)];
    let mut world = World::with_object(&train_job(fields), &before, script, Clock { start: 100 }).unwrap();
    world.run(Time::from_seconds(seconds)).unwrap();
    world
}

fn main_of(world: &World) -> &Object {
    world.cluster.objects.iter().find(|object| object.kind == "TrainJob").unwrap()
}

/// The end and its reason.
fn end(world: &World) -> (&str, &str) {
    let object = main_of(world);
    let end = object.condition("Complete").or_else(|| object.condition("Failed"));
    end.map_or(("", ""), |condition| (condition.sort, &*condition.reason))
}

fn job_sets(world: &World) -> usize {
    world.cluster.objects.iter().filter(|object| object.kind == "JobSet").count()
}

#[test]
fn restarts_of_its_job_set_do_not_move_its_deadline() {
    let fails = json!([{"index": 0, "run": 2, "exit": 1}, {"run": null}]);
    let world =
        run(&json!({"activeDeadlineSeconds": 10}), &json!({"failurePolicy": {"maxRestarts": 9}}), &fails, 60);
    assert_eq!(end(&world), ("Failed", "DeadlineExceeded"));
    let gone = world.cluster.objects.iter().find(|object| object.kind == "JobSet").and_then(|one| one.gone);
    assert_eq!(gone.map(|at| at.millis() / 100), Some(99));
}

#[test]
fn what_resumes_has_its_deadline_anew() {
    let script = json!([{"run": null}, {"at": 3, "patch": {"suspend": true}}, {"at": 20, "patch": {"suspend": false}}]);
    let world = run(&json!({"activeDeadlineSeconds": 10}), &json!({}), &script, 60);
    let failed = main_of(&world).condition("Failed").unwrap();
    assert_eq!((failed.at.millis() / 100, &*failed.reason), (299, "DeadlineExceeded"));
}

#[test]
fn what_failed_is_made_again_when_its_job_set_goes_and_what_is_complete_is_not() {
    let ttl = json!({"ttlSecondsAfterFinished": 5});
    let world = run(&json!({}), &ttl, &json!([{"index": 0, "run": 2, "exit": 1}, {"run": null}]), 50);
    assert_eq!(job_sets(&world), 5);
    let world = run(&json!({}), &ttl, &json!([{"run": 3}]), 60);
    assert_eq!((job_sets(&world), end(&world)), (1, ("Complete", "AllJobsCompleted")));
}

/// Returns whether a release makes a JobSet in a cluster.
fn makes_one(release: TrainerRelease, world: &World) -> bool {
    let at = Time::from_seconds(60);
    let mut controller = TrainJobController::new(release);
    controller.start(&world.cluster, at);
    let due = controller.due().unwrap();
    let actions = controller.sync(&world.cluster, due);
    actions.iter().any(|action| matches!(action, Action::CreateObject(_)))
}

#[test]
fn up_to_2_1_what_is_complete_runs_again() {
    let world = run(&json!({}), &json!({"ttlSecondsAfterFinished": 5}), &json!([{"run": 3}]), 60);
    assert_eq!(
        [TrainerRelease::V2_1, TrainerRelease::V2_2, TrainerRelease::V2_3].map(|one| makes_one(one, &world)),
        [true, false, false]
    );
}

#[test]
fn up_to_2_2_an_edited_runtime_reaches_a_job_set_that_is_made_again() {
    let script = json!([
        {"run": null},
        {"at": 2, "on": "TrainingRuntime/r", "patch": {"mlPolicy": {"numNodes": 5}}},
        {"at": 3, "controller": "stop", "which": "operator"},
        {"at": 4, "on": "JobSet/j", "delete": "Foreground"},
    ]);
    let world = run(&json!({}), &json!({}), &script, 30);
    let at = Time::from_seconds(30);
    for (release, nodes) in [(TrainerRelease::V2_2, 5), (TrainerRelease::V2_3, 2)] {
        let mut controller = TrainJobController::new(release);
        let number = world.cluster.objects.iter().position(|object| object.kind == "TrainJob").unwrap();
        controller.snapshots.insert(number, runtime(&json!({})).get("spec").unwrap().clone());
        controller.start(&world.cluster, at);
        let due = controller.due().unwrap();
        let actions = controller.sync(&world.cluster, due);
        let Some(Action::CreateObject(job_set)) = actions.first() else { panic!("{actions:?}") };
        let pods =
            job_set.spec().pointer("/replicatedJobs/0/template/spec/parallelism").and_then(Value::as_i64);
        assert_eq!(pods, Some(nodes), "{release:?}");
    }
}

#[test]
fn shipped_runtimes_have_nodes_launchers_and_initializers() {
    for (name, expected) in [
        ("torch-distributed", vec![("node-0", 4)]),
        ("deepspeed-distributed", vec![("launcher-0", 1), ("node-0", 3)]),
        (
            "torchtune-llama3.2-1b",
            vec![("dataset-initializer-0", 1), ("model-initializer-0", 1), ("node-0", 4)],
        ),
    ] {
        let manifest = train_job(&json!({"runtimeRef": {"name": name}, "trainer": {"numNodes": 4}}));
        let script = Script::parse(&json!([{"run": 3}])).unwrap();
        let mut world = World::with_object(&manifest, &[], script, Clock { start: 100 }).unwrap();
        world.run(Time::from_seconds(60)).unwrap();
        let mut pods: Vec<(&str, u32)> = world
            .cluster
            .pods
            .iter()
            .map(|pods| (&*world.cluster.set_of(pods).unwrap().role, pods.count()))
            .collect();
        pods.sort_unstable();
        assert_eq!(pods, expected);
        assert_eq!(end(&world), ("Complete", "AllJobsCompleted"), "{name}");
        assert!(matches!(main_of(&world).status, ObjectStatus::Train(_)));
    }
}

#[test]
fn ranks_are_the_pods_that_run_together() {
    for (name, ranks) in
        [("torch-distributed", 4), ("deepspeed-distributed", 4), ("torchtune-llama3.2-1b", 4)]
    {
        let manifest = train_job(&json!({"runtimeRef": {"name": name}, "trainer": {"numNodes": 4}}));
        let world = World::with_object(&manifest, &[], Script::default(), Clock::default()).unwrap();
        assert_eq!(main_of(&world).ranks, ranks, "{name}");
    }
}

#[test]
fn a_runtime_of_another_kind_is_refused_without_haste() {
    let fields = json!({"runtimeRef": {"name": "r", "kind": "PodTemplate"}});
    let world = run(&fields, &json!({}), &json!([]), 1_000_000);
    assert_eq!((end(&world), job_sets(&world)), (("Failed", "TrainingRuntimeNotSupported"), 0));
    assert!(world.work < 5_000, "{}", world.work);
}

#[test]
fn a_deleted_train_job_takes_its_pods_with_it() {
    let script = json!([{"run": null}, {"at": 5, "delete": "Foreground"}]);
    let world = run(&json!({}), &json!({}), &script, 30);
    assert_eq!(main_of(&world).deletion.map(|(_, how)| how), Some(Propagation::Foreground));
    assert!(main_of(&world).gone.is_some());
    assert!(world.cluster.pods.iter().all(|pods| pods.gone.is_some()));
}

#[test]
fn strange_manifests_do_no_harm() {
    let strange = [
        json!({}),
        json!({"runtimeRef": 3, "trainer": [], "activeDeadlineSeconds": "x", "runtimePatches": {}}),
        json!({"runtimeRef": {"name": 3, "kind": "Foo"}, "suspend": 1}),
        json!({"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": -3}}),
        json!({"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2_147_483_648_i64}}),
        json!({"runtimeRef": {"name": "deepspeed-distributed"}, "trainer": {"numNodes": "x"}}),
        json!({"activeDeadlineSeconds": i64::MAX, "trainer": {"numNodes": 0}}),
        json!({"activeDeadlineSeconds": i64::MIN}),
        json!({"runtimePatches": [null, {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [null]}}}}]}),
    ];
    for fields in strange {
        run(&fields, &json!({}), &json!([{"run": 2, "exit": 1}]), 100);
    }
    for of_runtime in [json!({}), json!({"replicatedJobs": [3]}), json!([]), json!(null)] {
        let mut manifest = runtime(&json!({}));
        let template = manifest.pointer_mut("/spec/template").and_then(Value::as_object_mut).unwrap();
        template.insert("spec", of_runtime);
        let world =
            World::with_object(&train_job(&json!({})), &[manifest], Script::default(), Clock::default());
        world.unwrap().run(Time::from_seconds(100)).unwrap();
    }
}

/// Three of five random TrainJobs that their deadline ended had their JobSet made once more (2026-11-28, v2.3.0).
#[test]
fn a_job_set_is_made_once_more_where_the_end_is_seen_late() {
    let script = Script::parse(&json!([{"run": null}])).unwrap();
    let job = train_job(&json!({"activeDeadlineSeconds": 10}));
    // A Job of the same name is made when the old one is gone.
    for (lag, sets, jobs) in [(0, 1, 1), (40, 2, 1), (150, 2, 2)] {
        let mut script = script.clone();
        script.end_lag = Time::from_millis(lag);
        let mut world =
            World::with_object(&job, &[runtime(&json!({}))], script, Clock { start: 100 }).unwrap();
        world.run(Time::from_seconds(30)).unwrap();
        assert_eq!((end(&world), job_sets(&world)), (("Failed", "DeadlineExceeded"), sets), "{lag}");
        assert_eq!(world.cluster.jobs.len(), jobs, "{lag}");
        let is_left = |object: &Object| object.kind == "JobSet" && object.gone.is_none();
        assert!(!world.cluster.objects.iter().any(is_left), "{lag}");
    }
}
