//! Kinds and versions that no API server serves, and what their author probably meant.

use jobgate_core::judge::api;
use jobgate_core::judge::checks::{self, FIELD_TYPE, KNOWN_KIND};
use jobgate_core::judge::finding::{Finding, Level, Safety};
use jobgate_core::kinds::{
    Definition, Kind, has_batch_pod, has_pod, is_batch_group, is_of_other_version, is_other, meant, successor,
};
use jobgate_core::text::patch::Op;
use jobgate_core::text::placeholder::is_placeholder;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;
use jobgate_report::Reason;

/// The help for an unknown kind of the group `batch`.
const OF_BATCH: &str = "write `kind: Job` or `kind: CronJob`";

/// Returns why an object that resembles a batch kind was not judged, and the finding for it.
///
/// Only objects with `spec` or `metadata` count: a Helm values file may have a `kind: CronJob`, too. `level` is
/// that of an object which no API server accepts.
pub(super) fn unknown_kind(object: &Value, level: Level) -> Option<(Reason, Finding)> {
    let fields = object.as_object()?;
    if !fields.contains_key("spec") && !fields.contains_key("metadata") {
        return None;
    }
    let field = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let (kind, version) = (field("kind"), field("apiVersion"));
    let is_wrong = |value: &&Value| !value.is_string();
    if kind.as_ref().is_some_and(is_wrong) || version.as_ref().is_some_and(is_wrong) {
        return not_a_string(kind, version);
    }
    let (kind, version) = (kind.and_then(Value::as_str), version.and_then(Value::as_str));
    let of = version.map(group);
    let of_batch = of.is_some_and(is_batch_group);
    let held = |key: &'static str, text: &str| {
        Some((Reason::Placeholder(key.into()), api::structure::held(Pointer::new(&[key]), text)))
    };
    let Some(kind) = kind else {
        let help = if of == Some("batch") { OF_BATCH } else { "write its `kind`" };
        let message = "this object has no `kind`; it was not checked".to_owned();
        return of_batch.then(|| misspelled(level, "apiVersion", message, help.to_owned()));
    };
    if is_placeholder(kind) {
        let may_be_batch =
            || of.is_none_or(|group| group.contains('.')) || version.is_some_and(is_placeholder);
        return if of_batch || may_be_batch() && has_batch_pod(object) { held("kind", kind) } else { None };
    }
    if let Some(version) = version.filter(|version| is_placeholder(version) && !of_batch) {
        return if meant(None, kind).is_some() { held("apiVersion", version) } else { None };
    }
    if let Some((version, name)) = version.and_then(|version| successor(version, kind)) {
        let message = format!(
            "`{}` {kind} is retired: no maintained operator has it; it was not checked",
            shown(version_of(object))
        );
        let help = format!("Jobgate checks `{version}` {name}, whose fields may differ");
        let finding = checks::finding(KNOWN_KIND, Level::Note, Pointer::new(&["apiVersion"]), message, help);
        return Some((Reason::NotServed, finding));
    }
    let is_of_other_version = version.is_some_and(|version| is_of_other_version(version, kind));
    if !is_of_other_version && of.is_some_and(|group| is_other(group, kind)) {
        return None;
    }
    if let Some(finding) = version.and_then(|version| no_longer_served(version, kind)) {
        return Some((Reason::NotServed, finding));
    }
    not_in_group(object, kind, version, level)
}

/// Reports a kind that its group does not have, and that resembles a judged kind.
fn not_in_group(
    object: &Value,
    kind: &str,
    version: Option<&str>,
    level: Level,
) -> Option<(Reason, Finding)> {
    let of = version.map(group);
    let of_batch = of.is_some_and(is_batch_group);
    let is_of_other_version = version.is_some_and(|version| is_of_other_version(version, kind));
    // Other tools have Jobs, too (`apiVersion: v1alpha`), but without pods.
    let is_of_kubernetes = version == Some("v1") || matches!(of, Some("apps" | "extensions" | "policy"));
    let of_other_tool = || if is_of_kubernetes || has_pod(object) { level } else { Level::Note };
    let meant = meant(of, kind);
    let home = Kind::all().find(|known| known.name == kind);
    let help = |(group, name): (&str, &str)| match Kind::named(group, name) {
        Some(kind) => format!("write `apiVersion: {group}/{}` and `kind: {name}`", kind.version),
        None if of == Some(group) => format!("write `kind: {name}`"),
        None => format!("write an `apiVersion` of the group `{group}`, and `kind: {name}`"),
    };
    match (version, of, meant) {
        (_, Some("batch"), None) if kind.ends_with("List") => None,
        (_, Some(group), meant)
            if meant.is_some() && of_batch && !is_of_other_version || group == "batch" =>
        {
            let message =
                format!("there is no kind `{}` in `{group}`; this object was not checked", shown(kind));
            Some(misspelled(level, "kind", message, meant.map_or_else(|| OF_BATCH.to_owned(), help)))
        }
        // One of the groups whose kinds are known does not have it: a `JobSet` of `kubeflow.org`, a `Job` of
        // `batch.k8s.io`, which would be Kubernetes' own.
        (Some(version), of, meant)
            if (of_batch && meant.is_none() || is_of_other_version || of.is_some_and(is_like_batch))
                && let Some(home) = home =>
        {
            let message = format!(
                "there is no `{kind}` in `apiVersion: {}`; this object was not checked",
                shown(version)
            );
            Some(misspelled(level, "apiVersion", message, help((home.group, home.name))))
        }
        // Other tools have kinds and specs, too, so other names count only with pods.
        (Some(version), _, Some(meant)) if home.is_some() || has_pod(object) => {
            let message = format!(
                "there is no `{}` in `apiVersion: {}`; this object was not checked",
                shown(kind),
                shown(version)
            );
            Some(misspelled(of_other_tool(), "apiVersion", message, help(meant)))
        }
        (None, _, Some(meant)) if home.is_some() || has_pod(object) => {
            let message = format!("this `{}` has no `apiVersion`; it was not checked", shown(kind));
            Some(misspelled(of_other_tool(), "kind", message, help(meant)))
        }
        _ => None,
    }
}

