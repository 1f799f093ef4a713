//! What pods have in common: who makes them, what they are to it, and how the kubelet treats them.

use std::sync::Arc;

use super::admission::PodDemand;
use super::job::spec::{ContainerSpec, GRACE, JobSpec, containers};
use super::time::Time;
use crate::text::value::Value;

/// An object that makes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A Job, by its number.
    Job(usize),
    /// A custom resource, by its number.
    Object(usize),
}

/// Pods that one object makes from one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSet {
    /// The object that makes them.
    pub owner: Owner,
    /// What they are to it: `worker`, a task, a group of workers; of a Job, its name without that of its owner.
    pub role: Arc<str>,
    /// Which attempt of its owner they belong to: the restarts of a JobSet, the version of a Volcano Job, the number of a
    /// RayCluster.
    pub round: u32,
    /// Whether each has an index; otherwise they are numbered in order of creation.
    pub indexed: bool,
    /// What the kubelet knows of them.
    pub template: PodTemplate,
}

/// The fields of a pod template that decide what the kubelet does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate {
    /// The containers.
    pub containers: Arc<[ContainerSpec]>,
    /// `terminationGracePeriodSeconds`.
    pub(crate) grace: Time,
    /// `restartPolicy`.
    pub restart: RestartPolicy,
    /// What decides whether the API server takes them.
    pub(crate) demand: Arc<PodDemand>,
}

/// `restartPolicy` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// `Never`.
    Never,
    /// `OnFailure`.
    OnFailure,
    /// `Always`.
    Always,
}

impl RestartPolicy {
    /// Reads a value of the field; a pod without one has `Always`.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    /// Tells whether the kubelet starts a container again that ended with an exit code.
    #[must_use]
    pub fn restarts_after(self, code: i64) -> bool {
        match self {
            Self::Never => false,
            Self::OnFailure => code != 0,
            Self::Always => true,
        }
    }
}

impl PodTemplate {
    /// Reads a pod template (`template` of a Job, of a role or of a task).
    #[must_use]
    pub fn from_template(template: &Value) -> Self {
        let pod = template.get("spec").unwrap_or(&Value::Null);
        let grace = pod.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
        Self {
            containers: containers(pod),
            grace: grace.map_or(GRACE, Time::from_seconds),
            restart: RestartPolicy::parse(pod.get("restartPolicy").and_then(Value::as_str)),
            demand: Arc::new(PodDemand::from_pod(pod)),
        }
    }

    /// Returns that of a Job.
    #[must_use]
    pub(crate) fn from_job(spec: &JobSpec) -> Self {
        Self {
            containers: Arc::clone(&spec.containers),
            grace: spec.grace,
            restart: if spec.restarts_in_place { RestartPolicy::OnFailure } else { RestartPolicy::Never },
            demand: Arc::clone(&spec.demand),
        }
    }
}
