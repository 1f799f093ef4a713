//! What an API server with Jobgate's webhooks would answer to `kubectl apply` of one manifest, without either
//! of them.
//!
//! ```text
//! manifest ──defaults──> sent ──/mutate──> patched ──validation──> stored ──/validate──> admitted
//!     │ unreadable: rejected    │ denied                   │ rejected            │ denied
//! ```
//!
//! The steps are the webhook's own ([`crate::judge::engine`], [`crate::admission`]) and those of
//! [`crate::judge::api`]. Findings have the webhook's words and point into the manifest: the linter finds the
//! files, the documents and the lines.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use crate::admission::check::Doubt;
use crate::admission::{self, Endpoint};
use crate::judge::api::{self, apply, defaults::defaulted};
use crate::judge::checks::TRAINING_OPERATOR;
use crate::judge::engine::{self, Operation, Origin, Request, Which};
use crate::judge::facts::Facts;
use crate::judge::finding::{self, Finding, Level, Part, Safety};
use crate::judge::policy::Policy;
use crate::judge::verdict::{Skipped, Verdict};
use crate::kinds::Kind;
use crate::text::patch;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value, json};

/// One object of a dry run.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The object as its author wrote it, of a kind that Jobgate judges.
    pub object: &'a Value,
    /// The object that it would replace, in a cluster or an earlier manifest. Nothing for a CREATE.
    pub old: Option<&'a Value>,
    /// The namespace for a manifest without one; empty if unknown.
    pub namespace: &'a str,
    /// Whether unknown fields are rejected, kubectl's default, or dropped.
    pub strict: bool,
    /// Today's date, for exemptions that expire. Without it they stay in force.
    pub today: Option<Date>,
}

/// How a request is predicted to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Predicted {
    /// The object is stored unchanged.
    Allowed,
    /// The object is stored with what Jobgate fills in.
    Patched,
    /// Jobgate rejects it.
    Denied,
    /// The API server rejects it, whatever Jobgate answers.
    Rejected,
    /// Unknown: a required value is a placeholder.
    Unjudged,
}

impl Predicted {
    /// Returns the words in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Patched => "allowed, patched",
            Self::Denied => "denied by jobgate",
            Self::Rejected => "rejected by the API server",
            Self::Unjudged => "not judged",
        }
    }

    /// Tells whether the object is stored.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed | Self::Patched)
    }
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// How the request would end.
    pub outcome: Predicted,
    /// Whether it is a CREATE or an UPDATE.
    pub operation: Operation,
    /// All findings of Jobgate and the API server, also those that only the next attempt would show. Places
    /// are in the manifest.
    pub findings: Vec<Finding>,
    /// How many findings exemptions and annotations suppress.
    pub suppressed: usize,
    /// Why Jobgate does not judge the object, if it does not.
    pub skipped: Option<Skipped>,
    /// Why Jobgate's patch is not sent, if it is withheld.
    pub doubt: Option<Doubt>,
    /// The webhook's patch, for the object as the API server sends it: with defaults.
    pub patch: Vec<Op>,
    /// The same for the manifest, as far as possible.
    pub edits: Vec<Op>,
    /// The stored object without server-side fields; nothing if it is not stored.
    pub admitted: Option<Value>,
}

