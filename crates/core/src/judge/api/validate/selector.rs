//! Labels, and selectors of labels and nodes.

use std::collections::HashSet;

use super::cause::{CausePlace as _, Causes};
use super::object_part::ObjectPart;
use crate::judge::api::stored_object::Stored;
use crate::k8s::names;

/// Checks a mapping of labels, or a node selector. The server names the mapping, never the label.
pub(super) fn labels(labels: &ObjectPart<'_, '_>, causes: &mut Causes) {
    for (key, value) in labels.entries() {
        for message in names::qualified_name(key) {
            causes.invalid_text(labels, key, &message).pointer = value.pointer();
        }
        for message in names::label_value(value.text()) {
            causes.invalid_text(labels, value.text(), &message).pointer = value.pointer();
        }
    }
}

/// Checks a `LabelSelector`.
pub(super) fn label_selector(selector: &ObjectPart<'_, '_>, causes: &mut Causes) {
    labels(&selector.get("matchLabels"), causes);
    for expression in selector.get("matchExpressions").readable() {
        requirement(&expression, false, true, causes);
    }
}

/// Checks one expression of a selector; those of nodes also know `Gt` and `Lt`.
fn requirement(expression: &ObjectPart<'_, '_>, of_nodes: bool, check_values: bool, causes: &mut Causes) {
    let (operator, values, key) =
        (expression.get("operator"), expression.get("values"), expression.get("key"));
    let count = values.items().count();
    match operator.text() {
        "In" | "NotIn" if count == 0 => {
            _ = causes.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            causes.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if of_nodes => {
            if count != 1 {
                causes.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => _ = causes.invalid(&operator, "not a valid selector operator"),
    }
    causes.format(&key, names::qualified_name);
    if check_values {
        for value in values.items() {
            causes.format(&value, names::label_value);
        }
    }
}

/// Checks one term of a node selector.
pub(super) fn node_term(term: &ObjectPart<'_, '_>, required: bool, causes: &mut Causes) {
    causes.of_items(&term.get("matchExpressions"), |expression, _, causes| {
        requirement(expression, true, required, causes);
    });
    causes.of_items(&term.get("matchFields"), |field, _, causes| {
        let (operator, values, key) = (field.get("operator"), field.get("values"), field.get("key"));
        match operator.text() {
            "In" | "NotIn" => {
                if values.items().count() != 1 {
                    causes.required(
                        &values,
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                    );
                }
            }
            _ => _ = causes.invalid(&operator, "not a valid selector operator"),
        }
        if key.text() == "metadata.name" {
            for value in values.items() {
                causes.format(&value, names::dns_subdomain);
            }
        } else {
            causes.invalid(&key, "not a valid field selector key");
        }
    });
}

/// Returns a label.
pub(super) fn label<'v>(labels: &ObjectPart<'_, 'v>, key: &str) -> Option<&'v str> {
    labels.value?.get(key)?.as_str()
}

/// Tells whether a selector matches labels.
pub(super) fn matches<'v>(selector: &ObjectPart<'_, '_>, label: impl Fn(&str) -> Option<&'v str>) -> bool {
    let all = selector
        .get("matchLabels")
        .entries()
        .all(|(key, value)| label(key) == value.value.and_then(Stored::as_str));
    all && selector.get("matchExpressions").items().all(|expression| {
        let key = expression.get("key");
        let found = label(key.text());
        let listed =
            found.is_some_and(|found| expression.get("values").items().any(|value| value.text() == found));
        match expression.get("operator").text() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => true,
        }
    })
}

/// Checks the affinities of a pod.
pub(super) fn affinity(affinity: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = affinity.get("nodeAffinity");
    if node.get(REQUIRED).is_set() {
        let terms = node.at(&[REQUIRED, "nodeSelectorTerms"]);
        if terms.items().next().is_none() {
            causes.required(&terms, "must have at least one node selector term");
        }
        causes.of_items(&terms, |term, _, causes| {
            node_term(term, true, causes);
        });
    }
    causes.of_items(&node.get(PREFERRED), |term, _, causes| {
        weight(&term.get("weight"), causes);
        node_term(&term.get("preference"), false, causes);
    });
    for kind in ["podAffinity", "podAntiAffinity"] {
        causes.of_items(&affinity.get(kind).get(REQUIRED), |term, _, causes| {
            pod_term(term, causes);
        });
        causes.of_items(&affinity.get(kind).get(PREFERRED), |term, _, causes| {
            weight(&term.get("weight"), causes);
            pod_term(&term.get("podAffinityTerm"), causes);
        });
    }
}

fn weight(weight: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let number = if weight.is_set() { weight.number() } else { Some(0) };
    if let Some(number) = number.filter(|number| !(1..=100).contains(number)) {
        causes.invalid_number(weight, number, "must be in the range 1-100");
    }
}

fn pod_term(term: &ObjectPart<'_, '_>, causes: &mut Causes) {
    label_selector(&term.get("labelSelector"), causes);
    label_selector(&term.get("namespaceSelector"), causes);
    for namespace in term.get("namespaces").items() {
        for message in names::dns_label(namespace.text()) {
            causes.invalid_text(&(term.pointer() / "namespace"), namespace.text(), &message).pointer =
                namespace.pointer();
        }
    }
    for keys in ["matchLabelKeys", "mismatchLabelKeys"] {
        label_keys(&term.get(keys), &term.get("labelSelector"), causes);
    }
    let others = term.get("mismatchLabelKeys");
    let others: HashSet<&str> = others.items().map(|key| key.text()).collect();
    for key in term.get("matchLabelKeys").items().filter(|key| others.contains(key.text())) {
        causes.invalid(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
    let key = term.get("topologyKey");
    if key.text().is_empty() {
        causes.required(&key, "can not be empty");
    }
    causes.format(&key, names::qualified_name);
}

/// Checks `matchLabelKeys` and the like.
pub(super) fn label_keys(keys: &ObjectPart<'_, '_>, selector: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if keys.items().next().is_some() && !selector.is_set() {
        causes.forbidden(keys, "must not be specified when labelSelector is not set");
        return;
    }
    for key in keys.items() {
        causes.format(&key, names::qualified_name);
    }
}
