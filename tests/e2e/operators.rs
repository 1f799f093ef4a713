//! What operators create of the objects that were judged, and what their own webhooks write into those.

use std::time::Duration;

use http::Method;
use jobgate::text::value::{Value, json};

use crate::api::{Api, list_of};
use crate::kinds::{ANYBODY, problems};
use crate::manifests::{asking, cron_job, endless, gpu_job, over, pytorch_job};
use crate::mutator::Mutator;
use crate::process::eventually;
use crate::samples::sample;
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("children_of_an_operator_are_left_alone", children).needs(Needs::CustomResources),
    Scenario::new("defaults_of_an_operator_make_no_difference", defaults).needs(Needs::CustomResources),
];

const CONTROLLER: &str = "system:serviceaccount:jobset-system:jobset-controller-manager";

/// Whose children are whose: the parent, as whom its operator creates them, and what it creates.
const FAMILIES: [(&str, &str, &str, &[&str]); 8] = [
    ("jobset.x-k8s.io/v1alpha2", "JobSet", CONTROLLER, &["Job"]),
    (
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager",
        &["JobSet"],
    ),
    ("kubeflow.org/v2beta1", "MPIJob", "system:serviceaccount:mpi-operator:mpi-operator", &["Job"]),
    ("kubeflow.org/v2beta1", "MPIJob", "system:serviceaccount:kubeflow:mpi-operator", &["Job"]),
    ("ray.io/v1", "RayJob", "system:serviceaccount:default:kuberay-operator", &["Job"]),
    (
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        "system:serviceaccount:appwrapper-system:appwrapper-controller-manager",
        &["Job", "JobSet", "PyTorchJob", "RayJob"],
    ),
    ("keda.sh/v1alpha1", "ScaledJob", "system:serviceaccount:keda:keda-operator", &["Job"]),
    ("batch/v1", "CronJob", "system:serviceaccount:kube-system:cronjob-controller", &["Job"]),
];

/// Returns a child that breaks a rule and would be filled in.
fn child(kind: &str) -> Value {
    let containers = json!({"spec": {"template": {"spec": {"containers": asking("nvidia.com/gpu")}}}});
    match kind {
        "Job" => over(endless("child"), containers),
        "PyTorchJob" => pytorch_job("child", json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null}}})),
        "JobSet" => sample("jobsets.jobset.x-k8s.io").bad("child"),
        "RayJob" => sample("rayjobs.ray.io").bad("child"),
        kind => panic!("no child of kind {kind}"),
    }
}

/// A uid that nothing has.
const NOBODY: &str = "7d1f4bd2-9a52-4d5a-9f0f-0d5d7bb0c9d1";

fn owned(child: Value, (version, kind, uid): (&str, &str, &str), controller: bool) -> Value {
    let owner = json!({
        "apiVersion": version, "kind": kind, "name": "parent", "uid": uid, "controller": controller,
    });
    over(child, json!({"metadata": {"ownerReferences": [owner]}}))
}

/// Creates the parent of a kind, and returns its uid.
fn parent(api: &Api, place: &Place<'_>, kind: &str) -> String {
    let object = match kind {
        "CronJob" => cron_job("parent", json!({"spec": {"suspend": true}})),
        "JobSet" => sample("jobsets.jobset.x-k8s.io").good("parent"),
        "TrainJob" => sample("trainjobs.trainer.kubeflow.org").good("parent"),
        "MPIJob" => sample("mpijobs.kubeflow.org").good("parent"),
        "RayJob" => sample("rayjobs.ray.io").good("parent"),
        "AppWrapper" => sample("appwrappers.workload.codeflare.dev").good("parent"),
        "ScaledJob" => sample("scaledjobs.keda.sh").good("parent"),
        kind => panic!("no parent of kind {kind}"),
    };
    let path = list_of(&place.namespace, &object);
    let (status, made) = api.send_as(ANYBODY, Method::POST, &path, &object);
    // Two operators may have one kind of parent.
    let parent = if status == 409 { api.get(&format!("{path}/parent")) } else { made };
    parent["metadata"]["uid"].as_str().unwrap_or_else(|| panic!("{kind}: {parent:#}")).to_owned()
}

