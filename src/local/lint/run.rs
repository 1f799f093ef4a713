//! One file of a run: read, judged and fixed.

use std::path::Path;
use std::sync::Arc;

use super::chart;
use super::discover::Unreadable;
use super::fixing::{Change, Fixing, Unwritten};
use super::kustomization::{self, Kustomizations};
use super::options::Options;
use super::source::{self, TooLarge};
use super::unjudged;
use crate::judge::checks::{self, SYNTAX};
use crate::judge::finding::Level;
use crate::judge::policy::Policy;
use crate::local::fix;
use crate::report::{Located, Location, Report};
use crate::text::lines::Lines;
use crate::text::number::bytes;
use crate::text::yaml::{self, Edit};
use jobgate_lint::claims::{Claims, Scope};
use jobgate_lint::merge::Moved;
use jobgate_lint::place;
use jobgate_lint::shifts::{Shifts, start};
use jobgate_lint::{FileBytes, FileJudgement, Input, Reached, Subject};

/// The reason why a file is judged but not fixed.
const LEADS_OUT: &str = "the file is a link that leads out of the directory; name it to fix it";

/// The settings and facts of a run.
pub(super) struct LintRun<'a> {
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a Claims,
    pub(super) claims: &'a Claims,
    pub(super) kustomizations: &'a Kustomizations,
    /// The file, if the run has only one.
    pub(super) alone: Option<FileBytes>,
    pub(super) options: &'a Options<'a>,
}

/// The results of one file.
#[derive(Default)]
pub(super) struct FileResult {
    pub(super) report: Report,
    pub(super) diff: Option<String>,
    pub(super) unwritten: Option<Unwritten>,
    pub(super) moved: Moved,
    /// The fixed text, if other files refer to objects in it, or it refers to objects in others.
    pub(super) text: Option<FileBytes>,
}

