//! Containers: fields, ports and restart policy.

use super::cause::{CausePlace as _, Causes};
use super::key_set::SeenValues;
use super::object_part::ObjectPart;
use super::pod::Pod;
use super::security::{profiles, user_ids};
use super::{env, mounts, resources};
use crate::k8s::go::quoted;
use crate::k8s::names;

/// Checks the fields that all containers have.
pub(super) fn common(container: &ObjectPart<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let (name, image) = (container.get("name"), container.get("image"));
    causes.required_format(&name, names::dns_label);
    causes.required_text(&image);
    // A container that is null has no defaults to check.
    if container.is_mapping() {
        causes.one_of(&container.get("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
        causes.one_of(&container.get("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    }
    container_ports(&container.get("ports"), causes);
    env::variables(&container.get("env"), pod, causes);
    env::variables_from(&container.get("envFrom"), causes);
    mounts::mounts(container, pod, causes);
    resources::of_container(&container.get("resources"), &pod.claims, causes);
    let security = container.get("securityContext");
    user_ids(&security, causes);
    profiles(&security, causes);
    causes.one_of_if_set(&security.get("procMount"), &["Default", "Unmasked"]);
    let account = security.at(&["windowsOptions", "gmsaCredentialSpecName"]);
    if account.is_set() {
        causes.format(&account, names::dns_subdomain);
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

/// Checks the resize policy; `restart` is the restart policy of the pod.
pub(super) fn resize_policy(container: &ObjectPart<'_, '_>, restart: &str, causes: &mut Causes) {
    let list = container.get("resizePolicy");
    let mut known = SeenValues::default();
    causes.of_all_items(&list, |item, _, causes| {
        let (resource, policy) = (item.get("resourceName"), item.get("restartPolicy"));
        if !known.insert(resource.text()) {
            causes.duplicate(item, &quoted(resource.text()));
        }
        // The server names the list.
        for (field, known) in [(&resource, ["cpu", "memory"]), (&policy, ["NotRequired", "RestartContainer"])]
        {
            if field.text().is_empty() {
                causes.required(&list, "").pointer = field.pointer();
            } else {
                causes.one_of_at(&list, field, &known);
            }
        }
        if restart == "Never" && policy.text() != "NotRequired" {
            let message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            causes.invalid_at(&list, &policy, message);
        }
    });
}

/// `procMount: Unmasked` requires a user namespace.
pub(super) fn unmasked(pod: &ObjectPart<'_, '_>, container: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let mount = container.at(&["securityContext", "procMount"]);
    if mount.text() == "Unmasked" && pod.get("hostUsers").bool() != Some(false) {
        causes.invalid(&mount, "`hostUsers` must be false to use `Unmasked`");
    }
}

pub(super) fn restart_policy(container: &ObjectPart<'_, '_>, causes: &mut Causes) {
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

pub(super) fn port_number(field: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let number = field.number().unwrap_or_default();
    if field.value.is_none_or(|value| value.as_str().is_none()) && !(1..=65535).contains(&number) {
        causes.invalid_number(field, number, "must be between 1 and 65535, inclusive");
    }
}

fn container_ports(ports: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let mut known = SeenValues::default();
    causes.of_items(ports, |port, _, causes| {
        let (name, inner, outer) = (port.get("name"), port.get("containerPort"), port.get("hostPort"));
        if !name.text().is_empty() {
            let messages = names::port_name(name.text());
            if !known.insert(name.text()) && messages.is_empty() {
                causes.duplicate(&name, &quoted(name.text()));
            }
            causes.invalid_texts(&name, name.text(), messages);
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
    });
}

pub(super) fn host_ports(
    container: &ObjectPart<'_, '_>,
    known: &mut SeenValues<String>,
    causes: &mut Causes,
) {
    for port in container.get("ports").readable() {
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
