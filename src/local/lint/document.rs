//! One document: the objects in it, what is wrong with them, and where that stands.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::claims::Scope;
use super::input::Input;
use super::kustomization::{self, Patch};
use super::objects::{Object, objects};
use super::{DryRun, Fixing, Options, answers, batch};
use crate::judge::api;
use crate::judge::checks::{
    self, API_SERVER, DUPLICATE_KEY, FIELD_TYPE, KNOWN_KIND, PLACEHOLDER, SYNTAX, TRAINING_OPERATOR,
    UNKNOWN_FIELD, UNRENDERED_TEMPLATE,
};
use crate::judge::engine::{self, Request};
use crate::judge::finding::{Finding, Fix, Label, Level, Part, Place, Safety, Source};
use crate::judge::policy::Policy;
use crate::kinds::{
    Definition, Kind, Pods, Workload, each_inside, has_batch_pod, has_pod, is_batch_group, is_other,
    looks_like_batch, meant,
};
use crate::local::fix;
use crate::report::{
    Answered, Located, Location, ObjectId, Reason, Related, Report, Unjudged, first_line, span,
};
use crate::text::lines::Lines;
use crate::text::lines::Position;
use crate::text::patch::Op;
use crate::text::placeholder::is_placeholder;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
use crate::text::yaml::{self, Document, Draft, Edit, SyntaxError, SyntaxErrorKind};

/// How often the fixes of a document are made: a fix may bring to light what another rule mends, or give way
/// to one that wants the same place.
const ROUNDS: usize = 8;
/// What is said of what is behind the end of a document.
const BEHIND_END: &str = "kubectl reads nothing behind `...`, up to the next `---`";
/// What is around an object that is in none.
const DOCUMENT: &str = "document";
/// What is said of an action behind a separator.
const TEMPLATE: &str = "a template that is not rendered, behind `---`";
/// The rule that asks for claims.
const CLAIMS_RULE: &str = "checkpoint-volume-access";

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
                    let help = "separate the documents by `---`; nothing in this one was checked";
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
                        let help = "other tools may read this document, so it was checked all the same";
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
                (UNRENDERED_TEMPLATE, Level::Warn, "lint what it renders to: pipe it into `jobgate lint -`")
            }
            SyntaxErrorKind::Syntax => {
                (SYNTAX, Level::Deny, "kubectl refuses this document, and nothing in it was checked")
            }
            SyntaxErrorKind::Limit => (
                SYNTAX,
                Level::Deny,
                "write it without so much nesting or so many aliases; nothing in it was checked",
            ),
            SyntaxErrorKind::Encoding => {
                (SYNTAX, Level::Deny, "save the file as UTF-8; nothing in it was checked")
            }
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

/// One document that is being judged.
struct View<'a> {
    context: &'a Context<'a>,
    document: &'a Document,
    depth: Depth,
    index: usize,
    /// The template that Helm made the document of.
    source: Option<String>,
    /// What Jobgate fills in, as operations on the document.
    fills: Vec<Op>,
    judged: &'a mut Report,
}

