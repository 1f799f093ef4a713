//! Labels, and selectors of labels and of nodes.

use serde_json::Value;

use super::cause::{Causes, set, text};
use crate::k8s::names;
use crate::workload::Part;

/// Checks a mapping of labels, or a node selector. The server names the mapping, never the label.
pub(super) fn labels(labels: &Part<'_>, causes: &mut Causes) {
    for (key, value) in labels.entries() {
        for message in names::qualified_name(key) {
            causes.invalid_text(&labels.pointer, key, &message);
        }
        for message in names::label_value(text(&value)) {
            causes.invalid_text(&labels.pointer, text(&value), &message).pointer = value.pointer.clone();
        }
    }
}

/// Checks a `LabelSelector`.
pub(super) fn label_selector(selector: &Part<'_>, causes: &mut Causes) {
    labels(&selector.get("matchLabels"), causes);
    for expression in selector.get("matchExpressions").items() {
        requirement(&expression, false, true, causes);
    }
}

/// Checks one expression of a selector; those of nodes also know `Gt` and `Lt`.
fn requirement(expression: &Part<'_>, of_nodes: bool, check_values: bool, causes: &mut Causes) {
    let (operator, values, key) = (expression.get("operator"), expression.get("values"), expression.get("key"));
    let count = values.items().count();
    match text(&operator) {
        "In" | "NotIn" if count == 0 => _ = causes.required(&values.pointer, "must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" if count > 0 => {
            causes.forbidden(&values.pointer, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if of_nodes => {
            if count != 1 {
                causes.required(&values.pointer, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => _ = causes.invalid(&operator, "not a valid selector operator"),
    }
    causes.invalid_each(&key, names::qualified_name(text(&key)));
    if check_values {
        for value in values.items() {
            causes.invalid_each(&value, names::label_value(text(&value)));
        }
    }
}

/// Checks one term of a node selector.
pub(super) fn node_term(term: &Part<'_>, required: bool, causes: &mut Causes) {
    for expression in term.get("matchExpressions").items() {
        requirement(&expression, true, required, causes);
    }
    for field in term.get("matchFields").items() {
        let (operator, values, key) = (field.get("operator"), field.get("values"), field.get("key"));
        match text(&operator) {
            "In" | "NotIn" => {
                if values.items().count() != 1 {
                    causes.required(&values.pointer, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
                }
            }
            _ => _ = causes.invalid(&operator, "not a valid selector operator"),
        }
        if text(&key) == "metadata.name" {
            for value in values.items() {
                causes.invalid_each(&value, names::dns_subdomain(text(&value)));
            }
        } else {
            causes.invalid(&key, "not a valid field selector key");
        }
    }
}

/// Tells whether a selector picks labels.
pub(super) fn matches(selector: &Part<'_>, labels: &Part<'_>) -> bool {
    let label = |key: &str| labels.value.and_then(|labels| labels.get(key)?.as_str());
    let all = selector.get("matchLabels").entries().all(|(key, value)| label(key) == value.value.and_then(Value::as_str));
    all && selector.get("matchExpressions").items().all(|expression| {
        let key = expression.get("key");
        let found = label(text(&key));
        let listed = found.is_some_and(|found| expression.get("values").items().any(|value| text(&value) == found));
        match text(&expression.get("operator")) {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => true,
        }
    })
}

/// Checks the affinities of a pod.
pub(super) fn affinity(affinity: &Part<'_>, causes: &mut Causes) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = affinity.get("nodeAffinity");
    if set(&node.get(REQUIRED)) {
        let terms = node.get(REQUIRED).get("nodeSelectorTerms");
        if terms.items().next().is_none() {
            causes.required(&terms.pointer, "must have at least one node selector term");
        }
        for term in terms.items() {
            node_term(&term, true, causes);
        }
    }
    for term in node.get(PREFERRED).items() {
        weight(&term.get("weight"), causes);
        node_term(&term.get("preference"), false, causes);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in affinity.get(kind).get(REQUIRED).items() {
            pod_term(&term, causes);
        }
        for term in affinity.get(kind).get(PREFERRED).items() {
            weight(&term.get("weight"), causes);
            pod_term(&term.get("podAffinityTerm"), causes);
        }
    }
}

fn weight(weight: &Part<'_>, causes: &mut Causes) {
    let number = weight.int();
    if !number.or_default(0).is_none_or(|number| (1..=100).contains(&number)) {
        let shown = number.or_default(0).unwrap_or_default();
        causes.invalid_number(&weight.pointer, shown, "must be in the range 1-100");
    }
}

fn pod_term(term: &Part<'_>, causes: &mut Causes) {
    label_selector(&term.get("labelSelector"), causes);
    label_selector(&term.get("namespaceSelector"), causes);
    for namespace in term.get("namespaces").items() {
        for message in names::dns_label(text(&namespace)) {
            causes.invalid_text(&(&term.pointer / "namespace"), text(&namespace), &message).pointer = namespace.pointer.clone();
        }
    }
    for keys in ["matchLabelKeys", "mismatchLabelKeys"] {
        label_keys(&term.get(keys), &term.get("labelSelector"), causes);
    }
    let others = term.get("mismatchLabelKeys");
    for key in term.get("matchLabelKeys").items().filter(|key| others.items().any(|other| other.value == key.value)) {
        causes.invalid(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
    let key = term.get("topologyKey");
    if text(&key).is_empty() {
        causes.required(&key.pointer, "can not be empty");
    }
    causes.invalid_each(&key, names::qualified_name(text(&key)));
}

/// Checks label keys that are taken over from the pod.
pub(super) fn label_keys(keys: &Part<'_>, selector: &Part<'_>, causes: &mut Causes) {
    if keys.items().next().is_some() && !set(selector) {
        causes.forbidden(&keys.pointer, "must not be specified when labelSelector is not set");
        return;
    }
    for key in keys.items() {
        causes.invalid_each(&key, names::qualified_name(text(&key)));
    }
}
