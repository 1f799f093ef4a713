//! What the validating webhooks take when a job is changed (`pkg/webhooks/*/*_webhook.go`).

use super::super::super::managers;
use super::kind::{Kind, StatusRule};
use crate::text::value::Value;

/// The values of `managedBy` that are taken (`pkg/common/util/webhooks.go`).
const MANAGERS: [&str; 2] = [managers::TRAINING, managers::MULTI_KUEUE];

/// Tells whether the webhook of a kind takes a change.
pub(in super::super) fn admits(kind: &str, old: &Value, new: &Value) -> bool {
    let Some(kind) = Kind::find(kind) else { return true };
    let (was, manager) = (manager(old), manager(new));
    let is_known_manager = manager.is_none_or(|manager| MANAGERS.contains(&manager));
    if kind.minds_manager && !is_known_manager || kind.keeps_manager && was != manager {
        return false;
    }
    let spec = new.get("spec").unwrap_or(&Value::Null);
    let Some(replicas) = spec.get(kind.field).and_then(Value::as_object) else { return false };
    let has_type = |sort: &str| replicas.get(sort).is_some();
    let is_known = |sort: &str| kind.types.iter().any(|(known, _)| *known == sort);
    let is_taken = |sort: &str, role: &Value| {
        // Only the webhook of TFJob does not look at the types.
        (kind.rule == StatusRule::Chief || is_known(sort))
            && has_containers(kind, role)
            && may_have_replicas(kind, sort, role.get("replicas"))
    };
    let is_elastic = spec.get("elasticPolicy").is_some_and(|policy| !policy.is_null());
    replicas.iter().all(|(sort, role)| is_taken(sort, role))
        && !(kind.rule == StatusRule::Chief && has_type("Chief") && has_type("Master"))
        && (kind.rule != StatusRule::Master || has_type("Master"))
        && (kind.name != "PyTorchJob" || !is_elastic || has_type("Worker"))
}

fn manager(manifest: &Value) -> Option<&str> {
    manifest.pointer("/spec/runPolicy/managedBy").and_then(Value::as_str)
}

/// Tells whether there is the container that counts, and each has an image.
fn has_containers(kind: &Kind, role: &Value) -> bool {
    let containers = role.pointer("/template/spec/containers").and_then(Value::as_array);
    let text = |container: &Value, key: &str| container.get(key).and_then(Value::as_str).map(str::to_owned);
    containers.is_some_and(|containers| {
        let has_image = |container: &Value| text(container, "image").is_some_and(|image| !image.is_empty());
        containers.iter().all(has_image)
            && containers.iter().any(|container| text(container, "name").as_deref() == Some(kind.container))
    })
}

fn may_have_replicas(kind: &Kind, sort: &str, replicas: Option<&Value>) -> bool {
    let replicas = replicas.and_then(Value::as_i64);
    if sort == "Master" && kind.has_one_master {
        return replicas == Some(1);
    }
    kind.name != "PyTorchJob" || replicas.is_none_or(|replicas| replicas >= 1)
}
