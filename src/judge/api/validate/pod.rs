//! Pod templates: what a pod says of itself, and of its containers together.

use std::collections::{BTreeMap, BTreeSet};

use super::cause::{At as _, Causes};
use super::container::{common, host_ports, probes, resize_policy, restart_policy, unmasked};
use super::part::Part;
use super::seen::Seen;
use super::{resources, selector, volume};
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::text::pointer::Pointer;

/// What the containers of one pod have in common.
pub(super) struct Pod<'a> {
    /// Names of volumes that are sound, and whether each is a claim, which alone may be a block device.
    pub(super) volumes: BTreeMap<&'a str, bool>,
    /// Names of resource claims.
    pub(super) claims: BTreeSet<&'a str>,
    /// Seconds until a pod that is asked to stop is killed.
    pub(super) grace: Option<i64>,
}

pub(super) fn template(template: &Part<'_, '_>, causes: &mut Causes) {
    let metadata = template.get("metadata");
    // The server names these places without `metadata`.
    let before = causes.len();
    selector::labels(&metadata.get("labels"), causes);
    super::annotations(&metadata.get("annotations"), causes);
    causes.rename_since(before, &metadata, template);
    let spec = template.get("spec");
    pod(&spec, causes);
    if spec.get("ephemeralContainers").items().next().is_some() {
        causes
            .forbidden(&spec.get("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

fn pod(spec: &Part<'_, '_>, causes: &mut Causes) {
    let grace = spec.get("terminationGracePeriodSeconds");
    let volumes = volume::all(&spec.get("volumes"), causes);
    let claims = resource_claims(&spec.get("resourceClaims"), causes);
    let pod = Pod { volumes, claims, grace: grace.number() };
    containers(spec, &pod, causes);
    resources::of_pod(&spec.get("resources"), causes);
    resources::of_pod_and_containers(spec, causes);
    if spec.get("hostNetwork").is_true() {
        for container in spec.get("containers").items() {
            for port in container.get("ports").items() {
                let host = port.get("hostPort");
                if host
                    .number()
                    .is_some_and(|host| host != 0 && Some(host) != port.get("containerPort").number())
                {
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
    if dns.text() == "None" {
        if !config.is_set() {
            causes.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if config.get("nameservers").items().next().is_none() {
            causes.required(
                &config.get("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
        }
    }
    for gate in spec.get("readinessGates").items() {
        causes.invalid_each(
            &gate.get("conditionType"),
            names::qualified_name(gate.get("conditionType").text()),
        );
    }
    let mut gates: Vec<&str> = Vec::new();
    for gate in spec.get("schedulingGates").items() {
        let name = gate.get("name").text();
        for message in names::qualified_name(name) {
            causes.invalid_text(&gate, name, &message);
        }
        if gates.contains(&name) {
            causes.duplicate(&gate, &quoted(name));
        }
        gates.push(name);
    }
    spread(&spec.get("topologySpreadConstraints"), causes);
    host_users(spec, causes);
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let field = spec.get(field);
        if !field.text().is_empty() {
            causes.invalid_each(&field, names::dns_subdomain(field.text()));
        }
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.number().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        causes.invalid(&deadline, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        let field = spec.get(field);
        if !field.text().is_empty() {
            causes.invalid_each(&field, names::dns_label(field.text()));
        }
    }
    tolerations(&spec.get("tolerations"), causes);
    for alias in spec.get("hostAliases").items() {
        let ip = alias.get("ip");
        if ip.text().parse::<std::net::IpAddr>().is_err() {
            causes.invalid(&ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
        for host in alias.get("hostnames").items() {
            causes.invalid_each(&host, names::dns_subdomain(host.text()));
        }
    }
    let preemption = spec.get("preemptionPolicy");
    if preemption.is_set() {
        causes.one_of(&preemption, &["PreemptLowerPriority", "Never"]);
    }
    let system = spec.at(&["os", "name"]);
    if spec.get("os").is_set() {
        if system.text().is_empty() {
            causes.required(&system, "cannot be empty");
        } else {
            let before = causes.len();
            causes.one_of(&system, &["linux", "windows"]);
            causes.rename_since(before, &system, &spec.get("os"));
        }
    }
    system_options(spec, causes);
    host_process(spec, causes);
    host_name(spec, causes);
    dns_config(&config, causes);
}

/// Checks what one operating system has and the other has not.
fn system_options(spec: &Part<'_, '_>, causes: &mut Causes) {
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
    match spec.at(&["os", "name"]).text() {
        "linux" => {
            let mut check = |context: &Part<'_, '_>| {
                let options = context.get("windowsOptions");
                if options.is_set() {
                    causes.forbidden(&options, "windows options cannot be set for a linux pod");
                }
            };
            check(&security);
            for list in &lists_of(spec) {
                list.items().for_each(|container| check(&container.get("securityContext")));
            }
        }
        "windows" => {
            let mut forbid = |around: &Part<'_, '_>, fields: &[&'static str]| {
                for field in fields.iter().filter(|field| around.get(field).is_set()) {
                    let may = if *field == "resources" { "may not" } else { "cannot" };
                    causes.forbidden(&around.get(field), &format!("{may} be set for a windows pod"));
                }
            };
            forbid(spec, &POD);
            forbid(&security, &POD_SECURITY);
            for list in &lists_of(spec) {
                list.items().for_each(|container| forbid(&container.get("securityContext"), &CONTAINER));
            }
        }
        _ => {}
    }
}

/// Returns the lists of containers that a pod template may have.
fn lists_of<'s, 'v>(spec: &'s Part<'_, 'v>) -> [Part<'s, 'v>; 2] {
    [spec.get("initContainers"), spec.get("containers")]
}

/// Checks that all containers of a pod, or none, are processes of a Windows host, and that those are in its
/// network.
fn host_process(spec: &Part<'_, '_>, causes: &mut Causes) {
    const PROCESS: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];
    let pod = spec.at(&PROCESS).bool();
    let (mut containers, mut processes) = (0, 0);
    let lists = lists_of(spec);
    for container in lists.iter().flat_map(Part::items) {
        let own = container.at(&PROCESS);
        if let (Some(pod), Some(value)) = (pod, own.bool())
            && pod != value
        {
            causes.invalid(
                &own,
                &format!("pod hostProcess value must be identical if both are specified, was {pod}"),
            );
        }
        containers += 1;
        processes += usize::from(own.bool().or(pod) == Some(true));
    }
    if processes == 0 {
        return;
    }
    if processes < containers {
        causes.invalid_text(
            spec,
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        );
    }
    if !spec.get("hostNetwork").is_true() {
        causes.invalid_shown(
            &(spec.pointer() / "hostNetwork"),
            "false",
            "hostNetwork must be true if pod contains any hostProcess containers",
        );
    }
}

fn host_name(spec: &Part<'_, '_>, causes: &mut Causes) {
    const LONGEST: usize = 64;
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    causes.invalid_each(&name, names::dns_subdomain(name.text()));
    if name.text().len() > LONGEST {
        causes.too_long(&name, LONGEST);
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(other).is_true() {
            causes.forbidden(&name, &format!("may not be specified when {other} is true"));
        }
    }
}

fn dns_config(config: &Part<'_, '_>, causes: &mut Causes) {
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    for (list, most, what) in [(&servers, 3, "nameservers"), (&searches, 32, "search paths")] {
        if list.items().count() > most {
            causes.invalid_value(list, &format!("must not have more than {most} {what}"));
        }
    }
    for server in servers.items().filter(|server| server.text().parse::<std::net::IpAddr>().is_err()) {
        causes.invalid(&server, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    for search in searches.items().filter(|search| !matches!(search.text(), "." | "")) {
        // Underscores are fine here, unlike in other names.
        if !names::dns_subdomain(&search.text().trim_end_matches('.').replace('_', "x")).is_empty() {
            let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with \
                        an alphanumeric character";
            causes.invalid(&search, rule);
        }
    }
    for option in config.get("options").items().filter(|option| option.get("name").text().is_empty()) {
        causes.required(&option, "must not be empty");
    }
}

fn pod_security(spec: &Part<'_, '_>, causes: &mut Causes) {
    let security = spec.get("securityContext");
    for group in security.get("supplementalGroups").items() {
        if group.number().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&group, "must be between 0 and 2147483647, inclusive");
        }
    }
    let mut known = Seen::default();
    for setting in security.get("sysctls").items() {
        let name = setting.get("name");
        let part = |part: &str| {
            let edge = |byte: Option<&u8>| {
                byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            };
            let bytes = part.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes
                    .iter()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte))
        };
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if name.text().len() > 253 || !name.text().split(['.', '/']).all(part) {
            let form = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.invalid(&name, &format!("must have at most 253 characters and match regex {form}"));
        } else if known.contains(&name.text()) {
            causes.duplicate(&name, &quoted(name.text()));
        }
        let host = |field: &'static str| spec.get(field).is_true();
        if host("hostIPC")
            && (name.text().starts_with("kernel.shm")
                || name.text().starts_with("kernel.msg")
                || name.text().starts_with("kernel.sem"))
        {
            causes.invalid(&name, "may not be specified when 'hostIPC' is true");
        }
        if host("hostNetwork") && name.text().starts_with("net.") {
            causes.invalid(&name, "may not be specified when 'hostNetwork' is true");
        }
        known.insert(name.text());
    }
    for (field, values) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["Recursive"]),
    ] {
        if security.get(field).is_set() {
            causes.one_of(&security.get(field), values);
        }
    }
    profiles(&security, causes);
    if spec.get("hostPID").is_true() && spec.get("shareProcessNamespace").is_true() {
        let said = security.pointer() / "shareProcessNamespace";
        causes
            .invalid_shown(&said, "true", "ShareProcessNamespace and HostPID cannot both be enabled")
            .pointer = spec.get("shareProcessNamespace").pointer();
    }
}

/// Checks the seccomp and AppArmor profiles of a pod or a container.
pub(super) fn profiles(security: &Part<'_, '_>, causes: &mut Causes) {
    const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    for (field, what) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let profile = security.get(field);
        if !profile.is_set() {
            continue;
        }
        let (kind, file) = (profile.get("type"), profile.get("localhostProfile"));
        if kind.text().is_empty() {
            causes.required(&kind, &format!("type is required when {field} is set"));
        } else {
            causes.one_of(&kind, &TYPES);
        }
        match (kind.text(), file.is_set()) {
            ("Localhost", false) => {
                _ = causes.required(&file, &format!("must be set when {what} type is Localhost"));
            }
            ("Localhost", true) if what == "seccomp" => volume::inner_path(&file, &file, causes),
            ("Localhost", true) if file.text().trim() != file.text() => {
                _ = causes.invalid(&file, "must not be padded with whitespace");
            }
            ("Localhost", _) | (_, false) => {}
            (_, true) => _ = causes.invalid(&file, &format!("can only be set when {what} type is Localhost")),
        }
    }
}

fn resource_claims<'a>(claims: &Part<'_, 'a>, causes: &mut Causes) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.get("name");
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if known.contains(&name.text()) {
            causes.duplicate(&name, &quoted(name.text()));
        } else {
            causes.invalid_each(&name, names::dns_label(name.text()));
            known.insert(name.text());
        }
        let sources = [claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")];
        match sources.iter().filter(|source| source.is_set()).count() {
            0 => causes.invalid_value(
                &claim,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            2 => causes.invalid_value(
                &claim,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            _ => {}
        }
        for source in sources.iter().filter(|source| source.is_set()) {
            causes.invalid_each(source, names::dns_subdomain(source.text()));
        }
    }
    known
}

fn containers(spec: &Part<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let main = spec.get("containers");
    if main.items().next().is_none() {
        causes.required(&main, "");
    }
    let mut known = Seen::default();
    let mut ports = Seen::default();
    for container in main.items() {
        common(&container, pod, causes);
        unique_name(&container, &mut known, causes);
        probes(&container, pod, causes);
        restart_policy(&container, causes);
        resize_policy(&container, spec.get("restartPolicy").text(), causes);
        unmasked(spec, &container, causes);
        host_ports(&container, &mut ports, causes);
    }
    for container in spec.get("initContainers").items() {
        common(&container, pod, causes);
        restart_policy(&container, causes);
        unique_name(&container, &mut known, causes);
        host_ports(&container, &mut Seen::default(), causes);
        if container.get("restartPolicy").text() == "Always" {
            probes(&container, pod, causes);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.get(field);
            if field.is_set() {
                causes.forbidden(&field, "may not be set for init containers without restartPolicy=Always");
            }
        }
    }
}

fn unique_name<'a>(container: &Part<'_, 'a>, known: &mut Seen<&'a str>, causes: &mut Causes) {
    let name = container.get("name");
    if known.contains(&name.text()) {
        causes.duplicate(&name, &quoted(name.text()));
    } else if !name.text().is_empty() {
        known.insert(name.text());
    }
}

pub(super) fn user_ids(security: &Part<'_, '_>, causes: &mut Causes) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let field = security.get(field);
        if field.number().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&field, "must be between 0 and 2147483647, inclusive");
        }
    }
}

fn spread(constraints: &Part<'_, '_>, causes: &mut Causes) {
    for (index, constraint) in constraints.items().enumerate() {
        let (skew, key, action) =
            (constraint.get("maxSkew"), constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        if skew.number().is_none_or(|skew| skew <= 0) {
            causes.invalid_number(&skew, skew.number().unwrap_or_default(), "must be greater than zero");
        }
        if key.text().is_empty() {
            causes.required(&key, "can not be empty");
        }
        causes.one_of(&action, &["DoNotSchedule", "ScheduleAnyway"]);
        let same = |other: &Part<'_, '_>| {
            other.get("topologyKey").text() == key.text()
                && other.get("whenUnsatisfiable").text() == action.text()
        };
        if constraints.items().skip(index + 1).any(|other| same(&other)) {
            let both = Pointer::key(&constraint.pointer(), "{topologyKey, whenUnsatisfiable}");
            causes.duplicate(&both, &quoted(&format!("{{{}, {}}}", key.text(), action.text())));
        }
        let domains = constraint.get("minDomains");
        if domains.number().is_some_and(|domains| domains <= 0) {
            causes.invalid(&domains, "must be greater than zero");
        }
        if domains.is_set() && action.text() != "DoNotSchedule" {
            causes.invalid(
                &domains,
                &format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", action.text()),
            );
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(policy);
            if policy.is_set() {
                causes.one_of(&policy, &["Honor", "Ignore"]);
            }
        }
        selector::label_keys(&constraint.get("matchLabelKeys"), &constraint.get("labelSelector"), causes);
        selector::label_selector(&constraint.get("labelSelector"), causes);
    }
}

fn host_users(spec: &Part<'_, '_>, causes: &mut Causes) {
    if spec.get("hostUsers").bool() != Some(false) {
        return;
    }
    for (field, said) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field).is_true() {
            causes.forbidden(&(spec.pointer() / said), "when `hostUsers` is false");
        }
    }
}

fn tolerations(tolerations: &Part<'_, '_>, causes: &mut Causes) {
    for toleration in tolerations.items() {
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| toleration.get(field));
        if key.text().is_empty() {
            if operator.text() != "Exists" {
                let rule = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                causes.invalid_text(&operator, operator.text(), rule);
            }
        } else {
            causes.invalid_each(&key, names::qualified_name(key.text()));
        }
        if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            causes.invalid_text(
                &effect,
                effect.text(),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator.text() {
            "" | "Equal" => {
                let messages = names::label_value(value.text());
                if !messages.is_empty() {
                    causes.invalid_text(&operator, value.text(), &messages.join(";")).pointer =
                        value.pointer();
                }
            }
            "Exists" => {
                if !value.text().is_empty() {
                    causes
                        .invalid_text(
                            &operator,
                            value.text(),
                            "value must be empty when `operator` is 'Exists'",
                        )
                        .pointer = value.pointer();
                }
            }
            "Lt" | "Gt" => {
                causes.unsupported(&operator, &quoted(operator.text()), &["Equal", "Exists", "Lt", "Gt"]);
            }
            _ => causes.one_of(&operator, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            causes.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}
