//! Jobs: counts, limits, completion mode, and generated labels.

use super::cause::{CausePlace as _, Causes};
use super::job_policies::{pod_failure_policy, success_policy};
use super::metadata::metadata;
use super::object_part::ObjectPart;
use super::{pod, selector};
use crate::k8s::go::quoted;
use crate::k8s::names;

/// The server's message for fields that only an Indexed Job may set.
pub(in crate::judge::api) const NOT_INDEXED: &str = "requires indexed completion mode";

pub(super) fn job(object: &ObjectPart<'_, '_>, causes: &mut Causes) {
    metadata(&object.get("metadata"), causes);
    let spec = object.get("spec");
    job_spec(&spec, causes);
    let name = object.at(&["metadata", "name"]);
    if spec.get("manualSelector").is_true() {
        manual_selector(&spec, causes);
    } else if !name.text().is_empty() {
        // The server sets two labels of the template to the name.
        let labels = spec.at(&["template", "labels"]);
        for _ in 0..2 {
            for message in names::label_value(name.text()) {
                causes.invalid_text(&labels, name.text(), &message).pointer = name.pointer();
            }
        }
    }
    if let ("Indexed", Some(completions @ 1..)) =
        (spec.get("completionMode").text(), spec.get("completions").number())
        && !name.text().is_empty()
    {
        let host = format!("{}-{}", name.text(), completions - 1);
        if !names::dns_label(&host).is_empty() {
            causes.invalid_text(
                &name,
                name.text(),
                &format!("will not able to create pod with invalid DNS label: {host}"),
            );
        }
    }
}

/// The labels with the name of a Job, new and old.
const JOB_NAMES: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// The labels with the uid of a Job, new and old.
const CONTROLLER_UIDS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Checks the selector and labels that the server generates for a new Job.
pub(super) fn generated_by_the_server(object: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let spec = object.get("spec");
    if spec.get("manualSelector").is_true() {
        return;
    }
    let labels = spec.at(&["template", "metadata", "labels"]);
    let selector = spec.get("selector");
    let name = object.at(&["metadata", "name"]).text();
    // The server adds these to the selector and the labels. An author cannot know the uid or a generated
    // name.
    const OWN: &str = "\0";
    let generated = |key: &str| match key {
        key if JOB_NAMES.contains(&key) => Some(if name.is_empty() { OWN } else { name }),
        key if CONTROLLER_UIDS.contains(&key) => Some(OWN),
        _ => None,
    };
    if selector.is_set() {
        if !selector::matches(&selector, generated) {
            causes.invalid_value(&selector, "`selector` not auto-generated");
        }
        if !selector::matches(&selector, |key| selector::label(&labels, key).or_else(|| generated(key))) {
            causes.invalid_value(&labels, "`selector` does not match template `labels`");
        }
    }
    for label in JOB_NAMES {
        let value = labels.get(label);
        if value.is_set() && value.text() != name && !name.is_empty() {
            causes.invalid_shown(&value, &quoted(value.text()), &format!("must be '{name}'"));
        }
    }
    for label in CONTROLLER_UIDS {
        let value = labels.get(label);
        if value.is_set() {
            causes.invalid_shown(
                &value,
                &quoted(value.text()),
                "must be the uid that the server gives the Job",
            );
        }
    }
}

fn manual_selector(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let found = spec.get("selector");
    if !found.is_set() {
        causes.required(&found, "");
    }
    selector::label_selector(&found, causes);
    let labels = spec.at(&["template", "metadata", "labels"]);
    if !found.is_set() || !selector::matches(&found, |key| selector::label(&labels, key)) {
        causes.invalid_value(&labels, "`selector` does not match template `labels`");
    }
}

pub(super) fn job_spec(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        causes.not_negative(&spec.get(field));
    }
    let per_index = spec.get("backoffLimitPerIndex");
    let most_failed = spec.get("maxFailedIndexes");
    if most_failed.is_set() && !per_index.is_set() {
        causes.required(&per_index, "when maxFailedIndexes is specified");
    }
    managed_by(&spec.get("managedBy"), causes);
    indexes(spec, causes);
    if spec.get("podFailurePolicy").is_set() {
        pod_failure_policy(spec, causes);
    }
    let success = spec.get("successPolicy");
    if success.is_set() {
        if spec.get("completionMode").text() == "Indexed" {
            success_policy(spec, causes);
        } else {
            causes.invalid_value(&success, NOT_INDEXED);
        }
    }
    let replacement = spec.get("podReplacementPolicy");
    if replacement.is_set() {
        let known: &[&str] = if spec.get("podFailurePolicy").is_set() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        causes.one_of(&replacement, known);
    }
    pod::template(&spec.get("template"), causes);
    let restart = spec.at(&["template", "spec", "restartPolicy"]);
    match restart.text() {
        "" | "Always" => _ = causes.required(&restart, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.get("podFailurePolicy").is_set() => {
            causes.invalid(&restart, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => causes.one_of(&restart, &["OnFailure", "Never"]),
    }
}

fn managed_by(field: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if !field.is_set() {
        return;
    }
    let value = field.text();
    match value.split_once('/') {
        _ if value.is_empty() => _ = causes.required(field, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            causes.invalid_texts(field, host, names::dns_subdomain(host));
            if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte))
            {
                let message =
                    "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                causes.invalid_text(field, path, message);
            }
        }
        _ => _ = causes.invalid(field, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if value.len() > 63 {
        causes.too_long(field, 63);
    }
}

fn indexes(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const MAX_INDEXES: i64 = 100_000;
    /// The limit with more completions than [`MAX_INDEXES`] and a backoff limit per index.
    const MAX_FAILED: i64 = 10_000;
    let mode = spec.get("completionMode");
    let (completions, parallelism) = (spec.get("completions"), spec.get("parallelism"));
    let (per_index, failed) = (spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes"));
    causes.one_of_if_set(&mode, &["NonIndexed", "Indexed"]);
    if !mode.is_set() || mode.text() == "NonIndexed" {
        for field in [&per_index, &failed] {
            if field.is_set() {
                causes.invalid(field, NOT_INDEXED);
            }
        }
    }
    if mode.text() != "Indexed" {
        return;
    }
    if !completions.is_set() {
        causes.required(&completions, "when completion mode is Indexed");
    }
    if parallelism.number().is_some_and(|number| number > MAX_INDEXES) {
        causes.invalid(&parallelism, "must be less than or equal to 100000 when completion mode is Indexed");
    }
    if let (Some(failures), Some(most)) = (failed.number(), completions.number())
        && failures > most
    {
        causes.invalid(&failed, "must be less than or equal to completions");
    }
    if failed.number().is_some_and(|number| number > MAX_INDEXES) {
        causes.invalid(&failed, "must be less than or equal to 100000");
    }
    if completions.number().is_some_and(|number| number > MAX_INDEXES) && per_index.is_set() {
        let detail = "must be less than or equal to 10000 when completions are above 100000 and used with \
                      backoff limit per index";
        if !failed.is_set() {
            causes.required(&failed, "must be specified when completions is above 100000");
        }
        for field in [&parallelism, &failed] {
            if field.number().is_some_and(|number| number > MAX_FAILED) {
                causes.invalid(field, detail);
            }
        }
    }
}
