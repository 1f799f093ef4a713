//! `kubeflow.org` `JAXJob`: one pod template, that of Worker (docs/internals/kubeflow.md#jaxjob).

use super::definition::{Api, CUSTOM, Definition};
use super::lifecycle::Deadline;
use super::pods::{Count, Pods, TEMPLATE};
use super::py_torch_job::{MADE, RELEASE, RESTART, RETIRED, RETRIES_NEVER, TTL};
use super::variables;

pub(super) static JAX_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    retired: &RETIRED,
    name: "JAXJob",
    resource: "jaxjobs",
    limits: &["spec", "runPolicy"],
    deadline: Deadline::Marks,
    deadline_is_late: true,
    ttl: TTL,
    release: Some(RELEASE),
    retries: Some(RETRIES_NEVER),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "jaxReplicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Replicas { unset: |_| 1, elastic: None },
        restart: RESTART,
    }],
    schema_of: "training-operator 1.9",
    api: Api::Custom { schema: include_str!("jax_job.schema.json"), operator: None },
    made: MADE,
    variables: Some(variables::of_jax_job),
    starter: Some(include_str!("jax_job.starter.yaml")),
    scale: Some(&["spec", "jaxReplicaSpecs", "Worker", "replicas"]),
    ..CUSTOM
};
