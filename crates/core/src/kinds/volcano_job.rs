//! `batch.volcano.sh` `Job`: tasks that are scheduled together
//! (docs/internals/batch-kinds.md#volcano-job).

use super::definition::{Api, CUSTOM, Definition, Finished, Mounted, OnUpdate, OwnClaims, Ranks};
use super::field::{Field, Part, text_in};
use super::lifecycle::{Attempts, Deadline, Disruption, Leak, Ttl};
use super::pods::{Count, Pods, Restart, TEMPLATE, Unset};
use super::variables;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

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
    schema_of: "Volcano 1.15",
    api: Api::Custom { schema: include_str!("volcano_job.schema.json"), operator: None },
    finished: Finished::Field(&["status", "state", "phase"], &["Completed", "Failed", "Terminated"]),
    on_update: OnUpdate::TemplateImmutable,
    starter: Some(include_str!("volcano_job.starter.yaml")),
    variables: Some(variables::of_volcano_job),
    ranks: Ranks::Each { processes: &[], index: &["VC_TASK_INDEX", "VK_TASK_INDEX"], subdomain: false },
    ..CUSTOM
};

/// Tells whether the end of a task ends the job, so that the pods of other tasks need not end by themselves.
fn completes_the_job(task: &Part<'_>) -> bool {
    policies(task).any(|policy| {
        text_in(policy, "action") == Field::Set("CompleteJob") && is_for(policy, &["TaskCompleted"])
    })
}

/// Returns the policies of a task, or of the job.
fn policies<'a>(around: &Part<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    around.get("policies").values().iter().inspect(|_| meter::spend(1))
}

/// Tells whether a policy is for any of the events.
fn is_for(policy: &Value, events: &[&str]) -> bool {
    let is_one = |event: Field<'_, &str>| match event {
        Field::Set(event) => events.contains(&event),
        field => matches!(field, Field::Placeholder(_)),
    };
    let more = Part { pointer: Pointer::root(), value: policy.get("events") };
    is_one(text_in(policy, "event")) || more.items().any(|event| is_one(event.text()))
}
