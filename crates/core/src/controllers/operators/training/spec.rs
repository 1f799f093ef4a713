//! What a job asks for, with the defaults of the operator (`pkg/apis/kubeflow.org/v1/*_defaults.go`).

use super::super::super::managers;
use super::super::super::pod_set::PodTemplate;
use super::super::super::time::Time;
use super::kind::Kind;
use crate::text::patch::merge;
use crate::text::value::{Value, json};

/// The fields of a job that its controller looks at.
#[derive(Debug)]
pub(super) struct TrainingSpec<'a> {
    pub(super) kind: &'static Kind,
    /// `metadata.name`.
    pub(super) name: &'a str,
    /// `metadata.namespace`.
    pub(super) namespace: &'a str,
    /// `runPolicy.backoffLimit`.
    pub(super) backoff_limit: Option<i64>,
    /// `runPolicy.activeDeadlineSeconds`.
    pub(super) deadline: Option<Time>,
    /// `runPolicy.ttlSecondsAfterFinished`.
    pub(super) ttl: Option<Time>,
    /// `runPolicy.suspend`.
    pub(super) suspend: bool,
    /// `runPolicy.cleanPodPolicy`.
    pub(super) clean: CleanPodPolicy,
    /// `runPolicy.managedBy` names another controller.
    pub(super) is_managed_by_other: bool,
    /// `successPolicy` is `AllWorkers`.
    pub(super) needs_all_workers: bool,
    /// `enableDynamicWorker`.
    pub(super) has_dynamic_workers: bool,
    /// Whether there is an `elasticPolicy`.
    pub(super) is_elastic: bool,
    /// The replicas, in the order of the table.
    pub(super) roles: Vec<Role<'a>>,
}

/// Replicas of a type.
#[derive(Debug)]
pub(super) struct Role<'a> {
    /// The type: `Worker`.
    pub(super) sort: &'static str,
    /// What its pods are called: `worker`.
    pub(super) name: &'static str,
    /// `replicas`.
    pub(super) replicas: i64,
    /// `restartPolicy`.
    pub(super) restart: ReplicaRestart,
    /// `restartPolicy`, as pods get it.
    pod_restart: &'a str,
    /// `template`.
    template: &'a Value,
}

/// `restartPolicy` of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaRestart {
    /// `Never`.
    Never,
    /// `OnFailure`.
    OnFailure,
    /// `Always`.
    Always,
    /// `ExitCode`: by the exit code of the container.
    ExitCode,
    /// Anything else: there is no list of allowed values.
    Other,
}

/// `cleanPodPolicy`: which pods a finished job deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanPodPolicy {
    /// `None`.
    None,
    /// `Running`: also those that are pending.
    Running,
    /// `All`, and any other value.
    All,
}

impl ReplicaRestart {
    fn parse(text: &str) -> Self {
        match text {
            "Never" => Self::Never,
            "OnFailure" => Self::OnFailure,
            "Always" => Self::Always,
            "ExitCode" => Self::ExitCode,
            _ => Self::Other,
        }
    }

