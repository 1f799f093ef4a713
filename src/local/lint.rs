//! The linter: files in, a report out. An adapter around [`crate::judge::engine::evaluate`], usable without
//! the command line.
//!
//! Two passes. The first reads what the files say about claims: a search for the word, and a parse of the
//! documents that have it. The second judges: every document is parsed, judged and forgotten by one thread,
//! and what remains of it are its findings, looked up in the source. Files, and the documents of one large
//! file, are spread over the threads of the current rayon pool; the report does not depend on their number.

mod answers;
mod arguments;
mod batch;
mod chart;
mod claims;
mod document;
mod fixing;
mod input;
mod kustomization;
mod near;
mod objects;
mod paths;
mod place;
mod run;
mod source;

pub use answers::{Against, DryRun, Key, Mentioned, mentioned};
pub use claims::{Claims, FactsError};
pub use fixing::{Change, Fixing, Sink, Unwritten};
pub use input::{Content, Input, Inputs, Unreadable, collect};
pub use source::{STDIN, drained, stdin};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::civil::Date;
use rayon::prelude::*;

use crate::judge::checks::UNRENDERED_TEMPLATE;
use crate::judge::policy::Policy;
use crate::report::{Located, Reason, Report, Unjudged, unjudged_order};
use crate::text::yaml::Limits;
use arguments::Arguments;
use kustomization::Kustomizations;
use paths::normal;
use run::{File, Moved, Run};

/// What a run is told besides its inputs, policy and facts.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Bytes above which a file is refused unread.
    pub max_file_size: u64,
    /// Whether to say what the API server would refuse, too.
    pub api_checks: bool,
    /// Whether the report keeps the text of the files that findings point into.
    pub keep_sources: bool,
    /// Whether findings keep the operations that would fix them; without, only whether there are any.
    pub keep_fixes: bool,
    /// Asks, instead of what is wrong with the objects, what would become of them; nothing for a plain lint.
    pub dry_run: Option<DryRun<'a>>,
    /// Which findings are fixed, and what becomes of the files; nothing to leave them as they are.
    pub fix: Option<Fixing<'a>>,
    /// Today, for exemptions that end. Without it they hold.
    pub today: Option<Date>,
    /// Where to count the files that are done, for whoever watches.
    pub progress: Option<&'a Progress>,
}

/// The default of [`Options::max_file_size`]: 64 MiB, several times the largest object list that a cluster's
/// etcd could hold.
pub const MAX_FILE_SIZE: u64 = 64 << 20;

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            max_file_size: MAX_FILE_SIZE,
            api_checks: true,
            keep_sources: true,
            keep_fixes: true,
            dry_run: None,
            fix: None,
            today: None,
            progress: None,
        }
    }
}

impl Options<'_> {
    /// A document may be as large as a file.
    fn limits(&self) -> Limits {
        Limits {
            document_bytes: usize::try_from(self.max_file_size).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }
}

/// How far a run has come.
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

/// What a run found, and what it could not read.
#[derive(Debug, Default)]
pub struct Linted {
    /// What was found.
    pub report: Report,
    /// What Jobgate fills in, as one unified diff for each file; only of a dry run.
    pub diffs: Vec<String>,
    /// Files that could not be read; in the report they are not judged.
    pub unreadable: Vec<Unreadable>,
    /// Files that should have been changed and are as they were; the report is about them as they are.
    pub unwritten: Vec<Unwritten>,
}

