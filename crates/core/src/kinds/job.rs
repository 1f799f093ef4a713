//! `batch` `Job`.

use super::definition::{Api, CUSTOM, Definition, Finished, LabelValue, OnUpdate, Ranks};
use super::lifecycle::{Disruption, Ttl};
use super::pods::{Count, Pods, Restart, TEMPLATE, Times, Unset};
use super::variables;

/// The help for pods that the Job controller creates.
pub(super) const RESTART_HELP: &str = "write `restartPolicy: OnFailure` (restart a failed container in its pod) \
                                       or `restartPolicy: Never` (create a new pod instead)";

/// The `restartPolicy` of a Job's template.
pub(super) const RESTART: Restart = Restart::OfTemplate {
    help: RESTART_HELP,
    unset: Unset::Always,
    always: "and the API server refuses it",
    ends_run: None,
};

/// Labels that the Job controller sets.
pub(super) const POD_LABELS: &[(&str, LabelValue)] =
    &[("job-name", LabelValue::NameOfRun), ("batch.kubernetes.io/job-name", LabelValue::NameOfRun)];

/// The index of a pod: the variable, and the annotation and label of the same name.
pub(super) const INDEX: &[&str] = &["JOB_COMPLETION_INDEX", "job-completion-index"];

/// The pods of a Job run the same command.
pub(super) const RANKS: Ranks = Ranks::Each { processes: &[], index: INDEX, subdomain: false };

pub(super) static JOB: Definition = Definition {
    group: "batch",
    version: "v1",
    name: "Job",
    resource: "jobs",
    ttl: Ttl::Deletes { deletes_pods: true, jobs_run_again: false },
    disruption: Some(Disruption::FailsJob),
    queued_by_kueue: true,
    pods: &[Pods { at: &["spec"], template: TEMPLATE, count: Count::Jobs(Times::Once), restart: RESTART }],
    api: Api::Job,
    finished: Finished::Conditions(&["Complete", "Failed"]),
    on_update: OnUpdate::TemplateImmutable,
    pod_labels: POD_LABELS,
    variables: Some(variables::of_job),
    starter: Some(include_str!("job.starter.yaml")),
    ranks: Ranks::Each { processes: &[], index: INDEX, subdomain: true },
    ..CUSTOM
};
