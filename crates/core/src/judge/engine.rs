//! Judges one object: policy, facts and a request in, a verdict out. No I/O, no clock, no async.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::judge::annotations;
pub use crate::judge::annotations::{IGNORE, KEEP};
use crate::judge::facts::Facts;
use crate::judge::finding::{Finding, Level, sort};
use crate::judge::fold::Folded;
use crate::judge::forecast::MOST_WORK_OF_RULE;
use crate::judge::incidents::{give_way, relate};
use crate::judge::policy::{Action, Effective, Exemption, OptOut, Policy, Scope, trusted_controllers};
use crate::judge::ranks::WorkloadReading;
use crate::judge::ratchet::ratchet;
pub use crate::judge::request::{Operation, Origin, Request};
use crate::judge::rule::{Cx, Rule, RuleId};
use crate::judge::rules::RuleSet;
use crate::judge::trust::{Trust, trust};
use crate::judge::verdict::{Skipped, Suppressed, Verdict};
use crate::kinds::{self, Kind, OnUpdate, Path, Workload};
use crate::text::patch::Op;

/// The rules to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which<'r> {
    /// All rules that the policy does not ignore.
    All,
    /// Rules that deny, warn or fill in: a webhook says nothing of notes. Some others have a part in the answer as well.
    Answered,
    /// Rules that deny or fill in: the result of a patch does not depend on the others.
    Binding,
    /// Rules that fill in, or deny what the API server would reject before `/validate` is called.
    Mutating,
    /// Those of the rules that deny or fill in which have these ids.
    Only(&'r [RuleId]),
}

impl Which<'_> {
    fn runs(self, rule: &Rule, action: Action) -> bool {
        match action {
            Action::Ignore => false,
            Action::Note => self == Self::All,
            Action::Warn => matches!(self, Self::All | Self::Answered),
            Action::Deny | Action::Fill => match self {
                Self::All | Self::Answered | Self::Binding => true,
                Self::Mutating => action == Action::Fill || rule.before_validate,
                Self::Only(ids) => ids.contains(&rule.id),
            },
        }
    }

    /// Tells whether only fills and denials are of interest.
    fn is_binding(self) -> bool {
        !matches!(self, Self::All | Self::Answered)
    }
}

/// Judges one object.
#[must_use]
pub fn evaluate(policy: &Policy, facts: &dyn Facts, request: &Request<'_>) -> Verdict {
    evaluate_by(Which::All, policy, facts, request)
}

/// Judges one object by some of the rules. A rule's findings do not depend on other rules, but for those that give way.
#[must_use]
pub(crate) fn evaluate_by(
    which: Which<'_>,
    policy: &Policy,
    facts: &dyn Facts,
    request: &Request<'_>,
) -> Verdict {
    let mut verdict = verdict(which, policy, facts, request);
    let suppressed = verdict.suppressed.iter_mut().map(|suppressed| &mut suppressed.finding);
    verdict.findings.iter_mut().chain(suppressed).for_each(Finding::tell_items);
    verdict
}

fn verdict(which: Which<'_>, policy: &Policy, facts: &dyn Facts, request: &Request<'_>) -> Verdict {
    let Some(workload) = Workload::from_object(request.object) else {
        return Verdict::skipped(Skipped::NotOurs);
    };
    match trust(policy, facts, request, &workload) {
        Trust::None => {}
        Trust::Child => return Verdict::skipped(Skipped::TrustedController),
        Trust::Unseen => return Verdict::skipped(Skipped::TrustedUnseen),
    }
    if request.has_same_spec() && workload.object.at(&["metadata", "deletionTimestamp"]).is_set() {
        return Verdict::skipped(Skipped::BeingDeleted);
    }
    let wishes = AnnotationOverrides::new(policy.rules(), &workload);
    let judgement = Judgement::new(policy, facts, request, &workload, &wishes);
    match workload.kind.components {
        Some(path) => judgement.components(which, path),
        None => judgement.verdict(which),
    }
}

