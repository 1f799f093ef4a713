//! `sagemaker.amazonaws.com` `HyperPodPyTorchJob`: a list of replica specs. Its operator and schema are not
//! public (docs/internals/batch-kinds.md#hyperpodpytorchjob).

use super::definition::{Api, CUSTOM, Definition};
use super::pods::{Count, Pods, Restart, TEMPLATE};

pub(super) static HYPER_POD_PY_TORCH_JOB: Definition = Definition {
    group: "sagemaker.amazonaws.com",
    version: "v1",
    name: "HyperPodPyTorchJob",
    resource: "hyperpodpytorchjobs",
    limits: &["spec", "runPolicy"],
    // Finished jobs are deleted at once by default.
    pods: &[Pods {
        at: &["spec", "replicaSpecs", "*"],
        template: TEMPLATE,
        count: Count::Range,
        restart: Restart::Free,
    }],
    api: Api::Custom { schema: "{}", operator: None },
    untested: true,
    ..CUSTOM
};
