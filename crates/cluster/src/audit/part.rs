//! The results kept from a list: findings, counts, and the text of a few objects.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::judge::AuditOutcome;
use super::refused_pods::RefusedTemplates;
use super::terminating::Candidate;
use super::{Options, fills};
use jobgate_core::judge::finding::{Finding, Level, Place};
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::rule::RuleId;
use jobgate_core::kinds::{Kind, PodTemplate, Workload};
use jobgate_core::text::lines::{Lines, Position};
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml;
use jobgate_report::{
    Filled, Holdings, Impact, LeftOut, Located, Location, ObjectId, Related, Report, Tally, span,
};

/// Maximum number of objects in a list whose text is kept, besides one for each rule and level: the report
/// shows about as many findings individually.
const MAX_SOURCES: usize = 40;

/// The results of one list.
#[derive(Default)]
pub(super) struct AuditPart {
    pub(super) read: usize,
    findings: Vec<Located>,
    suppressed: usize,
    sources: BTreeMap<Arc<str>, Arc<String>>,
    namespaces: BTreeMap<String, Tally>,
    holdings: Holdings,
    left_out: LeftOut,
    filled: BTreeMap<Arc<str>, Vec<Filled>>,
    holding: BTreeSet<Arc<str>>,
    parents: Vec<Box<str>>,
    /// Jobs with pods that are terminating.
    pub(super) terminating: Vec<Candidate>,
    /// Objects whose pods may be refused.
    pub(super) unmade: Vec<RefusedTemplates>,
    /// Rules and levels with an example in `sources`.
    shown: BTreeSet<(RuleId, Level)>,
}

impl AuditPart {
    pub(super) fn take(
        &mut self,
        object: &Value,
        fate: AuditOutcome,
        (policy, options): (&Policy, &Options),
    ) {
        self.read += 1;
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        if let (Some(uid), true) =
            (uid, Kind::from_object(object).is_some_and(|kind| !kind.children.is_empty()))
        {
            self.parents.push(uid.into());
        }
        // Children of controllers, too: the maker of a Job does not end its pods.
        if !matches!(fate, AuditOutcome::System) {
            self.terminating.extend(Candidate::from_object(object));
            self.unmade.extend(RefusedTemplates::from_object(object, Timestamp::now()));
        }
        // Finished objects are applied again, too; children of controllers never are.
        if matches!(fate, AuditOutcome::Judged(_) | AuditOutcome::Finished) {
            let filled = fills::filled(object);
            if !filled.is_empty() {
                self.filled.insert(key(object, &ObjectId::from_object(object)), filled);
            }
        }
        let verdict = match fate {
            AuditOutcome::Judged(verdict) => verdict,
            AuditOutcome::Child => return self.left_out.children += 1,
            AuditOutcome::Finished => {
                if holds_accelerators(object) {
                    self.holding.insert(key(object, &ObjectId::from_object(object)));
                }
                return self.left_out.finished += 1;
            }
            AuditOutcome::Deleting => return self.left_out.deleting += 1,
            AuditOutcome::System => return self.left_out.system += 1,
        };
        let identity = Arc::new(ObjectId::from_object(object));
        let namespace = identity.namespace.clone().unwrap_or_default();
        self.holdings.add(object, &namespace, policy);
        *self.namespaces.entry(namespace).or_default() += Tally::from_verdict(&verdict);
        self.suppressed += verdict.suppressed.len();
        if verdict.findings.is_empty() {
            return;
        }
        let file = key(object, &identity);
        let keep = options.keep_all_sources
            || self.sources.len() < MAX_SOURCES
            || verdict
                .findings
                .iter()
                .any(|finding| !self.shown.contains(&(finding.rule.clone(), finding.level)));
        let text = keep.then(|| ExcerptText::from_object(object)).flatten();
        if let Some(text) = &text {
            self.sources.insert(Arc::clone(&file), Arc::clone(&text.source));
            self.shown.extend(verdict.findings.iter().map(|finding| (finding.rule.clone(), finding.level)));
        }
        self.findings.extend(verdict.findings.into_iter().map(|finding| {
            let by_name = finding.path.by_name(object);
            Located { by_name, ..located(finding, &identity, &file, text.as_ref()) }
        }));
    }

