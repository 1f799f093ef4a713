//! Volumes of a pod.

use std::collections::BTreeMap;

use super::cause::{CausePlace, Causes};
use super::key_set::SeenValues;
use super::metadata::annotations;
use super::object_part::ObjectPart;
use super::{env, selector};
use crate::k8s::go::quoted;
use crate::k8s::names;

/// All kinds of volumes, in the order of the server, with the name in its error for a second one.
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

/// Checks the volumes, and returns the names of the valid ones: mounts of any other are not found. The flag
/// marks those that can be block devices.
pub(super) fn all<'a>(volumes: &ObjectPart<'_, 'a>, causes: &mut Causes) -> BTreeMap<&'a str, bool> {
    let mut known = BTreeMap::new();
    causes.of_items(volumes, |volume, _, causes| {
        let before = causes.len();
        source(volume, causes);
        let name = volume.get("name");
        causes.required_format(&name, names::dns_label);
        if known.contains_key(name.text()) {
            causes.duplicate(&name, &quoted(name.text()));
        }
        if causes.len() == before {
            known.insert(
                name.text(),
                volume.get("persistentVolumeClaim").is_set() || volume.get("ephemeral").is_set(),
            );
        }
    });
    known
}

fn source(volume: &ObjectPart<'_, '_>, causes: &mut Causes) {
    // Iterate over the fields of the volume, which are few, not over all kinds.
    let set = volume.entries().filter(|(_, source)| source.is_set());
    let mut kinds: Vec<usize> =
        set.filter_map(|(field, _)| SOURCES.iter().position(|(kind, _)| *kind == field)).collect();
    kinds.sort_unstable();
    let Some((first, more)) = kinds.split_first() else {
        causes.required(volume, "must specify a volume type");
        return;
    };
    let (kind, _) = SOURCES[*first];
    of_kind(kind, &volume.get(kind), causes);
    for (kind, said) in more.iter().map(|kind| SOURCES[*kind]) {
        causes.forbidden(&volume.get(kind), "may not specify more than 1 volume type").path =
            volume.pointer() / said;
    }
}

