//! `workload.codeflare.dev` `AppWrapper`: whole objects of other kinds, which are judged in their place
//! (docs/internals/batch-kinds.md#appwrapper).

use super::definition::{Api, CUSTOM, Children, Definition, Finished, OnUpdate, Operator, Retired};
use super::field::Part;
use super::lifecycle::{Attempts, Deadline};

pub(super) static APP_WRAPPER: Definition = Definition {
    group: "workload.codeflare.dev",
    version: "v1beta2",
    retired: &[Retired {
        api_version: "workload.codeflare.dev/v1beta1",
        since: "",
        moved: Some(
            ", and `spec.components[].template` instead of `spec.resources.GenericItems[].generictemplate`",
        ),
    }],
    name: "AppWrapper",
    resource: "appwrappers",
    deadline: Deadline::OfOthers { run_by: None },
    attempts,
    queued_by_kueue: true,
    schema_of: "AppWrapper 1.2",
    api: Api::Custom {
        schema: include_str!("app_wrapper.schema.json"),
        operator: Some(Operator::AppWrapper),
    },
    finished: Finished::Field(&["status", "phase"], &["Succeeded", "Failed"]),
    on_update: OnUpdate::TemplateImmutable,
    whole: &[&["spec", "components"]],
    components: Some(&["spec", "components", "*", "template"]),
    children: &[
        Children { group: "batch", name: "Job", by_hand: None },
        Children { group: "jobset.x-k8s.io", name: "JobSet", by_hand: None },
        Children { group: "kubeflow.org", name: "PyTorchJob", by_hand: None },
        Children { group: "kubeflow.org", name: "MPIJob", by_hand: None },
        Children { group: "kubeflow.org", name: "TFJob", by_hand: None },
        Children { group: "ray.io", name: "RayJob", by_hand: None },
        Children { group: "trainer.kubeflow.org", name: "TrainJob", by_hand: None },
    ],
    makers: &["system:serviceaccount:appwrapper-system:appwrapper-controller-manager"],
    ..CUSTOM
};

/// Returns how often the components may start: again after a failure, by default three times.
fn attempts(object: &Part<'_>) -> Attempts {
    const LIMIT: &str = "workload.codeflare.dev.appwrapper/retryLimit";
    let limit = object.at(&["metadata", "annotations", LIMIT]);
    if !limit.is_set() {
        return Attempts::Times(4);
    }
    let number = limit.text().set().and_then(|text| text.parse::<i64>().ok());
    number.map_or(Attempts::Unknown, |times| Attempts::Times(times.max(0).saturating_add(1)))
}
