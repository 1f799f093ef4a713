//! The ratchet: an UPDATE is denied only for violations that are new, or worse than before.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{AnnotationOverrides, Judgement, Which};
use super::finding::{Finding, Level};
use super::fold::{Hashes, ItemWalk, Way, each_place};
use super::request::Request;
use super::rule::{Ratchet, Rule};
use crate::kinds::{Part, Workload};
use crate::text::value::Value;

/// On UPDATE, denies only violations that are new or worse than in the old object. If the spec is unchanged,
/// only a changed label that the rule reads can cause one. A finished object is never denied.
pub(super) fn ratchet(judgement: &Judgement<'_>, old: &Value, findings: &mut Vec<Finding>) {
    let Judgement { policy, facts, request, workload, .. } = *judgement;
    if findings.iter().all(|finding| finding.level < Level::Deny) {
        return;
    }
    let at = &workload.object.pointer;
    let before = at.find(old);
    let was = before.and_then(|value| Workload::from_part(Part { pointer: at.clone(), value: Some(value) }));
    let same_spec = if at.is_root() {
        request.has_same_spec()
    } else {
        before.and_then(|value| value.get("spec")) == workload.object.get("spec").value
    };
    let finished = was.as_ref().is_some_and(Workload::has_finished);
    let of_rule =
        |finding: &Finding| policy.rules().find(&finding.rule).map_or(Ratchet::BY_PLACE, |rule| rule.ratchet);
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
            let denied = findings.iter().filter(|finding| finding.level == Level::Deny);
            let denied: BTreeSet<&str> = denied.map(|finding| &*finding.rule).collect();
            let denies = |rule: &Rule| denied.contains(&*rule.id);
            // `keep` does not matter here: a rule that would fill does not deny.
            Judgement::new(policy, facts, &before, was, &AnnotationOverrides::default())
                .run_some(Which::Answered, denies)
        }
        _ => Vec::new(),
    };
    // A warning that is now a denial is new, unless only labels have changed. A note is about what is allowed.
    let known = known
        .iter()
        .filter(|finding| finding.level == Level::Deny || same_spec && finding.level == Level::Warn);
    let mut places: BTreeMap<&str, Hashes> = BTreeMap::new();
    for finding in known {
        let items = finding.items.as_deref();
        let before = places.entry(&*finding.rule).or_default();
        each_place(&finding.path, items, (old, Way::ByName), &mut |place| {
            before.insert(place.hash());
        });
    }
    let mut new = Vec::new();
    for finding in findings.iter_mut().filter(|finding| finding.level == Level::Deny) {
        if !can_be_new(finding) {
            finding.at_most(Level::Warn);
            continue;
        }
        if has_grown(finding) {
            continue;
        }
        let before = places.get(&*finding.rule);
        let is_known = |place: &ItemWalk<'_>| before.is_some_and(|places| places.contains(&place.hash()));
        let here = (request.object, Way::ByName);
        let Some(items) = finding.items.as_deref() else {
            let mut known = false;
            each_place(&finding.path, None, here, &mut |place| known = is_known(place));
            if known {
                finding.at_most(Level::Warn);
            }
            continue;
        };
        // Of many items, only the new ones are denied.
        let Some((left, path)) = items.kept(&finding.path, here, &mut |place, _, _| !is_known(place)) else {
            finding.at_most(Level::Warn);
            continue;
        };
        let known = items.kept(&finding.path, here, &mut |place, _, _| is_known(place));
        if let Some((known, known_path)) = known {
            let pointer = path.nearest(request.object);
            // It is unknown which operations of the fix belong to which items.
            let fix = None;
            new.push(Finding { path, pointer, fix, items: Some(Box::new(left)), ..finding.clone() });
            finding.pointer = known_path.nearest(request.object);
            finding.path = known_path;
            finding.fix = None;
            finding.items = Some(Box::new(known));
            finding.at_most(Level::Warn);
        }
    }
    findings.append(&mut new);
}

/// Returns the level of a rule's finding after an update, by a policy with which it denies.
#[cfg(test)]
pub(super) fn level_after_update(rule: &str, old: &Value, new: &Value) -> Option<Level> {
    use crate::judge::engine::{Operation, Origin, evaluate};
    use crate::judge::policy::Policy;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::engine::{Operation, Origin, evaluate};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;
    use crate::text::value::json;

    /// A PyTorchJob with so many roles from a number on, whose pods start again always.
    fn roles(numbers: std::ops::Range<usize>) -> Value {
        let role =
            |nth: usize| (format!("R{nth}"), json!({"restartPolicy": "Always", "template": {"spec": {}}}));
        let roles: Value = Value::Object(numbers.map(role).collect());
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"},
            "spec": {"pytorchReplicaSpecs": roles},
        })
    }

    /// Returns how many items the rule denies and warns of.
    fn after_update(object: &Value, old: &Value) -> [Vec<(String, usize)>; 2] {
        let policy = Policy::builtin("default").expect("a policy");
        let (operation, origin) = (Operation::Update, Origin::Admission);
        let request = Request {
            operation,
            origin,
            object,
            old: Some(old),
            same_spec: None,
            namespace: "n",
            user: None,
            today: None,
        };
        let findings = evaluate(&policy, &NoFacts, &request).findings;
        [Level::Deny, Level::Warn].map(|level| {
            let of =
                findings.iter().filter(|finding| finding.rule == "restart-policy" && finding.level == level);
            of.map(|finding| (finding.path.to_path(), finding.count())).collect()
        })
    }

    #[test]
    fn of_many_items_those_are_denied_that_are_new() {
        let of = |role: &str| format!("spec.pytorchReplicaSpecs[{role}].restartPolicy");
        let [denied, warned] = after_update(&roles(10..60), &roles(10..40));
        assert_eq!((denied, warned), (vec![(of("R40"), 20)], vec![(of("R10"), 30)]));
        let [denied, warned] = after_update(&roles(10..60), &roles(10..60));
        assert_eq!((denied, warned), (vec![], vec![(of("R10"), 50)]));
        // One of many is new.
        let [denied, warned] = after_update(&roles(10..41), &roles(10..40));
        assert_eq!((denied, warned), (vec![(of("R40"), 1)], vec![(of("R10"), 30)]));
        // Few of old, many of new, and the other way around.
        let [denied, _] = after_update(&roles(10..60), &roles(10..15));
        assert_eq!(denied, [(of("R15"), 45)]);
        let [denied, warned] = after_update(&roles(10..15), &roles(10..60));
        assert_eq!((denied.len(), warned.len()), (0, 5));
    }

    #[test]
    fn items_without_pods_are_known_and_new_as_others() {
        let bare = |count: usize| {
            let object = json!({
                "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"},
                "spec": {"replicatedJobs": vec![json!({}); count]},
            });
            let policy = Policy::builtin("default").expect("a policy");
            let request = Request { operation: Operation::Create, ..Request::from_file(&object, None) };
            let request = Request { origin: Origin::Admission, ..request };
            let findings = evaluate(&policy, &NoFacts, &request).findings;
            let of = findings.iter().filter(|finding| finding.items.is_some());
            of.map(|finding| (finding.rule.clone(), finding.count())).collect::<Vec<_>>()
        };
        assert!(bare(16).is_empty());
        let many = bare(5000);
        assert!(!many.is_empty() && many.iter().all(|(_, count)| *count == 5000), "{many:?}");
    }
}
