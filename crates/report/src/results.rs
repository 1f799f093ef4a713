//! The results of a run, which every format writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobgate_core::judge::finding::{Level, Safety};
use jobgate_core::text::value::make_room;

use crate::answer::Answered;
use crate::holdings::Holdings;
use crate::impact::Impact;
use crate::located::{Located, Location};
use crate::options::Options;
use crate::text::clean;
use crate::unjudged::{self, Unjudged};

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
    pub(crate) fn place(&self, located: &Located) -> String {
        match (&self.impact, &located.object) {
            (Some(_), Some(object)) if located.finding.path.is_root() => {
                clean(&object.to_string()).into_owned()
            }
            (Some(_), Some(object)) => clean(&format!("{object}: {}", located.finding.path)).into_owned(),
            _ => located.location.to_string(),
        }
    }

    /// Returns the file of a finding, where there is one.
    pub(crate) fn file<'r>(&self, location: &'r Location) -> Option<&'r str> {
        self.impact.is_none().then_some(&*location.file)
    }

    /// Returns which fix `jobgate lint` can make for a finding; an object of a cluster is not fixed.
    pub(crate) fn fix_of(&self, located: &Located) -> Option<Safety> {
        let fix =
            located.finding.fix.as_ref().filter(|_| self.impact.is_none() && located.withheld.is_none());
        fix.map(|fix| fix.safety)
    }

    /// Returns the skipped items that no finding mentions; all of them where they fail the run.
    pub(crate) fn unreported(&self, options: &Options) -> impl Iterator<Item = &Unjudged> {
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
