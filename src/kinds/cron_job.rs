//! `batch` `CronJob`: the Job is in `spec.jobTemplate`.

use super::kind::{Api, Children, Definition, LabelValue, OnUpdate, Pods, Retired};

pub(super) static CRON_JOB: Definition = Definition {
    group: "batch",
    version: "v1",
    // All versions have the same fields.
    retired: &[
        Retired { api_version: "batch/v2alpha1", since: " since Kubernetes 1.21", moved: None },
        Retired { api_version: "batch/v1beta1", since: " since Kubernetes 1.25", moved: None },
    ],
    name: "CronJob",
    resource: "cronjobs",
    body: &["spec", "jobTemplate", "spec"],
    // Its Jobs inherit this, not the CronJob's own metadata.
    run_metadata: &["spec", "jobTemplate", "metadata"],
    limits: &["spec", "jobTemplate", "spec"],
    pods: Pods::JobSpec,
    schedule: Some(&["spec"]),
    api: Api::CronJob,
    clean_up: None,
    finished: &[],
    on_update: OnUpdate::NextRuns,
    children: Some(Children {
        group: "batch",
        name: "Job",
        maker: "system:serviceaccount:kube-system:cronjob-controller",
        // `kubectl create job --from` sets the same owner.
        by_hand: Some(("cronjob.kubernetes.io/instantiate", "manual")),
    }),
    pod_labels: &[("job-name", LabelValue::NameOfRun), ("batch.kubernetes.io/job-name", LabelValue::NameOfRun)],
};
