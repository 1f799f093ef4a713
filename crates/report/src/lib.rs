//! Reports of findings, one file per format.
//!
//! A [`Report`] has lines and columns already; formats only write. They keep the report's order unless the
//! format requires another, and are deterministic.

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
mod markdown;
mod object;
pub mod page;
mod place;
pub mod policy_report;
#[cfg(test)]
mod sample;
mod sarif;
mod statistics;
mod summary;
mod text;
mod trouble;
mod unjudged;
mod verdict;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use format::{FormatTrait, formats};
pub use holdings::Holdings;
pub use identity::{Identity, Name};
pub use impact::{Filled, Impact, LeftOut, Reapply, Tally};
use jobgate_core::admission::dry_run::Prediction;
use jobgate_core::judge::finding::{Finding, Level, Safety};
use jobgate_core::judge::fold::Named;
use jobgate_core::judge::rules::RuleSet;
use jobgate_core::text::lines::{Lines, Position};
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::{Value, make_room};
pub use object::ObjectId;
pub use place::{first_line, span};
pub use summary::taken_away;
pub use text::{clean, clean_lines, plural};
pub use trouble::{Refused, Stuck, StuckPod};
pub use unjudged::{Kustomized, NotRendered, Reason, Render, Rendered, Unjudged};
pub use unjudged::{helm, helm_again, helm_dependencies, order as unjudged_order};

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path, as the user gave it; `-` for standard input.
    pub file: Arc<str>,
    /// The byte range.
    pub span: Range<usize>,
    /// Where they start.
    pub start: Position,
    /// Where they end, exclusive.
    pub end: Position,
}

impl Location {
    /// Returns the location of a byte range in a file with these lines.
    #[must_use]
    pub fn at(file: &Arc<str>, span: Range<usize>, lines: &Lines<'_>) -> Self {
        let (start, end) = (lines.position(span.start), lines.position(span.end));
        Self { file: Arc::clone(file), span, start, end }
    }
}

/// A related place of a finding, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Its location; `None` for an object of a cluster.
    pub location: Option<Location>,
    /// The other object, if it is in another one (`PersistentVolumeClaim team-a/checkpoints`).
    pub object: Option<String>,
    /// The text of its label.
    pub text: Cow<'static, str>,
}

/// A finding with its places looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The location of its primary place.
    pub location: Location,
    /// The document's number in the file, from 0.
    pub document: usize,
    /// The object; nothing if the document could not be read.
    pub object: Option<Arc<ObjectId>>,
    /// The finding.
    pub finding: Finding,
    /// Its related places, in the order of `finding.labels`.
    pub related: Vec<Related>,
    /// Why `--fix` did not apply its fix.
    pub withheld: Option<Box<str>>,
    /// The finding's path with list items by name, if there are any.
    pub by_name: Option<Box<str>>,
    /// The paths of all its items, if they are many and were asked for.
    pub items: Option<Box<Named>>,
}

impl Located {
    /// Returns a finding without an object and further places.
    #[must_use]
    pub fn new(location: Location, document: usize, finding: Finding) -> Self {
        let related = Vec::new();
        Self {
            location,
            document,
            object: None,
            finding,
            related,
            withheld: None,
            by_name: None,
            items: None,
        }
    }
}

/// The predicted answer for one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Where the object starts.
    pub location: Location,
    /// The document's number in the file, from 0.
    pub document: usize,
    /// The Helm template that rendered the document.
    pub source: Option<String>,
    /// The object.
    pub object: Arc<ObjectId>,
    /// The answer. Its findings are in the report.
    pub answer: Prediction,
    /// Whether the training operator's webhook would reject it.
    pub operator_refuses: bool,
    /// The pods of its templates, if they were asked for and it would be stored.
    pub pods: Vec<PodOfTemplate>,
}

/// A pod that is made of a template, to ask a cluster about.
#[derive(Clone, Debug, PartialEq)]
pub struct PodOfTemplate {
    /// Where the template is.
    pub location: Location,
    /// The template in the document.
    pub template: Pointer,
    /// The pod, without a namespace.
    pub pod: Value,
    /// Whether the cluster refuses it.
    pub refused: bool,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files read.
    pub files: usize,
    /// Documents in them.
    pub documents: usize,
    /// Objects among those that Jobgate judges.
    pub objects: usize,
    /// Related places of the findings.
    pub further: usize,
    /// Renderings of charts, and of kustomizations, that were judged: one for each set of values.
    pub charts: usize,
    /// See `charts`.
    pub kustomizations: usize,
    /// Findings suppressed by exemptions and annotations.
    pub suppressed: usize,
    /// Findings of rules and checks that the user does not use.
    pub ignored: usize,
    /// Errors by the default policy that are not errors by the policy of the run.
    pub lowered: usize,
    /// Findings suppressed by a baseline.
    pub baselined: usize,
    /// Unjudged items suppressed by a baseline; they are not among `unjudged`.
    pub baselined_unjudged: usize,
    /// Files and directories that were excluded by the user.
    pub excluded: usize,
    /// Findings that a baseline knows and that are no longer there.
    pub resolved: usize,
    /// Findings that were fixed; they are not among `findings`, which describe the files after the fixes.
    pub fixed: usize,
    /// Files that the fixes changed.
    pub changed: usize,
    /// Findings whose fixes could not be made.
    pub withheld: usize,
    /// What was found, sorted by file, offset, rule.
    pub findings: Vec<Located>,
    /// What was not judged, and why, sorted by file, offset, reason.
    pub unjudged: Vec<Unjudged>,
    /// The predicted answer for each object, in order; empty unless requested.
    pub answers: Vec<Answered>,
    /// Accelerators that the objects hold.
    pub holdings: Holdings,
    /// The text of every file that a finding points into, by path.
    pub sources: BTreeMap<Arc<str>, Arc<String>>,
    /// The file with the settings of the run, where there is one.
    pub configuration: Option<String>,
    /// The effect of a policy on a cluster, for the report of an audit. Audited objects have no file: their locations
    /// are synthetic, serve only for comparison and for excerpts, and are never printed.
    pub impact: Option<Impact>,
}