impl View<'_> {
    fn object(&mut self, object: &Object<'_>) {
        let value = &*object.value;
        let Some(workload) = Workload::of(value) else { return self.foreign(object) };
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(finding) = no_longer_served(text("apiVersion"), text("kind")) {
            let identity = Arc::new(ObjectId::of(value));
            // The first versions of a PyTorchJob have other fields than those that the rules ask for.
            let is_judged = workload.kind.is_built_in();
            if !is_judged {
                self.unjudged(object, &identity, Reason::NotServed);
            }
            self.add(object, &identity, finding);
            if !is_judged {
                return;
            }
        }
        self.judged.objects += 1;
        let options = self.context.options;
        let identity = Arc::new(ObjectId::of(value));
        if let Some((reason, finding)) = unknown_version(text("apiVersion"), &workload.kind) {
            if let Some(reason) = reason {
                self.unjudged_at(&identity, &(&object.at / "apiVersion"), Part::Value, reason);
            }
            self.add(object, &identity, finding);
        }
        let patch = self.context.patch;
        if let Some(dry_run) = options.dry_run.as_ref().filter(|_| patch.is_none()) {
            self.unknown_claims(object, &identity, &workload, Some(dry_run));
            return self.ask(object, &identity, dry_run);
        }
        match patch {
            Some(patch) => self.unjudged(object, &identity, Reason::Patch(patch.by.clone())),
            None if workload.is_partial() => {}
            None => self.unknown_claims(object, &identity, &workload, None),
        }
        let request = Request::of_file(value, self.context.options.today);
        let mut verdict = engine::evaluate(self.context.policy, self.context.scope, &request);
        self.judged.lifted += verdict.lifted.len();
        let mut refused = match self.depth {
            _ if !self.context.options.api_checks => Vec::new(),
            Depth::Fixes => api::fixable(value),
            Depth::All => api::check(value),
        };
        // A rule that denies the same field says more than the API server does.
        refused.retain(|refusal| {
            !verdict
                .findings
                .iter()
                .any(|finding| finding.level == Level::Deny && finding.path == refusal.path)
        });
        if patch.is_some() {
            // What it says is as wrong as elsewhere; what it lacks is in what it is a patch of.
            verdict.findings.retain(|finding| finding.path.find(value).is_some());
            refused.retain(|finding| finding.path.find(value).is_some() && !is_directive(&finding.path));
        }
        api::prefer_renames(&mut verdict.findings, &mut refused);
        if patch.is_none() && workload.is_partial() && !says_what_runs(&workload, &refused) {
            self.unjudged(object, &identity, Reason::Partial);
        }
        self.placeholders(object, &identity, verdict.findings.iter().chain(&refused));
        for finding in verdict.findings.into_iter().chain(refused) {
            self.add(object, &identity, finding);
        }
        self.duplicates(object, &identity);
    }

    /// Looks at an object of a kind that is not judged: it may be batch work all the same.
    fn foreign(&mut self, object: &Object<'_>) {
        let value = &*object.value;
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let (version, kind) = (text("apiVersion"), text("kind"));
        if kind == Some("PersistentVolumeClaim") {
            return self.duplicates(object, &Arc::new(ObjectId::of(value)));
        }
        if let Some((reason, finding)) = unknown_kind(value) {
            let identity = Arc::new(ObjectId::of(value));
            self.unjudged(object, &identity, reason);
            return self.add(object, &identity, finding);
        }
        self.patches_inside(object, kind.unwrap_or_default());
        let is_batch = match (version, kind) {
            (Some(version), Some(kind)) if is_other(group(version), kind) => Some(Reason::Kind),
            (Some(_), Some(kind)) if self.inside(object, kind) => None,
            (None, None) if self.inside(object, DOCUMENT) => None,
            (None, None) if value.get("spec").is_some_and(has_pod) => Some(Reason::Partial),
            (Some(version), Some(_)) => looks_like_batch(version, value).map(Reason::Lookalike),
            _ => None,
        };
        let reason = match (self.context.patch, is_batch) {
            (Some(patch), Some(_)) if patch.for_batch => Reason::Patch(patch.by.clone()),
            (Some(_), Some(Reason::Partial)) => return,
            (_, Some(reason)) => reason,
            _ => return,
        };
        self.unjudged(object, &Arc::new(ObjectId::of(value)), reason);
    }

    /// Says which objects inside of another one were not judged; tells whether there are any.
    fn inside(&mut self, object: &Object<'_>, kind: &str) -> bool {
        if matches!(self.depth, Depth::Fixes) {
            return false;
        }
        let mut any = false;
        each_inside(&object.value, &mut |at, inner| {
            any = true;
            self.unjudged_at(
                &Arc::new(ObjectId::of(inner)),
                &object.at.join(&at),
                Part::Key,
                Reason::Inside(kind.into()),
            );
        });
        any
    }

    /// Says which patches of batch work are in an object that a cluster renders.
    fn patches_inside(&mut self, object: &Object<'_>, kind: &str) {
        for at in kustomization::patched_in_cluster(&object.value, &self.context.options.limits()) {
            let identity = ObjectId { kind: "patch".to_owned(), ..ObjectId::default() };
            self.unjudged_at(
                &Arc::new(identity),
                &object.at.join(&at),
                Part::Key,
                Reason::Inside(kind.into()),
            );
        }
    }

    /// Says which objects in a list that is no manifest were not judged.
    fn inside_list(&mut self) {
        if self.document.value.is_array() {
            let object = Object { at: Pointer::root(), value: Cow::Borrowed(&self.document.value) };
            self.inside(&object, DOCUMENT);
        }
    }

    /// Says that an RFC 6902 patch was not judged, where it may be for batch work.
    fn json_patch(&mut self, items: &[Value]) {
        let Some(patch) = self.context.patch.filter(|patch| patch.for_batch && !items.is_empty()) else {
            return;
        };
        let location = Some(
            self.context.location(first_line(self.context.source, self.span(&Pointer::root(), Part::Value))),
        );
        let reason = Reason::Patch(patch.by.clone());
        self.judged.unjudged.push(Unjudged { location, document: Some(self.index), object: None, reason });
    }

    fn unjudged(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, reason: Reason) {
        self.unjudged_at(identity, &object.at, Part::Key, reason);
    }

    fn unjudged_at(&mut self, identity: &Arc<ObjectId>, at: &Pointer, part: Part, reason: Reason) {
        if matches!(self.depth, Depth::Fixes) {
            return;
        }
        let location = Some(self.context.location(self.span(at, part)));
        self.judged.unjudged.push(Unjudged {
            location,
            document: Some(self.index),
            object: Some(Arc::clone(identity)),
            reason,
        });
    }

    /// Says that placeholders keep an object from being judged. An image does not: no rule reads it.
    fn placeholders<'f>(
        &mut self,
        object: &Object<'_>,
        identity: &Arc<ObjectId>,
        findings: impl Iterator<Item = &'f Finding>,
    ) {
        let held = findings.filter(|finding| finding.rule == PLACEHOLDER && !api::is_of_image(finding));
        if let Some(first) = held.min_by(|left, right| left.pointer.cmp(&right.pointer)) {
            let reason = Reason::Placeholder(first.path.to_string().into());
            self.unjudged_at(identity, &object.at.join(&first.pointer), first.part, reason);
        }
    }

    /// Says which claims nobody knows whose access modes could decide: those of which the rules would speak
    /// if only one pod could mount them.
    fn unknown_claims(
        &mut self,
        object: &Object<'_>,
        identity: &Arc<ObjectId>,
        workload: &Workload<'_>,
        dry_run: Option<&DryRun<'_>>,
    ) {
        if matches!(self.depth, Depth::Fixes) || workload.pods.iter().all(|pod| pod.claims().next().is_none())
        {
            return;
        }
        let worst = answers::Worst::new(self.context.scope, dry_run.and_then(|dry_run| dry_run.cluster));
        let mut request = Request::of_file(&object.value, self.context.options.today);
        if let Some(dry_run) = dry_run.filter(|_| request.namespace.is_empty()) {
            request.namespace = dry_run.namespace;
        }
        let verdict = engine::evaluate(self.context.policy, &worst, &request);
        if !worst.is_asked() {
            return;
        }
        for finding in verdict
            .findings
            .iter()
            .filter(|finding| finding.rule == CLAIMS_RULE && finding.level >= Level::Warn)
        {
            let name = finding.pointer.find(&object.value).and_then(Value::as_str);
            if let Some(name) = name.filter(|name| worst.has_made_up(name)) {
                self.unjudged_at(
                    identity,
                    &object.at.join(&finding.pointer),
                    finding.part,
                    Reason::Claim(name.into()),
                );
            }
        }
    }

    /// Asks what would become of an object.
    fn ask(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, dry_run: &DryRun<'_>) {
        let mut answer = dry_run.answer(
            self.context.policy,
            self.context.scope,
            &object.value,
            self.context.options.today,
        );
        self.judged.lifted += answer.lifted;
        let findings = std::mem::take(&mut answer.findings);
        let operator_refuses = findings.iter().any(|finding| finding.rule == TRAINING_OPERATOR);
        let mut edits = std::mem::take(&mut answer.edits);
        edits.iter_mut().for_each(|op| op.move_below(&object.at));
        self.fills.extend(edits);
        if !dry_run.keep_objects {
            answer.admitted = None;
        }
        let location = self.context.location(self.span(&object.at, Part::Value));
        let source = self.source.clone();
        let object_id = Arc::clone(identity);
        self.judged.answers.push(Answered {
            location,
            document: self.index,
            source,
            object: object_id,
            answer,
            operator_refuses,
        });
        self.placeholders(object, identity, findings.iter());
        for finding in findings {
            self.add(object, identity, finding);
        }
        self.duplicates(object, identity);
    }

    /// Reports keys that an object has twice. kubectl drops the first without a word.
    fn duplicates(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>) {
        let document = self.document;
        for duplicate in document.duplicates_within(&object.at) {
            let key = String::from_utf8_lossy(&self.context.source[duplicate.dropped.clone()]);
            let message = format!(
                "duplicate key `{}`: kubectl ignores this one",
                key.trim_matches(['"', '\'']).escape_debug()
            );
            let mut finding = checks::finding(
                DUPLICATE_KEY,
                Level::Warn,
                duplicate.pointer.clone(),
                message,
                "remove one of the two",
            );
            finding.part = Part::Key;
            finding.path = duplicate.pointer.below(&object.at).unwrap_or_default();
            let by_name = finding.path.by_name(&object.value);
            let text = "this one counts".to_owned();
            finding
                .labels
                .push(Label { place: Place::Here(duplicate.pointer.clone(), Part::Key), text: text.clone() });
            let kept =
                Related { location: Some(self.context.location(duplicate.kept.clone())), object: None, text };
            let located = self.context.located(
                self.index,
                Some(Arc::clone(identity)),
                finding,
                duplicate.dropped.clone(),
                vec![kept],
            );
            self.judged.findings.push(Located { by_name, ..located });
        }
    }

    fn not_an_object(&mut self, value: &Value) {
        let (what, help) = match value {
            Value::Array(_) => {
                ("a list", "separate the objects by `---`, or wrap them in `kind: List` with `items:`")
            }
            Value::String(_) => ("a string", "a manifest is a mapping with `apiVersion` and `kind`"),
            Value::Number(_) => ("a number", "a manifest is a mapping with `apiVersion` and `kind`"),
            _ => ("a boolean", "a manifest is a mapping with `apiVersion` and `kind`"),
        };
        let message = format!("this document is {what}, not an object, and kubectl refuses it");
        let finding = checks::finding(SYNTAX, Level::Deny, Pointer::root(), message, help);
        let span = first_line(self.context.source, self.span(&Pointer::root(), Part::Value));
        self.judged.findings.push(self.context.located(self.index, None, finding, span, Vec::new()));
    }

    /// Looks up the places of a finding of an object, and takes it into the document.
    fn add(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, mut finding: Finding) {
        place(&mut finding, &object.at);
        if finding.rule == FIELD_TYPE {
            let at = self.document.locate(&finding.pointer).filter(|at| !at.via_alias);
            let text = at.and_then(|at| str::from_utf8(self.context.source.get(at.value)?).ok());
            api::structure::quote(&mut finding, text);
        }
        let span = self.span(&finding.pointer, finding.part);
        if matches!(self.depth, Depth::Fixes) {
            // Nobody will see it: it is only to be put in order, and mended.
            let nowhere = Position { line: 1, column: 1 };
            let location =
                Location { file: Arc::clone(&self.context.input.path), start: nowhere, end: nowhere, span };
            let object = Some(Arc::clone(identity));
            let (document, related, withheld, by_name) = (self.index, Vec::new(), None, None);
            return self.judged.findings.push(Located {
                location,
                document,
                object,
                finding,
                related,
                withheld,
                by_name,
            });
        }
        let related = finding.labels.iter().map(|label| self.related(label)).collect();
        let by_name = finding.path.by_name(&object.value);
        let located = self.context.located(self.index, Some(Arc::clone(identity)), finding, span, related);
        self.judged.findings.push(Located { by_name, ..located });
    }

    fn related(&self, label: &Label) -> Related {
        let (location, object) = match &label.place {
            Place::Here(pointer, part) => (Some(self.context.location(self.span(pointer, *part))), None),
            Place::Elsewhere { object, source: Source::Cluster } => (None, Some(object.clone())),
            Place::Elsewhere { object, source: Source::File { path, span, .. } } => {
                (self.context.scope.location(path, span), Some(object.clone()))
            }
        };
        Related { location, object, text: label.text.clone() }
    }

    fn span(&self, pointer: &Pointer, part: Part) -> Range<usize> {
        span(self.context.source, self.document, pointer, part)
    }
}

