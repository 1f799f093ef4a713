//! Checks that a patch fits before it is sent.
//!
//! A patch that does not apply, or makes an object that the API server cannot decode, fails the request even
//! if the webhook fails open (kubernetes.md §7.6). So every patch is checked, whichever rules made it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::judge::engine::Verdict;
use crate::judge::finding::{Finding, Level, MOST_OPS};
use crate::judge::rules::RULES;
use crate::text::patch;
use crate::text::patch::Op;
use crate::text::pointer::Token;
use crate::text::value::Value;

/// The largest patch that is sent, in bytes of the places that it changes: a key on the way may be as long as
/// the object.
const MAX_PATCH_PLACE_BYTES: usize = 256 << 10;

/// Why a patch is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Doubt {
    /// An operation names a place that is not there, in at least one of the engines that might apply it.
    #[error("it does not apply to the received object")]
    DoesNotApply,
    /// It changes a place that no rule has declared.
    #[error("it changes a field that no rule may fill")]
    StraysOutside,
    /// The patched object would be patched again.
    #[error("the patched object would be patched again")]
    NotIdempotent,
    /// The patched object would be denied for something new.
    #[error("the patched object would have a new denial")]
    NewDenial,
    /// It is far larger than any rule has reason to make it.
    #[error("it is too large")]
    TooLarge,
}

impl Doubt {
    /// Returns a word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DoesNotApply => "patch_does_not_apply",
            Self::StraysOutside => "patch_strays_outside",
            Self::NotIdempotent => "patch_not_idempotent",
            Self::NewDenial => "patch_new_denial",
            Self::TooLarge => "patch_too_large",
        }
    }
}

/// Returns the operations of a verdict if they pass every check; `judge` judges the patched object, at least by
/// the rules that deny or fill in.
///
/// # Errors
///
/// The check that failed; nothing may be sent.
pub(crate) fn checked_patch(
    mut object: Value,
    verdict: &Verdict,
    judge: impl FnOnce(&Value) -> Verdict,
) -> Result<Vec<Op>, Doubt> {
    // Before they are joined: an object may have any number of templates to fill.
    if verdict.findings.iter().any(Finding::fills_too_much) {
        return Err(Doubt::TooLarge);
    }
    if verdict.fills().nth(MOST_OPS).is_some() {
        return Err(Doubt::TooLarge);
    }
    let ops = verdict.fill_ops();
    if ops.is_empty() {
        return Ok(ops);
    }
    let steps = ops.iter().flat_map(|op| op.pointer().tokens());
    let places =
        steps.map(|step| if let Token::Key(key) = step { key.len() + 1 } else { size_of::<usize>() });
    if places.sum::<usize>() > MAX_PATCH_PLACE_BYTES {
        return Err(Doubt::TooLarge);
    }
    // The whole document is a place to some engines and none to others.
    if ops.iter().any(|op| op.pointer().is_root()) {
        return Err(Doubt::DoesNotApply);
    }
    // Comparing whole objects would cost as much as reading them; operations change only what they cover.
    let (before, moved) = patch::footprint(&object, &ops);
    let after = patch::apply(&before, &moved).map_err(|_| Doubt::DoesNotApply)?;
    if !patch::agrees_with_rfc_6902(&before, &moved, &after) {
        return Err(Doubt::DoesNotApply);
    }
    if !PATTERNS.allow(&mut Vec::new(), Some(&before), Some(&after)) {
        return Err(Doubt::StraysOutside);
    }
    drop((before, moved, after));
    patch::apply_in_place(&mut object, &ops).map_err(|_| Doubt::DoesNotApply)?;
    let again = judge(&object);
    if !again.fill_ops().is_empty() {
        return Err(Doubt::NotIdempotent);
    }
    let denied = denials(verdict);
    if denials(&again).into_iter().any(|(rule, count)| count > denied.get(rule).copied().unwrap_or_default())
    {
        return Err(Doubt::NewDenial);
    }
    Ok(ops)
}

