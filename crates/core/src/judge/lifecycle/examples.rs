//! An object of each kind, and what the model says of it.

use crate::controllers::object_story::Remains;
use crate::controllers::pod::PodGroup;
use crate::controllers::script::Script;
use crate::controllers::time::{Clock, Time};
use crate::controllers::world::World;
use crate::kinds::Kind;
use crate::text::patch::merge;
use crate::text::value::{Value, json};

pub(super) const DAY: i64 = 86_400;
/// How long it is until training-operator looks at a job to which nothing happens.
pub(super) const IDLE: i64 = 10 * 3_600;
pub(super) const DEADLINE: i64 = 600;

pub(super) fn template(restart: Option<&str>) -> Value {
    let mut template = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if let Some(word) = restart {
        template["spec"]["restartPolicy"] = word.into();
    }
    template
}

pub(super) fn job_spec() -> Value {
    json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0,
        "template": template(Some("Never"))})
}

pub(super) fn roles(names: &[&str], restart: Option<&str>) -> Value {
    let role = |name: &&str| {
        let mut role = json!({"replicas": if *name == "Worker" { 2 } else { 1 }, "template": template(None)});
        if let Some(word) = restart {
            role["restartPolicy"] = word.into();
        }
        ((*name).to_owned(), role)
    };
    names.iter().map(role).collect::<crate::text::value::Map>().into()
}

/// Returns an object of a kind whose operator is modelled, with several pods and nothing that limits it.
pub(super) fn example(kind: Kind, restart: Option<&str>) -> Option<Value> {
    let spec = match (kind.group, kind.name) {
        ("batch", "Job") => job_spec(),
        ("jobset.x-k8s.io", "JobSet") => {
            json!({"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job_spec()}}]})
        }
        ("trainer.kubeflow.org", "TrainJob") => {
            json!({"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}, "trainer": {"numNodes": 2}})
        }
        ("kubeflow.org", "PyTorchJob") => {
            json!({"pytorchReplicaSpecs": roles(&["Master", "Worker"], restart)})
        }
        ("kubeflow.org", "XGBoostJob") => json!({"xgbReplicaSpecs": roles(&["Master", "Worker"], restart)}),
        ("kubeflow.org", "PaddleJob") => json!({"paddleReplicaSpecs": roles(&["Worker"], restart)}),
        ("kubeflow.org", "TFJob") => json!({"tfReplicaSpecs": roles(&["Worker"], restart)}),
        ("kubeflow.org", "JAXJob") => json!({"jaxReplicaSpecs": roles(&["Worker"], restart)}),
        ("kubeflow.org", "MPIJob") if kind.version == "v2beta1" => {
            json!({"mpiReplicaSpecs": roles(&["Launcher", "Worker"], None)})
        }
        ("ray.io", "RayJob") => json!({"entrypoint": "python a.py", "rayClusterSpec": {
            "headGroupSpec": {"template": template(None)},
            "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": template(None)}]}}),
        ("batch.volcano.sh", "Job") => {
            json!({"tasks": [{"name": "w", "replicas": 2, "template": template(Some("Never"))}]})
        }
        _ => return None,
    };
    Some(
        json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "j"}, "spec": spec}),
    )
}

/// Returns all kinds whose operator is modelled, with an example.
pub(super) fn examples() -> Vec<(Kind, Value)> {
    let known: Vec<_> = Kind::all().filter_map(|kind| Some((kind, example(kind, None)?))).collect();
    assert_eq!(known.len(), 11, "{known:?}");
    known
}

pub(super) fn runtime(set: &Value) -> Value {
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let node = json!({"name": "node", "template": {"metadata": {"labels": labels},
        "spec": {"backoffLimit": 0, "template": template(Some("Never"))}}});
    let mut spec = json!({"replicatedJobs": [node]});
    merge(&mut spec, set);
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": "r"},
        "spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": spec}}})
}

/// Returns an object with a value in the limits of its kind.
pub(super) fn limited(object: &Value, kind: Kind, at: &[&str], value: Value) -> Value {
    let mut object = object.clone();
    let path = [kind.limits, at].concat();
    let patch = path.iter().rev().fold(value, |value, key| {
        let mut around = json!({});
        around[*key] = value;
        around
    });
    merge(&mut object, &patch);
    object
}

pub(super) fn run_in(object: &Value, before: &[Value], script: &Value, seconds: i64) -> Remains {
    run_script(object, before, Script::parse(script).expect("a script"), seconds)
}

pub(super) fn run_script(object: &Value, before: &[Value], script: Script, seconds: i64) -> Remains {
    let clock = Clock { start: 100 };
    let mut world = match object["apiVersion"].as_str() {
        Some("batch/v1") => World::with_job("j", &object["spec"], script, clock, false),
        _ => World::with_object(object, before, script, clock).expect("an operator"),
    };
    world.run(Time::from_seconds(seconds)).expect("an end");
    Remains::from_world(world)
}

pub(super) fn run(object: &Value, script: &Value, seconds: i64) -> Remains {
    run_in(object, &[runtime(&json!({}))], script, seconds)
}

/// Everything hangs: the ranks, and what runs on a Ray cluster.
pub(super) fn hang() -> Value {
    json!([{"program": [0, null], "run": null}, {"role": "submitter"}, {"run": null}])
}

/// The ranks are done after five seconds; hosts, and those that serve, do not end.
pub(super) fn done(kind: Kind) -> Value {
    let run = if kind.name == "RayJob" { Value::Null } else { 5.into() };
    json!([{"program": [0, null], "run": 5}, {"role": "worker", "run": null}, {"role": "submitter"}, {"run": run}])
}

/// The ranks, or what runs on a Ray cluster, fail after five seconds.
pub(super) fn crash(kind: Kind) -> Value {
    if kind.name == "RayJob" {
        return json!([{"program": [0, null], "run": 5, "end": "FAILED"}, {"role": "submitter"}, {"run": null}]);
    }
    json!([{"run": 5, "exit": 1}])
}

pub(super) fn is_alive(pods: &PodGroup) -> bool {
    pods.gone.is_none() && pods.ended.is_none() && pods.deletion.is_none()
}

pub(super) fn alive(remains: &Remains) -> Vec<&str> {
    let alive = remains.pods.iter().filter(|(_, pods)| is_alive(pods));
    alive.map(|(role, _)| &**role).collect()
}

pub(super) fn failed_at(remains: &Remains) -> Option<i64> {
    remains.end.as_ref().filter(|end| !end.is_success).map(|end| end.at.millis() / 1_000)
}

pub(super) fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{wrong:#?}");
}