/// Returns the template that Helm says a document comes from, in the comment that it puts first.
fn helm_source(source: &[u8], document: &Document) -> Option<String> {
    let text = str::from_utf8(source.get(document.span.clone())?).ok()?;
    let mut comments =
        text.lines().map(str::trim).take_while(|line| line.is_empty() || line.starts_with('#'));
    comments.find_map(|line| line.strip_prefix("# Source: ")).map(|path| path.trim().to_owned())
}

/// Says that a file is refused for its size.
pub(super) fn too_large(input: &Input, size: Option<u64>, limit: u64) -> Located {
    let message = match size {
        Some(size) => format!("the file has {}, more than the limit of {}", bytes(size), bytes(limit)),
        None => format!("the text goes on beyond the limit of {}", bytes(limit)),
    };
    let finding = checks::finding(
        SYNTAX,
        Level::Deny,
        Pointer::root(),
        message,
        "raise the limit with `--max-file-size`",
    );
    let start = Position { line: 1, column: 1 };
    let location = Location { file: Arc::clone(&input.path), span: 0..0, start, end: start };
    Located {
        location,
        document: 0,
        object: None,
        finding,
        related: Vec::new(),
        withheld: None,
        by_name: None,
    }
}

/// Writes a size for people.
pub(super) fn bytes(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) if count.is_multiple_of(unit) => format!("{} {name}", count / unit),
        Some((unit, name)) => format!("{}.{} {name}", count / unit, count % unit * 10 / unit),
        None => format!("{count} bytes"),
    }
}

