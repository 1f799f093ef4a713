//! Reports of findings, one file per format.
//!
//! A [`Report`] has lines and columns already; formats only write. They keep the report's order unless the
//! format requires another, and are deterministic.

mod answer;
mod concise;
mod excerpt;
mod fingerprint;
mod format;
mod github;
mod gitlab;
#[cfg(test)]
mod golden;
mod group;
mod holdings;
mod html;
mod human;
mod identity;
mod impact;
mod json;
mod junit;
#[cfg(test)]
mod laws;
mod located;
mod markdown;
mod object;
mod options;
pub mod page;
mod place;
pub mod policy_report;
mod results;
#[cfg(test)]
mod sample;
mod sarif;
mod statistics;
mod summary;
mod text;
mod trouble;
mod unjudged;
mod verdict;

use std::io;

pub use answer::{Answered, PodOfTemplate};
pub use holdings::Holdings;
pub use identity::{Identity, Name};
pub use impact::{Filled, Impact, LeftOut, Reapply, Tally};
pub use located::{Located, Location, Related};
pub use object::ObjectId;
pub use options::Options;
pub use place::{first_line, span};
pub use results::Report;
pub use summary::taken_away;
pub use text::{clean, clean_lines, plural};
pub use trouble::{Refused, Stuck, StuckPod};
pub use unjudged::{Kustomized, NotRendered, Reason, Render, Rendered, Unjudged};
pub use unjudged::{helm, helm_again, helm_dependencies, order as unjudged_order};

use format::{FormatTrait, formats};

/// Writes the findings in the human format, without the summary of the run.
///
/// # Errors
///
/// Those of `out`, and no others.
pub fn write_findings(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    human::write_findings(report, options, out)
}

/// Writes what was not judged, in the human format.
///
/// # Errors
///
/// Those of `out`, and no others.
pub fn write_unjudged(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    human::write_unjudged(report, options, out)
}

/// Writes the predicted answers in the human format, one line per object.
///
/// # Errors
///
/// Those of `out`, and no others.
pub fn write_verdicts(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    verdict::write(report, options, out)
}

/// Returns the number of objects by predicted answer, in words.
#[must_use]
pub fn verdicts(report: &Report) -> String {
    verdict::in_short(report)
}

/// Writes the number of findings of each rule, in the human format.
///
/// # Errors
///
/// Those of `out`, and no others.
pub fn write_statistics(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    statistics::write(report, out)
}

/// Writes the file with the settings of the run, if there is one, in the human format.
///
/// # Errors
///
/// Those of `out`, and no others.
pub fn write_origin(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    match &report.configuration {
        Some(path) => writeln!(out, "configuration: {}", clean(path)),
        None => Ok(()),
    }
}

/// Returns how many findings there are of each level, in words.
#[must_use]
pub fn counts(report: &Report) -> String {
    summary::counts(&report.findings.iter().collect::<Vec<_>>())
}

formats! {
    /// For people: source lines, what is wrong with them, and what to do.
    Human "human" human::write, "txt" [Sources, Statistics, Configuration];
    /// One line a finding: path, line, column, rule and message.
    Concise "concise" concise::write, "concise.txt" [];
    /// One JSON document with everything in it (docs/json.md).
    Json "json" json::write, "json" [Statistics, Configuration];
    /// SARIF 2.1.0, for code scanning.
    Sarif "sarif" sarif::write, "" [Sources, Configuration];
    /// JUnit XML, for test reports.
    Junit "junit" junit::write, "xml" [];
    /// GitHub workflow commands, which annotate the changed lines.
    Github "github" github::write, "github.txt" [];
    /// GitLab code quality report.
    Gitlab "gitlab" gitlab::write, "gitlab.json" [];
    /// Markdown, for a comment of a pull request or the summary of a CI job.
    Markdown "markdown" markdown::write, "md" [];
    /// One HTML page with charts and filters, to send round.
    Html "html" html::write, "html" [Sources];
    /// Reports of openreports.io/v1alpha1, for dashboards of clusters.
    OpenReports "openreports" policy_report::write_open_reports, "openreports.json" [];
    /// PolicyReports of wgpolicyk8s.io/v1alpha2, which came before OpenReports.
    PolicyReport "policy-report" policy_report::write_policy_reports, "" [];
}
