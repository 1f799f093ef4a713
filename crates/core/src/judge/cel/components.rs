//! Objects inside another one, such as those of an `AppWrapper`: its operator makes them, and is trusted, so that
//! they are judged where they are written.
//!
//! They were not validated: a value of a wrong type makes an expression fail. `exists` ignores a failure if
//! another object violates the rule.

use super::{CelSource, ConditionSubject, by_kind, conditions, name as named, places, quoted, validating};
use crate::judge::rule::{Measure, Ratchet};
use crate::kinds::{Kind, registration};
use crate::text::value::{Value, json};

/// The object inside, as expressions name it.
const INNER: ConditionSubject = ConditionSubject { object: "o", around: Some("object") };
/// The same before an update.
const BEFORE: ConditionSubject = ConditionSubject { object: "o", around: Some("oldObject") };

/// Returns the name of the policy for objects inside those of a kind.
pub(super) fn name(judge: &CelSource<'_>, kind: Kind) -> String {
    named(judge.rule, &format!("-in-{}", kind.name.to_ascii_lowercase()), judge.level)
}

/// Returns the policy of one rule for the objects inside those of a kind.
pub(super) fn judging(judge: &CelSource<'_>, kind: Kind) -> Value {
    let CelSource { policy, rule, cel, .. } = *judge;
    let path = kind.components.unwrap_or_default();
    // A list of mappings, each with one object.
    let (list, item) = match path.iter().position(|key| *key == crate::kinds::EACH) {
        Some(at) => (path[..at].join(".?"), path[at + 1..].join(".?")),
        None => (path.join(".?"), String::new()),
    };
    let inside =
        |object: &str| format!("dyn({object}).?{list}.orValue([]).map(item, item.?{item}.orValue({{}}))");
    let at = format!("an object in `{}`", path.join(".").replace(".*", "[]"));
    let Ratchet { labels, measure } = rule.ratchet;
    let grown = |measure: Measure| {
        let measured = by_kind::with_roles(measure.cel, cel.kinds);
        format!("[{measured}].exists(now, was.exists(o, now > {measured})) || ")
    };
    let grown = measure.map(grown).unwrap_or_default();
    let label = |object: &str, key: &str| format!("{object}.?metadata.?labels[?{}]", quoted(key));
    let same: String =
        labels.iter().map(|key| format!(" && {} == {}", label("o", key), label("was", key))).collect();
    let judged: Vec<String> = std::iter::once(by_kind::is_one(cel.kinds))
        .chain(conditions::by_policy(judge, INNER).into_iter().map(|(_, condition)| condition))
        .map(|condition| format!("({condition}) &&\n"))
        .collect();
    // Same as the engine's ratchet: compares with the object that was in this place, if any.
    let expression = format!(
        "!variables.inside.exists(o,
{}[oldObject == null ? -1 : variables.inside.indexOf(o)].map(at,
  0 <= at && at < size(variables.before) ? [variables.before[at]] : []).exists(was,
!was.exists(o, {}) &&
!was.exists(was, o.?spec == was.?spec{same}) &&
({}).exists(place, {grown}!was.exists(o, place in ({})))))",
        judged.concat(),
        by_kind::finished(cel.kinds),
        places(judge, INNER),
        places(judge, BEFORE),
    );
    let spec = json!({
        "failurePolicy": "Ignore",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": registration::rules([kind])},
        "matchConditions": conditions::around(judge),
        "variables": [
            {"name": "inside", "expression": inside("object")},
            {"name": "before", "expression": format!("oldObject == null ? [] : {}", inside("oldObject"))},
        ],
        "validations": [{
            "expression": expression,
            "message": format!("{}: {at}: {}", rule.id, rule.summary),
            "reason": "Forbidden",
        }],
    });
    validating(policy, &name(judge, kind), &spec)
}
