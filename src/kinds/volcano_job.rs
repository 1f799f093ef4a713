//! `batch.volcano.sh` `Job`: tasks that are scheduled together (kinds.md §8).

use super::definition::{Api, CUSTOM, Deadline, Definition, Finished, OnUpdate, Ttl};
use super::pods::{Count, Pods, Restart, Unset};
use crate::text::value::Value;

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
            ends_otherwise: Some(a_task_completes_the_job),
        },
    }],
    api: Api::Custom { schema: include_str!("volcano_job.schema.json"), operator: None },
    finished: Finished::Field(&["status", "state", "phase"], &["Completed", "Failed", "Terminated"]),
    on_update: OnUpdate::TemplateImmutable,
    ..CUSTOM
};

/// Tells whether the end of another task ends the job, so that the pods of this one need not end by themselves.
fn a_task_completes_the_job(object: &Value, own: &Value) -> bool {
    let list = |value: &'_ Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let Some(tasks) = object.get("spec").and_then(|spec| spec.get("tasks")?.as_array()) else { return false };
    let is_end = |event: Option<&Value>| event.and_then(Value::as_str) == Some("TaskCompleted");
    let completes = |policy: &Value| {
        policy.get("action").and_then(Value::as_str) == Some("CompleteJob")
            && (is_end(policy.get("event")) || list(policy, "events").iter().any(|event| is_end(Some(event))))
    };
    let others = tasks.iter().filter(|task| !std::ptr::eq(*task, own));
    others.flat_map(|task| list(task, "policies")).any(|policy| completes(&policy))
}
