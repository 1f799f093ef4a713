use super::super::super::cluster::Job;
use super::super::super::kueue_settings::WaitForPodsReady;
use super::super::super::object::{ObjectStatus, WorkloadStatus};
use super::super::super::script::Script;
use super::super::super::time::Clock;
use super::super::super::world::World;
use super::super::Settings;
use super::super::subjects::pods_at_once;
use super::workload::Workload;
use super::*;
use crate::text::patch::merge;
use crate::text::value::json;

const MINUTE: i64 = 60;

/// A Job of four pods in a queue, with a change.
fn job(name: &str, class: &str, patch: &Value) -> Value {
    let resources = json!({"requests": {"nvidia.com/gpu": 1}});
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {
            "kueue.x-k8s.io/queue-name": "q",
            "kueue.x-k8s.io/priority-class": class,
        }},
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "m", "image": "i", "resources": resources}],
            }},
        },
    });
    merge(&mut job, patch);
    job
}

/// A queue of four GPUs and two classes of priority.
fn queues() -> Vec<Value> {
    let api = "kueue.x-k8s.io/v1beta2";
    let gpus = json!([{"name": "nvidia.com/gpu", "nominalQuota": 4}]);
    let class = |name: &str, value: i64| json!({"apiVersion": api, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value});
    vec![
        json!({"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "cluster"}, "spec": {
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"flavors": [{"name": "default", "resources": gpus}]}],
        }}),
        json!({"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "cluster"}}),
        class("low", 10),
        class("high", 1_000),
    ]
}

fn run_with(kueue: KueueSettings, job: &Value, script: &Value, until: i64) -> World {
    let script = Script::parse(script).expect("a script");
    let settings = Settings { kueue, ..Settings::default() };
    let clock = Clock { start: 100 };
    let mut world = World::with_operators(job, &queues(), script, clock, &settings).expect("Kueue");
    world.run(Time::from_seconds(until)).expect("an end");
    world
}

fn run(job: &Value, script: &Value, until: i64) -> World {
    run_with(KueueSettings::default(), job, script, until)
}

/// The Workload of a Job: the conditions that are true, with their reasons, and its status.
fn workload_of<'a>(world: &'a World, name: &str) -> (String, &'a WorkloadStatus) {
    let (_, object) = world.cluster.object(WORKLOAD, name).expect("a Workload");
    let is_true = object.conditions.iter().filter(|condition| condition.is_true);
    let said: Vec<String> = is_true.map(|is| format!("{} {}", is.sort, is.reason)).collect();
    let ObjectStatus::Workload(status) = &object.status else { panic!("{:?}", object.status) };
    (said.join(", "), status)
}

/// When the pods of a Job were made, in whole seconds, one number for all of a moment.
fn made(world: &World, role: &str) -> Vec<i64> {
    let is_of = |set: usize| world.cluster.sets.get(set).is_some_and(|set| *set.role == *role);
    let pods = world.cluster.pods.iter().filter(|pods| is_of(pods.set));
    let mut seconds: Vec<i64> = pods.map(|pods| pods.created.millis() / 1_000).collect();
    seconds.sort_unstable();
    seconds.dedup();
    seconds
}

fn main_job(world: &World) -> &Job {
    world.cluster.jobs.first().expect("the Job")
}

fn create(at: i64, job: &Value) -> Value {
    json!({"at": at, "create": job.clone()})
}

#[test]
fn a_job_waits_for_quota_and_gets_it_a_second_after_it_is_free() {
    let script = json!([{"run": 5}, create(2, &job("l", "low", &json!({})))]);
    let world = run(&job("j", "low", &json!({})), &script, 20);
    // The first is complete at 6.5.
    assert_eq!((made(&world, "j"), made(&world, "l")), (vec![0], vec![7]));
    assert_eq!(
        workload_of(&world, "job-j").0,
        "PodsReady Started, QuotaReserved QuotaReserved, Admitted Admitted, Finished Succeeded"
    );
}

#[test]
fn a_preempted_job_loses_all_pods_and_counts_nothing() {
    let half = json!({"spec": {"parallelism": 2, "completions": 2}});
    let script = json!([
        {"role": "j", "attempt": 0, "run": null, "term": {"after": 9, "code": 1}},
        {"run": 5},
        create(6, &job("h", "high", &half)),
    ]);
    let world = run(&job("j", "low", &json!({})), &script, 40);
    // The quota is free when its pods are asked to end: the others start beside them, at 7, and the Job starts anew when
    // those are complete.
    assert_eq!((made(&world, "j"), made(&world, "h")), (vec![0, 14], vec![7]));
    let status = &main_job(&world).status;
    assert_eq!((status.failed, status.succeeded), (0, 4));
}

