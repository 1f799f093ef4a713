//! Environment variables, and references to fields and resources.

use super::cause::{CausePlace as _, Causes};
use super::object_part::ObjectPart;
use super::pod::Pod;
use crate::k8s::go::quoted;
use crate::k8s::names;

pub(super) fn variables(variables: &ObjectPart<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    causes.of_items(variables, |variable, _, causes| {
        let (name, source) = (variable.get("name"), variable.get("valueFrom"));
        causes.required_format(&name, names::environment_name);
        if source.is_set() {
            value_source(variable, &source, causes);
            file_key(&source.get("fileKeyRef"), pod, causes);
        }
    });
}

fn value_source(variable: &ObjectPart<'_, '_>, source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let field = source.get("fieldRef");
    if field.is_set() {
        const FIELDS: [&str; 9] = [
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.nodeName",
            "spec.serviceAccountName",
            "status.hostIP",
            "status.hostIPs",
            "status.podIP",
            "status.podIPs",
        ];
        field_ref(&field, &FIELDS, causes);
    }
    let resource = source.get("resourceFieldRef");
    if resource.is_set() {
        resource_ref(&resource, false, causes);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.get(kind);
        if reference.is_set() {
            let (name, key) = (reference.get("name"), reference.get("key"));
            causes.format(&name, names::dns_subdomain);
            causes.required_format(&key, names::config_key);
        }
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let problem = match sources.into_iter().filter(|kind| source.get(kind).is_set()).count() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
             `fileKeyRef`"
        }
        _ if !variable.get("value").text().is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid_text(source, "", problem);
}

fn file_key(file: &ObjectPart<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    if !file.is_set() {
        return;
    }
    for field in ["key", "path"] {
        if file.get(field).text().is_empty() {
            causes.required(&file.get(field), "");
        }
    }
    let name = file.get("volumeName");
    if name.text().is_empty() {
        causes.required(&name, "");
    } else if !pod.volumes.contains_key(name.text()) {
        causes.not_found(&name, name.text(), "");
    }
}

/// Checks a reference to a field of the pod.
pub(super) fn field_ref(field: &ObjectPart<'_, '_>, known: &[&str], causes: &mut Causes) {
    const PODS: [&str; 14] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ];
    let (version, path) = (field.get("apiVersion"), field.get("fieldPath"));
    let asked = path.text();
    if asked.is_empty() {
        causes.required(&path, "");
        return;
    }
    if version.text() != "v1" {
        causes.invalid(
            &path,
            &format!("error converting fieldPath: unsupported pod version: {}", version.text()),
        );
        return;
    }
    if let Some((path_of_map, key)) = asked.strip_suffix("']").and_then(|path| path.split_once("['")) {
        match path_of_map {
            "metadata.annotations" | "metadata.labels" => {
                let key =
                    if path_of_map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
                causes.invalid_texts(field, &key, names::qualified_name(&key));
            }
            _ => {
                _ = causes.invalid(
                    &path,
                    &format!("error converting fieldPath: field label does not support subscript: {asked}"),
                );
            }
        }
        return;
    }
    let asked = if asked == "spec.host" { "spec.nodeName" } else { asked };
    if !PODS.contains(&asked) {
        causes.invalid(&path, &format!("error converting fieldPath: field label not supported: {asked}"));
    } else if !known.contains(&asked) {
        causes.unsupported(&path, &quoted(asked), known);
    }
}

/// Checks a reference to a request or limit of a container.
pub(super) fn resource_ref(reference: &ObjectPart<'_, '_>, in_volume: bool, causes: &mut Causes) {
    const KNOWN: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let (container, resource, divisor) =
        (reference.get("containerName"), reference.get("resource"), reference.get("divisor"));
    let name = resource.text();
    let huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if in_volume && container.text().is_empty() {
        causes.required(&container, "");
    } else if name.is_empty() {
        causes.required(&resource, "");
    } else if !huge {
        causes.one_of(&resource, &KNOWN);
    }
    let Some(divisor_value) =
        divisor.value.and_then(|value| value.quantity().ok()).filter(|value| !value.is_zero())
    else {
        return;
    };
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let canonical = divisor_value.canonical();
    let what = match name {
        "limits.cpu" | "requests.cpu" => {
            if canonical != "1m" && canonical != "1" {
                causes.invalid_text(
                    &divisor,
                    name,
                    "only divisor's values 1m and 1 are supported with the cpu resource",
                );
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    if !SIZES.contains(&canonical.as_str()) {
        let sizes = SIZES.join(", ");
        causes.invalid_text(
            &divisor,
            name,
            &format!("only divisor's values {sizes} are supported with the {what} resource"),
        );
    }
}

pub(super) fn variables_from(sources: &ObjectPart<'_, '_>, causes: &mut Causes) {
    causes.of_all_items(sources, |source, _, causes| {
        let prefix = source.get("prefix");
        causes.format(&prefix, names::environment_name);
        let kinds = ["configMapRef", "secretRef"].map(|kind| source.get(kind));
        for reference in kinds.iter().filter(|reference| reference.is_set()) {
            let name = reference.get("name");
            causes.required_format(&name, names::name_prefix);
        }
        match kinds.iter().filter(|reference| reference.is_set()).count() {
            0 => {
                causes
                    .invalid_text(sources, "", "must specify one of: `configMapRef` or `secretRef`")
                    .pointer = source.pointer();
            }
            2 => {
                causes
                    .invalid_text(sources, "", "may not have more than one field specified at a time")
                    .pointer = source.pointer();
            }
            _ => {}
        }
    });
}