/// Lints files.
///
/// `facts` are claims that are known beforehand; claims found among the inputs come second. The inputs' order
/// is the report's.
#[must_use]
pub fn lint(inputs: &[Input], policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
    // Claims come first, which one of many files may hold. A file that is alone need not be read twice for
    // that.
    let alone = match inputs {
        [input] => source::load(input, options.max_file_size).ok().and_then(Result::ok),
        _ => None,
    };
    let claims = Claims::in_inputs(inputs, alone.as_ref(), options);
    let kustomizations = Kustomizations::of(inputs, options);
    let run = Run { policy, facts, claims: &claims, kustomizations: &kustomizations, alone, options };
    let files: Vec<Result<File, Unreadable>> =
        inputs.par_iter().with_max_len(1).map(|input| run.file(input)).collect();
    let mut linted = Linted::default();
    let Linted { report, diffs, unreadable, unwritten } = &mut linted;
    let mut moved = Moved::default();
    let mut arguments = Arguments::default();
    let mut with_batch = BTreeMap::new();
    for (input, file) in inputs.iter().zip(&files) {
        if let Content::File(path) = &input.content {
            with_batch.insert(
                normal(path),
                file.as_ref().is_ok_and(|file| file.report.objects > 0 || !file.report.unjudged.is_empty()),
            );
        }
    }
    let taking = kustomizations.taking(&with_batch, options);
    for (input, file) in inputs.iter().zip(files) {
        match file {
            Ok(mut file) => {
                // Of what says no kind itself, what it is a patch of decides.
                file.report.unjudged.retain(|unjudged| match &unjudged.reason {
                    Reason::Patch(by) => says_kind(unjudged) || kustomizations.patches_batch(by, &taking),
                    _ => true,
                });
                arguments.take(input, &file.report);
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
    let charts = once_a_chart(report);
    let parts = chart::with_more(inputs, options).into_iter().filter(|(_, dir)| !charts.contains(dir));
    let parts = parts.map(|(path, dir)| whole_file(path, Reason::ChartParts(dir)));
    let unrendered = kustomizations.unrendered(&taking).into_iter();
    let unrendered = unrendered
        .map(|kustomized| whole_file(Arc::clone(&kustomized.path), Reason::Kustomization(kustomized)));
    let trees: Vec<Unjudged> = parts.chain(unrendered).collect();
    arguments.speak_of(inputs, &trees);
    report.unjudged.extend(trees);
    report.unjudged.extend(arguments.silent(report.objects + report.unjudged.len() + report.findings.len()));
    report.unjudged.sort_by(unjudged_order);
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

/// Says a chart once, at the first of its templates: what renders one of them renders all. Returns the
/// charts' directories.
fn once_a_chart(report: &mut Report) -> BTreeSet<Arc<str>> {
    let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut again: BTreeSet<Arc<str>> = BTreeSet::new();
    report.unjudged.retain_mut(|unjudged| {
        let Reason::Chart(dir) = &unjudged.reason else { return true };
        let first = known.insert(Arc::clone(dir));
        if let Some(location) = unjudged.location.as_ref().filter(|_| !first) {
            again.insert(Arc::clone(&location.file));
        }
        // It is about no document.
        unjudged.document = None;
        first
    });
    if !again.is_empty() {
        report.findings.retain(|located| {
            located.finding.rule != UNRENDERED_TEMPLATE || !again.contains(&located.location.file)
        });
        let told: BTreeSet<&Arc<str>> =
            report.findings.iter().map(|located| &located.location.file).collect();
        report.sources.retain(|file, _| !again.contains(file) || told.contains(file));
    }
    known
}

/// Tells whether what was not judged says of what kind it is.
fn says_kind(unjudged: &Unjudged) -> bool {
    unjudged.object.as_ref().is_some_and(|object| !object.kind.is_empty())
}

/// Says that a document was not judged for what a finding says of it.
fn unjudged(located: &Located, reason: Reason) -> Unjudged {
    Unjudged {
        location: Some(located.location.clone()),
        document: Some(located.document),
        object: None,
        reason,
    }
}

/// Says that nothing of a file was judged.
fn whole_file(path: Arc<str>, reason: Reason) -> Unjudged {
    Unjudged { location: Some(place::first_of(path)), document: None, object: None, reason }
}

impl Unreadable {
    /// Returns the path as something that was not judged.
    #[must_use]
    pub fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::UnreadablePath(self.reason.as_str().into()))
    }
}

impl Unwritten {
    /// Returns the file as something that was not fixed.
    #[must_use]
    pub fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::NotWritten(self.reason.as_str().into()))
    }
}

/// Says that a path holds nothing that could be judged.
#[must_use]
pub fn nothing_in(path: &str) -> Unjudged {
    whole_file(path.into(), Reason::Nothing)
}
