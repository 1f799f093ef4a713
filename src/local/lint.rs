//! The linter: files in, a report out. An adapter around [`crate::judge::engine::evaluate`], usable without
//! the command line.
//!
//! Two passes. The first reads what the files say about claims: a search for the word, and a parse of the
//! documents that have it. The second judges: every document is parsed, judged and forgotten by one thread,
//! and what remains of it are its findings, looked up in the source. Files, and the documents of one large
//! file, are spread over the threads of the current rayon pool; the report does not depend on their number.

mod answers;
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
mod source;

pub use answers::{Against, DryRun, Key, Mentioned, mentioned};
pub use claims::{Claims, FactsError};
pub use fixing::{Change, Fixing, Sink, Unwritten};
pub use input::{Content, Input, Inputs, Unreadable, collect};
pub use source::{STDIN, drained, stdin};

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::civil::Date;
use rayon::prelude::*;

use crate::judge::checks::UNRENDERED_TEMPLATE;
use crate::judge::policy::Policy;
use crate::local::fix;
use crate::report::{Located, Location, Reason, Report, Unjudged, helm, unjudged_order};
use crate::text::lines::Lines;
use crate::text::lines::Position;
use crate::text::yaml::{self, Chunk, Edit, Limits, SyntaxError, SyntaxErrorKind};
use chart::Role;
use claims::Scope;
use document::{Context, Judged};
use fixing::{Shifts, start};
use kustomization::Kustomizations;
use paths::{normal, shown};
use source::{Loaded, TooLarge};

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

/// Documents that one thread takes at a time.
const BATCH: usize = 32;
/// Documents whose findings are in memory twice for a moment.
const WAVE: usize = 64 * BATCH;

/// Bytes of a file above which its documents are spread over threads; below, the file itself is the unit of
/// work.
const SPREAD: usize = 256 << 10;

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
    let start = Position { line: 1, column: 1 };
    Unjudged {
        location: Some(Location { file: path, span: 0..0, start, end: start }),
        document: None,
        object: None,
        reason,
    }
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

/// The arguments of a run, and whether there was anything to say of what is in them.
#[derive(Default)]
struct Arguments {
    /// Directories.
    roots: BTreeMap<Arc<str>, bool>,
    /// Named files.
    files: Vec<Arc<str>>,
}

impl Arguments {
    fn take(&mut self, input: &Input, file: &Report) {
        let speaks = file.objects > 0 || !file.findings.is_empty() || !file.unjudged.is_empty();
        match &input.root {
            Some(root) => *self.roots.entry(Arc::clone(root)).or_default() |= speaks,
            None if !speaks => self.files.push(Arc::clone(&input.path)),
            None => {}
        }
    }

    /// Remembers that something is said of a file elsewhere.
    fn speak(&mut self, input: &Input) {
        if let Some(root) = &input.root {
            self.roots.insert(Arc::clone(root), true);
        }
    }

    /// Remembers that something was said of files.
    fn speak_of(&mut self, inputs: &[Input], unjudged: &[Unjudged]) {
        let files: BTreeSet<&str> =
            unjudged.iter().filter_map(|unjudged| Some(&*unjudged.location.as_ref()?.file)).collect();
        inputs
            .iter()
            .filter(|input| files.contains(&*shown(Path::new(&*input.path))))
            .for_each(|input| self.speak(input));
    }

    /// Returns the directories of which nothing was said. Files that were named are reported only if there is
    /// nothing in any of them: whoever passes the files of a commit, or a shell's glob, means those of them
    /// that hold batch work.
    fn silent(self, said: usize) -> Vec<Unjudged> {
        let roots = self.roots.into_iter().filter(|(_, speaks)| !speaks).map(|(root, _)| root);
        let files = self.files.into_iter().filter(|_| said == 0);
        roots.chain(files).map(|path| nothing_in(&path)).collect()
    }
}

/// What is the same for every file of a run.
struct Run<'a> {
    policy: &'a Policy,
    facts: &'a Claims,
    claims: &'a Claims,
    kustomizations: &'a Kustomizations,
    /// The only file of the run, where there is but one.
    alone: Option<Loaded>,
    options: &'a Options<'a>,
}

