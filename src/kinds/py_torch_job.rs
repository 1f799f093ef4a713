//! `kubeflow.org` `PyTorchJob`: a pod template per replica type, run limits in `spec.runPolicy`.

use super::kind::{Api, Definition, LabelValue, OnUpdate, Operator, Pods, Retired};

/// What moved since versions with run limits in `spec`.
const LIMITS: &str = ", and run limits such as `cleanPodPolicy` in `spec.runPolicy` instead of `spec`";

pub(super) static PY_TORCH_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    retired: &[
        Retired {
            api_version: "kubeflow.org/v1alpha1",
            since: "",
            moved: Some(", and `spec.pytorchReplicaSpecs` instead of `spec.replicaSpecs[]`"),
        },
        Retired { api_version: "kubeflow.org/v1alpha2", since: "", moved: Some(LIMITS) },
        Retired { api_version: "kubeflow.org/v1beta1", since: "", moved: Some(LIMITS) },
        Retired { api_version: "kubeflow.org/v1beta2", since: "", moved: Some(LIMITS) },
    ],
    name: "PyTorchJob",
    resource: "pytorchjobs",
    body: &["spec"],
    run_metadata: &["metadata"],
    limits: &["spec", "runPolicy"],
    pods: Pods::Roles {
        at: &["spec", "pytorchReplicaSpecs"],
        // An autoscaler or `kubectl scale` can add workers without an admission review (kubernetes.md §5.2).
        elastic: Some(("Worker", &["spec", "elasticPolicy", "maxReplicas"])),
    },
    schedule: None,
    api: Api::Custom { schema: include_str!("py_torch_job.schema.json"), operator: Some(Operator::Training { container: "pytorch" }) },
    clean_up: Some("cleanPodPolicy"),
    finished: &["Succeeded", "Failed"],
    on_update: OnUpdate::Restarts,
    children: None,
    pod_labels: &[
        ("training.kubeflow.org/job-name", LabelValue::NameOfRun),
        ("training.kubeflow.org/operator-name", LabelValue::Text("pytorchjob-controller")),
    ],
};
