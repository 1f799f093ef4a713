//! What a JobSet asks for, as its controller reads it: with the defaults of its CRD and of its webhook
//! (`api/jobset/v1alpha2/jobset_types.go`, `pkg/webhooks/jobset_webhook.go`, `Default`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::super::job::spec::JobSpec;
use super::super::super::managers;
use super::super::super::time::Time;
use super::rules::FailurePolicy;
use crate::text::value::{Value, json};

/// The fields of a JobSet's `spec` that its controller looks at.
#[derive(Debug)]
pub(super) struct JobSetSpec {
    /// `replicatedJobs`.
    pub(super) replicated_jobs: Vec<ReplicatedJob>,
    /// `suspend`.
    pub(super) suspend: bool,
    /// `ttlSecondsAfterFinished`.
    pub(super) ttl: Option<Time>,
    /// Whether `startupPolicy.startupPolicyOrder` is `InOrder`.
    pub(super) is_in_order: bool,
    /// `successPolicy`.
    pub(super) success: SuccessPolicy,
    /// `failurePolicy`; nothing where there is none.
    pub(super) failure: Option<FailurePolicy>,
    /// Whether `managedBy` names another controller.
    pub(super) is_managed_by_other: bool,
}

/// An item of `replicatedJobs`.
#[derive(Debug)]
pub(super) struct ReplicatedJob {
    /// `name`.
    pub(super) name: Arc<str>,
    /// `replicas`: how many Jobs.
    pub(super) replicas: u32,
    /// `dependsOn`.
    pub(super) depends_on: Vec<Dependency>,
    /// `template.spec`, as the webhook leaves it.
    pub(super) template: Value,
}

/// An item of `dependsOn`.
#[derive(Debug)]
pub(super) struct Dependency {
    /// The `replicatedJob` that is waited for.
    pub(super) name: Arc<str>,
    /// How many Jobs that has, as far as those up to the one that waits say.
    pub(super) replicas: u32,
    /// What is waited for.
    pub(super) until: DependencyStatus,
}

/// `status` of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DependencyStatus {
    /// `Ready`.
    Ready,
    /// `Complete`.
    Complete,
}

/// `successPolicy`.
#[derive(Debug)]
pub(super) struct SuccessPolicy {
    /// Whether `operator` is `Any`, and not `All`.
    pub(super) is_any: bool,
    /// `targetReplicatedJobs`.
    targets: BTreeSet<Arc<str>>,
}

impl JobSetSpec {
    /// Reads a `spec`. What has a wrong type counts as absent: the API server does not take it.
    pub(super) fn from_spec(spec: &Value) -> Self {
        let failure = spec.get("failurePolicy").filter(|policy| policy.is_object());
        Self {
            replicated_jobs: ReplicatedJob::all(spec),
            suspend: spec.get("suspend").and_then(Value::as_bool).unwrap_or(false),
            ttl: spec.get("ttlSecondsAfterFinished").and_then(Value::as_i64).map(Time::from_seconds),
            is_in_order: spec.pointer("/startupPolicy/startupPolicyOrder").and_then(Value::as_str)
                == Some("InOrder"),
            success: SuccessPolicy {
                is_any: spec.pointer("/successPolicy/operator").and_then(Value::as_str) == Some("Any"),
                targets: spec
                    .get("successPolicy")
                    .map(|policy| texts(policy, "targetReplicatedJobs"))
                    .unwrap_or_default(),
            },
            failure: failure.map(FailurePolicy::from_policy),
            is_managed_by_other: text(spec, "managedBy").is_some_and(|manager| manager != managers::JOB_SET),
        }
    }

    /// Returns how many Jobs there are when all are there.
    pub(super) fn replicas(&self) -> u64 {
        self.replicated_jobs.iter().map(|replicated_job| u64::from(replicated_job.replicas)).sum()
    }

    /// Returns how many pods run at once whose program may need one another: all but those that others wait for until
    /// they are complete.
    pub(super) fn ranks(&self) -> u32 {
        let dependencies = self.replicated_jobs.iter().flat_map(|replicated_job| &replicated_job.depends_on);
        let complete = dependencies.filter(|dependency| dependency.until == DependencyStatus::Complete);
        let before: BTreeSet<&str> = complete.map(|dependency| &*dependency.name).collect();
        let at_once = |replicated_job: &ReplicatedJob| {
            JobSpec::from_spec(&replicated_job.template).at_once().saturating_mul(replicated_job.replicas)
        };
        let is_together = |replicated_job: &&ReplicatedJob| !before.contains(&*replicated_job.name);
        let together = self.replicated_jobs.iter().filter(is_together);
        together.map(at_once).fold(0, u32::saturating_add)
    }
}

