//! What RayJobs and RayClusters do after failures.

use std::time::{Duration, Instant};

use super::super::super::cluster::{Action, Cluster, Controller as _, Event};
use super::super::super::object::{
    DeploymentStatus, Object, ObjectStatus, RayClusterStatus, RayJobReason, RayJobStatus,
};
use super::super::super::program::{Peers, ProgramPlan};
use super::super::super::script::{PlanRule, Script};
use super::super::super::time::{Clock, Time};
use super::super::super::world::World;
use super::Release;
use super::ray_job::RayJobController;
use crate::text::patch::merge;
use crate::text::value::{Value, json};

fn ray_cluster(workers: u32) -> Value {
    let pod = |name: &str| json!({"spec": {"containers": [{"name": name}]}});
    json!({
        "headGroupSpec": {"template": pod("ray-head")},
        "workerGroupSpecs": [{"groupName": "w", "replicas": workers, "template": pod("ray-worker")}],
    })
}

fn ray_job(spec: &Value) -> Value {
    let mut job = json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "j"},
        "spec": {"entrypoint": "python x.py", "rayClusterSpec": ray_cluster(2)},
    });
    merge(&mut job, &json!({"spec": spec}));
    job
}

fn cluster_of(spec: Value) -> Value {
    json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c"}, "spec": spec})
}

/// Lets an object live for some seconds.
fn live(manifest: &Value, script: &Value, seconds: i64) -> World {
    let script = Script::parse(script).unwrap();
    let mut world = World::with_object(manifest, &[], script, Clock { start: 100 }).unwrap();
    world.run(Time::from_seconds(seconds)).unwrap();
    world
}

fn job_status(world: &World) -> &RayJobStatus {
    let job = world.cluster.objects.iter().find(|object| object.kind == "RayJob").unwrap();
    let ObjectStatus::RayJob(status) = &job.status else { panic!("{:?}", job.status) };
    status
}

/// Returns when pods of a role were made, each with whether it is gone.
fn pods(world: &World, role: &str) -> Vec<(f64, bool)> {
    let mut pods = Vec::new();
    for group in &world.cluster.pods {
        if *world.cluster.sets[group.set].role == *role {
            pods.extend(group.members.iter().map(|_| (group.created.seconds(), group.gone.is_some())));
        }
    }
    pods.sort_by(|one, other| one.0.total_cmp(&other.0));
    pods
}

fn clusters(world: &World) -> Vec<(String, bool)> {
    let clusters = world.cluster.objects.iter().filter(|object| object.kind == "RayCluster");
    clusters.map(|cluster| (cluster.name.clone(), cluster.is_there())).collect()
}

#[test]
fn a_program_that_fails_is_tried_again_at_once_on_a_new_cluster() {
    let script = json!([{"program": [0, null], "run": 5, "end": "FAILED"}]);
    let world = live(&ray_job(&json!({"backoffLimit": 1, "shutdownAfterJobFinishes": true})), &script, 40);
    let status = job_status(&world);
    assert_eq!(
        (status.deployment, status.reason),
        (Some(DeploymentStatus::Failed), Some(RayJobReason::AppFailed))
    );
    assert_eq!((status.failed, status.succeeded), (2, 0));
    assert_eq!(clusters(&world), [("CLUSTER0".to_owned(), false), ("CLUSTER1".to_owned(), false)]);
    // The submitter of the last attempt stays.
    assert_eq!(world.cluster.jobs.iter().filter(|job| job.gone.is_none()).count(), 1);
    let heads = pods(&world, "head");
    assert!((8.0..9.0).contains(&heads[1].0), "{heads:?}");
}

#[test]
fn a_deadline_is_final_whatever_the_limit_is() {
    let spec = json!({"activeDeadlineSeconds": 15, "backoffLimit": 3, "shutdownAfterJobFinishes": true});
    let world = live(&ray_job(&spec), &json!([{"program": 0, "run": null}]), 25);
    let status = job_status(&world);
    assert_eq!(status.reason, Some(RayJobReason::DeadlineExceeded));
    assert_eq!((status.deployment, status.failed), (Some(DeploymentStatus::Failed), 1));
    assert_eq!(clusters(&world), [("CLUSTER0".to_owned(), false)]);
}