/// Counts the denials of each rule. Fills never remove one, so the count shows new ones, and comparing counts
/// is cheaper than comparing paths.
fn denials(verdict: &Verdict) -> BTreeMap<&'static str, usize> {
    let mut denials = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.level == Level::Deny) {
        *denials.entry(finding.rule).or_default() += finding.count();
    }
    denials
}

/// What the rules declare.
static PATTERNS: LazyLock<Patterns> =
    LazyLock::new(|| Patterns::of(RULES.iter().flat_map(|entry| entry.rule.fills.places())));

/// The paths that rules may fill, as steps; `None` matches any step.
#[derive(Debug)]
struct Patterns(Vec<Vec<Option<String>>>);

impl Patterns {
    fn of(patterns: impl IntoIterator<Item = String>) -> Self {
        let step = |step: &str| (step != "*").then(|| step.replace("~1", "/").replace("~0", "~"));
        Self(patterns.into_iter().map(|pattern| pattern.split('/').skip(1).map(step).collect()).collect())
    }

    /// Tells whether a place is one of them, or lies in one.
    fn cover(&self, at: &[Token]) -> bool {
        let fits = |(want, have): (&Option<String>, &Token)| match (want, have) {
            (None, _) => true,
            (Some(want), Token::Key(have)) => want == &**have,
            (Some(want), Token::Index(have)) => want.parse() == Ok(*have),
        };
        self.0.iter().any(|pattern| pattern.len() <= at.len() && pattern.iter().zip(at).all(fits))
    }

