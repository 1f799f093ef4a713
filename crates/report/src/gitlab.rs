//! GitLab's code quality report, which a merge request compares with the one of its target branch.

use std::io;

use serde::Serialize;

use super::fingerprint::Unique;
use super::text::{clean, repository_path};
use crate::located::{Located, Location};
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::Unjudged;
use jobgate_core::judge::finding::Level;

/// The name of the rule for what was not judged.
const NOT_JUDGED: &str = "not-judged";

#[derive(Serialize)]
struct Issue<'r> {
    description: String,
    check_name: &'r str,
    fingerprint: String,
    severity: &'static str,
    location: IssueLocation<'r>,
}

#[derive(Serialize)]
struct IssueLocation<'r> {
    path: &'r str,
    lines: LineRange,
}

#[derive(Serialize)]
struct LineRange {
    begin: usize,
    end: usize,
}

/// Writes the report, one finding per line.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let mut unique = Unique::default();
    out.write_all(b"[")?;
    let mut lead: &[u8] = b"\n";
    for located in &report.findings {
        out.write_all(lead)?;
        serde_json::to_writer(&mut *out, &issue(located, &mut unique))?;
        lead = b",\n";
    }
    // An issue must have a path, so objects without a file are omitted.
    let said =
        report.unjudged.iter().filter(|unjudged| options.fail_on_unjudged || !unjudged.reason.is_found());
    for (unjudged, location) in said.filter_map(|unjudged| Some((unjudged, unjudged.location.as_ref()?))) {
        out.write_all(lead)?;
        serde_json::to_writer(
            &mut *out,
            &not_judged(unjudged, location, options.fail_on_unjudged, &mut unique),
        )?;
        lead = b",\n";
    }
    out.write_all(b"]\n")
}

fn not_judged<'r>(
    unjudged: &'r Unjudged,
    location: &'r Location,
    fails: bool,
    unique: &mut Unique,
) -> Issue<'r> {
    let object = unjudged.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
    let help = unjudged.help();
    let help = if help.is_empty() { String::new() } else { format!("; {help}") };
    Issue {
        description: clean(&format!("{object}{}: {}{help}", unjudged.reason.what(), unjudged.message()))
            .into_owned(),
        check_name: NOT_JUDGED,
        fingerprint: unique.of_unjudged(unjudged, location),
        severity: match unjudged.reason.is_error() {
            true => "blocker",
            false if fails => "major",
            false => "info",
        },
        location: IssueLocation {
            path: repository_path(&location.file),
            lines: LineRange { begin: location.start.line, end: location.start.line },
        },
    }
}

fn issue<'r>(located: &'r Located, unique: &mut Unique) -> Issue<'r> {
    let finding = &located.finding;
    let object = located.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
    let help = if finding.help.is_empty() { String::new() } else { format!("; {}", finding.help) };
    Issue {
        description: clean(&format!("{object}{}{help}", finding.message)).into_owned(),
        check_name: &finding.rule,
        fingerprint: unique.next(located),
        severity: match finding.level {
            Level::Deny => "blocker",
            Level::Warn => "major",
            Level::Note if finding.fills => "info",
            Level::Note => "minor",
        },
        location: IssueLocation {
            path: repository_path(&located.location.file),
            lines: LineRange { begin: located.location.start.line, end: located.location.end.line },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::text::value::{Value, json};

    fn document(report: &Report) -> Value {
        let mut out = Vec::new();
        write(report, &Options::default(), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_issue_has_what_gitlab_asks_for() {
        assert_eq!(document(&Report::default()), json!([]));
        let document = document(&sample::report());
        let mut first = document[0].clone();
        let fingerprint = first.as_object_mut().unwrap().remove("fingerprint").unwrap();
        assert_eq!(fingerprint.as_str().unwrap().len(), 64);
        assert_eq!(
            first,
            json!({
                "description": "Job team-a/train: the Job has no deadline; add `spec.activeDeadlineSeconds` with the longest time a run may take",
                "check_name": "deadline",
                "severity": "blocker",
                "location": {"path": "jobs/train.yaml", "lines": {"begin": 6, "end": 6}},
            })
        );
        let severities: Vec<_> =
            document.as_array().unwrap().iter().map(|issue| issue["severity"].as_str().unwrap()).collect();
        assert_eq!(severities, ["blocker", "info", "blocker", "minor", "major"]);
    }
}
