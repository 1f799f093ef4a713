//! Fields that depend on the operating system, and Windows host processes.

use super::cause::{CausePlace as _, Causes};
use super::object_part::ObjectPart;

/// Checks that fields of the other operating system are not set.
pub(super) fn system_options(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
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
            let mut check = |context: &ObjectPart<'_, '_>| {
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
            let mut forbid = |around: &ObjectPart<'_, '_>, fields: &[&'static str]| {
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
fn lists_of<'s, 'v>(spec: &'s ObjectPart<'_, 'v>) -> [ObjectPart<'s, 'v>; 2] {
    [spec.get("initContainers"), spec.get("containers")]
}

/// Checks that all containers of a pod, or none, are Windows host processes in the host network.
pub(super) fn host_process(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const PROCESS: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];
    let pod = spec.at(&PROCESS).bool();
    let (mut containers, mut processes) = (0, 0);
    let lists = lists_of(spec);
    for container in lists.iter().flat_map(ObjectPart::items) {
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
