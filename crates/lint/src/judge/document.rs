//! One document: its objects, their findings, and the places of the findings.

mod duplicates;
mod hidden_findings;
mod known_kind;
mod object;
mod unjudged;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use memchr::memmem;

use crate::batch;
use jobgate_core::judge::checks::{self, SYNTAX, UNRENDERED_TEMPLATE};
use jobgate_core::judge::finding::{Finding, Fix, Level, Safety};
use jobgate_core::text::lines::Lines;
use jobgate_core::text::number::thousands;
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::{self, Document, Draft, Edit, SyntaxError, SyntaxErrorKind};
use jobgate_report::{Located, Location, Report, first_line};

use crate::claims::Scope;
use crate::fix;
use crate::objects::each;
use crate::options::LintOptions;
use crate::place::{order, shift};
use crate::shifts::fixes;
use crate::subject::{Role, Subject};
use object::DocumentView;

/// Maximum number of rounds in which a document is fixed: a fix may reveal a finding of another rule, or wait for a fix
/// of the same place.
const MAX_ROUNDS: usize = 8;
/// A text may have one object, finding or unjudged item per this many bytes...
const BYTES_FOR_EACH: usize = 32;
/// ... a short one at least this many in all. A finding takes about a kilobyte, so this bounds the memory that the
/// findings of a file take. Of all manifests in use, none has half as many.
const MOST_IN_SHORT: usize = 4096;
/// ... and a long one at most this many.
const MOST: usize = 1 << 18;
/// Maximum number of unreadable documents of a file that are reported one by one.
const MOST_BROKEN: usize = 256;
const CONTENT_AFTER_END: &str = "kubectl ignores everything after `...` until the next `---`";
const TEMPLATE_AFTER_SEPARATOR: &str = "an unrendered template after `---`";

/// The context that the documents of a file share.
pub(crate) struct DocumentContext<'a> {
    scope: &'a Scope<'a>,
    options: &'a LintOptions<'a>,
    subject: &'a Subject<'a>,
    source: &'a [u8],
    lines: Lines<'a>,
    /// Whether the file is a chart template that the user did not name.
    is_template: bool,
}

/// Returns the maximum number of objects, findings and unjudged items in a text of this many bytes.
pub(crate) fn most(bytes: usize) -> usize {
    (bytes / BYTES_FOR_EACH).clamp(MOST_IN_SHORT, MOST)
}

/// Reserves room for the findings in the rest of a text, which mostly resembles its start: doubling would take twice
/// the memory. `done` bytes of it are judged, with the findings so far and `found` more.
pub(crate) fn make_room(findings: &mut Vec<Located>, found: usize, done: usize, bytes: usize) {
    let all = findings.len() + found;
    let rest = bytes.saturating_sub(done).checked_div(done / 64).unwrap_or_default();
    let more = (all + all / 16).saturating_mul(rest) / 64;
    findings.reserve_exact(found + more.min(most(bytes)));
}

/// Returns the finding about a text that exceeds this maximum.
pub(crate) fn too_much(most: usize) -> Finding {
    let message = format!(
        "there are more than {} objects and findings, so from here on nothing was checked",
        thousands(most)
    );
    checks::of_document(SYNTAX, Level::Deny, message, "split the file")
}

/// How much of a document is reported.
#[derive(Clone, Copy)]
enum Depth {
    /// At least the findings with a fix.
    Fixes,
    /// Everything.
    All,
}

/// The results of some documents.
#[derive(Default)]
pub(crate) struct JudgedDocuments {
    /// Findings in readable documents, in order.
    pub(crate) report: Report,
    /// Errors of the other documents.
    pub(crate) broken: Broken,
    /// Edits of the source, in order: fixes, or the fills of a dry run. With fixes, findings are placed as if
    /// only the edits of their own document were made.
    pub(crate) edits: Vec<Edit>,
}

