//! Objects of a cluster, as their operators read them when they start.

use super::super::live::fields::text;
use super::super::operators;
use super::{
    JobSetStatus, MpiStatus, ObjectStatus, PodGroupPhase, RayClusterStatus, RayJobStatus, TrainStatus,
    TrainingStatus, VolcanoStatus,
};
use crate::text::value::Value;

impl ObjectStatus {
    /// Reads `status` of an object of a kind; nothing where that cannot go on from a live object.
    pub(in super::super) fn from_live(kind: &str, object: &Value, now: i64) -> Option<Self> {
        let status = object.get("status").unwrap_or(&Value::Null);
        Some(match kind {
            "JobSet" => Self::JobSet(JobSetStatus::from_live(status)),
            "TrainJob" => Self::Train(TrainStatus::from_live(status)),
            "MPIJob" => Self::Mpi(MpiStatus::from_live(status, now)),
            "JAXJob" | "PaddleJob" | "PyTorchJob" | "TFJob" | "XGBoostJob" => {
                Self::Training(TrainingStatus::from_live(status, now))
            }
            // One without a phase is new to its controller.
            "VolcanoJob" if text(status, "/state/phase").is_none() => Self::Empty,
            "VolcanoJob" => {
                let tasks = operators::task_names(object);
                let tasks = tasks.iter().map(AsRef::as_ref);
                Self::Volcano(VolcanoStatus::from_live(status, tasks, now)?)
            }
            "PodGroup" => match text(status, "/phase") {
                Some(phase) => Self::PodGroup(PodGroupPhase::parse(phase)?),
                None => Self::Empty,
            },
            "RayJob" => Self::RayJob(Box::new(RayJobStatus::from_live(status, now)?)),
            "RayCluster" => Self::RayCluster(RayClusterStatus::from_live(status)?),
            _ => return None,
        })
    }
}
