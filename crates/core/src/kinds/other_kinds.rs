//! Recognises batch work that Jobgate does not judge, by kind or by its pods. It is reported as not judged.

use crate::k8s::quantity::Quantity;
use crate::kinds::accelerator::{TAINTS, taint_of};
use crate::kinds::kind::Kind;
use crate::text::meter;
use crate::text::placeholder::is_placeholder;
use crate::text::pointer::Pointer;
use crate::text::suggest;
use crate::text::value::{Map, Value};

/// Batch kinds that are not judged, by API group.
static OTHERS: &[(&str, &[&str])] = &[
    ("argoproj.io", &["ClusterWorkflowTemplate", "CronWorkflow", "Workflow", "WorkflowTemplate"]),
    ("apps.kubedl.io", &["Cron"]),
    ("batch.paddlepaddle.org", &["PaddleJob"]),
    ("batch.volcano.sh", &["CronJob"]),
    ("batch.x-k8s.io", &["JobSet"]),
    ("elastic.iml.github.io", &["ElasticJob"]),
    ("elastic.pytorch.org", &["ElasticJob"]),
    ("execution.furiko.io", &["Job", "JobConfig"]),
    ("flink.apache.org", &["FlinkDeployment", "FlinkSessionJob"]),
    ("flow.volcano.sh", &["JobFlow", "JobTemplate"]),
    ("flux-framework.org", &["MetricSet", "MiniCluster"]),
    (
        "kubeflow.org",
        &[
            "ClusterTrainingRuntime",
            "Experiment",
            "MXJob",
            "ScheduledWorkflow",
            "TrainJob",
            "TrainingRuntime",
            "Trial",
        ],
    ),
    ("kubernetes.dask.org", &["DaskCluster", "DaskJob"]),
    ("kubecluster.org", &["KubeCluster"]),
    ("leaderworkerset.x-k8s.io", &["LeaderWorkerSet"]),
    ("mcad.ibm.com", &["AppWrapper"]),
    ("ray.io", &["RayCluster", "RayCronJob"]),
    ("run.ai", &["DistributedWorkload", "TrainingWorkload"]),
    ("spark.apache.org", &["SparkApplication", "SparkCluster"]),
    ("sparkoperator.k8s.io", &["ScheduledSparkApplication", "SparkApplication"]),
    ("tekton.dev", &["ClusterTask", "Pipeline", "PipelineRun", "Task", "TaskRun"]),
    ("trainer.kubeflow.org", &["OptimizationJob"]),
    (
        "training.kubedl.io",
        &["ElasticDLJob", "MarsJob", "MPIJob", "PyTorchJob", "TFJob", "XDLJob", "XGBoostJob"],
    ),
    ("wlm.sylabs.io", &["SlurmJob"]),
    ("xdl.kubedl.io", &["XDLJob"]),
    ("xgboostjob.kubeflow.org", &["XGBoostJob"]),
];

/// A group or `apiVersion`, and a kind.
type KindName = (&'static str, &'static str);

/// Kinds that no maintained operator supports any more, in all versions of a group or in one, and the
/// `apiVersion` and `kind` that replaced them (docs/internals/batch-kinds.md#kinds-without-an-operator).
static SUCCEEDED: &[(KindName, KindName)] = &[
    (("batch.paddlepaddle.org", "PaddleJob"), ("kubeflow.org/v1", "PaddleJob")),
    (("batch.x-k8s.io", "JobSet"), ("jobset.x-k8s.io/v1alpha2", "JobSet")),
    (("elastic.pytorch.org", "ElasticJob"), ("kubeflow.org/v1", "PyTorchJob")),
    (
        ("kubeflow.org/v2alpha1", "ClusterTrainingRuntime"),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"),
    ),
    (("kubeflow.org/v2alpha1", "TrainJob"), ("trainer.kubeflow.org/v1alpha1", "TrainJob")),
    (("kubeflow.org/v2alpha1", "TrainingRuntime"), ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime")),
    (("mcad.ibm.com", "AppWrapper"), ("workload.codeflare.dev/v1beta2", "AppWrapper")),
    (("xgboostjob.kubeflow.org", "XGBoostJob"), ("kubeflow.org/v1", "XGBoostJob")),
];

/// Returns the `apiVersion` and `kind` that replaced a kind.
#[must_use]
pub fn successor(api_version: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_it = |old: &str| old == group || old == api_version;
    SUCCEEDED.iter().find(|((old, name), _)| is_it(old) && *name == kind).map(|(_, new)| *new)
}

/// Tells whether only another version of a group had a kind.
#[must_use]
pub fn is_of_other_version(api_version: &str, kind: &str) -> bool {
    let is_other = |old: &str| {
        old != api_version
            && old
                .split_once('/')
                .is_some_and(|(group, _)| api_version.split_once('/').is_some_and(|of| of.0 == group))
    };
    SUCCEEDED.iter().any(|((old, name), _)| is_other(old) && *name == kind)
}

/// Returns the groups, each with its kinds.
pub fn others() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    OTHERS.iter().copied()
}