/// Reports missing fields.
fn need(source: &ObjectPart<'_, '_>, fields: &[&'static str], causes: &mut Causes) {
    for field in fields {
        let field = source.get(field);
        causes.required_text(&field);
    }
}

/// The required fields of sources that have no other validation.
const NEEDED: [(&str, &[&str]); 14] = [
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("gitRepo", &["repository"]),
    ("glusterfs", &["endpoints", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

fn of_kind(kind: &str, source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    match kind {
        "emptyDir" => {
            let limit = source.get("sizeLimit");
            if limit.value.and_then(|value| value.quantity().ok()).is_some_and(|limit| limit.is_negative()) {
                causes.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(source, causes),
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
            if !path.text().starts_with('/') {
                causes.invalid_text(&path, path.text(), "must be an absolute path");
            }
        }
        "csi" => csi(source, causes),
        "downwardAPI" => {
            mode(&source.get("defaultMode"), causes);
            pod_fields(source, causes);
        }
        "projected" => {
            projected(source, causes);
            no_path_twice(source, causes);
        }
        "ephemeral" => ephemeral(source, causes),
        "image" => {
            need(source, &["reference"], causes);
            causes.one_of(&source.get("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
        }
        "rbd" => {
            need_list(source, "monitors", causes);
            need(source, &["image"], causes);
        }
        "cephfs" => need_list(source, "monitors", causes),
        "fc" => fibre_channel(source, causes),
        "gcePersistentDisk" => {
            let name = source.get("pdName");
            if name.text().is_empty() {
                // The server uses another name here.
                let said = source.pointer().parent().unwrap_or_default();
                causes.required(&(&(&said / "persistentDisk") / "pdName"), "").pointer = name.pointer();
            }
        }
        "quobyte" => {
            let registry = source.get("registry");
            if registry.text().is_empty() {
                causes.required(&registry, "must be a host:port pair or multiple pairs separated by commas");
            }
            need(source, &["volume"], causes);
        }
        "flocker"
            if source.get("datasetName").text().is_empty() && source.get("datasetUUID").text().is_empty() =>
        {
            causes.required(source, "one of datasetName and datasetUUID is required");
        }
        other => {
            let fields =
                NEEDED.iter().find(|(kind, _)| *kind == other).map_or(&[][..], |(_, fields)| *fields);
            need(source, fields, causes);
        }
    }
}

fn host_path(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    need(source, &["path"], causes);
    if source.get("path").text().is_empty() {
        return;
    }
    no_steps_up(source.get("path").text(), &source.get("path"), &source.get("path"), causes);
    let known =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    causes.one_of_if_set(&source.get("type"), &known);
}

fn fibre_channel(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let (names, ids) = (source.get("targetWWNs"), source.get("wwids"));
    let (named, listed) = (names.items().next().is_some(), ids.items().next().is_some());
    let rule = "must specify either targetWWNs or wwids, but not both";
    match (named, listed) {
        (false, false) => _ = causes.required(&names, rule),
        (true, true) => causes.invalid_value(&names, rule),
        _ => {}
    }
    if named && !source.get("lun").is_set() {
        causes.required(&source.get("lun"), "lun is required if targetWWNs is specified");
    }
}

fn csi(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    need(source, &["driver"], causes);
    let driver = source.get("driver");
    if !driver.text().is_empty() {
        if driver.text().len() > 63 {
            causes.too_long(&driver, 63);
        }
        causes.invalid_texts(&driver, driver.text(), names::dns_subdomain(&driver.text().to_lowercase()));
    }
    let secret = source.get("nodePublishSecretRef");
    if secret.is_set() {
        need(&secret, &["name"], causes);
    }
}

fn need_list(source: &ObjectPart<'_, '_>, field: &'static str, causes: &mut Causes) {
    let list = source.get(field);
    if list.items().next().is_none() {
        causes.required(&list, "");
    }
}

fn mode(mode: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if mode.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        causes.invalid(mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Checks the keys of a config map or secret that are files.
fn files(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    mode(&source.get("defaultMode"), causes);
    for item in source.get("items").readable() {
        need(&item, &["key", "path"], causes);
        file_path(&item.get("path"), &item.get("path"), causes);
        mode(&item.get("mode"), causes);
    }
}

/// Checks the path of a file that Kubernetes writes; the server may name another place than the field.
fn file_path(path: &ObjectPart<'_, '_>, said: &dyn CausePlace, causes: &mut Causes) {
    inner_path(path, said, causes);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        causes.invalid_text(said, path.text(), "must not start with '..'").pointer = path.pointer();
    }
}

/// Checks a path inside the volume; the server may name another place than the field.
pub(super) fn inner_path(path: &ObjectPart<'_, '_>, said: &dyn CausePlace, causes: &mut Causes) {
    relative(path.text(), path, said, causes);
}

/// Checks a path that is all of a field, or a part of it.
pub(super) fn relative(path: &str, field: &ObjectPart<'_, '_>, said: &dyn CausePlace, causes: &mut Causes) {
    if path.starts_with('/') {
        causes.invalid_text(said, path, "must be a relative path").pointer = field.pointer();
    }
    no_steps_up(path, field, said, causes);
}

fn no_steps_up(path: &str, field: &ObjectPart<'_, '_>, said: &dyn CausePlace, causes: &mut Causes) {
    if path.split('/').any(|step| step == "..") {
        causes.invalid_text(said, path, "must not contain '..'").pointer = field.pointer();
    }
}

/// Checks the fields of the pod that are files.
fn pod_fields(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    for item in source.get("items").items() {
        // The server omits the item.
        causes.renamed(&item, source, |causes| pod_field_file(&item, causes));
    }
}

fn pod_field_file(item: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const FIELDS: [&str; 5] =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    need(item, &["path"], causes);
    file_path(&item.get("path"), &item.get("path"), causes);
    let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            env::field_ref(&field, &FIELDS, causes);
            if both {
                causes.invalid_text(
                    item,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        }
        (false, true) => env::resource_ref(&resource, true, causes),
        (false, false) => _ = causes.required(item, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(&item.get("mode"), causes);
}

fn projected(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    mode(&source.get("defaultMode"), causes);
    for part in source.get("sources").readable() {
        for kind in ["secret", "configMap"] {
            if part.get(kind).is_set() {
                need(&part.get(kind), &["name"], causes);
                files(&part.get(kind), causes);
            }
        }
        pod_fields(&part.get("downwardAPI"), causes);
        let token = part.get("serviceAccountToken");
        if token.is_set() {
            let seconds = token.get("expirationSeconds");
            if seconds.number().is_some_and(|seconds| seconds < 600) {
                causes.invalid(&seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds.number().is_some_and(|seconds| seconds > 1 << 32) {
                causes.invalid(&seconds, "may not specify a duration larger than 2^32 seconds");
            }
            let said = source.get("path");
            if token.get("path").text().is_empty() {
                causes.required(&said, "").pointer = token.get("path").pointer();
            }
            file_path(&token.get("path"), &said, causes);
        }
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        if kinds.into_iter().filter(|kind| part.get(kind).is_set()).count() > 1 {
            causes.forbidden(&part, "may not specify more than 1 volume type per source");
        }
    }
}

/// Two sources of a volume must not have the same path. Ignores tokens.
fn no_path_twice(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let mut known = SeenValues::default();
    for part in source.get("sources").items() {
        for kind in ["secret", "configMap", "downwardAPI"] {
            let files = part.get(kind);
            for item in files.get("items").items() {
                let path = item.get("path");
                if !known.insert(path.text()) && !path.text().is_empty() {
                    // The server shows the name, if there is one.
                    let said = if kind == "downwardAPI" { path.text() } else { files.get("name").text() };
                    causes.invalid_text(source, said, "conflicting duplicate paths").pointer = path.pointer();
                }
            }
        }
    }
}

/// Checks the data source of a volume.
fn data_source(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if !source.is_set() {
        return;
    }
    need(source, &["name", "kind"], causes);
    let (group, kind) = (source.get("apiGroup"), source.get("kind"));
    if !group.text().is_empty() {
        causes.format(&group, names::dns_subdomain);
    } else if kind.text() != "PersistentVolumeClaim" {
        causes.invalid_text(
            source,
            kind.text(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    }
}

/// Checks the metadata of a claim that Kubernetes names.
fn claim_metadata(metadata: &ObjectPart<'_, '_>, causes: &mut Causes) {
    annotations(&metadata.get("annotations"), causes);
    selector::labels(&metadata.get("labels"), causes);
    let is_zero = |field: &ObjectPart<'_, '_>| {
        let is_empty = field.value.is_some_and(|value| value.as_str() == Some(""));
        !field.is_set() || is_empty || field.number() == Some(0)
    };
    for (name, field) in metadata.entries() {
        if ["annotations", "labels"].contains(&name) || is_zero(&field) {
            continue;
        }
        // The server makes its names from those in Go.
        let said = if name == "uid" { "uID" } else { name };
        causes.forbidden(&metadata.pointer().key(said), "cannot be set").pointer = field.pointer();
    }
}

fn ephemeral(source: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let template = source.get("volumeClaimTemplate");
    if !template.is_set() {
        causes.required(&template, "");
        return;
    }
    claim_metadata(&template.get("metadata"), causes);
    let spec = template.get("spec");
    let modes = spec.get("accessModes");
    if modes.items().next().is_none() {
        causes.required(&modes, "at least 1 access mode is required");
    }
    selector::label_selector(&spec.get("selector"), causes);
    for mode in modes.items() {
        if !MODES.contains(&mode.text()) {
            causes.unsupported(&modes, &quoted(mode.text()), &MODES).pointer = mode.pointer();
        }
    }
    let alone = |mode: &ObjectPart<'_, '_>| mode.text() == "ReadWriteOncePod";
    if modes.items().any(|mode| alone(&mode))
        && modes.items().any(|mode| !alone(&mode) && MODES.contains(&mode.text()))
    {
        causes.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
    let (data, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    data_source(&data, causes);
    data_source(&reference, causes);
    if data.is_set() && reference.is_set() && data.value != reference.value {
        causes.invalid_shown(&spec, "{}", "must match dataSourceRef");
    }
    let storage = spec.at(&["resources", "requests", "storage"]);
    let said = spec.pointer().key("resources[storage]");
    match storage.value.and_then(|value| value.quantity().ok()) {
        None if !storage.is_set() => {
            // The server names a missing value differently from a wrong one.
            let said = spec.pointer().key("resources[storage]");
            causes.required(&said, "").pointer = spec.get("resources").pointer();
        }
        Some(amount) if !amount.is_positive() => {
            causes.invalid_shown(&said, &quoted(&amount.canonical()), "must be greater than zero").pointer =
                storage.pointer();
        }
        _ => {}
    }
    let class = spec.get("storageClassName");
    causes.format_if_set(&class, names::dns_subdomain);
    let mode = spec.get("volumeMode");
    causes.one_of_if_set(&mode, &["Block", "Filesystem"]);
}