#[test]
fn a_success_becomes_a_failure_where_the_operator_was_away() {
    let script = json!([
        {"program": 0, "run": 10},
        {"at": 6, "controller": "stop-kuberay"},
        {"at": 66, "controller": "kuberay"},
    ]);
    let reason = |mode: &str| {
        let world = live(&ray_job(&json!({"submissionMode": mode})), &script, 80);
        (job_status(&world).deployment, job_status(&world).reason)
    };
    let failed = (Some(DeploymentStatus::Failed), Some(RayJobReason::TransitionGracePeriodExceeded));
    assert_eq!(reason("K8sJobMode"), failed);
    assert_eq!(reason("SidecarMode"), failed);
    assert_eq!(reason("HTTPMode"), (Some(DeploymentStatus::Complete), None));
}

#[test]
fn a_spec_that_is_refused_for_a_moment_is_a_dead_end() {
    let script = json!([
        {"program": 0, "run": 30},
        {"at": 6, "patch": {"suspend": true}},
        {"at": 12, "patch": {"suspend": false}},
    ]);
    let world = live(&ray_job(&json!({})), &script, 60);
    assert_eq!(job_status(&world).deployment, Some(DeploymentStatus::ValidationFailed));
    assert_eq!(clusters(&world), [("CLUSTER0".to_owned(), true)]);
}

#[test]
fn a_lost_head_means_something_else_in_each_mode() {
    let script = json!([
        {"program": [0, null], "run": 10},
        {"at": 6, "on": "Pod/head", "delete": "Background"},
    ]);
    let seen = |mode: &str| {
        let world = live(&ray_job(&json!({"submissionMode": mode})), &script, 60);
        let status = job_status(&world).clone();
        (status.deployment, status.reason, world.cluster.dashboards.programs.len())
    };
    // The program runs twice, but beside the head, where it fails.
    assert_eq!(seen("K8sJobMode"), (Some(DeploymentStatus::Complete), None, 2));
    assert_eq!(seen("HTTPMode"), (Some(DeploymentStatus::Complete), None, 2));
    let failed = (Some(DeploymentStatus::Failed), Some(RayJobReason::AppFailed), 1);
    assert_eq!(seen("SidecarMode"), failed);
}

#[test]
fn one_pending_worker_keeps_the_program_from_its_start() {
    let script = json!([{"role": "w", "attempt": 1, "start": null, "unscheduled": true}]);
    let world = live(&ray_job(&json!({})), &script, 3_600);
    assert_eq!(job_status(&world).deployment, Some(DeploymentStatus::Initializing));
    assert!(world.cluster.dashboards.programs.is_empty());
    let world = live(&ray_job(&json!({"preRunningDeadlineSeconds": 30})), &script, 60);
    assert_eq!(job_status(&world).reason, Some(RayJobReason::PreRunningDeadlineExceeded));
}

#[test]
fn a_silent_dashboard_is_an_error_before_1_7_and_has_a_time_limit_since() {
    let mut cluster = Cluster::default();
    let manifest = ray_job(&json!({"submissionMode": "HTTPMode"}));
    let status = RayJobStatus {
        deployment: Some(DeploymentStatus::Running),
        cluster: "CLUSTER0".to_owned(),
        ..RayJobStatus::default()
    };
    cluster.objects.push(Object {
        status: ObjectStatus::RayJob(Box::new(status)),
        ..Object::new("RayJob", "j", None, manifest, Time::START)
    });
    let made = Object::new("RayCluster", "CLUSTER0", None, cluster_of(ray_cluster(1)), Time::START);
    cluster.objects.push(Object { status: ObjectStatus::RayCluster(RayClusterStatus::default()), ..made });
    for (release, wait, written) in [(Release::V1_6, 5, 0), (Release::V1_7, 300_000, 1)] {
        let mut controller = RayJobController::new(release);
        controller.observe(Event::Object(0), &cluster, Time::START);
        let at = controller.due().unwrap();
        let actions = controller.sync(&cluster, at);
        let writes = actions.iter().filter(|action| matches!(action, Action::WriteObject { .. })).count();
        assert_eq!((controller.due(), writes), (Some(at + Time::from_millis(wait)), written), "{release:?}");
    }
}

