//! `batch.volcano.sh` `Job`: tasks that are scheduled together (kinds.md §8).

use super::definition::{Api, CUSTOM, Deadline, Definition, Finished, OnUpdate, Ranks, Ttl};
use super::field::{Field, Part};
use super::pods::{Count, Pods, Restart, Unset};
use super::variables;

pub(super) static VOLCANO_JOB: Definition = Definition {
    group: "batch.volcano.sh",
    version: "v1alpha1",
    name: "Job",
    title: Some("Job.batch.volcano.sh"),
    resource: "jobs",
    deadline: Deadline::Missing {
        what: "a Volcano job",
        help: "write `activeDeadlineSeconds` in the pod template, and a policy with `event: PodFailed` and \
               `action: TerminateJob`, which ends the job when a pod passes it",
    },
    ttl: Ttl::Deletes { what: "the finished job and its pods are", deletes_pods: true, of_job: None },
    pods: &[Pods {
        at: &["spec", "tasks", "*"],
        template: "template",
        count: Count::Replicas { unset: |_| 0, elastic: None },
        restart: Restart::OfTemplate {
            help: "write `restartPolicy: Never`, with which the events of `policies` follow, \
                   or `OnFailure` (restart a failed container in its pod, without the event `PodFailed`)",
            unset: Unset::Always,
            always: "so the job never ends",
            ends_run: Some(completes_the_job),
        },
    }],
    api: Api::Custom { schema: include_str!("volcano_job.schema.json"), operator: None },
    finished: Finished::Field(&["status", "state", "phase"], &["Completed", "Failed", "Terminated"]),
    on_update: OnUpdate::TemplateImmutable,
    variables: Some(variables::of_volcano_job),
    ranks: Ranks::Each { processes: &[], index: &["VC_TASK_INDEX", "VK_TASK_INDEX"], subdomain: false },
    ..CUSTOM
};

/// Tells whether the end of a task ends the job, so that the pods of others need not end by themselves.
fn completes_the_job(task: &Part<'_>) -> bool {
    let is_end = |event: &Part<'_>| event.text() == Field::Set("TaskCompleted");
    task.get("policies").items().any(|policy| {
        policy.get("action").text() == Field::Set("CompleteJob")
            && (is_end(&policy.get("event")) || policy.get("events").items().any(|event| is_end(&event)))
    })
}
