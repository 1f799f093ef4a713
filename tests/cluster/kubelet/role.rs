//! What a pod is to its operator, read from the labels that each operator writes.

use jobgate::text::value::Value;

use super::script::Life;

/// Role, number and restart of the set of a pod, and the Job or the Ray cluster that it belongs to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) role: String,
    pub(crate) index: Option<u64>,
    pub(crate) set: Option<u64>,
    /// The name of its Job, if it is of no operator that numbers its pods.
    pub(crate) job: Option<String>,
    /// The name of its Ray cluster.
    pub(crate) cluster: Option<String>,
    pub(crate) life: Life,
}

/// Reads the role of a pod.
pub(crate) fn of(pod: &Value) -> Role {
    let read = |place: &str, key: &str| pod["metadata"][place].get(key).and_then(Value::as_str);
    let label = |key: &str| read("labels", key);
    let either = |key: &str| label(key).or_else(|| read("annotations", key));
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    let completion = number(read("annotations", "batch.kubernetes.io/job-completion-index"));
    let role = |role: &str, index, set| Role { role: role.to_owned(), index, set, ..Role::default() };
    if let Some(name) = label("jobset.sigs.k8s.io/replicatedjob-name") {
        let job = label("jobset.sigs.k8s.io/job-index").unwrap_or("0");
        let set = number(label("jobset.sigs.k8s.io/restart-attempt"));
        return role(&format!("{name}-{job}"), completion, Some(set.unwrap_or_default()));
    }
    if let Some(task) = either("volcano.sh/task-spec") {
        let last = pod["metadata"]["name"].as_str().and_then(|name| name.rsplit('-').next());
        let index = number(either("volcano.sh/task-index").or(last));
        let set = number(read("annotations", "volcano.sh/job-version"));
        return role(task, index, Some(set.unwrap_or_default()));
    }
    if let Some(kind) = label("training.kubeflow.org/replica-type") {
        let index = number(label("training.kubeflow.org/replica-index"));
        return role(kind, Some(index.unwrap_or_default()), None);
    }
    if let Some(job_role) = label("training.kubeflow.org/job-role") {
        return role(job_role, number(label("training.kubeflow.org/replica-index")).or(completion), None);
    }
    if let Some(node) = label("ray.io/node-type") {
        let group = label("ray.io/group").unwrap_or("worker");
        let role = role(if node == "head" { node } else { group }, None, None);
        return Role { cluster: label("ray.io/cluster").map(str::to_owned), life: Life::Serves, ..role };
    }
    if let Some(worker) = label("leaderworkerset.sigs.k8s.io/worker-index") {
        let group = label("leaderworkerset.sigs.k8s.io/group-index").unwrap_or("?");
        return role(&format!("g{group}"), number(Some(worker)), None);
    }
    let job = label("batch.kubernetes.io/job-name");
    let is_submitter =
        label("ray.io/originated-from-crd") == Some("RayJob") || has_container(pod, "ray-job-submitter");
    if is_submitter && job.is_some() {
        return Role { life: Life::Follows, ..role("submitter", None, None) };
    }
    Role { job: job.map(str::to_owned), ..role(job.unwrap_or("pod"), completion, None) }
}

/// Tells whether a pod has a container of a name: KubeRay 1.6 writes no label on the pods that submit.
fn has_container(pod: &Value, name: &str) -> bool {
    pod["spec"]["containers"].as_array().into_iter().flatten().any(|container| container["name"] == name)
}

#[cfg(test)]
mod tests {
    use jobgate::text::value::json;

    use super::*;

    #[test]
    fn each_operator_names_its_pods_in_its_own_way() {
        let role = |role: &str, index, set| Role { role: role.to_owned(), index, set, ..Role::default() };
        let completion = json!({"batch.kubernetes.io/job-completion-index": "3"});
        let set = json!({
            "jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": "1",
            "jobset.sigs.k8s.io/restart-attempt": "2", "batch.kubernetes.io/job-name": "j-node-1",
        });
        let volcano = json!({"volcano.sh/task-spec": "worker", "volcano.sh/job-version": "4"});
        let torch = json!({"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "2"});
        for (name, labels, annotations, expected) in [
            ("j-node-1-3-x", set, completion.clone(), role("node-1", Some(3), Some(2))),
            ("j-worker-7", json!({}), volcano, role("worker", Some(7), Some(4))),
            ("j-worker-2", torch, json!({}), role("worker", Some(2), None)),
            (
                "j-launcher-x",
                json!({"training.kubeflow.org/job-role": "launcher", "batch.kubernetes.io/job-name": "j-launcher"}),
                json!({}),
                role("launcher", None, None),
            ),
            (
                "j-x-head",
                json!({"ray.io/node-type": "head", "ray.io/group": "headgroup", "ray.io/cluster": "j-x"}),
                json!({}),
                Role { cluster: Some("j-x".to_owned()), life: Life::Serves, ..role("head", None, None) },
            ),
            (
                "j-y",
                json!({"ray.io/originated-from-crd": "RayJob", "batch.kubernetes.io/job-name": "j"}),
                json!({}),
                Role { life: Life::Follows, ..role("submitter", None, None) },
            ),
            (
                "j-0-1",
                json!({"leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": "1"}),
                json!({}),
                role("g0", Some(1), None),
            ),
            (
                "j-3-x",
                json!({"batch.kubernetes.io/job-name": "j"}),
                completion,
                Role { job: Some("j".to_owned()), ..role("j", Some(3), None) },
            ),
            ("lonely", Value::Null, Value::Null, role("pod", None, None)),
        ] {
            let pod = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
            assert_eq!(of(&pod), expected);
        }
        let labels = json!({"batch.kubernetes.io/job-name": "j"});
        let spec = json!({"containers": [{"name": "ray-job-submitter"}]});
        let submitter = Role { life: Life::Follows, ..role("submitter", None, None) };
        assert_eq!(of(&json!({"metadata": {"name": "j-y", "labels": labels}, "spec": spec})), submitter);
    }
}
