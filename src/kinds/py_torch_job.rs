//! `kubeflow.org` `PyTorchJob`: one pod template per replica type, run limits in `spec.runPolicy`.

use super::{Adapter, Kind, Part, PodCount, PodTemplate, Replica, Workload};
use crate::text::value::Value;

pub(super) static ADAPTER: Adapter =
    Adapter { kind: Kind::PyTorchJob, group: "kubeflow.org", version: "v1", name: "PyTorchJob", resource: "pytorchjobs", view };

fn view(object: &Value) -> Workload<'_> {
    let object = Part::root(object);
    let spec = object.get("spec");
    let pods = spec.get("pytorchReplicaSpecs").entries().map(|(name, part)| {
        let mut count = PodCount::of_replicas(&part);
        if name == "Worker" {
            // An autoscaler, or `kubectl scale`, can raise the workers to this without another admission review (kubernetes.md §5.2).
            count = count.or_more(&spec.at(&["elasticPolicy", "maxReplicas"]));
        }
        PodTemplate::new(part.get("template"), Some(Replica { name, part }), count)
    });
    let pods = pods.collect();
    Workload { kind: Kind::PyTorchJob, limits: spec.get("runPolicy"), job_spec: None, cron: None, pods, object }
}
