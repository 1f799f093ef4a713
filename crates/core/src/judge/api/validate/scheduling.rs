//! Topology spread constraints and tolerations.

use std::collections::HashMap;

use super::cause::{CausePlace as _, Causes};
use super::object_part::ObjectPart;
use super::selector;
use crate::k8s::go::quoted;
use crate::k8s::names;

pub(super) fn spread<'a>(constraints: &ObjectPart<'_, 'a>, causes: &mut Causes) {
    let both = |constraint: &ObjectPart<'_, 'a>| {
        (constraint.get("topologyKey").text(), constraint.get("whenUnsatisfiable").text())
    };
    // The index of the last constraint of each pair.
    let mut last: HashMap<(&str, &str), usize> = HashMap::new();
    last.extend(constraints.items().enumerate().map(|(index, constraint)| (both(&constraint), index)));
    causes.of_all_items(constraints, |constraint, index, causes| {
        let (skew, key, action) =
            (constraint.get("maxSkew"), constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        if skew.number().is_none_or(|skew| skew <= 0) {
            causes.invalid_number(&skew, skew.number().unwrap_or_default(), "must be greater than zero");
        }
        if key.text().is_empty() {
            causes.required(&key, "can not be empty");
        }
        causes.one_of(&action, &["DoNotSchedule", "ScheduleAnyway"]);
        if last.get(&both(constraint)).is_some_and(|last| index < *last) {
            let both = constraint.get("{topologyKey, whenUnsatisfiable}");
            causes.duplicate(&both, &quoted(&format!("{{{}, {}}}", key.text(), action.text())));
        }
        let domains = constraint.get("minDomains");
        if domains.number().is_some_and(|domains| domains <= 0) {
            causes.invalid(&domains, "must be greater than zero");
        }
        if domains.is_set() && action.text() != "DoNotSchedule" {
            causes.invalid(
                &domains,
                &format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", action.text()),
            );
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(policy);
            causes.one_of_if_set(&policy, &["Honor", "Ignore"]);
        }
        selector::label_keys(&constraint.get("matchLabelKeys"), &constraint.get("labelSelector"), causes);
        selector::label_selector(&constraint.get("labelSelector"), causes);
    });
}

pub(super) fn tolerations(tolerations: &ObjectPart<'_, '_>, causes: &mut Causes) {
    causes.of_items(tolerations, |toleration, _, causes| {
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| toleration.get(field));
        if key.text().is_empty() {
            if operator.text() != "Exists" {
                let rule = "operator must be Exists when `key` is empty, which means \"match all values and \
                            all keys\"";
                causes.invalid_text(&operator, operator.text(), rule);
            }
        } else {
            causes.format(&key, names::qualified_name);
        }
        if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            causes.invalid_text(
                &effect,
                effect.text(),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator.text() {
            "" | "Equal" => {
                let messages = names::label_value(value.text());
                if !messages.is_empty() {
                    causes.invalid_text(&operator, value.text(), &messages.join(";")).pointer =
                        value.pointer();
                }
            }
            "Exists" => {
                if !value.text().is_empty() {
                    causes
                        .invalid_text(
                            &operator,
                            value.text(),
                            "value must be empty when `operator` is 'Exists'",
                        )
                        .pointer = value.pointer();
                }
            }
            "Lt" | "Gt" => {
                causes.unsupported(&operator, &quoted(operator.text()), &["Equal", "Exists", "Lt", "Gt"]);
            }
            _ => causes.one_of(&operator, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            causes.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    });
}
