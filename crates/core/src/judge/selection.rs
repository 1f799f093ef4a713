//! Selection of rules and checks: `--select` and `--ignore`, on top of a policy.

use std::collections::BTreeSet;

use globset::Glob;

use crate::judge::checks::CHECKS;
use crate::judge::policy::Policy;
use crate::judge::rule::RuleId;
use crate::judge::rules::RuleSet;
use crate::text::suggest::closest;

/// The rules and checks that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(BTreeSet<RuleId>);

/// A pattern that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct NothingSelected {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// Returns the ids of the rules of a set, then those of all checks.
pub fn ids(rules: &RuleSet) -> impl Iterator<Item = RuleId> + Clone {
    rules.iter().map(|rule| rule.id.clone()).chain(CHECKS.iter().map(|check| check.id.into()))
}

/// Returns the rules of a set, and the checks, that an id or a glob names.
///
/// # Errors
/// The pattern matches nothing: a typo must not switch anything off or on.
pub fn matching(rules: &RuleSet, pattern: &str) -> Result<Vec<RuleId>, NothingSelected> {
    let shown = pattern.chars().take(80).collect::<String>().escape_debug().to_string();
    let wild = pattern.contains(['*', '?', '[', '{']);
    let error = |message: String, help: &str| NothingSelected { message, help: help.to_owned() };
    let lists = "`jobgate explain` lists the rules and checks";
    if !wild {
        return ids(rules).find(|id| *id == *pattern).map(|id| vec![id]).ok_or_else(|| {
            let message = format!("there is no rule or check `{shown}`");
            let ids: Vec<RuleId> = ids(rules).collect();
            match closest(pattern, ids.iter().map(|id| &**id)) {
                Some(meant) => error(message, &format!("did you mean `{meant}`?")),
                None => error(message, lists),
            }
        });
    }
    let glob = Glob::new(pattern)
        .map_err(|why| error(format!("`{shown}` is not a glob: {}", why.kind()), lists))?
        .compile_matcher();
    let found: Vec<RuleId> = ids(rules).filter(|id| glob.is_match(&**id)).collect();
    if found.is_empty() {
        Err(error(format!("no rule or check matches `{shown}`"), lists))
    } else {
        Ok(found)
    }
}

impl Selection {
    /// Returns what two lists of ids and globs select: those of the first, or all if it is empty, without
    /// those of the second. Nothing if both are empty.
    ///
    /// # Errors
    /// A pattern names no rule and no check.
    pub fn new(
        rules: &RuleSet,
        select: &[String],
        ignore: &[String],
    ) -> Result<Option<Self>, NothingSelected> {
        if select.is_empty() && ignore.is_empty() {
            return Ok(None);
        }
        let mut used: BTreeSet<RuleId> = BTreeSet::new();
        if select.is_empty() {
            used.extend(ids(rules));
        }
        for pattern in select {
            used.extend(matching(rules, pattern)?);
        }
        for pattern in ignore {
            for id in matching(rules, pattern)? {
                used.remove(&id);
            }
        }
        Ok(Some(Self(used)))
    }

    /// Tells whether a rule or check is used.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// Returns a policy that ignores the rules that are not used.
    #[must_use]
    pub fn of_policy(&self, policy: Policy) -> Policy {
        policy.with_only(|id| self.has(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(select: &[&str], ignore: &[&str]) -> Result<Vec<RuleId>, String> {
        let owned = |patterns: &[&str]| patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let selection = Selection::new(&RuleSet::built_in(), &owned(select), &owned(ignore))
            .map_err(|error| error.to_string())?;
        Ok(ids(&RuleSet::built_in())
            .filter(|id| selection.as_ref().is_none_or(|selection| selection.has(id)))
            .collect())
    }

    #[test]
    fn rules_and_checks_are_selected_by_id_and_glob() {
        assert_eq!(selected(&["deadline"], &[]).unwrap(), ["deadline"]);
        assert_eq!(selected(&["deadline", "syntax"], &["syntax"]).unwrap(), ["deadline"]);
        assert_eq!(selected(&["unknown-*"], &["unknown-rule"]).unwrap(), ["unknown-field"]);
        assert_eq!(selected(&["*"], &["*"]).unwrap(), [""; 0]);
        assert_eq!(selected(&[], &["deadline"]).unwrap().len(), ids(&RuleSet::built_in()).count() - 1);
        assert_eq!(Selection::new(&RuleSet::built_in(), &[], &[]), Ok(None));
    }

    #[test]
    fn a_pattern_that_selects_nothing_is_an_error() {
        for (pattern, message) in [
            ("dedline", "there is no rule or check `dedline`; did you mean `deadline`?"),
            ("sintax", "there is no rule or check `sintax`; did you mean `syntax`?"),
            ("zzz", "there is no rule or check `zzz`; `jobgate explain` lists the rules and checks"),
            ("zzz-*", "no rule or check matches `zzz-*`; `jobgate explain` lists the rules and checks"),
            ("", "there is no rule or check ``; `jobgate explain` lists the rules and checks"),
        ] {
            assert_eq!(selected(&[pattern], &[]).unwrap_err(), message);
            assert_eq!(selected(&[], &[pattern]).unwrap_err(), message);
        }
        assert!(selected(&["[a"], &[]).unwrap_err().starts_with("`[a` is not a glob: "));
    }

    #[test]
    fn a_policy_ignores_what_is_not_selected_also_in_overrides() {
        let source = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec:\n  rules: {deadline: {action: ignore}}\n  overrides: [{match: {names: [a]}, rules: {deadline: {action: warn}, restart-policy: {action: deny}}}]\n";
        let selection = Selection::new(&RuleSet::built_in(), &["deadline".to_owned()], &[]).unwrap().unwrap();
        let policy = selection.of_policy(Policy::parse(source, "p").unwrap());
        let used: Vec<&str> =
            policy.rules().iter().map(|rule| &*rule.id).filter(|rule| policy.uses(rule)).collect();
        assert_eq!(used, ["deadline"], "a selected rule keeps its action of the policy");
    }
}