/// Compares findings of one file: offset, rule, and what tells two of one rule at one place apart.
pub(super) fn order(a: &Located, b: &Located) -> std::cmp::Ordering {
    let key =
        |located: &Located| (located.location.span.start, located.finding.rule, located.location.span.end);
    key(a)
        .cmp(&key(b))
        .then_with(|| (&a.finding.path, &a.finding.message).cmp(&(&b.finding.path, &b.finding.message)))
}

/// Moves the places of a finding that stand in its own file. Lines and columns are left as they are: see
/// [`settle`].
pub(super) fn shift(located: &mut Located, to: impl Fn(usize) -> usize) {
    for location in here(located) {
        location.span = to(location.span.start)..to(location.span.end);
    }
}

/// Writes lines and columns for the places of a finding that stand in its own file.
pub(super) fn settle(located: &mut Located, lines: &Lines<'_>) {
    for location in here(located) {
        (location.start, location.end) =
            (lines.position(location.span.start), lines.position(location.span.end));
    }
}

/// Returns the places of a finding in the object that it is about.
fn here(located: &mut Located) -> impl Iterator<Item = &mut Location> {
    let related = located.related.iter_mut().filter(|related| related.object.is_none());
    std::iter::once(&mut located.location).chain(related.filter_map(|related| related.location.as_mut()))
}

