//! Which values of fields are the same to the API server as none, as its types in Go define it.

use crate::judge::api::schema::{Id, Schema, SchemaFields, SchemaShape};
use crate::judge::api::stored_object::Stored;

/// Booleans for which `false` and unset are the same.
const PLAIN_BOOLS: [&str; 7] = ["hostIPC", "hostNetwork", "hostPID", "readOnly", "stdin", "stdinOnce", "tty"];
/// Integers for which 0 and unset are the same.
const PLAIN_INTS: [&str; 8] = [
    "failureThreshold",
    "hostPort",
    "initialDelaySeconds",
    "partition",
    "periodSeconds",
    "port",
    "successThreshold",
    "timeoutSeconds",
];
/// Strings for which empty and unset differ.
const POINTER_TEXTS: [&str; 28] = [
    "apiGroup",
    "completionMode",
    "fsGroupChangePolicy",
    "gmsaCredentialSpecName",
    "hostnameOverride",
    "localhostProfile",
    "managedBy",
    "mountPropagation",
    "name",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "podReplacementPolicy",
    "preemptionPolicy",
    "priorityClassName",
    "procMount",
    "recursiveReadOnly",
    "resourceClaimName",
    "resourceClaimTemplateName",
    "runtimeClassName",
    "seLinuxChangePolicy",
    "service",
    "storageClassName",
    "succeededIndexes",
    "supplementalGroupsPolicy",
    "timeZone",
    "type",
    "volumeMode",
    "volumeName",
];

/// Tells whether a value of a field is the same as none.
pub(super) fn is_unset(
    schema: &Schema,
    fields: &SchemaFields,
    (key, field): (&str, Id),
    value: &Stored<'_>,
) -> bool {
    match (schema.shape(field), value) {
        (_, Stored::Null) => true,
        // An empty list is kept only for numbers.
        (SchemaShape::List(item), Stored::List(items)) => {
            items.is_empty() && !matches!(schema.shape(*item), SchemaShape::Int32)
        }
        (SchemaShape::Map(_), Stored::Mapping(entries)) => entries.is_empty(),
        (SchemaShape::Text | SchemaShape::Choice, Stored::Text(text)) => {
            // Only in containers, and in the exit codes of a failure policy.
            let here = || match key {
                "restartPolicy" => fields.get("terminationMessagePath").is_some(),
                "containerName" => fields.get("operator").is_some(),
                other => POINTER_TEXTS.contains(&other),
            };
            text.is_empty() && !here()
        }
        (SchemaShape::Bool, Stored::Bool(false)) => PLAIN_BOOLS.contains(&key),
        (SchemaShape::Int32 | SchemaShape::Int64, Stored::Number(number)) => {
            number.as_i64() == Some(0) && PLAIN_INTS.contains(&key)
        }
        _ => false,
    }
}
