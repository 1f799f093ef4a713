//! One document: the objects in it, what is wrong with them, and where that stands.

mod known_kind;
mod object;

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::claims::Scope;
use super::input::Input;
use super::kustomization::Patch;
use super::objects::objects;
use super::place::{order, shift};
use super::{Fixing, Options, batch};
use crate::judge::checks::{self, SYNTAX, UNRENDERED_TEMPLATE};
use crate::judge::finding::{Finding, Fix, Level};
use crate::judge::policy::Policy;
use crate::local::fix;
use crate::report::{Located, Location, ObjectId, Related, Report};
use crate::text::lines::Lines;
use crate::text::pointer::Pointer;
use crate::text::value::Value;
use crate::text::yaml::{self, Document, Draft, Edit, SyntaxError, SyntaxErrorKind};
use object::View;

/// How often the fixes of a document are made: a fix may bring to light what another rule mends, or give way
/// to one that wants the same place.
const ROUNDS: usize = 8;
/// What is said of what is behind the end of a document.
const BEHIND_END: &str = "kubectl ignores everything after `...` until the next `---`";
/// What is said of an action behind a separator.
const TEMPLATE: &str = "an unrendered template after `---`";

/// What is the same for every document of a file.
pub(super) struct Context<'a> {
    policy: &'a Policy,
    scope: &'a Scope<'a>,
    options: &'a Options<'a>,
    input: &'a Input,
    source: &'a [u8],
    lines: Lines<'a>,
    /// Who lists the file as a patch.
    patch: Option<&'a Patch>,
}

/// How much is to be said of a document.
#[derive(Clone, Copy)]
enum Depth {
    /// At least what has a fix.
    Fixes,
    /// Everything.
    All,
}

/// What is left of some documents.
#[derive(Default)]
pub(super) struct Judged {
    /// What was found in the documents that could be read, in order.
    pub(super) report: Report,
    /// What is wrong with the others.
    pub(super) broken: Vec<(SyntaxErrorKind, Located)>,
    /// Edits of the source, in order: what is fixed, or what a dry run would see filled in. When they fix,
    /// findings are where they are then, but for the edits of other documents.
    pub(super) edits: Vec<Edit>,
}

impl Judged {
    /// Takes in what comes behind it in the file.
    pub(super) fn append(&mut self, mut other: Self) {
        self.report.append(other.report);
        self.broken.append(&mut other.broken);
        self.edits.append(&mut other.edits);
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        scope: &'a Scope<'a>,
        options: &'a Options<'a>,
        input: &'a Input,
        source: &'a [u8],
    ) -> Self {
        Self { policy, scope, options, input, source, lines: Lines::new(source), patch: None }
    }

    /// Reads the documents as patches that somebody lists.
    pub(super) fn patching(self, patch: Option<&'a Patch>) -> Self {
        Self { patch, ..self }
    }

    /// Judges a document, or says why it cannot be read. `index` is its number in the file.
    pub(super) fn judge(&self, index: usize, document: Result<Document, SyntaxError>, judged: &mut Judged) {
        match document {
            Ok(document) => {
                let mut found = match self.options.fix {
                    Some(fixing) => self.mend(index, &document, fixing),
                    None => self.read(index, &document, Depth::All),
                };
                let now = |offset: usize| {
                    let before = found
                        .edits
                        .iter()
                        .filter(|edit| self.options.fix.is_some() && edit.span.end <= offset);
                    before.fold(offset, |at, edit| at + edit.text.len() - edit.span.len())
                };
                if let Some(behind) = self.behind_end(&document) {
                    let help = "separate the documents with `---`; this one was not checked";
                    let finding =
                        checks::finding(SYNTAX, Level::Deny, Pointer::root(), BEHIND_END.to_owned(), help);
                    let located =
                        self.located(index, None, finding, now(behind.start)..now(behind.end), Vec::new());
                    judged.broken.push((SyntaxErrorKind::Syntax, located));
                }
                match &document.refused {
                    Some(refused) if self.is_template(refused) => {
                        let error = SyntaxError {
                            kind: SyntaxErrorKind::Template,
                            message: TEMPLATE.to_owned(),
                            span: refused.span.clone(),
                        };
                        judged.broken.push((error.kind, self.broken(index, &error)));
                    }
                    Some(refused) if self.input.named || batch::may_be_manifest(self.text(&document)) => {
                        let help = "other tools may accept this document, so it was checked anyway";
                        let finding = checks::finding(
                            SYNTAX,
                            Level::Warn,
                            Pointer::root(),
                            refused.message.clone(),
                            help,
                        );
                        let span = now(refused.span.start)..now(refused.span.end);
                        found.report.findings.push(self.located(index, None, finding, span, Vec::new()));
                        found.report.findings.sort_by(order);
                    }
                    _ => {}
                }
                if !self.options.keep_fixes {
                    found
                        .report
                        .findings
                        .iter_mut()
                        .filter_map(|located| located.finding.fix.as_mut())
                        .for_each(|fix| fix.ops = Vec::new());
                }
                judged.append(found);
            }
            Err(error) => judged.broken.push((error.kind, self.broken(index, &error))),
        }
    }

