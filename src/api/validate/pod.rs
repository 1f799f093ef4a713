//! Pod templates: containers, their ports, variables, mounts and probes, and what a pod says of itself.

use serde_json::Value;

use super::cause::{Causes, number, set, text};
use super::{resources, selector, volume};
use crate::k8s::names;
use crate::k8s::quantity::Quantity;
use crate::pointer::Pointer;
use crate::workload::Part;

/// What the containers of one pod have in common.
struct Pod<'a> {
    /// Names of volumes that are sound, and whether each is a claim, which alone may be a block device.
    volumes: Vec<(&'a str, bool)>,
    /// Names of resource claims.
    claims: Vec<&'a str>,
    /// Seconds until a pod that is asked to stop is killed.
    grace: Option<i64>,
}

pub(super) fn template(template: &Part<'_>, causes: &mut Causes) {
    let metadata = template.get("metadata");
    // The server names these places without `metadata`.
    let before = causes.len();
    selector::labels(&metadata.get("labels"), causes);
    super::annotations(&metadata.get("annotations"), causes);
    causes.rename_since(before, &metadata.pointer, &template.pointer);
    let spec = template.get("spec");
    pod(&spec, causes);
    if spec.get("ephemeralContainers").items().next().is_some() {
        causes.forbidden(&spec.get("ephemeralContainers").pointer, "ephemeral containers not allowed in pod template");
    }
}