    pub(super) fn join(self, report: &mut Report, impact: &mut Impact, parents: &mut HashSet<Box<str>>) {
        report.findings.extend(self.findings);
        report.suppressed += self.suppressed;
        report.holdings.append(self.holdings);
        report.sources.extend(self.sources);
        for (namespace, tally) in self.namespaces {
            *impact.namespaces.entry(namespace).or_default() += tally;
        }
        impact.left_out += self.left_out;
        impact.filled.extend(self.filled);
        impact.holding.extend(self.holding);
        parents.extend(self.parents);
    }
}

/// Returns `kind/namespace/name`, with the group of a kind that shares its name with another one.
fn key(object: &Value, identity: &ObjectId) -> Arc<str> {
    let kind = Kind::from_object(object).map_or(&*identity.kind, |kind| kind.title());
    format!("{}/{}", kind.to_lowercase(), identity.full_name()).into()
}

/// Returns whether pods with accelerators may keep running although the object has finished.
fn holds_accelerators(object: &Value) -> bool {
    Workload::from_object(object).is_some_and(|workload| {
        workload.kind.release.is_some_and(|release| {
            release.releases(&workload.object, &workload.limits) == Some(false)
                && workload.pods.iter().any(PodTemplate::holds_accelerators)
        })
    })
}

/// The text of an object for excerpts, without `status` and `managedFields`, which its owner did not write.
struct ExcerptText {
    source: Arc<String>,
    document: yaml::Document,
}

impl ExcerptText {
    fn from_object(object: &Value) -> Option<Self> {
        let mut object = object.clone();
        if let Value::Object(fields) = &mut object {
            fields.remove("status");
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.remove("managedFields");
            }
        }
        let source = Arc::new(yaml::print(&object));
        let document = yaml::documents(source.as_bytes()).next()?.ok()?;
        Some(Self { source, document })
    }

    fn location(&self, file: &Arc<str>, span: std::ops::Range<usize>) -> Location {
        Location::new(file, span, &Lines::new(self.source.as_bytes()))
    }
}

/// Finds the places of a finding in the object's text, if it is kept, and drops its operations.
fn located(
    mut finding: Finding,
    object: &Arc<ObjectId>,
    file: &Arc<str>,
    text: Option<&ExcerptText>,
) -> Located {
    finding.fix.iter_mut().for_each(|fix| fix.ops = Vec::new());
    let nowhere = Location {
        file: Arc::clone(file),
        span: 0..0,
        start: Position { line: 1, column: 1 },
        end: Position { line: 1, column: 1 },
    };
    let at = |pointer, part| {
        text.map(|text| text.location(file, span(text.source.as_bytes(), &text.document, pointer, part)))
    };
    let related = finding.labels.iter().map(|label| {
        let (location, object) = match &label.place {
            Place::Here(pointer, part) => (at(pointer, *part), None),
            Place::Elsewhere { object, .. } => (None, Some(object.clone())),
        };
        Related { location, object, text: label.text.clone() }
    });
    let (related, location) = (related.collect(), at(&finding.pointer, finding.part).unwrap_or(nowhere));
    Located { object: Some(Arc::clone(object)), related, ..Located::new(location, 0, finding) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    #[test]
    fn two_kinds_of_one_name_have_keys_of_their_own() {
        let key_of = |version: &str| {
            let metadata = json!({"name": "train", "namespace": "a"});
            let object = json!({"apiVersion": version, "kind": "Job", "metadata": metadata, "spec": {}});
            key(&object, &ObjectId::from_object(&object)).to_string()
        };
        assert_eq!(key_of("batch/v1"), "job/a/train");
        assert_eq!(key_of("batch.volcano.sh/v1alpha1"), "job.batch.volcano.sh/a/train");
    }
}