#[test]
fn a_dead_worker_is_replaced_at_once_and_one_in_deletion_when_it_is_gone() {
    let script = json!([
        {"role": "w", "attempt": 0, "run": 4, "exit": 1},
        {"role": "w", "attempt": 1, "run": null, "disrupt": {"after": 4, "cause": "lost"}},
    ]);
    let world = live(&cluster_of(ray_cluster(2)), &script, 60);
    let workers = pods(&world, "w");
    assert_eq!(workers.iter().map(|(_, is_gone)| *is_gone).collect::<Vec<_>>(), [true, false, false]);
    assert!((4.5..5.0).contains(&workers[2].0), "{workers:?}");
}

#[test]
fn what_becomes_of_one_host_becomes_of_its_replica() {
    let mut spec = ray_cluster(3);
    merge(
        &mut spec,
        &json!({"workerGroupSpecs": [{
            "groupName": "w", "replicas": 3, "numOfHosts": 2,
            "template": {"spec": {"containers": [{"name": "ray-worker"}]}},
        }]}),
    );
    let script = json!([{"role": "w", "attempt": 3, "run": 5, "exit": 1}]);
    let world = live(&cluster_of(spec), &script, 20);
    let workers = pods(&world, "w");
    assert_eq!(workers.len(), 8);
    assert_eq!(workers.iter().filter(|(_, is_gone)| *is_gone).count(), 2);
}

#[test]
fn rules_about_the_program_do_not_match_a_deadline() {
    let rule = |key: &str, value: &str| {
        let mut condition = json!({"ttlSeconds": 1});
        merge(&mut condition, &json!({ key: value }));
        json!({"activeDeadlineSeconds": 10,
               "deletionStrategy": {"deletionRules": [{"policy": "DeleteCluster", "condition": condition}]}})
    };
    let left = |spec: &Value| clusters(&live(&ray_job(spec), &json!([{"program": 0, "run": null}]), 30))[0].1;
    assert!(left(&rule("jobStatus", "FAILED")));
    assert!(!left(&rule("jobDeploymentStatus", "Failed")));
}

/// Puts a value in the place of each part of another, one after the other.
fn with_each_part(whole: &Value, odd: &Value) -> Vec<Value> {
    let mut found = vec![odd.clone()];
    if let Some(map) = whole.as_object() {
        for (key, part) in map.iter() {
            for part in with_each_part(part, odd) {
                let mut changed = whole.clone();
                changed.as_object_mut().unwrap().insert(key, part);
                found.push(changed);
            }
        }
    }
    for (nth, part) in whole.as_array().into_iter().flatten().enumerate() {
        for part in with_each_part(part, odd) {
            let mut changed = whole.clone();
            changed.as_array_mut().unwrap()[nth] = part;
            found.push(changed);
        }
    }
    found
}

