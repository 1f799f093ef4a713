//! Pod templates: what a pod says of itself, and of its containers together.

use super::cause::{Causes, number, set, text};
use super::container::{common, host_ports, probes, resize_policy, restart_policy, unmasked};
use super::{resources, selector, volume};
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::pointer::Pointer;
use crate::workload::Part;

/// What the containers of one pod have in common.
pub(super) struct Pod<'a> {
    /// Names of volumes that are sound, and whether each is a claim, which alone may be a block device.
    pub(super) volumes: Vec<(&'a str, bool)>,
    /// Names of resource claims.
    pub(super) claims: Vec<&'a str>,
    /// Seconds until a pod that is asked to stop is killed.
    pub(super) grace: Option<i64>,
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
    resources::of_pod_and_containers(spec, causes);
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
    pod_security(spec, causes);
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
            causes.duplicate(&gate.pointer, &quoted(name));
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
            let before = causes.len();
            causes.one_of(&system, &["linux", "windows"]);
            causes.rename_since(before, &system.pointer, &spec.get("os").pointer);
        }
    }
    system_options(spec, causes);
    host_process(spec, causes);
    host_name(spec, causes);
    dns_config(&config, causes);
}

/// Checks what one operating system has and the other has not.
fn system_options(spec: &Part<'_>, causes: &mut Causes) {
    const POD: [&str; 5] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace", "resources"];
    const POD_SECURITY: [&str; 11] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let security = spec.get("securityContext");
    let contexts = containers_of(spec).map(|container| container.get("securityContext"));
    match text(&spec.at(&["os", "name"])) {
        "linux" => {
            for context in std::iter::once(security).chain(contexts) {
                let options = context.get("windowsOptions");
                if set(&options) {
                    causes.forbidden(&options.pointer, "windows options cannot be set for a linux pod");
                }
            }
        }
        "windows" => {
            let of_pod = POD.into_iter().map(|field| spec.get(field)).chain(POD_SECURITY.into_iter().map(|field| security.get(field)));
            let of_containers = contexts.flat_map(|context| CONTAINER.into_iter().map(move |field| context.get(field)));
            for field in of_pod.chain(of_containers).filter(set) {
                let may = if field.pointer == (&spec.pointer / "resources") { "may not" } else { "cannot" };
                causes.forbidden(&field.pointer, &format!("{may} be set for a windows pod"));
            }
        }
        _ => {}
    }
}

fn containers_of<'a>(spec: &Part<'a>) -> impl Iterator<Item = Part<'a>> {
    let lists = [spec.get("initContainers"), spec.get("containers")];
    lists.into_iter().flat_map(|list| list.items().collect::<Vec<_>>())
}

/// Checks that all containers of a pod, or none, are processes of a Windows host, and that those are in its network.
fn host_process(spec: &Part<'_>, causes: &mut Causes) {
    const PROCESS: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];
    let pod = spec.at(&PROCESS).bool().set();
    let (mut containers, mut processes) = (0, 0);
    for container in containers_of(spec) {
        let own = container.at(&PROCESS);
        if let (Some(pod), Some(value)) = (pod, own.bool().set())
            && pod != value
        {
            causes.invalid(&own, &format!("pod hostProcess value must be identical if both are specified, was {pod}"));
        }
        containers += 1;
        processes += usize::from(own.bool().set().or(pod) == Some(true));
    }
    if processes == 0 {
        return;
    }
    if processes < containers {
        causes.invalid_text(&spec.pointer, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers");
    }
    if spec.get("hostNetwork").bool().set() != Some(true) {
        causes.invalid_shown(&(&spec.pointer / "hostNetwork"), "false", "hostNetwork must be true if pod contains any hostProcess containers");
    }
}

fn host_name(spec: &Part<'_>, causes: &mut Causes) {
    const LONGEST: usize = 64;
    let name = spec.get("hostnameOverride");
    if !set(&name) {
        return;
    }
    causes.invalid_each(&name, names::dns_subdomain(text(&name)));
    if text(&name).len() > LONGEST {
        causes.too_long(&name.pointer, LONGEST);
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(other).bool().set() == Some(true) {
            causes.forbidden(&name.pointer, &format!("may not be specified when {other} is true"));
        }
    }
}

