//! A rule says which fields it needs: by itself, with the fields that it asks for, it finds what it finds in whole
//! objects.

use jobgate::admission::{self, Endpoint, Review};
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::{Needs, Rule};
use jobgate::judge::rules::RuleSet;
use libtest_mimic::{Failed, Trial};

use crate::support::fixture;

const POLICY: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: own}\n";

/// Returns a trial for each rule.
pub(crate) fn trials() -> Vec<Trial> {
    let trial =
        |rule: Rule| Trial::test(format!("{}::says_what_it_needs", rule.file()), move || check(&rule));
    RuleSet::built_in().iter().cloned().map(trial).collect()
}

fn check(rule: &Rule) -> Result<(), Failed> {
    let policy = Policy::parse_with(RuleSet::new(vec![rule.clone()])?, POLICY, "own.yaml")?;
    assert_eq!(policy.needs(), rule.needs);
    let mut judged = 0;
    for fixture in fixture::of_rule(rule) {
        for object in fixture.workloads() {
            let body = admission::request(object, None, "default").ok_or("no review")?.to_string();
            for endpoint in Endpoint::ALL {
                let answer = |review| admission::judge(endpoint, &policy, &fixture.facts, review, None);
                let whole = answer(Review::read_whole(body.as_bytes()).map_err(|error| error.to_string())?);
                let read =
                    Review::read(body.as_bytes(), policy.needs()).map_err(|error| error.to_string())?;
                if answer(read) != whole {
                    return Err(format!("{}: another answer to the whole object", fixture.case).into());
                }
                judged += 1;
            }
        }
    }
    assert!(judged > 0 && !rule.needs.has(Needs::WHOLE_OBJECT));
    Ok(())
}