#[test]
fn a_failed_index_lets_the_others_be_evicted_again_and_again() {
    let per_index = json!({"spec": {"backoffLimit": null, "backoffLimitPerIndex": 0}});
    let script = json!([{"index": 2, "run": 60, "exit": 1}, {"run": null}]);
    let world = run(&job("j", "low", &per_index), &script, 140 * MINUTE);
    let minutes: Vec<i64> = made(&world, "j").into_iter().map(|second| second / MINUTE).collect();
    // Half an hour without all pods ready, then one minute, two and four.
    assert_eq!(minutes, [0, 32, 64, 98, 136]);
    let (_, status) = workload_of(&world, "job-j");
    assert_eq!(status.requeues, 4);
}

#[test]
fn where_evictions_have_a_limit_the_workload_is_deactivated_and_the_job_does_not_fail() {
    let waits = WaitForPodsReady { backoff_limit: Some(1), ..WaitForPodsReady::default() };
    let settings = KueueSettings { wait_for_pods_ready: Some(waits), ..KueueSettings::default() };
    let world = run_with(settings, &job("j", "low", &json!({})), &json!([{"start": null}]), 140 * MINUTE);
    let (said, _) = workload_of(&world, "job-j");
    assert!(said.contains("Evicted DeactivatedDueToRequeuingLimitExceeded"), "{said}");
    assert!(main_job(&world).spec.suspend && main_job(&world).status.finished().is_none());
    // Where it is off, as before 0.19, nothing happens.
    let off = KueueSettings::with_wait(None);
    let world = run_with(off, &job("j", "low", &json!({})), &json!([{"start": null}]), 140 * MINUTE);
    assert_eq!(made(&world, "j"), [0]);
}

#[test]
fn execution_time_is_summed_over_admissions_and_its_end_suspends_the_job() {
    let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "14"}}});
    let script = json!([{"role": "h", "run": 7}, {"run": null}, create(8, &job("h", "high", &json!({})))]);
    let world = run(&job("j", "low", &label), &script, 60);
    let (said, _) = workload_of(&world, "job-j");
    assert!(said.contains("Evicted DeactivatedDueToMaximumExecutionTimeExceeded"), "{said}");
    assert!(main_job(&world).spec.suspend && main_job(&world).status.finished().is_none());
    // Nine seconds before, four after the other is complete and the quota free.
    let suspended =
        main_job(&world).status.condition("Suspended").map(|condition| condition.at.millis() / 1_000);
    assert_eq!(suspended, Some(23));
}

#[test]
fn nobody_starts_or_moves_a_job_by_hand() {
    let large = json!({"spec": {"parallelism": 6, "completions": 6}});
    let by_hand = json!([{"run": null}, {"at": 5, "patch": {"suspend": false}}]);
    let world = run(&job("j", "low", &large), &by_hand, 20);
    assert!(world.cluster.pods.iter().all(|pods| pods.gone.is_some() && pods.started.is_none()));
    let other = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}});
    let world = run(&job("j", "low", &json!({})), &json!([{"run": null}, {"at": 5, "merge": other}]), 20);
    assert_eq!(queue(&main_job(&world).manifest), Some("q"));
}

#[test]
fn a_drained_queue_evicts_and_a_held_one_does_not() {
    let stop = |policy: &str| {
        let script = json!([
            {"run": null},
            {"at": 6, "on": "CQ", "patch": {"stopPolicy": policy}},
            {"at": 20, "on": "CQ", "patch": {"stopPolicy": "None"}},
        ]);
        made(&run(&job("j", "low", &json!({})), &script, 40), "j")
    };
    assert_eq!((stop("Hold"), stop("HoldAndDrain")), (vec![0], vec![0, 20]));
}

#[test]
fn a_job_that_is_content_with_fewer_pods_gets_as_many_as_fit() {
    let fewer = json!({
        "metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}},
        "spec": {"parallelism": 6, "completions": 6},
    });
    let world = run(&job("j", "low", &fewer), &json!([{"run": 5}]), 30);
    assert_eq!(main_job(&world).spec.parallelism, 4);
    assert_eq!(made(&world, "j"), [0, 6]);
}

