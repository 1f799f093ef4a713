//! The findings of each file, the worst file first: for formats that may have to stop.

use std::cmp::Reverse;

use super::text::clean;
use super::{Located, Report};

/// The findings of one file, or of one object of a cluster.
pub(super) struct Group<'r> {
    /// The file or object, fit to be shown.
    pub(super) name: String,
    /// Its findings, in the order of the report.
    pub(super) findings: &'r [Located],
}

/// Returns the findings by file. Files with errors come before those with warnings; within a level, the
/// order is the report's.
pub(super) fn groups(report: &Report) -> Vec<Group<'_>> {
    let chunks = report.findings.chunk_by(|a, b| a.location.file == b.location.file);
    let mut groups: Vec<_> = chunks
        .map(|findings| {
            let first = &findings[0];
            let name = match (report.file(&first.location), &first.object) {
                (Some(file), _) => clean(file).into_owned(),
                (None, Some(object)) => clean(&object.to_string()).into_owned(),
                (None, None) => "the cluster".to_owned(),
            };
            Group { name, findings }
        })
        .collect();
    groups.sort_by_key(|group| Reverse(group.findings.iter().map(|located| located.finding.level).max()));
    groups
}

/// Returns how many findings `jobgate lint` would fix, safely and only when asked for unsafe fixes.
pub(super) fn fixable(report: &Report) -> (usize, usize) {
    use crate::judge::finding::Safety;
    let count =
        |safety| report.findings.iter().filter(|located| report.fix_of(located) == Some(safety)).count();
    (count(Safety::Safe), count(Safety::Unsafe))
}
