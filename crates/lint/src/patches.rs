//! Patches, as kustomizations list them, and objects that a cluster renders.

use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::{Map, Value};
use jobgate_core::text::yaml::Limits;
use jobgate_report::Kustomized;

use crate::batch;

/// A file that a kustomization lists as a patch.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The kustomization.
    pub by: Kustomized,
    /// Whether it may be for a batch kind.
    pub for_batch: bool,
}

/// Returns lists of patches that may be for batch work, in an object that a cluster renders: a Kustomization
/// of Flux, or an Application of Argo CD.
pub(crate) fn patched_in_cluster(object: &Value, limits: &Limits) -> Vec<Pointer> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split('/').next().unwrap_or_default();
    let spec = Pointer::new(&["spec"]);
    let places: Vec<Pointer> = match (group, text("kind")) {
        ("kustomize.toolkit.fluxcd.io", "Kustomization") => vec![spec],
        ("argoproj.io", kind @ ("Application" | "ApplicationSet")) => {
            let spec = if kind == "Application" { spec } else { spec / "template" / "spec" };
            let sources = (&spec / "sources").find(object).and_then(Value::as_array).map_or(0, Vec::len);
            let many = (0..sources).map(|nth| &spec / "sources" / nth / "kustomize");
            many.chain([&spec / "source" / "kustomize"]).collect()
        }
        _ => return Vec::new(),
    };
    let is_for_batch = |fields: &Map| {
        patches_of(fields).any(|patch| match (patch.target, patch.text) {
            (Some(target), _) => may_be_batch(target),
            (None, text) => text.is_none_or(|text| batch::is_patched_by(text.as_bytes(), limits)),
        })
    };
    places
        .into_iter()
        .filter(|at| at.find(object).and_then(Value::as_object).is_some_and(is_for_batch))
        .map(|at| at / "patches")
        .collect()
}

/// A patch, as a kustomization lists it.
pub struct Listed<'a> {
    /// The file that it is in.
    pub file: Option<&'a str>,
    /// Its text, if it is inline.
    pub text: Option<&'a str>,
    /// The selector of the objects to patch.
    pub target: Option<&'a Value>,
}

/// Returns the patches of a kustomization.
pub fn patches_of(fields: &Map) -> impl Iterator<Item = Listed<'_>> {
    let with_target = ["patches", "patchesJson6902"].iter().flat_map(|key| list(fields, key)).map(|item| {
        let text = |key: &str| item.get(key).and_then(Value::as_str);
        Listed {
            file: text("path"),
            text: text("patch"),
            target: item.get("target").filter(|target| target.is_object()),
        }
    });
    // An item may be an inline patch instead of a file.
    let merged = list(fields, "patchesStrategicMerge").iter().filter_map(Value::as_str).map(|item| {
        let is_text = item.contains('\n');
        Listed { file: (!is_text).then_some(item), text: is_text.then_some(item), target: None }
    });
    with_target.chain(merged)
}

/// Tells whether a patch with this target may be for batch work. Its fields are regular expressions.
pub fn may_be_batch(target: &Value) -> bool {
    let text = |key: &str| target.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("group"), text("kind")) {
        (_, Some(kind)) => may_be_kind(kind),
        (group, None) => group != Some("apps"),
    }
}

/// Tells whether a regular expression may match a batch kind.
fn may_be_kind(kind: &str) -> bool {
    let mut names = kind
        .split(['|', '(', ')', '^', '$'])
        .map(|name| name.trim_start_matches("?:"))
        .filter(|name| !name.is_empty());
    names.any(|name| batch::is_kind(name) || !name.chars().all(char::is_alphanumeric))
}

/// Returns the list in a field; empty if there is none.
pub fn list<'a>(fields: &'a Map, key: &str) -> &'a [Value] {
    fields.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}