/// The ids of rules in an author's annotations.
#[derive(Clone, Debug, Default)]
pub(super) struct AnnotationOverrides<'a> {
    /// The annotation [`KEEP`], if there is one.
    kept: Option<BTreeSet<&'a str>>,
    /// The annotation [`IGNORE`], if there is one.
    ignored: Option<BTreeSet<&'a str>>,
}

impl<'a> AnnotationOverrides<'a> {
    /// Returns those in the object's own annotations.
    fn new(rules: &'a RuleSet, workload: &Workload<'_>) -> Self {
        let named = |annotation| {
            annotations::annotation_names(Some(annotation))
                .filter_map(|name| Some(&*rules.find(name)?.id))
                .collect()
        };
        let of = |key| workload.own_annotation(key).map(named);
        Self { kept: of(KEEP), ignored: of(IGNORE) }
    }

    fn keeps(&self, rule: &str) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.contains(rule))
    }

    fn ignores(&self, rule: &str) -> bool {
        self.ignored.as_ref().is_some_and(|ignored| ignored.contains(rule))
    }
}

/// One object under one policy, with everything that its rules read.
#[allow(missing_debug_implementations, reason = "facts are a trait object")]
pub(super) struct Judgement<'a> {
    /// The policy.
    pub(super) policy: &'a Policy,
    /// The policy's settings for this object.
    pub(super) scope: Scope<'a>,
    /// Facts about other objects.
    pub(super) facts: &'a dyn Facts,
    /// The object, its old state and its origin.
    pub(super) request: &'a Request<'a>,
    /// The object, seen as a workload.
    pub(super) workload: &'a Workload<'a>,
    /// The rules in its author's annotations.
    wishes: &'a AnnotationOverrides<'a>,
}

