//! Splits a text into documents, judges them, and merges the results.

pub mod document;

use std::sync::Arc;

use jobgate_core::text::yaml::{self, Chunk, Edit, SyntaxError, SyntaxErrorKind};
use jobgate_report::{Reason, Report, helm, plural};
use rayon::prelude::*;

use self::document::{Broken, DocumentContext, JudgedDocuments};
use crate::claims::Scope;
use crate::file_bytes::FileBytes;
use crate::options::LintOptions;
use crate::place::{self, unjudged};
use crate::subject::{Role, Subject};
use crate::{batch, fix};

/// Number of documents that a thread judges at a time.
const DOCUMENTS_PER_BATCH: usize = 32;

/// Number of documents to judge before their findings move into the report.
const DOCUMENTS_PER_WAVE: usize = 64 * DOCUMENTS_PER_BATCH;

/// The size in bytes from which the documents of a file are judged by several threads.
const MIN_PARALLEL_BYTES: usize = 256 << 10;

/// The result of judging the text of a file.
#[derive(Debug, Default)]
pub struct FileJudgement {
    /// The report. Findings are placed as if only the edits of their own document were made.
    pub report: Report,
    /// In a dry run, Jobgate's fills as a unified diff.
    pub diff: Option<String>,
    /// The edits of the fixes, or of the fills of a dry run, in order.
    pub edits: Vec<Edit>,
}

/// Judges the documents of a text. Those of a large one are spread over the current rayon pool; the result does not
/// depend on the number of threads.
#[must_use]
pub fn judge(
    subject: &Subject<'_>,
    loaded: &FileBytes,
    scope: &Scope<'_>,
    options: &LintOptions<'_>,
) -> FileJudgement {
    let (context, limits) = (DocumentContext::new(scope, options, subject, loaded.bytes()), options.limits);
    let judge = |batch: &[Result<Chunk, SyntaxError>], first: usize| {
        let mut judged = JudgedDocuments::default();
        for (index, chunk) in batch.iter().enumerate() {
            let document = chunk
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|chunk| yaml::parse(loaded.bytes(), chunk, limits));
            // A document of comments has an index but is not counted.
            judged.report.documents += usize::from(!document.as_ref().is_ok_and(yaml::Document::is_empty));
            context.judge(first + index, document, &mut judged);
        }
        judged
    };
    let mut report = Report { files: 1, ..Report::default() };
    let (mut broken, mut edits) = (Broken::default(), Vec::new());
    let (mut seen, most) = (0, document::most(loaded.bytes().len()));
    // They are split lazily: there may be one for every four bytes.
    let mut chunks = yaml::split(loaded.bytes(), limits).peekable();
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
        let batches: Vec<JudgedDocuments> = if loaded.bytes().len() < MIN_PARALLEL_BYTES {
            vec![judge(&wave, seen)]
        } else {
            batches.collect()
        };
        seen += wave.len();
        let found: usize = batches.iter().map(|batch| batch.report.findings.len()).sum();
        let done = wave.last().and_then(|chunk| chunk.as_ref().ok()).map_or(0, |chunk| chunk.span.end);
        // The findings of a file's only batch are moved, not copied.
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
    report_syntax_errors(subject, loaded.bytes(), &mut broken, &mut report);
    let before = report.findings.len() + broken.first.len();
    report.findings.retain(|located| options.selects(&located.finding.rule));
    broken.first.retain(|(_, located)| options.selects(&located.finding.rule));
    report.ignored += before - report.findings.len() - broken.first.len();
    if !broken.first.is_empty() {
        report.findings.extend(broken.first.into_iter().map(|(_, located)| located));
        report.findings.sort_unstable_by(place::order);
    }
    // There may be findings about pods later.
    let has_pods = report.answers.iter().any(|answered| !answered.pods.is_empty());
    if options.keep_sources && (has_pods || !report.findings.is_empty()) {
        report.sources.insert(Arc::clone(&subject.input.path), loaded.text());
    }
    let diff = (options.dry_run.is_some() && !edits.is_empty())
        .then(|| fix::diff(&subject.input.path, loaded.bytes(), &edits));
    FileJudgement { report, diff, edits }
}

/// Reports unreadable documents of a file that may be a manifest, and drops all others: directories have
/// many YAML and JSON files that are not manifests.
fn report_syntax_errors(subject: &Subject<'_>, text: &[u8], broken: &mut Broken, report: &mut Report) {
    if broken.first.is_empty() {
        return;
    }
    let Subject { input, is_kustomization, .. } = *subject;
    let is_ours = input.named || is_kustomization || subject.is_chart || subject.patch.is_some();
    let speak = is_ours || batch::may_be_manifest(text);
    let first = broken.first.iter().position(|(kind, _)| *kind == SyntaxErrorKind::Template);
    let chart = first.and_then(|_| (subject.chart)());
    // A kustomization is read as text, as far as possible.
    let may_be = || match chart.as_ref().map(|(_, role)| *role) {
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
        // It represents those before it.
        let (count, why) = (plural(broken.more, "document"), &located.finding.message);
        let message = format!("{count} cannot be read, the last one here: {why}");
        located.finding.message = message.into();
        broken.first.push((SyntaxErrorKind::Syntax, located));
    }
    for (kind, located) in &mut broken.first {
        let reason = match (&kind, &chart) {
            (SyntaxErrorKind::Template, Some((dir, _))) => {
                located.finding.help = helm(dir).into();
                Reason::Chart(Arc::clone(dir))
            }
            (SyntaxErrorKind::Template, None) => Reason::Template,
            _ => Reason::Unreadable,
        };
        report.unjudged.push(unjudged(located, reason));
    }
    // A text that names no batch kind is not this linter's concern: it counts as not judged, without a finding.
    if !is_ours && !batch::names_batch(text) {
        broken.first.clear();
    }
}
