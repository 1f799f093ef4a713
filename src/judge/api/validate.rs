//! The API server's own validation of a new object, in its own words.
//!
//! Follows the order of `pkg/apis/batch/validation` and `pkg/apis/core/validation` (1.36). It is given an
//! object with [defaults](super::defaults); fields of a wrong type count as unset here, since the walk along
//! the shapes has spoken of them already.

mod cause;
mod container;
mod custom;
mod operator;
mod part;
mod pod;
mod resources;
mod seen;
mod selector;
mod update;
mod volume;

use std::collections::HashSet;

use cause::{At as _, Causes};
pub use cause::{Cause, Reason};
pub use operator::refusals as operator_refusals;
use part::Part;
pub use update::validate_update;

use super::stored::Stored;
use crate::k8s::cron::{Schedule, load_location};
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::kinds::{Api, Pods};

/// Returns why the API server would refuse to create an object; nothing where it would create it, or where
/// its kind or version is not known here.
///
/// `object` is as [`stored`](super::defaults::stored) returns it. Of a custom resource the server knows its
/// schema only, and that is among the shapes.
#[must_use]
pub fn validate(object: &Stored<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let kind = object.kind();
    let object = Part::root(object);
    let Some(kind) = kind else { return Vec::new() };
    match kind.api {
        Api::Job => {
            job(&object, &mut causes);
            generated_by_the_server(&object, &mut causes);
        }
        Api::CronJob => cron_job(&object, None, &mut causes),
        Api::Custom { .. } => {
            metadata(&object.get("metadata"), &mut causes);
            custom::check(kind, &object, &mut causes);
        }
    }
    causes.into_vec()
}

fn metadata(metadata: &Part<'_, '_>, causes: &mut Causes) {
    let (name, prefix) = (metadata.get("name"), metadata.get("generateName"));
    causes.invalid_each(
        &prefix,
        if prefix.text().is_empty() { Vec::new() } else { names::name_prefix(prefix.text()) },
    );
    if !name.text().is_empty() {
        causes.invalid_each(&name, names::dns_subdomain(name.text()));
    } else if prefix.text().is_empty() {
        causes.required(&name, "name or generateName is required");
    } else {
        // What the server appends is five of these characters.
        let generated = format!("{}xxxxx", prefix.text());
        for message in names::dns_subdomain(&generated) {
            causes.invalid_text(&name, &generated, &message).pointer = prefix.pointer();
        }
    }
    let namespace = metadata.get("namespace");
    if !namespace.text().is_empty() {
        causes.invalid_each(&namespace, names::dns_label(namespace.text()));
    }
    selector::labels(&metadata.get("labels"), causes);
    annotations(&metadata.get("annotations"), causes);
    finalizers(&metadata.get("finalizers"), causes);
    owners(&metadata.get("ownerReferences"), causes);
}

