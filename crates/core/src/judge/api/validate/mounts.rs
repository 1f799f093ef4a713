//! Mounts of volumes, and volumes as block devices.

use std::collections::BTreeMap;

use super::cause::Causes;
use super::key_set::SeenValues;
use super::object_part::ObjectPart;
use super::pod::Pod;
use super::volume;

pub(super) fn mounts(container: &ObjectPart<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let (list, devices) = (container.get("volumeMounts"), container.get("volumeDevices"));
    let privileged = container.at(&["securityContext", "privileged"]).is_true();
    let devices_with = |field: &'static str| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        devices.items().for_each(|device| *counts.entry(device.get(field).text()).or_default() += 1);
        counts
    };
    let (device_names, device_paths) = (devices_with("name"), devices_with("devicePath"));
    let mut paths = SeenValues::default();
    causes.of_all_items(&list, |mount, _, causes| {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        causes.required_text(&name);
        if !pod.volumes.contains_key(name.text()) {
            causes.not_found(&name, name.text(), "");
        }
        causes.required_text(&path);
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
        // The server omits the index of the mount here.
        volume::inner_path(&sub, &list.get("subPath"), causes);
        if !expression.text().is_empty() {
            if !sub.text().is_empty() {
                causes.invalid(&expression, "subPathExpr and subPath are mutually exclusive");
            }
            volume::inner_path(&expression, &list.get("subPathExpr"), causes);
        }
        let propagation = mount.get("mountPropagation");
        if propagation.is_set() {
            causes.renamed(mount, &list, |causes| {
                causes.one_of(&propagation, &["Bidirectional", "HostToContainer", "None"]);
                if propagation.text() == "Bidirectional" && !privileged {
                    causes.forbidden(
                        &propagation,
                        "Bidirectional mount propagation is available only to privileged containers",
                    );
                }
            });
        }
        let recursive = mount.get("recursiveReadOnly");
        if recursive.is_set() {
            causes.renamed(mount, &list, |causes| {
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
            });
        }
    });
    let (mut names, mut places) = (SeenValues::default(), SeenValues::default());
    causes.of_all_items(&devices, |device, _, causes| {
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
        causes.required_text(&name);
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
        causes.required_text(&path);
    });
}