    /// Tells whether two values differ in covered places only. Lists may only grow, at their end.
    fn allow(&self, at: &mut Vec<Token>, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (before, after) if before == after => true,
            (Some(Value::Object(before)), Some(Value::Object(after))) => before
                .keys()
                .chain(after.keys().filter(|key| !before.contains_key(key)))
                .all(|key| self.step(at, Token::Key(key.to_owned().into()), before.get(key), after.get(key))),
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                before.len() <= after.len()
                    && after.iter().enumerate().all(|(index, item)| match before.get(index) {
                        Some(before) => before == item || self.within(at, index, before, item),
                        None => self.step(at, Token::Index(index), None, Some(item)),
                    })
            }
            // A mapping or list that is new or replaces null is checked by its contents; an empty one by
            // itself.
            (None | Some(Value::Null), Some(Value::Object(after)))
                if !after.is_empty() && !self.cover(at) =>
            {
                after
                    .iter()
                    .all(|(key, value)| self.step(at, Token::Key(key.to_owned().into()), None, Some(value)))
            }
            (None | Some(Value::Null), Some(Value::Array(after))) if !after.is_empty() && !self.cover(at) => {
                after
                    .iter()
                    .enumerate()
                    .all(|(index, item)| self.step(at, Token::Index(index), None, Some(item)))
            }
            _ => self.cover(at),
        }
    }

    /// Tells whether an item that was in a list before differs in covered places only, which are below it: an
    /// item that may be new may not replace another.
    fn within(&self, at: &mut Vec<Token>, index: usize, before: &Value, after: &Value) -> bool {
        at.push(Token::Index(index));
        let allowed = !self.cover(at) && self.allow(at, Some(before), Some(after));
        at.pop();
        allowed
    }

    fn step(&self, at: &mut Vec<Token>, token: Token, before: Option<&Value>, after: Option<&Value>) -> bool {
        at.push(token);
        let allowed = self.allow(at, before, after);
        at.pop();
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn allows(list: &[&str], before: &Value, after: &Value) -> bool {
        Patterns::of(list.iter().map(|place| (*place).to_owned())).allow(
            &mut Vec::new(),
            Some(before),
            Some(after),
        )
    }

    #[test]
    fn only_listed_places_may_change() {
        let list =
            ["/spec/ttl", "/spec/*/tolerations/*", "/spec/runPolicy/ttl", "/metadata/annotations/a~1b"];
        let before =
            json!({"spec": {"x": {"tolerations": [{"key": "a"}]}, "y": 1}, "metadata": {"annotations": {}}});
        let change = |edit: &dyn Fn(&mut Value)| {
            let mut after = before.clone();
            edit(&mut after);
            allows(&list, &before, &after)
        };
        assert!(change(&|_| ()));
        assert!(change(&|v| v["spec"]["ttl"] = 1.into()));
        assert!(
            change(&|v| v["spec"]["x"]["tolerations"] = json!([{"key": "a"}, {"key": "b", "deep": [1]}]))
        );
        assert!(
            change(&|v| v["spec"]["z"] = json!({"tolerations": [{}]})),
            "a mapping of listed places only may be new"
        );
        assert!(change(&|v| v["spec"]["runPolicy"] = json!({"ttl": 1})));
        assert!(change(&|v| v["metadata"]["annotations"]["a/b"] = "c".into()));
        assert!(!change(&|v| v["spec"]["runPolicy"] = json!({"ttl": 1, "suspend": true})));
        assert!(!change(&|v| v["spec"]["runPolicy"] = json!({})), "an empty mapping is a change too");
        assert!(!change(&|v| v["spec"]["y"] = 2.into()));
        assert!(
            !change(&|v| v["spec"]["x"]["tolerations"] = json!([{"key": "b"}])),
            "nobody's toleration is replaced"
        );
        assert!(
            !change(&|v| v["spec"]["x"]["tolerations"] = json!([{"key": "b"}, {"key": "a"}])),
            "nor moved"
        );
        assert!(!change(&|v| v["spec"]["x"]["tolerations"] = json!([])), "nor taken out");
        assert!(!change(&|v| v["spec"] = Value::Null));
        assert!(!change(&|v| *v = json!([])));
    }

    #[test]
    fn items_of_lists_may_change_in_listed_places_below_them() {
        let list = ["/spec/tasks/*/ttl", "/spec/tasks/*/tolerations", "/spec/tasks/*/tolerations/*"];
        let before =
            json!({"spec": {"tasks": [{"name": "a"}, {"name": "b", "tolerations": [{"key": "x"}]}]}});
        let change = |edit: &dyn Fn(&mut Value)| {
            let mut after = before.clone();
            edit(&mut after["spec"]["tasks"]);
            allows(&list, &before, &after)
        };
        assert!(change(&|tasks| tasks[0]["ttl"] = 1.into()));
        assert!(change(&|tasks| tasks[0]["tolerations"] = json!([{"key": "y"}])));
        assert!(change(&|tasks| tasks[1]["tolerations"] = json!([{"key": "x"}, {"key": "y"}])));
        assert!(!change(&|tasks| tasks[1]["tolerations"] = json!([{"key": "y"}])));
        assert!(!change(&|tasks| tasks[1]["tolerations"][0]["operator"] = "Exists".into()));
        assert!(!change(&|tasks| tasks[0]["name"] = "b".into()));
        assert!(!change(
            &|tasks| *tasks = json!([{"name": "b", "tolerations": [{"key": "x"}]}, {"name": "a"}])
        ));
        assert!(!change(&|tasks| *tasks = json!([{"name": "a"}])));
        assert!(!change(&|tasks| tasks.as_array_mut().expect("a list").push(json!({"name": "c"}))));
    }

    #[test]
    fn a_null_gives_way_to_listed_places_only() {
        assert!(allows(&["/a/b"], &json!({"a": null}), &json!({"a": {"b": 1}})));
        assert!(!allows(&["/a/b"], &json!({"a": null}), &json!({"a": {"c": 1}})));
        assert!(
            !allows(&["/a/b"], &json!({"a": "text"}), &json!({"a": {"b": 1}})),
            "a value of another type stays"
        );
    }
}
