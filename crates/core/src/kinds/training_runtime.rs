//! `trainer.kubeflow.org` `TrainingRuntime`: a JobSet as a template for TrainJobs of its namespace
//! (docs/internals/batch-kinds.md#training-runtimes).

use super::definition::{Api, CUSTOM, Definition, Finished, Made};
use super::job_set::{self, IN_PLACE, RESTART, own_claims};
use super::lifecycle::{Choice, Deadline, Ttl};
use super::pods::{Count, Pods, TEMPLATE, Times};

pub(super) static TRAINING_RUNTIME: Definition =
    Definition { name: "TrainingRuntime", resource: "trainingruntimes", ..RUNTIME };

pub(super) const RUNTIME: Definition = Definition {
    group: "trainer.kubeflow.org",
    version: "v1alpha1",
    body: &["spec", "template", "spec"],
    run_metadata: &["spec", "template", "metadata"],
    limits: &["spec", "template", "spec"],
    deadline: Deadline::OfOthers { run_by: Some("TrainJob") },
    ttl: Ttl::RunsAgain,
    replaces_in_place: Some(Choice {
        at: &["spec", "template", "spec", "failurePolicy", "restartStrategy"],
        word: IN_PLACE,
    }),
    pods: &[Pods {
        at: &["spec", "template", "spec", "replicatedJobs", "*", "template", "spec"],
        template: TEMPLATE,
        // The trainer overwrites `parallelism` and `completions`.
        count: Count::Jobs(Times::OfOthers),
        restart: RESTART,
    }],
    claims: &[own_claims(&["spec", "template", "spec", "volumeClaimPolicies", "*", "templates", "*"])],
    // Those of the trainer's plugins (2.3.0, `pkg/constants/constants.go` and `pkg/runtime/framework/plugins`).
    made: Made {
        volumes: Some(&[
            "flux-curve",
            "flux-install",
            "initializer",
            "kubeflow-trainer-token",
            "mpi-hostfile",
            "mpi-ssh-auth",
            "shared-memory",
            "spack-install",
        ]),
        unmade: "JobSet then makes none of the Jobs of a TrainJob from this one on, and tries again without end",
        ..job_set::MADE
    },
    schema_of: "Trainer 2.3",
    api: Api::Custom { schema: include_str!("training_runtime.schema.json"), operator: None },
    older_fields: &[
        (&["spec", "mlPolicy", "torch", "elasticPolicy"], "remove it"),
        (
            &["spec", "mlPolicy", "torch", "numProcPerNode"],
            "write `spec.trainer.numProcPerNode` in each TrainJob",
        ),
    ],
    finished: Finished::Never,
    ..CUSTOM
};
