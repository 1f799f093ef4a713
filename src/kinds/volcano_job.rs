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
            ends_run: Some(completes_the_job),
        },
    }],
    api: Api::Custom { schema: include_str!("volcano_job.schema.json"), operator: None },
    finished: Finished::Field(&["status", "state", "phase"], &["Completed", "Failed", "Terminated"]),
    on_update: OnUpdate::TemplateImmutable,
    ..CUSTOM
};

/// The event of a task all of whose pods have succeeded.
const COMPLETED: &str = "TaskCompleted";

/// Tells whether the job ends with a task.
fn completes_the_job(task: &Value) -> bool {
    fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
        value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let is = |policy: &Value, key: &str, word: &str| policy.get(key).and_then(Value::as_str) == Some(word);
    list(task, "policies").iter().any(|policy| {
        is(policy, "action", "CompleteJob")
            && (is(policy, "event", COMPLETED)
                || list(policy, "events").iter().any(|event| event.as_str() == Some(COMPLETED)))
    })
}
