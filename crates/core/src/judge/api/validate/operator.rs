//! The validation by operators: of a `PyTorchJob` by the training operator's webhook, since version 1.8
//! (docs/internals/kubeflow.md#pytorchjob), of a `RayJob` by KubeRay's controller
//! (docs/internals/batch-kinds.md#rayjob), of a Volcano `Job` and of an `AppWrapper` by their webhooks
//! (docs/internals/batch-kinds.md#appwrapper).

use super::cause::{Cause, CausePlace as _, Causes};
use super::custom;
use super::object_part::ObjectPart;
use super::runtime_env;
use super::volcano::volcano;
use crate::controllers::managers;
use crate::judge::api::stored_object::Stored;
use crate::judge::checks::{APP_WRAPPER_OPERATOR, RAY_OPERATOR, TRAINING_OPERATOR, VOLCANO_OPERATOR};
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::kinds::{Api, Kind, Operator, Path};
use crate::text::placeholder::{is_placeholder, is_to_replace};

/// Returns the check that reports what the operator of a kind rejects.
pub(in crate::judge::api) fn check_of(kind: Option<Kind>) -> &'static str {
    match kind.map(|kind| kind.api) {
        Some(Api::Custom { operator: Some(Operator::Ray), .. }) => RAY_OPERATOR,
        Some(Api::Custom { operator: Some(Operator::AppWrapper), .. }) => APP_WRAPPER_OPERATOR,
        Some(Api::Custom { operator: Some(Operator::Volcano), .. }) => VOLCANO_OPERATOR,
        _ => TRAINING_OPERATOR,
    }
}

/// Returns why the operator rejects a new object; nothing for other kinds.
#[must_use]
pub(crate) fn refusals(object: &Stored<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let kind = object.kind();
    match kind.map(|kind| kind.api) {
        Some(Api::Custom { operator: Some(Operator::Training { container }), .. }) => {
            if let Some(roles) = kind.and_then(|kind| kind.roles()) {
                training(&ObjectPart::root(object), roles, container, &mut causes);
            }
        }
        Some(Api::Custom { operator: Some(Operator::Ray), .. }) => {
            ray(&ObjectPart::root(object), &mut causes);
        }
        Some(Api::Custom { operator: Some(Operator::Volcano), .. }) => {
            volcano(&ObjectPart::root(object), &mut causes);
        }
        Some(Api::Custom { operator: Some(Operator::AppWrapper), .. }) => {
            if let Some(kind) = kind {
                wrapper(&ObjectPart::root(object), kind, &mut causes);
            }
        }
        _ => {}
    }
    causes.into_vec()
}

fn wrapper(object: &ObjectPart<'_, '_>, kind: Kind, causes: &mut Causes) {
    // A manifest may leave the namespace to `kubectl -n`.
    let own = object.at(&["metadata", "namespace"]);
    let Some(path) = kind.components else { return };
    custom::each(object, path, None, &mut |_, inner| {
        let [version, name] = ["apiVersion", "kind"].map(|key| inner.get(key));
        if name.text() == kind.name && version.text() == kind.api_version() {
            causes.forbidden(inner, "may not be an AppWrapper");
        }
        let namespace = inner.at(&["metadata", "namespace"]);
        let is_other = !namespace.text().is_empty() && namespace.text() != own.text();
        if !own.text().is_empty() && is_other {
            causes.forbidden(&namespace, "must be the namespace of the AppWrapper");
        }
    });
}