/// Errors of documents that cannot be read.
#[derive(Default)]
pub(crate) struct Broken {
    /// The first [`MOST_BROKEN`], and the first template.
    pub(crate) first: Vec<(SyntaxErrorKind, Located)>,
    /// How many others there are, except templates.
    pub(crate) more: usize,
    /// The last of those.
    pub(crate) last: Option<Located>,
}

impl Broken {
    pub(crate) fn push(&mut self, kind: SyntaxErrorKind, located: Located) {
        let is_template = kind == SyntaxErrorKind::Template;
        if self.first.len() < MOST_BROKEN || is_template && !self.has_template() {
            self.first.push((kind, located));
        } else if !is_template {
            self.more += 1;
            self.last = Some(located);
        }
    }

    fn has_template(&self) -> bool {
        self.first.iter().any(|(kind, _)| *kind == SyntaxErrorKind::Template)
    }

    /// Adds the errors of later documents.
    pub(crate) fn append(&mut self, other: Self) {
        for (kind, located) in other.first {
            self.push(kind, located);
        }
        self.more += other.more;
        self.last = other.last.or(self.last.take());
    }
}

impl JudgedDocuments {
    pub(crate) fn append(&mut self, mut other: Self) {
        self.report.append(other.report);
        self.broken.append(other.broken);
        self.edits.append(&mut other.edits);
    }
}

impl<'a> DocumentContext<'a> {
    pub(crate) fn new(
        scope: &'a Scope<'a>,
        options: &'a LintOptions<'a>,
        subject: &'a Subject<'a>,
        source: &'a [u8],
    ) -> Self {
        let is_of_chart = || matches!((subject.chart)(), Some((_, Role::Template)));
        let is_template = options.fix.is_some() && !subject.input.named && is_of_chart();
        Self { scope, options, subject, source, lines: Lines::new(source), is_template }
    }

    /// Judges a document, or reports why it cannot be read. `index` is its number in the file.
    pub(crate) fn judge(
        &self,
        index: usize,
        document: Result<Document, SyntaxError>,
        judged: &mut JudgedDocuments,
    ) {
        let document = match document {
            Ok(document) => document,
            Err(error) => return judged.broken.push(error.kind, self.broken(index, &error)),
        };
        let mut found = match self.options.fix {
            Some(most) => self.fix(index, &document, most),
            None => self.read(index, &document, Depth::All),
        };
        let now = |offset: usize| {
            let before =
                found.edits.iter().filter(|edit| self.options.fix.is_some() && edit.span.end <= offset);
            before.fold(offset, |at, edit| at + edit.text.len() - edit.span.len())
        };
        if let Some(behind) = self.behind_end(&document) {
            let help = "separate the documents with `---`; this one was not checked";
            let finding = checks::of_document(SYNTAX, Level::Deny, CONTENT_AFTER_END, help);
            let located = self.located(index, finding, now(behind.start)..now(behind.end));
            judged.broken.push(SyntaxErrorKind::Syntax, located);
        }
        match &document.refused {
            Some(refused) if self.is_template(refused) => {
                let error = SyntaxError {
                    kind: SyntaxErrorKind::Template,
                    message: TEMPLATE_AFTER_SEPARATOR.to_owned(),
                    span: refused.span.clone(),
                };
                judged.broken.push(error.kind, self.broken(index, &error));
            }
            Some(refused) if self.subject.input.named || batch::names_batch(self.text(&document)) => {
                let help = "other tools may accept this document, so it was checked anyway";
                let finding = checks::of_document(SYNTAX, Level::Warn, refused.message.clone(), help);
                let span = now(refused.span.start)..now(refused.span.end);
                found.report.findings.push(self.located(index, finding, span));
                found.report.findings.sort_unstable_by(order);
            }
            _ => {}
        }
        if !self.options.keep_fixes {
            let findings = found.report.findings.iter_mut();
            findings.filter_map(|located| located.finding.fix.as_mut()).for_each(|fix| fix.ops = Vec::new());
        }
        judged.append(found);
    }

