//! The summary line of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::text::{plural, thousands};
use crate::located::Located;
use crate::options::Options;
use crate::results::Report;
use crate::{unjudged, verdict};
use jobgate_core::judge::finding::Level;

/// Returns the summary line, without a line break.
pub(super) fn line(report: &Report) -> String {
    let mut line = match &report.impact {
        Some(impact) => impact.line(),
        None => format!("{}, {}", plural(report.files, "file"), plural(report.documents, "document")),
    };
    if report.impact.is_some() {
        // The line of the impact has everything.
    } else if report.objects == 0 && report.findings.is_empty() {
        let _ = write!(line, ": no batch jobs among them");
    } else if report.findings.is_empty() && !report.unjudged.is_empty() {
        // "No findings" is only about judged objects.
        let _ = write!(line, ", {}: no findings", plural(report.objects, "job"));
    } else {
        let _ = write!(
            line,
            ", {}: {}",
            plural(report.objects, "job"),
            counts(&report.findings.iter().collect::<Vec<_>>())
        );
    }
    if !report.answers.is_empty() {
        let _ = write!(line, "; {}", verdict::in_short(report));
    }
    let rendered: Vec<String> = [(report.charts, "chart"), (report.kustomizations, "kustomization")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| plural(count, what))
        .collect();
    if !rendered.is_empty() {
        let _ = write!(line, "; rendered: {}", rendered.join(", "));
    }
    if report.fixed > 0 {
        let _ = write!(line, "; {} fixed in {}", thousands(report.fixed), plural(report.changed, "file"));
    }
    if report.withheld > 0 {
        let _ = write!(
            line,
            "{} {} withheld",
            if report.fixed > 0 { "," } else { "; fixes:" },
            thousands(report.withheld)
        );
    }
    line += &taken_away(report);
    if let Some(unjudged) = unjudged::in_short(report) {
        let _ = write!(line, "; {unjudged}");
    }
    line
}

/// Returns counts of what the settings removed from the report, in words that follow a summary; each begins with a
/// semicolon.
pub fn taken_away(report: &Report) -> String {
    let mut line = String::new();
    for (count, what) in [
        (report.suppressed, "suppressed by exemptions and annotations"),
        (report.ignored, "of rules and checks that are not used"),
        (report.lowered, "more would be errors by the policy `default`"),
        (report.baselined, "baselined"),
        (report.baselined_unjudged, "not judged and baselined"),
    ] {
        if count > 0 {
            let _ = write!(line, "; {} {what}", thousands(count));
        }
    }
    if report.excluded > 0 {
        let _ = write!(line, "; {} excluded", plural(report.excluded, "path"));
    }
    line
}

/// Returns the colour of the summary: red if the run fails.
pub(super) fn style(report: &Report, options: &Options) -> Style {
    let fails = report.findings.iter().any(|located| located.finding.level >= options.fail_on);
    let color = match () {
        () if fails || options.fail_on_unjudged && !report.unjudged.is_empty() || report.is_incomplete() => {
            AnsiColor::BrightRed
        }
        // Green means judged.
        () if report.is_whole() => AnsiColor::BrightGreen,
        () => AnsiColor::BrightYellow,
    };
    color.on_default().bold()
}

/// Returns how many findings there are of each level, in words.
pub(super) fn counts(findings: &[&Located]) -> String {
    let count = |level: Level| findings.iter().filter(|located| located.finding.level == level).count();
    let (deny, warn, note) = (count(Level::Deny), count(Level::Warn), count(Level::Note));
    let fills = findings
        .iter()
        .filter(|located| located.finding.level == Level::Note && located.finding.fills)
        .count();
    let mut parts = Vec::new();
    if deny > 0 {
        parts.push(plural(deny, "error"));
    }
    if warn > 0 {
        parts.push(plural(warn, "warning"));
    }
    if note > 0 {
        let filled = match fills {
            0 => String::new(),
            _ if fills == note => " (filled in by the webhook)".to_owned(),
            _ => format!(" ({} filled in by the webhook)", thousands(fills)),
        };
        parts.push(plural(note, "note") + &filled);
    }
    if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") }
}

/// Returns the rules that were broken with the number of findings, most hit first.
pub(super) fn by_rule(report: &Report) -> Vec<(&str, Vec<&Located>)> {
    let mut rules: BTreeMap<&str, Vec<&Located>> = BTreeMap::new();
    for located in &report.findings {
        rules.entry(&located.finding.rule).or_default().push(located);
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, findings)| std::cmp::Reverse(findings.len()));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn says_what_was_found_and_nothing_that_was_not() {
        let mut report = Report { files: 1, documents: 1263, objects: 1, ..Report::default() };
        assert_eq!(line(&report), "1 file, 1,263 documents, 1 job: nothing found");
        report.suppressed = 2;
        assert_eq!(
            line(&report),
            "1 file, 1,263 documents, 1 job: nothing found; 2 suppressed by exemptions and annotations"
        );
        report.suppressed = 0;
        report.objects = 0;
        assert_eq!(line(&report), "1 file, 1,263 documents: no batch jobs among them");
        let report = sample::report();
        assert_eq!(
            line(&report),
            "2 files, 3 documents, 1 job: 2 errors, 1 warning, 2 notes (1 filled in by the webhook)"
        );
    }
}
