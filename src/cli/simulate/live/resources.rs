//! The kinds that `--cluster` takes, as kubectl names them, and by which labels what they made is found.

use crate::cluster::jobs::{JOBS, Resource};
use crate::controllers::live::{label_of, live_kind};
use crate::kinds::Kind;
use crate::text::value::json;

/// A kind that is read with what it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) resource: Resource,
    /// What the simulation calls it.
    kind: &'static str,
}

/// It has no end, so that it is none of the kinds that are judged.
const RAY_CLUSTER: Resource =
    Resource { kind: "RayCluster", group: "ray.io", version: "v1", plural: "rayclusters" };
/// What lets the pods of a Volcano Job be made.
pub(super) const POD_GROUPS: Resource =
    Resource { kind: "PodGroup", group: "scheduling.volcano.sh", version: "v1beta1", plural: "podgroups" };
/// The names that kubectl takes, beside the kind and the plural.
const SHORT: [(&str, &str); 2] = [("vcjob", "VolcanoJob"), ("vj", "VolcanoJob")];

/// Returns the kinds. Of several versions with other fields, the first is that of the operator that is modelled.
fn all() -> impl Iterator<Item = Known> {
    // A `job` alone is that of Kubernetes, which comes first.
    let job = Known { resource: JOBS, kind: "Job" };
    let judged = Kind::all().filter(|kind| Kind::named(kind.group, kind.name) == Some(*kind));
    let judged = judged.map(|kind| Resource {
        kind: kind.name,
        group: kind.group,
        version: kind.version,
        plural: kind.resource,
    });
    let of_operators = judged.chain([RAY_CLUSTER]).filter_map(|resource| {
        let version = format!("{}/{}", resource.group, resource.version);
        let kind = live_kind(&json!({ "apiVersion": version, "kind": resource.kind }))?;
        Some(Known { resource, kind })
    });
    std::iter::once(job).chain(of_operators)
}

impl Known {
    /// Returns the kind of the object below it, which makes all the rest.
    pub(super) fn below(&self) -> Option<Self> {
        match self.kind {
            "TrainJob" => all().find(|known| known.kind == "JobSet"),
            "RayJob" => all().find(|known| known.kind == "RayCluster"),
            _ => None,
        }
    }

    /// Returns the label that its pods have, with its name as the value; of a Job, its selector counts.
    pub(super) fn label(&self) -> &'static str {
        label_of(self.kind).unwrap_or_default()
    }

    /// Tells whether a PodGroup lets its pods be made.
    pub(super) fn has_pod_group(&self) -> bool {
        self.kind == "VolcanoJob"
    }

    /// Tells whether its pods are those of Jobs, which have its label too.
    pub(super) fn has_jobs(&self) -> bool {
        self.kind == "JobSet"
    }
}

/// Returns a kind by what kubectl calls it: `pytorchjob`, `jobs.batch.volcano.sh`, `job.v1.batch`.
pub(super) fn named(word: &str) -> Option<Known> {
    let word = word.to_ascii_lowercase();
    let is_it = |known: &Known| {
        let Resource { kind, group, version, plural } = known.resource;
        let singular = kind.to_ascii_lowercase();
        let short = SHORT.into_iter().filter(|(_, kind)| *kind == known.kind).map(|(short, _)| short);
        [singular.as_str(), plural].into_iter().chain(short).any(|name| {
            word == name || word == format!("{name}.{group}") || word == format!("{name}.{version}.{group}")
        })
    };
    all().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_kubectl_does() {
        for (word, expected) in [
            ("job", Some("batch")),
            ("jobs.batch", Some("batch")),
            ("job.v1.batch", Some("batch")),
            ("PyTorchJob", Some("kubeflow.org")),
            ("pytorchjobs.kubeflow.org", Some("kubeflow.org")),
            ("mpijob.v2beta1.kubeflow.org", Some("kubeflow.org")),
            ("job.batch.volcano.sh", Some("batch.volcano.sh")),
            ("vcjob", Some("batch.volcano.sh")),
            ("rayjob", Some("ray.io")),
            ("trainjobs", Some("trainer.kubeflow.org")),
            ("pod", None),
            ("job.ray.io", None),
        ] {
            assert_eq!(named(word).map(|known| known.resource.group), expected, "{word}");
        }
    }
    #[test]
    fn kinds_are_read_in_the_version_of_their_operator_with_what_they_made() {
        for (word, version, below, label, has_jobs) in [
            ("jobset", "v1alpha2", None, "jobset.sigs.k8s.io/jobset-name", true),
            ("trainjob", "v1alpha1", Some("JobSet"), "", false),
            ("pytorchjob", "v1", None, "training.kubeflow.org/job-name", false),
            ("jaxjob", "v1", None, "training.kubeflow.org/job-name", false),
            ("paddlejob", "v1", None, "training.kubeflow.org/job-name", false),
            ("tfjob", "v1", None, "training.kubeflow.org/job-name", false),
            ("xgboostjob", "v1", None, "training.kubeflow.org/job-name", false),
            ("mpijob", "v2beta1", None, "training.kubeflow.org/job-name", false),
            ("vcjob", "v1alpha1", None, "volcano.sh/job-name", false),
            ("rayjob", "v1", Some("RayCluster"), "", false),
            ("raycluster", "v1", None, "ray.io/cluster", false),
        ] {
            let known = named(word).unwrap();
            let below_it = known.below().map(|below| below.resource.kind);
            assert_eq!((known.resource.version, below_it), (version, below), "{word}");
            assert_eq!((known.label(), known.has_jobs()), (label, has_jobs), "{word}");
        }
        assert_eq!(all().count(), 12);
    }
}
