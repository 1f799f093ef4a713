//! Objects with fields of wrong types. Those of operators' kinds reach the mutating webhook before anybody
//! has checked them; then the API server rejects them in its own words, and Jobgate must not get in between.

use jobgate::text::value::{Value, json};

use crate::api::Api;
use crate::kinds::problems;
use crate::manifests::over;
use crate::mutated::places;
use crate::samples::{SAMPLES, Sample};
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] =
    &[Scenario::new("kinds_with_wrong_types_are_rejected_as_without_jobgate", rejected_as_without)
        .needs(Needs::CustomResources)];

/// Fields that rules read, and that the samples do not have.
fn optional(sample: &Sample) -> Value {
    let policy =
        json!({"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60, "backoffLimit": 1, "suspend": true});
    match sample.resource {
        "paddlejobs.kubeflow.org" => {
            json!({"runPolicy": policy, "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}})
        }
        resource if resource.ends_with(".kubeflow.org") && sample.fills.len() > 2 => {
            json!({"runPolicy": policy})
        }
        "jobsets.jobset.x-k8s.io" => json!({
            "suspend": true, "ttlSecondsAfterFinished": 60, "failurePolicy": {"maxRestarts": 1},
        }),
        "rayjobs.ray.io" => json!({
            "shutdownAfterJobFinishes": true, "ttlSecondsAfterFinished": 60, "suspend": true,
            "clusterSelector": {"a": "b"},
            "deletionStrategy": {"deletionRules": [{"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED"}}]},
            "rayClusterSpec": {"enableInTreeAutoscaling": true},
        }),
        "trainjobs.trainer.kubeflow.org" => json!({"suspend": true}),
        "jobs.batch.volcano.sh" => json!({
            "ttlSecondsAfterFinished": 60, "maxRetry": 2, "policies": [{"event": "PodFailed", "action": "TerminateJob"}],
        }),
        "scaledjobs.keda.sh" => json!({"maxReplicaCount": 4}),
        _ => json!({}),
    }
}

/// Returns values of other types than a value has.
fn wrong(right: &Value) -> Vec<Value> {
    let mut all = vec![Value::Null];
    all.extend((!right.is_string()).then(|| json!("x")));
    all.extend(right.as_number().is_none().then(|| json!(-1)));
    all.extend((!right.is_array()).then(|| json!([7])));
    all.extend((!right.is_object()).then(|| json!({"x": "y"})));
    all
}

fn rejected_as_without(place: &Place<'_>) {
    let elsewhere = place.beside();
    let api = Api::admin(place.cluster);
    let asked = |namespace: &str, object: &Value| {
        let (status, _, answer) = api.create_without_effect(namespace, object, "Ignore");
        (status, if status < 300 { Value::Null } else { answer })
    };
    let (mut rejected, mut denied, mut differing) = (0, 0, Vec::new());
    for sample in SAMPLES {
        let object = over(sample.full("wrong"), json!({"spec": optional(sample)}));
        for pointer in places(&object) {
            for value in wrong(object.pointer(&pointer).expect("a place")) {
                let mut wrong = object.clone();
                *wrong.pointer_mut(&pointer).expect("a place") = value.clone();
                let with = asked(&place.namespace, &wrong);
                if with.0 < 300 {
                    continue;
                }
                let without = asked(&elsewhere.namespace, &wrong);
                if !problems(&with).is_empty() && without.0 == 201 {
                    denied += 1;
                } else if with == without && with.0 < 500 {
                    rejected += 1;
                } else {
                    differing.push(format!(
                        "{} {pointer} {value}: {with:?}, without {without:?}",
                        sample.resource
                    ));
                }
            }
        }
    }
    println!("{rejected} rejected, {denied} denied, {} differ", differing.len());
    assert!(differing.is_empty(), "{}", differing.iter().take(20).cloned().collect::<Vec<_>>().join("\n"));
    assert!(rejected > 1200 && denied > 20, "{rejected} rejected, {denied} denied");
    let gate = place.cluster.gate.as_ref().expect("the cluster has a Jobgate");
    for cause in ["panic", "patch_", "malformed", "object_", "kind_"] {
        let count = gate.count("jobgate_faults_total", &format!("cause=\"{cause}"));
        assert!(count < 0.5, "{count} faults: {cause}");
    }
}
