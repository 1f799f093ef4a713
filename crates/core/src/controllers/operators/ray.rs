//! KubeRay (RayJob, RayCluster).
//!
//! Sources: `ray-operator/controllers/ray` of KubeRay v1.7.0. What a dashboard answers is a part of the world
//! ([`super::super::dashboard`]).

mod cleaning;
mod cluster_spec;
mod cluster_status;
mod demand;
mod job_spec;
mod ray_cluster;
mod ray_job;
mod subject;
mod submitter;
mod validation;
mod workers;

use super::super::cluster::{Cluster, Controller};
use super::super::managers;
use crate::text::value::Value;
pub(super) use demand::{asked, asked_of_cluster};
use ray_cluster::RayClusterController;
use ray_job::RayJobController;

/// Releases that differ in what they do after failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Release {
    /// 1.6: a dashboard that does not answer is asked for without end, with the waits of an error.
    #[allow(dead_code, reason = "nothing says yet which release a cluster has")]
    V1_6,
    /// 1.7.
    #[default]
    V1_7,
}

impl Release {
    /// Tells whether a RayJob fails whose dashboard does not answer for long.
    fn has_status_check_timeout(self) -> bool {
        self == Self::V1_7
    }
}

pub(super) use subject::{of_cluster, of_job};

/// Returns the controllers.
#[must_use]
pub(super) fn controllers() -> Vec<Box<dyn Controller>> {
    vec![Box::new(RayClusterController::default()), Box::new(RayJobController::new(Release::default()))]
}

/// Tells whether another controller manages an object (`spec.managedBy`, `utils/util.go`).
fn is_managed_by_other(spec: &Value) -> bool {
    let manager = spec.get("managedBy").and_then(Value::as_str);
    manager.is_some_and(|manager| manager != managers::RAY)
}

/// How the names of clusters begin that are random in reality.
const CLUSTER: &str = "CLUSTER";

/// Returns the name of a cluster by its number.
fn cluster_name(number: u32) -> String {
    format!("{CLUSTER}{number}")
}

/// Returns the number of a RayCluster, in order of its name's first appearance.
fn cluster_number(cluster: &Cluster, number: usize) -> u32 {
    let Some(object) = cluster.objects.get(number) else { return 0 };
    if let Some(number) = object.name.strip_prefix(CLUSTER).and_then(|number| number.parse().ok()) {
        return number;
    }
    let clusters = cluster.objects.iter().take(number).filter(|other| other.kind == "RayCluster");
    let mut names: Vec<&str> =
        clusters.map(|other| other.name.as_str()).filter(|name| *name != object.name).collect();
    names.sort_unstable();
    names.dedup();
    u32::try_from(names.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