fn finalizers(finalizers: &Part<'_, '_>, causes: &mut Causes) {
    const STANDARD: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
    for finalizer in finalizers.items() {
        let messages = names::qualified_name(finalizer.text());
        if !finalizer.text().contains('/') && !STANDARD.contains(&finalizer.text()) {
            causes.invalid(&finalizer, "name is neither a standard finalizer name nor is it fully qualified");
        }
        for message in messages {
            causes.invalid_text(finalizers, finalizer.text(), &message);
        }
    }
    let has = |name: &str| finalizers.items().any(|finalizer| finalizer.text() == name);
    if has("orphan") && has("foregroundDeletion") {
        causes.invalid_value(finalizers, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn owners(owners: &Part<'_, '_>, causes: &mut Causes) {
    for owner in owners.items() {
        // The server leaves the reference's index out.
        for (field, message) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.get(field).text().is_empty() {
                causes.invalid_text(&(owners.pointer() / field), "", message).pointer =
                    owner.get(field).pointer();
            }
        }
    }
    if owners.items().filter(|owner| owner.get("controller").is_true()).count() > 1 {
        causes.invalid_value(owners, "Only one reference can have Controller set to true");
    }
}

/// The labels by which a Job knows its pods, under their names of today and of old.
const JOB_NAMES: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// See [`JOB_NAMES`].
const CONTROLLER_UIDS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Returns what the API server says to the pods that the training operator makes, and not to the object
/// itself: mounts of volumes that are not there.
#[must_use]
pub fn pods_refused(object: &Stored<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let Some(Pods::Roles { at: roles, .. }) = object.kind().map(|kind| kind.pods) else { return Vec::new() };
    for (_, replica) in Part::root(object).at(roles).entries() {
        let pod = replica.at(&["template", "spec"]);
        let volumes: HashSet<&str> =
            pod.get("volumes").items().map(|volume| volume.get("name").text()).collect();
        for list in ["initContainers", "containers"] {
            for container in pod.get(list).items() {
                for mount in container.get("volumeMounts").items() {
                    let name = mount.get("name");
                    if !name.text().is_empty() && !volumes.contains(name.text()) {
                        causes.not_found(&name, name.text(), "");
                    }
                }
            }
        }
    }
    causes.into_vec()
}

/// Checks what the server generates for a new Job: its author must not have written it already.
fn generated_by_the_server(object: &Part<'_, '_>, causes: &mut Causes) {
    let spec = object.get("spec");
    if spec.get("manualSelector").is_true() {
        return;
    }
    let labels = spec.at(&["template", "metadata", "labels"]);
    let selector = spec.get("selector");
    let name = object.at(&["metadata", "name"]).text();
    // The server puts these into the selector and the labels where they are not. The uid is its own, and so
    // is a name that it generates: neither is anything that an author can have written.
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

fn annotations(annotations: &Part<'_, '_>, causes: &mut Causes) {
    const MOST: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.text().len();
        for message in names::qualified_name(&key.to_lowercase()) {
            causes.invalid_text(annotations, key, &message);
        }
    }
    if size > MOST {
        causes.too_long(annotations, MOST);
    }
}

fn job(object: &Part<'_, '_>, causes: &mut Causes) {
    metadata(&object.get("metadata"), causes);
    let spec = object.get("spec");
    job_spec(&spec, causes);
    let name = object.at(&["metadata", "name"]);
    if spec.get("manualSelector").is_true() {
        manual_selector(&spec, causes);
    } else if !name.text().is_empty() {
        // The server puts the name into two labels of the template.
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

fn manual_selector(spec: &Part<'_, '_>, causes: &mut Causes) {
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

fn job_spec(spec: &Part<'_, '_>, causes: &mut Causes) {
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
            causes.invalid_value(&success, "requires indexed completion mode");
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

fn managed_by(field: &Part<'_, '_>, causes: &mut Causes) {
    if !field.is_set() {
        return;
    }
    let value = field.text();
    match value.split_once('/') {
        _ if value.is_empty() => _ = causes.required(field, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for message in names::dns_subdomain(host) {
                causes.invalid_text(field, host, &message);
            }
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

fn indexes(spec: &Part<'_, '_>, causes: &mut Causes) {
    const MOST: i64 = 100_000;
    const MOST_OF_MANY: i64 = 10_000;
    let mode = spec.get("completionMode");
    let (completions, parallelism) = (spec.get("completions"), spec.get("parallelism"));
    let (per_index, failed) = (spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes"));
    if mode.is_set() {
        causes.one_of(&mode, &["NonIndexed", "Indexed"]);
    }
    if !mode.is_set() || mode.text() == "NonIndexed" {
        for field in [&per_index, &failed] {
            if field.is_set() {
                causes.invalid(field, "requires indexed completion mode");
            }
        }
    }
    if mode.text() != "Indexed" {
        return;
    }
    if !completions.is_set() {
        causes.required(&completions, "when completion mode is Indexed");
    }
    if parallelism.number().is_some_and(|number| number > MOST) {
        causes.invalid(&parallelism, "must be less than or equal to 100000 when completion mode is Indexed");
    }
    if let (Some(failures), Some(most)) = (failed.number(), completions.number())
        && failures > most
    {
        causes.invalid(&failed, "must be less than or equal to completions");
    }
    if failed.number().is_some_and(|number| number > MOST) {
        causes.invalid(&failed, "must be less than or equal to 100000");
    }
    if completions.number().is_some_and(|number| number > MOST) && per_index.is_set() {
        let detail = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
        if !failed.is_set() {
            causes.required(&failed, "must be specified when completions is above 100000");
        }
        for field in [&parallelism, &failed] {
            if field.number().is_some_and(|number| number > MOST_OF_MANY) {
                causes.invalid(field, detail);
            }
        }
    }
}

fn pod_failure_policy(spec: &Part<'_, '_>, causes: &mut Causes) {
    let rules = spec.at(&["podFailurePolicy", "rules"]);
    causes.at_most(&rules, 20);
    let pod = spec.at(&["template", "spec"]);
    let lists = [pod.get("containers"), pod.get("initContainers")];
    let names: Vec<&str> =
        lists.iter().flat_map(Part::items).map(|container| container.get("name").text()).collect();
    for rule in rules.items() {
        let action = rule.get("action");
        const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
        match action.text() {
            "" => {
                _ = causes
                    .required(&action, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]");
            }
            "FailIndex" if !spec.get("backoffLimitPerIndex").is_set() => {
                causes.invalid(&action, "requires the backoffLimitPerIndex to be set");
            }
            _ => causes.one_of(&action, &ACTIONS),
        }
        let (codes, conditions) = (rule.get("onExitCodes"), rule.get("onPodConditions"));
        let has_conditions = conditions.items().next().is_some();
        if codes.is_set() {
            exit_codes(&codes, &names, causes);
        }
        if has_conditions {
            causes.at_most(&conditions, 20);
            for pattern in conditions.items() {
                let status = pattern.get("status");
                causes.invalid_each(&pattern.get("type"), names::qualified_name(pattern.get("type").text()));
                match status.text() {
                    "" => _ = causes.required(&status, "valid values: [\"False\" \"True\" \"Unknown\"]"),
                    _ => causes.one_of(&status, &["False", "True", "Unknown"]),
                }
            }
        }
        match (codes.is_set(), has_conditions) {
            (true, true) => {
                causes
                    .invalid_bare(&rule, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, false) => {
                causes.invalid_bare(&rule, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            _ => {}
        }
    }
}

fn exit_codes(codes: &Part<'_, '_>, containers: &[&str], causes: &mut Causes) {
    let operator = codes.get("operator");
    match operator.text() {
        "" => _ = causes.required(&operator, "valid values: [\"In\" \"NotIn\"]"),
        _ => causes.one_of(&operator, &["In", "NotIn"]),
    }
    let container = codes.get("containerName");
    if container.is_set() && !containers.contains(&container.text()) {
        causes.invalid(&container, "must be one of the container or initContainer names in the pod template");
    }
    let values = codes.get("values");
    let numbers: Vec<(Part<'_, '_>, i64)> =
        values.items().map(|value| (value, value.number().unwrap_or_default())).collect();
    if numbers.is_empty() {
        causes.invalid_value(&values, "at least one value is required");
    }
    causes.at_most(&values, 255);
    for (index, (part, value)) in numbers.iter().enumerate() {
        if operator.text() == "In" && *value == 0 {
            causes.invalid(part, "must not be 0 for the In operator");
        }
        if numbers[..index].iter().any(|(_, other)| other == value) {
            causes.duplicate(part, &value.to_string());
        }
    }
    if !numbers.is_sorted_by_key(|(_, value)| *value) {
        causes.invalid_value(&values, "must be ordered");
    }
}

fn success_policy(spec: &Part<'_, '_>, causes: &mut Causes) {
    let rules = spec.at(&["successPolicy", "rules"]);
    if rules.items().next().is_none() {
        causes.required(&rules, "at least one rules must be specified when the successPolicy is specified");
    }
    causes.at_most(&rules, 20);
    // Without completions the server has spoken of that already.
    let Some(completions) = spec.get("completions").number() else { return };
    for rule in rules.items() {
        let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            causes.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut listed = None;
        if indexes.is_set() {
            const MOST: usize = 64 * 1024;
            if indexes.text().len() > MOST {
                causes.too_long(&indexes, MOST);
            }
            match count_indexes(indexes.text(), completions) {
                Ok(count) => listed = Some(count),
                Err(error) => {
                    listed = Some(0);
                    causes.invalid(&indexes, &format!("error parsing succeededIndexes: {error}"));
                }
            }
        }
        causes.not_negative(&count);
        let Some(wanted) = count.number() else { continue };
        if wanted > completions {
            causes.invalid(
                &count,
                &format!("must be less than or equal to {completions} (the number of specified completions)"),
            );
        }
        if let Some(listed) = listed.filter(|listed| wanted > *listed) {
            causes
                .invalid(&count, &format!("must be less than or equal to {listed} (the number of indexes in the specified succeededIndexes field)"));
        }
    }
}

/// Counts indexes such as `0,3-5`, which must rise and stay below `completions`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    use crate::k8s::go::quoted;
    if text.is_empty() {
        return Ok(0);
    }
    let index = |text: &str| -> Result<i64, String> {
        let number: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
        if number >= completions { Err(format!("too large index: {}", quoted(text))) } else { Ok(number) }
    };
    let falling = |last: i64, next: i64| format!("non-increasing order, previous: {last}, current: {next}");
    let mut total = 0;
    let mut last = None;
    for interval in text.split(',') {
        let mut limits = interval.split('-');
        let (first, second) = (limits.next().unwrap_or_default(), limits.next());
        if limits.next().is_some() {
            let rule =
                "violates the requirement that an index interval can have at most two parts separated by '-'";
            return Err(format!("the fragment {} {rule}", quoted(interval)));
        }
        let first = index(first)?;
        let end = match second {
            None => first,
            Some(second) => match index(second)? {
                end if first >= end => return Err(falling(first, end)),
                end => end,
            },
        };
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(falling(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Checks a `CronJob`; an old one that it replaces may hold what a new one must not.
fn cron_job(object: &Part<'_, '_>, old: Option<&Part<'_, '_>>, causes: &mut Causes) {
    metadata(&object.get("metadata"), causes);
    let spec = object.get("spec");
    let schedule = spec.get("schedule");
    if schedule.text().is_empty() {
        causes.required(&schedule, "");
    } else {
        let names_zone = |schedule: &Part<'_, '_>| schedule.text().contains("TZ");
        let may_name_zone = old.is_some_and(|old| names_zone(&old.at(&["spec", "schedule"])));
        if let Err(error) = Schedule::parse(schedule.text()) {
            causes.invalid(&schedule, &error.to_string());
        }
        if names_zone(&schedule) && !may_name_zone {
            causes.invalid(&schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if names_zone(&schedule) && spec.get("timeZone").is_set() {
            causes.invalid(&schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
    causes.not_negative(&spec.get("startingDeadlineSeconds"));
    let zone = spec.get("timeZone");
    if old.is_none_or(|old| old.at(&["spec", "timeZone"]).value != zone.value) {
        time_zone(&zone, causes);
    }
    let policy = spec.get("concurrencyPolicy");
    match policy.text() {
        "" => _ = causes.required(&policy, ""),
        _ => causes.one_of(&policy, &["Allow", "Forbid", "Replace"]),
    }
    let job = spec.at(&["jobTemplate", "spec"]);
    job_spec(&job, causes);
    if job.get("selector").is_set() {
        causes.invalid_value(&job.get("selector"), "`selector` will be auto-generated");
    }
    if job.get("manualSelector").is_true() {
        causes.one_of(&job.get("manualSelector"), &["nil", "false"]);
    }
    causes.not_negative(&spec.get("successfulJobsHistoryLimit"));
    causes.not_negative(&spec.get("failedJobsHistoryLimit"));
    let name = object.at(&["metadata", "name"]);
    if old.is_none() && name.text().len() > 52 {
        causes.invalid(&name, "must be no more than 52 characters");
    }
    let prefix = object.at(&["metadata", "generateName"]);
    // The server cuts a prefix at 58 characters and appends five.
    if old.is_none() && name.text().is_empty() && prefix.text().len() > 47 {
        let generated = format!("{}xxxxx", prefix.text().chars().take(58).collect::<String>());
        causes.invalid_text(&name, &generated, "must be no more than 52 characters").pointer =
            prefix.pointer();
    }
}

fn time_zone(field: &Part<'_, '_>, causes: &mut Causes) {
    if !field.is_set() {
        return;
    }
    let name = field.text();
    if name.is_empty() {
        causes.invalid(field, "timeZone must be nil or non-empty string");
        return;
    }
    let fine = |part: &str| {
        (1..=14).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if !name.split('/').all(fine) {
        causes.invalid(field, &format!("unknown time zone {name}"));
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        causes.invalid(
            field,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if let Err(error) = load_location(name) {
        causes.invalid(field, &error.to_string());
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests {
    use super::*;
    use crate::text::value::{Value, json};

    #[test]
    fn indexes_must_rise() {
        assert_eq!(count_indexes("", 5), Ok(0));
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        for (text, error) in [
            ("5", "too large index: \"5\""),
            ("3-1", "non-increasing order, previous: 3, current: 1"),
            ("2,1", "non-increasing order, previous: 2, current: 1"),
            ("a", "cannot convert string to integer for index: \"a\""),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ] {
            assert_eq!(count_indexes(text, 5), Err(error.to_owned()), "{text}");
        }
    }

    /// The causes for a Job with one container, into which a patch is merged, as `field: message`; the fields
    /// below `spec.template.spec` without that.
    fn causes(patch: Value) -> Vec<String> {
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        });
        crate::text::patch::merge(&mut job, &patch);
        let found = validate(&crate::judge::api::defaults::stored(&job));
        found
            .into_iter()
            .map(|cause| format!("{}: {}", cause.path, cause.message).replacen("spec.template.spec.", "", 1))
            .collect()
    }

    fn pod(patch: Value) -> Vec<String> {
        causes(json!({"spec": {"template": {"spec": patch}}}))
    }

    #[test]
    fn windows_pods_and_their_host_processes() {
        let process = |value: bool| json!({"windowsOptions": {"hostProcess": value}});
        let wants_network = "hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers";
        assert_eq!(pod(json!({"securityContext": process(true)})), [wants_network]);
        assert_eq!(pod(json!({"hostNetwork": true, "securityContext": process(true)})), [""; 0]);
        let containers = json!([{"name": "c", "image": "i", "securityContext": process(true)}]);
        assert_eq!(
            pod(json!({"securityContext": process(false), "containers": containers})),
            [
                "containers[0].securityContext.windowsOptions.hostProcess: Invalid value: true: pod hostProcess value must be identical if both are \
                 specified, was false",
                wants_network,
            ]
        );
        assert_eq!(
            causes(
                json!({"spec": {"template": {"spec": {"hostNetwork": true, "containers": containers, "initContainers": [{"name": "x", "image": "i"}]}}}})
            ),
            [
                "spec.template.spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers"
            ]
        );
        let own = json!([{"name": "c", "image": "i", "securityContext": {"runAsUser": 5}}]);
        assert_eq!(
            pod(
                json!({"os": {"name": "windows"}, "hostPID": true, "containers": own, "securityContext": {"fsGroup": 1}})
            ),
            [
                "hostPID: Forbidden: cannot be set for a windows pod",
                "securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
                "containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ]
        );
        assert_eq!(
            pod(json!({"os": {"name": "linux"}, "containers": containers, "hostNetwork": true})),
            [
                "containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"
            ]
        );
    }

    #[test]
    fn the_host_name_of_a_pod_may_be_set_in_one_way() {
        let both = json!({"hostnameOverride": "h", "hostNetwork": true, "setHostnameAsFQDN": true});
        assert_eq!(
            pod(both),
            [
                "hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "hostnameOverride: Forbidden: may not be specified when hostNetwork is true"
            ]
        );
        assert_eq!(
            pod(json!({"hostnameOverride": "h".repeat(65)})),
            ["hostnameOverride: Too long: may not be more than 64 bytes"]
        );
        assert_eq!(pod(json!({"hostnameOverride": ""})).len(), 1);
        assert_eq!(pod(json!({"hostnameOverride": "a.b", "setHostnameAsFQDN": false})), [""; 0]);
    }

    #[test]
    fn a_claim_of_a_pod_is_filled_from_something_that_is_named() {
        let of = |spec: Value| {
            let mut claim =
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            crate::text::patch::merge(&mut claim, &spec);
            let found = pod(
                json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]}),
            );
            found
                .into_iter()
                .map(|cause| cause.replace("volumes[0].ephemeral.volumeClaimTemplate.spec", "claim"))
                .collect::<Vec<_>>()
        };
        let (claim, snapshot) = (
            json!({"kind": "PersistentVolumeClaim", "name": "x"}),
            json!({"apiGroup": "a.b", "kind": "S", "name": "x"}),
        );
        let wrong = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        assert_eq!(of(json!({"dataSource": claim, "dataSourceRef": claim})), [""; 0]);
        assert_eq!(of(json!({"dataSourceRef": snapshot})), [""; 0]);
        assert_eq!(
            of(json!({"dataSource": claim, "dataSourceRef": snapshot})),
            ["claim: Invalid value: {}: must match dataSourceRef"]
        );
        assert_eq!(
            of(json!({"dataSourceRef": {"kind": "Foo", "name": "x"}})),
            [format!("claim.dataSourceRef: Invalid value: \"Foo\": {wrong}")]
        );
        assert_eq!(
            of(json!({"dataSource": {}})),
            [
                "claim.dataSource.name: Required value".to_owned(),
                "claim.dataSource.kind: Required value".to_owned(),
                format!("claim.dataSource: Invalid value: \"\": {wrong}")
            ]
        );
        assert!(
            of(json!({"dataSource": {"apiGroup": "A_b", "kind": "S", "name": "x"}}))[0]
                .starts_with("claim.dataSource.apiGroup: Invalid value")
        );
    }

    fn container(patch: Value) -> Vec<String> {
        let mut container = json!({"name": "c", "image": "i"});
        crate::text::patch::merge(&mut container, &patch);
        pod(json!({"containers": [container], "volumes": [{"name": "v"}]}))
    }

    #[test]
    fn jobs_are_judged_as_the_server_judges_them() {
        for (spec, said) in [
            (json!({}), &[][..]),
            (
                json!({"managedBy": "a/b c"}),
                &[
                    "spec.managedBy: Invalid value: \"b c\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
                ],
            ),
            (
                json!({"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1, "parallelism": 10_001}),
                &[
                    "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
                    "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
                ],
            ),
            (
                json!({"backoffLimitPerIndex": 1}),
                &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
            ),
            (
                json!({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "0,2", "succeededCount": 4}, {}]}}),
                &[
                    "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
                    "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 2 (the number of indexes in the specified \
                     succeededIndexes field)",
                    "spec.successPolicy.rules[1]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                ],
            ),
            (
                json!({"podFailurePolicy": {"rules": [
                    {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [0, 2, 1, 2], "containerName": "x"}},
                    {"action": "Ignore"},
                    {"onPodConditions": [{"type": "a", "status": "yes"}]},
                ]}}),
                &[
                    "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                    "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[3]: Duplicate value: 2",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [0,2,1,2]: must be ordered",
                    "spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                    "spec.podFailurePolicy.rules[2].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                    "spec.podFailurePolicy.rules[2].onPodConditions[0].status: Unsupported value: \"yes\": supported values: \"False\", \"True\", \"Unknown\"",
                ],
            ),
            (
                json!({"manualSelector": true}),
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                ],
            ),
            (
                json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}),
                &[
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                ],
            ),
        ] {
            assert_eq!(causes(json!({"spec": spec})), said, "{spec}");
        }
    }

    #[test]
    fn pods_are_judged_as_the_server_judges_them() {
        for (spec, said) in [
            (
                json!({"hostNetwork": true, "hostUsers": false, "hostPID": true}),
                &[
                    "hostNetwork: Forbidden: when `hostUsers` is false",
                    "HostPID: Forbidden: when `hostUsers` is false",
                ][..],
            ),
            (
                json!({"dnsPolicy": "None"}),
                &["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
            ),
            (
                json!({"tolerations": [{"value": "a"}, {"key": "a", "operator": "Lt"}]}),
                &[
                    "tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                    "tolerations[1].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
                ],
            ),
            (
                json!({"topologySpreadConstraints": [{"maxSkew": 0, "whenUnsatisfiable": "Maybe"}]}),
                &[
                    "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                    "topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                    "topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                ],
            ),
            (
                json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "a"}}]},
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}}),
                &[
                    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: \
                     must be specified when `operator` is 'In' or 'NotIn'",
                    "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                ],
            ),
            (
                json!({"resources": {"limits": {"nvidia.com/gpu": 1}}}),
                &[
                    "resources.limits[nvidia.com/gpu]: Unsupported value: \"nvidia.com/gpu\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                ],
            ),
            (
                json!({"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}, {"name": "w", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}]}),
                &[
                    "volumes[0].secret: Forbidden: may not specify more than 1 volume type",
                    "volumes[1].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                ],
            ),
            (
                json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}}}}]}),
                &[
                    "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                    "volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
                ],
            ),
            (
                json!({"initContainers": [{"name": "c", "image": "i"}]}),
                &["initContainers[0].name: Duplicate value: \"c\""],
            ),
            (
                json!({"initContainers": [{"name": "s", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
                &[
                    "initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                ],
            ),
        ] {
            assert_eq!(pod(spec.clone()), said, "{spec}");
        }
    }

    #[test]
    fn containers_are_judged_as_the_server_judges_them() {
        for (patch, said) in [
            (json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}), &[][..]),
            (
                json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}, {"name": "v", "mountPath": "/a"}]}),
                &[
                    "containers[0].volumeMounts.subPath: Invalid value: \"../b\": must not contain '..'",
                    "containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
                ],
            ),
            (
                json!({"volumeDevices": [{"name": "v", "devicePath": "/d"}]}),
                &["containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume \
                source type of PersistentVolumeClaim or Ephemeral for block mode"],
            ),
            (
                json!({"env": [{"name": "a=b"}, {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}, {"name": "B", "valueFrom": {}}]}),
                &[
                    "containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                    "containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
                    "containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                    "containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
                ],
            ),
            (
                json!({"envFrom": [{}]}),
                &[
                    "containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                ],
            ),
            (
                json!({"ports": [{"name": "A", "containerPort": 70_000}, {"hostPort": 1}]}),
                &[
                    "containers[0].ports[0].name: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "containers[0].ports[0].name: Invalid value: \"A\": must contain at least one letter (a-z)",
                    "containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                    "containers[0].ports[1].containerPort: Required value",
                ],
            ),
            (
                json!({"livenessProbe": {"successThreshold": 2}, "lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}),
                &[
                    "containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)",
                    "containers[0].livenessProbe: Required value: must specify a handler type",
                    "containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
                ],
            ),
            (
                json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "4Mi"}, "claims": [{"name": "g"}]}}),
                &[
                    "containers[0].resources.requests: Invalid value: \"4Mi\": must be equal to hugepages-2Mi limit of 2Mi",
                    "containers[0].resources: Forbidden: HugePages require cpu or memory",
                    "containers[0].resources.claims[0]: Not found: \"g\": must be one of the names in pod.spec.resourceClaims which is empty",
                ],
            ),
            (
                json!({"restartPolicy": "Sometimes"}),
                &[
                    "containers[0].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"Never\", \"OnFailure\"",
                ],
            ),
            (
                json!({"imagePullPolicy": "Often"}),
                &[
                    "containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                json!({"securityContext": {"runAsUser": -1}}),
                &[
                    "containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                ],
            ),
        ] {
            assert_eq!(container(patch.clone()), said, "{patch}");
        }
    }
}
