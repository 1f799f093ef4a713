//! Volumes of a pod.

use super::cause::{Causes, number, set, text};
use super::{container, selector};
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::k8s::quantity::Quantity;
use crate::pointer::Pointer;
use crate::workload::Part;

/// All kinds of volumes, in the order in which the server looks for them, with its name for a second one where that differs.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Checks the volumes, and returns the names of the sound ones: mounts of any other are not found. The flag marks those that can be block devices.
pub(super) fn all<'a>(volumes: &Part<'a>, causes: &mut Causes) -> Vec<(&'a str, bool)> {
    let mut known: Vec<(&str, bool)> = Vec::new();
    for volume in volumes.items() {
        let before = causes.len();
        source(&volume, causes);
        let name = volume.get("name");
        if text(&name).is_empty() {
            causes.required(&name.pointer, "");
        } else {
            causes.invalid_each(&name, names::dns_label(text(&name)));
        }
        if known.iter().any(|(other, _)| *other == text(&name)) {
            causes.duplicate(&name.pointer, &quoted(text(&name)));
        }
        if causes.len() == before {
            known.push((text(&name), set(&volume.get("persistentVolumeClaim")) || set(&volume.get("ephemeral"))));
        }
    }
    known
}

fn source(volume: &Part<'_>, causes: &mut Causes) {
    let mut first = None;
    for (kind, said) in SOURCES {
        let source = volume.get(kind);
        if !set(&source) {
            continue;
        }
        if first.is_some() {
            causes.forbidden(&(&volume.pointer / said), "may not specify more than 1 volume type");
        } else {
            first = Some(kind);
            of_kind(kind, &source, causes);
        }
    }
    if first.is_none() {
        causes.required(&volume.pointer, "must specify a volume type");
    }
}

/// Says that fields are missing.
fn need(source: &Part<'_>, fields: &[&'static str], causes: &mut Causes) {
    for field in fields {
        let field = source.get(field);
        if text(&field).is_empty() {
            causes.required(&field.pointer, "");
        }
    }
}

