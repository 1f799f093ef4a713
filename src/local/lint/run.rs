//! One file of a run: read, judged and fixed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::batch;
use super::chart::{self, Role};
use super::claims::{Claims, Scope};
use super::document::{self, Broken, Context, Judged};
use super::fixing::{Change, Fixing, Shifts, Unwritten, start};
use super::input::{Input, Reached, Unreadable};
use super::kustomization::{self, Kustomizations};
use super::options::Options;
use super::place::{self, unjudged, whole_file};
use super::source::{self, Loaded, TooLarge};
use crate::judge::checks::{self, SYNTAX};
use crate::judge::finding::Level;
use crate::judge::policy::Policy;
use crate::local::fix;
use crate::report::{Located, Location, Reason, Report, helm, plural};
use crate::text::lines::Lines;
use crate::text::number::bytes;
use crate::text::yaml::{self, Chunk, Edit, SyntaxError, SyntaxErrorKind};

/// How many documents a thread judges at a time.
const DOCUMENTS_PER_BATCH: usize = 32;

/// How many documents are judged before their findings move into the report.
const DOCUMENTS_PER_WAVE: usize = 64 * DOCUMENTS_PER_BATCH;

/// The size in bytes from which the documents of a file are judged by several threads.
const MIN_PARALLEL_BYTES: usize = 256 << 10;

/// Why a file is judged and not fixed.
const LEADS_OUT: &str = "the file is a link that leads out of the directory; name it to fix it";

/// The settings and facts of a run.
pub(super) struct Run<'a> {
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a Claims,
    pub(super) claims: &'a Claims,
    pub(super) kustomizations: &'a Kustomizations,
    /// The file, if the run has only one.
    pub(super) alone: Option<Loaded>,
    pub(super) options: &'a Options<'a>,
}

/// The new places of claims that fixes have moved, by file and old span.
pub(super) type Moved = BTreeMap<(Arc<str>, usize, usize), Location>;

/// The results of one file.
#[derive(Default)]
pub(super) struct File {
    pub(super) report: Report,
    pub(super) diff: Option<String>,
    pub(super) unwritten: Option<Unwritten>,
    pub(super) moved: Moved,
    /// The fixed text, if others refer to what is in it, or it to what is in others.
    pub(super) text: Option<Loaded>,
}

