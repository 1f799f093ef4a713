//! `kubeflow.org/v2beta1` `MPIJob`, of the MPI operator: a launcher Job and workers that wait for it
//! (docs/internals/kubeflow.md#mpijob-of-the-mpi-operator).

use super::definition::{Api, CUSTOM, Children, Definition, Hosts, Made, Ranks, Retired};
use super::lifecycle::{Choice, Deadline, Release, Released, Ttl, Wait};
use super::pods::{Count, Pods, Restart, TEMPLATE};
use crate::controllers::managers;

/// Returns the default number of pods of a role.
pub(super) fn unset(role: &str) -> i64 {
    i64::from(role != "Worker")
}

/// Workers run a server for the launcher, and end only when they are deleted.
pub(super) const RELEASE: Release = Release {
    field: "cleanPodPolicy",
    value: Released::Word("Running"),
    unless: &[],
    twin: None,
    left: "the workers",
    without_accelerators: false,
    queued_without: None,
};

/// The operators write a list of hosts, which Open MPI finds by a variable.
pub(super) const HOSTS: Hosts = Hosts {
    launcher: "Launcher",
    worker: "Worker",
    slots: &["spec", "slotsPerWorker"],
    launcher_too: None,
    implementation: None,
};

pub(super) static MPI_JOB: Definition = Definition {
    group: "kubeflow.org",
    version: "v2beta1",
    retired: &[
        Retired {
            api_version: "kubeflow.org/v1alpha1",
            since: "",
            moved: Some(", and `spec.mpiReplicaSpecs` instead of `spec.template`"),
        },
        Retired {
            api_version: "kubeflow.org/v1alpha2",
            since: "",
            moved: Some(", and run limits such as `cleanPodPolicy` in `spec.runPolicy` instead of `spec`"),
        },
    ],
    name: "MPIJob",
    resource: "mpijobs",
    limits: &["spec", "runPolicy"],
    // That of the launcher Job: the workers stay.
    deadline: Deadline::Marks,
    ttl: Ttl::Deletes { deletes_pods: false, jobs_run_again: false },
    ttl_of_zero_runs_again: true,
    wait: Some(Wait {
        choice: Choice { at: &["spec", "launcherCreationPolicy"], word: "WaitForWorkersReady" },
        until: "the workers",
        help: "write `launcherCreationPolicy: AtStartup`, or let a queue such as Kueue admit all pods at once",
    }),
    release: Some(RELEASE),
    manager: Some(managers::MPI),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "mpiReplicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Replicas { unset, elastic: None },
        restart: Restart::Beside {
            words: &["OnFailure", "Never"],
            ignored: Some("the operator ignores a job with any other word than `Never` and `OnFailure`"),
            unset: &[("Launcher", "OnFailure"), ("Worker", "Never")],
        },
    }],
    // mpi-operator 0.8.0, `pkg/controller/mpi_job_controller.go`.
    made: Made {
        overwrites: &["hostname", "restartPolicy", "subdomain"],
        volumes: Some(&["mpi-job-config", "ssh-auth"]),
        is_silent: true,
        unmade: "the MPI operator then writes no status, so that the deadline does not run and no end is seen",
        ..CUSTOM.made
    },
    schema_of: "mpi-operator 0.8",
    api: Api::Custom { schema: include_str!("mpi_job.schema.json"), operator: None },
    ranks: Ranks::Hosts(Hosts {
        launcher_too: Some(&["spec", "runLauncherAsWorker"]),
        implementation: Some(&["spec", "mpiImplementation"]),
        ..HOSTS
    }),
    children: &[Children { group: "batch", name: "Job", by_hand: None }],
    makers: &[
        "system:serviceaccount:mpi-operator:mpi-operator",
        "system:serviceaccount:kubeflow:mpi-operator",
    ],
    starter: Some(include_str!("mpi_job.starter.yaml")),
    ..CUSTOM
};
