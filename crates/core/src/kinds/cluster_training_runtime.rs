//! `trainer.kubeflow.org` `ClusterTrainingRuntime`: a TrainingRuntime for all namespaces
//! (docs/internals/batch-kinds.md#training-runtimes).

use super::definition::Definition;
use super::training_runtime::RUNTIME;

pub(super) static CLUSTER_TRAINING_RUNTIME: Definition = Definition {
    name: "ClusterTrainingRuntime",
    resource: "clustertrainingruntimes",
    cluster_scoped: true,
    ..RUNTIME
};
