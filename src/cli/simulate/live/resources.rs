//! The kinds that `--cluster` takes, as kubectl names them, and by which labels what they made is found.

use crate::cluster::jobs::{JOBS, Resource};

/// A kind that is read with what it made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) resource: Resource,
    /// The names that kubectl takes, beside the kind and the plural.
    short: &'static [&'static str],
    /// The label that its pods have, with its name as the value; of a Job, its selector counts.
    pub(super) pods: &'static str,
    /// The label that its Jobs have; empty where they are found by their names, or there are none.
    pub(super) jobs: &'static str,
    /// The kind of the object below it that has its name.
    pub(super) below: Option<&'static str>,
}

const TRAINING: &str = "training.kubeflow.org/job-name";
const JOB_SET: &str = "jobset.sigs.k8s.io/jobset-name";

const fn kubeflow(kind: &'static str, version: &'static str, plural: &'static str) -> Known {
    let resource = Resource { kind, group: "kubeflow.org", version, plural };
    Known { resource, short: &[], pods: TRAINING, jobs: "", below: None }
}

/// The kinds. Those of one group are asked for in the version that all releases of their operators serve.
const KNOWN: [Known; 12] = [
    Known { resource: JOBS, short: &[], pods: "", jobs: "", below: None },
    Known {
        resource: Resource {
            kind: "JobSet",
            group: "jobset.x-k8s.io",
            version: "v1alpha2",
            plural: "jobsets",
        },
        short: &[],
        pods: JOB_SET,
        jobs: JOB_SET,
        below: None,
    },
    Known {
        resource: Resource {
            kind: "TrainJob",
            group: "trainer.kubeflow.org",
            version: "v1alpha1",
            plural: "trainjobs",
        },
        short: &[],
        pods: JOB_SET,
        jobs: JOB_SET,
        below: Some("JobSet"),
    },
    kubeflow("JAXJob", "v1", "jaxjobs"),
    kubeflow("MPIJob", "v2beta1", "mpijobs"),
    kubeflow("PaddleJob", "v1", "paddlejobs"),
    kubeflow("PyTorchJob", "v1", "pytorchjobs"),
    kubeflow("TFJob", "v1", "tfjobs"),
    kubeflow("XGBoostJob", "v1", "xgboostjobs"),
    Known {
        resource: Resource { kind: "Job", group: "batch.volcano.sh", version: "v1alpha1", plural: "jobs" },
        short: &["vcjob", "vj"],
        pods: "volcano.sh/job-name",
        jobs: "",
        below: None,
    },
    Known {
        resource: Resource { kind: "RayCluster", group: "ray.io", version: "v1", plural: "rayclusters" },
        short: &[],
        pods: "ray.io/cluster",
        jobs: "",
        below: None,
    },
    Known {
        resource: Resource { kind: "RayJob", group: "ray.io", version: "v1", plural: "rayjobs" },
        short: &[],
        pods: "ray.io/cluster",
        jobs: "",
        below: Some("RayCluster"),
    },
];

/// Returns a kind by what kubectl calls it: `pytorchjob`, `jobs.batch.volcano.sh`, `job.v1.batch`.
pub(super) fn named(word: &str) -> Option<Known> {
    let word = word.to_ascii_lowercase();
    let is_it = |known: &&Known| {
        let Resource { kind, group, version, plural } = known.resource;
        let singular = kind.to_ascii_lowercase();
        let names = [singular.as_str(), plural].into_iter().chain(known.short.iter().copied());
        names.into_iter().any(|name| {
            word == name || word == format!("{name}.{group}") || word == format!("{name}.{version}.{group}")
        })
    };
    // A `job` alone is that of Kubernetes, which comes first.
    KNOWN.iter().find(is_it).copied()
}

/// Returns a kind by itself.
pub(super) fn of_kind(kind: &str) -> Option<Known> {
    KNOWN.iter().find(|known| known.resource.kind == kind).copied()
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
}