    /// Tells whether the rejected text after a separator is a template action.
    fn is_template(&self, refused: &SyntaxError) -> bool {
        let behind = self.source.get(refused.span.clone()).and_then(|line| line.strip_prefix(b"---"));
        behind.is_some_and(|text| text.trim_ascii_start().starts_with(b"{{"))
    }

    /// Returns the line that ends a document, if a manifest continues after it.
    fn behind_end(&self, document: &Document) -> Option<Range<usize>> {
        let text = self.text(document);
        let at = memmem::find_iter(text, "\n...")
            .map(|at| at + 1)
            .find(|at| text.get(at + 3).is_none_or(u8::is_ascii_whitespace))?;
        let start = document.span.start + at;
        let may_be = if self.subject.input.named { batch::may_be_manifest } else { batch::names_batch };
        may_be(&text[at..]).then_some(start..start + 3)
    }

    fn text(&self, document: &Document) -> &[u8] {
        self.source.get(document.span.clone()).unwrap_or_default()
    }

    /// Reports a document of this source, sorted.
    fn read(&self, index: usize, document: &Document, depth: Depth) -> JudgedDocuments {
        let mut judged = JudgedDocuments::default();
        let source = self.options.dry_run.and_then(|_| helm_source(self.source, document.span.clone()));
        let mut view = DocumentView {
            context: self,
            document,
            depth,
            index,
            source,
            fills: Vec::new(),
            judged: &mut judged.report,
        };
        match &document.value {
            Value::Null => {}
            value @ Value::Object(_) => {
                let most = most(document.span.len());
                each(value, |object| {
                    view.make_room(&object);
                    if view.judged.weight() > most {
                        view.stop(&object, most);
                        return ControlFlow::Break(());
                    }
                    view.object(&object);
                    ControlFlow::Continue(())
                });
            }
            Value::Array(items) if self.subject.patch.is_some() && !is_list_of_manifests(&document.value) => {
                view.json_patch(items);
            }
            // A directory may also contain playbooks and package lists.
            other if self.subject.input.named => view.not_an_object(other),
            other if is_list_of_manifests(other) && batch::names_batch(self.text(document)) => {
                view.not_an_object(other);
            }
            _ => view.inside_list(),
        }
        if !view.fills.is_empty() {
            // The patch also includes what cannot be written into the file.
            judged.edits = yaml::edit(self.source, document, &view.fills).unwrap_or_default();
        }
        // Sorts in place: the findings of a list may fit into memory only once.
        judged.report.findings.sort_unstable_by(order);
        judged
    }

