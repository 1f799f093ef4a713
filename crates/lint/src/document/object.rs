//! The objects of a document, judged one by one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::known_kind::{group, no_longer_served, unknown_kind, unknown_version};
use super::{Depth, DocumentContext, make_room, too_much};
use crate::objects::Object;
use crate::options::DryRun;
use crate::{answers, patches};
use jobgate_core::judge::api::{self, MadePod};
use jobgate_core::judge::checks::{
    self, API_SERVER, APP_WRAPPER_OPERATOR, FIELD_TYPE, PLACEHOLDER, SYNTAX, TRAINING_OPERATOR,
    UNKNOWN_FIELD, VOLCANO_OPERATOR,
};
use jobgate_core::judge::engine::{self, Request};
use jobgate_core::judge::finding::{Finding, Label, Level, Part, Place, Source};
use jobgate_core::judge::rule::Needs;
use jobgate_core::judge::training;
use jobgate_core::kinds::{
    Likeness, Workload, each_at, each_inside, has_batch_pod, has_pod, is_other, looks_like_batch,
};
use jobgate_core::text::lines::Position;
use jobgate_core::text::patch::Op;
use jobgate_core::text::pointer::{Pointer, Token};
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::Document;
use jobgate_report::{
    Answered, Located, Location, ObjectId, PodOfTemplate, Reason, Related, Report, Unjudged, first_line, span,
};

