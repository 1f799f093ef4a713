//! Annotations of a pod template that the API server reads: profiles of containers, and what deleting a pod costs.

use std::collections::BTreeMap;

use super::cause::{CausePlace as _, Causes};
use super::object_part::ObjectPart;
use super::volume;
use crate::k8s::go::quoted;
use crate::kinds::TEMPLATE;

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What is before the name of a profile that is loaded on the node.
const LOCAL: &str = "localhost/";
/// The profile of the container runtime.
const RUNTIME: &str = "runtime/default";
/// The same for seccomp, as it was called.
const DOCKER: &str = "docker/default";
/// No profile.
const UNCONFINED: &str = "unconfined";

/// What is said of an annotation for a container that is not in the template.
pub(super) const NO_CONTAINER: &str = "container not found";

/// Checks the annotations of a pod template around the spec of the pod.
pub(super) fn check(annotations: &ObjectPart<'_, '_>, spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let mut profiles = Profiles::default();
    for (key, value) in annotations.entries() {
        if key == MIRROR && spec.get("nodeName").text().is_empty() {
            causes.invalid(&value, "must set spec.nodeName if mirror pod annotation is set");
        } else if key == DELETION_COST && !is_cost(value.text()) {
            causes.invalid(&value, "must be a 32bit integer");
        } else if key == SECCOMP_OF_POD {
            seccomp(&value, causes);
            let field = spec.at(&["securityContext", "seccompProfile"]);
            match_field("seccomp", value.text(), (&field, &field), causes);
        } else if let Some(container) = key.strip_prefix(SECCOMP_OF_CONTAINER) {
            seccomp(&value, causes);
            profiles.seccomp.insert(container, value);
        } else if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(&value, causes);
            profiles.app_armor.insert(container, value);
        }
    }
    if !profiles.seccomp.is_empty() || !profiles.app_armor.is_empty() {
        profiles.check(spec, causes);
    }
}

/// The annotations with profiles of containers, by the name of the container.
#[derive(Default)]
struct Profiles<'p, 'v> {
    seccomp: BTreeMap<&'v str, ObjectPart<'p, 'v>>,
    app_armor: BTreeMap<&'v str, ObjectPart<'p, 'v>>,
}

impl Profiles<'_, '_> {
    /// Checks that the containers are there, and have the same profiles in their fields, if they have any.
    fn check(&self, spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
        let is_windows = spec.at(&["os", "name"]).text() == "windows";
        let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
        let mut unknown = self.app_armor.clone();
        for list in TEMPLATE.containers {
            for container in spec.get(list.name).items() {
                let name = container.get("name").text();
                unknown.remove(name);
                if let Some(value) = self.seccomp.get(name) {
                    let field = container.at(&["securityContext", "seccompProfile"]);
                    match_field("seccomp", value.text(), (&field, &field), causes);
                }
                if let Some(value) = self.app_armor.get(name).filter(|_| !is_windows) {
                    let field = container.at(&["securityContext", "appArmorProfile"]);
                    let given = if field.is_set() { &field } else { &of_pod };
                    match_field("apparmor", value.text(), (&field, given), causes);
                }
            }
        }
        for (container, value) in unknown {
            causes.invalid_text(&value, container, NO_CONTAINER);
        }
    }
}

/// Compares an annotation with the profile that is given for a field.
fn match_field(
    what: &str,
    annotation: &str,
    (field, given): (&ObjectPart<'_, '_>, &ObjectPart<'_, '_>),
    causes: &mut Causes,
) {
    let local = annotation.strip_prefix(LOCAL);
    let differs = match given.get("type").text() {
        "Unconfined" if annotation != UNCONFINED => "type",
        "RuntimeDefault" if annotation != RUNTIME && (what != "seccomp" || annotation != DOCKER) => "type",
        "Localhost" if local.is_none() => "type",
        "Localhost" if local != Some(given.get("localhostProfile").text()) => "localhostProfile",
        _ => return,
    };
    let part = if differs == "type" { "type" } else { "profile" };
    let message = format!("{what} {part} in annotation and field must match");
    causes.forbidden(&field.get(differs), &message).pointer = given.get(differs).pointer();
}

/// Checks a seccomp profile.
fn seccomp(value: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let profile = value.text();
    let Some(path) = profile.strip_prefix(LOCAL) else {
        if ![RUNTIME, DOCKER, UNCONFINED].contains(&profile) {
            causes.invalid(value, "must be a valid seccomp profile");
        }
        return;
    };
    volume::relative(path, value, value, causes);
}

/// Checks an AppArmor profile.
fn app_armor(value: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let profile = value.text();
    if !["", RUNTIME, UNCONFINED].contains(&profile) && !profile.starts_with(LOCAL) {
        causes.invalid(value, &format!("invalid AppArmor profile name: {}", quoted(profile)));
    }
}

