//! Decides whether a stored object is judged, and as what.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{Options, scale};
use jobgate_core::judge::engine::{self, Operation, Origin, Request};
use jobgate_core::judge::facts::Facts;
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::verdict::{Skipped, Verdict};
use jobgate_core::kinds::registration::SYSTEM;
use jobgate_core::kinds::{Children, Kind, Workload};
use jobgate_core::text::value::Value;

/// The inputs for judging an object.
pub(super) struct AuditJudge<'a> {
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a (dyn Facts + Sync),
    pub(super) options: &'a Options,
    /// The uids of those objects read so far whose controllers create others.
    pub(super) parents: HashSet<Box<str>>,
    /// Whether `parents` is complete for the audited namespaces.
    pub(super) all_parents: bool,
}

/// The outcome for one object.
pub(super) enum AuditOutcome {
    Judged(Verdict),
    Child,
    Finished,
    Deleting,
    System,
}

impl AuditJudge<'_> {
    pub(super) fn item(
        &self,
        kind: Kind,
        item: &RawValue,
    ) -> Result<(Value, AuditOutcome), serde_json::Error> {
        let mut object: Value = serde_json::from_str(item.get())?;
        // Items in a list of a built-in kind have no type; only the list has one.
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), format!("{}/{}", kind.group, kind.version).into());
            fields.insert("kind".to_owned(), kind.name.into());
        }
        let fate = self.judge(kind, &object);
        Ok((object, fate))
    }

    /// Judges an object as the webhook would judge its creation.
    fn judge(&self, kind: Kind, object: &Value) -> AuditOutcome {
        let metadata = |key: &str| object.get("metadata").and_then(|metadata| metadata.get(key));
        let namespace = metadata("namespace").and_then(Value::as_str).unwrap_or_default();
        if self.options.namespaces.is_empty() && SYSTEM.contains(&namespace) {
            return AuditOutcome::System;
        }
        if metadata("deletionTimestamp").is_some_and(|time| !time.is_null()) {
            return AuditOutcome::Deleting;
        }
        if !self.options.include_finished
            && Workload::from_object(object).is_some_and(|workload| workload.has_finished())
        {
            return AuditOutcome::Finished;
        }
        let parent = kind.parents().find(|(parent, children)| self.is_made_by(*parent, children, object));
        let user = parent.and_then(|(parent, _)| parent.makers.first().copied());
        let today = self.options.today;
        let request = Request {
            operation: Operation::Create,
            origin: Origin::Admission,
            object,
            old: None,
            same_spec: None,
            namespace,
            user,
            today,
        };
        let mut verdict = engine::evaluate(self.policy, self.facts, &request);
        scale::explain(self.policy, self.facts, &request, &mut verdict);
        if let Some(selection) = &self.options.selection {
            verdict.findings.retain(|finding| selection.has(&finding.rule));
        }
        if verdict.skipped.is_some_and(Skipped::is_trusted) {
            AuditOutcome::Child
        } else {
            AuditOutcome::Judged(verdict)
        }
    }

    /// Returns whether the controller of another kind made an object. Anyone can write an owner reference; it
    /// is only trusted if the named object exists and is judged.
    fn is_made_by(&self, parent: Kind, children: &Children, job: &Value) -> bool {
        let owners =
            job.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let text =
            |owner: &Value, key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let owner = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let Some(owner) = owner
            .filter(|owner| Kind::typed(&text(owner, "apiVersion"), &text(owner, "kind")) == Some(parent))
        else {
            return false;
        };
        let annotations = job.pointer("/metadata/annotations");
        let by_hand = children
            .by_hand
            .is_some_and(|(key, value)| annotations.and_then(|all| all.get(key)?.as_str()) == Some(value));
        !by_hand && (!self.all_parents || self.parents.contains(&*text(owner, "uid")))
    }
}
