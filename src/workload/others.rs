//! Batch kinds that Jobgate knows of and does not judge, and how a workload of any other kind gives itself away.
//!
//! Green means judged: what stands here, or looks like it, is reported as not judged and never passes in silence.

use crate::accelerator::{TAINTS, taint_of};
use crate::k8s::quantity::Quantity;
use crate::meter;
use crate::value::{Map, Value};

/// Kinds by API group. What decides is group and kind together, as everywhere.
static OTHERS: &[(&str, &[&str])] = &[
    ("argoproj.io", &["ClusterWorkflowTemplate", "CronWorkflow", "Workflow", "WorkflowTemplate"]),
    ("apps.kubedl.io", &["Cron"]),
    ("batch.paddlepaddle.org", &["PaddleJob"]),
    ("batch.volcano.sh", &["CronJob", "Job"]),
    ("batch.x-k8s.io", &["JobSet"]),
    ("elastic.iml.github.io", &["ElasticJob"]),
    ("elastic.pytorch.org", &["ElasticJob"]),
    ("execution.furiko.io", &["Job", "JobConfig"]),
    ("flink.apache.org", &["FlinkDeployment", "FlinkSessionJob"]),
    ("flow.volcano.sh", &["JobFlow", "JobTemplate"]),
    ("flux-framework.org", &["MetricSet", "MiniCluster"]),
    ("jobset.x-k8s.io", &["JobSet"]),
    ("keda.sh", &["ScaledJob"]),
    (
        "kubeflow.org",
        &[
            "ClusterTrainingRuntime",
            "Experiment",
            "JAXJob",
            "MPIJob",
            "MXJob",
            "PaddleJob",
            "ScheduledWorkflow",
            "TFJob",
            "TrainJob",
            "TrainingRuntime",
            "Trial",
            "XGBoostJob",
        ],
    ),
    ("kubernetes.dask.org", &["DaskCluster", "DaskJob"]),
    ("kubecluster.org", &["KubeCluster"]),
    ("leaderworkerset.x-k8s.io", &["LeaderWorkerSet"]),
    ("mcad.ibm.com", &["AppWrapper"]),
    ("ray.io", &["RayCluster", "RayCronJob", "RayJob"]),
    ("run.ai", &["DistributedWorkload", "TrainingWorkload"]),
    ("sagemaker.amazonaws.com", &["HyperPodPyTorchJob"]),
    ("spark.apache.org", &["SparkApplication", "SparkCluster"]),
    ("sparkoperator.k8s.io", &["ScheduledSparkApplication", "SparkApplication"]),
    ("tekton.dev", &["ClusterTask", "Pipeline", "PipelineRun", "Task", "TaskRun"]),
    ("trainer.kubeflow.org", &["ClusterTrainingRuntime", "OptimizationJob", "TrainJob", "TrainingRuntime"]),
    ("training.kubedl.io", &["ElasticDLJob", "MarsJob", "MPIJob", "PyTorchJob", "TFJob", "XDLJob", "XGBoostJob"]),
    ("wlm.sylabs.io", &["SlurmJob"]),
    ("workload.codeflare.dev", &["AppWrapper"]),
    ("xdl.kubedl.io", &["XDLJob"]),
];

/// Returns the groups, each with its kinds.
pub(crate) fn others() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    OTHERS.iter().copied()
}

/// Tells whether a group and a kind's name are those of a batch kind that is known and not judged.
#[must_use]
pub fn is_other(group: &str, kind: &str) -> bool {
    OTHERS.iter().any(|(name, kinds)| *name == group && kinds.contains(&kind))
}

/// Tells whether an object of a kind that Jobgate does not know runs pods to an end, or on accelerators: somewhere in it are containers which ask
/// for accelerators, or beside which `restartPolicy` is `Never` or `OnFailure`.
///
/// What Kubernetes itself runs forever (`apps`) is no batch work, and neither are its core kinds: a Pod is the business of whoever made it.
#[must_use]
pub fn looks_like_batch(version: &str, object: &Value) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let is_none = |(name, kinds): &(&str, &[&str])| *name == group && (kinds.is_empty() || kinds.contains(&kind));
    !matches!(group, "" | "apps" | "batch") && !NO_BATCH.iter().any(is_none) && has_batch_pod(object)
}