/// Tells whether the server reads a text as the cost of deleting a pod: as it writes numbers itself, but for zeros after a minus.
fn is_cost(text: &str) -> bool {
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    is_plain && text.parse::<i32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::api::defaults::stored;
    use crate::judge::api::validate::validate;
    use crate::text::value::{Value, json};

    /// The causes for a Job of a container `c` and an init container `i`, as `field: message` below the template.
    fn causes(annotations: &Value, container: &Value, pod: &Value) -> Vec<String> {
        let mut container = container.clone();
        crate::text::patch::merge(&mut container, &json!({"name": "c", "image": "i"}));
        let mut spec = json!({
            "restartPolicy": "Never", "containers": [container], "initContainers": [{"name": "i", "image": "i"}],
        });
        crate::text::patch::merge(&mut spec, pod);
        let template = json!({"metadata": {"annotations": annotations.clone()}, "spec": spec});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
        let found = validate(&stored(&job));
        let said = found.into_iter().map(|cause| format!("{}: {}", cause.path, cause.message));
        said.map(|said| said.replacen("spec.template.", "", 1)).collect()
    }

    /// What Kubernetes 1.37 says of them.
    #[test]
    fn annotations_are_read_as_the_server_reads_them() {
        let of = |key: &str, value: &str| causes(&json!({(key.to_owned()): value}), &json!({}), &json!({}));
        for value in ["0", "-0", "-05", "7", "-2147483648"] {
            assert_eq!(of(DELETION_COST, value), [""; 0], "{value}");
        }
        for value in ["", "-", "008", "+1", "1_0", "2147483648"] {
            let said =
                format!("annotations[{DELETION_COST}]: Invalid value: {value:?}: must be a 32bit integer");
            assert_eq!(of(DELETION_COST, value), [said], "{value}");
        }
        for (key, value, said) in [
            (SECCOMP_OF_POD, DOCKER, None),
            (SECCOMP_OF_POD, "default", Some("\"default\": must be a valid seccomp profile")),
            (SECCOMP_OF_POD, "localhost//a", Some("\"/a\": must be a relative path")),
            (SECCOMP_OF_POD, "localhost/../a", Some("\"../a\": must not contain '..'")),
            (&format!("{SECCOMP_OF_CONTAINER}other"), "x", Some("\"x\": must be a valid seccomp profile")),
            (&format!("{APP_ARMOR}c"), "", None),
            (&format!("{APP_ARMOR}i"), "localhost/x", None),
            (&format!("{APP_ARMOR}d"), RUNTIME, Some("\"d\": container not found")),
            (&format!("{APP_ARMOR}c"), "x", Some("\"x\": invalid AppArmor profile name: \"x\"")),
            (MIRROR, "x", Some("\"x\": must set spec.nodeName if mirror pod annotation is set")),
        ] {
            let said: Vec<String> =
                said.into_iter().map(|said| format!("annotations[{key}]: Invalid value: {said}")).collect();
            assert_eq!(of(key, value), said, "{key}: {value}");
        }
        let named = json!({"nodeName": "n"});
        assert_eq!(causes(&json!({(MIRROR.to_owned()): "x"}), &json!({}), &named), [""; 0]);
    }

    #[test]
    fn profiles_in_annotations_are_those_in_fields() {
        let profile = |field: &str, kind: &str, file: Option<&str>| match file {
            Some(file) => {
                json!({"securityContext": {(field.to_owned()): {"type": kind, "localhostProfile": file}}})
            }
            None => json!({"securityContext": {(field.to_owned()): {"type": kind}}}),
        };
        let armor = |value: &str| json!({(format!("{APP_ARMOR}c")): value});
        let (none, default) = (json!({}), profile("appArmorProfile", "RuntimeDefault", None));
        let at = "spec.containers[0].securityContext.appArmorProfile";
        let kind = format!("{at}.type: Forbidden: apparmor type in annotation and field must match");
        let file =
            format!("{at}.localhostProfile: Forbidden: apparmor profile in annotation and field must match");
        // The field of the pod counts for containers without one.
        assert_eq!(causes(&armor(UNCONFINED), &none, &default), [&*kind]);
        assert_eq!(causes(&armor(UNCONFINED), &default, &none), [&*kind]);
        assert_eq!(
            causes(&armor(UNCONFINED), &profile("appArmorProfile", "Unconfined", None), &default),
            [""; 0]
        );
        let local = profile("appArmorProfile", "Localhost", Some("a"));
        assert_eq!(causes(&armor(RUNTIME), &local, &none), [&*kind]);
        assert_eq!(causes(&armor("localhost/b"), &local, &none), [&*file]);
        assert_eq!(causes(&armor("localhost/a"), &local, &none), [""; 0]);
        let of_pod = json!({(SECCOMP_OF_POD.to_owned()): UNCONFINED});
        assert_eq!(
            causes(&of_pod, &none, &profile("seccompProfile", "RuntimeDefault", None)),
            [
                "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"
            ]
        );
        let docker = json!({(SECCOMP_OF_POD.to_owned()): DOCKER});
        assert_eq!(causes(&docker, &none, &profile("seccompProfile", "RuntimeDefault", None)), [""; 0]);
        let of_container = json!({(format!("{SECCOMP_OF_CONTAINER}c")): "localhost/a"});
        assert_eq!(
            causes(&of_container, &profile("seccompProfile", "Localhost", Some("b")), &none),
            [
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match"
            ]
        );
    }
}