impl Report {
    /// Returns the number of entries about objects, each of which has a bounded size.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.objects + self.findings.len() + self.further + self.unjudged.len()
    }

    /// Adds a finding. A long list does not double its capacity.
    pub fn keep(&mut self, located: Located) {
        self.further += located.related.len();
        make_room(&mut self.findings);
        self.findings.push(located);
    }

    /// Appends the report of what follows.
    pub fn append(&mut self, mut other: Self) {
        self.files += other.files;
        self.documents += other.documents;
        self.objects += other.objects;
        self.further += other.further;
        self.charts += other.charts;
        self.kustomizations += other.kustomizations;
        self.suppressed += other.suppressed;
        self.ignored += other.ignored;
        self.lowered += other.lowered;
        self.fixed += other.fixed;
        self.changed += other.changed;
        self.withheld += other.withheld;
        // A single large file's findings are moved, not copied.
        if self.findings.capacity() == 0 {
            self.findings = other.findings;
        } else {
            self.findings.append(&mut other.findings);
        }
        self.unjudged.append(&mut other.unjudged);
        self.answers.append(&mut other.answers);
        self.holdings.append(other.holdings);
        self.sources.extend(other.sources);
    }

    /// Returns the place of a finding for display: the place in the file, or the field of the object if there is no
    /// file.
    fn place(&self, located: &Located) -> String {
        match (&self.impact, &located.object) {
            (Some(_), Some(object)) if located.finding.path.is_root() => {
                clean(&object.to_string()).into_owned()
            }
            (Some(_), Some(object)) => clean(&format!("{object}: {}", located.finding.path)).into_owned(),
            _ => located.location.to_string(),
        }
    }

    /// Returns the file of a finding, where there is one.
    fn file<'r>(&self, location: &'r Location) -> Option<&'r str> {
        self.impact.is_none().then_some(&*location.file)
    }

    /// Returns which fix `jobgate lint` can make for a finding; an object of a cluster is not fixed.
    fn fix_of(&self, located: &Located) -> Option<Safety> {
        let fix =
            located.finding.fix.as_ref().filter(|_| self.impact.is_none() && located.withheld.is_none());
        fix.map(|fix| fix.safety)
    }

    /// Returns the skipped items that no finding mentions; all of them where they fail the run.
    fn unreported(&self, options: &Options) -> impl Iterator<Item = &Unjudged> {
        let all = options.fail_on_unjudged;
        self.unjudged.iter().filter(move |unjudged| all || !unjudged.reason.is_found())
    }

    /// Tells whether anything was judged, and nothing that was found was left out.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        self.unjudged.is_empty()
            && self.baselined_unjudged + self.ignored + self.lowered == 0
            && (self.objects > 0 || !self.findings.is_empty())
    }

    /// Tells whether something could not be read, or written: the exit code is 2 for it.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.unjudged.iter().any(|unjudged| unjudged.reason.is_error())
    }

    /// Returns a short summary of what was not judged; `None` if everything was.
    #[must_use]
    pub fn unjudged_in_short(&self) -> Option<String> {
        unjudged::in_short(self)
    }

    /// Puts the findings that cost most first. What costs the same stays in order.
    pub fn sort_by_cost(&mut self) {
        self.findings.sort_by_key(|located| std::cmp::Reverse(located.finding.loss));
    }

    /// Returns how many findings there are of a level.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|located| located.finding.level == level).count()
    }
}

impl fmt::Display for Location {
    /// Writes the path, line and column, as compilers do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", clean(&self.file), self.start.line, self.start.column)
    }
}

/// The address of the pages of the rules.
pub(crate) const DOCS: &str = "https://github.com/jobgate/jobgate/blob/main/docs/rules";

/// Options for writing a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to colour; only the formats for terminals do: human and concise.
    pub color: bool,
    /// The columns that source lines of the human format may fill.
    pub width: usize,
    /// The columns of the terminal, at which the text of the human format is wrapped; `None` if it is not written to a
    /// terminal.
    pub columns: Option<usize>,
    /// Whether every finding is shown in full, however many there are; for the formats that people read.
    pub full: bool,
    /// Whether the formats human, concise and github leave out the summary.
    pub quiet: bool,
    /// Whether only the number of findings of each rule is written. Only formats that
    /// [have statistics](Format::has_statistics) do.
    pub statistics: bool,
    /// Whether what costs most comes first, where findings are grouped by rule.
    pub by_cost: bool,
    /// The lowest level that fails the run.
    pub fail_on: Level,
    /// Whether an unjudged item fails the run, too.
    pub fail_on_unjudged: bool,
    /// The rules of the run's policy, for their descriptions in the formats.
    pub rules: RuleSet,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            color: false,
            width: 140,
            columns: None,
            full: false,
            quiet: false,
            statistics: false,
            by_cost: false,
            fail_on: Level::Deny,
            fail_on_unjudged: false,
            rules: RuleSet::built_in(),
        }
    }
}

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
