//! Metadata: names, labels, annotations, finalizers and owners.

use super::cause::{CausePlace as _, Causes};
use super::object_part::ObjectPart;
use super::selector;
use crate::k8s::names;

/// Checks the metadata of a built-in object.
pub(super) fn metadata(metadata: &ObjectPart<'_, '_>, causes: &mut Causes) {
    of_any_object(metadata, Finalizers::OfCore, causes);
}

/// Checks the metadata of a custom resource: by the rules of all objects, without those of the built-in ones.
pub(super) fn of_custom_resource(metadata: &ObjectPart<'_, '_>, causes: &mut Causes) {
    of_any_object(metadata, Finalizers::OfAny, causes);
}

/// Which names finalizers may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finalizers {
    /// A standard name, or one with a domain.
    OfCore,
    /// Any qualified name. The server advises a domain.
    OfAny,
}

fn of_any_object(metadata: &ObjectPart<'_, '_>, allowed: Finalizers, causes: &mut Causes) {
    let (name, prefix) = (metadata.get("name"), metadata.get("generateName"));
    causes.format_if_set(&prefix, names::name_prefix);
    if !name.text().is_empty() {
        causes.format(&name, names::dns_subdomain);
    } else if prefix.text().is_empty() {
        causes.required(&name, "name or generateName is required");
    } else {
        // The server appends five of these characters.
        let generated = format!("{}xxxxx", prefix.text());
        for message in names::dns_subdomain(&generated) {
            causes.invalid_text(&name, &generated, &message).pointer = prefix.pointer();
        }
    }
    let namespace = metadata.get("namespace");
    causes.format_if_set(&namespace, names::dns_label);
    selector::labels(&metadata.get("labels"), causes);
    annotations(&metadata.get("annotations"), causes);
    finalizers(&metadata.get("finalizers"), allowed, causes);
    owners(&metadata.get("ownerReferences"), causes);
}

fn finalizers(finalizers: &ObjectPart<'_, '_>, allowed: Finalizers, causes: &mut Causes) {
    const STANDARD: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
    causes.of_all_items(finalizers, |finalizer, _, causes| {
        let messages = names::qualified_name(finalizer.text());
        let is_plain = !finalizer.text().contains('/') && !STANDARD.contains(&finalizer.text());
        if is_plain && allowed == Finalizers::OfCore {
            causes.invalid(finalizer, "name is neither a standard finalizer name nor is it fully qualified");
        }
        for message in messages {
            causes.invalid_text(finalizers, finalizer.text(), &message);
        }
    });
    let has = |name: &str| finalizers.items().any(|finalizer| finalizer.text() == name);
    if has("orphan") && has("foregroundDeletion") {
        causes.invalid_value(finalizers, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn owners(owners: &ObjectPart<'_, '_>, causes: &mut Causes) {
    causes.of_all_items(owners, |owner, _, causes| {
        // The server omits the index.
        for (field, message) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let text = match field {
                "apiVersion" => version_of(owner.get(field).text()),
                _ => owner.get(field).text(),
            };
            if text.is_empty() {
                causes.invalid_text(&owners.get(field), "", message).pointer = owner.get(field).pointer();
            }
        }
        // Events are deleted after an hour.
        if owner.get("apiVersion").text() == "v1" && owner.get("kind").text() == "Event" {
            let shown = owner.value.map(|owner| owner.to_value().to_string()).unwrap_or_default();
            let message = "/v1, Kind=Event is disallowed from being an owner";
            causes.invalid_shown(&owners.pointer(), &shown, message).pointer = owner.pointer();
        }
    });
    if owners.items().filter(|owner| owner.get("controller").is_true()).count() > 1 {
        causes.invalid_value(owners, "Only one reference can have Controller set to true");
    }
}

/// Returns the version in an `apiVersion`; nothing if it cannot be read.
fn version_of(text: &str) -> &str {
    match text.split_once('/') {
        None => text,
        Some((_, version)) if version.contains('/') => "",
        Some((_, version)) => version,
    }
}

pub(super) fn annotations(annotations: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const MAX_BYTES: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.text().len();
        for message in names::qualified_name(&key.to_lowercase()) {
            causes.invalid_text(annotations, key, &message).pointer = value.pointer();
        }
    }
    if size > MAX_BYTES {
        causes.too_long(annotations, MAX_BYTES);
    }
}
