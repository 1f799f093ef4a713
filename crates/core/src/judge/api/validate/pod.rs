//! Pod templates.

use std::collections::{BTreeMap, BTreeSet};

use super::cause::Causes;
use super::container::{common, host_ports, resize_policy, restart_policy, unmasked};
use super::key_set::SeenValues;
use super::metadata::annotations;
use super::object_part::ObjectPart;
use super::probes::probes;
use super::scheduling::{spread, tolerations};
use super::security::{host_users, pod_security, user_ids};
use super::system::{host_process, system_options};
use super::{pod_annotations, resources, selector, volume};
use crate::k8s::go::quoted;
use crate::k8s::names;

/// What the containers of one pod have in common.
pub(super) struct Pod<'a> {
    /// Names of valid volumes, and whether each is a claim, which can be a block device.
    pub(super) volumes: BTreeMap<&'a str, bool>,
    /// Names of resource claims.
    pub(super) claims: BTreeSet<&'a str>,
    /// The termination grace period in seconds.
    pub(super) grace: Option<i64>,
}

pub(super) fn template(template: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let metadata = template.get("metadata");
    // The server names these places without `metadata`.
    causes.renamed(&metadata, template, |causes| {
        selector::labels(&metadata.get("labels"), causes);
        annotations(&metadata.get("annotations"), causes);
    });
    let pod = template.get("spec");
    spec(&pod, causes);
    // After the fields, since what is wrong with one comes before what it differs from.
    causes.renamed(&metadata, template, |causes| {
        pod_annotations::check(&metadata.get("annotations"), &pod, causes);
    });
    if pod.get("ephemeralContainers").items().next().is_some() {
        causes.forbidden(&pod.get("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

pub(super) fn spec(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let grace = spec.get("terminationGracePeriodSeconds");
    let volumes = volume::all(&spec.get("volumes"), causes);
    let claims = resource_claims(&spec.get("resourceClaims"), causes);
    let pod = Pod { volumes, claims, grace: grace.number() };
    containers(spec, &pod, causes);
    resources::of_pod(&spec.get("resources"), causes);
    resources::of_pod_and_containers(spec, causes);
    if spec.get("hostNetwork").is_true() {
        for container in spec.get("containers").items() {
            for port in container.get("ports").readable() {
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
    for gate in spec.get("readinessGates").readable() {
        causes.format(&gate.get("conditionType"), names::qualified_name);
    }
    let mut gates = SeenValues::default();
    causes.of_all_items(&spec.get("schedulingGates"), |gate, _, causes| {
        let name = gate.get("name").text();
        causes.invalid_texts(gate, name, names::qualified_name(name));
        if !gates.insert(name) {
            causes.duplicate(gate, &quoted(name));
        }
    });
    spread(&spec.get("topologySpreadConstraints"), causes);
    host_users(spec, causes);
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let field = spec.get(field);
        causes.format_if_set(&field, names::dns_subdomain);
    }
    let runtime = spec.get("runtimeClassName");
    if runtime.is_set() {
        causes.format(&runtime, names::dns_subdomain);
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.number().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        causes.invalid(&deadline, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        let field = spec.get(field);
        causes.format_if_set(&field, names::dns_label);
    }
    tolerations(&spec.get("tolerations"), causes);
    causes.of_items(&spec.get("hostAliases"), |alias, _, causes| {
        let ip = alias.get("ip");
        causes.format(&ip, names::ip_address);
        for host in alias.get("hostnames").items() {
            causes.format(&host, names::dns_subdomain);
        }
    });
    let preemption = spec.get("preemptionPolicy");
    if preemption.is_set() {
        causes.required_text(&preemption);
        if !preemption.text().is_empty() {
            causes.one_of(&preemption, &["PreemptLowerPriority", "Never"]);
        }
    }
    let system = spec.at(&["os", "name"]);
    if spec.get("os").is_set() {
        if system.text().is_empty() {
            causes.required(&system, "");
        } else {
            causes.renamed(&system, &spec.get("os"), |causes| causes.one_of(&system, &["linux", "windows"]));
        }
    }
    system_options(spec, causes);
    host_process(spec, causes);
    host_name(spec, causes);
    // Without a server it is not looked at any further.
    if dns.text() != "None" || config.get("nameservers").items().next().is_some() {
        dns_config(&config, causes);
    }
}

fn resource_claims<'a>(claims: &ObjectPart<'_, 'a>, causes: &mut Causes) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    causes.of_all_items(claims, |claim, _, causes| {
        let name = claim.get("name");
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if known.contains(&name.text()) {
            causes.duplicate(&name, &quoted(name.text()));
        } else {
            causes.format(&name, names::dns_label);
            known.insert(name.text());
        }
        let sources = [claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")];
        match sources.iter().filter(|source| source.is_set()).count() {
            0 => causes.invalid_value(
                claim,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            2 => causes.invalid_value(
                claim,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            _ => {}
        }
        for source in sources.iter().filter(|source| source.is_set()) {
            causes.format(source, names::dns_subdomain);
        }
    });
    known
}

fn containers(spec: &ObjectPart<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let main = spec.get("containers");
    if main.items().next().is_none() {
        causes.required(&main, "");
    }
    let mut known = SeenValues::default();
    let mut ports = SeenValues::default();
    causes.of_items(&main, |container, _, causes| {
        common(container, pod, causes);
        unique_name(container, &mut known, causes);
        probes(container, pod, causes);
        restart_policy(container, causes);
        resize_policy(container, spec.get("restartPolicy").text(), causes);
        unmasked(spec, container, causes);
        host_ports(container, &mut ports, causes);
    });
    causes.of_items(&spec.get("initContainers"), |container, _, causes| {
        common(container, pod, causes);
        restart_policy(container, causes);
        unique_name(container, &mut known, causes);
        resize_policy(container, spec.get("restartPolicy").text(), causes);
        unmasked(spec, container, causes);
        host_ports(container, &mut SeenValues::default(), causes);
        if container.get("restartPolicy").text() == "Always" {
            probes(container, pod, causes);
            return;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.get(field);
            if field.is_set() {
                causes.forbidden(&field, "may not be set for init containers without restartPolicy=Always");
            }
        }
        for item in container.get("resizePolicy").items() {
            let policy = item.get("restartPolicy");
            if policy.text() == "RestartContainer" {
                let message = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                causes.invalid(&policy, message);
            }
        }
    });
}

fn unique_name<'a>(container: &ObjectPart<'_, 'a>, known: &mut SeenValues<&'a str>, causes: &mut Causes) {
    let name = container.get("name");
    if known.contains(&name.text()) {
        causes.duplicate(&name, &quoted(name.text()));
    } else if !name.text().is_empty() {
        known.insert(name.text());
    }
}

fn host_name(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const MAX_BYTES: usize = 64;
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    causes.format(&name, names::dns_subdomain);
    if name.text().len() > MAX_BYTES {
        causes.too_long(&name, MAX_BYTES);
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(other).is_true() {
            causes.forbidden(&name, &format!("may not be specified when {other} is true"));
        }
    }
}

fn dns_config(config: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const MOST_OF_SEARCHES: usize = 2048;
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    for (list, most, what) in [(&servers, 3, "nameservers"), (&searches, 32, "search paths")] {
        if list.items().count() > most {
            causes.invalid_value(list, &format!("must not have more than {most} {what}"));
        }
    }
    for server in servers.items() {
        causes.format(&server, names::ip_address);
    }
    // With a space between two.
    let length: usize = searches.items().map(|search| search.text().len() + 1).sum();
    if length > MOST_OF_SEARCHES + 1 {
        let rule = "must not have more than 2048 characters (including spaces) in the search list";
        causes.invalid_value(&searches, rule);
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        causes.invalid_texts(&search, name, names::search_domain(name));
    }
    for option in config.get("options").items().filter(|option| option.get("name").text().is_empty()) {
        causes.required(&option, "must not be empty");
    }
}