/// Claims that stand elsewhere in their files than they did, by where they stood.
type Moved = BTreeMap<(Arc<str>, usize, usize), Location>;

/// What is left of a file.
#[derive(Default)]
struct File {
    report: Report,
    diff: Option<String>,
    unwritten: Option<Unwritten>,
    moved: Moved,
}

impl Run<'_> {
    fn file(&self, input: &Input) -> Result<File, Unreadable> {
        let done = self.read(input);
        if let Some(progress) = self.options.progress {
            progress.files.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    fn read(&self, input: &Input) -> Result<File, Unreadable> {
        if let Some(loaded) = &self.alone {
            return Ok(self.fixed(input, loaded));
        }
        match source::load(input, self.options.max_file_size)? {
            Ok(loaded) => Ok(self.fixed(input, &loaded)),
            Err(TooLarge { size }) => {
                let finding = document::too_large(input, size, self.options.max_file_size);
                let unjudged = vec![whole_file(Arc::clone(&input.path), Reason::TooLarge)];
                let report =
                    Report { files: 1, documents: 1, findings: vec![finding], unjudged, ..Report::default() };
                Ok(File { report, ..File::default() })
            }
        }
    }

    /// Returns the text of a file that a claim stands in.
    fn claim_text(&self, path: &str) -> Option<Arc<String>> {
        let input = self.facts.file(path).or_else(|| self.claims.file(path))?;
        Some(source::load(input, self.options.max_file_size).ok()?.ok()?.text())
    }

    /// Judges the documents of one file and hands the file over, where it is to be changed. If that fails,
    /// the file is judged as it is.
    fn fixed(&self, input: &Input, loaded: &Loaded) -> File {
        let (mut file, edits) = self.documents(input, loaded, self.options);
        let Some(fixing) = self.options.fix.filter(|_| !edits.is_empty()) else { return file };
        let new = fix::apply(loaded.bytes(), &edits);
        let split = |source| yaml::split(source, &self.options.limits()).collect::<Vec<_>>();
        let (chunks, shifts) = (split(loaded.bytes()), Shifts::new(&edits));
        let written = if shifts.keep(&chunks, &split(&new)) {
            fixing.sink.take(&Change { input, old: loaded.bytes(), new: &new, edits: &edits })
        } else {
            Err(Unwritten {
                path: input.path.to_string(),
                reason: "its documents would run into each other".to_owned(),
            })
        };
        if let Err(unwritten) = written {
            let options = Options { fix: None, ..*self.options };
            let (file, _) = self.documents(input, loaded, &options);
            return File { unwritten: Some(unwritten), ..file };
        }
        let lines = Lines::new(&new);
        for located in &mut file.report.findings {
            let start = chunks.get(located.document).map_or(0, start);
            document::shift(located, |offset| shifts.of(start, offset));
            document::settle(located, &lines);
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
            let (start, end) = (lines.position(span.start), lines.position(span.end));
            let now = Location { file: Arc::clone(&claim.file), span, start, end };
            file.moved.insert((Arc::clone(&claim.file), claim.span.start, claim.span.end), now);
        }
        if self.options.keep_sources && !(file.report.findings.is_empty() && file.moved.is_empty()) {
            file.report
                .sources
                .insert(Arc::clone(&input.path), Arc::new(String::from_utf8_lossy(&new).into_owned()));
        }
        file.report.changed = 1;
        file
    }

    /// Judges the documents of one file. Findings stand where they stand when the edits of their own document
    /// are made, and no others.
    fn documents(&self, input: &Input, loaded: &Loaded, options: &Options<'_>) -> (File, Vec<Edit>) {
        let scope = Scope { file: input, facts: self.facts, linted: self.claims };
        let patch = self.kustomizations.patch(input);
        let context = Context::new(self.policy, &scope, options, input, loaded.bytes()).patching(patch);
        let limits = self.options.limits();
        let chunks: Vec<_> = yaml::split(loaded.bytes(), &limits).collect();
        let judge = |batch: &[Result<Chunk, SyntaxError>], first: usize| {
            let mut judged = Judged::default();
            for (index, chunk) in batch.iter().enumerate() {
                let document = chunk
                    .as_ref()
                    .map_err(Clone::clone)
                    .and_then(|chunk| yaml::parse(loaded.bytes(), chunk, &limits));
                // What has nothing but comments has a number, but is not counted.
                judged.report.documents +=
                    usize::from(!document.as_ref().is_ok_and(yaml::Document::is_empty));
                context.judge(first + index, document, &mut judged);
            }
            judged
        };
        let mut report = Report { files: 1, ..Report::default() };
        let (mut broken, mut edits) = (Vec::new(), Vec::new());
        let mut seen = 0;
        for wave in chunks.chunks(WAVE) {
            let batches =
                wave.par_chunks(BATCH).enumerate().map(|(index, batch)| judge(batch, seen + index * BATCH));
            let batches: Vec<Judged> =
                if loaded.bytes().len() < SPREAD { vec![judge(wave, seen)] } else { batches.collect() };
            seen += wave.len();
            let found: usize = batches.iter().map(|batch| batch.report.findings.len()).sum();
            if report.findings.capacity() - report.findings.len() < found {
                // The rest of a file is mostly like what has been seen of it. To grow by doubling would take
                // twice the memory.
                let all = report.findings.len() + found;
                report.findings.reserve_exact(found + (all + all / 16) * (chunks.len() - seen) / seen);
            }
            for mut batch in batches {
                report.append(batch.report);
                broken.append(&mut batch.broken);
                edits.append(&mut batch.edits);
            }
        }
        self.say_broken(input, loaded.bytes(), &mut broken, &mut report);
        if !broken.is_empty() {
            report.findings.extend(broken.into_iter().map(|(_, located)| located));
            report.findings.sort_by(document::order);
        }
        if self.options.keep_sources && !report.findings.is_empty() {
            report.sources.insert(Arc::clone(&input.path), loaded.text());
        }
        let diff = (self.options.dry_run.is_some() && !edits.is_empty())
            .then(|| fix::diff(&input.path, loaded.bytes(), &edits));
        (File { report, diff, ..File::default() }, edits)
    }

    /// Says which documents of a file could not be read, and forgets the others: in a directory, much is
    /// called YAML or JSON that is no manifest.
    fn say_broken(
        &self,
        input: &Input,
        text: &[u8],
        broken: &mut Vec<(SyntaxErrorKind, Located)>,
        report: &mut Report,
    ) {
        if broken.is_empty() {
            return;
        }
        let named = |is_own: fn(&Path) -> bool| matches!(&input.content, Content::File(path) if is_own(path));
        let is_kustomization = named(kustomization::is_kustomization);
        let is_ours = input.named
            || is_kustomization
            || named(chart::is_chart)
            || self.kustomizations.patch(input).is_some();
        let speak = is_ours || batch::may_be_manifest(text);
        let first = broken.iter().position(|(kind, _)| *kind == SyntaxErrorKind::Template);
        let chart = first.and_then(|_| chart::of(input));
        // What a kustomization says is found in its text, as far as it can be.
        let may_be = || match chart.as_ref().map(|dir| chart::role(dir, input)) {
            _ if is_kustomization => false,
            Some(Role::PassedOver) => false,
            role => batch::is_in_template(text, role == Some(Role::Template)),
        };
        let speak_of_template = first.is_some() && (input.named || may_be());
        let mut nth = 0;
        broken.retain(|(kind, _)| {
            nth += 1;
            match kind {
                // A template breaks YAML in as many places as it has directives: one finding says all there
                // is to say.
                SyntaxErrorKind::Template => speak_of_template && first == Some(nth - 1),
                _ => speak && !(speak_of_template && first < Some(nth - 1)),
            }
        });
        for (kind, located) in broken {
            let reason = match (&kind, &chart) {
                (SyntaxErrorKind::Template, Some(dir)) => {
                    located.finding.help = helm(dir).into();
                    Reason::Chart(Arc::clone(dir))
                }
                (SyntaxErrorKind::Template, None) => Reason::Template,
                _ => Reason::Unreadable,
            };
            report.unjudged.push(unjudged(located, reason));
        }
    }
}