/// Moves a finding from its object into the document. Its `path` stays: that is the field as Kubernetes names
/// it in this object.
fn place(finding: &mut Finding, at: &Pointer) {
    if at.is_root() {
        return;
    }
    finding.pointer = at.join(&finding.pointer);
    for label in &mut finding.labels {
        if let Place::Here(pointer, _) = &mut label.place {
            *pointer = at.join(pointer);
        }
    }
    for op in finding.fix.iter_mut().flat_map(|fix| &mut fix.ops) {
        op.move_below(at);
    }
}

/// Tells whether one of the findings says of the containers, or of what is around them, that they are
/// missing, or not what they must be. The object is then no part of another one: it is wrong.
fn says_what_runs(workload: &Workload<'_>, refused: &[Finding]) -> bool {
    let replicas = match workload.kind.pods {
        Pods::Roles { at, .. } => Some(workload.object.at(at).pointer),
        Pods::JobSpec => None,
    };
    let lists = workload.pods.iter().map(|pod| pod.spec.get("containers").pointer).chain(replicas);
    let around: BTreeSet<Pointer> =
        lists.flat_map(|list| std::iter::successors(Some(list), Pointer::parent)).collect();
    refused.iter().filter(|finding| [API_SERVER, FIELD_TYPE, TRAINING_OPERATOR, UNKNOWN_FIELD].contains(&finding.rule)).any(|finding| {
        // They may be there under another name.
        let moves = |op: &Op| matches!(op, Op::Add(to, value) if around.contains(to) && (value.is_array() || has_pod(value)));
        around.contains(&finding.path) || finding.fix.iter().flat_map(|fix| &fix.ops).any(moves)
    })
}