/// Tells whether a group and name are those of a batch kind that is not judged.
#[must_use]
pub fn is_other(group: &str, kind: &str) -> bool {
    OTHERS.iter().any(|(name, kinds)| *name == group && kinds.contains(&kind))
}

/// Tells whether a group has batch kinds.
#[must_use]
pub fn is_batch_group(group: &str) -> bool {
    OTHERS.iter().any(|(name, _)| *name == group) || Kind::all().any(|kind| kind.group == group)
}

/// Returns the group and name of the batch kind that was probably meant by an unknown kind: in another case,
/// in the plural, with a typo, or in a group that no custom resource can have.
///
/// `group` is nothing if the object has no `apiVersion`.
#[must_use]
pub fn meant(group: Option<&str>, kind: &str) -> Option<(&'static str, &'static str)> {
    // The group of a custom resource has a dot in it.
    let any_group = group.is_none_or(|group| !group.contains('.') && !is_batch_group(group));
    let ours = Kind::all().map(|kind| (kind.group, kind.name));
    let all = ours.chain(OTHERS.iter().flat_map(|(group, kinds)| kinds.iter().map(|kind| (*group, *kind))));
    let mut of_group = all
        .filter(|(name, _)| any_group || group == Some(name))
        .filter(|(_, name)| name.len().abs_diff(kind.len()) <= 2);
    let singular = |word: &str| {
        word.eq_ignore_ascii_case(kind)
            || kind.to_ascii_lowercase().strip_suffix('s') == Some(&word.to_ascii_lowercase())
    };
    let slipped = |word: &str| word.len() > SHORT && suggest::is_slip(kind, word);
    let exact = of_group.clone().find(|(_, name)| singular(name));
    exact.or_else(|| of_group.find(|(_, name)| !any_group && slipped(name)))
}

/// Names up to this length are similar to too many others (`Task`, `Cron`, `Trial`).
const SHORT: usize = 5;

/// Why an object of an unknown kind looks like batch work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// Its pods end: `restartPolicy` is `Never` or `OnFailure`, or a placeholder.
    Ends,
    /// Its containers request accelerators.
    Accelerators,
    /// It has pods, and a name or group like a batch kind.
    Name,
    /// It is of a kind for services, and starts `torchrun` with accelerators.
    Trains,
}

/// Returns why an object of an unknown kind looks like batch work, if it does. Core kinds and those of `apps`
/// never do.
#[must_use]
pub fn looks_like_batch(version: &str, object: &Value) -> Option<Likeness> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if is_no_batch(version, kind) {
        return None;
    }
    let is_named =
        kind.ends_with("Job") || version.split_once('/').is_some_and(|(group, _)| is_batch_group(group));
    likeness(object).or_else(|| (is_named && has_pod(object)).then_some(Likeness::Name))
}

/// Tells whether a kind is never batch work, whatever its pods are.
#[must_use]
pub fn is_no_batch(version: &str, kind: &str) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let is_none =
        |(name, kinds): &(&str, &[&str])| *name == group && (kinds.is_empty() || kinds.contains(&kind));
    // A PodTemplate is a core kind, but may be for batch work.
    matches!(group, "" | "apps" | "batch") && kind != "PodTemplate" || NO_BATCH.iter().any(is_none)
}

/// Calls a function with each whole object of a batch kind inside an object (a Template, ManifestWork,
/// Sensor, or something without a kind), and its place. References to objects do not count, nor objects in
/// core kinds and those of `apps`.
pub fn each_inside<'v>(object: &'v Value, found: &mut dyn FnMut(Pointer, &'v Value)) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    // OpenShift's Template was once a core kind.
    let is_none = text("apiVersion").is_empty() && text("kind").is_empty();
    // `kind: list` is not a list in Kubernetes.
    if is_none
        || text("apiVersion").contains('.')
        || text("kind") == "Template"
        || text("kind").eq_ignore_ascii_case("List")
    {
        inside(object, &Pointer::root(), found);
    }
}

