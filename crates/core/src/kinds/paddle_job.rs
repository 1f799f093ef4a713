//! `kubeflow.org` `PaddleJob`: a pod template for each of Master and Worker
//! (docs/internals/kubeflow.md#paddlejob).

use super::definition::{Api, CUSTOM, Definition};
use super::lifecycle::Deadline;
use super::pods::{Count, Elastic, Pods, TEMPLATE};
use super::py_torch_job::{MADE, RELEASE, RESTART, RETIRED, RETRIES, TTL};
use crate::controllers::managers;

pub(super) static PADDLE_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    retired: &RETIRED,
    name: "PaddleJob",
    resource: "paddlejobs",
    limits: &["spec", "runPolicy"],
    deadline: Deadline::Marks,
    deadline_is_late: true,
    ttl: TTL,
    release: Some(RELEASE),
    retries: Some(RETRIES),
    manager: Some(managers::TRAINING),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "paddleReplicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Replicas {
            unset: |_| 1,
            elastic: Some(Elastic {
                role: "Worker",
                least: &["spec", "elasticPolicy", "minReplicas"],
                most: &["spec", "elasticPolicy", "maxReplicas"],
            }),
        },
        restart: RESTART,
    }],
    schema_of: "training-operator 1.9",
    api: Api::Custom { schema: include_str!("paddle_job.schema.json"), operator: None },
    made: MADE,
    scale: Some(&["spec", "paddleReplicaSpecs", "Worker", "replicas"]),
    ..CUSTOM
};
