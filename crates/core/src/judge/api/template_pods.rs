//! The pods that are made of the templates of an object, as far as they are known, to ask an API server about them.

use std::collections::{BTreeSet, HashSet};

use super::defaults::{made_job, made_template};
use super::place::{ApiPlace, PlaceStep, each_mapping, value_at};
use super::stored_object::Stored;
use crate::kinds::{Field, Kind, Mounted, Part, TEMPLATE, Workload, each_at};
use crate::text::pointer::Pointer;
use crate::text::value::{Value, json};

/// Characters of the object's name in that of a pod, which has 253 at most.
const MOST_OF_NAME: usize = 240;

/// A pod of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct MadePod {
    /// Where the template is.
    pub template: Pointer,
    /// The pod, without a namespace.
    pub pod: Value,
}

/// Returns a pod of each template of an object that has the form of Kubernetes, unless its number is 0. What the operator adds to
/// the pods is not in them, but for its volumes, each as an `emptyDir`: else a mount would be refused. The pods of a TrainJob are
/// those of its runtime and not known here.
#[must_use]
pub fn made_pods(kind: Kind, object: &Value) -> Vec<MadePod> {
    let mut made = Vec::new();
    let own = own_claims(kind, object);
    let workload = Workload::from_object(object);
    let pods = workload.iter().flat_map(|workload| &workload.pods);
    let none: HashSet<&Pointer> =
        pods.filter(|pod| pod.count.most == Some(0)).map(|pod| &pod.template.pointer).collect();
    for form in kind.pods.iter().filter(|form| form.template.is_of_kubernetes()) {
        each_mapping(&ApiPlace::ROOT, object, form.at, &mut |place, around| {
            let Some(template) = value_at(around, form.template.at).filter(|template| template.is_object())
            else {
                return;
            };
            let place = place.step(PlaceStep::Fields(form.template.at)).pointer();
            if none.contains(&place) {
                return;
            }
            let template = match form.is_job() {
                true => made_job(kind, form, around).get("template").map(Stored::to_value),
                false => Some(made_template(kind, form, template).to_value()),
            };
            let Some(mut template) = template else { return };
            if kind.made.overwrites.contains(&"restartPolicy")
                && let Some(spec) = template.pointer_mut("/spec").and_then(Value::as_object_mut)
            {
                spec.insert("restartPolicy", around.get("restartPolicy").map_or("Never", in_pods).into());
            }
            made.push(MadePod { template: place, pod: pod(kind, object, &template, &own) });
        });
    }
    made
}

/// Returns the `restartPolicy` of the pods of a role: `ExitCode` is looked at by the operator.
fn in_pods(of_role: &Value) -> &str {
    of_role.as_str().filter(|policy| ["Always", "OnFailure"].contains(policy)).unwrap_or("Never")
}

