//! The rules of a `podFailurePolicy`, and which of them is reached by a failure. The first that matches decides
//! (`pkg/controller/job/pod_failure_policy.go`).

use std::collections::BTreeSet;

use crate::controllers::job::spec::{FailureAction, FailureMatch, FailureRule};
use crate::kinds::{Field, Part};

/// The largest exit code of a process on Linux.
pub(super) const MOST_CODE: i64 = 255;

/// A rule, where all of it is known.
#[derive(Debug)]
pub(super) struct KnownRule<'a> {
    /// Its index in the list.
    pub(super) nth: usize,
    /// Its place.
    pub(super) part: Part<'a>,
    /// What it does.
    pub(super) action: FailureAction,
    /// What it matches.
    pub(super) on: RuleMatch,
}

/// What a rule matches.
#[derive(Debug)]
pub(super) enum RuleMatch {
    /// These exit codes of a container; of any, where none is named.
    Codes(Option<String>, CodeSet),
    /// Any of these conditions: type and status.
    Conditions(BTreeSet<(String, String)>),
}

/// A set of exit codes that are not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CodeSet {
    /// These.
    In(BTreeSet<i64>),
    /// All but these.
    NotIn(BTreeSet<i64>),
}

/// Returns the word for an action.
pub(super) const fn word(action: FailureAction) -> &'static str {
    match action {
        FailureAction::FailJob => "FailJob",
        FailureAction::FailIndex => "FailIndex",
        FailureAction::Ignore => "Ignore",
        FailureAction::Count => "Count",
    }
}

impl CodeSet {
    /// Tells whether a code is in it.
    pub(super) fn contains(&self, code: i64) -> bool {
        match self {
            Self::In(codes) => codes.contains(&code),
            Self::NotIn(codes) => code != 0 && !codes.contains(&code),
        }
    }

    /// Tells whether all codes of another set are in it.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::In(codes)) => codes.iter().all(|code| self.contains(*code)),
            (Self::NotIn(without), Self::NotIn(codes)) => {
                without.iter().all(|code| *code == 0 || codes.contains(code))
            }
            // Some node may have larger codes.
            (Self::In(_), Self::NotIn(_)) => false,
        }
    }

    /// Returns the codes of either set.
    fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::In(a), Self::In(b)) => Self::In(a | b),
            (Self::NotIn(a), Self::NotIn(b)) => Self::NotIn(a & b),
            (Self::In(a), Self::NotIn(b)) | (Self::NotIn(b), Self::In(a)) => Self::NotIn(b - a),
        }
    }

    /// Returns the smallest code of a process in it.
    pub(super) fn first(&self) -> Option<u8> {
        (1..=u8::MAX).find(|code| self.contains(i64::from(*code)))
    }
}

impl<'a> KnownRule<'a> {
    /// Reads the rules in a list. Those with a placeholder, or that the API server refuses, are left out.
    pub(super) fn all(list: &Part<'a>) -> Vec<Self> {
        list.items().enumerate().filter_map(|(nth, part)| Self::new(nth, part)).collect()
    }

    fn new(nth: usize, part: Part<'a>) -> Option<Self> {
        let (codes, conditions) = (part.get("onExitCodes"), part.get("onPodConditions"));
        let is_plain = match (codes.is_set(), conditions.values().is_empty()) {
            (true, true) => {
                matches!(codes.get("operator").text(), Field::Set("In" | "NotIn"))
                    && matches!(codes.get("containerName").text(), Field::Unset | Field::Set(_))
                    && codes.get("values").items().all(|value| matches!(value.int(), Field::Set(_)))
                    && !codes.get("values").values().is_empty()
            }
            (false, false) => conditions.items().all(|condition| {
                matches!(condition.get("type").text(), Field::Set(_))
                    && matches!(condition.get("status").text(), Field::Unset | Field::Set(_))
            }),
            _ => false,
        };
        let FailureRule { action, on } = FailureRule::from_rule(part.value.filter(|_| is_plain)?)?;
        let on = match on {
            FailureMatch::ExitCodes { container, is_in, values } => {
                let values = values.into_iter().collect();
                RuleMatch::Codes(container, if is_in { CodeSet::In(values) } else { CodeSet::NotIn(values) })
            }
            FailureMatch::Conditions(conditions) => RuleMatch::Conditions(conditions.into_iter().collect()),
        };
        Some(Self { nth, part, action, on })
    }

    /// Returns its name in messages.
    pub(super) fn name(&self) -> String {
        format!("`rules[{}]` (`{}`)", self.nth, word(self.action))
    }

    /// Returns the earlier rules that together match whatever it matches, so that it is never reached: one, where one is
    /// enough.
    pub(super) fn shadowed_by<'r>(&self, earlier: &'r [Self]) -> Vec<&'r Self> {
        let same: Vec<&Self> = earlier.iter().filter(|rule| rule.is_like(self)).collect();
        if let Some(one) = same.iter().find(|rule| rule.on.covers(&self.on)) {
            return vec![one];
        }
        let all = same.iter().try_fold(None, |all: Option<RuleMatch>, rule| {
            Some(Some(all.map_or_else(|| rule.on.copied(), |all| all.or(&rule.on))))
        });
        if all.flatten().is_some_and(|all| all.covers(&self.on)) { same } else { Vec::new() }
    }

    /// Tells whether it looks at the same as another one: the same container or any, or conditions.
    fn is_like(&self, other: &Self) -> bool {
        match (&self.on, &other.on) {
            (RuleMatch::Codes(own, _), RuleMatch::Codes(others, _)) => own.is_none() || own == others,
            (RuleMatch::Conditions(_), RuleMatch::Conditions(_)) => true,
            _ => false,
        }
    }
}

