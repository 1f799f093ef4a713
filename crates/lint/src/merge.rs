//! Merges reports on files that are judged together.

mod arguments;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use arguments::RunArguments;

use jobgate_core::judge::checks::UNRENDERED_TEMPLATE;
use jobgate_report::{Location, Reason, Report, Unjudged};

/// The new places of claims that fixes have moved, by file and old span.
pub type Moved = BTreeMap<(Arc<str>, usize, usize), Location>;

/// Moves the related places of findings to where fixes of other files have moved them.
pub fn move_related(report: &mut Report, moved: &Moved) {
    let related = report.findings.iter_mut().flat_map(|located| &mut located.related);
    for location in related.filter_map(|related| related.location.as_mut()) {
        if let Some(now) = moved.get(&(Arc::clone(&location.file), location.span.start, location.span.end)) {
            *location = now.clone();
        }
    }
}

/// Keeps one entry per chart, at its first template. Returns the directories of the charts.
pub fn once_a_chart(report: &mut Report) -> BTreeSet<Arc<str>> {
    let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut again: BTreeSet<Arc<str>> = BTreeSet::new();
    report.unjudged.retain_mut(|unjudged| {
        let Reason::Chart(dir) = &unjudged.reason else { return true };
        let first = known.insert(Arc::clone(dir));
        if let Some(location) = unjudged.location.as_ref().filter(|_| !first) {
            again.insert(Arc::clone(&location.file));
        }
        // It is about the whole chart.
        unjudged.document = None;
        first
    });
    if !again.is_empty() {
        report.findings.retain(|located| {
            located.finding.rule != UNRENDERED_TEMPLATE || !again.contains(&located.location.file)
        });
        let named: BTreeSet<&Arc<str>> =
            report.findings.iter().map(|located| &located.location.file).collect();
        report.sources.retain(|file, _| !again.contains(file) || named.contains(file));
    }
    known
}

/// Tells whether an unjudged item has a kind.
#[must_use]
pub fn has_kind(unjudged: &Unjudged) -> bool {
    unjudged.object.as_ref().is_some_and(|object| !object.kind.is_empty())
}
