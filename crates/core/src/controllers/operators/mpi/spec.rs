//! What an MPIJob asks for, with the defaults of the operator (`pkg/apis/kubeflow/v2beta1/default.go`).

use super::super::super::managers;
use super::super::super::pod_set::{PodTemplate, RestartPolicy};
use crate::text::patch::merge;
use crate::text::value::{Value, json};

/// Maximum length of a DNS label (`k8s.io/apimachinery/pkg/util/validation`).
const MOST_LABEL: usize = 63;

/// `cleanPodPolicy`: which workers are deleted at the end, and at a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MpiCleanPodPolicy {
    /// At the end none.
    None,
    /// Those that run or wait to.
    Running,
    /// Every one.
    All,
}

/// The fields of an MPIJob that decide what the operator does.
#[derive(Clone, Debug)]
pub(super) struct MpiSpec<'a> {
    /// `metadata.namespace`.
    pub(super) namespace: &'a str,
    /// `runPolicy.cleanPodPolicy`.
    pub(super) clean: MpiCleanPodPolicy,
    /// `runPolicy.suspend`.
    pub(super) suspend: bool,
    /// Whether `launcherCreationPolicy` is `AtStartup`; every other word is `WaitForWorkersReady`.
    pub(super) at_startup: bool,
    /// `runLauncherAsWorker`: the index label of workers begins with 1.
    pub(super) is_launcher_worker: bool,
    /// `runPolicy`.
    policy: &'a Value,
    /// `mpiReplicaSpecs.Launcher`.
    launcher: &'a Value,
    /// `mpiReplicaSpecs.Worker`.
    worker: Option<&'a Value>,
}

impl<'a> MpiSpec<'a> {
    /// Reads a manifest; nothing where the operator leaves it alone: it is managed by another, or invalid
    /// (`pkg/apis/kubeflow/validation/validation.go`).
    pub(super) fn from_manifest(manifest: &'a Value) -> Option<Self> {
        let text = |value: &'a Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let flag = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
        let metadata = manifest.get("metadata").unwrap_or(&Value::Null);
        let spec = manifest.get("spec").unwrap_or(&Value::Null);
        let policy = spec.get("runPolicy").unwrap_or(&Value::Null);
        let replicas = spec.get("mpiReplicaSpecs")?;
        let launcher = replicas.get("Launcher").filter(|launcher| launcher.is_object())?;
        let worker = replicas.get("Worker").filter(|worker| worker.is_object());
        let clean = match text(policy, "cleanPodPolicy") {
            "" | "None" => MpiCleanPodPolicy::None,
            "Running" => MpiCleanPodPolicy::Running,
            "All" => MpiCleanPodPolicy::All,
            _ => return None,
        };
        let spec = Self {
            namespace: Some(text(metadata, "namespace")).filter(|name| !name.is_empty()).unwrap_or("default"),
            clean,
            suspend: flag(policy, "suspend"),
            at_startup: ["", "AtStartup"].contains(&text(spec, "launcherCreationPolicy")),
            is_launcher_worker: flag(spec, "runLauncherAsWorker"),
            policy,
            launcher,
            worker,
        };
        let is_mine = ["", managers::MPI].contains(&text(policy, "managedBy"));
        let implementation = text(manifest.get("spec")?, "mpiImplementation");
        let is_known = ["", "OpenMPI", "Intel", "MPICH"].contains(&implementation);
        let is_valid = is_mine && is_known && spec.is_valid(text(metadata, "name"));
        is_valid.then_some(spec)
    }

    fn is_valid(&self, name: &str) -> bool {
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_i64);
        let is_positive = |key: &str| number(self.policy, key).is_none_or(|number| number >= 0);
        let has_containers = |replicas: &Value| {
            let containers = replicas.pointer("/template/spec/containers").and_then(Value::as_array);
            containers.is_some_and(|containers| !containers.is_empty())
        };
        let is_restarted = |replicas: &Value| {
            let policy = replicas.get("restartPolicy").and_then(Value::as_str).unwrap_or_default();
            ["", "Never", "OnFailure"].contains(&policy)
        };
        let is_sound = |replicas: &Value| has_containers(replicas) && is_restarted(replicas);
        let last = format!("{name}-worker-{}", self.workers().max(1) - 1);
        is_sound(self.launcher)
            && number(self.launcher, "replicas").is_none_or(|replicas| replicas == 1)
            && self.worker.is_none_or(|worker| is_sound(worker) && self.workers() > 0)
            && ["backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]
                .into_iter()
                .all(is_positive)
            && is_label(&last)
    }

    /// Returns `replicas` of the workers: without the role none, without a number 0.
    pub(super) fn workers(&self) -> u32 {
        let replicas = self.worker.and_then(|worker| worker.get("replicas")).and_then(Value::as_i64);
        let most = i64::from(i32::MAX);
        u32::try_from(replicas.unwrap_or_default().clamp(0, most)).unwrap_or_default()
    }

    /// Returns the template of workers. `restartPolicy` is that of the role, not that of its template (M `setRestartPolicy`).
    pub(super) fn worker_template(&self) -> Option<PodTemplate> {
        let worker = self.worker?;
        let restart = worker.get("restartPolicy").and_then(Value::as_str).filter(|policy| !policy.is_empty());
        let restart = RestartPolicy::parse(restart.or(Some("Never")));
        let template = worker.get("template").unwrap_or(&Value::Null);
        Some(PodTemplate { restart, ..PodTemplate::from_template(template) })
    }

    /// Returns the `spec` of the launcher (M `newLauncherJob`).
    pub(super) fn launcher_job(&self, replacement: Option<&str>) -> Value {
        let restart = self.launcher.get("restartPolicy").and_then(Value::as_str);
        let restart = restart.filter(|policy| !policy.is_empty()).unwrap_or("OnFailure");
        let policy = |key: &str| self.policy.get(key).cloned().unwrap_or_default();
        let mut job = json!({"template": self.launcher.get("template").cloned().unwrap_or_default()});
        let rest = json!({
            "ttlSecondsAfterFinished": policy("ttlSecondsAfterFinished"),
            "activeDeadlineSeconds": policy("activeDeadlineSeconds"),
            "backoffLimit": policy("backoffLimit"),
            "podReplacementPolicy": replacement.map_or(Value::Null, Value::from),
            "suspend": self.suspend,
            "template": {"spec": {"restartPolicy": restart}},
        });
        merge(&mut job, &rest);
        job
    }
}

/// Tells whether a name is a label of DNS that begins with a letter (RFC 1035).
fn is_label(name: &str) -> bool {
    let is_inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    name.len() <= MOST_LABEL
        && name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name.chars().all(is_inner)
        && !name.ends_with('-')
}
