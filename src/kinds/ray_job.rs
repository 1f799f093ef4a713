//! `ray.io` `RayJob`: a Ray cluster of its own, and a Job that submits the work to it (kinds.md §7).

use super::definition::{
    Api, Attempts, CUSTOM, Children, Deadline, Definition, Finished, Operator, Release, Released,
};
use super::job::RESTART_HELP;
use super::pods::{Count, Pods, Restart, Unset};

pub(super) static RAY_JOB: Definition = Definition {
    group: "ray.io",
    version: "v1",
    also: &["ray.io/v1alpha1"],
    older_fields: &[&["spec", "deletionPolicy"]],
    name: "RayJob",
    resource: "rayjobs",
    // It frees nothing by itself.
    deadline: Deadline::Marks,
    attempts: |object| Attempts::with_retries(&object.at(&["spec", "backoffLimit"]), 0),
    // `ttlSecondsAfterFinished` is how long the cluster runs on, so filling it in would cost GPU time.
    release: Some(Release {
        field: "shutdownAfterJobFinishes",
        value: Released::True,
        // With rules of its own, or a cluster of somebody else, the operator refuses the field.
        unless: &["deletionStrategy", "clusterSelector"],
        twin: None,
        holds: "the Ray cluster runs on when the job has ended, and holds its accelerators",
        effect: "which deletes the cluster `ttlSecondsAfterFinished` seconds after the job has ended",
    }),
    pods: &[
        Pods {
            at: &["spec", "rayClusterSpec", "headGroupSpec"],
            template: "template",
            count: Count::One,
            restart: Restart::Free,
        },
        Pods {
            at: &["spec", "rayClusterSpec", "workerGroupSpecs", "*"],
            template: "template",
            count: Count::RayWorkers { autoscales: &["spec", "rayClusterSpec", "enableInTreeAutoscaling"] },
            restart: Restart::Free,
        },
        Pods {
            at: &["spec"],
            template: "submitterPodTemplate",
            count: Count::One,
            restart: Restart::OfTemplate {
                help: RESTART_HELP,
                unset: Unset::Always,
                always: "so the API server refuses the Job that submits the work",
                ends_run: None,
            },
        },
    ],
    api: Api::Custom { schema: include_str!("ray_job.schema.json"), operator: Some(Operator::Ray) },
    finished: Finished::Field(
        &["status", "jobDeploymentStatus"],
        &["Complete", "Failed", "ValidationFailed"],
    ),
    whole: &[&["spec", "clusterSelector"]],
    children: &[Children { group: "batch", name: "Job", by_hand: None }],
    makers: &["system:serviceaccount:default:kuberay-operator"],
    ..CUSTOM
};