impl Run<'_> {
    pub(super) fn file(&self, input: &Input) -> Result<File, Unreadable> {
        let done = self.read(input);
        if let Some(progress) = self.options.progress {
            progress.count();
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
                let mut findings = vec![too_large(input, size, self.options.max_file_size)];
                findings.retain(|located| self.options.selects(&located.finding.rule));
                let unjudged = vec![whole_file(Arc::clone(&input.path), Reason::TooLarge)];
                let report = Report { files: 1, documents: 1, findings, unjudged, ..Report::default() };
                Ok(File { report, ..File::default() })
            }
        }
    }

    /// Returns the text of a file with a claim.
    pub(super) fn claim_text(&self, path: &str) -> Option<Arc<String>> {
        let input = self.facts.file(path).or_else(|| self.claims.file(path))?;
        Some(source::load(input, self.options.max_file_size).ok()?.ok()?.text())
    }

    /// Judges the documents of one file and writes its fixes. If that fails, the unchanged file is judged.
    fn fixed(&self, input: &Input, loaded: &Loaded) -> File {
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
            return File { unwritten: Some(unwritten), ..file };
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
        let refers = file.report.findings.iter().any(|located| !located.related.is_empty());
        file.text = (refers || self.claims.file(&input.path).is_some()).then(|| Loaded::new(new));
        file
    }

    /// Judges the documents of a file that is not to be written, and says so where it would have been.
    fn left_alone(&self, input: &Input, loaded: &Loaded, fixing: Fixing<'_>) -> File {
        let (mut file, _) = self.documents(input, loaded, &Options { fix: None, ..*self.options }, None);
        let report = &mut file.report;
        for located in &mut report.findings {
            if located.finding.fix.as_ref().is_some_and(|fix| fixing.makes(fix)) {
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
        loaded: &Loaded,
        options: &Options<'_>,
        own: Option<&Claims>,
    ) -> (File, Vec<Edit>) {
        let scope = Scope { file: input, facts: self.facts, own, linted: self.claims };
        let patch = self.kustomizations.patch(input);
        let (policy, namespace) = (options.policy_of(input, self.policy), options.namespace_of(input));
        let context = Context::new(policy, namespace, &scope, options, input, loaded.bytes()).patching(patch);
        let limits = self.options.limits();
        let judge = |batch: &[Result<Chunk, SyntaxError>], first: usize| {
            let mut judged = Judged::default();
            for (index, chunk) in batch.iter().enumerate() {
                let document = chunk
                    .as_ref()
                    .map_err(Clone::clone)
                    .and_then(|chunk| yaml::parse(loaded.bytes(), chunk, &limits));
                // A document of comments has an index but is not counted.
                judged.report.documents +=
                    usize::from(!document.as_ref().is_ok_and(yaml::Document::is_empty));
                context.judge(first + index, document, &mut judged);
            }
            judged
        };
        let mut report = Report { files: 1, ..Report::default() };
        let (mut broken, mut edits) = (Broken::default(), Vec::new());
        let (mut seen, most) = (0, document::most(loaded.bytes().len()));
        // They are split as they are judged: there may be one for every four bytes.
        let mut chunks = yaml::split(loaded.bytes(), &limits).peekable();
        while let Some(next) = chunks.peek() {
            if report.weight() > most {
                let start = next.as_ref().map_or_else(|error| error.span.start, |chunk| chunk.span.start);
                let located = context.too_much(seen, start, most);
                report.unjudged.push(unjudged(&located, Reason::Unreadable));
                report.findings.push(located);
                break;
            }
            let wave: Vec<_> = chunks.by_ref().take(DOCUMENTS_PER_WAVE).collect();
            let batches = wave
                .par_chunks(DOCUMENTS_PER_BATCH)
                .enumerate()
                .map(|(index, batch)| judge(batch, seen + index * DOCUMENTS_PER_BATCH));
            let batches: Vec<Judged> = if loaded.bytes().len() < MIN_PARALLEL_BYTES {
                vec![judge(&wave, seen)]
            } else {
                batches.collect()
            };
            seen += wave.len();
            let found: usize = batches.iter().map(|batch| batch.report.findings.len()).sum();
            let done = wave.last().and_then(|chunk| chunk.as_ref().ok()).map_or(0, |chunk| chunk.span.end);
            // Those of a file's only document are moved, not copied.
            let is_all = batches.len() == 1 && report.findings.is_empty() && chunks.peek().is_none();
            if !is_all && report.findings.capacity() - report.findings.len() < found {
                document::make_room(&mut report.findings, found, done, loaded.bytes().len());
            }
            for batch in batches {
                report.append(batch.report);
                broken.append(batch.broken);
                edits.extend(batch.edits);
            }
        }
        self.say_broken(input, loaded.bytes(), &mut broken, &mut report);
        let before = report.findings.len() + broken.first.len();
        report.findings.retain(|located| options.selects(&located.finding.rule));
        broken.first.retain(|(_, located)| options.selects(&located.finding.rule));
        report.ignored += before - report.findings.len() - broken.first.len();
        if !broken.first.is_empty() {
            report.findings.extend(broken.first.into_iter().map(|(_, located)| located));
            report.findings.sort_unstable_by(place::order);
        }
        if self.options.keep_sources && !report.findings.is_empty() {
            report.sources.insert(Arc::clone(&input.path), loaded.text());
        }
        let diff = (self.options.dry_run.is_some() && !edits.is_empty())
            .then(|| fix::diff(&input.path, loaded.bytes(), &edits));
        (File { report, diff, ..File::default() }, edits)
    }

    /// Reports unreadable documents of a file that may be a manifest, and drops all others: directories have
    /// many YAML and JSON files that are not manifests.
    fn say_broken(&self, input: &Input, text: &[u8], broken: &mut Broken, report: &mut Report) {
        if broken.first.is_empty() {
            return;
        }
        let named = |is_own: fn(&Path) -> bool| input.content.file().is_some_and(|path| is_own(path));
        let is_kustomization = named(kustomization::is_kustomization);
        let is_ours = input.named
            || is_kustomization
            || named(chart::is_chart)
            || self.kustomizations.patch(input).is_some();
        let speak = is_ours || batch::may_be_manifest(text);
        let first = broken.first.iter().position(|(kind, _)| *kind == SyntaxErrorKind::Template);
        let chart = first.and_then(|_| chart::of(input));
        // A kustomization is read as text, as far as possible.
        let may_be = || match chart.as_ref().map(|dir| chart::role(dir, input)) {
            _ if is_kustomization => false,
            Some(Role::PassedOver) => false,
            role => batch::is_in_template(text, role == Some(Role::Template)),
        };
        let speak_of_template = first.is_some() && (input.named || may_be());
        let mut nth = 0;
        broken.first.retain(|(kind, _)| {
            nth += 1;
            match kind {
                // Every directive of a template breaks the YAML: one finding is enough.
                SyntaxErrorKind::Template => speak_of_template && first == Some(nth - 1),
                _ => speak && !(speak_of_template && first < Some(nth - 1)),
            }
        });
        let last = broken.last.take().filter(|_| speak && !(speak_of_template && first.is_some()));
        if let Some(mut located) = last {
            // It stands for those before it.
            let (count, why) = (plural(broken.more, "document"), &located.finding.message);
            let message = format!("{count} cannot be read, the last one here: {why}");
            located.finding.message = message.into();
            broken.first.push((SyntaxErrorKind::Syntax, located));
        }
        for (kind, located) in &mut broken.first {
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
        // What names no batch kind is not what this linter is for: it is said, and no more.
        if !is_ours && !batch::names_batch(text) {
            broken.first.clear();
        }
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
