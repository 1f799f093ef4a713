//! Containers: their ports, variables, mounts, probes and resources.

use std::collections::BTreeMap;

use super::cause::{At as _, Causes};
use super::part::Part;
use super::pod::{Pod, profiles, user_ids};
use super::seen::Seen;
use super::{resources, volume};
use crate::judge::api::stored::Stored;
use crate::k8s::go::quoted;
use crate::k8s::names;

/// Checks what containers of all sorts have.
pub(super) fn common(container: &Part<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let (name, image) = (container.get("name"), container.get("image"));
    if name.text().is_empty() {
        causes.required(&name, "");
    } else {
        causes.invalid_each(&name, names::dns_label(name.text()));
    }
    if image.text().is_empty() {
        causes.required(&image, "");
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
    if security.get("procMount").is_set() {
        causes.one_of(&security.get("procMount"), &["Default", "Unmasked"]);
    }
    let account = security.at(&["windowsOptions", "gmsaCredentialSpecName"]);
    if account.is_set() {
        causes.invalid_each(&account, names::dns_subdomain(account.text()));
    }
    if security.get("allowPrivilegeEscalation").bool() == Some(false) {
        if security.get("privileged").is_true() {
            causes.invalid_value(
                &security,
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            );
        }
        if security
            .at(&["capabilities", "add"])
            .items()
            .any(|capability| capability.text() == "CAP_SYS_ADMIN")
        {
            causes.invalid_value(
                &security,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
}

/// Checks what becomes of a container when its resources change; `restart` is the policy of the pod.
pub(super) fn resize_policy(container: &Part<'_, '_>, restart: &str, causes: &mut Causes) {
    let list = container.get("resizePolicy");
    let mut known = Seen::default();
    for item in list.items() {
        let (resource, policy) = (item.get("resourceName"), item.get("restartPolicy"));
        if !known.insert(resource.text()) {
            causes.duplicate(&item, &quoted(resource.text()));
        }
        // The server names the list.
        let before = causes.len();
        causes.one_of(&resource, &["cpu", "memory"]);
        causes.rename_since(before, &resource, &list);
        let before = causes.len();
        causes.one_of(&policy, &["NotRequired", "RestartContainer"]);
        if restart == "Never" && policy.text() != "NotRequired" {
            causes.invalid(&policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
        causes.rename_since(before, &policy, &list);
    }
}

/// A container sees all of `/proc` only in a user namespace of its own.
pub(super) fn unmasked(pod: &Part<'_, '_>, container: &Part<'_, '_>, causes: &mut Causes) {
    let mount = container.at(&["securityContext", "procMount"]);
    if mount.text() == "Unmasked" && pod.get("hostUsers").bool() != Some(false) {
        causes.invalid(&mount, "`hostUsers` must be false to use `Unmasked`");
    }
}

pub(super) fn restart_policy(container: &Part<'_, '_>, causes: &mut Causes) {
    let (policy, rules) = (container.get("restartPolicy"), container.get("restartPolicyRules"));
    if policy.is_set() {
        causes.one_of(&policy, &["Always", "Never", "OnFailure"]);
    } else if rules.items().next().is_some() {
        causes.required(&policy, "must specify restartPolicy when restart rules are used");
    }
    causes.at_most(&rules, 20);
    for rule in rules.items() {
        causes.one_of(&rule.get("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.get("exitCodes");
        if codes.is_set() {
            causes.one_of(&codes.get("operator"), &["In", "NotIn"]);
            causes.at_most(&codes.get("values"), 255);
        } else {
            causes.required(&codes, "must be specified");
        }
    }
}

fn port_number(field: &Part<'_, '_>, causes: &mut Causes) {
    let number = field.number().unwrap_or_default();
    if field.value.is_none_or(|value| value.as_str().is_none()) && !(1..=65535).contains(&number) {
        causes.invalid_number(field, number, "must be between 1 and 65535, inclusive");
    }
}

fn container_ports(ports: &Part<'_, '_>, causes: &mut Causes) {
    let mut known = Seen::default();
    for port in ports.items() {
        let (name, inner, outer) = (port.get("name"), port.get("containerPort"), port.get("hostPort"));
        if !name.text().is_empty() {
            let messages = names::port_name(name.text());
            if !known.insert(name.text()) && messages.is_empty() {
                causes.duplicate(&name, &quoted(name.text()));
            }
            causes.invalid_each(&name, messages);
        }
        if inner.number().is_none_or(|port| port == 0) {
            causes.required(&inner, "");
        } else {
            port_number(&inner, causes);
        }
        if outer.number().is_some_and(|port| port != 0) {
            port_number(&outer, causes);
        }
        if port.is_mapping() {
            causes.one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"]);
        }
    }
}

pub(super) fn host_ports(container: &Part<'_, '_>, known: &mut Seen<String>, causes: &mut Causes) {
    for port in container.get("ports").items() {
        let outer = port.get("hostPort");
        let Some(number) = outer.number().filter(|number| *number != 0) else { continue };
        let key = format!("{}/{}/{number}", port.get("protocol").text(), port.get("hostIP").text());
        if known.contains(&key) {
            causes.duplicate(&outer, &quoted(&key));
        } else {
            known.insert(key);
        }
    }
}

fn variables(variables: &Part<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    for variable in variables.items() {
        let (name, source) = (variable.get("name"), variable.get("valueFrom"));
        if name.text().is_empty() {
            causes.required(&name, "");
        } else {
            causes.invalid_each(&name, names::environment_name(name.text()));
        }
        if source.is_set() {
            value_source(&variable, &source, causes);
            file_key(&source.get("fileKeyRef"), pod, causes);
        }
    }
}

fn value_source(variable: &Part<'_, '_>, source: &Part<'_, '_>, causes: &mut Causes) {
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
            causes.invalid_each(&name, names::dns_subdomain(name.text()));
            if key.text().is_empty() {
                causes.required(&key, "");
            } else {
                causes.invalid_each(&key, names::config_key(key.text()));
            }
        }
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let problem = match sources.into_iter().filter(|kind| source.get(kind).is_set()).count() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.get("value").text().is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid_text(source, "", problem);
}

fn file_key(file: &Part<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
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
pub(super) fn field_ref(field: &Part<'_, '_>, known: &[&str], causes: &mut Causes) {
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
                for message in names::qualified_name(&key) {
                    causes.invalid_text(field, &key, &message);
                }
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
pub(super) fn resource_ref(reference: &Part<'_, '_>, in_volume: bool, causes: &mut Causes) {
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

fn variables_from(sources: &Part<'_, '_>, causes: &mut Causes) {
    for source in sources.items() {
        let prefix = source.get("prefix");
        causes.invalid_each(&prefix, names::environment_name(prefix.text()));
        let kinds = ["configMapRef", "secretRef"].map(|kind| source.get(kind));
        for reference in kinds.iter().filter(|reference| reference.is_set()) {
            let name = reference.get("name");
            if name.text().is_empty() {
                causes.required(&name, "");
            } else {
                causes.invalid_each(&name, names::name_prefix(name.text()));
            }
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
    }
}

fn mounts(container: &Part<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let (list, devices) = (container.get("volumeMounts"), container.get("volumeDevices"));
    let privileged = container.at(&["securityContext", "privileged"]).is_true();
    let devices_with = |field: &'static str| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        devices.items().for_each(|device| *counts.entry(device.get(field).text()).or_default() += 1);
        counts
    };
    let (device_names, device_paths) = (devices_with("name"), devices_with("devicePath"));
    let mut paths = Seen::default();
    for mount in list.items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        if name.text().is_empty() {
            causes.required(&name, "");
        }
        if !pod.volumes.contains_key(name.text()) {
            causes.not_found(&name, name.text(), "");
        }
        if path.text().is_empty() {
            causes.required(&path, "");
        }
        if !paths.insert(path.text()) {
            causes.invalid_text(&path, path.text(), "must be unique");
        }
        for _ in 0..device_names.get(name.text()).copied().unwrap_or_default() {
            causes.invalid(&name, "must not already exist in volumeDevices");
        }
        for _ in 0..device_paths.get(path.text()).copied().unwrap_or_default() {
            causes.invalid(&path, "must not already exist as a path in volumeDevices");
        }
        let (sub, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
        // The server leaves the mount's index out of these three.
        volume::inner_path(&sub, &list.get("subPath"), causes);
        if !expression.text().is_empty() {
            if !sub.text().is_empty() {
                causes.invalid(&expression, "subPathExpr and subPath are mutually exclusive");
            }
            volume::inner_path(&expression, &list.get("subPathExpr"), causes);
        }
        let propagation = mount.get("mountPropagation");
        if propagation.is_set() {
            let before = causes.len();
            causes.one_of(&propagation, &["Bidirectional", "HostToContainer", "None"]);
            if propagation.text() == "Bidirectional" && !privileged {
                causes.forbidden(
                    &propagation,
                    "Bidirectional mount propagation is available only to privileged containers",
                );
            }
            causes.rename_since(before, &mount, &list);
        }
        let recursive = mount.get("recursiveReadOnly");
        if recursive.is_set() {
            let before = causes.len();
            causes.one_of(&recursive, &["Disabled", "Enabled", "IfPossible"]);
            if matches!(recursive.text(), "Enabled" | "IfPossible") {
                if !mount.get("readOnly").is_true() {
                    causes.forbidden(&recursive, "may only be specified when readOnly is true");
                }
                if !matches!(propagation.text(), "" | "None") {
                    causes.forbidden(
                        &recursive,
                        "may only be specified when mountPropagation is None or not specified",
                    );
                }
            }
            causes.rename_since(before, &mount, &list);
        }
    }
    let (mut names, mut places) = (Seen::default(), Seen::default());
    for device in devices.items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        if !names.insert(name.text()) {
            causes.invalid(&name, "must be unique");
        }
        if !places.insert(path.text()) {
            causes.invalid(&path, "must be unique");
        }
        if path.text().split('/').any(|step| step == "..") {
            causes.invalid(&path, "can not contain backsteps ('..')");
        }
        if name.text().is_empty() {
            causes.required(&name, "");
        }
        match pod.volumes.get(name.text()) {
            None => causes.not_found(&name, name.text(), ""),
            Some(false) => {
                causes.invalid(
                    &name,
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            Some(true) => {}
        }
        if path.text().is_empty() {
            causes.required(&path, "");
        }
    }
}

pub(super) fn probes(container: &Part<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let lifecycle = container.get("lifecycle");
    for name in ["postStart", "preStop"] {
        if lifecycle.get(name).is_set() {
            handler(&lifecycle.get(name), pod.grace, causes);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, pod.grace, causes);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            causes.not_negative(&probe.get(field));
        }
        let grace = probe.get("terminationGracePeriodSeconds");
        if grace.number().is_some_and(|seconds| seconds <= 0) {
            causes.invalid(&grace, "must be greater than 0");
        }
        let successes = probe.get("successThreshold");
        if name == "readinessProbe" {
            if grace.is_set() {
                causes.invalid(&grace, "must not be set for readinessProbes");
            }
        } else if successes.number().is_some_and(|count| count != 1) {
            causes.invalid(&successes, "must be 1");
        }
    }
}

fn handler(handler: &Part<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].map(|kind| handler.get(kind));
    let mut there = kinds.iter().filter(|kind| kind.is_set());
    if there.next().is_none() {
        causes.required(handler, "must specify a handler type");
        return;
    }
    for more in there {
        causes.forbidden(more, "may not specify more than 1 handler type");
    }
    let [exec, http, tcp, grpc, sleep] = &kinds;
    if exec.is_set() {
        if exec.get("command").items().next().is_none() {
            causes.required(&exec.get("command"), "");
        }
    } else if http.is_set() {
        port(&http.get("port"), causes);
        causes.one_of(&http.get("scheme"), &["HTTP", "HTTPS"]);
        for header in http.get("httpHeaders").items() {
            let name = header.get("name").text();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                let message = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
                               '[-A-Za-z0-9]+')";
                causes.invalid_text(&http.get("httpHeaders"), name, message).pointer = header.pointer();
            }
        }
    } else if tcp.is_set() {
        port(&tcp.get("port"), causes);
    } else if grpc.is_set() {
        port(&grpc.get("port"), causes);
    } else {
        let seconds = sleep.get("seconds").number().unwrap_or_default();
        if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
            let detail =
                format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            causes.invalid_number(sleep, seconds, &detail);
        }
    }
}

/// Checks a port that is a number or the name of one.
fn port(field: &Part<'_, '_>, causes: &mut Causes) {
    match field.value {
        Some(Stored::Text(name)) => causes.invalid_each(field, names::port_name(name)),
        _ => port_number(field, causes),
    }
}
