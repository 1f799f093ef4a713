//! The objects of a document, judged one by one.

use std::ops::Range;
use std::sync::Arc;

use super::{Depth, DocumentContext, make_room};
use crate::objects::Object;
use crate::options::DryRun;
use jobgate_core::judge::api::{self, MadePod};
use jobgate_core::judge::checks::{
    self, APP_WRAPPER_OPERATOR, FIELD_TYPE, SYNTAX, TRAINING_OPERATOR, VOLCANO_OPERATOR,
};
use jobgate_core::judge::engine::{self, Request};
use jobgate_core::judge::finding::{Finding, Label, Level, Part, Place, Source};
use jobgate_core::kinds::Workload;
use jobgate_core::text::lines::Position;
use jobgate_core::text::patch::Op;
use jobgate_core::text::pointer::{Pointer, Token};
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::Document;
use jobgate_report::{
    Answered, Located, Location, ObjectId, PodOfTemplate, Related, Report, first_line, span,
};

/// Number of findings from which on room is reserved ahead.
const MANY: usize = 1024;
/// One document that is being judged.
pub(super) struct DocumentView<'a> {
    pub(super) context: &'a DocumentContext<'a>,
    pub(super) document: &'a Document,
    pub(super) depth: Depth,
    pub(super) index: usize,
    /// The Helm template that rendered the document.
    pub(super) source: Option<String>,
    /// Jobgate's fills, as operations on the document.
    pub(super) fills: Vec<Op>,
    pub(super) judged: &'a mut Report,
}

