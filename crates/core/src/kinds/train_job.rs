//! `trainer.kubeflow.org` `TrainJob`: a run of a training runtime, which has the pods
//! (docs/internals/batch-kinds.md#trainjob).

use super::definition::{Api, CUSTOM, Children, Definition, Finished, Made, Reference};
use crate::controllers::managers;

/// The API server's message about an immutable field.
const IMMUTABLE: &str = "field is immutable";

pub(super) static TRAIN_JOB: Definition = Definition {
    group: "trainer.kubeflow.org",
    version: "v1alpha1",
    name: "TrainJob",
    resource: "trainjobs",
    older_fields: &[
        (&["spec", "annotations"], "write it in `spec.runtimePatches`"),
        (&["spec", "labels"], "write it in `spec.runtimePatches`"),
        (&["spec", "podSpecOverrides"], "use `spec.runtimePatches`"),
        (&["spec", "podTemplateOverrides"], "use `spec.runtimePatches`"),
    ],
    manager: Some(managers::TRAINER),
    queued_by_kueue: true,
    // No release of the trainer has a TTL.
    made: Made { unmade: "JobSet then makes none of its Jobs from this one on, and tries again without end", ..CUSTOM.made },
    schema_of: "Trainer 2.3",
    api: Api::Custom { schema: include_str!("train_job.schema.json"), operator: None },
    finished: Finished::Conditions(&["Complete", "Failed"]),
    immutable: &[
        (&["spec", "activeDeadlineSeconds"], IMMUTABLE),
        (&["spec", "initializer"], IMMUTABLE),
        (&["spec", "managedBy"], IMMUTABLE),
        (&["spec", "runtimeRef"], IMMUTABLE),
        (&["spec", "trainer"], IMMUTABLE),
    ],
    whole: &[&["spec", "runtimeRef"]],
    runs_in: Some(Reference {
        at: &["spec", "runtimeRef"],
        kind: "ClusterTrainingRuntime",
        trainer: &["spec", "trainer"],
        resources: &["spec", "trainer", "resourcesPerNode"],
        nodes: &["spec", "trainer", "numNodes"],
        jobs: &[
            "spec",
            "runtimePatches",
            "*",
            "trainingRuntimeSpec",
            "template",
            "spec",
            "replicatedJobs",
            "*",
        ],
        patches: &[
            "spec",
            "runtimePatches",
            "*",
            "trainingRuntimeSpec",
            "template",
            "spec",
            "replicatedJobs",
            "*",
            "template",
            "spec",
            "template",
            "spec",
        ],
    }),
    children: &[Children { group: "jobset.x-k8s.io", name: "JobSet", by_hand: None }],
    makers: &["system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"],
    starter: Some(include_str!("train_job.starter.yaml")),
    ..CUSTOM
};
