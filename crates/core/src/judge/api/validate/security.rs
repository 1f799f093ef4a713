//! Security contexts: users, sysctls, seccomp and AppArmor profiles.

use super::cause::{CausePlace as _, Causes};
use super::key_set::SeenValues;
use super::object_part::ObjectPart;
use super::volume;
use crate::k8s::go::quoted;
use crate::kinds::TEMPLATE;

pub(super) fn pod_security(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let security = spec.get("securityContext");
    for group in security.get("supplementalGroups").items() {
        if group.number().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&group, "must be between 0 and 2147483647, inclusive");
        }
    }
    let mut known = SeenValues::default();
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
        let shared = shared_by(name.text());
        if let Some(host) = shared.filter(|host| spec.get(host).is_true()) {
            causes.invalid(&name, &format!("may not be specified when '{host}' is true"));
        }
        known.insert(name.text());
    }
    for (field, values) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
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

/// Returns the field with which a pod shares the namespace of a sysctl with its node. The parts of the name may be separated by
/// slashes.
fn shared_by(name: &str) -> Option<&'static str> {
    const OF_MEMORY: [&str; 10] = [
        "kernel.msg",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.sem",
        "kernel.shm",
        "kernel.shm_rmid_forced",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
    ];
    let has_slashes = name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/'));
    let name = if has_slashes { name.replace('.', "-").replace('/', ".") } else { name.to_owned() };
    if OF_MEMORY.contains(&&*name) || name.starts_with("fs.mqueue.") {
        Some("hostIPC")
    } else {
        name.starts_with("net.").then_some("hostNetwork")
    }
}

pub(super) fn host_users(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if spec.get("hostUsers").bool() != Some(false) {
        return;
    }
    for (field, said) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field).is_true() {
            causes.forbidden(&(spec.pointer() / said), "when `hostUsers` is false");
        }
    }
    for list in TEMPLATE.containers {
        for container in spec.get(list.name).items() {
            let devices = container.get("volumeDevices");
            if devices.items().next().is_some() {
                causes.forbidden(&devices, "when `hostUsers` is false");
            }
        }
    }
}

/// Checks the seccomp and AppArmor profiles of a pod or a container.
pub(super) fn profiles(security: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    const MOST_OF_FILE: usize = 4095;
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
            ("Localhost", true) if file.text().is_empty() => {
                _ = causes.required(&file, &format!("must be set when {what} type is Localhost"));
            }
            ("Localhost", true) if file.text().len() > MOST_OF_FILE => causes.too_long(&file, MOST_OF_FILE),
            ("Localhost", _) | (_, false) => {}
            (_, true) => _ = causes.invalid(&file, &format!("can only be set when {what} type is Localhost")),
        }
    }
}

pub(super) fn user_ids(security: &ObjectPart<'_, '_>, causes: &mut Causes) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let field = security.get(field);
        if field.number().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            causes.invalid(&field, "must be between 0 and 2147483647, inclusive");
        }
    }
}
