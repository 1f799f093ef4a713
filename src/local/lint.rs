//! The linter: files in, a report out. An adapter around [`crate::judge::engine::evaluate`], usable without
//! the command line.
//!
//! There are two passes. The first reads the claims in the files: it searches for the word and parses the
//! documents that have it. In the second, one thread parses, judges and drops each document and keeps its
//! findings, with their places. Files, and the documents of a large file, are spread over the current rayon
//! pool; the report does not depend on the number of threads.

mod after;
mod answers;
mod arguments;
mod batch;
mod chart;
mod claims;
mod document;
mod fixing;
mod ignored;
mod input;
mod kustomization;
mod near;
mod objects;
mod paths;
mod patterns;
mod place;
mod rendering;
mod run;
mod session;
mod source;
mod unfinished;

pub use answers::{Against, DryRun, Key, Mentioned, mentioned, objects_of};
pub use claims::{Claims, FactsError};
pub use fixing::{Change, Fixing, Sink, Unwritten};
pub use input::{
    Content, Exclusions, Input, Inputs, Reached, Unreadable, collect, collect_some, collect_without,
};
pub use paths::{normal, path_text};
pub use patterns::{BadPattern, ByPath, Patterns};
pub use rendering::{Rendering, TIMEOUTS, Values};
pub use session::{Defined, Fixes, Known, Scan, Session, Target, text};
pub(super) use source::bytes;
pub use source::{STDIN, drained, stdin};

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::civil::Date;
use rayon::prelude::*;

use crate::judge::checks::UNRENDERED_TEMPLATE;
use crate::judge::policy::Policy;
use crate::judge::selection::Selection;
use crate::report::{Located, Reason, Report, Unjudged, unjudged_order};
use crate::text::yaml::Limits;
use arguments::Arguments;
use kustomization::Kustomizations;
use rendering::Outcome;
use run::{File, Moved, Run};

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Files larger than this many bytes are not read.
    pub max_file_size: u64,
    /// Whether to report what the API server would reject.
    pub api_checks: bool,
    /// Whether the report keeps the text of files with findings.
    pub keep_sources: bool,
    /// Whether findings keep the operations of their fixes.
    pub keep_fixes: bool,
    /// Whether findings about many items keep the names of all of them, which a baseline asks for.
    pub keep_items: bool,
    /// How to predict the webhook's answers, instead of a plain lint.
    pub dry_run: Option<DryRun<'a>>,
    /// How charts and kustomizations are rendered; nothing if they are not.
    pub render: Option<&'a Rendering>,
    /// Which findings are fixed, and where the fixed files go.
    pub fix: Option<Fixing<'a>>,
    /// The rules and checks that are used, of those of the policy; nothing for all.
    pub selection: Option<&'a Selection>,
    /// The policy with the rules that are not used as well, to count what they would find; nothing if there are none.
    pub whole: Option<&'a Policy>,
    /// The policy to count the errors by that are none by that of the run; nothing if it is the same.
    pub reference: Option<&'a Policy>,
    /// The namespace of objects without one; empty if unknown.
    pub namespace: &'a str,
    /// What holds for some files instead of the policy and the namespace; later ones win.
    pub by_path: &'a [ByPath],
    /// Today, for exemptions that end. Without it they do not.
    pub today: Option<Date>,
    /// Counts the files that are done.
    pub progress: Option<&'a Progress>,
}

/// The default of [`Options::max_file_size`] in bytes: several times the largest object list in etcd. A file of
/// it takes some 700 MiB at most, whatever is in it: see `docs/lint.md`.
pub const MAX_FILE_SIZE: u64 = 32 << 20;

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            max_file_size: MAX_FILE_SIZE,
            api_checks: true,
            keep_sources: true,
            keep_fixes: true,
            keep_items: false,
            dry_run: None,
            render: None,
            fix: None,
            selection: None,
            whole: None,
            reference: None,
            namespace: "",
            by_path: &[],
            today: None,
            progress: None,
        }
    }
}

impl<'a> Options<'a> {
    /// Tells whether the findings of a rule or check are reported.
    fn selects(&self, id: &str) -> bool {
        self.selection.is_none_or(|selection| selection.has(id))
    }

