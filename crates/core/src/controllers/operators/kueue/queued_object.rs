//! What may wait in a queue, as Kueue sees it: a Job, or an object of an operator (`controller/jobframework/interface.go`,
//! `GenericJob`, and the integrations below `controller/jobs`). What it does with others than Jobs was read, and not recorded.

use super::super::super::cluster::{Action, Cluster, Job};
use super::super::super::object::{
    ClusterState, DeploymentStatus, Object, ObjectStatus, ReplicatedJobStatus,
};
use super::super::super::pod_set::Owner;
use super::super::super::subject::suspension;
use super::super::kinds::{has_queue, suspend_field};
use super::super::subjects::pods_at_once;
use super::webhook;
use crate::text::patch::merge;
use crate::text::value::{Map, Value, json};

/// A Job, or an object of an operator, with its number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queued<'a> {
    Job(usize, &'a Job),
    Object(usize, &'a Object),
}

impl<'a> Queued<'a> {
    /// Returns one by what owns its Workload; nothing for kinds that have no queue.
    pub(super) fn find(cluster: &'a Cluster, owner: Owner) -> Option<Self> {
        match owner {
            Owner::Job(number) => cluster.jobs.get(number).map(|job| Self::Job(number, job)),
            Owner::Object(number) => {
                let object = cluster.objects.get(number).filter(|object| has_queue(object.kind))?;
                Some(Self::Object(number, object))
            }
        }
    }

    pub(super) fn manifest(self) -> &'a Value {
        match self {
            Self::Job(_, job) => &job.manifest,
            Self::Object(_, object) => &object.manifest,
        }
    }

    /// Returns the name of its Workload.
    pub(super) fn workload_name(self) -> String {
        match self {
            Self::Job(_, job) => format!("job-{}", job.name()),
            Self::Object(_, object) => format!("{}-{}", object.kind.to_ascii_lowercase(), object.name),
        }
    }

    /// Tells whether it is gone or goes.
    pub(super) fn goes(self) -> bool {
        match self {
            Self::Job(_, job) => job.gone.is_some() || job.deletion.is_some(),
            Self::Object(_, object) => !object.is_there() || object.deletion.is_some(),
        }
    }

    /// Tells whether nobody made it: only then has it a queue of its own.
    pub(super) fn is_on_top(self) -> bool {
        match self {
            Self::Job(_, job) => job.owner.is_none(),
            Self::Object(_, object) => object.owner.is_none(),
        }
    }

    pub(super) fn is_suspended(self) -> bool {
        match self {
            Self::Job(_, job) => job.spec.suspend,
            Self::Object(_, object) => webhook::is_suspended(object.kind, &object.manifest),
        }
    }

    /// Returns why its Workload is finished and what the condition says, if it has ended.
    pub(super) fn end(self) -> Option<(&'static str, String)> {
        let reason = |is_success: bool| if is_success { "Succeeded" } else { "Failed" };
        match self {
            Self::Job(_, job) => {
                let end = job.status.finished()?;
                Some((reason(end.sort != "Failed"), end.message.clone()))
            }
            Self::Object(_, object) => {
                let end = object.end()?;
                Some((reason(end.is_success), end.reason.into_owned()))
            }
        }
    }

    /// Tells whether pods of it are active, as its status says: those that are terminating are not.
    pub(super) fn is_active(self) -> bool {
        let any = |jobs: &[ReplicatedJobStatus]| jobs.iter().any(|one| one.active > 0);
        match self {
            Self::Job(_, job) => job.status.active > 0,
            Self::Object(_, object) => match &object.status {
                ObjectStatus::JobSet(status) => any(&status.replicated_jobs),
                ObjectStatus::Train(status) => any(&status.jobs),
                ObjectStatus::Training(status) => status.replicas.iter().any(|(_, of)| of.active > 0),
                ObjectStatus::Mpi(status) => {
                    status.launcher.into_iter().chain(status.worker).any(|replicas| replicas.active > 0)
                }
                ObjectStatus::RayJob(status) => {
                    status.deployment.is_some_and(|status| status != DeploymentStatus::Suspended)
                }
                ObjectStatus::RayCluster(status) => status.state == Some(ClusterState::Ready),
                _ => false,
            },
        }
    }

    /// Tells whether all its pods are ready, or done (`PodsReady`).
    pub(super) fn is_ready(self) -> bool {
        let sum = |jobs: &[ReplicatedJobStatus]| {
            jobs.iter().map(|one| one.ready.saturating_add(one.succeeded)).fold(0, u32::saturating_add)
        };
        match self {
            Self::Job(_, job) => {
                let ready = job.status.succeeded.saturating_add(job.status.ready.unwrap_or_default());
                ready >= job.spec.at_once()
            }
            Self::Object(_, object) => match &object.status {
                ObjectStatus::JobSet(status) => sum(&status.replicated_jobs) == jobs_of(object.spec()),
                ObjectStatus::Train(status) => {
                    let jobs = u32::try_from(status.jobs.len()).unwrap_or(u32::MAX);
                    jobs > 0 && sum(&status.jobs) == jobs
                }
                ObjectStatus::RayJob(status) => {
                    status.cluster_status.as_ref().is_some_and(|of| of.0.state == Some(ClusterState::Ready))
                }
                ObjectStatus::RayCluster(status) => status.state == Some(ClusterState::Ready),
                _ => object.condition("Running").is_some(),
            },
        }
    }

    /// Tells whether a stop is done only when none of its pods is active (`JobWithCustomStop`).
    pub(super) fn stops_late(self) -> bool {
        match self {
            Self::Job(..) => true,
            Self::Object(_, object) => object.kind == "TrainJob",
        }
    }

    /// Returns how many pods need no quota any more.
    pub(super) fn reclaimable(self) -> u32 {
        match self {
            Self::Job(_, job) => reclaimable(job),
            Self::Object(..) => 0,
        }
    }

    /// Returns how many pods it asks quota for.
    pub(super) fn count(self) -> u32 {
        match self {
            Self::Job(_, job) => job.spec.at_once(),
            Self::Object(_, object) => pods_at_once(&object.manifest).unwrap_or(object.ranks).max(1),
        }
    }

    /// Returns the priority of its pods; of others than Jobs none is known.
    pub(super) fn pod_priority(self) -> i64 {
        let Self::Job(_, job) = self else { return 0 };
        webhook::template(job).pointer("/spec/priority").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Returns the item of `podSets`. Of others than Jobs it is one for all pods, and only their number is asked for.
    pub(super) fn pod_set(self) -> Value {
        let mut set = Map::new();
        set.insert("name", "main".into());
        set.insert("count", self.count().into());
        if let Self::Job(_, job) = self {
            if let Some(least) = webhook::least_pods(&job.manifest) {
                set.insert("minCount", least.into());
            }
            set.insert("template", webhook::template(job).clone());
        }
        Value::from(set)
    }

    /// Returns the change that suspends or resumes it, with more of its `spec`.
    pub(super) fn suspend(self, suspend: bool, more: &Value) -> Action {
        match self {
            Self::Job(job, _) => {
                let mut patch = json!({"suspend": suspend});
                merge(&mut patch, more);
                Action::PatchJob { job, patch }
            }
            Self::Object(object, of) => {
                let spec = suspension(suspend_field(of.kind), suspend);
                Action::PatchObject { object, patch: json!({"spec": spec}) }
            }
        }
    }
}

/// Returns how many Jobs a JobSet asks for.
fn jobs_of(spec: &Value) -> u32 {
    let jobs = spec.get("replicatedJobs").and_then(Value::as_array).into_iter().flatten();
    let replicas = |job: &Value| super::workload::number(job, "replicas").unwrap_or(1);
    jobs.map(replicas).fold(0, u32::saturating_add)
}

/// Returns how many pods need no quota any more: those beyond what is left to do (`ReclaimablePods`).
fn reclaimable(job: &Job) -> u32 {
    let (parallelism, status) = (job.spec.parallelism, &job.status);
    let completions = job.spec.completions.unwrap_or(parallelism);
    let over = if job.spec.indexed {
        let failed = status.failed_indexes.clone().unwrap_or_default();
        status.completed.union(&failed).len()
    } else {
        status.succeeded
    };
    if parallelism > 1 && over > 0 { parallelism.saturating_sub(completions.saturating_sub(over)) } else { 0 }
}
