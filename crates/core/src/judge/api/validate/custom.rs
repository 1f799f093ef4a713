//! What the schema of a custom resource rejects besides types and fields: missing replicas and duplicate list
//! items.
//!
//! The keys are those of the training operator's CustomResourceDefinition (v1.9). The server only warns of
//! duplicate variables in a Job, but rejects them in a custom resource.

use std::collections::HashSet;

use super::cause::Causes;
use super::object_part::ObjectPart;
use crate::kinds::{ContainerField, EACH, Kind};
use crate::text::value::{Map, Value};

/// Lists of a pod spec whose items are identified by some of their fields.
const OF_POD: [(&str, &[&str]); 9] = [
    ("containers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("volumes", &["name"]),
];

/// The same for a container.
const OF_CONTAINER: [(&str, &[&str]); 4] = [
    ("env", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
];

/// Checks a custom resource.
pub(super) fn check(kind: Kind, object: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if let Some(roles) = kind.roles().map(|roles| object.at(roles))
        && object.at(kind.body).is_mapping()
        && !roles.is_set()
    {
        causes.required(&roles, "");
    }
    // Whole objects are embedded in it.
    if let Some(path) = kind.components {
        each(object, path, None, &mut |_, inner| {
            for key in ["apiVersion", "kind"].map(|key| inner.get(key)) {
                if inner.is_mapping() && key.text().is_empty() {
                    causes.required(&key, "must not be empty");
                }
            }
        });
    }
    for form in kind.pods {
        // In the order of the schema.
        let mut fields = form.template.containers.to_vec();
        fields.sort_by_key(|field| field.name);
        each(object, form.at, None, &mut |name, around| {
            let count = around.get("replicas");
            // The scale subresource reads the number of this role.
            if let Some(elastic) = form.count.elastic()
                && name == Some(elastic.role)
                && count.number().is_some_and(|count| count < 0)
            {
                causes.invalid(&count, "should be a non-negative integer");
            }
            pod(&around.at(form.template.at).at(form.template.spec), &fields, causes);
        });
    }
}

/// Calls a function with each mapping around a template, and the key of the last entry above it.
pub(super) fn each(
    part: &ObjectPart<'_, '_>,
    path: &'static [&'static str],
    name: Option<&str>,
    found: &mut dyn FnMut(Option<&str>, &ObjectPart<'_, '_>),
) {
    let Some(at) = path.iter().position(|key| *key == EACH) else {
        return found(name, &part.at(path));
    };
    let around = part.at(&path[..at]);
    for (name, part) in around.entries() {
        each(&part, &path[at + 1..], Some(name), found);
    }
    for part in around.items() {
        each(&part, &path[at + 1..], None, found);
    }
}

fn pod(pod: &ObjectPart<'_, '_>, fields: &[ContainerField], causes: &mut Causes) {
    for (list, keys) in OF_POD {
        unique(&pod.get(list), keys, causes);
    }
    for field in fields {
        for container in containers(&pod.get(field.name), *field) {
            for (list, keys) in OF_CONTAINER {
                unique(&container.get(list), keys, causes);
            }
            unique(&container.at(&["resources", "claims"]), &["name"], causes);
        }
    }
}

/// Returns the containers in a field of a pod spec.
pub(super) fn containers<'p, 'v>(
    part: &'p ObjectPart<'_, 'v>,
    field: ContainerField,
) -> impl Iterator<Item = ObjectPart<'p, 'v>> {
    let one = (!field.is_list).then_some(*part);
    part.items().chain(one)
}

fn unique(list: &ObjectPart<'_, '_>, keys: &[&'static str], causes: &mut Causes) {
    // Most lists are missing.
    if list.items().nth(1).is_none() {
        return;
    }
    let mut known: HashSet<String> = HashSet::new();
    for item in list.items().filter(ObjectPart::is_mapping) {
        let field = |key: &'static str| item.get(key).value.map_or(Value::Null, |value| value.to_value());
        // The only key with a default.
        let value = |key: &'static str| {
            if key == "protocol" && !item.get(key).is_set() { "TCP".into() } else { field(key) }
        };
        let identity = keys.iter().map(|key| ((*key).to_owned(), value(key))).collect::<Map>();
        let identity = Value::Object(identity).to_string();
        if let Some(twice) = known.replace(identity) {
            causes.duplicate(&item, &twice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::api::stored_object::Stored;
    use crate::text::value::json;

    fn said(spec: &Value) -> Vec<String> {
        let object = json!({"spec": spec});
        let mut causes = Causes::default();
        check(Kind::PY_TORCH_JOB, &ObjectPart::root(&Stored::from_value(&object)), &mut causes);
        causes.into_vec().iter().map(|cause| format!("{}: {}", cause.path, cause.message)).collect()
    }

    #[test]
    fn replicas_are_required_and_workers_not_below_zero() {
        assert_eq!(said(&json!({})), ["spec.pytorchReplicaSpecs: Required value"]);
        assert_eq!(said(&json!({"pytorchReplicaSpecs": {}})), [""; 0]);
        let replicas =
            json!({"pytorchReplicaSpecs": {"Master": {"replicas": -1}, "Worker": {"replicas": -1}}});
        assert_eq!(
            said(&replicas),
            [
                "spec.pytorchReplicaSpecs[Worker].replicas: Invalid value: -1: should be a non-negative integer"
            ]
        );
    }

    #[test]
    fn items_that_are_the_same_to_the_server_are_refused() {
        let container = json!({
            "name": "pytorch",
            "env": [{"name": "A"}, {"name": "B"}, {"name": "A", "value": "x"}],
            "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}, {"containerPort": 1, "protocol": "TCP"}],
        });
        let spec = json!({"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"containers": [container, {"name": "pytorch"}, null]}}}}});
        let at = "pytorchReplicaSpecs[Master].template.spec.containers";
        assert_eq!(
            said(&spec),
            [
                format!("spec.{at}[1]: Duplicate value: {{\"name\":\"pytorch\"}}"),
                format!("spec.{at}[0].env[2]: Duplicate value: {{\"name\":\"A\"}}"),
                format!(
                    "spec.{at}[0].ports[2]: Duplicate value: {{\"containerPort\":1,\"protocol\":\"TCP\"}}"
                ),
            ]
        );
    }
}
