//! What the fixes of rules change in a story.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use super::simulable::Simulable;
use crate::cli::args::Story;
use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::story::{Assumptions, Ending, Outcome};
use crate::judge::engine;
use crate::judge::facts::NoFacts;
use crate::judge::finding::Finding;
use crate::judge::policy::Policy;
use crate::judge::request::Request;
use crate::text::patch;
use crate::text::value::Value;

/// A fix of a rule, and what it does in a story.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) rule: String,
    /// What is written, by path.
    pub(super) field: String,
    pub(super) outcome: Outcome,
    /// Other stories that end otherwise, with how.
    pub(super) others: Vec<(String, Ending)>,
}

/// Returns what the fixes of each rule do in a story, and in the usual others.
pub(super) fn changes(
    object: &Value,
    job: &Simulable<'_>,
    policy: &Policy,
    assumptions: &Assumptions,
    (story, before): (&Story, &Outcome),
) -> Vec<Change> {
    let verdict = engine::evaluate(policy, &NoFacts, &Request::from_file(object, None));
    let mut by_rule: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.fix.is_some()) {
        by_rule.entry(finding.rule.to_string()).or_default().push(finding);
    }
    let end = |object: &Value, incidents: &[Occurrence]| job.end_of(object, incidents, assumptions);
    let others = Incident::USUAL
        .into_iter()
        .filter(|incident| !story.incidents.iter().any(|occurrence| occurrence.incident == *incident))
        .map(|incident| [Occurrence::from(incident)]);
    let endings = |object: &Value| -> Vec<Option<Ending>> {
        others.clone().map(|one| end(object, &one).map(|outcome| outcome.ending)).collect()
    };
    let unchanged = LazyCell::new(|| endings(object));
    let mut changes = Vec::new();
    for (rule, findings) in by_rule {
        let mut fixed = object.clone();
        for fix in findings.iter().filter_map(|finding| finding.fix.as_ref()) {
            // One that does not apply after another is left out.
            if let Ok(further) = patch::apply(&fixed, &fix.ops) {
                fixed = further;
            }
        }
        let Some(outcome) = end(&fixed, &story.incidents) else { continue };
        if (outcome.ending, outcome.made, outcome.used) == (before.ending, before.made, before.used) {
            continue;
        }
        let after = endings(&fixed);
        let others = others.clone().zip(unchanged.iter().zip(after)).filter_map(|([other], (was, is))| {
            let is = is?;
            was.is_some_and(|was| was != is).then(|| (other.incident.to_string(), is))
        });
        changes.push(Change {
            field: findings.first().map(|finding| finding.path.to_string()).unwrap_or_default(),
            outcome,
            others: others.collect(),
            rule,
        });
    }
    changes
}
