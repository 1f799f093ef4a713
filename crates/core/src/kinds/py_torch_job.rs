//! `kubeflow.org` `PyTorchJob`: a pod template per replica type, run limits in `spec.runPolicy`
//! (docs/internals/kubeflow.md#pytorchjob).

use super::definition::{Api, CUSTOM, Definition, LabelValue, Made, Operator, Ranks, Retired};
use super::lifecycle::{Deadline, Disruption, Release, Released, Retries, Ttl};
use super::pods::{Count, Elastic, Pods, Restart, TEMPLATE};
use super::variables;

/// What moved since versions with run limits in `spec`.
const LIMITS: &str = ", and run limits such as `cleanPodPolicy` in `spec.runPolicy` instead of `spec`";

/// Versions of all its kinds that the training operator no longer serves.
pub(super) const RETIRED: [Retired; 4] = [
    Retired {
        api_version: "kubeflow.org/v1alpha1",
        since: "",
        moved: Some(", and the fields of that version"),
    },
    Retired { api_version: "kubeflow.org/v1alpha2", since: "", moved: Some(LIMITS) },
    Retired { api_version: "kubeflow.org/v1beta1", since: "", moved: Some(LIMITS) },
    Retired { api_version: "kubeflow.org/v1beta2", since: "", moved: Some(LIMITS) },
];

/// The TTL of the training operator deletes the object, and the pods with it.
pub(super) const TTL: Ttl =
    Ttl::Deletes { deletes_pods: true, jobs_run_again: false };

/// The training operator keeps all pods by default; since 1.9.4 at the deadline, too
/// (docs/internals/batch-kinds.md#pods-that-outlive-a-job).
pub(super) const RELEASE: Release = Release {
    field: "cleanPodPolicy",
    value: Released::Word("Running"),
    unless: &[],
    twin: None,
    left: "pods that have not ended",
    without_accelerators: false,
    queued_without: None,
};

/// Without a limit the training operator restarts failed pods endlessly
/// (docs/internals/kubeflow.md#retries-of-the-training-operator). `OnFailure` is the default `restartPolicy` of
/// the roles of PyTorchJob and PaddleJob. With `ExitCode`, a code below 128 fails the job without a `completionTime`.
pub(super) const RETRIES: Retries =
    Retries { field: "backoffLimit", unset: "OnFailure", fails_when_deleted: &[], without_end: Some("ExitCode") };

/// The same for its other kinds.
pub(super) const RETRIES_NEVER: Retries = Retries { unset: "Never", ..RETRIES };

/// The `restartPolicy` of a replica type.
pub(super) const RESTART: Restart =
    Restart::Beside { words: &["OnFailure", "Never", "ExitCode"], ignored: None, unset: &[] };

/// What the training operator does to a template (1.9.4, `pkg/controller.v1/common/pod.go`): the policy of the role takes the
/// place of the template's, and no volume is added. What follows was seen (docs/internals/kubeflow.md#a-pod-that-cannot-be-made).
pub(super) const MADE: Made = Made {
    overwrites: &["restartPolicy"],
    volumes: Some(&[]),
    is_silent: true,
    unmade: "the training operator then writes no status, so that neither the deadline nor the end of another role is seen",
    ..CUSTOM.made
};

pub(super) static PY_TORCH_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    retired: &[
        Retired {
            api_version: "kubeflow.org/v1alpha1",
            since: "",
            moved: Some(", and `spec.pytorchReplicaSpecs` instead of `spec.replicaSpecs[]`"),
        },
        RETIRED[1],
        RETIRED[2],
        RETIRED[3],
    ],
    name: "PyTorchJob",
    resource: "pytorchjobs",
    limits: &["spec", "runPolicy"],
    deadline: Deadline::Marks,
    deadline_is_late: true,
    ttl: TTL,
    release: Some(RELEASE),
    retries: Some(RETRIES),
    disruption: Some(Disruption::OfRole { elastic: &["spec", "elasticPolicy"] }),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "pytorchReplicaSpecs", "*"],
        template: TEMPLATE,
        // An autoscaler or `kubectl scale` can add workers without an admission review
        // (docs/internals/pods.md#pods-that-run-at-once).
        count: Count::Replicas {
            unset: |_| 1,
            elastic: Some(Elastic {
                role: "Worker",
                least: &["spec", "elasticPolicy", "minReplicas"],
                most: &["spec", "elasticPolicy", "maxReplicas"],
            }),
        },
        restart: RESTART,
    }],
    schema_of: "training-operator 1.9",
    api: Api::Custom {
        schema: include_str!("py_torch_job.schema.json"),
        operator: Some(Operator::Training { container: "pytorch" }),
    },
    pod_labels: &[
        ("training.kubeflow.org/job-name", LabelValue::NameOfRun),
        ("training.kubeflow.org/operator-name", LabelValue::Text("pytorchjob-controller")),
    ],
    made: MADE,
    variables: Some(variables::of_py_torch_job),
    starter: Some(include_str!("py_torch_job.starter.yaml")),
    ranks: Ranks::Each {
        processes: &[&["spec", "elasticPolicy", "nProcPerNode"], &["spec", "nprocPerNode"]],
        index: &[],
        subdomain: false,
    },
    scale: Some(&["spec", "pytorchReplicaSpecs", "Worker", "replicas"]),
    ..CUSTOM
};