fn inside<'v>(value: &'v Value, at: &Pointer, found: &mut dyn FnMut(Pointer, &'v Value)) {
    meter::spend(1);
    let is_whole = |value: &Value| {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        // Kyverno has the object's fields in `data`.
        let says = value.get("spec").or_else(|| value.get("data")?.get("spec")).is_some_and(Value::is_object);
        let says = says || value.get("items").is_some_and(Value::is_array);
        let of_batch = |version: &str, kind: &str| {
            let group = version.split_once('/').map_or("", |(group, _)| group);
            let kind = kind.strip_suffix("List").unwrap_or(kind);
            Kind::named(group, kind).is_some()
                || is_other(group, kind)
                || is_batch_group(group) && meant(Some(group), kind).is_some()
        };
        says && text("apiVersion")
            .is_some_and(|version| text("kind").is_some_and(|kind| of_batch(version, kind)))
    };
    let mut visit = |value: &'v Value, at: Pointer| {
        if is_whole(value) { found(at, value) } else { inside(value, &at, found) }
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| is_nest(value))
            .for_each(|(key, value)| visit(value, at.key(key))),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .filter(|(_, value)| is_nest(value))
            .for_each(|(nth, value)| visit(value, at / nth)),
        _ => {}
    }
}

/// Tells whether a value can contain others.
fn is_nest(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Kinds with pods that are not batch work. An empty list means all kinds of the group.
const NO_BATCH: &[(&str, &[&str])] = &[
    ("actions.github.com", &[]),
    ("admissionregistration.k8s.io", &[]),
    ("agones.dev", &[]),
    ("apiextensions.k8s.io", &[]),
    ("apps.kruise.io", &["CloneSet", "DaemonSet", "StatefulSet"]),
    ("apps.openshift.io", &["DeploymentConfig"]),
    ("argoproj.io", &["Application", "ApplicationSet", "Rollout"]),
    ("extensions", &["DaemonSet", "Deployment", "ReplicaSet"]),
    ("helm.toolkit.fluxcd.io", &[]),
    ("kubeflow.org", &["Notebook", "PodDefault"]),
    ("kyverno.io", &[]),
    ("machinelearning.seldon.io", &[]),
    ("mlops.seldon.io", &[]),
    ("mutations.gatekeeper.sh", &[]),
    ("nvidia.com", &["DynamoComponentDeployment", "DynamoGraphDeployment"]),
    ("ray.io", &["RayService"]),
    ("serving.knative.dev", &[]),
    ("serving.kserve.io", &[]),
    ("templates.gatekeeper.sh", &[]),
];

/// Tells whether a value contains a pod template.
#[must_use]
pub fn has_pod(value: &Value) -> bool {
    any(value, &|fields| containers(fields).next().is_some())
}

/// Tells whether a value contains a pod template with an image.
pub(super) fn has_pod_with_image(value: &Value) -> bool {
    any(value, &|fields| containers(fields).any(has_image))
}

/// Tells whether a container has an image.
pub(super) fn has_image(container: &Map) -> bool {
    container.get("image").is_some_and(|image| !image.is_null())
}

/// Tells whether a container has an image under a misspelled name, such as `imgae`.
pub(super) fn misspells_image(container: &Map) -> bool {
    const IMAGE: &str = "image";
    // A fast check, since there may be a hundred thousand containers: one typo loses at most one of the
    // letters.
    let lacks = |key: &str| {
        let is_missing = |letter: &u8| !key.bytes().any(|own| own.eq_ignore_ascii_case(letter));
        IMAGE.bytes().filter(is_missing).count()
    };
    // The other fields of a container differ from it in more than one letter.
    let is_near = |key: &str| {
        (4..=6).contains(&key.len()) && (!key.is_ascii() || lacks(key) <= 1) && suggest::is_slip(key, IMAGE)
    };
    container.iter().any(|(key, value)| value.is_string() && key != IMAGE && is_near(key))
}

/// Tells whether a value contains a pod template that looks like batch work.
#[must_use]
pub fn has_batch_pod(value: &Value) -> bool {
    likeness(value).is_some()
}

/// Returns why a value looks like batch work. Some kinds have a single container instead of a list, or its
/// fields.
fn likeness(value: &Value) -> Option<Likeness> {
    let container = |fields: &Map| {
        fields.get("container").and_then(Value::as_object).filter(|one| is_container(one)).is_some()
    };
    let is_one = |fields: &Map| fields.get("image").is_some_and(Value::is_string);
    let ends = |fields: &Map| {
        let policy = fields.get("restartPolicy").and_then(Value::as_str).unwrap_or_default();
        let ends = matches!(policy, "Never" | "OnFailure") || is_placeholder(policy);
        // Kubeflow's kinds have `restartPolicy` beside the template.
        let of_template = || fields.get("template").and_then(|template| template.get("spec")?.as_object());
        let has_template = || of_template().is_some_and(|pod| containers(pod).next().is_some());
        ends && (containers(fields).next().is_some() || container(fields) || is_one(fields) || has_template())
    };
    let asks = |fields: &Map| {
        is_container(fields)
            && asks_for_accelerators(fields)
            && (is_one(fields) || fields.get("name").is_some())
    };
    let in_list = |fields: &Map| containers(fields).any(asks_for_accelerators);
    if any(value, &ends) {
        Some(Likeness::Ends)
    } else {
        any(value, &|fields| in_list(fields) || asks(fields)).then_some(Likeness::Accelerators)
    }
}

/// Tells whether a value, or any mapping inside it, passes a test.
fn any(value: &Value, test: &dyn Fn(&Map) -> bool) -> bool {
    meter::spend(1);
    match value {
        Value::Object(fields) => test(fields) || fields.values().any(|value| any(value, test)),
        Value::Array(items) => items.iter().any(|item| any(item, test)),
        _ => false,
    }
}

/// Returns the containers of a mapping, if it is a pod spec.
fn containers(fields: &Map) -> impl Iterator<Item = &Map> {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| fields.get(list)?.as_array());
    lists.flatten().filter_map(Value::as_object).filter(|container| is_container(container))
}

