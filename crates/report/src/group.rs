//! Findings by file, the worst file first, for formats that may be cut off; and by directory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::text::{clean, repository_path};
use crate::located::Located;
use crate::results::Report;
use jobgate_core::judge::finding::Safety;

/// The findings of one file, or of one object of a cluster.
pub(super) struct FindingGroup<'r> {
    /// The file or object, ready for display.
    pub(super) name: String,
    /// Its findings, in the order of the report.
    pub(super) findings: &'r [Located],
}

/// Returns the findings by file. Files with errors come before those with warnings; within a level, the
/// order is the report's.
pub(super) fn groups(report: &Report) -> Vec<FindingGroup<'_>> {
    let chunks = report.findings.chunk_by(|a, b| a.location.file == b.location.file);
    let mut groups: Vec<_> = chunks
        .map(|findings| {
            let first = &findings[0];
            let name = match (report.file(&first.location), &first.object) {
                (Some(file), _) => clean(file).into_owned(),
                (None, Some(object)) => clean(&object.to_string()).into_owned(),
                (None, None) => "the cluster".to_owned(),
            };
            FindingGroup { name, findings }
        })
        .collect();
    groups.sort_by_key(|group| Reverse(group.findings.iter().map(|located| located.finding.level).max()));
    groups
}

/// Returns how many findings `jobgate lint` would fix: safely, and with unsafe fixes.
pub(super) fn fixable(report: &Report) -> (usize, usize) {
    let count =
        |safety| report.findings.iter().filter(|located| report.fix_of(located) == Some(safety)).count();
    (count(Safety::Safe), count(Safety::Unsafe))
}

/// Minimum number of files with findings for a summary by directory.
const MANY_FILES: usize = 20;

/// Returns the findings by directory, most first. The directories are those below the common one of all files. Empty if
/// there are few files, or only one directory.
pub(super) fn by_directory(report: &Report) -> Vec<(String, Vec<&Located>)> {
    if report.impact.is_some() {
        return Vec::new();
    }
    let files: BTreeSet<&str> = report.findings.iter().map(|located| &*located.location.file).collect();
    if files.len() < MANY_FILES {
        return Vec::new();
    }
    // The first and the last of sorted paths share the prefix that all share.
    let paths: BTreeSet<String> = files.iter().map(|file| repository_path(file).to_owned()).collect();
    let (Some(first), Some(last)) = (paths.first(), paths.last()) else { return Vec::new() };
    let same = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
    let shared = first.as_bytes()[..same].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let mut found: BTreeMap<String, Vec<&Located>> = BTreeMap::new();
    for findings in report.findings.chunk_by(|a, b| a.location.file == b.location.file) {
        let path = repository_path(&findings[0].location.file);
        let end = path[shared..].find('/').map_or(shared, |at| shared + at);
        let directory = path[..end].trim_end_matches('/');
        let directory = if directory.is_empty() { "." } else { directory };
        found.entry(clean(directory).into_owned()).or_default().extend(findings);
    }
    if found.len() < 2 {
        return Vec::new();
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, findings)| Reverse(findings.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::judge::finding::Level;
    use jobgate_core::text::pointer::Pointer;

    fn report(files: &[(&str, Level)]) -> Report {
        let mut report = Report::default().with("x", "kind: Job\n");
        for (file, level) in files {
            let finding = sample::finding("deadline", *level, Pointer::root(), "message", "");
            report.found("x", "kind", finding).location.file = (*file).into();
        }
        report
    }

    #[test]
    fn the_worst_file_comes_first_and_equal_ones_as_they_were() {
        let report = report(&[
            ("c", Level::Note),
            ("b", Level::Note),
            ("b", Level::Deny),
            ("a", Level::Warn),
            ("d", Level::Deny),
        ]);
        let names: Vec<_> =
            groups(&report).into_iter().map(|group| (group.name, group.findings.len())).collect();
        let names: Vec<_> = names.iter().map(|(name, count)| (&**name, *count)).collect();
        assert_eq!(names, [("b", 2), ("d", 1), ("a", 1), ("c", 1)]);
    }

    #[test]
    fn directories_are_those_below_what_is_common() {
        let files: Vec<String> = (0..30)
            .map(|nth| match nth % 10 {
                0 => format!("./k8s/{nth}.yaml"),
                1..4 => format!("./k8s/team-b/{nth}.yaml"),
                _ => format!("./k8s/team-a/jobs/{nth}.yaml"),
            })
            .collect();
        let mut files: Vec<_> = files.iter().map(|file| (&**file, Level::Warn)).collect();
        let counts = |report: &Report| {
            let found = by_directory(report).into_iter();
            found.map(|(name, findings)| format!("{name} {}", findings.len())).collect::<Vec<_>>()
        };
        assert_eq!(counts(&report(&files)), ["k8s/team-a 18", "k8s/team-b 9", "k8s 3"]);
        assert!(counts(&report(&files[..9])).is_empty(), "few files");
        files.retain(|(file, _)| file.contains("team-a"));
        files.extend(files.clone());
        assert!(counts(&report(&files)).is_empty(), "one directory");
        let at_root: Vec<_> =
            (0..30).map(|nth| if nth < 29 { format!("{nth}.yaml") } else { "ß/a.yaml".to_owned() }).collect();
        let at_root: Vec<_> = at_root.iter().map(|file| (&**file, Level::Warn)).collect();
        assert_eq!(counts(&report(&at_root)), [". 29", "ß 1"]);
    }
}
