//! Containers: their ports, variables, mounts, probes and resources.

use serde_json::Value;

use super::cause::{Causes, number, set, text};
use super::pod::{Pod, profiles, user_ids};
use super::{resources, volume};
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::k8s::quantity::Quantity;
use crate::workload::Part;

/// Checks what containers of all sorts have.
pub(super) fn common(container: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
    let (name, image) = (container.get("name"), container.get("image"));
    if text(&name).is_empty() {
        causes.required(&name.pointer, "");
    } else {
        causes.invalid_each(&name, names::dns_label(text(&name)));
    }
    if text(&image).is_empty() {
        causes.required(&image.pointer, "");
    }
    // A container that is null has no defaults to check.
    if container.is_mapping() {
        causes.one_of(&container.get("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
        causes.one_of(&container.get("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    }
    container_ports(&container.get("ports"), causes);
    variables(&container.get("env"), pod, causes);
    variables_from(&container.get("envFrom"), causes);
    mounts(container, pod, causes);
    resources::of_container(&container.get("resources"), &pod.claims, causes);
    let security = container.get("securityContext");
    user_ids(&security, causes);
    profiles(&security, causes);
    if set(&security.get("procMount")) {
        causes.one_of(&security.get("procMount"), &["Default", "Unmasked"]);
    }
    let account = security.at(&["windowsOptions", "gmsaCredentialSpecName"]);
    if set(&account) {
        causes.invalid_each(&account, names::dns_subdomain(text(&account)));
    }
    if security.get("allowPrivilegeEscalation").bool().set() == Some(false) {
        if security.get("privileged").bool().set() == Some(true) {
            causes.invalid_value(&security, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        if security.at(&["capabilities", "add"]).items().any(|capability| text(&capability) == "CAP_SYS_ADMIN") {
            causes.invalid_value(&security, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}

/// Checks what becomes of a container when its resources change; `restart` is the policy of the pod.
pub(super) fn resize_policy(container: &Part<'_>, restart: &str, causes: &mut Causes) {
    let list = container.get("resizePolicy");
    let mut known: Vec<&str> = Vec::new();
    for item in list.items() {
        let (resource, policy) = (item.get("resourceName"), item.get("restartPolicy"));
        if known.contains(&text(&resource)) {
            causes.duplicate(&item.pointer, &quoted(text(&resource)));
        }
        known.push(text(&resource));
        // The server names the list.
        let before = causes.len();
        causes.one_of(&resource, &["cpu", "memory"]);
        causes.rename_since(before, &resource.pointer, &list.pointer);
        let before = causes.len();
        causes.one_of(&policy, &["NotRequired", "RestartContainer"]);
        if restart == "Never" && text(&policy) != "NotRequired" {
            causes.invalid(&policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
        causes.rename_since(before, &policy.pointer, &list.pointer);
    }
}

/// A container sees all of `/proc` only in a user namespace of its own.
pub(super) fn unmasked(pod: &Part<'_>, container: &Part<'_>, causes: &mut Causes) {
    let mount = container.at(&["securityContext", "procMount"]);
    if text(&mount) == "Unmasked" && pod.get("hostUsers").bool().set() != Some(false) {
        causes.invalid(&mount, "`hostUsers` must be false to use `Unmasked`");
    }
}

pub(super) fn restart_policy(container: &Part<'_>, causes: &mut Causes) {
    let (policy, rules) = (container.get("restartPolicy"), container.get("restartPolicyRules"));
    if set(&policy) {
        causes.one_of(&policy, &["Always", "Never", "OnFailure"]);
    } else if rules.items().next().is_some() {
        causes.required(&policy.pointer, "must specify restartPolicy when restart rules are used");
    }
    causes.at_most(&rules, 20);
    for rule in rules.items() {
        causes.one_of(&rule.get("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.get("exitCodes");
        if set(&codes) {
            causes.one_of(&codes.get("operator"), &["In", "NotIn"]);
            causes.at_most(&codes.get("values"), 255);
        } else {
            causes.required(&codes.pointer, "must be specified");
        }
    }
}

fn port_number(field: &Part<'_>, causes: &mut Causes) {
    let number = number(field).unwrap_or_default();
    if field.value.is_none_or(|value| !value.is_string()) && !(1..=65535).contains(&number) {
        causes.invalid_number(&field.pointer, number, "must be between 1 and 65535, inclusive");
    }
}

fn container_ports(ports: &Part<'_>, causes: &mut Causes) {
    let mut known: Vec<&str> = Vec::new();
    for port in ports.items() {
        let (name, inner, outer) = (port.get("name"), port.get("containerPort"), port.get("hostPort"));
        if !text(&name).is_empty() {
            let messages = names::port_name(text(&name));
            if messages.is_empty() && known.contains(&text(&name)) {
                causes.duplicate(&name.pointer, &quoted(text(&name)));
            }
            causes.invalid_each(&name, messages);
            known.push(text(&name));
        }
        if number(&inner).is_none_or(|port| port == 0) {
            causes.required(&inner.pointer, "");
        } else {
            port_number(&inner, causes);
        }
        if number(&outer).is_some_and(|port| port != 0) {
            port_number(&outer, causes);
        }
        if port.is_mapping() {
            causes.one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"]);
        }
    }
}

pub(super) fn host_ports(container: &Part<'_>, known: &mut Vec<String>, causes: &mut Causes) {
    for port in container.get("ports").items() {
        let outer = port.get("hostPort");
        let Some(number) = number(&outer).filter(|number| *number != 0) else { continue };
        let key = format!("{}/{}/{number}", text(&port.get("protocol")), text(&port.get("hostIP")));
        if known.contains(&key) {
            causes.duplicate(&outer.pointer, &quoted(&key));
        } else {
            known.push(key);
        }
    }
}

fn variables(variables: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
    for variable in variables.items() {
        let (name, source) = (variable.get("name"), variable.get("valueFrom"));
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        } else {
            causes.invalid_each(&name, names::environment_name(text(&name)));
        }
        if set(&source) {
            value_source(&variable, &source, causes);
            file_key(&source.get("fileKeyRef"), pod, causes);
        }
    }
}

fn value_source(variable: &Part<'_>, source: &Part<'_>, causes: &mut Causes) {
    let field = source.get("fieldRef");
    if set(&field) {
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
    if set(&resource) {
        resource_ref(&resource, false, causes);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.get(kind);
        if set(&reference) {
            let (name, key) = (reference.get("name"), reference.get("key"));
            causes.invalid_each(&name, names::dns_subdomain(text(&name)));
            if text(&key).is_empty() {
                causes.required(&key.pointer, "");
            } else {
                causes.invalid_each(&key, names::config_key(text(&key)));
            }
        }
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let problem = match sources.into_iter().filter(|kind| set(&source.get(kind))).count() {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !text(&variable.get("value")).is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid_text(&source.pointer, "", problem);
}

fn file_key(file: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
    if !set(file) {
        return;
    }
    for field in ["key", "path"] {
        if text(&file.get(field)).is_empty() {
            causes.required(&file.get(field).pointer, "");
        }
    }
    let name = file.get("volumeName");
    if text(&name).is_empty() {
        causes.required(&name.pointer, "");
    } else if !pod.volumes.iter().any(|(volume, _)| *volume == text(&name)) {
        causes.not_found(&name.pointer, text(&name), "");
    }
}

/// Checks a reference to a field of the pod.
pub(super) fn field_ref(field: &Part<'_>, known: &[&str], causes: &mut Causes) {
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
    let asked = text(&path);
    if asked.is_empty() {
        causes.required(&path.pointer, "");
        return;
    }
    if text(&version) != "v1" {
        causes.invalid(&path, &format!("error converting fieldPath: unsupported pod version: {}", text(&version)));
        return;
    }
    if let Some((path_of_map, key)) = asked.strip_suffix("']").and_then(|path| path.split_once("['")) {
        match path_of_map {
            "metadata.annotations" | "metadata.labels" => {
                let key = if path_of_map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
                for message in names::qualified_name(&key) {
                    causes.invalid_text(&field.pointer, &key, &message);
                }
            }
            _ => _ = causes.invalid(&path, &format!("error converting fieldPath: field label does not support subscript: {asked}")),
        }
        return;
    }
    let asked = if asked == "spec.host" { "spec.nodeName" } else { asked };
    if !PODS.contains(&asked) {
        causes.invalid(&path, &format!("error converting fieldPath: field label not supported: {asked}"));
    } else if !known.contains(&asked) {
        causes.unsupported(&path.pointer, &quoted(asked), known);
    }
}

/// Checks a reference to a request or limit of a container.
pub(super) fn resource_ref(reference: &Part<'_>, in_volume: bool, causes: &mut Causes) {
    const KNOWN: [&str; 6] =
        ["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];
    let (container, resource, divisor) = (reference.get("containerName"), reference.get("resource"), reference.get("divisor"));
    let name = text(&resource);
    let huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if in_volume && text(&container).is_empty() {
        causes.required(&container.pointer, "");
    } else if name.is_empty() {
        causes.required(&resource.pointer, "");
    } else if !huge {
        causes.one_of(&resource, &KNOWN);
    }
    let Some(divisor_value) = divisor.value.and_then(|value| Quantity::from_json(value).ok()).filter(|value| !value.is_zero()) else { return };
    const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let canonical = divisor_value.canonical();
    let what = match name {
        "limits.cpu" | "requests.cpu" => {
            if canonical != "1m" && canonical != "1" {
                causes.invalid_text(&divisor.pointer, name, "only divisor's values 1m and 1 are supported with the cpu resource");
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
        causes.invalid_text(&divisor.pointer, name, &format!("only divisor's values {sizes} are supported with the {what} resource"));
    }
}

fn variables_from(sources: &Part<'_>, causes: &mut Causes) {
    for source in sources.items() {
        let prefix = source.get("prefix");
        causes.invalid_each(&prefix, names::environment_name(text(&prefix)));
        let kinds = ["configMapRef", "secretRef"].map(|kind| source.get(kind));
        for reference in kinds.iter().filter(|reference| set(reference)) {
            let name = reference.get("name");
            if text(&name).is_empty() {
                causes.required(&name.pointer, "");
            } else {
                causes.invalid_each(&name, names::name_prefix(text(&name)));
            }
        }
        match kinds.iter().filter(|reference| set(reference)).count() {
            0 => causes.invalid_text(&sources.pointer, "", "must specify one of: `configMapRef` or `secretRef`").pointer = source.pointer,
            2 => causes.invalid_text(&sources.pointer, "", "may not have more than one field specified at a time").pointer = source.pointer,
            _ => {}
        }
    }
}

fn mounts(container: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
    let (list, devices) = (container.get("volumeMounts"), container.get("volumeDevices"));
    let privileged = container.at(&["securityContext", "privileged"]).bool().set() == Some(true);
    let mut paths: Vec<&str> = Vec::new();
    for mount in list.items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        }
        if !pod.volumes.iter().any(|(volume, _)| *volume == text(&name)) {
            causes.not_found(&name.pointer, text(&name), "");
        }
        if text(&path).is_empty() {
            causes.required(&path.pointer, "");
        }
        if paths.contains(&text(&path)) {
            causes.invalid_text(&path.pointer, text(&path), "must be unique");
        }
        paths.push(text(&path));
        for device in devices.items() {
            if text(&device.get("name")) == text(&name) {
                causes.invalid(&name, "must not already exist in volumeDevices");
            }
            if text(&device.get("devicePath")) == text(&path) {
                causes.invalid(&path, "must not already exist as a path in volumeDevices");
            }
        }
        let (sub, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
        // The server leaves the mount's index out of these three.
        volume::inner_path(&sub, &(&list.pointer / "subPath"), causes);
        if !text(&expression).is_empty() {
            if !text(&sub).is_empty() {
                causes.invalid(&expression, "subPathExpr and subPath are mutually exclusive");
            }
            volume::inner_path(&expression, &(&list.pointer / "subPathExpr"), causes);
        }
        let propagation = mount.get("mountPropagation");
        if set(&propagation) {
            let before = causes.len();
            causes.one_of(&propagation, &["Bidirectional", "HostToContainer", "None"]);
            if text(&propagation) == "Bidirectional" && !privileged {
                causes.forbidden(&propagation.pointer, "Bidirectional mount propagation is available only to privileged containers");
            }
            causes.rename_since(before, &mount.pointer, &list.pointer);
        }
        let recursive = mount.get("recursiveReadOnly");
        if set(&recursive) {
            let before = causes.len();
            causes.one_of(&recursive, &["Disabled", "Enabled", "IfPossible"]);
            if matches!(text(&recursive), "Enabled" | "IfPossible") {
                if mount.get("readOnly").bool().set() != Some(true) {
                    causes.forbidden(&recursive.pointer, "may only be specified when readOnly is true");
                }
                if !matches!(text(&propagation), "" | "None") {
                    causes.forbidden(&recursive.pointer, "may only be specified when mountPropagation is None or not specified");
                }
            }
            causes.rename_since(before, &mount.pointer, &list.pointer);
        }
    }
    let mut known: Vec<(&str, &str)> = Vec::new();
    for device in devices.items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        if known.iter().any(|(other, _)| *other == text(&name)) {
            causes.invalid(&name, "must be unique");
        }
        if known.iter().any(|(_, other)| *other == text(&path)) {
            causes.invalid(&path, "must be unique");
        }
        if text(&path).split('/').any(|step| step == "..") {
            causes.invalid(&path, "can not contain backsteps ('..')");
        }
        known.push((text(&name), text(&path)));
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        }
        match pod.volumes.iter().find(|(volume, _)| *volume == text(&name)) {
            None => causes.not_found(&name.pointer, text(&name), ""),
            Some((_, false)) => {
                causes.invalid(&name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
            }
            Some((_, true)) => {}
        }
        if text(&path).is_empty() {
            causes.required(&path.pointer, "");
        }
    }
}

pub(super) fn probes(container: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
    let lifecycle = container.get("lifecycle");
    for name in ["postStart", "preStop"] {
        if set(&lifecycle.get(name)) {
            handler(&lifecycle.get(name), pod.grace, causes);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if !set(&probe) {
            continue;
        }
        handler(&probe, pod.grace, causes);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
            causes.not_negative(&probe.get(field));
        }
        let grace = probe.get("terminationGracePeriodSeconds");
        if number(&grace).is_some_and(|seconds| seconds <= 0) {
            causes.invalid(&grace, "must be greater than 0");
        }
        let successes = probe.get("successThreshold");
        if name == "readinessProbe" {
            if set(&grace) {
                causes.invalid(&grace, "must not be set for readinessProbes");
            }
        } else if number(&successes).is_some_and(|count| count != 1) {
            causes.invalid(&successes, "must be 1");
        }
    }
}

fn handler(handler: &Part<'_>, grace: Option<i64>, causes: &mut Causes) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].map(|kind| handler.get(kind));
    let mut there = kinds.iter().filter(|kind| set(kind));
    let Some(first) = there.next() else {
        causes.required(&handler.pointer, "must specify a handler type");
        return;
    };
    for more in there {
        causes.forbidden(&more.pointer, "may not specify more than 1 handler type");
    }
    let [exec, http, tcp, grpc, sleep] = &kinds;
    if first.pointer == exec.pointer {
        if exec.get("command").items().next().is_none() {
            causes.required(&exec.get("command").pointer, "");
        }
    } else if first.pointer == http.pointer {
        port(&http.get("port"), causes);
        causes.one_of(&http.get("scheme"), &["HTTP", "HTTPS"]);
        for header in http.get("httpHeaders").items() {
            let name = text(&header.get("name"));
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                let message = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
                               '[-A-Za-z0-9]+')";
                causes.invalid_text(&http.get("httpHeaders").pointer, name, message).pointer = header.pointer;
            }
        }
    } else if first.pointer == tcp.pointer {
        port(&tcp.get("port"), causes);
    } else if first.pointer == grpc.pointer {
        port(&grpc.get("port"), causes);
    } else {
        let seconds = number(&sleep.get("seconds")).unwrap_or_default();
        if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
            let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            causes.invalid_number(&sleep.pointer, seconds, &detail);
        }
    }
}

/// Checks a port that is a number or the name of one.
fn port(field: &Part<'_>, causes: &mut Causes) {
    match field.value {
        Some(Value::String(name)) => causes.invalid_each(field, names::port_name(name)),
        _ => port_number(field, causes),
    }
}