#[test]
fn strange_manifests_are_no_reason_to_panic() {
    let spec = json!({
        "backoffLimit": 1, "submissionMode": "SidecarMode", "activeDeadlineSeconds": 20, "suspend": false,
        "ttlSecondsAfterFinished": 0, "shutdownAfterJobFinishes": false, "clusterSelector": {},
        "preRunningDeadlineSeconds": 30, "jobId": "x", "managedBy": "ray.io/kuberay-operator",
        "deletionStrategy": {"deletionRules": [
            {"policy": "DeleteWorkers", "condition": {"ttlSeconds": 1, "jobStatus": "FAILED"}},
        ]},
        "submitterConfig": null, "submitterPodTemplate": null,
    });
    let job = ray_job(&spec);
    let cluster = cluster_of(ray_cluster(2));
    let script = Script::parse(&json!([{"program": [0, null], "run": 3, "end": "FAILED"}])).unwrap();
    let odd = [
        json!(null),
        json!("x"),
        json!(""),
        json!(-1),
        json!(2_147_483_648_u64),
        json!(i64::MIN),
        json!(u64::MAX),
        json!([]),
        json!({}),
        json!([null]),
        json!(true),
        json!(1.5),
    ];
    let mut lived = 0;
    for manifest in [&job, &cluster] {
        for odd in &odd {
            for manifest in with_each_part(manifest, odd) {
                let clock = Clock { start: 100 };
                if let Some(mut world) = World::with_object(&manifest, &[], script.clone(), clock) {
                    let _ = world.run(Time::from_seconds(40));
                    lived += 1;
                }
            }
        }
    }
    assert!(lived > 500, "{lived}");
}

#[test]
fn the_program_of_a_simulation_runs_in_the_cluster_and_not_in_its_pods() {
    let hour = Time::from_seconds(3_600);
    let program = ProgramPlan { runtime: hour, startup: hour, checkpoint: None, peers: Peers::Hang };
    let plans = vec![PlanRule::default()];
    let script = Script { plans, program: Some(program), ..Script::default() };
    let clock = Clock { start: 100 };
    let mut world = World::with_object(&ray_job(&json!({})), &[], script, clock).unwrap();
    world.run(hour + hour + hour).unwrap();
    let status = job_status(&world);
    assert_eq!(status.deployment, Some(DeploymentStatus::Complete));
    assert!((7_200.0..7_210.0).contains(&status.changed.seconds()), "{}", status.changed);
}

#[test]
fn looks_that_see_nothing_new_cost_nothing() {
    let month = 30 * 86_400;
    for mode in ["K8sJobMode", "HTTPMode", "SidecarMode"] {
        let manifest = ray_job(&json!({"submissionMode": mode}));
        let world = live(&manifest, &json!([{"program": 0, "run": month}]), 2 * month);
        assert_eq!(job_status(&world).deployment, Some(DeploymentStatus::Complete), "{mode}");
        assert_eq!(world.due(), None, "{mode}");
        assert!(world.work < 5_000, "{mode}: {}", world.work);
    }
}

#[test]
fn what_it_costs_depends_on_the_failures_and_not_on_the_workers() {
    let script: Vec<Value> =
        (0..1_000).map(|nth| json!({"role": "w", "attempt": nth * 10, "run": 10 + nth, "exit": 1})).collect();
    let start = Instant::now();
    let world = live(&ray_job(&json!({"rayClusterSpec": ray_cluster(10_000)})), &Value::Array(script), 1_100);
    assert_eq!(pods(&world, "w").len(), 11_000);
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

#[test]
fn many_hosts_are_looked_at_by_replicas() {
    let mut spec = ray_cluster(0);
    spec["workerGroupSpecs"] = json!([{
        "groupName": "w", "replicas": 100_000_000, "numOfHosts": 4,
        "template": {"spec": {"containers": [{"name": "ray-worker"}]}},
    }]);
    let begun = Instant::now();
    let script = json!([{"role": "w", "attempt": [0, 399_999_999], "run": 3, "exit": 1}, {"run": null}]);
    let world = live(&cluster_of(spec), &script, 60);
    let made = world.cluster.pods.iter().filter(|pods| *world.cluster.sets[pods.set].role == *"w");
    assert_eq!(made.map(|pods| u64::from(pods.count())).sum::<u64>(), 800_000_000);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn tries_without_end_are_no_long_wait() {
    let manifest = ray_job(&json!({"backoffLimit": i32::MAX}));
    let script = json!([{"program": [0, null], "run": 3, "end": "FAILED"}, {"run": null}]);
    let mut world =
        World::with_object(&manifest, &[], Script::parse(&script).unwrap(), Clock { start: 100 }).unwrap();
    let begun = Instant::now();
    assert!(world.run(Time::from_seconds(60 * 86_400)).is_err());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
