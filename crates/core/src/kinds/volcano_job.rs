//! `batch.volcano.sh` `Job`: tasks that are scheduled together
//! (docs/internals/batch-kinds.md#volcano-job).

use super::definition::{
    Api, CUSTOM, Definition, Finished, Made, Mounted, OnUpdate, Operator, OwnClaims, Ranks,
};
use super::field::{Field, Part};
use super::lifecycle::{Attempts, Deadline, Disruption, InPlace, Leak, Policies, RunsCounted, Ttl};
use super::pods::{Count, Pods, Restart, TEMPLATE, Unset};
use super::policies::LifecyclePolicy;
use super::variables;

pub(super) static VOLCANO_JOB: Definition = Definition {
    group: "batch.volcano.sh",
    version: "v1alpha1",
    name: "Job",
    title: Some("Job.batch.volcano.sh"),
    resource: "jobs",
    deadline: Deadline::Missing,
    // The number of runs, not of those after the first; Volcano reads 0 as its default
    // (docs/internals/batch-kinds.md#volcano-job).
    attempts: |object| match object.at(&["spec", "maxRetry"]).int() {
        Field::Unset | Field::Set(0) => Attempts::Times(3),
        Field::Set(runs) => Attempts::Times(runs.max(1)),
        _ => Attempts::Unknown,
    },
    ttl: Ttl::Deletes { deletes_pods: true, jobs_run_again: false },
    leak: Some(Leak {
        at: &["spec", "policies"],
        remedy: "a policy with `event: PodFailed` and `action: TerminateJob`",
    }),
    policies: Some(Policies { at: &["spec", "policies"], of_task: "policies", least: &["spec", "minSuccess"] }),
    runs_counted: Some(RunsCounted { at: &["spec", "maxRetry"], unset: 3 }),
    // The kubelet restarts a container with `OnFailure` without an event but this one.
    in_place: Some(InPlace {
        bounded: has_bound,
        at: &["spec", "policies"],
        remedy: "a policy with `event: TaskFailed` and `action: TerminateJob`, which acts when its task has as many \
                 restarts as its own `maxRetry` says (3)",
    }),
    disruption: Some(Disruption::OfPolicies { runs: &["spec", "maxRetry"], policies: &["spec", "policies"] }),
    pods: &[Pods {
        at: &["spec", "tasks", "*"],
        template: TEMPLATE,
        count: Count::Replicas { unset: |_| 0, elastic: None },
        restart: Restart::OfTemplate {
            help: "write `restartPolicy: Never`, with which the events of `policies` follow, \
                   or `OnFailure` (restart a failed container in its pod, without the event `PodFailed`)",
            unset: Unset::Always,
            always: "so the job never ends",
            ends_run: Some(completes_the_job),
        },
    }],
    claims: &[OwnClaims {
        at: &["spec", "volumes", "*"],
        name: &["mountPath"],
        existing: Some("volumeClaimName"),
        spec: "volumeClaim",
        mounted: Mounted::Everywhere("mountPath"),
    }],
    // Its webhook validates templates as the API server does (1.15.1, `pkg/webhooks/admission/jobs/validate/admit_job.go`),
    // before its controller adds the volumes of `spec.volumes` and of plugins.
    made: Made { volumes: Some(&[]), is_refused_first: true, ..CUSTOM.made },
    schema_of: "Volcano 1.15",
    api: Api::Custom { schema: include_str!("volcano_job.schema.json"), operator: Some(Operator::Volcano) },
    finished: Finished::Field(&["status", "state", "phase"], &["Completed", "Failed", "Terminated"]),
    on_update: OnUpdate::TemplateImmutable,
    starter: Some(include_str!("volcano_job.starter.yaml")),
    variables: Some(variables::of_volcano_job),
    ranks: Ranks::Each { processes: &[], index: &["VC_TASK_INDEX", "VK_TASK_INDEX"], subdomain: false },
    ..CUSTOM
};

/// Tells whether the end of a task ends the job, so that the pods of other tasks need not end by themselves.
fn completes_the_job(task: &Part<'_>) -> bool {
    LifecyclePolicy::all_in(&task.get("policies"))
        .any(|policy| policy.action() == Some("CompleteJob") && policy.is_for(&["TaskCompleted"]))
}

/// Tells whether a policy of the task or of the job acts when its containers have restarted often.
fn has_bound(object: &Part<'_>, task: &Part<'_>) -> bool {
    let lists = [task.get("policies"), object.at(&["spec", "policies"])];
    lists.iter().flat_map(LifecyclePolicy::all_in).any(|policy| policy.covers("TaskFailed"))
}