/// Dry runs: nothing is to run.
fn children(place: &Place<'_>) {
    let elsewhere = place.beside();
    let api = Api::admin(place.cluster);
    let created = |user: &str, namespace: &str, object: &Value| {
        api.send_as(user, Method::POST, &format!("{}?dryRun=All", list_of(namespace, object)), object)
    };
    for (version, kind, maker, kinds) in FAMILIES {
        let uid = parent(&api, place, kind);
        for child_kind in kinds {
            let what = format!("{child_kind} of {kind} by {maker}");
            let object = owned(child(child_kind), (version, kind, &uid), true);
            let (status, made) = created(maker, &place.namespace, &object);
            assert_eq!(status, 201, "{what}: {made:#}");
            let (_, plain) = created(maker, &elsewhere.namespace, &object);
            assert_eq!(without_names(&made["spec"]), without_names(&plain["spec"]), "{what}");

            // Anybody can write an owner reference, and a maker has one kind of parent.
            let other =
                FAMILIES.iter().find(|family| family.2 != maker && family.1 != kind).expect("another");
            let unowned = over(object.clone(), json!({"metadata": {"ownerReferences": null}}));
            let judged = [
                (ANYBODY, object.clone()),
                (other.2, object.clone()),
                (maker, owned(object.clone(), (other.0, other.1, &uid), true)),
                (maker, owned(object.clone(), (version, kind, &uid), false)),
                (maker, owned(object.clone(), ("example.com/v1", kind, &uid), true)),
                // Nor is the parent another one of the name.
                (maker, owned(object.clone(), (version, kind, NOBODY), true)),
                (maker, unowned),
            ];
            for (user, object) in judged {
                let answer = created(user, &place.namespace, &object);
                assert!(!problems(&answer).is_empty(), "{what}, as {user}: {answer:#?}");
            }
        }
    }
    // What the operator changes later is its own, too: a Job that it resumes with the tolerations of a queue.
    let uid = parent(&api, &elsewhere, "JobSet");
    let parent = ("jobset.x-k8s.io/v1alpha2", "JobSet", &*uid);
    let suspended = over(
        gpu_job("resumed", json!({})),
        json!({"spec": {"activeDeadlineSeconds": null, "suspend": true, "managedBy": "e2e.jobgate.dev/nobody"}}),
    );
    let (status, made) =
        api.send_as(CONTROLLER, Method::POST, &list_of(&elsewhere.namespace, &suspended), &suspended);
    assert_eq!(status, 201, "{made:#}");
    elsewhere.gate();
    let toleration = json!({"key": "queue", "operator": "Exists"});
    let change = json!({"spec": {"suspend": false, "template": {"spec": {"tolerations": [toleration]}}}});
    let resumed = owned(over(made, change), parent, true);
    let path = format!("{}/resumed", list_of(&elsewhere.namespace, &resumed));
    let (status, stored) = api.send_as(CONTROLLER, Method::PUT, &path, &resumed);
    assert_eq!((status, &stored["spec"]), (200, &resumed["spec"]), "{stored:#}");
}

/// Returns a spec without what the API server makes up.
fn without_names(spec: &Value) -> Value {
    over(spec.clone(), json!({"selector": null, "template": {"metadata": null}}))
}

/// What the webhook of Volcano writes on CREATE: its list of tasks, as a whole.
fn operator_defaults(object: &Value) -> Value {
    let add = |place: &str, value: Value| json!({"op": "add", "path": place, "value": value});
    let task = over(object["spec"]["tasks"][0].clone(), json!({"minAvailable": 2, "maxRetry": 3}));
    json!([add("/spec/tasks", json!([task])), add("/spec/minAvailable", json!(2))])
}

/// Objects with little written in them, and which rule denies them.
fn minimal() -> Vec<(Value, Option<&'static str>)> {
    let job = sample("jobs.batch.volcano.sh");
    let mut unset = job.good("unset");
    let pod = unset.pointer_mut("/spec/tasks/0/template/spec").and_then(Value::as_object_mut);
    pod.expect("a mapping").remove("restartPolicy");
    let denied = Some("restart-policy");
    vec![(unset, denied), (job.good("set"), None), (job.bad("always"), denied)]
}

/// The verdict and the object are the same whichever of the two webhooks is called first, and the object has
/// what both of them write. Those of operators that can be run here are beside Jobgate in `beside.rs`.
fn defaults(place: &Place<'_>) {
    let resources = [("batch.volcano.sh", "jobs")];
    let api = Api::admin(place.cluster);
    let objects = minimal();
    let answers = ["aa", "zz"].map(|order| {
        let beside = place.beside();
        beside.gate();
        let name = place.cluster.unique(&format!("{order}-operator"));
        let mutator = Mutator::of(place.cluster, &name, &beside.namespace, &resources, operator_defaults);
        let created = |object: &Value| {
            let path = format!("{}?dryRun=All", list_of(&beside.namespace, object));
            api.send_as(ANYBODY, Method::POST, &path, object)
        };
        eventually(Duration::from_secs(20), || {
            created(&objects[1].0);
            if mutator.calls() > 0 { Ok(()) } else { Err("not called yet".to_owned()) }
        })
        .expect("the operator must be called");
        objects.iter().map(|(object, _)| created(object)).collect::<Vec<_>>()
    });
    for ((_, denied), (first, last)) in objects.iter().zip(answers[0].iter().zip(&answers[1])) {
        let (status, made) = first;
        assert_eq!((status, &made["message"], &made["spec"]), (&last.0, &last.1["message"], &last.1["spec"]));
        if let Some(rule) = denied {
            let problems = problems(first);
            assert!(problems.len() == 1 && problems[0].starts_with(rule), "{made:#}");
            continue;
        }
        assert_eq!(*status, 201, "{made:#}");
        for (place, fill) in sample("jobs.batch.volcano.sh").all_fills() {
            is(made, place, fill.value());
        }
        is(made, "/spec/tasks/0/maxRetry", json!(3));
    }
}