fn of_kind(kind: &str, source: &Part<'_>, causes: &mut Causes) {
    match kind {
        "emptyDir" => {
            let limit = source.get("sizeLimit");
            if limit.value.and_then(|value| Quantity::from_json(value).ok()).is_some_and(|limit| limit.is_negative()) {
                causes.forbidden(&limit.pointer, "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => {
            need(source, &["path"], causes);
            no_steps_up(&source.get("path"), &source.get("path").pointer, causes);
            let known = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            if set(&source.get("type")) {
                causes.one_of(&source.get("type"), &known);
            }
        }
        "secret" => {
            need(source, &["secretName"], causes);
            files(source, causes);
        }
        "configMap" => {
            need(source, &["name"], causes);
            files(source, causes);
        }
        "nfs" => {
            need(source, &["server", "path"], causes);
            let path = source.get("path");
            if !text(&path).starts_with('/') {
                causes.invalid_text(&path.pointer, text(&path), "must be an absolute path");
            }
        }
        "persistentVolumeClaim" => need(source, &["claimName"], causes),
        "csi" => {
            need(source, &["driver"], causes);
            let driver = source.get("driver");
            if !text(&driver).is_empty() {
                if text(&driver).len() > 63 {
                    causes.too_long(&driver.pointer, 63);
                }
                causes.invalid_each(&driver, names::dns_subdomain(&text(&driver).to_lowercase()));
            }
            let secret = source.get("nodePublishSecretRef");
            if set(&secret) {
                need(&secret, &["name"], causes);
            }
        }
        "downwardAPI" => {
            mode(&source.get("defaultMode"), causes);
            for item in source.get("items").items() {
                // The server leaves the item out.
                let before = causes.len();
                pod_field_file(&item, causes);
                causes.rename_since(before, &item.pointer, &source.pointer);
            }
        }
        "projected" => {
            projected(source, causes);
            no_path_twice(source, causes);
        }
        "ephemeral" => ephemeral(source, causes),
        "gitRepo" => need(source, &["repository"], causes),
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => need(source, &["volumeID"], causes),
        "azureFile" => need(source, &["secretName", "shareName"], causes),
        "image" => {
            causes.one_of(&source.get("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
        }
        "iscsi" => need(source, &["targetPortal", "iqn"], causes),
        "rbd" => {
            need_list(source, "monitors", causes);
            need(source, &["image"], causes);
        }
        "cephfs" => need_list(source, "monitors", causes),
        "fc" => {
            let (names, ids) = (source.get("targetWWNs"), source.get("wwids"));
            let (named, listed) = (names.items().next().is_some(), ids.items().next().is_some());
            let rule = "must specify either targetWWNs or wwids, but not both";
            match (named, listed) {
                (false, false) => _ = causes.required(&names.pointer, rule),
                (true, true) => causes.invalid_value(&names, rule),
                _ => {}
            }
            if named && !set(&source.get("lun")) {
                causes.required(&source.get("lun").pointer, "lun is required if targetWWNs is specified");
            }
        }
        "azureDisk" => need(source, &["diskName", "diskURI"], causes),
        "gcePersistentDisk" => {
            let name = source.get("pdName");
            if text(&name).is_empty() {
                // The server calls the volume by another name here.
                let said = source.pointer.parent().unwrap_or_default();
                causes.required(&(&(&said / "persistentDisk") / "pdName"), "").pointer = name.pointer;
            }
        }
        "glusterfs" => need(source, &["endpoints", "path"], causes),
        "flexVolume" => need(source, &["driver"], causes),
        "vsphereVolume" => need(source, &["volumePath"], causes),
        "photonPersistentDisk" => need(source, &["pdID"], causes),
        "storageos" => need(source, &["volumeName"], causes),
        "scaleIO" => need(source, &["gateway", "system", "volumeName"], causes),
        "quobyte" => {
            let registry = source.get("registry");
            if text(&registry).is_empty() {
                causes.required(&registry.pointer, "must be a host:port pair or multiple pairs separated by commas");
            }
            need(source, &["volume"], causes);
        }
        "flocker" if text(&source.get("datasetName")).is_empty() && text(&source.get("datasetUUID")).is_empty() => {
            causes.required(&source.pointer, "one of datasetName and datasetUUID is required");
        }
        _ => {}
    }
}

fn need_list(source: &Part<'_>, field: &'static str, causes: &mut Causes) {
    let list = source.get(field);
    if list.items().next().is_none() {
        causes.required(&list.pointer, "");
    }
}

fn mode(mode: &Part<'_>, causes: &mut Causes) {
    if number(mode).is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        causes.invalid(mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Checks the keys that a config map or a secret shows as files.
fn files(source: &Part<'_>, causes: &mut Causes) {
    mode(&source.get("defaultMode"), causes);
    for item in source.get("items").items() {
        need(&item, &["key", "path"], causes);
        file_path(&item.get("path"), causes);
        mode(&item.get("mode"), causes);
    }
}

fn file_path(path: &Part<'_>, causes: &mut Causes) {
    inner_path(path, &path.pointer, causes);
    if text(path).starts_with("..") && !text(path).starts_with("../") {
        causes.invalid(path, "must not start with '..'");
    }
}

/// Checks a path that must stay inside the volume; the server may name another place than the field's own.
pub(super) fn inner_path(path: &Part<'_>, said: &Pointer, causes: &mut Causes) {
    if text(path).starts_with('/') {
        causes.invalid_text(said, text(path), "must be a relative path").pointer = path.pointer.clone();
    }
    no_steps_up(path, said, causes);
}

fn no_steps_up(path: &Part<'_>, said: &Pointer, causes: &mut Causes) {
    if text(path).split('/').any(|step| step == "..") {
        causes.invalid_text(said, text(path), "must not contain '..'").pointer = path.pointer.clone();
    }
}

fn pod_field_file(item: &Part<'_>, causes: &mut Causes) {
    const FIELDS: [&str; 5] = ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    need(item, &["path"], causes);
    file_path(&item.get("path"), causes);
    let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
    match (set(&field), set(&resource)) {
        (true, both) => {
            container::field_ref(&field, &FIELDS, causes);
            if both {
                causes.invalid_text(&item.pointer, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
        }
        (false, true) => container::resource_ref(&resource, true, causes),
        (false, false) => _ = causes.required(&item.pointer, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(&item.get("mode"), causes);
}

fn projected(source: &Part<'_>, causes: &mut Causes) {
    mode(&source.get("defaultMode"), causes);
    for part in source.get("sources").items() {
        for kind in ["secret", "configMap"] {
            if set(&part.get(kind)) {
                need(&part.get(kind), &["name"], causes);
                files(&part.get(kind), causes);
            }
        }
        for item in part.at(&["downwardAPI", "items"]).items() {
            pod_field_file(&item, causes);
        }
        let token = part.get("serviceAccountToken");
        if set(&token) {
            let seconds = token.get("expirationSeconds");
            if number(&seconds).is_some_and(|seconds| seconds < 600) {
                causes.invalid(&seconds, "may not specify a duration less than 10 minutes");
            }
            if number(&seconds).is_some_and(|seconds| seconds > 1 << 32) {
                causes.invalid(&seconds, "may not specify a duration larger than 2^32 seconds");
            }
            let said = &source.pointer / "path";
            if text(&token.get("path")).is_empty() {
                causes.required(&said, "").pointer = token.get("path").pointer;
            }
            inner_path(&token.get("path"), &said, causes);
        }
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        if kinds.into_iter().filter(|kind| set(&part.get(kind))).count() > 1 {
            causes.forbidden(&part.pointer, "may not specify more than 1 volume type per source");
        }
    }
}

/// Two sources of one volume must not show a file at the same path.
fn no_path_twice(source: &Part<'_>, causes: &mut Causes) {
    let mut known: Vec<&str> = Vec::new();
    for part in source.get("sources").items() {
        for kind in ["secret", "configMap"] {
            let files = part.get(kind);
            for item in files.get("items").items() {
                let path = item.get("path");
                if !text(&path).is_empty() && known.contains(&text(&path)) {
                    let name = text(&files.get("name"));
                    causes.invalid_text(&source.pointer, name, "conflicting duplicate paths").pointer = path.pointer.clone();
                }
                known.push(text(&path));
            }
        }
    }
}

/// Checks what the first content of a volume is to be: a claim, or something of a group of its own.
fn data_source(source: &Part<'_>, causes: &mut Causes) {
    if !set(source) {
        return;
    }
    need(source, &["name", "kind"], causes);
    let (group, kind) = (source.get("apiGroup"), source.get("kind"));
    if !text(&group).is_empty() {
        causes.invalid_each(&group, names::dns_subdomain(text(&group)));
    } else if text(&kind) != "PersistentVolumeClaim" {
        causes.invalid_text(&source.pointer, text(&kind), "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
}

fn ephemeral(source: &Part<'_>, causes: &mut Causes) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let template = source.get("volumeClaimTemplate");
    if !set(&template) {
        causes.required(&template.pointer, "");
        return;
    }
    let spec = template.get("spec");
    let modes = spec.get("accessModes");
    if modes.items().next().is_none() {
        causes.required(&modes.pointer, "at least 1 access mode is required");
    }
    selector::label_selector(&spec.get("selector"), causes);
    for mode in modes.items() {
        if !MODES.contains(&text(&mode)) {
            causes.unsupported(&modes.pointer, &quoted(text(&mode)), &MODES);
        }
    }
    let alone = |mode: &Part<'_>| text(mode) == "ReadWriteOncePod";
    if modes.items().any(|mode| alone(&mode)) && modes.items().any(|mode| !alone(&mode) && MODES.contains(&text(&mode))) {
        causes.forbidden(&modes.pointer, "may not use ReadWriteOncePod with other access modes");
    }
    let (data, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    data_source(&data, causes);
    data_source(&reference, causes);
    if set(&data) && set(&reference) && data.value != reference.value {
        causes.invalid_shown(&spec.pointer, "{}", "must match dataSourceRef");
    }
    let storage = spec.at(&["resources", "requests", "storage"]);
    let said = (&spec.pointer / "resources").key("storage");
    match storage.value.and_then(|value| Quantity::from_json(value).ok()) {
        None if !set(&storage) => {
            // The server names what is missing otherwise than what is wrong.
            let said = spec.pointer.key("resources[storage]");
            causes.required(&said, "").pointer = spec.get("resources").pointer;
        }
        Some(amount) if !amount.is_positive() => {
            causes.invalid_shown(&said, &quoted(&amount.canonical()), "must be greater than zero").pointer = storage.pointer;
        }
        _ => {}
    }
    let class = spec.get("storageClassName");
    if !text(&class).is_empty() {
        causes.invalid_each(&class, names::dns_subdomain(text(&class)));
    }
    let mode = spec.get("volumeMode");
    if set(&mode) {
        causes.one_of(&mode, &["Block", "Filesystem"]);
    }
}