impl DocumentView<'_> {
    pub(super) fn object(&mut self, object: &Object<'_>) {
        let value = &*object.value;
        let Some(workload) = Workload::from_object(value) else { return self.foreign(object) };
        let identity = Arc::new(ObjectId::from_object(value));
        if !self.is_of_judged_version(object, &identity, &workload) {
            return;
        }
        self.judged.objects += 1;
        let options = self.context.options;
        let patch = self.context.subject.patch;
        if patch.is_none() {
            self.components(object, &workload);
        }
        if patch.is_none() {
            self.count_missed(value, &workload);
        }
        if let Some(dry_run) = options.dry_run.as_ref().filter(|_| patch.is_none()) {
            self.unknown_claims(object, &identity, &workload, Some(dry_run));
            return self.ask(object, &identity, dry_run);
        }
        match patch {
            Some(patch) => self.patch(object, &identity, patch),
            None if workload.is_partial() => {}
            None => {
                let namespace = identity.namespace.as_deref().unwrap_or(self.context.options.namespace);
                self.judged.holdings.add(value, namespace, self.context.options.policy);
                self.unknown_claims(object, &identity, &workload, None);
            }
        }
        let request = self.request(value, &workload);
        let mut verdict = engine::evaluate(self.context.options.policy, self.context.scope, &request);
        self.judged.suppressed += verdict.suppressed.len();
        let mut refused = match self.depth {
            _ if !self.context.options.api_checks => Vec::new(),
            Depth::Fixes => api::fixable(value),
            Depth::All => api::check(value),
        };
        api::prefer_denials(&verdict.findings, &mut refused, value);
        if patch.is_some() {
            // What a patch omits is in the object that it patches.
            verdict.findings.retain(|finding| finding.path.find(value).is_some());
            refused.retain(|finding| finding.path.find(value).is_some() && !is_directive(&finding.path));
        }
        api::prefer_renames(&mut verdict.findings, &mut refused);
        if patch.is_none() {
            self.partial(object, &identity, &workload, &refused);
        }
        self.placeholders(object, &identity, verdict.findings.iter().chain(&refused));
        for finding in verdict.findings.into_iter().chain(refused) {
            self.add(object, &identity, finding);
        }
        self.duplicates(object, &identity);
    }

    /// Returns the request to judge for an object: its creation in its namespace.
    pub(super) fn request<'o>(&self, object: &'o Value, workload: &Workload<'_>) -> Request<'o>
    where
        Self: 'o,
    {
        let mut request = Request::from_file(object, self.context.options.today);
        if request.namespace.is_empty() && !workload.kind.cluster_scoped {
            request.namespace = self.context.options.namespace;
        }
        request
    }

    /// Judges an object as the webhook would.
    fn ask(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, dry_run: &DryRun<'_>) {
        let mut answer = dry_run.answer(
            self.context.options.policy,
            self.context.scope,
            &object.value,
            self.context.options.namespace,
            self.context.options.today,
        );
        self.judged.suppressed += answer.suppressed;
        let findings = std::mem::take(&mut answer.findings);
        let by_webhook = [TRAINING_OPERATOR, APP_WRAPPER_OPERATOR, VOLCANO_OPERATOR];
        let operator_refuses = findings.iter().any(|finding| by_webhook.contains(&&*finding.rule));
        let mut edits = std::mem::take(&mut answer.edits);
        edits.iter_mut().for_each(|op| op.move_below(&object.at));
        self.fills.extend(edits);
        let made = dry_run.pods(answer.admitted.as_ref()).into_iter();
        let pods = made.map(|MadePod { template, pod }| {
            let template = object.at.join(&template);
            let location = self.context.location(self.span(&template, Part::Key));
            PodOfTemplate { location, template, pod, refused: false }
        });
        let pods = pods.collect();
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
            pods,
        });
        self.placeholders(object, identity, findings.iter());
        for finding in findings {
            self.add(object, identity, finding);
        }
        self.duplicates(object, identity);
    }

    pub(super) fn not_an_object(&mut self, value: &Value) {
        let (what, help) = match value {
            Value::Array(_) => {
                ("a list", "separate the objects by `---`, or wrap them in `kind: List` with `items:`")
            }
            Value::String(_) => ("a string", "a manifest is a mapping with `apiVersion` and `kind`"),
            Value::Number(_) => ("a number", "a manifest is a mapping with `apiVersion` and `kind`"),
            _ => ("a boolean", "a manifest is a mapping with `apiVersion` and `kind`"),
        };
        let message = format!("this document is {what}, not an object; kubectl rejects it");
        let finding = checks::of_document(SYNTAX, Level::Deny, message, help);
        let span = first_line(self.context.source, self.span(&Pointer::root(), Part::Value));
        self.judged.findings.push(self.context.located(self.index, finding, span));
    }

    /// Reserves room for the findings of this and later objects, if there are already many.
    pub(super) fn make_room(&mut self, object: &Object<'_>) {
        let findings = &mut self.judged.findings;
        if findings.len() < MANY || findings.capacity() - findings.len() > MANY / 16 {
            return;
        }
        let Some(at) = self.document.locate(&object.at) else { return };
        let (start, end) = (self.document.span.start, self.document.span.end);
        make_room(findings, findings.len() / 4, at.value.start.saturating_sub(start), end - start);
    }

    /// Adds a finding of an object, with its places in the document.
    pub(super) fn add(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, mut finding: Finding) {
        if !self.context.options.selects(&finding.rule) {
            return;
        }
        let keep_items = self.context.options.keep_items;
        let items = finding.items.as_ref().filter(|_| keep_items);
        let items = items.map(|items| Box::new(items.named(&finding.path, &object.value)));
        finding.move_below(&object.at);
        // A list may have thousands of objects with a few findings each.
        if let Some(last) = self.judged.findings.last() {
            finding.share(&last.finding.pointer, &last.finding.path);
        }
        if finding.rule == FIELD_TYPE {
            let at = self.document.locate(&finding.pointer).filter(|at| !at.via_alias);
            let text = at.and_then(|at| str::from_utf8(self.context.source.get(at.value)?).ok());
            api::structure::quote(&mut finding, text);
        }
        let span = self.span(&finding.pointer, finding.part);
        if matches!(self.depth, Depth::Fixes) {
            // It is only sorted and fixed, never shown.
            let nowhere = Position { line: 1, column: 1 };
            let location = Location {
                file: Arc::clone(&self.context.subject.input.path),
                start: nowhere,
                end: nowhere,
                span,
            };
            let located = Located::new(location, self.index, finding);
            return self.judged.keep(Located { object: Some(Arc::clone(identity)), ..located });
        }
        let options = self.context.options;
        if let Some(fix) = finding.fix.as_mut().filter(|_| options.fix.is_none() && !options.keep_fixes) {
            fix.ops = Vec::new();
        }
        let related = finding.labels.iter().map(|label| self.related(label)).collect();
        let by_name = finding.path.by_name(&object.value);
        let located = self.context.located(self.index, finding, span);
        let object = Some(Arc::clone(identity));
        self.judged.keep(Located { object, related, by_name, items, ..located });
    }

    fn related(&self, label: &Label) -> Related {
        let (location, object) = match &label.place {
            Place::Here(pointer, part) => (Some(self.context.location(self.span(pointer, *part))), None),
            Place::Elsewhere { object, source: Source::Cluster } => (None, Some(object.clone())),
            Place::Elsewhere { object, source: Source::Release(release) } => {
                (None, Some(format!("{object} of {release}")))
            }
            Place::Elsewhere { object, source: Source::File { path, span, .. } } => {
                (self.context.scope.location(path, span), Some(object.clone()))
            }
        };
        Related { location, object, text: label.text.clone() }
    }

    pub(super) fn span(&self, pointer: &Pointer, part: Part) -> Range<usize> {
        span(self.context.source, self.document, pointer, part)
    }
}

/// Tells whether a field is a merge directive of a patch, such as `$patch` or `$retainKeys`.
fn is_directive(path: &Pointer) -> bool {
    matches!(path.last(), Some(Token::Key(key)) if key.starts_with('$'))
}