impl<'a> Judgement<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        facts: &'a dyn Facts,
        request: &'a Request<'a>,
        workload: &'a Workload<'a>,
        wishes: &'a AnnotationOverrides<'a>,
    ) -> Self {
        Self { policy, scope: policy.scope(request, workload), facts, request, workload, wishes }
    }

    /// Judges an object that is not skipped, and has no others inside.
    fn verdict(&self, which: Which<'_>) -> Verdict {
        let mut findings = self.run(which);
        if let Some(old) = self.request.old {
            ratchet(self, old, &mut findings);
        }
        let mut verdict = Verdict::default();
        if self.request.operation == Operation::Update && self.workload.kind.on_update != OnUpdate::NextRuns {
            // A change of a running Job is rejected as immutable, or deletes it (a TTL on a finished one):
            // docs/internals/kubernetes.md#patches-on-update.
            if self.workload.inside.is_none() {
                verdict.restore = self.restore();
            }
            for finding in &mut findings {
                finding.fills = false;
            }
        }
        self.lift(findings, &mut verdict);
        give_way(&mut verdict.findings, self.policy.rules(), self.request.object);
        sort(&mut verdict.findings);
        relate(&mut verdict.findings);
        verdict
    }

    /// Judges the objects inside another one in its place, with its namespace. Nothing is filled in: an apply of
    /// the author's manifest would be rejected, as the objects inside are immutable
    /// (docs/internals/batch-kinds.md#appwrapper).
    fn components(&self, which: Which<'_>, path: Path) -> Verdict {
        let rules = self.policy.rules();
        let mut findings = Folded::default();
        findings.extend(annotations::unknown_annotation_names(rules, self.workload));
        let mut suppressed: BTreeMap<String, Folded<Finding>> = BTreeMap::new();
        let mut around: Vec<Finding> = Vec::new();
        let mut inside = Vec::new();
        kinds::each_at(&self.workload.object, path, &mut |part| {
            // There may be many items that are not objects of a known kind.
            if part.value.is_some_and(|value| Kind::from_object(value).is_some()) {
                inside.push(part);
            }
        });
        for part in inside {
            // The operator rejects a wrapper in a wrapper. A version that moved its fields is not read.
            let is_judged = |inner: &Workload<'_>| {
                inner.kind.components.is_none()
                    && !inner.kind.has_moved(inner.object.get("apiVersion").text().set())
            };
            let Some(inner) = Workload::from_part(part).filter(is_judged) else { continue };
            let inner = Workload { inside: Some(self.workload.object.clone()), ..inner };
            // The outer annotations are read once: there may be many objects inside, and the annotation may be
            // long.
            let own = AnnotationOverrides::new(rules, &inner);
            let wishes = AnnotationOverrides {
                kept: own.kept.or_else(|| self.wishes.kept.clone()),
                ignored: own.ignored.or_else(|| self.wishes.ignored.clone()),
            };
            let inside_at = inner.object.pointer.clone();
            let inner = Judgement::new(self.policy, self.facts, self.request, &inner, &wishes).verdict(which);
            let below = |mut finding: Finding| {
                finding.instead_of_fill(Level::Warn);
                finding
            };
            for finding in inner.findings.into_iter().map(below) {
                // Each object inside may report the same about an outer annotation.
                if finding.pointer.is_within(&inside_at) {
                    findings.push(finding);
                } else if !around.contains(&finding) {
                    around.push(finding);
                }
            }
            for Suppressed { finding, reason } in inner.suppressed {
                suppressed.entry(reason).or_default().push(below(finding));
            }
        }
        let mut verdict = Verdict { findings: findings.into_vec(), ..Verdict::default() };
        for (reason, findings) in suppressed {
            let all = findings.into_vec().into_iter();
            verdict.suppressed.extend(all.map(|finding| Suppressed { finding, reason: reason.clone() }));
        }
        verdict.findings.append(&mut around);
        sort(&mut verdict.findings);
        verdict.findings.dedup();
        verdict
    }

    /// Runs the rules of the object's kind, with the policy's settings for this object.
    pub(super) fn run(&self, which: Which<'_>) -> Vec<Finding> {
        self.run_some(which, |_| true)
    }

    /// Runs those of the rules that are wanted.
    pub(super) fn run_some(&self, which: Which<'_>, is_wanted: impl Fn(&Rule) -> bool) -> Vec<Finding> {
        // An object from an API server is never partial.
        let partial =
            !self.workload.has_spec() || (self.request.origin == Origin::File && self.workload.is_partial());
        let runs = |(rule, settings): &(&Rule, Effective)| {
            let kept = settings.action == Action::Fill && self.wishes.keeps(&rule.id);
            let is_needed = is_wanted(rule) && (!which.is_binding() || !rule.ignores_fills);
            let is_run = which.runs(rule, settings.action)
                || which == Which::Answered && self.answers_note(rule, settings);
            is_needed && is_run && !kept
        };
        let of_kind = self.scope.rules(|rule| rule.kinds.contains(self.workload.kind));
        let rules: Vec<(&Rule, Effective)> = of_kind.filter(runs).collect();
        let reading = WorkloadReading::from_workload(self.workload);
        let mut findings = Folded::default();
        for (rule, settings) in &rules {
            let is_binding = which.is_binding();
            let says_notes = which == Which::All || which == Which::Answered && self.is_named(rule);
            let mut cx =
                Cx { findings, partial, is_binding, says_notes, ..self.cx(rule, settings, &reading) };
            rule.check.check(&mut cx);
            findings = cx.findings;
        }
        let mut findings = findings.into_vec();
        #[cfg(debug_assertions)]
        for (rule, settings) in rules.iter().filter(|(rule, _)| rule.incident.is_some()) {
            let cx = self.cx(rule, settings, &reading);
            crate::judge::model_check::assert_fixes_change_outcomes(&cx, &findings);
        }
        for bare in &self.workload.bare {
            // Findings about some of these items hold for all of them.
            for items in findings.iter_mut().filter_map(|finding| finding.items.as_mut()) {
                items.add_like(&bare.like, &bare.items, &bare.keys);
            }
        }
        findings.extend(reading.beyond());
        if self.workload.kind.untested {
            for finding in &mut findings {
                if finding.fills {
                    finding.instead_of_fill(Level::Warn);
                }
                finding.at_most(Level::Warn);
            }
        }
        findings
    }

    /// Tells whether a rule whose findings are notes has a part in an answer: they may be warnings by a parameter, the author's
    /// annotation names it, or an exemption.
    fn answers_note(&self, rule: &Rule, settings: &Effective) -> bool {
        let warns = rule.warns_by.as_ref().is_some_and(|param| settings.number(param) > 0);
        settings.action == Action::Note && (warns || self.is_named(rule))
    }

    /// Tells whether an annotation or an exemption names a rule, and says so where there is nothing to suppress.
    fn is_named(&self, rule: &Rule) -> bool {
        self.wishes.ignores(&rule.id) || self.scope.exemptions().any(|exemption| exemption.covers(&rule.id))
    }

    /// Returns the context for a rule.
    fn cx<'c>(&'c self, rule: &'c Rule, settings: &'c Effective, reading: &'c WorkloadReading<'c>) -> Cx<'c> {
        Cx {
            rule,
            request: self.request,
            workload: self.workload,
            facts: self.facts,
            settings,
            findings: Folded::default(),
            partial: false,
            reading,
            assumptions: &self.policy.assumptions,
            is_binding: false,
            says_notes: true,
            forecast_work: Cell::new(MOST_WORK_OF_RULE),
        }
    }

    /// Returns the operations that restore fills which an apply removed, whatever the policy's actions.
    fn restore(&self) -> Vec<Op> {
        let rules = self.scope.rules(|rule| rule.restore.is_some());
        let rules = rules.filter_map(|(rule, settings)| Some((rule, rule.restore?, settings)));
        let rules: Vec<_> = rules.collect();
        let reading = WorkloadReading::from_workload(self.workload);
        rules
            .iter()
            .flat_map(|(rule, restore, settings)| restore(&self.cx(rule, settings, &reading)))
            .collect()
    }

    /// Separates suppressed findings, and adds findings about exemptions and annotations.
    fn lift(&self, findings: Vec<Finding>, verdict: &mut Verdict) {
        let Self { policy, scope, request, workload, wishes, .. } = self;
        let mut ended: Vec<(&Exemption, RuleId)> = Vec::new();
        for finding in findings {
            let covering = || scope.exemptions().filter(|exemption| exemption.covers(&finding.rule));
            let may_ignore = match policy.opt_out {
                OptOut::None => false,
                OptOut::Warnings => finding.level < Level::Deny,
                OptOut::Denials => true,
            };
            let reason = match covering().find(|exemption| exemption.holds_on(request.today)) {
                Some(exemption) => format!("exempted by the policy: {}", exemption.reason),
                None if may_ignore && wishes.ignores(&finding.rule) => {
                    format!("suppressed by the annotation `{IGNORE}`")
                }
                None => {
                    if let Some(exemption) = covering().next()
                        && !ended.iter().any(|(known, _)| std::ptr::eq(*known, exemption))
                    {
                        ended.push((exemption, finding.rule.clone()));
                    }
                    verdict.findings.push(finding);
                    continue;
                }
            };
            verdict.suppressed.push(Suppressed { finding, reason });
        }
        for (exemption, rule) in ended {
            verdict.findings.push(annotations::ended_exemption(exemption, &rule));
        }
        verdict.findings.extend(annotations::unknown_annotation_names(policy.rules(), workload));
        let jobs_are_judged =
            !trusted_controllers().any(|user| policy.trusted_controllers.iter().any(|name| name == user));
        verdict.findings.extend(annotations::misplaced_annotations(workload, jobs_are_judged));
        let not_suppressed = verdict
            .findings
            .iter()
            .map(|finding| &*finding.rule)
            .filter(|rule| wishes.ignores(rule))
            .collect();
        let unused = wishes.kept.as_ref().map(|kept| self.fills_nothing(kept.clone())).unwrap_or_default();
        let useless = annotations::annotations_without_effect(workload, &not_suppressed, &unused);
        verdict.findings.extend(useless);
    }

    /// Returns the rules on which the author's `keep` has no effect, since they do something other than fill.
    fn fills_nothing(&self, mut kept: BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let named: Vec<_> = self.scope.rules(|rule| kept.contains(&*rule.id)).collect();
        for (rule, settings) in named {
            let fills = settings.action == Action::Fill && rule.kinds.contains(self.workload.kind);
            if fills || settings.action == Action::Ignore {
                kept.remove(&*rule.id);
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::facts::{Claim, Fact, FactTable, NoFacts};
    use crate::judge::finding::Source;
    use crate::text::patch;
    use crate::text::value::{Value, json};

    /// A patch is made by the rules that fill in alone, and checked by those that deny as well: nothing that it depends on is
    /// of others.
    #[test]
    fn what_is_denied_and_filled_in_depends_on_no_other_rule() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rules");
        let folders =
            std::fs::read_dir(root).expect("the fixtures").map(|entry| entry.expect("a folder").path());
        let files = folders.filter(|path| path.is_dir()).flat_map(|folder| {
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path())
        });
        let policies = ["default", "strict", "audit"].map(|name| Policy::builtin(name).expect("a policy"));
        let rules = policies[0].rules();
        let depends = |finding: &&Finding| rules.find(&finding.rule).is_none_or(|rule| !rule.ignores_fills);
        let denied = |verdict: &Verdict| -> Vec<Finding> {
            let denied = verdict.findings.iter().filter(|finding| finding.level == Level::Deny);
            denied.filter(depends).cloned().collect()
        };
        let (mut bound, mut fewer) = (0, 0);
        for file in files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")) {
            let text = std::fs::read(&file).expect("a file");
            let limits = crate::text::yaml::Limits::default();
            for chunk in crate::text::yaml::split(&text, &limits).flatten() {
                let Ok(document) = crate::text::yaml::parse(&text, &chunk, &limits) else { continue };
                let request = Request::from_file(&document.value, None);
                for policy in &policies {
                    let all = evaluate(policy, &NoFacts, &request);
                    let binding = evaluate_by(Which::Binding, policy, &NoFacts, &request);
                    assert_eq!(all.fill_ops(), binding.fill_ops(), "{}", file.display());
                    assert_eq!(denied(&all), denied(&binding), "{}", file.display());
                    let mutating = evaluate_by(Which::Mutating, policy, &NoFacts, &request);
                    assert_eq!(all.fill_ops(), mutating.fill_ops(), "{}", file.display());
                    let is_early = |finding: &Finding| {
                        rules.find(&finding.rule).is_some_and(|rule| rule.before_validate)
                    };
                    let early = |mut denied: Vec<Finding>| {
                        denied.retain(is_early);
                        denied
                    };
                    assert_eq!(early(denied(&all)), early(denied(&mutating)), "{}", file.display());
                    bound += usize::from(!denied(&all).is_empty() || !all.fill_ops().is_empty());
                    fewer += usize::from(binding.findings.len() < all.findings.len());
                }
            }
        }
        assert!(bound > 1000 && fewer > 1000, "{bound} {fewer}");
    }

    /// Two volumes on claims that one node can mount, used by four pods.
    fn job(volumes: &[(&str, &str)]) -> Value {
        let volumes: Vec<Value> = volumes
            .iter()
            .map(|(name, claim)| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}))
            .collect();
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {}, "spec": {"jobTemplate": {"spec": {
            "parallelism": 4, "activeDeadlineSeconds": 60,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}},
        }}}})
    }

    fn denials(object: &Value, old: &Value) -> Vec<String> {
        let claim =
            |mode: &str| Fact::Known(Claim { access_modes: vec![mode.to_owned()], source: Source::Cluster });
        let claims = [
            ("checkpoints", "ReadWriteOnce"),
            ("ckpt-2", "ReadWriteOnce"),
            ("data", "ReadWriteOnce"),
            ("shared", "ReadWriteMany"),
        ];
        let facts = FactTable {
            claims: claims
                .iter()
                .map(|(name, mode)| ((String::new(), (*name).to_owned()), claim(mode)))
                .collect(),
            ..FactTable::default()
        };
        let request = Request {
            operation: Operation::Update,
            origin: Origin::Admission,
            object,
            old: Some(old),
            same_spec: None,
            namespace: "",
            user: None,
            today: None,
        };
        let verdict = evaluate(&Policy::default(), &facts, &request);
        verdict
            .findings
            .iter()
            .filter(|finding| finding.level == Level::Deny)
            .map(|finding| finding.path.to_string())
            .collect()
    }

    #[test]
    fn a_violation_that_moves_in_its_list_is_an_old_one() {
        let old = job(&[("ckpt", "checkpoints")]);
        assert_eq!(denials(&job(&[("new", "shared"), ("ckpt", "checkpoints")]), &old), [""; 0]);
        let path = "spec.jobTemplate.spec.template.spec.volumes[0].persistentVolumeClaim.claimName";
        assert_eq!(
            denials(&job(&[("second", "ckpt-2"), ("ckpt", "checkpoints")]), &old),
            [path],
            "one of another name is new"
        );
    }

    #[test]
    fn a_renamed_volume_is_the_same_violation_and_another_claim_is_not() {
        let old = job(&[("ckpt", "checkpoints")]);
        assert_eq!(denials(&job(&[("renamed", "checkpoints")]), &old), [""; 0]);
        assert_eq!(denials(&job(&[("ckpt", "ckpt-2")]), &old).len(), 1);
    }

    /// Returns whether an update of a Job is denied, where Kueue's label is a bound and an hour is the most.
    fn is_denied(old: &Value, change: &Value) -> bool {
        let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: own}\n\
                      spec: {rules: {deadline: {action: deny, params: {kueueMaxExecTime: true, maximum: 3600}}}}\n";
        let policy = Policy::parse(policy, "own.yaml").unwrap();
        let mut object = old.clone();
        patch::merge(&mut object, change);
        let (operation, origin) = (Operation::Update, Origin::Admission);
        let request = Request {
            operation,
            origin,
            object: &object,
            old: Some(old),
            same_spec: None,
            namespace: "",
            user: None,
            today: None,
        };
        evaluate(&policy, &FactTable::default(), &request).level() == Some(Level::Deny)
    }

    /// A suspended Job in a queue, with a label that bounds it and this deadline of its own.
    fn queued(label: &str, deadline: &Value) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "train", "labels": {KUEUE_QUEUE: "gpu", KUEUE_MAX_EXEC_TIME: label, "team": "a"}},
            "spec": {"suspend": true, "activeDeadlineSeconds": deadline,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        })
    }

    const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
    const KUEUE_MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";

    #[test]
    fn a_bound_by_kueue_cannot_be_taken_away_by_its_labels() {
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        let (bound, endless) = (queued("60", &json!(null)), queued("soon", &json!(null)));
        for change in [
            labels(json!({KUEUE_MAX_EXEC_TIME: null})),
            labels(json!({KUEUE_QUEUE: null})),
            labels(json!({KUEUE_MAX_EXEC_TIME: "3601"})),
            json!({"metadata": {"labels": null}}),
            json!({"metadata": {"labels": {KUEUE_QUEUE: null}}, "spec": {"suspend": false}}),
        ] {
            assert!(is_denied(&bound, &change), "{change}");
            // What has no end already is not denied for its labels, and nothing that has finished is denied.
            assert!(!is_denied(&endless, &change), "{change}");
            let mut finished = bound.clone();
            finished["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
            assert!(!is_denied(&finished, &change), "{change}");
            finished["status"] = json!({"conditions": [{"type": "Failed", "status": "False"}, {"type": "Suspended", "status": "True"}]});
            assert!(is_denied(&finished, &change), "{change}");
        }
        for change in [
            labels(json!({"team": null})),
            labels(json!({KUEUE_MAX_EXEC_TIME: "3600", KUEUE_QUEUE: "other"})),
            json!({"spec": {"suspend": false}, "metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}}}),
            json!({"metadata": {"finalizers": ["example.com/hold"], "labels": {KUEUE_MAX_EXEC_TIME: "1"}}}),
        ] {
            assert!(!is_denied(&bound, &change) && !is_denied(&endless, &change), "{change}");
        }
        // A deadline of its own is enough.
        let own = queued("60", &json!(600));
        assert!(!is_denied(&own, &labels(json!({KUEUE_MAX_EXEC_TIME: null}))));
    }

    #[test]
    fn a_deadline_that_is_too_long_may_not_grow() {
        let labels = json!({"metadata": {"labels": null}});
        let of = |deadline: Value| {
            let mut job = queued("0", &deadline);
            patch::merge(&mut job, &labels);
            job
        };
        let to = |deadline: Value| json!({"spec": {"activeDeadlineSeconds": deadline, "parallelism": 2}});
        for (old, new, denied) in [
            (json!(7200), json!(7201), true),
            (json!(7200), json!(null), true),
            (json!(7200), json!(7200), false),
            (json!(7200), json!(7199), false),
            (json!(null), json!(7200), false),
            (json!(null), json!(null), false),
            // Both of them end at once.
            (json!(0), json!(7200), true),
            (json!(9_223_372_037_i64), json!(7200), true),
            (json!(7200), json!(0), false),
            (json!(60), json!(3601), true),
        ] {
            assert_eq!(is_denied(&of(old.clone()), &to(new.clone())), denied, "{old} to {new}");
        }
    }

    #[test]
    fn what_was_a_warning_and_is_a_denial_now_is_new() {
        let old = job(&[("vol", "data")]);
        assert_eq!(denials(&job(&[("vol", "checkpoints")]), &old).len(), 1);
    }

    /// An AppWrapper with these annotations around Jobs without a deadline, which have others.
    fn wrapper(annotations: &Value, of_jobs: &[Value]) -> Value {
        let component = |own: &Value| {
            let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
            json!({"template": {
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"annotations": own},
                "spec": {"template": {"spec": spec}},
            }})
        };
        json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": "w", "annotations": annotations},
            "spec": {"components": of_jobs.iter().map(component).collect::<Vec<_>>()},
        })
    }

    fn findings(object: &Value) -> Vec<(RuleId, String)> {
        let policy = Policy::builtin("default").expect("a policy");
        let verdict = evaluate(&policy, &FactTable::default(), &Request::from_file(object, None));
        verdict.findings.iter().map(|finding| (finding.rule.clone(), finding.path.to_path())).collect()
    }

    #[test]
    fn annotations_around_several_objects_are_reported_once_and_in_their_place() {
        let of_annotations = |object: &Value| {
            let mut found = findings(object);
            found.retain(|(_, path)| path.contains("annotations"));
            found
        };
        let typo = json!({"jobgate.dev/ignore": "deadlin"});
        let around = of_annotations(&wrapper(&typo, &[json!({}), json!({})]));
        assert_eq!(around, [("unknown-rule".into(), "metadata.annotations[jobgate.dev/ignore]".to_owned())]);
        let inside = of_annotations(&wrapper(&json!({}), &[json!({}), typo]));
        let place = "spec.components[1].template.metadata.annotations[jobgate.dev/ignore]";
        assert_eq!(inside, [("unknown-rule".into(), place.to_owned())]);
        let denied = json!({"jobgate.dev/ignore": "deadline"});
        let around = of_annotations(&wrapper(&denied, &[json!({}), json!({})]));
        let expected = "metadata.annotations[jobgate.dev/ignore]".to_owned();
        assert_eq!(around, [("annotation-without-effect".into(), expected)]);
    }

    #[test]
    fn an_object_inside_is_judged_anew_only_if_it_changes() {
        let level = |object: &Value, old: &Value| {
            let policy = Policy::builtin("default").expect("a policy");
            let request = Request {
                operation: Operation::Update,
                origin: Origin::Admission,
                object,
                old: Some(old),
                same_spec: None,
                namespace: "team",
                user: None,
                today: None,
            };
            evaluate(&policy, &FactTable::default(), &request).level()
        };
        let old = wrapper(&json!({}), &[json!({}), json!({})]);
        let mut other = old.clone();
        other["spec"]["suspend"] = true.into();
        assert_eq!(level(&other, &old), Some(Level::Warn));
        let mut worse = old.clone();
        worse["spec"]["components"][1]["template"]["spec"]["template"]["spec"]["restartPolicy"] =
            "Always".into();
        assert_eq!(level(&worse, &old), Some(Level::Deny));
    }
}
