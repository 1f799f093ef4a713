//! `kubeflow.org` `TFJob`: a pod template for each of Chief, Worker, PS and Evaluator
//! (docs/internals/kubeflow.md#tfjob).

use super::definition::{Api, CUSTOM, Definition};
use super::lifecycle::{Deadline, Retries};
use super::pods::{Count, Pods, TEMPLATE};
use super::py_torch_job::{MADE, RELEASE, RESTART, RETIRED, RETRIES_NEVER, TTL};
use super::variables;
use crate::controllers::managers;

pub(super) static TF_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    retired: &RETIRED,
    name: "TFJob",
    resource: "tfjobs",
    limits: &["spec", "runPolicy"],
    deadline: Deadline::Marks,
    deadline_is_late: true,
    ttl: TTL,
    release: Some(RELEASE),
    retries: Some(Retries {
        fails_when_deleted: &["OnFailure", "Always", "ExitCode"],
        without_end: None,
        ..RETRIES_NEVER
    }),
    never_without: Some("Worker"),
    manager: Some(managers::TRAINING),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "tfReplicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Replicas { unset: |_| 1, elastic: None },
        restart: RESTART,
    }],
    schema_of: "training-operator 1.9",
    api: Api::Custom { schema: include_str!("tf_job.schema.json"), operator: None },
    made: MADE,
    variables: Some(variables::of_tf_job),
    ..CUSTOM
};