fn pod(spec: &Part<'_>, causes: &mut Causes) {
    let grace = spec.get("terminationGracePeriodSeconds");
    let volumes = volume::all(&spec.get("volumes"), causes);
    let claims = resource_claims(&spec.get("resourceClaims"), causes);
    let pod = Pod { volumes, claims, grace: number(&grace) };
    containers(spec, &pod, causes);
    resources::of_pod(&spec.get("resources"), causes);
    if spec.get("hostNetwork").bool().set() == Some(true) {
        for container in spec.get("containers").items() {
            for port in container.get("ports").items() {
                let host = port.get("hostPort");
                if number(&host).is_some_and(|host| host != 0 && Some(host) != number(&port.get("containerPort"))) {
                    causes.invalid(&host, "must match `containerPort` when `hostNetwork` is true");
                }
            }
        }
    }
    causes.one_of(&spec.get("restartPolicy"), &["Always", "OnFailure", "Never"]);
    let dns = spec.get("dnsPolicy");
    causes.one_of(&dns, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    selector::labels(&spec.get("nodeSelector"), causes);
    user_ids(&spec.get("securityContext"), causes);
    selector::affinity(&spec.get("affinity"), causes);
    let config = spec.get("dnsConfig");
    if text(&dns) == "None" {
        if !set(&config) {
            causes.required(&config.pointer, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if config.get("nameservers").items().next().is_none() {
            causes.required(&config.get("nameservers").pointer, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    for gate in spec.get("readinessGates").items() {
        causes.invalid_each(&gate.get("conditionType"), names::qualified_name(text(&gate.get("conditionType"))));
    }
    let mut gates: Vec<&str> = Vec::new();
    for gate in spec.get("schedulingGates").items() {
        let name = text(&gate.get("name"));
        for message in names::qualified_name(name) {
            causes.invalid_text(&gate.pointer, name, &message);
        }
        if gates.contains(&name) {
            causes.duplicate(&gate.pointer, crate::k8s::go::quoted(name));
        }
        gates.push(name);
    }
    spread(&spec.get("topologySpreadConstraints"), causes);
    host_users(spec, causes);
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let field = spec.get(field);
        if !text(&field).is_empty() {
            causes.invalid_each(&field, names::dns_subdomain(text(&field)));
        }
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if number(&deadline).is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        causes.invalid(&deadline, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        let field = spec.get(field);
        if !text(&field).is_empty() {
            causes.invalid_each(&field, names::dns_label(text(&field)));
        }
    }
    tolerations(&spec.get("tolerations"), causes);
    for alias in spec.get("hostAliases").items() {
        let ip = alias.get("ip");
        if text(&ip).parse::<std::net::IpAddr>().is_err() {
            causes.invalid(&ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
        for host in alias.get("hostnames").items() {
            causes.invalid_each(&host, names::dns_subdomain(text(&host)));
        }
    }
    let preemption = spec.get("preemptionPolicy");
    if set(&preemption) {
        causes.one_of(&preemption, &["PreemptLowerPriority", "Never"]);
    }
    let system = spec.at(&["os", "name"]);
    if set(&spec.get("os")) {
        if text(&system).is_empty() {
            causes.required(&system.pointer, "cannot be empty");
        } else {
            causes.one_of(&system, &["linux", "windows"]);
        }
    }
}

fn resource_claims<'a>(claims: &Part<'a>, causes: &mut Causes) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    for claim in claims.items() {
        let name = claim.get("name");
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        } else if known.contains(&text(&name)) {
            causes.duplicate(&name.pointer, crate::k8s::go::quoted(text(&name)));
        } else {
            causes.invalid_each(&name, names::dns_label(text(&name)));
            known.push(text(&name));
        }
        let sources = [claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")];
        match sources.iter().filter(|source| set(source)).count() {
            0 => causes.invalid_value(&claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            2 => causes.invalid_value(&claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
            _ => {}
        }
        for source in sources.iter().filter(|source| set(source)) {
            causes.invalid_each(source, names::dns_subdomain(text(source)));
        }
    }
    known
}

fn containers(spec: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
    let main = spec.get("containers");
    if main.items().next().is_none() {
        causes.required(&main.pointer, "");
    }
    let mut known: Vec<&str> = Vec::new();
    let mut ports = Vec::new();
    for container in main.items() {
        common(&container, pod, causes);
        unique_name(&container, &mut known, causes);
        probes(&container, pod, causes);
        restart_policy(&container, causes);
        host_ports(&container, &mut ports, causes);
    }
    for container in spec.get("initContainers").items() {
        common(&container, pod, causes);
        restart_policy(&container, causes);
        unique_name(&container, &mut known, causes);
        host_ports(&container, &mut Vec::new(), causes);
        if text(&container.get("restartPolicy")) == "Always" {
            probes(&container, pod, causes);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.get(field);
            if set(&field) {
                causes.forbidden(&field.pointer, "may not be set for init containers without restartPolicy=Always");
            }
        }
    }
}

fn unique_name<'a>(container: &Part<'a>, known: &mut Vec<&'a str>, causes: &mut Causes) {
    let name = container.get("name");
    if known.contains(&text(&name)) {
        causes.duplicate(&name.pointer, crate::k8s::go::quoted(text(&name)));
    } else if !text(&name).is_empty() {
        known.push(text(&name));
    }
}

/// Checks what containers of all sorts have.
fn common(container: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
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
    variables(&container.get("env"), causes);
    variables_from(&container.get("envFrom"), causes);
    mounts(container, pod, causes);
    resources::of_container(&container.get("resources"), &pod.claims, causes);
    for policy in container.get("resizePolicy").items() {
        causes.one_of(&policy.get("resourceName"), &["cpu", "memory"]);
        causes.one_of(&policy.get("restartPolicy"), &["NotRequired", "RestartContainer"]);
    }
    let security = container.get("securityContext");
    user_ids(&security, causes);
    if security.get("allowPrivilegeEscalation").bool().set() == Some(false) {
        if security.get("privileged").bool().set() == Some(true) {
            causes.invalid_value(&security, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        if security.at(&["capabilities", "add"]).items().any(|capability| text(&capability) == "CAP_SYS_ADMIN") {
            causes.invalid_value(&security, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}

fn user_ids(security: &Part<'_>, causes: &mut Causes) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let field = security.get(field);
        if number(&field).is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&field, "must be between 0 and 2147483647, inclusive");
        }
    }
}

fn restart_policy(container: &Part<'_>, causes: &mut Causes) {
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
                causes.duplicate(&name.pointer, crate::k8s::go::quoted(text(&name)));
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

fn host_ports(container: &Part<'_>, known: &mut Vec<String>, causes: &mut Causes) {
    for port in container.get("ports").items() {
        let outer = port.get("hostPort");
        let Some(number) = number(&outer).filter(|number| *number != 0) else { continue };
        let key = format!("{}/{}/{number}", text(&port.get("protocol")), text(&port.get("hostIP")));
        if known.contains(&key) {
            causes.duplicate(&outer.pointer, crate::k8s::go::quoted(&key));
        } else {
            known.push(key);
        }
    }
}

fn variables(variables: &Part<'_>, causes: &mut Causes) {
    for variable in variables.items() {
        let (name, source) = (variable.get("name"), variable.get("valueFrom"));
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        } else {
            causes.invalid_each(&name, names::environment_name(text(&name)));
        }
        if set(&source) {
            value_source(&variable, &source, causes);
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
        causes.unsupported(&path.pointer, crate::k8s::go::quoted(asked), known);
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
    }
    for device in devices.items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
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

fn probes(container: &Part<'_>, pod: &Pod<'_>, causes: &mut Causes) {
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

fn spread(constraints: &Part<'_>, causes: &mut Causes) {
    let all: Vec<Part<'_>> = constraints.items().collect();
    for (index, constraint) in all.iter().enumerate() {
        let (skew, key, action) = (constraint.get("maxSkew"), constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        if number(&skew).is_none_or(|skew| skew <= 0) {
            causes.invalid_number(&skew.pointer, number(&skew).unwrap_or_default(), "must be greater than zero");
        }
        if text(&key).is_empty() {
            causes.required(&key.pointer, "can not be empty");
        }
        causes.one_of(&action, &["DoNotSchedule", "ScheduleAnyway"]);
        let same = |other: &Part<'_>| text(&other.get("topologyKey")) == text(&key) && text(&other.get("whenUnsatisfiable")) == text(&action);
        if all[index + 1..].iter().any(same) {
            let both = Pointer::key(&constraint.pointer, "{topologyKey, whenUnsatisfiable}");
            causes.duplicate(&both, crate::k8s::go::quoted(&format!("{{{}, {}}}", text(&key), text(&action))));
        }
        let domains = constraint.get("minDomains");
        if number(&domains).is_some_and(|domains| domains <= 0) {
            causes.invalid(&domains, "must be greater than zero");
        }
        if set(&domains) && text(&action) != "DoNotSchedule" {
            causes.invalid(&domains, &format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", text(&action)));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(policy);
            if set(&policy) {
                causes.one_of(&policy, &["Honor", "Ignore"]);
            }
        }
        selector::label_keys(&constraint.get("matchLabelKeys"), &constraint.get("labelSelector"), causes);
        selector::label_selector(&constraint.get("labelSelector"), causes);
    }
}

fn host_users(spec: &Part<'_>, causes: &mut Causes) {
    if spec.get("hostUsers").bool().set() != Some(false) {
        return;
    }
    for (field, said) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field).bool().set() == Some(true) {
            causes.forbidden(&(&spec.pointer / said), "when `hostUsers` is false");
        }
    }
}

fn tolerations(tolerations: &Part<'_>, causes: &mut Causes) {
    for toleration in tolerations.items() {
        let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|field| toleration.get(field));
        if text(&key).is_empty() {
            if text(&operator) != "Exists" {
                let rule = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                causes.invalid_text(&operator.pointer, text(&operator), rule);
            }
        } else {
            causes.invalid_each(&key, names::qualified_name(text(&key)));
        }
        if set(&toleration.get("tolerationSeconds")) && text(&effect) != "NoExecute" {
            causes.invalid_text(&effect.pointer, text(&effect), "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match text(&operator) {
            "" | "Equal" => {
                let messages = names::label_value(text(&value));
                if !messages.is_empty() {
                    causes.invalid_text(&operator.pointer, text(&value), &messages.join(";")).pointer = value.pointer.clone();
                }
            }
            "Exists" => {
                if !text(&value).is_empty() {
                    causes.invalid_text(&operator.pointer, text(&value), "value must be empty when `operator` is 'Exists'").pointer =
                        value.pointer.clone();
                }
            }
            "Lt" | "Gt" => causes.unsupported(&operator.pointer, crate::k8s::go::quoted(text(&operator)), &["Equal", "Exists", "Lt", "Gt"]),
            _ => causes.one_of(&operator, &["Equal", "Exists"]),
        }
        if !text(&effect).is_empty() {
            causes.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}