/// Answers a question.
#[must_use]
pub fn answer(policy: &Policy, facts: &dyn Facts, question: &Question<'_>) -> Prediction {
    let Question { object, today, .. } = *question;
    let old = question.old.map(defaulted);
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let own = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|namespace| !namespace.is_empty());
    let namespace = own.unwrap_or(question.namespace);
    let request = Request {
        operation,
        origin: Origin::Admission,
        object,
        old: old.as_ref(),
        same_spec: None,
        namespace,
        user: None,
        today,
    };
    let judge =
        |object: &Value, origin| engine::evaluate(policy, facts, &Request { object, origin, ..request });
    let kind = Kind::from_object(object).unwrap_or(Kind::JOB);
    let sent = sent(object, old.as_ref(), namespace);
    let mutate = judge(&sent, Origin::Admission);
    let stopped = admission::denies(policy.rules(), Endpoint::Mutate, kind, &mutate);
    let (patch, doubt) = match stopped {
        true => (Vec::new(), None),
        false => {
            let again = |which: Which<'_>, object: &Value| {
                engine::evaluate_by(which, policy, facts, &Request { object, ..request })
            };
            match admission::checked_patch(sent.clone(), &mutate, policy.rules(), again) {
                Ok(ops) => (ops, None),
                Err(doubt) => (Vec::new(), Some(doubt)),
            }
        }
    };
    // The check of the patch has applied it already.
    let patched = patch::apply(&sent, &patch).unwrap_or_else(|_| sent.clone());
    let stored = defaulted(&patched);
    let server = api::answer(&api::SentObject {
        written: object,
        stored: &stored,
        old: old.as_ref(),
        strict: question.strict,
    });
    let validate = if patch.is_empty() { mutate.clone() } else { judge(&stored, Origin::Admission) };
    // A body that cannot be read reaches no webhook.
    let (patch, doubt) = if server.unreadable { (Vec::new(), None) } else { (patch, doubt) };
    // The operator's webhook is unknown: it may be another one, or missing.
    let refuses = |finding: &Finding| finding.level == Level::Deny && finding.rule != TRAINING_OPERATOR;
    let refuses = server.findings.iter().any(refuses);
    let outcome = match () {
        () if server.unreadable => Predicted::Rejected,
        () if stopped => Predicted::Denied,
        () if refuses => Predicted::Rejected,
        () if admission::denies(policy.rules(), Endpoint::Validate, kind, &validate) => Predicted::Denied,
        () if server.open => Predicted::Unjudged,
        () if patch.is_empty() => Predicted::Allowed,
        () => Predicted::Patched,
    };
    let written = judge(object, Origin::File);
    let mut findings = told(&mutate, &validate, &written, object);
    // Fills are in the order in which `lint --fix` writes them.
    finding::sort(&mut findings);
    let edits = if patch.is_empty() { Vec::new() } else { edits(&findings) };
    // A rule that denies the same field says more than the API server does.
    let mut refused = server.findings;
    api::prefer_renames(&mut findings, &mut refused);
    api::prefer_denials(&findings, &mut refused, object);
    findings.append(&mut refused);
    finding::sort(&mut findings);
    let admitted = outcome.is_allowed().then(|| without_marks(stored, object));
    Prediction {
        outcome,
        operation,
        findings,
        suppressed: validate.suppressed.len(),
        skipped: mutate.skipped,
        doubt,
        patch,
        edits,
        admitted,
    }
}

/// Returns the object that the API server sends to a mutating webhook for `kubectl apply`: with defaults and
/// kubectl's annotation. `old` is the object that it would replace, with defaults; `namespace` applies to a
/// manifest without one.
#[must_use]
pub(crate) fn sent(object: &Value, old: Option<&Value>, namespace: &str) -> Value {
    let mut sent = defaulted(&match old {
        Some(old) => apply::applied(object, old),
        None => object.clone(),
    });
    let Some(metadata) = sent.get_mut("metadata").and_then(Value::as_object_mut) else { return sent };
    if !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    // kubectl's annotation distinguishes an author's choice from a default.
    let annotations = metadata.get_or_insert_with("annotations", || json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(apply::LAST_APPLIED.to_owned(), object.to_string().into());
    }
    sent
}

/// Removes kubectl's annotation, which the author neither wrote nor wants to read, and an empty status.
fn without_marks(mut stored: Value, object: &Value) -> Value {
    let wrote_annotations = object.pointer("/metadata/annotations").is_some_and(Value::is_object);
    if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        let empty =
            metadata.get_mut("annotations").and_then(Value::as_object_mut).is_some_and(|annotations| {
                annotations.remove(apply::LAST_APPLIED);
                annotations.is_empty()
            });
        if empty && !wrote_annotations {
            metadata.remove("annotations");
        }
    }
    if let Some(fields) = stored.as_object_mut()
        && fields.get("status").is_some_and(|status| status.as_object().is_some_and(Map::is_empty))
    {
        fields.remove("status");
    }
    stored
}

/// Returns the findings of both webhooks, worded for the manifest: the fills of the first and all others of
/// the second.
fn told(mutate: &Verdict, validate: &Verdict, written: &Verdict, object: &Value) -> Vec<Finding> {
    let judged: BTreeSet<_> = validate.findings.iter().map(key).collect();
    // Of equal findings the first one counts.
    let known: BTreeMap<_, _> =
        written.findings.iter().rev().map(|finding| (key(finding), finding)).collect();
    let filled = mutate.findings.iter().filter(|finding| finding.fills && !judged.contains(&key(finding)));
    filled
        .chain(&validate.findings)
        .map(|finding| in_manifest(finding, known.get(&key(finding)).copied(), object))
        .collect()
}

/// Returns the parts that identify a finding within its object.
fn key(finding: &Finding) -> (&str, &Pointer) {
    (&finding.rule, &finding.path)
}

/// Returns a finding of the sent object with the places and fix of the same finding in the manifest.
fn in_manifest(finding: &Finding, known: Option<&Finding>, object: &Value) -> Finding {
    if let Some(known) = known {
        return Finding { level: finding.level, fills: finding.fills, ..known.clone() };
    }
    let mut finding = finding.clone();
    finding.fix = None;
    if finding.pointer.find(object).is_none() {
        finding.pointer = finding.pointer.nearest(object);
        finding.part = Part::Key;
    }
    finding
}