fn pod(kind: Kind, object: &Value, template: &Value, own: &BTreeSet<&str>) -> Value {
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    let has = volumes(&spec);
    let is_added =
        |name: &str| kind.made.volumes.is_none_or(|added| added.contains(&name)) || own.contains(name);
    let mounted = TEMPLATE.containers.iter().flat_map(|field| spec.get(field.name)?.as_array()).flatten();
    let mounted = mounted.flat_map(|container| container.get("volumeMounts")?.as_array()).flatten();
    let mounted = mounted.filter_map(|mount| mount.get("name")?.as_str());
    let missing: BTreeSet<&str> = mounted.filter(|name| !has.contains(*name) && is_added(name)).collect();
    let missing: Vec<Value> = missing.into_iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
    if let Some(spec) = spec.as_object_mut().filter(|_| !missing.is_empty()) {
        let mut volumes = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        volumes.extend(missing);
        spec.insert("volumes".to_owned(), Value::Array(volumes));
    }
    let text = |key: &str| object.get("metadata")?.get(key)?.as_str();
    let name = text("name").or(text("generateName")).unwrap_or_default();
    // The same name each time, so that the server says the same each time.
    let name = name.get(..MOST_OF_NAME).unwrap_or(name).trim_end_matches(['-', '.']);
    let mut metadata = json!({"name": format!("{name}-dry-run")});
    for key in ["labels", "annotations"] {
        if let Some(written) = template.get("metadata").and_then(|metadata| metadata.get(key))
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.insert(key.to_owned(), written.clone());
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Returns the names of the volumes of a pod spec.
fn volumes(spec: &Value) -> BTreeSet<String> {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.filter_map(|volume| Some(volume.get("name")?.as_str()?.to_owned())).collect()
}

/// Returns the names of the claims that an object makes, which become volumes of its pods.
pub(super) fn own_claims(kind: Kind, object: &Value) -> BTreeSet<&str> {
    let root = Part::root(object);
    let mut names = BTreeSet::new();
    for claims in kind.claims.iter().filter(|claims| claims.mounted == Mounted::ByName) {
        each_at(&root, claims.at, &mut |claim| {
            if let Field::Set(name) = claim.at(claims.name).text() {
                names.insert(name);
            }
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(object: &Value) -> Vec<MadePod> {
        made_pods(Kind::from_object(object).expect("a kind"), object)
    }

    #[test]
    fn a_pod_is_what_the_operator_makes_of_a_template() {
        let template = json!({
            "metadata": {"labels": {"team": "a"}, "name": "x"},
            "spec": {"restartPolicy": "Always", "containers": [{"name": "w", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}]},
        });
        let spec = json!({"replicas": 2, "restartPolicy": "OnFailure", "template": template});
        let object = json!({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"},
            "spec": {"pytorchReplicaSpecs": {"Master": spec, "Worker": spec}},
        });
        let pods = pods(&object);
        let places: Vec<String> = pods.iter().map(|made| made.template.to_json_pointer()).collect();
        assert_eq!(
            places,
            ["/spec/pytorchReplicaSpecs/Master/template", "/spec/pytorchReplicaSpecs/Worker/template"]
        );
        assert_eq!(pods[0].pod["metadata"], json!({"name": "train-dry-run", "labels": {"team": "a"}}));
        let spec = &pods[0].pod["spec"];
        assert_eq!(spec["restartPolicy"], "OnFailure", "the operator overwrites it");
        assert_eq!(spec["containers"][0]["terminationMessagePolicy"], "File", "the defaults of the server");
    }

    #[test]
    fn volumes_of_the_operator_are_there_and_others_are_not() {
        let mounts = json!([{"name": "ssh-auth", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]);
        let template = json!({"spec": {"containers": [{"name": "l", "image": "i", "volumeMounts": mounts}]}});
        let object = json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"generateName": "m-"},
            "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}}},
        });
        let pods = pods(&object);
        assert_eq!(pods[0].pod["spec"]["volumes"], json!([{"name": "ssh-auth", "emptyDir": {}}]));
    }

    #[test]
    fn a_role_of_no_pods_has_none() {
        let template = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let job = |replicas: i64| json!({"name": "w", "replicas": replicas, "template": {"spec": {"template": template}}});
        let object = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [job(0), job(1)]}});
        let places: Vec<String> = pods(&object).iter().map(|made| made.template.to_json_pointer()).collect();
        assert_eq!(places, ["/spec/replicatedJobs/1/template/spec/template"]);
        let role = |replicas: i64| json!({"replicas": replicas, "template": template});
        let spec = json!({"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(0)}});
        assert_eq!(
            pods(&json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec})).len(),
            1
        );
    }

    #[test]
    fn a_job_and_the_jobs_of_others_have_pods() {
        let template =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}});
        let job = json!({"template": template});
        let objects = [
            (json!({"apiVersion": "batch/v1", "kind": "Job", "spec": job}), "/spec/template"),
            (
                json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": job}}}),
                "/spec/jobTemplate/spec/template",
            ),
            (
                json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                    "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": job}}]}}),
                "/spec/replicatedJobs/0/template/spec/template",
            ),
        ];
        for (object, place) in objects {
            let pods = pods(&object);
            assert_eq!(pods.len(), 1, "{object}");
            assert_eq!(pods[0].template.to_json_pointer(), place);
            assert_eq!(pods[0].pod["spec"]["restartPolicy"], "Never", "{object}");
        }
    }
}