fn ray(object: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let spec = object.get("spec");
    let [shutdown, suspend, ttl] =
        ["shutdownAfterJobFinishes", "suspend", "ttlSecondsAfterFinished"].map(|key| spec.get(key));
    let rules = spec.at(&["deletionStrategy", "deletionRules"]);
    if shutdown.is_true() && rules.is_set() {
        causes.forbidden(&shutdown, "may not be set together with deletionStrategy.deletionRules");
    }
    let selector = spec.get("clusterSelector");
    if suspend.is_true() && selector.is_set() {
        causes.forbidden(&suspend, "may not be set together with clusterSelector");
    }
    if !shutdown.is_true() && !rules.is_set() {
        if suspend.is_true() {
            causes.required(&shutdown, "must be true in a job that can be suspended");
        }
        if ttl.number().is_some_and(|seconds| seconds > 0) {
            causes.forbidden(&ttl, "may not be set unless shutdownAfterJobFinishes is true");
        }
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.number().is_some_and(|seconds| seconds <= 0) {
        causes.invalid(&deadline, "must be greater than 0");
    }
    let (mode, retries) = (spec.get("submissionMode"), spec.get("backoffLimit"));
    if retries.number().is_some_and(|retries| retries > 0) {
        if selector.is_set() {
            causes.forbidden(&retries, "may not be set together with clusterSelector");
        } else if mode.text() == "InteractiveMode" {
            causes.forbidden(&retries, "may not be set in InteractiveMode");
        }
    }
    let runtime = spec.get("runtimeEnvYAML");
    if let Some(why) = runtime_env::wrong(runtime.text()) {
        causes.invalid_bare(&runtime, &why.message);
    }
    if mode.text() == "SidecarMode" {
        for field in ["submitterPodTemplate", "submitterConfig"].map(|key| spec.get(key)) {
            if field.is_set() {
                causes.forbidden(&field, "may not be set in SidecarMode");
            }
        }
    }
}

fn training(object: &ObjectPart<'_, '_>, roles: Path, container_name: &str, causes: &mut Causes) {
    let name = object.at(&["metadata", "name"]);
    if !name.text().is_empty() {
        for message in names::dns_label_1035(name.text()) {
            causes.invalid(&name, &format!("should match: {message}"));
        }
    }
    let spec = object.get("spec");
    let replicas = object.at(roles);
    let mut has_worker = false;
    // With a `spec`, the API server requires them.
    if !spec.is_mapping() && !replicas.is_set() {
        causes.required(&replicas, "must be required");
    }
    for (role, replica) in replicas.entries() {
        has_worker |= role == "Worker";
        if !matches!(role, "Master" | "Worker") {
            causes.unsupported(&replica, &quoted(role), &["Master", "Worker"]);
        }
        let containers = replica.at(&["template", "spec", "containers"]);
        if containers.items().next().is_none() {
            causes.required(&containers, "must be specified");
        } else {
            for container in containers.items() {
                if container.get("image").text().is_empty() {
                    causes.required(&container.get("image"), "must be required");
                }
            }
            // A placeholder may stand for it.
            let may_be = |name: &str| name == container_name || is_placeholder(name) || is_to_replace(name);
            if !containers.items().any(|container| may_be(container.get("name").text())) {
                let message = format!("must have at least one container with name {container_name}");
                causes.required(&containers, &message);
            }
        }
    }
    let managed = spec.at(&["runPolicy", "managedBy"]);
    causes.one_of_if_set(&managed, &[managers::TRAINING, managers::MULTI_KUEUE]);
    let elastic = spec.get("elasticPolicy");
    if elastic.is_set() {
        let may_be = |role: &str| is_placeholder(role) || is_to_replace(role);
        if replicas.is_mapping() && !has_worker && !replicas.entries().any(|(role, _)| may_be(role)) {
            causes.required(&(replicas.pointer() / "Worker"), "must be configured if elastic policy is used");
        }
        if elastic.get("nProcPerNode").is_set() && spec.get("nprocPerNode").is_set() {
            causes.forbidden(&elastic.get("nProcPerNode"), "must not be used with spec.nprocPerNode");
        }
    }
    for (role, least) in [("Master", 1), ("Worker", 1)] {
        let replica = replicas.get(role);
        let count = replica.get("replicas");
        match count.number() {
            Some(number) if role == "Master" && number != 1 => _ = causes.invalid(&count, "must be 1"),
            None if role == "Master" && replica.is_mapping() && !count.is_set() => {
                _ = causes.required(&count, "must be 1");
            }
            Some(number) if number < least => _ = causes.invalid(&count, "must be at least 1"),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests {
    use super::*;
    use crate::text::value::{Value, json};

    fn said(object: &Value) -> Vec<String> {
        refusals(&Stored::from_value(object))
            .into_iter()
            .map(|cause| format!("{}: {}", cause.path, cause.message))
            .collect()
    }

    fn job(name: &str, spec: Value) -> Value {
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec})
    }

    #[test]
    fn a_ray_job_that_keeps_its_cluster_has_no_ttl_and_is_not_suspended() {
        let ray = |spec: Value| {
            said(
                &json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": spec}),
            )
        };
        assert_eq!(
            ray(json!({"shutdownAfterJobFinishes": true, "ttlSecondsAfterFinished": 60, "suspend": true})),
            [""; 0]
        );
        assert_eq!(ray(json!({"ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 60})), [""; 0]);
        assert_eq!(
            ray(json!({"ttlSecondsAfterFinished": 60, "suspend": true, "activeDeadlineSeconds": 0})),
            [
                "spec.shutdownAfterJobFinishes: Required value: must be true in a job that can be suspended",
                "spec.ttlSecondsAfterFinished: Forbidden: may not be set unless shutdownAfterJobFinishes is true",
                "spec.activeDeadlineSeconds: Invalid value: 0: must be greater than 0",
            ]
        );
        let rules = json!({"deletionRules": [{"policy": "DeleteCluster"}]});
        assert_eq!(ray(json!({"deletionStrategy": rules, "suspend": true})), [""; 0]);
        assert_eq!(ray(json!({"deletionStrategy": rules, "shutdownAfterJobFinishes": true})).len(), 1);
        assert_eq!(ray(json!({"clusterSelector": {"a": "b"}, "backoffLimit": 1})).len(), 1);
        let suspended =
            json!({"clusterSelector": {"a": "b"}, "shutdownAfterJobFinishes": true, "suspend": true});
        assert_eq!(ray(suspended), ["spec.suspend: Forbidden: may not be set together with clusterSelector"]);
        assert_eq!(ray(json!({"runtimeEnvYAML": "pip: [torch]\n"})), [""; 0]);
        let text = ray(json!({"runtimeEnvYAML": "torch"}));
        assert_eq!(text, ["spec.runtimeEnvYAML: Invalid value: must be a YAML mapping, and is a string"]);
        assert_eq!(ray(json!({"submissionMode": "InteractiveMode", "backoffLimit": 1})).len(), 1);
        assert_eq!(ray(json!({"submissionMode": "SidecarMode", "submitterConfig": {}})).len(), 1);
    }

    #[test]
    fn what_is_wrapped_is_no_wrapper_and_of_the_same_namespace() {
        let wrapper = |namespace: Value, inner: Value| {
            said(&json!({
                "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                "metadata": {"name": "w", "namespace": namespace},
                "spec": {"components": [{"template": {"kind": "Job"}}, {"template": inner}]},
            }))
        };
        let job = |namespace: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace}});
        assert_eq!(wrapper("a".into(), job("a")), [""; 0]);
        assert_eq!(wrapper("a".into(), job("")), [""; 0]);
        assert_eq!(wrapper(Value::Null, job("b")), [""; 0], "unknown");
        assert_eq!(
            wrapper("a".into(), job("b")),
            [
                "spec.components[1].template.metadata.namespace: Forbidden: must be the namespace of the AppWrapper"
            ]
        );
        let nested = |version: &str| json!({"apiVersion": version, "kind": "AppWrapper"});
        assert_eq!(
            wrapper("a".into(), nested("workload.codeflare.dev/v1beta2")),
            ["spec.components[1].template: Forbidden: may not be an AppWrapper"]
        );
        assert_eq!(wrapper("a".into(), nested("mcad.ibm.com/v1beta1")), [""; 0]);
    }

    #[test]
    fn a_master_is_one_and_says_so() {
        let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i"}]}});
        let with = |replicas: Value| {
            job("p", json!({"pytorchReplicaSpecs": {"Master": {"replicas": replicas, "template": template}}}))
        };
        assert_eq!(said(&with(json!(1))), [""; 0]);
        assert_eq!(
            said(&with(json!(2))),
            ["spec.pytorchReplicaSpecs[Master].replicas: Invalid value: 2: must be 1"]
        );
        assert_eq!(
            said(&with(Value::Null)),
            ["spec.pytorchReplicaSpecs[Master].replicas: Required value: must be 1"]
        );
        // A placeholder is no number.
        assert_eq!(said(&with(json!("$N"))), [""; 0]);
    }

    #[test]
    fn replicas_have_roles_and_a_container_of_the_right_name() {
        let template = json!({"spec": {"containers": [{"name": "trainer", "image": ""}]}});
        let object = job(
            "1p",
            json!({
                "pytorchReplicaSpecs": {"Chief": {"template": template}, "Master": {"replicas": 1}},
                "elasticPolicy": {"nProcPerNode": 2},
                "nprocPerNode": "auto",
                "runPolicy": {"managedBy": "me"},
            }),
        );
        let found = said(&object);
        for part in [
            "metadata.name: Invalid value: \"1p\": should match: a DNS-1035 label",
            "spec.pytorchReplicaSpecs[Chief]: Unsupported value: \"Chief\": supported values: \"Master\", \"Worker\"",
            "spec.pytorchReplicaSpecs[Chief].template.spec.containers[0].image: Required value: must be required",
            "spec.pytorchReplicaSpecs[Chief].template.spec.containers: Required value: must have at least one container with name pytorch",
            "spec.pytorchReplicaSpecs[Master].template.spec.containers: Required value: must be specified",
            "spec.runPolicy.managedBy: Unsupported value",
            "spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used",
            "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
        ] {
            assert!(found.iter().any(|line| line.starts_with(part)), "{part}\n{found:#?}");
        }
        assert_eq!(found.len(), 8, "{found:#?}");
    }
}