    /// Tells whether what is refused behind a separator is what a template prints there.
    fn is_template(&self, refused: &SyntaxError) -> bool {
        let behind = self.source.get(refused.span.clone()).and_then(|line| line.strip_prefix(b"---"));
        behind.is_some_and(|text| text.trim_ascii_start().starts_with(b"{{"))
    }

    /// Returns the line that ends a document, if there is more of a manifest behind it.
    fn behind_end(&self, document: &Document) -> Option<Range<usize>> {
        let text = self.text(document);
        let at = memmem::find_iter(text, "\n...")
            .map(|at| at + 1)
            .find(|at| text.get(at + 3).is_none_or(u8::is_ascii_whitespace))?;
        let start = document.span.start + at;
        batch::may_be_manifest(&text[at..]).then_some(start..start + 3)
    }

    fn text(&self, document: &Document) -> &[u8] {
        self.source.get(document.span.clone()).unwrap_or_default()
    }

    /// Returns what is to be said of a document of this source, sorted.
    fn read(&self, index: usize, document: &Document, depth: Depth) -> Judged {
        let mut judged = Judged::default();
        let source = self.options.dry_run.and_then(|_| helm_source(self.source, document));
        let mut view = View {
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
                for object in objects(value) {
                    view.object(&object);
                }
            }
            Value::Array(items) if self.patch.is_some() && !is_list_of_manifests(&document.value) => {
                view.json_patch(items);
            }
            // A named file is meant to be a manifest; in a directory there are playbooks and package lists,
            // too.
            other if self.input.named || is_list_of_manifests(other) => view.not_an_object(other),
            _ => view.inside_list(),
        }
        if !view.fills.is_empty() {
            // What cannot be written into the file is in the patch all the same.
            let edits = yaml::edit(self.source, document, &view.fills).unwrap_or_default();
            judged.edits = edits;
        }
        judged.report.findings.sort_by(order);
        judged
    }

    /// Makes the fixes of what is found in a document, and returns what is found then.
    fn mend(&self, index: usize, document: &Document, fixing: Fixing<'_>) -> Judged {
        // What has no fix is of no interest yet, and the fixes may mend it.
        let mut found = self.read(index, document, Depth::Fixes);
        let draft = if fixing.fixes(&found.report.findings).is_empty() {
            None
        } else {
            Draft::new(self.source, document).ok()
        };
        let Some(mut draft) = draft else { return self.read(index, document, Depth::All) };
        let mut fixed = 0;
        for _ in 0..ROUNDS {
            let (places, fixes): (Vec<usize>, Vec<&Fix>) =
                fixing.fixes(&found.report.findings).into_iter().unzip();
            if fixes.is_empty() {
                break;
            }
            let count = fixes.len();
            let (next, withheld) = fix::make(draft, &fixes);
            draft = next;
            if withheld.len() == count {
                let mut at = places;
                if fixed == 0 {
                    found = self.read(index, document, Depth::All);
                    at = fixing.fixes(&found.report.findings).into_iter().map(|(at, _)| at).collect();
                }
                found.report.withheld = count;
                for (nth, why) in withheld {
                    found.report.findings[at[nth]].withheld = Some(why.to_string().into());
                }
                break;
            }
            let context =
                Context::new(self.policy, self.scope, self.options, self.input, draft.text().as_bytes())
                    .patching(self.patch);
            found = context.read(index, draft.document(), Depth::All);
            fixed += count - withheld.len();
        }
        if fixed > 0 {
            found.report.fixed = fixed;
            found.edits = draft.edits();
            // The draft is a text by itself, and stands where the document stood.
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
                (SYNTAX, Level::Deny, "kubectl refuses this document; it was not checked")
            }
            SyntaxErrorKind::Limit => {
                (SYNTAX, Level::Deny, "use less nesting or fewer aliases; this document was not checked")
            }
            SyntaxErrorKind::Encoding => (SYNTAX, Level::Deny, "save the file as UTF-8; it was not checked"),
        };
        let finding = checks::finding(rule, level, Pointer::root(), error.message.clone(), help);
        self.located(document, None, finding, error.span.clone(), Vec::new())
    }

    fn located(
        &self,
        document: usize,
        object: Option<Arc<ObjectId>>,
        finding: Finding,
        span: Range<usize>,
        related: Vec<Related>,
    ) -> Located {
        Located {
            location: self.location(span),
            document,
            object,
            finding,
            related,
            withheld: None,
            by_name: None,
        }
    }

    fn location(&self, span: Range<usize>) -> Location {
        let (start, end) = (span.start.min(self.source.len()), span.end.min(self.source.len()));
        Location {
            file: Arc::clone(&self.input.path),
            start: self.lines.position(start),
            end: self.lines.position(end),
            span: start..end.max(start),
        }
    }
}

/// Returns the template that Helm says a document comes from, in the comment that it puts first.
fn helm_source(source: &[u8], document: &Document) -> Option<String> {
    let text = str::from_utf8(source.get(document.span.clone())?).ok()?;
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