/// Kinds that hold pods and run none to an end: what serves, and what only carries pods of others. No kinds stand for all of the group.
const NO_BATCH: &[(&str, &[&str])] = &[
    ("actions.github.com", &[]),
    ("admissionregistration.k8s.io", &[]),
    ("apiextensions.k8s.io", &[]),
    ("apps.kruise.io", &["CloneSet", "DaemonSet", "StatefulSet"]),
    ("apps.openshift.io", &["DeploymentConfig"]),
    ("argoproj.io", &["Application", "ApplicationSet", "Rollout"]),
    ("extensions", &["DaemonSet", "Deployment", "ReplicaSet"]),
    ("helm.toolkit.fluxcd.io", &[]),
    ("kubeflow.org", &["Notebook"]),
    ("kyverno.io", &[]),
    ("mutations.gatekeeper.sh", &[]),
    ("ray.io", &["RayService"]),
    ("serving.knative.dev", &[]),
    ("serving.kserve.io", &[]),
    ("templates.gatekeeper.sh", &[]),
];

/// Tells whether a value holds a pod template, whatever it asks for: the mark of a part of a workload that says no kind.
#[must_use]
pub fn has_pod(value: &Value) -> bool {
    any(value, &|fields| containers(fields).next().is_some())
}

fn has_batch_pod(value: &Value) -> bool {
    any(value, &|fields| {
        let ends = || matches!(fields.get("restartPolicy").and_then(Value::as_str), Some("Never" | "OnFailure"));
        let mut containers = containers(fields).peekable();
        containers.peek().is_some() && (ends() || containers.any(asks_for_accelerators))
    })
}

/// Tells whether a test holds of some mapping in a value, itself included.
fn any(value: &Value, test: &dyn Fn(&Map) -> bool) -> bool {
    meter::spend(1);
    match value {
        Value::Object(fields) => test(fields) || fields.values().any(|value| any(value, test)),
        Value::Array(items) => items.iter().any(|item| any(item, test)),
        _ => false,
    }
}

/// Returns the containers of a mapping, if it is a pod spec.
fn containers(fields: &Map) -> impl Iterator<Item = &Value> {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| fields.get(list)?.as_array());
    lists.flatten().filter(|container| ["image", "name", "resources"].iter().any(|key| container.get(key).is_some()))
}

fn asks_for_accelerators(container: &Value) -> bool {
    let lists = ["limits", "requests"].into_iter().filter_map(|list| container.get("resources")?.get(list)?.as_object());
    lists
        .flatten()
        .any(|(resource, value)| taint_of(resource, TAINTS).is_some() && Quantity::from_json(value).is_ok_and(|quantity| quantity.is_positive()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;
    use crate::workload::Kind;

    #[test]
    fn no_kind_is_both_judged_and_not() {
        for (group, kinds) in others() {
            assert!(!kinds.is_empty() && kinds.iter().all(|kind| Kind::named(group, kind).is_none()), "{group}");
        }
        assert!(is_other("batch.volcano.sh", "Job") && !is_other("batch", "Job") && !is_other("run.googleapis.com", "Job"));
    }

    #[test]
    fn a_workload_of_any_kind_gives_itself_away() {
        let pod = |extra: Value| {
            let mut pod = json!({"containers": [{"name": "c", "image": "i"}]});
            crate::patch::merge(&mut pod, &extra);
            json!({"spec": {"groups": [{"deep": {"template": {"spec": pod}}}]}})
        };
        let gpu = json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
        for (version, object, looks) in [
            ("example.com/v1", pod(json!({"restartPolicy": "Never"})), true),
            ("example.com/v1", pod(json!({"restartPolicy": "OnFailure"})), true),
            ("example.com/v1", pod(json!({"restartPolicy": "Always"})), false),
            ("example.com/v1", pod(gpu.clone()), true),
            ("example.com/v1", pod(json!({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 0}}}]})), false),
            ("apps/v1", pod(gpu.clone()), false),
            ("serving.kserve.io/v1beta1", pod(gpu.clone()), false),
            ("kyverno.io/v1", pod(json!({"restartPolicy": "Never"})), false),
            ("v1", pod(gpu), false),
            ("example.com/v1", json!({"spec": {"restartPolicy": "Never", "containers": {"type": "array"}}}), false),
            ("example.com/v1", pod(json!({})), false),
        ] {
            assert_eq!(looks_like_batch(version, &object), looks, "{version} {object}");
        }
        assert!(has_pod(&pod(json!({}))) && !has_pod(&json!({"spec": {"containers": []}})));
    }
}
