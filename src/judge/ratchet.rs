//! What an UPDATE may be denied for: violations that are new, or worse than before.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::engine::{Request, Which, Wishes, run};
use super::facts::Facts;
use super::finding::{Finding, Level};
use super::policy::Policy;
use super::rule::Ratchet;
use super::rules;
use crate::kinds::{Part, Workload};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// On UPDATE, denies only violations that are new or worse than in the old object. If the spec is unchanged,
/// only a changed label that the rule reads can cause one. Nothing is denied of a finished object.
pub(super) fn ratchet(
    policy: &Policy,
    facts: &dyn Facts,
    request: &Request<'_>,
    workload: &Workload<'_>,
    old: &Value,
    findings: &mut [Finding],
) {
    if findings.iter().all(|finding| finding.level < Level::Deny) {
        return;
    }
    let at = &workload.object.pointer;
    let before = at.find(old);
    let was = before.and_then(|value| Workload::at(Part { pointer: at.clone(), value: Some(value) }));
    let same_spec = if at.is_root() {
        request.has_same_spec()
    } else {
        before.and_then(|value| value.get("spec")) == workload.object.get("spec").value
    };
    let finished = was.as_ref().is_some_and(Workload::has_finished);
    let of_rule =
        |finding: &Finding| rules::find(finding.rule).map_or(Ratchet::BY_PLACE, |entry| entry.rule.ratchet);
    let has_changed =
        |label: &&str| was.as_ref().is_some_and(|was| was.label(label) != workload.label(label));
    let can_be_new =
        |finding: &Finding| !finished && (!same_spec || of_rule(finding).labels.iter().any(has_changed));
    let has_grown = |finding: &Finding| {
        let measure = of_rule(finding).measure.zip(was.as_ref());
        measure.is_some_and(|(measure, was)| (measure.of)(workload) > (measure.of)(was))
    };
    let before = Request { object: old, old: None, ..*request };
    let known = match &was {
        Some(was) if findings.iter().any(|finding| finding.level == Level::Deny && can_be_new(finding)) => {
            // What is not filled in is not denied either.
            run(Which::All, policy, facts, &before, was, &Wishes::default())
        }
        _ => Vec::new(),
    };
    // A warning that is now a denial is new, unless only labels have changed. A note is about what is allowed.
    let known = known
        .iter()
        .filter(|finding| finding.level == Level::Deny || same_spec && finding.level == Level::Warn);
    let known: BTreeSet<(&str, Vec<Cow<'_, str>>)> =
        known.map(|finding| (finding.rule, place(&finding.path, old))).collect();
    for finding in findings.iter_mut().filter(|finding| finding.level == Level::Deny) {
        let is_known =
            known.contains(&(finding.rule, place(&finding.path, request.object))) && !has_grown(finding);
        if is_known || !can_be_new(finding) {
            finding.at_most(Level::Warn);
        }
    }
}

/// Returns a path that does not change when list items move: items with a name are called by it, as
/// Kubernetes does when it merges lists.
///
/// The last step comes first: there paths differ, and a key that all of them share may be as long as the
/// object.
///
/// A claim is identified by its name, whichever volume or template uses it.
fn place<'a>(path: &'a Pointer, root: &'a Value) -> Vec<Cow<'a, str>> {
    if path.tokens().last().is_some_and(|last| matches!(last, Token::Key(key) if &**key == "claimName"))
        && let Some(claim) = path.find(root).and_then(Value::as_str)
    {
        return vec![Cow::Borrowed(claim)];
    }
    let mut here = Some(root);
    let step = |token: &'a Token| match token {
        Token::Key(key) => {
            here = here.and_then(|value| value.get(&**key));
            Cow::Borrowed(&**key)
        }
        Token::Index(index) => {
            here = here.and_then(|value| value.get(*index));
            let name = here.and_then(|value| value.get("name")?.as_str());
            name.map_or_else(|| Cow::Owned(index.to_string()), Cow::Borrowed)
        }
    };
    let mut place: Vec<Cow<'_, str>> = path.tokens().into_iter().map(step).collect();
    place.reverse();
    place
}

/// Returns the level of a rule's finding after an update, by a policy with which it denies.
#[cfg(test)]
pub(super) fn level_after_update(rule: &str, old: &Value, new: &Value) -> Option<Level> {
    use crate::judge::engine::{Operation, Origin, evaluate};

    let policy = format!(
        "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: own}}\n\
         spec: {{rules: {{{rule}: {{action: deny}}}}}}\n"
    );
    let policy = Policy::parse(&policy, "own.yaml").expect("a policy");
    let request = Request {
        operation: Operation::Update,
        origin: Origin::Admission,
        object: new,
        old: Some(old),
        same_spec: None,
        namespace: "team",
        user: None,
        today: None,
    };
    let findings = evaluate(&policy, &crate::judge::facts::NoFacts, &request).findings;
    findings.iter().find(|finding| finding.rule == rule).map(|finding| finding.level)
}
