//! `batch` `CronJob`: the Job is in `spec.jobTemplate`.

use super::definition::{Api, CUSTOM, Children, Definition, Finished, OnUpdate, Retired};
use super::job::{POD_LABELS, RANKS, RESTART};
use super::lifecycle::{Attempts, Disruption, History, Ttl};
use super::pods::{Count, Pods, TEMPLATE, Times};
use super::variables;

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
    ttl: Ttl::Deletes { deletes_pods: true, jobs_run_again: false },
    history: Some(History { at: &["spec"], successful: 3, failed: 1 }),
    disruption: Some(Disruption::FailsJob),
    // Not the CronJob, but its Jobs.
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "jobTemplate", "spec"],
        template: TEMPLATE,
        count: Count::Jobs(Times::Once),
        restart: RESTART,
    }],
    schedule: Some(&["spec"]),
    attempts: |_| Attempts::Runs,
    api: Api::CronJob,
    finished: Finished::Never,
    on_update: OnUpdate::NextRuns,
    children: &[Children {
        group: "batch",
        name: "Job",
        // `kubectl create job --from` sets the same owner.
        by_hand: Some(("cronjob.kubernetes.io/instantiate", "manual")),
    }],
    makers: &["system:serviceaccount:kube-system:cronjob-controller"],
    pod_labels: POD_LABELS,
    variables: Some(variables::of_job),
    starter: Some(include_str!("cron_job.starter.yaml")),
    ranks: RANKS,
    ..CUSTOM
};
