//! `batch.volcano.sh` `Job`: tasks that are scheduled together (kinds.md §8).

use super::definition::{
    Api, CUSTOM, Count, Deadline, Definition, Finished, OnUpdate, Pods, Restart, Ttl, Unset,
};
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

/// Tells whether the end of one task ends the job, so that the pods of others need not end by themselves.
fn a_task_completes_the_job(object: &Value) -> bool {
    let list = |value: &'_ Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(spec) = object.get("spec") else { return false };
    let completes = |policy: &Value| {
        let text = |key: &str| policy.get(key).and_then(Value::as_str);
        let events = list(policy, "events");
        text("action") == Some("CompleteJob")
            && (text("event") == Some("TaskCompleted") || events.iter().any(|event| event.as_str() == Some("TaskCompleted")))
    };
    list(spec, "tasks").iter().flat_map(|task| list(task, "policies")).any(|policy| completes(&policy))
}