fn dns_config(config: &Part<'_>, causes: &mut Causes) {
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    for (list, most, what) in [(&servers, 3, "nameservers"), (&searches, 32, "search paths")] {
        if list.items().count() > most {
            causes.invalid_value(list, &format!("must not have more than {most} {what}"));
        }
    }
    for server in servers.items().filter(|server| text(server).parse::<std::net::IpAddr>().is_err()) {
        causes.invalid(&server, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    for search in searches.items().filter(|search| !matches!(text(search), "." | "")) {
        // Underscores are fine here, unlike in other names.
        if !names::dns_subdomain(&text(&search).trim_end_matches('.').replace('_', "x")).is_empty() {
            let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with \
                        an alphanumeric character";
            causes.invalid(&search, rule);
        }
    }
    for option in config.get("options").items().filter(|option| text(&option.get("name")).is_empty()) {
        causes.required(&option.pointer, "must not be empty");
    }
}

fn pod_security(spec: &Part<'_>, causes: &mut Causes) {
    let security = spec.get("securityContext");
    for group in security.get("supplementalGroups").items() {
        if number(&group).is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&group, "must be between 0 and 2147483647, inclusive");
        }
    }
    let mut known: Vec<&str> = Vec::new();
    for setting in security.get("sysctls").items() {
        let name = setting.get("name");
        let part = |part: &str| {
            let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            let bytes = part.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte))
        };
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        } else if text(&name).len() > 253 || !text(&name).split(['.', '/']).all(part) {
            let form = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.invalid(&name, &format!("must have at most 253 characters and match regex {form}"));
        } else if known.contains(&text(&name)) {
            causes.duplicate(&name.pointer, &quoted(text(&name)));
        }
        let host = |field: &'static str| spec.get(field).bool().set() == Some(true);
        if host("hostIPC")
            && (text(&name).starts_with("kernel.shm") || text(&name).starts_with("kernel.msg") || text(&name).starts_with("kernel.sem"))
        {
            causes.invalid(&name, "may not be specified when 'hostIPC' is true");
        }
        if host("hostNetwork") && text(&name).starts_with("net.") {
            causes.invalid(&name, "may not be specified when 'hostNetwork' is true");
        }
        known.push(text(&name));
    }
    for (field, values) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["Recursive"]),
    ] {
        if set(&security.get(field)) {
            causes.one_of(&security.get(field), values);
        }
    }
    profiles(&security, causes);
    if spec.get("hostPID").bool().set() == Some(true) && spec.get("shareProcessNamespace").bool().set() == Some(true) {
        let said = &security.pointer / "shareProcessNamespace";
        causes.invalid_shown(&said, "true", "ShareProcessNamespace and HostPID cannot both be enabled").pointer =
            spec.get("shareProcessNamespace").pointer;
    }
}

/// Checks the seccomp and AppArmor profiles of a pod or a container.
pub(super) fn profiles(security: &Part<'_>, causes: &mut Causes) {
    const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    for (field, what) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let profile = security.get(field);
        if !set(&profile) {
            continue;
        }
        let (kind, file) = (profile.get("type"), profile.get("localhostProfile"));
        if text(&kind).is_empty() {
            causes.required(&kind.pointer, &format!("type is required when {field} is set"));
        } else {
            causes.one_of(&kind, &TYPES);
        }
        match (text(&kind), set(&file)) {
            ("Localhost", false) => _ = causes.required(&file.pointer, &format!("must be set when {what} type is Localhost")),
            ("Localhost", true) if what == "seccomp" => volume::inner_path(&file, &file.pointer, causes),
            ("Localhost", true) if text(&file).trim() != text(&file) => _ = causes.invalid(&file, "must not be padded with whitespace"),
            ("Localhost", _) | (_, false) => {}
            (_, true) => _ = causes.invalid(&file, &format!("can only be set when {what} type is Localhost")),
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
            causes.duplicate(&name.pointer, &quoted(text(&name)));
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
        resize_policy(&container, text(&spec.get("restartPolicy")), causes);
        unmasked(spec, &container, causes);
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
        causes.duplicate(&name.pointer, &quoted(text(&name)));
    } else if !text(&name).is_empty() {
        known.push(text(&name));
    }
}

pub(super) fn user_ids(security: &Part<'_>, causes: &mut Causes) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let field = security.get(field);
        if number(&field).is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&field, "must be between 0 and 2147483647, inclusive");
        }
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
            causes.duplicate(&both, &quoted(&format!("{{{}, {}}}", text(&key), text(&action))));
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
    for (field, said) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
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
            "Lt" | "Gt" => causes.unsupported(&operator.pointer, &quoted(text(&operator)), &["Equal", "Exists", "Lt", "Gt"]),
            _ => causes.one_of(&operator, &["Equal", "Exists"]),
        }
        if !text(&effect).is_empty() {
            causes.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}
