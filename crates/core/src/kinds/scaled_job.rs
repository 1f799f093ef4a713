//! `keda.sh` `ScaledJob`: a Job spec of which KEDA creates Jobs as work arrives
//! (docs/internals/batch-kinds.md#scaledjob).

use super::definition::{Api, CUSTOM, Children, Definition, Finished, Made, OnUpdate};
use super::job::{RANKS, RESTART_HELP};
use super::lifecycle::{Attempts, History, Ttl};
use super::pods::{Count, Pods, Restart, TEMPLATE, Times, Unset};
use super::variables;

pub(super) static SCALED_JOB: Definition = Definition {
    group: "keda.sh",
    version: "v1alpha1",
    name: "ScaledJob",
    resource: "scaledjobs",
    body: &["spec", "jobTargetRef"],
    limits: &["spec", "jobTargetRef"],
    attempts: |_| Attempts::Runs,
    ttl: Ttl::Deletes { deletes_pods: true, jobs_run_again: false },
    history: Some(History { at: &["spec"], successful: 100, failed: 100 }),
    pods: &[Pods {
        at: &["spec", "jobTargetRef"],
        template: TEMPLATE,
        count: Count::Jobs(Times::Field(&["spec", "maxReplicaCount"], 100)),
        restart: Restart::OfTemplate {
            help: RESTART_HELP,
            unset: Unset::Is("OnFailure"),
            always: "and the API server refuses the Jobs",
            ends_run: None,
        },
    }],
    made: Made { volumes: Some(&[]), ..CUSTOM.made },
    schema_of: "KEDA (commit 8b4f083c)",
    api: Api::Custom { schema: include_str!("scaled_job.schema.json"), operator: None },
    finished: Finished::Never,
    // By default KEDA deletes all Jobs of an earlier generation, also those that run.
    on_update: OnUpdate::StopsRuns,
    children: &[Children { group: "batch", name: "Job", by_hand: None }],
    makers: &["system:serviceaccount:keda:keda-operator"],
    variables: Some(variables::of_job),
    ranks: RANKS,
    ..CUSTOM
};