#[test]
fn a_controller_that_comes_back_finds_what_it_left() {
    let script = json!([
        {"run": 10},
        {"at": 5, "controller": "stop", "which": "operator"},
        create(6, &job("l", "low", &json!({}))),
        {"at": 20, "controller": "start", "which": "operator"},
    ]);
    let world = run(&job("j", "low", &json!({})), &script, 40);
    assert_eq!((made(&world, "j"), made(&world, "l").len()), (vec![0], 1));
    assert!(made(&world, "l").iter().all(|second| *second >= 20));
}

#[test]
fn strange_manifests_do_no_harm() {
    let strange = [
        json!({"spec": {"parallelism": 4_294_967_295_i64, "completions": 4_294_967_295_i64}}),
        json!({"spec": {"parallelism": -1, "completions": "many", "template": {"spec": {"containers": 3}}}}),
        json!({"spec": {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": []}}}, 7]}}}}),
        json!({"spec": null}),
        json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "nowhere"}}}),
        json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "nowhere"}}}),
    ];
    for patch in strange {
        run(&job("j", "low", &patch), &json!([{"run": 5}]), 30);
    }
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": 3}, "spec": []});
    let world = World::with_operators(
        &job("j", "low", &json!({})),
        &[queue],
        Script::default(),
        Clock::default(),
        &Settings::default(),
    );
    assert!(world.expect("Kueue").run(Time::from_seconds(30)).is_ok());
}

#[test]
fn thousands_of_pods_and_failures_take_little() {
    let many = json!({"spec": {"parallelism": 10_000, "completions": 10_000, "backoffLimit": 2_000}});
    let mut script = Vec::new();
    for nth in 0..1_000 {
        script.push(json!({"index": 9_000 + nth, "attempt": 0, "run": 5 + nth % 20, "exit": 1}));
    }
    script.push(json!({"run": 4_000}));
    let mut queues = queues();
    if let Some(quota) =
        queues.first_mut().and_then(|queue| queue.pointer_mut("/spec/resourceGroups/0/flavors/0/resources/0"))
    {
        merge(quota, &json!({"nominalQuota": "10k"}));
    }
    let script = Script::parse(&Value::Array(script)).expect("a script");
    let job = job("j", "low", &many);
    let mut world = World::with_operators(&job, &queues, script, Clock { start: 100 }, &Settings::default())
        .expect("Kueue");
    world.run(Time::from_seconds(3_000)).expect("an end");
    let pods: u32 = world.cluster.pods.iter().map(|pods| pods.count()).sum();
    assert_eq!(pods, 11_000);
}