/// What to do about an object of the group `batch` that is of none of its kinds.
const OF_BATCH: &str = "write `kind: Job` or `kind: CronJob`";

/// Says that an object is nearly of a batch kind, so that its author may think it was checked, and why it was
/// not judged.
///
/// Only what looks like an object is spoken of (`spec` or `metadata`): a Helm values file may have a `kind:
/// CronJob`, too.
fn unknown_kind(object: &Value) -> Option<(Reason, Finding)> {
    let fields = object.as_object()?;
    if !fields.contains_key("spec") && !fields.contains_key("metadata") {
        return None;
    }
    let field = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let (kind, version) = (field("kind"), field("apiVersion"));
    for (key, value) in [("kind", kind), ("apiVersion", version)] {
        let Some(value) = value.filter(|value| !value.is_string()) else { continue };
        let manifest = |adapter: &Definition| match key {
            "kind" => version.and_then(Value::as_str).is_some_and(|version| group(version) == adapter.group),
            _ => kind.and_then(Value::as_str) == Some(adapter.name),
        };
        Kind::all().find(|kind| manifest(kind))?;
        let message = format!("`{key}` must be a string, and is `{value}`");
        let help = "the API server refuses this object, and it was not checked";
        return Some((
            Reason::Misspelled,
            checks::finding(FIELD_TYPE, Level::Deny, Pointer::of(&[key]), message, help),
        ));
    }
    let (kind, version) = (kind.and_then(Value::as_str), version.and_then(Value::as_str));
    let of = version.map(group);
    let of_batch = of.is_some_and(is_batch_group);
    let held = |key: &'static str, text: &str| {
        Some((Reason::Placeholder(key.into()), api::structure::held(Pointer::of(&[key]), text)))
    };
    // Another kind may be called so; that it was not judged is said as well.
    let misspelled = |key: &'static str, message: String, help: String| {
        Some((
            Reason::Misspelled,
            checks::finding(KNOWN_KIND, Level::Note, Pointer::of(&[key]), message, help),
        ))
    };
    let shown = |text: &str| text.escape_debug().to_string();
    let Some(kind) = kind else {
        let help = if of == Some("batch") { OF_BATCH } else { "write its `kind`" };
        return if of_batch {
            misspelled(
                "apiVersion",
                "this object has no `kind`; it was not checked".to_owned(),
                help.to_owned(),
            )
        } else {
            None
        };
    };
    if is_placeholder(kind) {
        let may_be_batch =
            || of.is_none_or(|group| group.contains('.')) || version.is_some_and(is_placeholder);
        return if of_batch || may_be_batch() && has_batch_pod(object) { held("kind", kind) } else { None };
    }
    if let Some(version) = version.filter(|version| is_placeholder(version) && !of_batch) {
        return if meant(None, kind).is_some() { held("apiVersion", version) } else { None };
    }
    if of.is_some_and(|group| is_other(group, kind)) {
        return None;
    }
    if let Some(finding) = version.and_then(|version| no_longer_served(version, kind)) {
        return Some((Reason::NotServed, finding));
    }
    let meant = meant(of, kind);
    let is_ours = Kind::all().any(|known| known.name == kind);
    let help = |(group, name): (&str, &str)| match Kind::named(group, name) {
        Some(kind) => format!("write `apiVersion: {group}/{}` and `kind: {name}`", kind.version),
        None if of == Some(group) => format!("write `kind: {name}`"),
        None => format!("write an `apiVersion` of the group `{group}`, and `kind: {name}`"),
    };
    match (version, of, meant) {
        (_, Some("batch"), None) if kind.ends_with("List") => None,
        (_, Some(group), meant) if meant.is_some() && of_batch || group == "batch" => {
            let message =
                format!("there is no kind `{}` in `{group}`; this object was not checked", shown(kind));
            misspelled("kind", message, meant.map_or_else(|| OF_BATCH.to_owned(), help))
        }
        // Many a tool has kinds and specs, so that other names count only with pods.
        (Some(version), _, Some(meant)) if is_ours || has_pod(object) => {
            let message = format!(
                "there is no `{}` in `apiVersion: {}`; this object was not checked",
                shown(kind),
                shown(version)
            );
            misspelled("apiVersion", message, help(meant))
        }
        (None, _, Some(meant)) if is_ours || has_pod(object) => misspelled(
            "kind",
            format!("this `{}` has no `apiVersion`; it was not checked", shown(kind)),
            help(meant),
        ),
        _ => None,
    }
}