/// Returns the webhook's fills as operations on the manifest.
fn edits(findings: &[Finding]) -> Vec<Op> {
    let fills = findings.iter().filter(|finding| finding.fills).filter_map(|finding| finding.fix.as_ref());
    let ops = fills.filter(|fix| fix.safety == Safety::Safe).flat_map(|fix| fix.ops.iter().cloned());
    patch::combine(ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::facts::NoFacts;

    fn job(extra: Value) -> Value {
        let mut spec = json!({
            "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60, "podReplacementPolicy": "Failed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        });
        patch::merge(&mut spec, &extra);
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
    }

    fn ask(object: &Value, old: Option<&Value>) -> Prediction {
        answer(
            &Policy::default(),
            &NoFacts,
            &Question { object, old, namespace: "", strict: true, today: None },
        )
    }

    fn words(answer: &Prediction) -> Vec<String> {
        answer
            .findings
            .iter()
            .map(|finding| format!("{} {} {}", finding.level.as_str(), finding.rule, finding.path))
            .collect()
    }

    #[test]
    fn each_step_has_its_own_end() {
        for (extra, outcome, found) in [
            (json!({}), Predicted::Allowed, &[][..]),
            (
                json!({"ttlSecondsAfterFinished": null}),
                Predicted::Patched,
                &["note ttl-after-finished spec.ttlSecondsAfterFinished"],
            ),
            (
                json!({"activeDeadlineSeconds": null}),
                Predicted::Denied,
                &["deny deadline spec.activeDeadlineSeconds"],
            ),
            (json!({"tolerations": []}), Predicted::Rejected, &["deny unknown-field spec.tolerations"]),
            (
                json!({"activeDeadlineSeconds": "60"}),
                Predicted::Rejected,
                &["deny field-type spec.activeDeadlineSeconds"],
            ),
            (json!({"parallelism": -1}), Predicted::Rejected, &["deny api-server spec.parallelism"]),
            // `/mutate` sees it before the API server does, and lists everything.
            (
                json!({"parallelism": -1, "template": {"spec": {"restartPolicy": null}}}),
                Predicted::Denied,
                &["deny api-server spec.parallelism", "deny restart-policy spec.template.spec.restartPolicy"],
            ),
        ] {
            let answer = ask(&job(extra.clone()), None);
            let mut words = words(&answer);
            words.sort();
            assert_eq!(
                (answer.outcome, words),
                (outcome, found.iter().map(|line| (*line).to_owned()).collect()),
                "{extra}"
            );
        }
    }

    #[test]
    fn the_default_of_the_replacement_policy_is_told_from_the_authors_choice() {
        let unset = ask(&job(json!({"podReplacementPolicy": null})), None);
        assert_eq!(unset.outcome, Predicted::Patched);
        assert_eq!(
            json!(patch::document(&unset.patch)),
            json!([{"op": "replace", "path": "/spec/podReplacementPolicy", "value": "Failed"}])
        );
        assert_eq!(
            json!(patch::document(&unset.edits)),
            json!([{"op": "add", "path": "/spec/podReplacementPolicy", "value": "Failed"}])
        );
        assert_eq!(
            unset.admitted.map(|stored| stored["spec"]["podReplacementPolicy"].clone()),
            Some(json!("Failed"))
        );
        assert_eq!(
            ask(&job(json!({"podReplacementPolicy": "TerminatingOrFailed"})), None).outcome,
            Predicted::Allowed
        );
    }

    #[test]
    fn an_update_is_judged_against_what_is_there() {
        let old = job(json!({"activeDeadlineSeconds": null}));
        assert_eq!(ask(&old, Some(&old)).outcome, Predicted::Allowed, "nothing changes");
        let image = job(json!({"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}));
        let changed = ask(&image, Some(&job(json!({}))));
        assert_eq!(
            (changed.outcome, words(&changed)),
            (Predicted::Rejected, vec!["deny api-server spec.template".to_owned()])
        );
        assert!(
            changed.findings[0].message.ends_with("spec.template: Invalid value: {…}: field is immutable")
        );
        assert_eq!(changed.findings[0].pointer.to_string(), "spec.template.spec.containers[0].image");
        let gone = ask(&job(json!({"activeDeadlineSeconds": null})), Some(&job(json!({}))));
        assert_eq!(gone.outcome, Predicted::Denied);
    }

    #[test]
    fn tolerations_that_an_apply_takes_out_are_put_back() {
        let gpu = json!({"template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}});
        let mut old = job(gpu.clone());
        old["spec"]["template"]["spec"]["tolerations"] =
            json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]);
        let answer = ask(&job(gpu), Some(&old));
        assert_eq!((answer.outcome, answer.patch.len(), answer.edits.len()), (Predicted::Patched, 1, 0));
    }
}
