//! `ray.io` `RayJob`: a Ray cluster of its own, and a Job that submits the work to it
//! (docs/internals/batch-kinds.md#rayjob).

use super::definition::{Api, CUSTOM, Children, Definition, Finished, Made, Operator};
use super::job::RESTART_HELP;
use super::lifecycle::{
    Attempts, Borrowed, Choice, Deadline, Leak, Release, Released, Submitter, Wait,
};
use super::pods::{Count, Pods, Restart, TEMPLATE, Template, Unset};
use crate::controllers::managers;

pub(super) static RAY_JOB: Definition = Definition {
    group: "ray.io",
    version: "v1",
    also: &["ray.io/v1alpha1"],
    older_fields: &[(&["spec", "deletionPolicy"], "use `spec.deletionStrategy`")],
    name: "RayJob",
    resource: "rayjobs",
    // It frees nothing by itself.
    deadline: Deadline::Marks,
    attempts: |object| Attempts::with_retries(&object.at(&["spec", "backoffLimit"]), 0),
    // `ttlSecondsAfterFinished` is how long the cluster runs on, so filling it in would cost GPU time.
    release: Some(Release {
        field: "shutdownAfterJobFinishes",
        value: Released::True,
        // The operator rejects the field together with deletion rules or an existing cluster.
        unless: &["deletionStrategy", "clusterSelector"],
        twin: None,
        left: "the pods of the Ray cluster",
        without_accelerators: true,
        // Kueue does not queue what runs in a cluster that is there.
        queued_without: Some("clusterSelector"),
    }),
    wait: Some(Wait {
        choice: Choice { at: &["spec", "submissionMode"], word: "InteractiveMode" },
        until: "somebody who submits the work",
        help: "delete the job once nobody uses its cluster, or let it submit the work itself",
    }),
    // At the deadline only its status changes: the program is asked to stop when the RayJob is deleted.
    borrowed: Some(Borrowed {
        at: &["spec", "clusterSelector"],
        place: "the cluster that `clusterSelector` names",
        command: &["spec", "entrypoint"],
        help: "delete the RayJob, which stops it",
    }),
    submitter: Some(Submitter {
        at: &["spec", "submitterPodTemplate"],
        retries: &["spec", "submitterConfig", "backoffLimit"],
        unset: 2,
        without: &[
            Choice { at: &["spec", "submissionMode"], word: "HTTPMode" },
            Choice { at: &["spec", "submissionMode"], word: "InteractiveMode" },
            Choice { at: &["spec", "submissionMode"], word: "SidecarMode" },
        ],
    }),
    leak: Some(Leak {
        at: &["spec", "deletionStrategy", "deletionRules"],
        remedy: "a rule with `policy: DeleteCluster` and `condition: {jobDeploymentStatus: Failed}`",
    }),
    manager: Some(managers::RAY),
    queued_by_kueue: true,
    pods: &[
        Pods {
            at: &["spec", "rayClusterSpec", "headGroupSpec"],
            template: TEMPLATE,
            count: Count::One,
            restart: Restart::Free,
        },
        Pods {
            at: &["spec", "rayClusterSpec", "workerGroupSpecs", "*"],
            template: TEMPLATE,
            count: Count::RayWorkers { autoscales: &["spec", "rayClusterSpec", "enableInTreeAutoscaling"] },
            restart: Restart::Free,
        },
        Pods {
            at: &["spec"],
            template: Template { at: &["submitterPodTemplate"], ..TEMPLATE },
            count: Count::One,
            restart: Restart::OfTemplate {
                help: RESTART_HELP,
                unset: Unset::Always,
                always: "so the API server refuses the Job that submits the work",
                ends_run: None,
            },
        },
    ],
    // KubeRay 1.7.0, `controllers/ray/common/pod.go` and `controllers/ray/utils/constant.go`. Which of them it adds depends on its
    // settings.
    made: Made {
        volumes: Some(&["gcs-storage", "ray-logs", "ray-tls", "ray-token", "shared-mem"]),
        unmade: "KubeRay then tries again until a deadline ends it",
        ..CUSTOM.made
    },
    schema_of: "KubeRay 1.7",
    api: Api::Custom { schema: include_str!("ray_job.schema.json"), operator: Some(Operator::Ray) },
    finished: Finished::Field(
        &["status", "jobDeploymentStatus"],
        &["Complete", "Failed", "ValidationFailed"],
    ),
    immutable: &[
        (&["spec", "managedBy"], "the managedBy field is immutable"),
        (&["spec", "rayClusterSpec", "managedBy"], "the managedBy field is immutable"),
    ],
    whole: &[&["spec", "clusterSelector"]],
    children: &[Children { group: "batch", name: "Job", by_hand: None }],
    makers: &["system:serviceaccount:default:kuberay-operator"],
    starter: Some(include_str!("ray_job.starter.yaml")),
    ..CUSTOM
};
