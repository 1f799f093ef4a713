//! `batch` `Job`.

use super::kind::{Api, Definition, LabelValue, OnUpdate, Pods};

pub(super) static JOB: Definition = Definition {
    group: "batch",
    version: "v1",
    retired: &[],
    name: "Job",
    resource: "jobs",
    body: &["spec"],
    run_metadata: &["metadata"],
    limits: &["spec"],
    pods: Pods::JobSpec,
    schedule: None,
    api: Api::Job,
    clean_up: None,
    finished: &["Complete", "Failed"],
    on_update: OnUpdate::TemplateImmutable,
    children: None,
    pod_labels: &[("job-name", LabelValue::NameOfRun), ("batch.kubernetes.io/job-name", LabelValue::NameOfRun)],
};