fn is_container(fields: &Map) -> bool {
    ["image", "name", "resources"].iter().any(|key| fields.get(key).is_some())
}

fn asks_for_accelerators(container: &Map) -> bool {
    let lists = ["limits", "requests"]
        .into_iter()
        .filter_map(|list| container.get("resources")?.get(list)?.as_object());
    let asks = |value: &Value| match value {
        Value::String(text) if is_placeholder(text) => true,
        _ => Quantity::from_json(value).is_ok_and(|quantity| quantity.is_positive()),
    };
    lists.flatten().any(|(resource, value)| {
        (taint_of(resource, TAINTS).is_some() || is_placeholder(resource)) && asks(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn no_kind_is_both_judged_and_not() {
        for (group, kinds) in others() {
            assert!(
                !kinds.is_empty() && kinds.iter().all(|kind| Kind::named(group, kind).is_none()),
                "{group}"
            );
        }
        assert!(is_other("xgboostjob.kubeflow.org", "XGBoostJob"));
        for ((group, kind), (version, name)) in SUCCEEDED {
            let group = group.split('/').next().unwrap_or_default();
            assert!(
                is_other(group, kind) && Kind::typed(version, name).is_some_and(|kind| kind.knows(version))
            );
        }
        assert!(
            is_other("execution.furiko.io", "Job")
                && !is_other("batch", "Job")
                && !is_other("run.googleapis.com", "Job")
        );
    }

    #[test]
    fn what_was_meant_is_found_in_the_group_that_is_named() {
        for (group, kind, expected) in [
            (Some("batch"), "job", Some("Job")),
            (Some("batch"), "CronJobs", Some("CronJob")),
            (Some("kubeflow.org"), "MPIjob", Some("MPIJob")),
            (Some("kubeflow.org"), "PytorchJobs", Some("PyTorchJob")),
            (Some("kubeflow.org"), "PyTorcJob", Some("PyTorchJob")),
            (Some("ray.io"), "RayJobs", Some("RayJob")),
            (Some("ray.io"), "RayService", None),
            (Some("kubeflow.org"), "Notebook", None),
            (Some("tekton.dev"), "PipelineResource", None),
            (Some("argoproj.io"), "Application", None),
            (Some("bacth"), "Job", Some("Job")),
            (Some("apps"), "CronJob", Some("CronJob")),
            (Some("apps"), "Deployment", None),
            (Some("example.com"), "Job", None),
            (None, "mpijob", Some("MPIJob")),
            (None, "Pod", None),
        ] {
            assert_eq!(meant(group, kind).map(|(_, name)| name), expected, "{group:?} {kind}");
        }
    }

    #[test]
    fn objects_inside_of_objects_are_found_and_references_are_not() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}}});
        let inside = |object: Value| {
            let mut places = Vec::new();
            each_inside(&object, &mut |at, _| places.push(at.to_string()));
            places
        };
        let work = |manifests: Value| json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "spec": {"workload": {"manifests": manifests}}});
        let mpi = json!({"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "spec": {"mpiReplicaSpecs": {}}});
        assert_eq!(
            inside(work(json!([{"apiVersion": "v1", "kind": "Secret"}, job, mpi]))),
            ["spec.workload.manifests[1]", "spec.workload.manifests[2]"]
        );
        let legacy = json!({"apiVersion": "v1", "kind": "Template", "objects": [job]});
        assert_eq!(inside(legacy), ["objects[0]"]);
        let generate =
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "data": {"spec": {}}});
        assert_eq!(inside(json!({"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "spec": {"rules": [{"generate": generate}]}})).len(), 1);
        let list = json!({"apiVersion": "batch/v1", "kind": "JobList", "items": [{"spec": {}}]});
        let plural = json!({"apiVersion": "batch/v1", "kind": "Jobs", "spec": {}});
        assert_eq!(inside(work(json!([list, plural]))).len(), 2);
        assert_eq!(inside(json!({"manifests": [job]})), ["manifests[0]"]);
        assert_eq!(inside(json!({"apiVersion": "v1", "kind": "list", "items": [job]})), ["items[0]"]);
        let reference = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j"});
        assert_eq!(inside(work(json!([reference]))), [""; 0]);
        assert_eq!(inside(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": job}})), [""; 0]);
    }

    #[test]
    fn a_workload_of_any_kind_gives_itself_away() {
        let pod = |extra: Value| {
            let mut pod = json!({"containers": [{"name": "c", "image": "i"}]});
            crate::text::patch::merge(&mut pod, &extra);
            json!({"spec": {"groups": [{"deep": {"template": {"spec": pod}}}]}})
        };
        let gpu = json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
        let replica = |policy: &str| {
            let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
            json!({"spec": {"replicaSpecs": {"Worker": {"replicas": 2, "restartPolicy": policy, "template": template}}}})
        };
        for (version, object, looks) in [
            ("example.com/v1", pod(json!({"restartPolicy": "$POLICY"})), true),
            (
                "example.com/v1",
                pod(
                    json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "$N"}}}]}),
                ),
                true,
            ),
            (
                "example.com/v1",
                json!({"spec": {"restartPolicy": "Never", "container": {"image": "i"}}}),
                true,
            ),
            ("example.com/v1", json!({"spec": {"image": "i", "restartPolicy": "OnFailure"}}), true),
            (
                "example.com/v1",
                json!({"spec": {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}}),
                true,
            ),
            ("example.com/v1", json!({"spec": {"image": "i", "resources": {"limits": {"cpu": 1}}}}), false),
            ("example.com/v1", json!({"kind": "TrainingJob", "spec": pod(json!({}))}), true),
            ("kubeflow.org/v1", json!({"kind": "Foo", "spec": pod(json!({}))}), true),
            ("kubeflow.org/v1", json!({"kind": "Notebook", "spec": pod(json!({}))}), false),
            ("agones.dev/v1", pod(gpu.clone()), false),
            ("machinelearning.seldon.io/v1", pod(gpu.clone()), false),
            (
                "nvidia.com/v1alpha1",
                json!({"kind": "DynamoGraphDeployment", "spec": pod(gpu.clone())}),
                false,
            ),
            ("example.com/v1", pod(json!({"restartPolicy": "Never"})), true),
            ("example.com/v1", pod(json!({"restartPolicy": "OnFailure"})), true),
            ("example.com/v1", pod(json!({"restartPolicy": "Always"})), false),
            ("example.com/v1", pod(gpu.clone()), true),
            (
                "example.com/v1",
                pod(json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 0}}}]})),
                false,
            ),
            ("apps/v1", pod(gpu.clone()), false),
            ("serving.kserve.io/v1beta1", pod(gpu.clone()), false),
            ("kyverno.io/v1", pod(json!({"restartPolicy": "Never"})), false),
            ("v1", pod(gpu.clone()), false),
            ("v1", json!({"kind": "PodTemplate", "template": {"spec": gpu}}), true),
            (
                "example.com/v1",
                json!({"spec": {"restartPolicy": "Never", "containers": {"type": "array"}}}),
                false,
            ),
            ("example.com/v1", pod(json!({})), false),
            ("example.com/v1", replica("OnFailure"), true),
            ("example.com/v1", replica("Never"), true),
            ("example.com/v1", replica("Always"), false),
            ("serving.kserve.io/v1beta1", replica("Never"), false),
            (
                "example.com/v1",
                json!({"spec": {"restartPolicy": "Never", "template": {"spec": {"nodeName": "a"}}}}),
                false,
            ),
        ] {
            assert_eq!(looks_like_batch(version, &object).is_some(), looks, "{version} {object}");
        }
        assert!(has_pod(&pod(json!({}))) && !has_pod(&json!({"spec": {"containers": []}})));
    }
}
