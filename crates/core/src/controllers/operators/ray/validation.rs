//! What KubeRay itself refuses (`utils/validation.go`): it looks again at each reconcile, also of a job that runs.

use std::collections::BTreeMap;

use super::super::super::object::{DeploymentStatus, RayJobStatus};
use super::cluster_spec::{flag, list};
use super::job_spec::{JobSpec, SubmissionMode};
use crate::text::value::Value;

/// The longest name of a RayCluster, and of a RayJob, of which clusters have theirs.
const LONGEST_CLUSTER_NAME: usize = 53;
const LONGEST_JOB_NAME: usize = LONGEST_CLUSTER_NAME - 6;

/// The message of what is refused.
type Validity = Result<(), String>;

fn refuse(message: impl Into<String>) -> Validity {
    Err(message.into())
}

/// Validates `metadata` of a RayCluster (`ValidateRayClusterMetadata`).
pub(super) fn cluster_metadata(manifest: &Value) -> Validity {
    name("RayCluster", manifest, LONGEST_CLUSTER_NAME)
}

fn name(kind: &str, manifest: &Value, longest: usize) -> Validity {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if name.len() > longest {
        return refuse(format!("{kind} name should be no more than {longest} characters"));
    }
    let bytes = name.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_lowercase();
    let is_part = |byte: &u8| is_letter(byte) || byte.is_ascii_digit();
    // A name that was made here is random in reality.
    let is_made = name.strip_prefix(super::CLUSTER).is_some_and(|number| number.parse::<u32>().is_ok());
    let is_label = bytes.first().is_some_and(is_letter)
        && bytes.last().is_some_and(is_part)
        && bytes.iter().all(|byte| is_part(byte) || *byte == b'-');
    if is_label || is_made {
        Ok(())
    } else {
        refuse(format!("{kind} name should be a valid DNS1035 label: {name}"))
    }
}