fn misspelled(level: Level, key: &'static str, message: String, help: String) -> (Reason, Finding) {
    (Reason::Misspelled, checks::finding(KNOWN_KIND, level, Pointer::new(&[key]), message, help))
}

fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}

/// Reports a kind or version that is not a string, if the other one belongs to a judged kind.
fn not_a_string(kind: Option<&Value>, version: Option<&Value>) -> Option<(Reason, Finding)> {
    let wrong = |value: Option<&Value>| value.is_some_and(|value| !value.is_string());
    let (key, value) = if wrong(kind) { ("kind", kind?) } else { ("apiVersion", version?) };
    let text = |value: Option<&'_ Value>| value.and_then(Value::as_str).map(str::to_owned);
    let (kind, version) = (text(kind), text(version));
    let is_meant = |known: &Definition| match key {
        "kind" => version.as_deref().is_some_and(|version| group(version) == known.group),
        _ => kind.as_deref() == Some(known.name),
    };
    Kind::all().find(|kind| is_meant(kind))?;
    let message = format!("`{key}` must be a string, not `{value}`");
    let help = "the API server rejects this object; it was not checked";
    let finding = checks::finding(FIELD_TYPE, Level::Deny, Pointer::new(&[key]), message, help);
    Some((Reason::Misspelled, finding))
}

/// Reports an unknown or deprecated version of a judged kind. The rules judge the object anyway.
pub(super) fn unknown_version(version: &str, adapter: &Definition) -> Option<(Option<Reason>, Finding)> {
    let known = adapter.api_version();
    if version == known || no_longer_served(version, adapter.name).is_some() {
        return None;
    }
    let at = Pointer::new(&["apiVersion"]);
    if is_placeholder(version) {
        return Some((Some(Reason::Placeholder("apiVersion".into())), api::structure::held(at, version)));
    }
    if adapter.also.contains(&version) {
        let message = format!("`{version}` of `{}` is deprecated", adapter.name);
        let help = format!("write `apiVersion: {known}`");
        let mut finding = checks::finding(KNOWN_KIND, Level::Note, at.clone(), message, help);
        finding.fix(Safety::Unsafe, vec![Op::Replace(at, known.into())]);
        return Some((None, finding));
    }
    let message = format!(
        "there is no `{}` in `apiVersion: {}`, so only Jobgate's rules were checked",
        adapter.name,
        version.escape_debug()
    );
    let level = if may_come(version, adapter) { Level::Note } else { Level::Deny };
    Some((None, checks::finding(KNOWN_KIND, level, at, message, format!("write `apiVersion: {known}`"))))
}

/// Tells whether a group is `batch` with a domain that Kubernetes does not give it.
fn is_like_batch(group: &str) -> bool {
    matches!(group, "batch.k8s.io" | "batch.kubernetes.io" | "batch.x-k8s.io")
}

/// Tells whether a later release of the operator may have this version of a kind: all earlier versions are known, and
/// the training operator gets no new ones.
fn may_come(version: &str, adapter: &Definition) -> bool {
    let is_training = adapter.group == "kubeflow.org" && adapter.name != "MPIJob";
    let of = |version: &str| precedence(version.split_once('/').map_or(version, |(_, version)| version));
    !adapter.is_built_in()
        && !is_training
        && of(version).is_some_and(|of_it| Some(of_it) > of(adapter.version))
}

/// Returns a key that sorts versions as Kubernetes does: `v2` after `v1`, after `v1beta1`, after `v1alpha1`.
fn precedence(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with(['0', '+']));
    for (stage, word) in [(0, "alpha"), (1, "beta")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stage, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

fn version_of(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

/// Reports a version that API servers no longer serve.
pub(super) fn no_longer_served(api_version: &str, kind: &str) -> Option<Finding> {
    // The first Jobs were in another group.
    let of_other_group = |kind: &Kind| kind.group == "batch" && api_version == "extensions/v1beta1";
    let kind = Kind::all().find(|known| {
        known.name == kind && (known.retired(api_version).is_some() || of_other_group(known))
    })?;
    let retired = kind.retired(api_version);
    let message = format!(
        "`{api_version}` of `{}` is no longer served{}",
        kind.name,
        retired.map_or("", |retired| retired.since)
    );
    let serves = kind.api_version();
    let help = match retired.and_then(|retired| retired.moved) {
        None => format!("use `apiVersion: {serves}`"),
        Some(moved) => format!(
            "write `apiVersion: {serves}`{moved}: \
             the shape has changed, so changing `apiVersion` is not enough"
        ),
    };
    let at = Pointer::new(&["apiVersion"]);
    let mut finding = checks::finding(KNOWN_KIND, Level::Deny, at.clone(), message, help);
    if kind.knows(api_version) {
        finding.fix(Safety::Unsafe, vec![Op::Replace(at, serves.into())]);
    }
    Some(finding)
}

pub(super) fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}
