//! `kubeflow.org/v1` `MPIJob`, of the training operator: the launcher is a pod
//! (docs/internals/kubeflow.md#mpijob-of-the-training-operator).

use super::definition::{Api, CUSTOM, Definition, Made, Ranks};
use super::lifecycle::{Deadline, Release, Retries};
use super::mpi_job::{HOSTS, RELEASE, unset};
use super::pods::{Count, Pods, TEMPLATE};
use super::py_torch_job::{MADE, RESTART, RETRIES_NEVER, TTL};

pub(super) static MPI_JOB_V1: Definition = Definition {
    group: "kubeflow.org",
    version: "v1",
    name: "MPIJob",
    resource: "mpijobs",
    limits: &["spec", "runPolicy"],
    deadline: Deadline::Marks,
    deadline_is_late: true,
    ttl: TTL,
    // The training operator reads both, and rejects a job in which they differ.
    release: Some(Release { twin: Some(&["spec", "cleanPodPolicy"]), ..RELEASE }),
    // Kueue knows the version of the MPI operator only.
    retries: Some(Retries { without_end: None, ..RETRIES_NEVER }),
    pods: &[Pods {
        at: &["spec", "mpiReplicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Replicas { unset, elastic: None },
        restart: RESTART,
    }],
    // It adds a script for `kubectl exec` to the launcher, and the list of hosts to all.
    made: Made { volumes: Some(&["mpi-job-config", "mpi-job-kubectl"]), ..MADE },
    schema_of: "training-operator 1.9",
    api: Api::Custom { schema: include_str!("mpi_job_v1.schema.json"), operator: None },
    ranks: Ranks::Hosts(HOSTS),
    ..CUSTOM
};