impl RuleMatch {
    /// Tells whether it matches all that another one matches, of the same container.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Codes(_, own), Self::Codes(_, others)) => own.covers(others),
            (Self::Conditions(own), Self::Conditions(others)) => others.is_subset(own),
            _ => false,
        }
    }

    /// Returns what either matches.
    fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Codes(container, own), Self::Codes(_, others)) => {
                Self::Codes(container.clone(), own.or(others))
            }
            (Self::Conditions(own), Self::Conditions(others)) => Self::Conditions(own | others),
            (own, _) => own.copied(),
        }
    }

    fn copied(&self) -> Self {
        match self {
            Self::Codes(container, codes) => Self::Codes(container.clone(), codes.clone()),
            Self::Conditions(conditions) => Self::Conditions(conditions.clone()),
        }
    }

    /// Tells whether it matches a pod that is drained, preempted or evicted.
    pub(super) fn is_disruption(&self) -> bool {
        match self {
            Self::Conditions(conditions) => {
                conditions.iter().any(|(sort, status)| sort == "DisruptionTarget" && status == "True")
            }
            Self::Codes(..) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::{Value, json};

    fn shadows(rules: &Value) -> Vec<Vec<usize>> {
        let rules = KnownRule::all(&Part::root(rules));
        let all = rules.iter().enumerate();
        all.map(|(at, rule)| rule.shadowed_by(&rules[..at]).iter().map(|rule| rule.nth).collect()).collect()
    }

    fn codes(operator: &str, values: &[i64]) -> Value {
        json!({"action": "Count", "onExitCodes": {"operator": operator, "values": values}})
    }

    fn of(container: &str, values: &[i64]) -> Value {
        json!({"action": "Count", "onExitCodes": {"containerName": container, "operator": "In", "values": values}})
    }

    fn conditions(types: &[&str]) -> Value {
        let conditions: Vec<Value> = types.iter().map(|sort| json!({"type": sort})).collect();
        json!({"action": "Ignore", "onPodConditions": conditions})
    }

    #[test]
    fn a_rule_is_shadowed_by_those_that_match_all_that_it_matches() {
        for (rules, expected) in [
            (json!([codes("NotIn", &[0]), codes("In", &[42])]), vec![vec![], vec![0]]),
            (json!([codes("In", &[1, 42]), codes("In", &[42])]), vec![vec![], vec![0]]),
            (json!([codes("In", &[42]), codes("In", &[1, 42])]), vec![vec![], vec![]]),
            (
                json!([codes("In", &[1]), codes("In", &[2]), codes("In", &[1, 2])]),
                vec![vec![], vec![], vec![0, 1]],
            ),
            (json!([codes("NotIn", &[42]), codes("In", &[42])]), vec![vec![], vec![]]),
            (json!([codes("NotIn", &[1]), codes("NotIn", &[1, 2])]), vec![vec![], vec![0]]),
            (json!([codes("NotIn", &[1, 2]), codes("NotIn", &[1])]), vec![vec![], vec![]]),
            (
                json!([codes("In", &[1]), codes("NotIn", &[1]), codes("NotIn", &[0])]),
                vec![vec![], vec![], vec![0, 1]],
            ),
            // Of one container and of any.
            (json!([of("a", &[1]), codes("In", &[1])]), vec![vec![], vec![]]),
            (json!([codes("In", &[1]), of("a", &[1])]), vec![vec![], vec![0]]),
            (json!([of("b", &[1]), of("a", &[1])]), vec![vec![], vec![]]),
            // Conditions.
            (json!([conditions(&["A", "B"]), conditions(&["A"])]), vec![vec![], vec![0]]),
            (json!([conditions(&["A"]), conditions(&["B", "A"])]), vec![vec![], vec![]]),
            (json!([codes("NotIn", &[0]), conditions(&["A"])]), vec![vec![], vec![]]),
        ] {
            assert_eq!(shadows(&rules), expected, "{rules}");
        }
    }

    #[test]
    fn a_rule_that_is_not_known_is_left_out() {
        let placeholder = json!({"action": "$ACTION", "onExitCodes": {"operator": "In", "values": [1]}});
        let both = json!({"action": "Count", "onExitCodes": {"operator": "In", "values": [1]},
            "onPodConditions": [{"type": "A"}]});
        let rules = json!([placeholder, codes("In", &[]), codes("Is", &[1]), both, codes("In", &[1]), {"action": "Count"}, null]);
        let known: Vec<usize> = KnownRule::all(&Part::root(&rules)).iter().map(|rule| rule.nth).collect();
        assert_eq!(known, [4]);
    }
}