/// Validates `spec` of a RayCluster (`ValidateRayClusterSpec`), without what concerns its resources, labels and options
/// that change nothing after a failure.
pub(super) fn cluster_spec(spec: &Value) -> Validity {
    let has_container = |of: &Value| {
        of.pointer("/template/spec/containers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
    };
    let restart = |of: &Value| {
        let policy = of.pointer("/template/spec/restartPolicy").and_then(Value::as_str);
        policy.is_none_or(|policy| ["", "Never"].contains(&policy))
    };
    let head = spec.get("headGroupSpec").unwrap_or(&Value::Null);
    if !has_container(head) {
        return refuse("headGroupSpec should have at least one container");
    }
    let is_autoscaled = flag(spec, "enableInTreeAutoscaling");
    let is_v2 =
        is_autoscaled && spec.pointer("/autoscalerOptions/version").and_then(Value::as_str) == Some("v2");
    if is_v2 && !restart(head) {
        return refuse("restartPolicy for head Pod should be Never or unset when using autoscaler V2");
    }
    for group in list(spec, "workerGroupSpecs") {
        let name = group.get("groupName").and_then(Value::as_str).unwrap_or_default();
        if !has_container(group) {
            return refuse("workerGroupSpec should have at least one container");
        }
        let number = |key: &str, default| group.get(key).and_then(Value::as_i64).unwrap_or(default);
        let (least, most) = (number("minReplicas", 0), number("maxReplicas", i64::from(i32::MAX)));
        if least < 0 {
            return refuse(format!("worker group {name} has negative minReplicas {least}"));
        }
        if most < 0 {
            return refuse(format!("worker group {name} has negative maxReplicas {most}"));
        }
        if least > most {
            return refuse(format!(
                "worker group {name} has minReplicas {least} greater than maxReplicas {most}"
            ));
        }
        if is_autoscaled && flag(group, "suspend") {
            return refuse(format!("worker group {name} cannot be suspended with Autoscaler enabled"));
        }
        if is_v2 && !restart(group) {
            return refuse(format!(
                "restartPolicy for worker group {name} should be Never or unset when using autoscaler V2"
            ));
        }
    }
    Ok(())
}

/// Validates a RayJob (`validateRayJob`, `rayjob_controller.go`).
pub(super) fn ray_job(manifest: &Value, spec: &JobSpec, status: &RayJobStatus) -> Validity {
    name("RayJob", manifest, LONGEST_JOB_NAME)?;
    ray_job_spec(manifest.get("spec").unwrap_or(&Value::Null), spec)?;
    if status.deployment == Some(DeploymentStatus::Waiting) && spec.mode != SubmissionMode::Interactive {
        return refuse(
            "The RayJob status is invalid: JobDeploymentStatus cannot be `Waiting` when SubmissionMode is not \
             InteractiveMode",
        );
    }
    Ok(())
}

/// Says of a RayJob's `spec` what is wrong.
fn wrong(what: &str) -> Validity {
    refuse(format!("The RayJob spec is invalid: {what}"))
}

/// `ValidateRayJobSpec`.
fn ray_job_spec(source: &Value, spec: &JobSpec) -> Validity {
    if spec.suspend && !spec.shutdown {
        return wrong("a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended");
    }
    if spec.ttl < 0 {
        return wrong("TTLSecondsAfterFinished must be a non-negative integer");
    }
    deletion(source, spec)?;
    let is_selected = spec.selector.is_some();
    if spec.suspend && is_selected {
        return wrong("the ClusterSelector mode doesn't support the suspend operation");
    }
    let cluster = source.get("rayClusterSpec").filter(|cluster| !cluster.is_null());
    if cluster.is_none() && !is_selected {
        return wrong("one of RayClusterSpec or ClusterSelector must be set");
    }
    if let Some(selected) = &spec.selector {
        if selected.is_empty() {
            return refuse("cluster name in ClusterSelector should not be empty");
        }
        if spec.mode == SubmissionMode::Sidecar {
            return refuse("ClusterSelector is not supported in SidecarMode");
        }
        if spec.backoff_limit > 0 {
            return wrong("BackoffLimit is incompatible with ClusterSelector mode");
        }
    }
    if spec.mode == SubmissionMode::Interactive && spec.backoff_limit > 0 {
        return wrong("BackoffLimit is incompatible with InteractiveMode");
    }
    if spec.mode == SubmissionMode::Sidecar {
        for (key, what) in
            [("submitterPodTemplate", "SubmitterPodTemplate"), ("submitterConfig", "SubmitterConfig")]
        {
            if source.get(key).is_some_and(|value| !value.is_null()) {
                return refuse(format!("Currently, SidecarMode doesn't support {what}"));
            }
        }
        let policy = source.pointer("/rayClusterSpec/headGroupSpec/template/spec/restartPolicy");
        if policy.and_then(Value::as_str).is_some_and(|policy| !["", "Never"].contains(&policy)) {
            return refuse("restartPolicy for head Pod should be Never or unset when using SidecarMode");
        }
    }
    if let Some(cluster) = cluster {
        cluster_spec(cluster).map_err(|message| format!("The RayJob spec is invalid: {message}"))?;
    }
    for (deadline, what) in [
        (spec.active_deadline, "activeDeadlineSeconds must be a positive integer"),
        (spec.pre_running_deadline, "preRunningDeadlineSeconds must be a positive integer"),
    ] {
        if deadline.is_some_and(|seconds| seconds <= 0) {
            return wrong(what);
        }
    }
    if spec.backoff_limit < 0 { wrong("backoffLimit must be a positive integer") } else { Ok(()) }
}

/// `validateDeletionConfiguration`.
fn deletion(source: &Value, spec: &JobSpec) -> Validity {
    if !spec.shutdown && spec.ttl > 0 {
        return wrong(
            "a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished",
        );
    }
    let Some(strategy) = source.get("deletionStrategy").filter(|strategy| !strategy.is_null()) else {
        return Ok(());
    };
    let has = |key: &str| strategy.get(key).is_some_and(|value| !value.is_null());
    let is_legacy = has("onSuccess") || has("onFailure");
    let rules = list(strategy, "deletionRules");
    if !rules.is_empty() && spec.shutdown {
        return wrong(
            "spec.shutdownAfterJobFinishes and spec.deletionStrategy.deletionRules are mutually exclusive",
        );
    }
    if !rules.is_empty() && is_legacy {
        return wrong("Cannot use both legacy onSuccess/onFailure fields and deletionRules simultaneously");
    }
    if is_legacy {
        return legacy(strategy, source, spec);
    }
    if rules.is_empty() {
        return wrong(
            "DeletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field (cannot be \
             empty)",
        );
    }
    deletion_rules(rules, source, spec)
}

fn is_autoscaled(source: &Value) -> bool {
    source.get("rayClusterSpec").is_some_and(|cluster| flag(cluster, "enableInTreeAutoscaling"))
}

/// `validateLegacyDeletionPolicies`.
fn legacy(strategy: &Value, source: &Value, spec: &JobSpec) -> Validity {
    let policy = |key: &str| strategy.pointer(&format!("/{key}/policy")).and_then(Value::as_str);
    let (Some(success), Some(failure)) = (policy("onSuccess"), policy("onFailure")) else {
        return refuse(
            "both DeletionStrategy.OnSuccess and DeletionStrategy.OnFailure must be set when using the legacy \
                       deletion policy fields of DeletionStrategy",
        );
    };
    let policies = [success, failure];
    if spec.selector.is_some()
        && let Some(policy) =
            policies.iter().find(|policy| ["DeleteCluster", "DeleteWorkers"].contains(*policy))
    {
        return refuse(format!("the ClusterSelector mode doesn't support DeletionStrategy={policy}"));
    }
    if policies.contains(&"DeleteWorkers") && is_autoscaled(source) {
        return refuse(
            "DeletionStrategy=DeleteWorkers currently does not support RayCluster with autoscaling enabled",
        );
    }
    if spec.shutdown && policies.contains(&"DeleteNone") {
        return wrong("shutdownAfterJobFinshes is set to 'true' while deletion policy is 'DeleteNone'");
    }
    Ok(())
}

/// `validateDeletionRules`: one rule of a policy and a status, and what goes first is not less than what goes later.
fn deletion_rules(rules: &[Value], source: &Value, spec: &JobSpec) -> Validity {
    let mut known: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut statuses: Vec<&str> = Vec::new();
    for (nth, rule) in rules.iter().enumerate() {
        let text = |at: &str| rule.pointer(at).and_then(Value::as_str);
        let policy = text("/policy").unwrap_or_default();
        let (job, deployment) = (text("/condition/jobStatus"), text("/condition/jobDeploymentStatus"));
        let status = match (job, deployment) {
            (Some(_), Some(_)) => {
                return refuse(format!(
                    "deletionRules[{nth}]: cannot set both JobStatus and JobDeploymentStatus at the same time"
                ));
            }
            (None, None) => {
                return refuse(format!(
                    "deletionRules[{nth}]: exactly one of JobStatus and JobDeploymentStatus must be set"
                ));
            }
            (status, other) => status.or(other).unwrap_or_default(),
        };
        let ttl = rule.pointer("/condition/ttlSeconds").and_then(Value::as_i64).unwrap_or(0);
        if ttl < 0 {
            return refuse(format!("deletionRules[{nth}]: TTLSeconds must be non-negative"));
        }
        if spec.selector.is_some() && ["DeleteCluster", "DeleteWorkers"].contains(&policy) {
            return refuse(format!(
                "deletionRules[{nth}]: DeletionPolicyType '{policy}' not supported when ClusterSelector is set"
            ));
        }
        if policy == "DeleteWorkers" && is_autoscaled(source) {
            return refuse(format!(
                "deletionRules[{nth}]: DeletionPolicyType 'DeleteWorkers' not supported with autoscaling enabled"
            ));
        }
        if known.insert((status, policy), ttl).is_some() {
            return refuse(format!(
                "deletionRules[{nth}]: duplicate rule for DeletionPolicyType '{policy}' and '{status}'"
            ));
        }
        statuses.push(status);
    }
    const ORDER: [&str; 3] = ["DeleteWorkers", "DeleteCluster", "DeleteSelf"];
    for status in statuses {
        let ttls: Vec<i64> =
            ORDER.iter().filter_map(|policy| known.get(&(status, *policy))).copied().collect();
        if !ttls.is_sorted() {
            return refuse(format!("for '{status}': TTLs must not decrease from workers to cluster to self"));
        }
    }
    Ok(())
}
