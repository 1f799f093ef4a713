//! `ray.io` `RayJob`: a Ray cluster of its own, and a Job that submits the work to it
//! (docs/internals/batch-kinds.md#rayjob).

use super::definition::{Api, CUSTOM, Children, Definition, Finished, Operator};
use super::field::{Field, Part};
use super::job::RESTART_HELP;
use super::lifecycle::{Attempts, Choice, Deadline, Leak, Release, Released, Wait};
use super::pods::{Count, Pods, Restart, TEMPLATE, Template, Unset};

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
        holds: "the Ray cluster runs on when the job has ended, and its pods hold their accelerators",
        runs_on: Some("the Ray cluster runs on when the job has ended, until somebody deletes it"),
        effect: "which deletes the cluster `ttlSecondsAfterFinished` seconds after the job has ended",
    }),
    wait: Some(Wait {
        choice: Choice { at: &["spec", "submissionMode"], word: "InteractiveMode" },
        what: "the wait for somebody who submits the work",
        help: "delete the job once nobody uses its cluster, or let it submit the work itself",
    }),
    leak: Some(Leak {
        of: rules_without_failure,
        what: "no deletion rule is for `jobDeploymentStatus: Failed`, so after the deadline or a failed \
               submission the Ray cluster runs on, and its pods hold their accelerators",
        help: "add a rule with `policy: DeleteCluster` and `condition: {jobDeploymentStatus: Failed}`",
    }),
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

/// Returns the deletion rules if none of them deletes anything when the job has failed. Conditions on
/// `jobStatus` do not count: it is the status of what Ray runs, and is not `FAILED` if the deadline has passed
/// or nothing was submitted.
fn rules_without_failure<'a>(object: &Part<'a>) -> Option<Part<'a>> {
    let rules = object.at(&["spec", "deletionStrategy", "deletionRules"]);
    let covers = |rule: Part<'_>| {
        let status = rule.at(&["condition", "jobDeploymentStatus"]).text();
        matches!(status, Field::Set("Failed") | Field::Placeholder(_))
            && rule.get("policy").text() != Field::Set("DeleteNone")
    };
    (rules.items().next().is_some() && !rules.items().any(covers)).then_some(rules)
}