    /// Returns what pods get (`SetRestartPolicy`, `pkg/core/pod.go`).
    fn of_pods(self) -> &'static str {
        match self {
            Self::Never | Self::ExitCode => "Never",
            Self::OnFailure => "OnFailure",
            Self::Always => "Always",
            Self::Other => "",
        }
    }
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn seconds(value: &Value, key: &str) -> Option<Time> {
    value.get(key).and_then(Value::as_i64).map(Time::from_seconds)
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

impl<'a> TrainingSpec<'a> {
    /// Reads a job.
    pub(super) fn parse(kind: &'static Kind, manifest: &'a Value) -> Self {
        let meta = manifest.get("metadata").unwrap_or(&Value::Null);
        let spec = manifest.get("spec").unwrap_or(&Value::Null);
        let policy = spec.get("runPolicy").unwrap_or(&Value::Null);
        let manager = text(policy, "managedBy");
        Self {
            kind,
            name: text(meta, "name").unwrap_or_default(),
            namespace: text(meta, "namespace").unwrap_or("default"),
            backoff_limit: policy.get("backoffLimit").and_then(Value::as_i64),
            deadline: seconds(policy, "activeDeadlineSeconds"),
            ttl: seconds(policy, "ttlSecondsAfterFinished"),
            suspend: flag(policy, "suspend"),
            clean: match text(policy, "cleanPodPolicy") {
                None | Some("None") => CleanPodPolicy::None,
                Some("Running") => CleanPodPolicy::Running,
                Some(_) => CleanPodPolicy::All,
            },
            is_managed_by_other: kind.minds_manager
                && manager.is_some_and(|manager| manager != managers::TRAINING),
            needs_all_workers: text(spec, "successPolicy") == Some("AllWorkers"),
            has_dynamic_workers: flag(spec, "enableDynamicWorker"),
            is_elastic: spec.get("elasticPolicy").is_some_and(|policy| !policy.is_null()),
            roles: kind.types.iter().filter_map(|names| Role::find(kind, spec, *names)).collect(),
        }
    }

    /// Returns the replicas of a type.
    pub(super) fn role(&self, sort: &str) -> Option<&Role<'a>> {
        self.roles.iter().find(|role| role.sort == sort)
    }

    /// Returns how many pods there are to be (`GetTotalReplicas`).
    pub(super) fn total(&self) -> i64 {
        self.roles.iter().map(|role| role.replicas).fold(0, i64::saturating_add)
    }

    /// Returns the template of the pods of a type (`createNewPod`, `pkg/controller.v1/common/pod.go`).
    pub(super) fn pod_template(&self, role: &Role<'_>) -> PodTemplate {
        let mut template = role.template.clone();
        merge(&mut template, &json!({ "spec": { "restartPolicy": role.pod_restart } }));
        if self.kind.name == "PyTorchJob"
            && role.sort == "Worker"
            && self.role("Master").is_some()
            && let Some(Value::Object(pod)) = template.get_mut("spec")
        {
            let init = pod.get_or_insert_with("initContainers", || Value::Array(Vec::new()));
            if let Value::Array(init) = init {
                init.push(wait_for_master());
            }
        }
        PodTemplate::from_template(&template)
    }
}

/// Returns the container that workers of a PyTorchJob with a master begin with (`pytorch/initcontainer.go`).
fn wait_for_master() -> Value {
    json!({
        "name": "init-pytorch",
        "image": "alpine:3.10",
        "resources": {
            "limits": { "cpu": "100m", "memory": "20Mi" },
            "requests": { "cpu": "50m", "memory": "10Mi" },
        },
    })
}

impl<'a> Role<'a> {
    /// Finds a type; one that is spelled in another case counts as well (`setTypeNameToCamelCase`).
    fn find(kind: &Kind, spec: &'a Value, (sort, name): (&'static str, &'static str)) -> Option<Self> {
        let replicas = spec.get(kind.field)?.as_object()?;
        let other = || replicas.iter().find(|(key, _)| key.eq_ignore_ascii_case(sort)).map(|(_, role)| role);
        let role = replicas.get(sort).or_else(other).filter(|role| role.is_object())?;
        let written = text(role, "restartPolicy");
        let restart = written.map_or(kind.restart, ReplicaRestart::parse);
        let pod_restart = match restart {
            ReplicaRestart::Other => written.unwrap_or_default(),
            known => known.of_pods(),
        };
        Some(Self {
            sort,
            name,
            replicas: role.get("replicas").and_then(Value::as_i64).unwrap_or(1),
            restart,
            pod_restart,
            template: role.get("template").unwrap_or(&Value::Null),
        })
    }

    /// Returns how many pods of it there are to be.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.replicas.max(0)).unwrap_or(i32::MAX.unsigned_abs())
    }
}
