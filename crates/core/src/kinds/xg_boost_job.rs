//! `kubeflow.org` `XGBoostJob`: a pod template for each of Master and Worker
//! (docs/internals/kubeflow.md#xgboostjob).

use super::definition::{Api, CUSTOM, Definition};
use super::lifecycle::{Deadline, Retries};
use super::pods::{Count, Pods, TEMPLATE};
use super::py_torch_job::{MADE, RELEASE, RESTART, RETIRED, RETRIES_NEVER, TTL};
use super::variables;
use crate::controllers::managers;

pub(super) static XG_BOOST_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    retired: &RETIRED,
    name: "XGBoostJob",
    resource: "xgboostjobs",
    limits: &["spec", "runPolicy"],
    deadline: Deadline::Marks,
    deadline_is_late: true,
    ttl: TTL,
    release: Some(RELEASE),
    retries: Some(Retries { fails_when_deleted: &["OnFailure", "Always"], ..RETRIES_NEVER }),
    manager: Some(managers::TRAINING),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "xgbReplicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Replicas { unset: |_| 1, elastic: None },
        restart: RESTART,
    }],
    schema_of: "training-operator 1.9",
    api: Api::Custom { schema: include_str!("xg_boost_job.schema.json"), operator: None },
    made: MADE,
    variables: Some(variables::of_xg_boost_job),
    ..CUSTOM
};