/// Objects of other kinds, in the queue, each of four pods.
fn others() -> Vec<Value> {
    let pod = |name: &str| json!({"spec": {"containers": [{"name": name, "image": "i"}]}});
    let meta = json!({"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}});
    let kind = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": meta.clone(), "spec": spec});
    let job = json!({"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": pod("m")}});
    let worker = |count: i64, name: &str| json!({"replicas": count, "template": pod(name)});
    let group =
        json!({"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "template": pod("w")});
    let head = json!({"template": pod("h")});
    vec![
        kind(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({
            "failurePolicy": {"maxRestarts": 3}, "replicatedJobs": [{"name": "w", "replicas": 2, "template": job}]}),
        ),
        kind(
            "kubeflow.org/v1",
            "PyTorchJob",
            json!({"pytorchReplicaSpecs": {
            "Master": worker(1, "pytorch"), "Worker": worker(3, "pytorch")}}),
        ),
        kind(
            "kubeflow.org/v2beta1",
            "MPIJob",
            json!({"mpiReplicaSpecs": {
            "Launcher": worker(1, "l"), "Worker": worker(3, "w")}}),
        ),
        kind(
            "ray.io/v1",
            "RayJob",
            json!({"entrypoint": "e", "shutdownAfterJobFinishes": true, "shutdownAfterJobFinishes": true,
            "rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": [group]}}),
        ),
        kind(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            json!({
            "runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 4, "image": "i"}}),
        ),
    ]
}

/// Runs an object alone in a queue, with a script, for some time.
fn alone(manifest: &Value, script: &Value, until: i64) -> World {
    let pods = pods_at_once(manifest).expect("pods");
    let script = Script::parse(script).expect("a script");
    let clock = Clock { start: 100 };
    let mut world = World::with_object(manifest, &default_queue::queues(manifest, pods), script, clock)
        .expect("operators");
    world.run(Time::from_seconds(until)).expect("an end");
    world
}

fn only_workload(world: &World) -> Workload<'_> {
    workloads(&world.cluster).map(|(_, workload)| workload).next().expect("a Workload")
}

#[test]
fn objects_of_operators_wait_in_a_queue_as_well() {
    for manifest in others() {
        let kind = manifest["kind"].as_str().expect("a kind");
        let world = alone(&manifest, &json!([{"run": 600}]), 120);
        let workload = only_workload(&world);
        assert!(workload.is("Admitted") && workload.is("PodsReady"), "{kind}: {:?}", workload.conditions);
        assert_eq!(
            world.cluster.pods.iter().map(|pods| pods.count()).sum::<u32>(),
            workload.count(),
            "{kind}"
        );
        // Nothing runs before there is quota.
        let mut full = default_queue::queues(&manifest, 0);
        full.truncate(2);
        let script = Script::parse(&json!([{"run": 600}])).expect("a script");
        let mut world =
            World::with_object(&manifest, &full, script, Clock { start: 100 }).expect("operators");
        world.run(Time::from_seconds(120)).expect("an end");
        assert_eq!(world.cluster.pods.len(), 0, "{kind}");
        assert!(!only_workload(&world).is("Admitted"), "{kind}");
    }
}

#[test]
fn an_object_whose_pods_are_never_ready_is_evicted_and_admitted_again() {
    for manifest in others() {
        let kind = manifest["kind"].as_str().expect("a kind");
        let world = alone(&manifest, &json!([{"start": null}]), 36 * MINUTE);
        let reasons: Vec<&str> = world.cluster.evictions.iter().map(|one| &*one.reason).collect();
        assert_eq!(reasons, ["PodsReadyTimeout"], "{kind}");
        assert!(only_workload(&world).is("Admitted"), "{kind}");
        let at = world.cluster.evictions[0].at.millis() / 1_000;
        assert!((30 * MINUTE - 2..30 * MINUTE + 2).contains(&at), "{kind}: {at}");
    }
}

#[test]
fn who_is_preempted_starts_again_when_the_other_is_done() {
    for manifest in others() {
        let kind = manifest["kind"].as_str().expect("a kind");
        let pods = pods_at_once(&manifest).expect("pods");
        let script = json!([
            {"role": PREEMPTOR, "run": 600},
            {"program": [0, null], "run": 3600, "end": "SUCCEEDED"},
            {"run": 3600},
            create(900, &preemptor("q", pods)),
        ]);
        let world = alone(&manifest, &script, 30 * MINUTE);
        let reasons: Vec<&str> = world.cluster.evictions.iter().map(|one| &*one.reason).collect();
        assert_eq!(reasons, ["Preempted"], "{kind}");
        let is_running = world.cluster.pods.iter().filter(|pods| pods.gone.is_none() && pods.is_ready());
        let running: Vec<i64> = is_running.map(|pods| pods.created.millis() / 60_000).collect();
        assert!(!running.is_empty() && running.iter().all(|minute| *minute == 25), "{kind}: {running:?}");
    }
}

#[test]
fn a_queue_that_names_a_class_of_priority_has_it() {
    let named = job("j", "urgent", &json!({}));
    let world = alone_job(&named);
    assert!(only_workload(&world).is("Admitted"));
    let above = job("j", "above", &json!({}));
    assert!(only_workload(&alone_job(&above)).is("Admitted"));
}

fn alone_job(manifest: &Value) -> World {
    let script = Script::parse(&json!([{"run": 600}])).expect("a script");
    let mut world =
        World::with_object(manifest, &default_queue::queues(manifest, 4), script, Clock { start: 100 })
            .expect("Kueue");
    world.run(Time::from_seconds(60)).expect("an end");
    world
}

#[test]
fn a_rayjob_that_keeps_its_cluster_is_not_taken_while_it_is_suspended() {
    let mut manifest = others().swap_remove(3);
    manifest["spec"]["shutdownAfterJobFinishes"] = false.into();
    let world = alone(&manifest, &json!([{"run": 600}]), 60);
    // Kueue suspends it, KubeRay refuses that, and nothing takes it further.
    assert_eq!((world.cluster.pods.len(), only_workload(&world).is("Finished")), (0, true));
}
