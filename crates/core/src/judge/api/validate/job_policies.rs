//! `podFailurePolicy` and `successPolicy` of a Job.

use std::collections::HashSet;

use super::cause::Causes;
use super::key_set::SeenValues;
use super::object_part::ObjectPart;
use crate::k8s::go::quoted;
use crate::k8s::names;

/// The server's message for a name that no container has.
pub(in crate::judge::api) const NO_CONTAINER: &str =
    "must be one of the container or initContainer names in the pod template";

pub(super) fn pod_failure_policy(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let rules = spec.at(&["podFailurePolicy", "rules"]);
    causes.at_most(&rules, 20);
    let pod = spec.at(&["template", "spec"]);
    let lists = [pod.get("containers"), pod.get("initContainers")];
    let names: HashSet<&str> =
        lists.iter().flat_map(ObjectPart::items).map(|container| container.get("name").text()).collect();
    causes.of_all_items(&rules, |rule, _, causes| {
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
            causes.of_all_items(&conditions, |pattern, _, causes| {
                let status = pattern.get("status");
                causes.format(&pattern.get("type"), names::qualified_name);
                match status.text() {
                    "" => _ = causes.required(&status, "valid values: [\"False\" \"True\" \"Unknown\"]"),
                    _ => causes.one_of(&status, &["False", "True", "Unknown"]),
                }
            });
        }
        match (codes.is_set(), has_conditions) {
            (true, true) => {
                causes.invalid_bare(rule, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, false) => {
                causes.invalid_bare(rule, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            _ => {}
        }
    });
}

fn exit_codes(codes: &ObjectPart<'_, '_>, containers: &HashSet<&str>, causes: &mut Causes) {
    let operator = codes.get("operator");
    match operator.text() {
        "" => _ = causes.required(&operator, "valid values: [\"In\" \"NotIn\"]"),
        _ => causes.one_of(&operator, &["In", "NotIn"]),
    }
    let container = codes.get("containerName");
    if container.is_set() && !containers.contains(container.text()) {
        causes.invalid(&container, NO_CONTAINER);
    }
    let values = codes.get("values");
    let numbers: Vec<(ObjectPart<'_, '_>, i64)> =
        values.items().map(|value| (value, value.number().unwrap_or_default())).collect();
    if numbers.is_empty() {
        causes.invalid_value(&values, "at least one value is required");
    }
    causes.at_most(&values, 255);
    let mut seen = SeenValues::default();
    for (part, value) in &numbers {
        if operator.text() == "In" && *value == 0 {
            causes.invalid(part, "must not be 0 for the In operator");
        }
        if !seen.insert(*value) {
            causes.duplicate(part, &value.to_string());
        }
    }
    if !numbers.is_sorted_by_key(|(_, value)| *value) {
        causes.invalid_value(&values, "must be ordered");
    }
}

pub(super) fn success_policy(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let rules = spec.at(&["successPolicy", "rules"]);
    if rules.items().next().is_none() {
        causes.required(&rules, "at least one rules must be specified when the successPolicy is specified");
    }
    causes.at_most(&rules, 20);
    // Missing completions are reported elsewhere.
    let Some(completions) = spec.get("completions").number() else { return };
    for rule in rules.items() {
        let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            causes.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut listed = None;
        if indexes.is_set() {
            const MAX_BYTES: usize = 64 * 1024;
            if indexes.text().len() > MAX_BYTES {
                causes.too_long(&indexes, MAX_BYTES);
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
            causes.invalid(
                &count,
                &format!(
                    "must be less than or equal to {listed} (the number of indexes in \
                     the specified succeededIndexes field)"
                ),
            );
        }
    }
}

/// Counts indexes such as `0,3-5`, which must increase and be below `completions`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
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
