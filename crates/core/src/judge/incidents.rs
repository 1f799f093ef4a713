//! Several findings about one thing. Of those about one incident at one object, the one with the largest loss is kept, with the
//! others as its labels.

use std::cmp::Reverse;
use std::mem::{Discriminant, discriminant};

use crate::controllers::incident::Incident;
use crate::judge::api::prefer_denials;
use crate::judge::finding::{Finding, Place};
use crate::judge::rules::RuleSet;
use crate::text::value::Value;

/// Maximum findings that another one names: more stay as they are.
const MOST_NAMED: usize = 4;

/// Leaves out what rules that give way say of places that another rule denies.
pub(super) fn give_way(findings: &mut Vec<Finding>, rules: &RuleSet, object: &Value) {
    let gives_way = |finding: &Finding| rules.find(&finding.rule).is_some_and(|rule| rule.gives_way);
    if !findings.iter().any(gives_way) {
        return;
    }
    let (mut giving, others): (Vec<Finding>, Vec<Finding>) = findings.drain(..).partition(gives_way);
    prefer_denials(&others, &mut giving, object);
    findings.extend(others);
    findings.extend(giving);
}

/// Joins the findings of different rules about one incident, which are sorted. The one with the highest level is kept,
/// then the larger loss, then the first; the others become its labels. A finding with a fix is not joined:
/// its fix would not resolve the other one.
pub(super) fn relate(findings: &mut Vec<Finding>) {
    let mut incidents: Vec<(Discriminant<Incident>, Vec<usize>)> = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        let Some(kind) = finding.incident.as_ref().map(discriminant) else { continue };
        match incidents.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, indexes)) => indexes.push(index),
            None => incidents.push((kind, vec![index])),
        }
    }
    let mut gone = vec![false; findings.len()];
    for (_, indexes) in incidents {
        let key = |index: &usize| (findings[*index].level, findings[*index].loss, Reverse(*index));
        let Some(first) = indexes.iter().copied().max_by_key(key) else { continue };
        let others: Vec<usize> =
            indexes.into_iter().filter(|index| findings[*index].rule != findings[first].rule).collect();
        if others.len() > MOST_NAMED {
            continue;
        }
        for other in others {
            let Finding { pointer, part, rule, message, fix, fills, items, .. } = &findings[other];
            if *fills || fix.is_some() || items.is_some() {
                continue;
            }
            let (place, text) = (Place::Here(pointer.clone(), *part), format!("{rule}: {message}"));
            findings[first].label(place, text);
            gone[other] = true;
        }
    }
    let mut index = 0;
    findings.retain(|_| {
        index += 1;
        !gone[index - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::time::Time;
    use crate::judge::checks;
    use crate::judge::finding::{Level, Safety};
    use crate::judge::loss::Loss;
    use crate::judge::policy::Policy;
    use crate::judge::rule::Rule;
    use crate::text::pointer::Pointer;
    use crate::text::value::json;

    fn finding(rule: &'static str, level: Level, incident: Option<Incident>, hours: Option<i64>) -> Finding {
        let finding = checks::finding(rule, level, Pointer::root().key(rule), "it is lost", "");
        let loss = |hours| Loss {
            time: Some(Time::from_seconds(hours * 3_600)),
            has_accelerators: true,
            checkpoint: None,
        };
        Finding { incident, loss: hours.map(loss), ..finding }
    }

    fn told(mut findings: Vec<Finding>) -> Vec<(String, Vec<String>)> {
        relate(&mut findings);
        let of = |finding: &Finding| finding.labels.iter().map(|label| label.text.to_string()).collect();
        findings.iter().map(|finding| (finding.rule.to_string(), of(finding))).collect()
    }

    #[test]
    fn the_finding_with_the_larger_loss_names_the_others() {
        let exit = |code| Some(Incident::Exit(code));
        let findings = vec![
            finding("a", Level::Warn, exit(1), Some(1)),
            finding("b", Level::Warn, exit(42), Some(2)),
            finding("c", Level::Warn, Some(Incident::Drain), Some(9)),
            finding("d", Level::Note, exit(1), Some(9)),
            finding("e", Level::Warn, None, None),
        ];
        let named = vec!["a: it is lost".to_owned(), "d: it is lost".to_owned()];
        let expected = [("b", named), ("c", Vec::new()), ("e", Vec::new())];
        let expected: Vec<_> = expected.into_iter().map(|(rule, named)| (rule.to_owned(), named)).collect();
        assert_eq!(told(findings), expected);
    }

    #[test]
    fn no_fix_and_no_fill_is_lost() {
        let drain = Some(Incident::Drain);
        let mut fills = finding("fills", Level::Note, drain, None);
        fills.fills = true;
        let mut fixed = finding("fixed", Level::Warn, drain, Some(1));
        fixed.fix(Safety::Unsafe, Vec::new());
        let plain = || finding("plain", Level::Warn, drain, Some(9));
        assert_eq!(told(vec![fills, plain()]).len(), 2);
        assert_eq!(told(vec![fixed.clone(), plain()]).len(), 2);
        // It may be the one that stands.
        fixed.level = Level::Deny;
        assert_eq!(told(vec![fixed, plain()]), [("fixed".to_owned(), vec!["plain: it is lost".to_owned()])]);
    }

    #[test]
    fn the_findings_of_one_rule_and_too_many_stay() {
        let hang = Some(Incident::Hang);
        assert_eq!(
            told(vec![finding("a", Level::Warn, hang, None), finding("a", Level::Warn, hang, None)]).len(),
            2
        );
        let many = ["a", "b", "c", "d", "e", "f"];
        assert_eq!(told(many.map(|rule| finding(rule, Level::Warn, hang, None)).into()).len(), many.len());
    }

    #[test]
    fn a_rule_that_gives_way_is_silent_about_a_field_that_another_denies() {
        let way = |giving: Level, other: Level| {
            let policy = Policy::default();
            let is_giving = |rule: &&Rule| rule.gives_way;
            let rule = policy.rules().iter().find(is_giving).expect("a rule that gives way");
            let other_rule = policy.rules().iter().find(|rule| !rule.gives_way).expect("another rule");
            let at = |place: &str| Pointer::root().key(place);
            let mut findings = vec![
                checks::finding(rule.id.clone(), giving, at("a"), "it is refused", ""),
                checks::finding(rule.id.clone(), giving, at("b"), "it is refused", ""),
                checks::finding(other_rule.id.clone(), other, at("a"), "it says more", ""),
            ];
            give_way(&mut findings, policy.rules(), &json!({"a": 1, "b": 1}));
            findings.len()
        };
        assert_eq!(way(Level::Deny, Level::Deny), 2);
        assert_eq!(way(Level::Warn, Level::Deny), 2);
        assert_eq!(way(Level::Deny, Level::Warn), 3, "nothing is let pass");
    }
}