/// Says that an object of a kind of ours is of a version that nobody knows, or will only know. The rules
/// judge it all the same.
fn unknown_version(version: &str, adapter: &Definition) -> Option<(Option<Reason>, Finding)> {
    let known = adapter.api_version();
    if version == known || no_longer_served(version, adapter.name).is_some() {
        return None;
    }
    let at = Pointer::of(&["apiVersion"]);
    if is_placeholder(version) {
        return Some((Some(Reason::Placeholder("apiVersion".into())), api::structure::held(at, version)));
    }
    let message = format!(
        "there is no `{}` in `apiVersion: {}`, so only Jobgate's rules were checked",
        adapter.name,
        version.escape_debug()
    );
    Some((
        None,
        checks::finding(KNOWN_KIND, Level::Note, at, message, format!("write `apiVersion: {known}`")),
    ))
}

/// Says that a version of a kind is one that API servers no longer serve.
fn no_longer_served(api_version: &str, kind: &str) -> Option<Finding> {
    // The first Jobs were of another group.
    let of_other_group = |kind: &Kind| kind.group == "batch" && api_version == "extensions/v1beta1";
    let kind = Kind::all().find(|known| {
        known.name == kind && (known.retired(api_version).is_some() || of_other_group(known))
    })?;
    let retired = kind.retired(api_version);
    let message = format!(
        "`{api_version}` of `{}` is no longer served{}",
        kind.name,
        retired.map_or("", |retired| retired.since)
    );
    let serves = kind.api_version();
    let help = match retired.and_then(|retired| retired.moved) {
        None => format!("use `apiVersion: {serves}`"),
        Some(moved) => format!(
            "write `apiVersion: {serves}`{moved}: the shape has changed, so another `apiVersion` alone is not enough"
        ),
    };
    let at = Pointer::of(&["apiVersion"]);
    let mut finding = checks::finding(KNOWN_KIND, Level::Deny, at.clone(), message, help);
    if kind.knows(api_version) {
        finding.fix(Safety::Unsafe, vec![Op::Replace(at, serves.into())]);
    }
    Some(finding)
}

fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Tells whether a list's items look like Kubernetes objects.
fn is_list_of_manifests(value: &Value) -> bool {
    value.as_array().is_some_and(|items| {
        items.iter().any(|item| item.get("apiVersion").is_some() && item.get("kind").is_some())
    })
}

/// Tells whether a field says how a patch is merged: `$patch`, `$retainKeys` and the like.
fn is_directive(path: &Pointer) -> bool {
    matches!(path.last(), Some(Token::Key(key)) if key.starts_with('$'))
}
