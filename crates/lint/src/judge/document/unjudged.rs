//! What of a document is not judged, and why.
//!
//! The reasons for objects are chosen here, with those of `known_kind` for objects that no API server has; those for texts that
//! cannot be read are chosen where texts are split.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::known_kind::{group, no_longer_served, unknown_kind, unknown_version};
use super::object::DocumentView;
use super::{Depth, too_much};
use crate::objects::Object;
use crate::options::DryRun;
use crate::patches::Patch;
use crate::{answers, patches};
use jobgate_core::judge::api;
use jobgate_core::judge::checks::{API_SERVER, FIELD_TYPE, PLACEHOLDER, TRAINING_OPERATOR, UNKNOWN_FIELD};
use jobgate_core::judge::engine;
use jobgate_core::judge::finding::{Finding, Level, Part};
use jobgate_core::judge::rule::Needs;
use jobgate_core::judge::training;
use jobgate_core::kinds::{
    Likeness, Workload, each_at, each_inside, has_batch_pod, has_pod, is_other, looks_like_batch,
};
use jobgate_core::text::patch::Op;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;
use jobgate_report::{ObjectId, Reason, Unjudged, first_line};

/// The kind that encloses an object of a document without a kind.
const DOCUMENT: &str = "document";

impl DocumentView<'_> {
    /// Tells whether an object of a judged kind is of a version that is judged, and reports any other.
    pub(super) fn is_of_judged_version(
        &mut self,
        object: &Object<'_>,
        identity: &Arc<ObjectId>,
        workload: &Workload<'_>,
    ) -> bool {
        let text = |key: &str| object.value.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(finding) = no_longer_served(text("apiVersion"), text("kind")) {
            // The first versions of a PyTorchJob have fields other than those that rules read.
            let is_judged = workload.kind.is_built_in();
            if !is_judged {
                self.unjudged(object, identity, Reason::NotServed);
            }
            self.add(object, identity, finding);
            return is_judged;
        }
        if let Some((reason, finding)) = unknown_version(text("apiVersion"), &workload.kind) {
            if let Some(reason) = reason {
                self.unjudged_at(identity, &(&object.at / "apiVersion"), Part::Value, reason);
            }
            self.add(object, identity, finding);
        }
        true
    }

    /// Reports a patch of an object.
    pub(super) fn patch(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>, patch: &Patch) {
        self.unjudged(object, identity, Reason::Patch(patch.by.clone()));
    }

    /// Reports an object that says nothing of what runs, unless the API server refuses it for that.
    pub(super) fn partial(
        &mut self,
        object: &Object<'_>,
        identity: &Arc<ObjectId>,
        workload: &Workload<'_>,
        refused: &[Finding],
    ) {
        if workload.is_partial() && !says_what_runs(workload, refused) {
            self.unjudged(object, identity, Reason::Partial);
        }
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

    /// Reports the components of an object that are not judged with it, or not fully.
    pub(super) fn components(&mut self, object: &Object<'_>, workload: &Workload<'_>) {
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
    pub(super) fn foreign(&mut self, object: &Object<'_>) {
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
    pub(super) fn placeholders<'f>(
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
    pub(super) fn unknown_claims(
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
