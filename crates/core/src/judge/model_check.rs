//! Holds rules about an incident to the model, in debug builds: where such a rule has a fix, the fix changes what happens.

use crate::controllers::story::Outcome;
use crate::judge::finding::Finding;
use crate::judge::rule::Cx;
use crate::kinds::Deadline;
use crate::text::meter;

/// Maximum findings of an object that are looked at.
const MOST: usize = 4;

/// Asserts that the fix of each finding changes the outcome of the incident that the finding is about, where the model has an
/// answer for both.
pub(super) fn assert_fixes_change_outcomes(cx: &Cx<'_>, findings: &[Finding]) {
    // A review has bounds, and what it costs is measured. In what others run, a fix may take a field away that has no effect.
    if meter::is_counting() || matches!(cx.workload.kind.deadline, Deadline::OfOthers { .. }) {
        return;
    }
    let of_rule = findings.iter().filter(|finding| finding.rule == cx.rule.id);
    of_rule.take(MOST).for_each(|finding| assert_fix_changes_outcome(cx, finding));
}

fn assert_fix_changes_outcome(cx: &Cx<'_>, finding: &Finding) {
    let (Some(incident), Some(fix)) = (finding.incident, &finding.fix) else { return };
    let is_around = |index: &usize| finding.pointer.is_within(&cx.workload.pods[*index].around.pointer);
    let Some(pod) = (0..cx.workload.pods.len()).find(is_around) else { return };
    let outcomes = cx.forecast(pod, incident).zip(cx.forecast_after(pod, incident, &fix.ops));
    // Nothing happens to what has no pods: another controller runs it, or nobody does.
    if let Some((before, after)) = outcomes.filter(|(before, _)| before.outcome.made > 0) {
        let (before, after) = (summary(&before.outcome), summary(&after.outcome));
        assert!(
            before != after,
            "{}: its fix does not change what {incident} comes to: {before:?}",
            finding.rule
        );
    }
}

fn summary(outcome: &Outcome) -> impl PartialEq + std::fmt::Debug {
    let status = &outcome.status;
    let counts = (status.succeeded, status.failed, outcome.made);
    (outcome.ending, outcome.at, outcome.reason.clone(), counts, (outcome.used, outcome.lost))
}