impl LintRun<'_> {
    pub(super) fn file(&self, input: &Input) -> Result<FileResult, Unreadable> {
        let done = self.read(input);
        if let Some(progress) = self.options.progress {
            progress.count();
        }
        done
    }

    fn read(&self, input: &Input) -> Result<FileResult, Unreadable> {
        if let Some(loaded) = &self.alone {
            return Ok(self.fixed(input, loaded));
        }
        match source::load(input, self.options.max_file_size)? {
            Ok(loaded) => Ok(self.fixed(input, &loaded)),
            Err(TooLarge { size }) => {
                let mut findings = vec![too_large(input, size, self.options.max_file_size)];
                findings.retain(|located| self.options.selects(&located.finding.rule));
                let unjudged = vec![unjudged::too_large(&input.path)];
                let report = Report { files: 1, documents: 1, findings, unjudged, ..Report::default() };
                Ok(FileResult { report, ..FileResult::default() })
            }
        }
    }

    /// Returns the text of a file with a claim.
    pub(super) fn claim_text(&self, path: &str) -> Option<Arc<String>> {
        let input = self.facts.file(path).or_else(|| self.claims.file(path))?;
        Some(source::load(input, self.options.max_file_size).ok()?.ok()?.text())
    }

    /// Judges the documents of one file and writes its fixes. If that fails, the unchanged file is judged.
    fn fixed(&self, input: &Input, loaded: &FileBytes) -> FileResult {
        if let (Some(fixing), Reached::Outside) = (self.options.fix, &input.reached) {
            return self.left_alone(input, loaded, fixing);
        }
        let (mut file, edits) = self.documents(input, loaded, self.options, None);
        let Some(fixing) = self.options.fix.filter(|_| !edits.is_empty()) else { return file };
        let new = fix::apply(loaded.bytes(), &edits);
        let split = |source| yaml::split(source, &self.options.limits()).collect::<Vec<_>>();
        let (chunks, shifts) = (split(loaded.bytes()), Shifts::new(&edits));
        let written = if shifts.keep(&chunks, &split(&new)) {
            fixing.sink.take(&Change { input, old: loaded.bytes(), new: &new, edits: &edits })
        } else {
            Err(Unwritten {
                path: input.path.to_string(),
                reason: "its documents would run together".to_owned(),
            })
        };
        if let Err(unwritten) = written {
            let options = Options { fix: None, ..*self.options };
            let (file, _) = self.documents(input, loaded, &options, None);
            return FileResult { unwritten: Some(unwritten), ..file };
        }
        let lines = Lines::new(&new);
        for located in &mut file.report.findings {
            let start = chunks.get(located.document).map_or(0, start);
            place::shift(located, |offset| shifts.of(start, offset));
            place::settle(located, &lines);
        }
        for unjudged in &mut file.report.unjudged {
            let start = unjudged.document.and_then(|document| chunks.get(document)).map_or(0, start);
            let Some(location) = &mut unjudged.location else { continue };
            location.span = shifts.of(start, location.span.start)..shifts.of(start, location.span.end);
            (location.start, location.end) =
                (lines.position(location.span.start), lines.position(location.span.end));
        }
        for claim in self.facts.locations(&input.path).chain(self.claims.locations(&input.path)) {
            let span =
                shifts.of(claim.span.start, claim.span.start)..shifts.of(claim.span.start, claim.span.end);
            let now = Location::new(&claim.file, span, &lines);
            file.moved.insert((Arc::clone(&claim.file), claim.span.start, claim.span.end), now);
        }
        if self.options.keep_sources && !(file.report.findings.is_empty() && file.moved.is_empty()) {
            file.report
                .sources
                .insert(Arc::clone(&input.path), Arc::new(String::from_utf8_lossy(&new).into_owned()));
        }
        file.report.changed = 1;
        let refers = file.report.findings.iter().any(|located| !located.related.is_empty());
        file.text = (refers || self.claims.file(&input.path).is_some()).then(|| FileBytes::new(new));
        file
    }

    /// Judges the documents of a file that must not be written, and marks the fixes that are withheld.
    fn left_alone(&self, input: &Input, loaded: &FileBytes, fixing: Fixing<'_>) -> FileResult {
        let (mut file, _) = self.documents(input, loaded, &Options { fix: None, ..*self.options }, None);
        let report = &mut file.report;
        for located in &mut report.findings {
            if located.finding.fix.as_ref().is_some_and(|fix| fix.safety <= fixing.most) {
                located.withheld = Some(LEADS_OUT.into());
                report.withheld += 1;
            }
        }
        file
    }

    /// Judges the documents of one file, or of a rendering with its `own` claims. Findings are placed as if
    /// only the edits of their own document were made.
    pub(super) fn documents(
        &self,
        input: &Input,
        loaded: &FileBytes,
        options: &Options<'_>,
        own: Option<&Claims>,
    ) -> (FileResult, Vec<Edit>) {
        let scope = Scope { file: input, facts: self.facts, own, linted: self.claims };
        let is_named = |is_own: fn(&Path) -> bool| input.content.file().is_some_and(|path| is_own(path));
        let subject = Subject {
            input,
            patch: self.kustomizations.patch(input),
            is_kustomization: is_named(kustomization::is_kustomization),
            is_chart: is_named(chart::is_chart),
            chart: &|| {
                let dir = chart::directory_of(input)?;
                let role = chart::role(&dir, input);
                Some((dir, role))
            },
        };
        let limits = options.limits();
        let options = options.of_file(input, self.policy, &limits);
        let FileJudgement { report, diff, edits } = jobgate_lint::judge(&subject, loaded, &scope, &options);
        (FileResult { report, diff, ..FileResult::default() }, edits)
    }
}

/// Reports a file above the size limit.
fn too_large(input: &Input, size: Option<u64>, limit: u64) -> Located {
    let limit = bytes(limit);
    let message = match size {
        Some(size) => format!("the file has {}, more than the limit of {limit}", bytes(size)),
        None => format!("the text is longer than the limit of {limit}"),
    };
    let help = "raise the limit with `--max-file-size`";
    let finding = checks::of_document(SYNTAX, Level::Deny, message, help);
    Located::new(place::first_of(Arc::clone(&input.path)), 0, finding)
}