    /// Returns the namespace of a file's objects without one.
    fn namespace_of(&self, input: &Input) -> &'a str {
        self.last_for(input, |by_path| by_path.namespace.as_deref()).unwrap_or(self.namespace)
    }

    /// Returns the policy for a file.
    fn policy_of<'p>(&self, input: &Input, policy: &'p Policy) -> &'p Policy
    where
        'a: 'p,
    {
        self.last_for(input, |by_path| by_path.policy.as_ref()).unwrap_or(policy)
    }

    /// Returns the policy for a file with the rules that are not used as well.
    fn whole_of(&self, input: &Input) -> Option<&'a Policy> {
        let whole = self.whole?;
        Some(self.last_for(input, |by_path| by_path.whole.as_ref()).unwrap_or(whole))
    }

    fn last_for<T>(&self, input: &Input, setting: impl Fn(&'a ByPath) -> Option<T>) -> Option<T> {
        // A text without a file is in no directory.
        let path = input.content.file()?;
        let path: &Path = path;
        let set = |by_path: &'a ByPath| setting(by_path).filter(|_| by_path.patterns.matches(path, false));
        self.by_path.iter().rev().find_map(set)
    }

    /// A document may be as large as a file.
    fn limits(&self) -> Limits {
        Limits {
            document_bytes: usize::try_from(self.max_file_size).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }
}

/// The progress of a run.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicUsize,
}

impl Progress {
    /// Returns how many files are done.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.load(Ordering::Relaxed)
    }
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Linted {
    /// Findings, and what was not judged.
    pub report: Report,
    /// In a dry run, Jobgate's fills as one unified diff per file.
    pub diffs: Vec<String>,
    /// Files that could not be read. The report has them as not judged.
    pub unreadable: Vec<Unreadable>,
    /// Files that could not be fixed. The report is about their unchanged text.
    pub unwritten: Vec<Unwritten>,
}

/// Lints files.
///
/// `facts` take precedence over claims in the inputs. The report follows the order of the inputs.
#[must_use]
pub fn lint(inputs: &[Input], policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
    // Any file may have a claim, so claims are read first. A single file is read once.
    let alone = match inputs {
        [input] => source::load(input, options.max_file_size).ok().and_then(Result::ok),
        _ => None,
    };
    let claims = Claims::in_inputs(inputs, alone.as_ref(), options);
    let kustomizations = Kustomizations::of(inputs, options);
    report(inputs, &Run { policy, facts, claims: &claims, kustomizations: &kustomizations, alone, options })
}