/// Number of findings from which on room is reserved ahead.
const MANY: usize = 1024;
/// The kind that encloses an object of a document without a kind.
const DOCUMENT: &str = "document";

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
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(finding) = no_longer_served(text("apiVersion"), text("kind")) {
            let identity = Arc::new(ObjectId::from_object(value));
            // The first versions of a PyTorchJob have fields other than those that rules read.
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
        let identity = Arc::new(ObjectId::from_object(value));
        if let Some((reason, finding)) = unknown_version(text("apiVersion"), &workload.kind) {
            if let Some(reason) = reason {
                self.unjudged_at(&identity, &(&object.at / "apiVersion"), Part::Value, reason);
            }
            self.add(object, &identity, finding);
        }
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
            Some(patch) => self.unjudged(object, &identity, Reason::Patch(patch.by.clone())),
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
        if patch.is_none() && workload.is_partial() && !says_what_runs(&workload, &refused) {
            self.unjudged(object, &identity, Reason::Partial);
        }
        self.placeholders(object, &identity, verdict.findings.iter().chain(&refused));
        for finding in verdict.findings.into_iter().chain(refused) {
            self.add(object, &identity, finding);
        }
        self.duplicates(object, &identity);
    }

    /// Reports that nothing is judged from an object on, because the maximum was reached before it.
    pub(super) fn stop(&mut self, object: &Object<'_>, most: usize) {
        let identity = Arc::new(ObjectId::from_object(&object.value));
        self.unjudged(object, &identity, Reason::Unreadable);
        let mut finding = too_much(most);
        finding.pointer = object.at.clone();
        finding.part = Part::Key;
        let span = self.span(&object.at, Part::Key);
        self.judged.findings.push(self.context.located(self.index, finding, span));
    }

    /// Returns the request to judge for an object: its creation in its namespace.
    pub(super) fn request<'o>(&self, object: &'o Value, workload: &Workload<'_>) -> Request<'o>
    where
        Self: 'o,
    {
        let mut request = Request::of_file(object, self.context.options.today);
        if request.namespace.is_empty() && !workload.kind.cluster_scoped {
            request.namespace = self.context.options.namespace;
        }
        request
    }

    /// Reports the components of an object that are not judged with it, or not fully.
    fn components(&mut self, object: &Object<'_>, workload: &Workload<'_>) {
        let Some(path) = workload.kind.components else { return };
        let mut inside = Vec::new();
        each_at(&workload.object, path, &mut |part| inside.push(part));
        for part in inside {
            let Some(value) = part.value.filter(|value| value.is_object()) else { continue };
            let inner = Object { at: object.at.join(&part.pointer), value: Cow::Borrowed(value) };
            let identity = || Arc::new(ObjectId::from_object(value));
            let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
            let Some(known) = Workload::from_object(value) else {
                // A wrapped Pod is a job, unlike others.
                if text("apiVersion") == "v1" && text("kind") == "Pod" && has_batch_pod(value) {
                    self.unjudged(&inner, &identity(), Reason::Kind);
                } else {
                    self.foreign(&inner);
                }
                continue;
            };
            if known.kind.components.is_some() {
                self.unjudged(&inner, &identity(), Reason::Inside(workload.kind.name.into()));
            } else if let Some(finding) = no_longer_served(text("apiVersion"), text("kind")) {
                if !known.kind.is_built_in() {
                    self.unjudged(&inner, &identity(), Reason::NotServed);
                }
                self.add(&inner, &identity(), finding);
            } else if known.is_partial() && self.context.options.dry_run.is_none() {
                // The summary counts partial objects among the objects.
                self.judged.objects += 1;
                self.unjudged(&inner, &identity(), Reason::Partial);
            }
        }
    }

    /// Reports an object of another kind, if it may be batch work.
    fn foreign(&mut self, object: &Object<'_>) {
        let value = &*object.value;
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let (version, kind) = (text("apiVersion"), text("kind"));
        if kind == Some("PersistentVolumeClaim") {
            return self.duplicates(object, &Arc::new(ObjectId::from_object(value)));
        }
        // What a patch omits is in the object that it patches.
        let level = if self.context.subject.patch.is_some() { Level::Note } else { Level::Deny };
        if let Some((reason, finding)) = unknown_kind(value, level) {
            let identity = Arc::new(ObjectId::from_object(value));
            self.unjudged(object, &identity, reason);
            return self.add(object, &identity, finding);
        }
        self.patches_inside(object, kind.unwrap_or_default());
        let is_batch = match (version, kind) {
            (Some(version), Some(kind)) if is_other(group(version), kind) => Some(Reason::Kind),
            (Some(_), Some(kind)) if self.inside(object, kind) => None,
            (None, None) if self.inside(object, DOCUMENT) => None,
            (None, None) if value.get("spec").is_some_and(has_pod) => Some(Reason::Partial),
            (Some(version), Some(_)) => {
                let trains = || training::is_trained_by(version, value).then_some(Likeness::Trains);
                looks_like_batch(version, value).or_else(trains).map(Reason::Lookalike)
            }
            _ => None,
        };
        let reason = match (self.context.subject.patch, is_batch) {
            (Some(patch), Some(_)) if patch.for_batch => Reason::Patch(patch.by.clone()),
            (Some(_), Some(Reason::Partial)) => return,
            (_, Some(reason)) => reason,
            _ => return,
        };
        self.unjudged(object, &Arc::new(ObjectId::from_object(value)), reason);
    }

    /// Reports objects inside another one as not judged; tells whether there are any.
    fn inside(&mut self, object: &Object<'_>, kind: &str) -> bool {
        if matches!(self.depth, Depth::Fixes) {
            return false;
        }
        let mut any = false;
        each_inside(&object.value, &mut |at, inner| {
            any = true;
            self.unjudged_at(
                &Arc::new(ObjectId::from_object(inner)),
                &object.at.join(&at),
                Part::Key,
                Reason::Inside(kind.into()),
            );
        });
        any
    }

    /// Reports patches of batch work in an object that a cluster renders.
    fn patches_inside(&mut self, object: &Object<'_>, kind: &str) {
        for at in patches::patched_in_cluster(&object.value, self.context.options.limits) {
            let identity = ObjectId { kind: "patch".to_owned(), ..ObjectId::default() };
            self.unjudged_at(
                &Arc::new(identity),
                &object.at.join(&at),
                Part::Key,
                Reason::Inside(kind.into()),
            );
        }
    }

    /// Reports objects in a list that is not a manifest as not judged.
    pub(super) fn inside_list(&mut self) {
        if self.document.value.is_array() {
            let object = Object { at: Pointer::root(), value: Cow::Borrowed(&self.document.value) };
            self.inside(&object, DOCUMENT);
        }
    }

    /// Reports an RFC 6902 patch as not judged, if it may be for batch work.
    pub(super) fn json_patch(&mut self, items: &[Value]) {
        let Some(patch) = self.context.subject.patch.filter(|patch| patch.for_batch && !items.is_empty())
        else {
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

    /// Reports an object with placeholders as not judged, unless only images have them: no rule reads images.
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

    /// Reports claims with unknown access modes that would be findings if only one pod could mount them.
    fn unknown_claims(
        &mut self,
        object: &Object<'_>,
        identity: &Arc<ObjectId>,
        workload: &Workload<'_>,
        dry_run: Option<&DryRun<'_>>,
    ) {
        let runs_in = workload.kind.runs_in;
        let has_claims = || {
            workload.kind.components.is_some()
                || !workload.kind.claims.is_empty()
                || workload.pods.iter().any(|pod| pod.claims().next().is_some())
        };
        if matches!(self.depth, Depth::Fixes) || runs_in.is_none() && !has_claims() {
            return;
        }
        let worst = answers::Worst::new(self.context.scope, dry_run.and_then(|dry_run| dry_run.cluster));
        let request = self.request(&object.value, workload);
        let verdict = engine::evaluate(self.context.options.policy, &worst, &request);
        if let Some((reference, name)) = runs_in.zip(worst.unknown_runtime()) {
            let at = workload.object.at(reference.at).get("name").pointer;
            let reason = Reason::Runtime(name.into());
            self.unjudged_at(identity, &object.at.join(&at), Part::Value, reason);
        }
        if !worst.is_asked() {
            return;
        }
        let rules = self.context.options.policy.rules();
        for finding in verdict
            .findings
            .iter()
            .filter(|finding| rules.needs(&finding.rule).has(Needs::CLAIMS) && finding.level >= Level::Warn)
        {
            let name = finding.pointer.find(&object.value).and_then(Value::as_str);
            let name = name.filter(|name| worst.has_made_up(name)).map(str::to_owned);
            // A claim of a runtime is reported at the runtime's name.
            if let Some(name) = name.or_else(|| worst.made_up_in(&finding.message)) {
                self.unjudged_at(
                    identity,
                    &object.at.join(&finding.pointer),
                    finding.part,
                    Reason::Claim(name.into()),
                );
            }
        }
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
    fn add(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, mut finding: Finding) {
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

    fn span(&self, pointer: &Pointer, part: Part) -> Range<usize> {
        span(self.context.source, self.document, pointer, part)
    }
}

/// Tells whether a finding is about the containers or the fields around them: the object is then wrong rather than
/// partial.
fn says_what_runs(workload: &Workload<'_>, refused: &[Finding]) -> bool {
    let replicas = workload.kind.roles().map(|roles| workload.object.at(roles).pointer);
    let lists = workload.pods.iter().flat_map(|pod| pod.main_containers()).chain(replicas);
    let around: BTreeSet<Pointer> =
        lists.flat_map(|list| std::iter::successors(Some(list), Pointer::parent)).collect();
    let checks = [API_SERVER, FIELD_TYPE, TRAINING_OPERATOR, UNKNOWN_FIELD];
    refused.iter().filter(|finding| checks.contains(&&*finding.rule)).any(|finding| {
        // The fix may rename them.
        let moves = |op: &Op| match op {
            Op::Add(to, value) => around.contains(to) && (value.is_array() || has_pod(value)),
            _ => false,
        };
        around.contains(&finding.path) || finding.fix.iter().flat_map(|fix| &fix.ops).any(moves)
    })
}

/// Tells whether a field is a merge directive of a patch, such as `$patch` or `$retainKeys`.
fn is_directive(path: &Pointer) -> bool {
    matches!(path.last(), Some(Token::Key(key)) if key.starts_with('$'))
}
