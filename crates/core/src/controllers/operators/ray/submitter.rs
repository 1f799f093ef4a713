//! What a RayJob makes: the RayCluster, and what submits the program (`rayjob_controller.go`, `common/job.go`).

use std::sync::Arc;

use super::super::super::cluster::Cluster;
use super::super::super::cluster::NewJob;
use super::super::super::dashboard::programs::{DASHBOARD_ADDRESS, HEAD_SERVICE, SUBMISSION_ID, SUBMITTER};
use super::super::super::object::{Object, RayJobStatus};
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::cluster_number;
use super::ray_cluster::NO_HEAD_RESTART;
use crate::text::value::{Value, json};

/// The role of the pods of a submitter Job.
const ROLE: &str = "submitter";
/// `backoffLimit` of a submitter Job where `submitterConfig` has none.
const BACKOFF_LIMIT: i64 = 2;

/// Returns the RayCluster of a RayJob (`constructRayClusterForRayJob`).
pub(super) fn ray_cluster(
    number: usize,
    job: &Object,
    status: &RayJobStatus,
    is_sidecar: bool,
    at: Time,
) -> Object {
    let mut spec = job.spec().get("rayClusterSpec").cloned().unwrap_or(Value::Null);
    let mut annotations = job.manifest.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({}));
    if is_sidecar {
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(NO_HEAD_RESTART, "true".into());
        }
        if let Some(pod) = spec.pointer_mut("/headGroupSpec/template/spec").and_then(Value::as_object_mut) {
            pod.insert("restartPolicy", "Never".into());
            if let Some(containers) = pod.get_mut("containers").and_then(Value::as_array_mut) {
                containers.push(json!({"name": SUBMITTER, "env": environment(status)}));
            }
        }
    }
    let labels = json!({"ray.io/originated-from-cr-name": job.name, "ray.io/originated-from-crd": "RayJob"});
    let manifest = json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": status.cluster, "annotations": annotations, "labels": labels},
        "spec": spec,
    });
    Object::new("RayCluster", &status.cluster, Some(Owner::Object(number)), manifest, at)
}

/// Returns the submitter Job of a RayJob (`createNewK8sJob`): it has no deadline, no TTL and no policy.
pub(super) fn job(
    cluster: &Cluster,
    number: usize,
    job: &Object,
    status: &RayJobStatus,
    ray_cluster: usize,
) -> NewJob {
    let given = job.spec().get("submitterPodTemplate").filter(|template| template.is_object());
    let mut template = given
        .cloned()
        .unwrap_or_else(|| json!({"spec": {"containers": [{"name": SUBMITTER}], "restartPolicy": "Never"}}));
    if let Some(container) = template.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut) {
        let own = container.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
        let added = environment(status);
        let env = own.into_iter().chain(added.as_array().cloned().unwrap_or_default());
        container.insert("env", Value::Array(env.collect()));
    }
    let limit = job.spec().pointer("/submitterConfig/backoffLimit").and_then(Value::as_i64);
    NewJob {
        name: job.name.clone(),
        owner: Some(Owner::Object(number)),
        role: Arc::from(ROLE),
        round: cluster_number(cluster, ray_cluster),
        spec: json!({"backoffLimit": limit.unwrap_or(BACKOFF_LIMIT), "template": template}),
    }
}

/// Returns the variables of a container that submits.
fn environment(status: &RayJobStatus) -> Value {
    json!([
        {"name": DASHBOARD_ADDRESS, "value": format!("{}{HEAD_SERVICE}:8265", status.cluster)},
        {"name": SUBMISSION_ID, "value": status.id},
    ])
}