/// Judges files, and reports on them together.
fn report(inputs: &[Input], run: &Run<'_>) -> Linted {
    let Run { kustomizations, options, .. } = run;
    let mut files: Vec<Result<File, Unreadable>> =
        inputs.par_iter().with_max_len(1).map(|input| run.file(input)).collect();
    if options.fix.is_some() {
        after::drop_fixed(inputs, &mut files, run);
    }
    let mut linted = Linted::default();
    let Linted { report, diffs, unreadable, unwritten } = &mut linted;
    let mut moved = Moved::default();
    let mut arguments = Arguments::default();
    let mut with_batch = BTreeMap::new();
    for (input, file) in inputs.iter().zip(&files) {
        if let Some(path) = input.content.file() {
            with_batch.insert(
                normal(path),
                file.as_ref().is_ok_and(|file| file.report.objects > 0 || !file.report.unjudged.is_empty()),
            );
        }
    }
    let taking = kustomizations.taking(&with_batch, options);
    let by_themselves: Vec<Option<&Report>> =
        files.iter().map(|file| file.as_ref().ok().map(|file| &file.report)).collect();
    // After the files were fixed, so that what is rendered is what is left.
    let mut rendered = options.render.map_or_else(Outcome::default, |rendering| {
        Outcome::of(rendering, run, inputs, &by_themselves, kustomizations, &taking)
    });
    for (input, file) in inputs.iter().zip(files) {
        match file {
            Ok(mut file) => {
                // For a patch without a kind, the patched object decides.
                file.report.unjudged.retain(|unjudged| match &unjudged.reason {
                    Reason::Patch(by) => says_kind(unjudged) || kustomizations.patches_batch(by, &taking),
                    _ => true,
                });
                arguments.take(input, &file.report);
                if options.render.is_some() {
                    if rendered.is_of(input) {
                        arguments.speak(input);
                    }
                    rendered.reduce(input, &mut file);
                }
                report.append(file.report);
                diffs.extend(file.diff);
                report.unjudged.extend(file.unwritten.as_ref().map(Unwritten::unjudged));
                unwritten.extend(file.unwritten);
                moved.extend(file.moved);
            }
            Err(error) => {
                arguments.speak(input);
                report.unjudged.push(error.unjudged());
                unreadable.push(error);
            }
        }
    }
    for location in report
        .findings
        .iter_mut()
        .flat_map(|located| &mut located.related)
        .filter_map(|related| related.location.as_mut())
    {
        if let Some(now) = moved.get(&(Arc::clone(&location.file), location.span.start, location.span.end)) {
            *location = now.clone();
        }
    }
    let charts = once_a_chart(report);
    let has_more = |dir: &Arc<str>| !charts.contains(dir) && !rendered.has_chart(dir);
    let parts = chart::with_more(inputs, options).into_iter().filter(|(_, dir)| has_more(dir));
    let parts = parts.map(|(path, dir)| whole_file(path, Reason::ChartParts(dir)));
    let unrendered = kustomizations
        .unrendered(&taking)
        .into_iter()
        .filter(|kustomized| !rendered.kustomizations.contains(&normal(Path::new(&*kustomized.path))));
    let unrendered = unrendered
        .map(|kustomized| whole_file(Arc::clone(&kustomized.path), Reason::Kustomization(kustomized)));
    let trees: Vec<Unjudged> = parts.chain(unrendered).collect();
    arguments.speak_of(inputs, &trees);
    report.unjudged.extend(trees);
    if options.render.is_some() {
        rendered.explain(report);
        rendered.join(inputs, report);
    }
    report.unjudged.extend(arguments.silent(report.objects + report.unjudged.len() + report.findings.len()));
    report.unjudged.sort_by(unjudged_order);
    if options.keep_sources {
        let here: BTreeSet<Arc<str>> = report.sources.keys().cloned().collect();
        let places = report
            .findings
            .iter()
            .flat_map(|located| &located.related)
            .filter_map(|related| related.location.as_ref());
        let missing: BTreeSet<Arc<str>> =
            places.map(|place| Arc::clone(&place.file)).filter(|file| !here.contains(file)).collect();
        for (path, text) in
            missing.into_iter().filter_map(|path| Some((Arc::clone(&path), run.claim_text(&path)?)))
        {
            report.sources.insert(path, text);
        }
    }
    linted
}

/// Keeps one entry per chart, at its first template. Returns the directories of the charts.
fn once_a_chart(report: &mut Report) -> BTreeSet<Arc<str>> {
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

/// Tells whether something that was not judged has a kind.
fn says_kind(unjudged: &Unjudged) -> bool {
    unjudged.object.as_ref().is_some_and(|object| !object.kind.is_empty())
}

/// Returns the document of a finding as not judged.
fn unjudged(located: &Located, reason: Reason) -> Unjudged {
    Unjudged {
        location: Some(located.location.clone()),
        document: Some(located.document),
        object: None,
        reason,
    }
}

/// Returns a whole file as not judged.
fn whole_file(path: Arc<str>, reason: Reason) -> Unjudged {
    Unjudged { location: Some(place::first_of(path)), document: None, object: None, reason }
}

impl Unreadable {
    /// Returns the path as not judged.
    #[must_use]
    pub fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::UnreadablePath(self.reason.as_str().into()))
    }
}

impl Unwritten {
    /// Returns the file as not fixed.
    #[must_use]
    pub fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::NotWritten(self.reason.as_str().into()))
    }
}

/// Returns a path as one with nothing to judge.
#[must_use]
pub fn nothing_in(path: &str) -> Unjudged {
    whole_file(path.into(), Reason::Nothing)
}