impl ReplicatedJob {
    /// Reads `replicatedJobs`.
    fn all(spec: &Value) -> Vec<Self> {
        let volumes = volumes(spec);
        let mut replicas: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let read = |item: &Value| {
            let mut read = Self::from_item(item);
            add_volumes(&mut read.template, &volumes);
            replicas.insert(Arc::clone(&read.name), read.replicas);
            for dependency in &mut read.depends_on {
                dependency.replicas = replicas.get(&dependency.name).copied().unwrap_or_default();
            }
            read
        };
        list(spec, "replicatedJobs").map(read).collect()
    }

    fn from_item(item: &Value) -> Self {
        let replicas = match item.get("replicas") {
            None | Some(Value::Null) => 1,
            Some(replicas) => {
                replicas.as_u64().map_or(0, |replicas| u32::try_from(replicas).unwrap_or(u32::MAX))
            }
        };
        let depends_on = list(item, "dependsOn").filter_map(|dependency| {
            let until = match text(dependency, "status") {
                Some("Complete") => DependencyStatus::Complete,
                Some("Ready") => DependencyStatus::Ready,
                _ => return None,
            };
            let name = Arc::from(text(dependency, "name").unwrap_or_default());
            Some(Dependency { name, replicas: 0, until })
        });
        Self {
            name: Arc::from(text(item, "name").unwrap_or_default()),
            replicas,
            depends_on: depends_on.collect(),
            template: with_defaults(item.pointer("/template/spec").cloned().unwrap_or_default()),
        }
    }
}

impl SuccessPolicy {
    /// Tells whether Jobs of a `replicatedJob` count (`success_policy.go`, `jobMatchesSuccessPolicy`).
    pub(super) fn is_target(&self, name: &str) -> bool {
        self.targets.is_empty() || self.targets.contains(name)
    }
}

/// Returns the names of the volumes of `volumeClaimPolicies`, whose claims JobSet makes.
fn volumes(spec: &Value) -> BTreeSet<&str> {
    let templates = list(spec, "volumeClaimPolicies").flat_map(|policy| list(policy, "templates"));
    templates.filter_map(|template| template.pointer("/metadata/name")?.as_str()).collect()
}

/// Adds the volumes that the containers of a Job mount of those (`pkg/controllers/volume_claim_policy.go`, `addVolumes`).
fn add_volumes(job: &mut Value, volumes: &BTreeSet<&str>) {
    if volumes.is_empty() {
        return;
    }
    let Some(pod) = job.pointer_mut("/template/spec") else { return };
    let containers = list(pod, "containers").chain(list(pod, "initContainers"));
    let mounts = containers.flat_map(|container| list(container, "volumeMounts"));
    let names: BTreeSet<&str> = mounts.filter_map(|mount| text(mount, "name")).collect();
    let there: BTreeSet<&str> = list(pod, "volumes").filter_map(|volume| text(volume, "name")).collect();
    let missing = names.intersection(volumes).filter(|name| !there.contains(*name));
    let added: Vec<Value> = missing.map(|name| json!({"name": *name, "persistentVolumeClaim": {}})).collect();
    let Some(pod) = pod.as_object_mut().filter(|_| !added.is_empty()) else { return };
    match pod.get_mut("volumes").and_then(Value::as_array_mut) {
        Some(volumes) => volumes.extend(added),
        None => {
            pod.insert("volumes", Value::Array(added));
        }
    }
}

/// Sets what the webhook sets in the `spec` of a Job: `completionMode: Indexed`, and `restartPolicy: OnFailure`.
fn with_defaults(mut template: Value) -> Value {
    if let Some(job) = template.as_object_mut() {
        if job.get("completionMode").is_none_or(Value::is_null) {
            job.insert("completionMode", "Indexed".into());
        }
        let pod = job
            .get_mut("template")
            .and_then(|template| template.get_mut("spec"))
            .and_then(Value::as_object_mut);
        if let Some(pod) = pod
            && pod.get("restartPolicy").and_then(Value::as_str).is_none_or(str::is_empty)
        {
            pod.insert("restartPolicy", "OnFailure".into());
        }
    }
    template
}

/// Returns a text of a mapping.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the items of a list of a mapping.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the texts of a list of a mapping.
pub(super) fn texts(value: &Value, key: &str) -> BTreeSet<Arc<str>> {
    list(value, key).filter_map(Value::as_str).map(Arc::from).collect()
}