    /// Returns the reason not to fix a document that may be a template: its text is not what is applied, and the
    /// template may write the value that seems to be missing.
    fn not_to_fix(&self, document: &Document) -> Option<&'static str> {
        if self.is_template {
            return Some("it is a template of a chart; name the file on the command line to change it");
        }
        let has_action = || memmem::find(self.text(document), b"{{").is_some();
        (!self.subject.input.named && has_action())
            .then_some("it may be a template (`{{`); name the file on the command line to change it")
    }

    /// Returns the findings of a document that is not fixed, with the reason.
    fn leave(&self, index: usize, document: &Document, most: Safety, why: &'static str) -> JudgedDocuments {
        let mut found = self.read(index, document, Depth::All);
        let fixes: Vec<usize> = fixes(most, &found.report.findings).into_iter().map(|(at, _)| at).collect();
        found.report.withheld = fixes.len();
        for at in fixes {
            found.report.findings[at].withheld = Some(why.into());
        }
        found
    }

    /// Fixes a document and returns the findings that are left.
    fn fix(&self, index: usize, document: &Document, most: Safety) -> JudgedDocuments {
        if let Some(why) = self.not_to_fix(document) {
            return self.leave(index, document, most, why);
        }
        let mut found = self.read(index, document, Depth::Fixes);
        let has_fixes = !fixes(most, &found.report.findings).is_empty();
        let draft = has_fixes.then(|| Draft::new(self.source, document).ok()).flatten();
        let Some(mut draft) = draft else { return self.read(index, document, Depth::All) };
        let mut fixed = 0;
        for _ in 0..MAX_ROUNDS {
            let (places, wanted): (Vec<usize>, Vec<&Fix>) =
                fixes(most, &found.report.findings).into_iter().unzip();
            if wanted.is_empty() {
                break;
            }
            let count = wanted.len();
            let (next, withheld) = fix::make(draft, &wanted);
            draft = next;
            if withheld.len() == count {
                let mut at = places;
                if fixed == 0 {
                    found = self.read(index, document, Depth::All);
                    at = fixes(most, &found.report.findings).into_iter().map(|(at, _)| at).collect();
                }
                found.report.withheld = count;
                for (nth, why) in withheld {
                    found.report.findings[at[nth]].withheld = Some(why.to_string().into());
                }
                break;
            }
            let context = DocumentContext {
                source: draft.text().as_bytes(),
                lines: Lines::new(draft.text().as_bytes()),
                ..*self
            };
            found = context.read(index, draft.document(), Depth::All);
            fixed += count - withheld.len();
        }
        if fixed > 0 {
            found.report.fixed = fixed;
            found.edits = draft.edits();
            // The places are in the draft, which starts where the document did.
            found
                .report
                .findings
                .iter_mut()
                .for_each(|located| shift(located, |offset| offset + document.span.start));
            for location in found.report.unjudged.iter_mut().filter_map(|unjudged| unjudged.location.as_mut())
            {
                location.span =
                    location.span.start + document.span.start..location.span.end + document.span.start;
            }
        }
        found
    }

    fn broken(&self, document: usize, error: &SyntaxError) -> Located {
        let (rule, level, help) = match error.kind {
            SyntaxErrorKind::Template => {
                (UNRENDERED_TEMPLATE, Level::Warn, "pipe the rendered manifests into `jobgate lint -`")
            }
            SyntaxErrorKind::Syntax => {
                (SYNTAX, Level::Deny, "kubectl rejects this document; it was not checked")
            }
            SyntaxErrorKind::Limit => {
                (SYNTAX, Level::Deny, "use less nesting or fewer aliases; this document was not checked")
            }
            SyntaxErrorKind::Dense => (SYNTAX, Level::Deny, "split the document; it was not checked"),
            SyntaxErrorKind::Documents => {
                (SYNTAX, Level::Deny, "split the file; this document and those behind it were not checked")
            }
            SyntaxErrorKind::Encoding => (SYNTAX, Level::Deny, "save the file as UTF-8; it was not checked"),
        };
        let finding = checks::of_document(rule, level, error.message.clone(), help);
        self.located(document, finding, error.span.clone())
    }

    fn located(&self, document: usize, finding: Finding, span: Range<usize>) -> Located {
        Located::new(self.location(span), document, finding)
    }

    /// Returns the finding about a file that reached the maximum before this document.
    pub(crate) fn too_much(&self, document: usize, start: usize, most: usize) -> Located {
        self.located(document, too_much(most), first_line(self.source, start..self.source.len()))
    }

    fn location(&self, span: Range<usize>) -> Location {
        let (start, end) = (span.start.min(self.source.len()), span.end.min(self.source.len()));
        Location {
            file: Arc::clone(&self.subject.input.path),
            start: self.lines.position(start),
            end: self.lines.position(end),
            span: start..end.max(start),
        }
    }
}

/// Returns the template in Helm's comment at the start of a document.
pub fn helm_source(source: &[u8], span: Range<usize>) -> Option<String> {
    let text = str::from_utf8(source.get(span)?).ok()?;
    let mut comments =
        text.lines().map(str::trim).take_while(|line| line.is_empty() || line.starts_with('#'));
    comments.find_map(|line| line.strip_prefix("# Source: ")).map(|path| path.trim().to_owned())
}

/// Tells whether a list's items look like Kubernetes objects.
fn is_list_of_manifests(value: &Value) -> bool {
    value.as_array().is_some_and(|items| {
        items.iter().any(|item| item.get("apiVersion").is_some() && item.get("kind").is_some())
    })
}
