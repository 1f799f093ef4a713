//! Policies, as read from `policies/*.yaml`: what to do about each rule's findings, for which objects.
//!
//! [`Policy::parse`] is strict and reports all errors at once. It settles everything that does not depend on
//! the object; judging an object only looks for matching overrides.

mod read;
mod schema;
pub mod tables;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::civil::Date;
use sha2::{Digest as _, Sha256};

pub use crate::judge::action::Action;
pub use crate::judge::effective::Effective;
pub use schema::schema;

use crate::judge::needs::Needs;
use crate::judge::request::Request;
use crate::judge::rule::Rule;
use crate::judge::rules::RuleSet;
pub use crate::judge::settings::{API_VERSION, SettingsError as PolicyError, SettingsErrors as PolicyErrors};
use crate::judge::simulation::ProgramDefaults;
use crate::kinds::accelerator;
use crate::kinds::{Kind, Workload};
use crate::text::value::Value;

/// `kind` of a policy.
pub const KIND: &str = "Policy";

/// Returns the default of `trustedControllers`: the controllers that create objects of our kinds, with their
/// own accounts or with that of a kube-controller-manager without `--use-service-account-credentials`.
///
/// Denying what they create would only pile up runs (docs/internals/webhook.md#objects-of-controllers); the
/// parent has been judged.
pub(crate) fn trusted_controllers() -> impl Iterator<Item = &'static str> {
    let mut makers: Vec<&str> = Vec::new();
    let all = Kind::all().flat_map(|kind| kind.makers.iter().copied());
    for maker in all.chain(["system:kube-controller-manager"]) {
        if !makers.contains(&maker) {
            makers.push(maker);
        }
    }
    makers.into_iter()
}

/// Which findings an author may suppress with the annotation `jobgate.dev/ignore`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptOut {
    /// None.
    None,
    /// Those that do not deny.
    #[default]
    Warnings,
    /// All.
    Denials,
}

impl OptOut {
    /// All values, from the strictest.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Warnings, Self::Denials];

    /// Returns the value's name in a policy.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Warnings => "warnings",
            Self::Denials => "denials",
        }
    }
}

/// The objects to which an override or exemption applies. All given conditions must match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    /// Globs; the object's namespace must match one.
    pub(crate) namespaces: Vec<globset::GlobMatcher>,
    /// The object must be of one of these kinds.
    pub kinds: Vec<Kind>,
    /// Globs; the object's name must match one.
    pub(crate) names: Vec<globset::GlobMatcher>,
    /// Labels the object must carry.
    pub(crate) labels: BTreeMap<String, String>,
    /// Whether one of the object's pods must request an accelerator, or none may.
    pub(crate) accelerators: Option<bool>,
}

/// A rule's action and parameters, as far as they are set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSettings {
    /// The action, where set.
    pub action: Option<Action>,
    /// Parameters, where set; checked against the rule's when the policy was read.
    pub params: BTreeMap<String, Value>,
}

impl RuleSettings {
    /// Overrides a rule's settings with these. Parameters that the rule does not declare are dropped.
    fn put_on(&self, effective: &mut Effective, rule: &Rule) {
        let declared = |(name, value): (&String, &Value)| Some((rule.param(name)?.name, value.clone()));
        effective.apply(self.action, self.params.iter().filter_map(declared));
    }
}

/// Settings for some objects, on top of the policy's.
#[derive(Clone, Debug, Default)]
pub struct Override {
    /// The objects.
    pub(crate) matcher: Matcher,
    /// Settings by rule id.
    pub rules: BTreeMap<String, RuleSettings>,
}

/// Suppresses findings of some rules for some objects.
#[derive(Clone, Debug)]
pub struct Exemption {
    /// The objects.
    pub(crate) matcher: Matcher,
    /// Rule ids; empty for all.
    pub rules: Vec<String>,
    /// The reason.
    pub reason: String,
    /// The last day on which it is valid.
    pub until: Option<Date>,
}

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, from `metadata.name`.
    pub name: String,
    /// Settings for some objects; later ones win.
    pub overrides: Vec<Override>,
    /// The exemptions.
    pub exemptions: Vec<Exemption>,
    /// Which findings an author may suppress.
    pub(crate) opt_out: OptOut,
    /// Whether the webhook warns about what it has filled in.
    pub(crate) report_fills: bool,
    /// What is assumed of programs.
    pub assumptions: ProgramDefaults,
    /// Exact user names of controllers whose children are not judged again.
    pub trusted_controllers: Vec<String>,
    /// The first 12 hexadecimal digits of the source's SHA-256, for logs and audit annotations.
    pub hash: String,
    /// Its rules.
    rules: RuleSet,
    /// The settings that it has for them, by rule id.
    settings: BTreeMap<String, RuleSettings>,
    /// The defaults of the rules with `settings` applied, in the order of `rules`.
    settled: Vec<Effective>,
    /// The table of accelerators: resource, taint key.
    taints: Vec<(String, String)>,
}

/// An object as matchers see it.
#[derive(Debug)]
struct PolicySubject<'s> {
    request: &'s Request<'s>,
    workload: &'s Workload<'s>,
    taints: &'s [(String, String)],
    /// Whether it requests an accelerator, computed on first use.
    accelerators: OnceCell<bool>,
}

impl PolicySubject<'_> {
    fn asks_for_accelerators(&self) -> bool {
        *self.accelerators.get_or_init(|| {
            let taints: Vec<(&str, &str)> =
                self.taints.iter().map(|(resource, key)| (resource.as_str(), key.as_str())).collect();
            let by_pods =
                || self.workload.pods.iter().any(|pod| accelerator::requests(pod, &taints).next().is_some());
            // Its requests for the pods of another object count as its own.
            let for_others = self.workload.kind.runs_in.map(|of| self.workload.object.at(of.resources));
            by_pods()
                || for_others.is_some_and(|resources| {
                    accelerator::requested(resources.value, &taints).next().is_some()
                })
        })
    }
}

impl Matcher {
    fn matches(&self, subject: &PolicySubject<'_>) -> bool {
        let any = |globs: &[globset::GlobMatcher], text: &str| {
            globs.is_empty() || globs.iter().any(|glob| glob.is_match(text))
        };
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.is_same(subject.workload.kind)))
            && any(&self.namespaces, subject.request.namespace)
            && any(&self.names, subject.request.name())
            && self.labels.iter().all(|(key, value)| subject.workload.label(key) == Some(value))
            && self.accelerators.is_none_or(|wanted| wanted == subject.asks_for_accelerators())
    }
}

impl Exemption {
    /// Tells whether it covers a rule.
    #[must_use]
    pub(crate) fn covers(&self, rule: &str) -> bool {
        self.rules.is_empty() || self.rules.iter().any(|id| id == rule)
    }

    /// Tells whether it is valid on a day; without a day it is.
    #[must_use]
    pub fn holds_on(&self, today: Option<Date>) -> bool {
        !matches!((self.until, today), (Some(until), Some(today)) if today > until)
    }
}

/// A policy's settings for one object.
#[derive(Debug)]
pub(crate) struct Scope<'p> {
    policy: &'p Policy,
    subject: PolicySubject<'p>,
    overrides: Vec<&'p Override>,
}

impl<'p> Scope<'p> {
    /// Returns the exemptions that match the object, including ended ones.
    pub(crate) fn exemptions(&self) -> impl Iterator<Item = &'p Exemption> + use<'_, 'p> {
        self.policy.exemptions.iter().filter(|exemption| exemption.matcher.matches(&self.subject))
    }

    /// Returns some of the policy's rules with their settings for the object.
    pub(crate) fn rules(
        &self,
        chosen: impl Fn(&Rule) -> bool,
    ) -> impl Iterator<Item = (&'p Rule, Effective)> {
        let bases = self.policy.bases().filter(move |(rule, _)| chosen(rule));
        bases.map(|(rule, base)| (rule, self.settled(rule, base)))
    }

    /// Returns a rule's settings for the object; nothing if the policy has no such rule.
    #[cfg(test)]
    fn settings(&self, rule: &str) -> Option<Effective> {
        let (rule, base) = self.policy.rule(rule)?;
        Some(self.settled(rule, base))
    }

    fn settled(&self, rule: &Rule, base: &Effective) -> Effective {
        let mut effective = base.clone();
        for settings in self.overrides.iter().filter_map(|over| over.rules.get(&*rule.id)) {
            settings.put_on(&mut effective, rule);
        }
        effective
    }
}

impl Policy {
    /// Reads a policy with the built-in rules. `name` is the path of its file, for errors.
    ///
    /// # Errors
    ///
    /// All errors in the policy.
    pub fn parse(source: &str, name: &str) -> Result<Self, PolicyErrors> {
        Self::parse_with(RuleSet::built_in(), source, name)
    }

    /// Reads a policy with some rules. `name` is the path of its file, for errors.
    ///
    /// # Errors
    ///
    /// All errors in the policy.
    pub fn parse_with(rules: RuleSet, source: &str, name: &str) -> Result<Self, PolicyErrors> {
        read::policy(rules, source, name)
    }

    /// Returns the hash of a policy's source, by which people compare policies.
    #[must_use]
    pub fn hash_of(source: &str) -> String {
        Sha256::digest(source).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns its rules.
    #[must_use]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Returns the settings that the policy has, by rule id.
    #[must_use]
    pub fn settings(&self) -> &BTreeMap<String, RuleSettings> {
        &self.settings
    }

    /// Returns the policy with settings for some rules, in place of its own.
    #[must_use]
    pub fn with_settings(mut self, settings: BTreeMap<String, RuleSettings>) -> Self {
        self.settle(settings);
        self
    }

    /// Sets the settings for some rules, and applies them to the rules' defaults.
    fn settle(&mut self, settings: BTreeMap<String, RuleSettings>) {
        let settle = |rule: &Rule| {
            let mut effective = Effective::new(rule.default, rule.params);
            if let Some(settings) = settings.get(&*rule.id) {
                settings.put_on(&mut effective, rule);
            }
            effective
        };
        self.settled = self.rules.iter().map(settle).collect();
        self.settings = settings;
        let own = |(resource, key): (&str, &str)| (resource.to_owned(), key.to_owned());
        let table = self.bases().find_map(|(rule, base)| Some((rule.accelerators?, base)));
        self.taints = match table {
            Some((param, base)) => base.mapping(&param).map(own).collect(),
            None => accelerator::TAINTS.iter().copied().map(own).collect(),
        };
    }

    /// Returns the rules with their settings for objects without an override.
    pub fn bases(&self) -> impl Iterator<Item = (&Rule, &Effective)> {
        self.rules.iter().zip(&self.settled)
    }

    /// Returns a rule's settings for objects without an override; nothing if the policy has no such rule.
    #[must_use]
    pub fn base(&self, rule: &str) -> Option<&Effective> {
        Some(self.rule(rule)?.1)
    }

    fn rule(&self, id: &str) -> Option<(&Rule, &Effective)> {
        let at = self.rules.position(id)?;
        Some((self.rules.at(at)?, self.settled.get(at)?))
    }

    /// Returns the resources that are accelerators, which may contain one `*` each.
    pub(crate) fn accelerators(&self) -> impl Iterator<Item = &str> {
        self.taints.iter().map(|(resource, _)| resource.as_str())
    }

    /// Tells whether some rule denies for some object.
    #[must_use]
    pub fn can_deny(&self) -> bool {
        let overrides = self.overrides.iter().flat_map(|over| over.rules.values());
        self.settled.iter().any(|settings| settings.action == Action::Deny)
            || overrides.into_iter().any(|rule| rule.action == Some(Action::Deny))
    }

    /// Tells whether a rule runs for some object.
    #[must_use]
    pub(crate) fn uses(&self, rule: &str) -> bool {
        let overrides = self.overrides.iter().filter_map(|over| over.rules.get(rule)?.action);
        let base = self.base(rule).map(|base| base.action);
        base.into_iter().chain(overrides).any(|action| action != Action::Ignore)
    }

    /// Returns the needs of the rules in force: those that run for some object, and those that restore. The
    /// latter restore whatever their action is, and look nothing up for it.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let needs = |rule: &Rule| match rule.restore {
            _ if rule.needs == Needs::NONE => Needs::NONE,
            _ if self.uses(&rule.id) => rule.needs,
            Some(_) => rule.needs.of_object(),
            None => Needs::NONE,
        };
        self.rules.iter().fold(Needs::NONE, |all, rule| all | needs(rule))
    }

    /// Returns the policy with all rules ignored, except those chosen by id.
    #[must_use]
    pub fn with_only(mut self, chosen: impl Fn(&str) -> bool) -> Self {
        let mut settings = std::mem::take(&mut self.settings);
        for id in self.rules.iter().map(|rule| &*rule.id).filter(|id| !chosen(id)) {
            settings.entry(id.to_owned()).or_default().action = Some(Action::Ignore);
            for over in &mut self.overrides {
                over.rules.remove(id);
            }
        }
        self.with_settings(settings)
    }

    /// Returns the settings for one object.
    #[must_use]
    pub(crate) fn scope<'p>(&'p self, request: &'p Request<'p>, workload: &'p Workload<'p>) -> Scope<'p> {
        let subject =
            PolicySubject { request, workload, taints: &self.taints, accelerators: OnceCell::new() };
        let overrides = self.overrides.iter().filter(|over| over.matcher.matches(&subject)).collect();
        Scope { policy: self, subject, overrides }
    }

    /// Returns a policy with the defaults of some rules.
    fn plain(rules: RuleSet, name: &str, source: &str) -> Self {
        let policy = Self {
            name: name.to_owned(),
            overrides: Vec::new(),
            exemptions: Vec::new(),
            opt_out: OptOut::default(),
            report_fills: true,
            assumptions: ProgramDefaults::default(),
            trusted_controllers: trusted_controllers().map(str::to_owned).collect(),
            hash: Self::hash_of(source),
            rules,
            settings: BTreeMap::new(),
            settled: Vec::new(),
            taints: Vec::new(),
        };
        policy.with_settings(BTreeMap::new())
    }
}

impl Default for Policy {
    /// Returns the policy `default` without reading it, and without a hash.
    fn default() -> Self {
        Self { hash: String::new(), ..Self::plain(RuleSet::built_in(), "default", "") }
    }
}

#[cfg(test)]
impl Policy {
    /// Reads one of the policies that come with the program.
    pub(crate) fn builtin(name: &str) -> Option<Self> {
        let file =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../policies/{name}.yaml"));
        Self::parse(&std::fs::read_to_string(file).ok()?, name).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::text::value::json;

    fn policy(spec: &str) -> Policy {
        let source =
            format!("{{apiVersion: {API_VERSION}, kind: {KIND}, metadata: {{name: test}}, spec: {spec}}}");
        Policy::parse(&source, "test.yaml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn job(name: &str, namespace: &str, resources: &Value) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": namespace, "labels": {"tier": "a"}},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "c:1", "resources": resources}]}}},
        })
    }

    /// Returns the deadline rule's action for an object.
    fn action(policy: &Policy, object: &Value) -> Action {
        let workload = Workload::from_object(object).unwrap();
        policy.scope(&Request::from_file(object, None), &workload).settings("deadline").unwrap().action
    }

    #[test]
    fn the_default_is_the_embedded_file() {
        let (read, made) = (Policy::builtin("default").unwrap(), Policy::default());
        assert_eq!(read.settled, made.settled);
        assert_eq!((&read.name, read.opt_out, &read.taints), (&made.name, made.opt_out, &made.taints));
        assert_eq!(read.trusted_controllers, made.trusted_controllers);
        assert!(
            read.overrides.is_empty()
                && read.exemptions.is_empty()
                && made.overrides.is_empty()
                && made.exemptions.is_empty()
        );
    }

    #[test]
    fn audit_denies_and_fills_nothing() {
        let audit = Policy::builtin("audit").unwrap();
        for rule in &RuleSet::built_in() {
            // Most fills need nobody's attention. Accelerators that nobody releases do.
            let is_quiet = match rule.default {
                Action::Note => true,
                Action::Fill => rule.id != "resources-released",
                _ => false,
            };
            let expected = match rule.default {
                Action::Ignore => Action::Ignore,
                _ if is_quiet => Action::Note,
                _ => Action::Warn,
            };
            assert_eq!(audit.base(&rule.id).unwrap().action, expected, "{}", rule.id);
        }
        assert!(audit.overrides.is_empty() && !audit.can_deny());
    }

    #[test]
    fn a_rule_is_used_where_it_is_not_ignored_for_every_object() {
        let source = |action: &str, overrides: &str| {
            format!(
                "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec:\n  rules: {{deadline: {{action: {action}}}}}\n{overrides}"
            )
        };
        let uses = |action: &str, overrides: &str| {
            Policy::parse(&source(action, overrides), "p").unwrap().uses("deadline")
        };
        assert!(uses("deny", "") && uses("warn", "") && !uses("ignore", ""));
        assert!(uses(
            "ignore",
            "  overrides: [{match: {namespaces: [a]}, rules: {deadline: {action: warn}}}]\n"
        ));
    }

    #[test]
    fn an_override_can_deny_too() {
        assert!(Policy::default().can_deny());
        assert!(Policy::builtin("accelerators").unwrap().can_deny());
    }

    #[test]
    fn accelerators_is_the_default_for_what_asks_for_one() {
        let policy = Policy::builtin("accelerators").unwrap();
        let (with, without) = (
            job("a", "b", &json!({"limits": {"nvidia.com/gpu": 1}})),
            job("a", "b", &json!({"limits": {"cpu": 1}})),
        );
        for rule in &RuleSet::built_in() {
            let settings = |object: &Value| {
                let workload = Workload::from_object(object).unwrap();
                policy.scope(&Request::from_file(object, None), &workload).settings(&rule.id).unwrap()
            };
            assert_eq!(Some(&settings(&with)), Policy::default().base(&rule.id), "{}", rule.id);
            assert_ne!(settings(&without).action, Action::Deny, "{}", rule.id);
        }
    }

    #[test]
    fn strict_is_the_default_or_denies() {
        let policy = Policy::builtin("strict").unwrap();
        for rule in &RuleSet::built_in() {
            let action = |policy: &Policy| policy.base(&rule.id).unwrap().action;
            let (strict, default) = (action(&policy), action(&Policy::default()));
            assert!(strict == Action::Deny || strict == default, "{}", rule.id);
            assert!(default != Action::Deny || strict == Action::Deny, "{}", rule.id);
        }
        assert_eq!(policy.base("resources-released").unwrap().action, Action::Deny);
    }

    #[test]
    fn the_table_of_accelerators_is_a_rules_parameter() {
        let taints: Vec<(&str, &str)> = accelerator::TAINTS.to_vec();
        let policy = Policy::default();
        let known: Vec<(&str, &str)> =
            policy.taints.iter().map(|(resource, key)| (&**resource, &**key)).collect();
        assert_eq!(known, taints);
    }

    #[test]
    fn a_policy_may_have_its_own_accelerators() {
        let policy = policy(
            "{rules: {gpu-toleration: {params: {taints: {example.com/npu: example.com/npu}}}},
              overrides: [{match: {accelerators: true}, rules: {deadline: {action: ignore}}}]}",
        );
        assert_eq!(
            action(&policy, &job("a", "b", &json!({"requests": {"example.com/npu": "2"}}))),
            Action::Ignore
        );
        assert_eq!(action(&policy, &job("a", "b", &json!({"limits": {"nvidia.com/gpu": 1}}))), Action::Deny);
    }

    #[test]
    fn all_that_a_matcher_names_must_fit() {
        let fits = |matcher: &str, object: &Value| {
            let spec =
                format!("{{overrides: [{{match: {matcher}, rules: {{deadline: {{action: ignore}}}}}}]}}");
            action(&policy(&spec), object) == Action::Ignore
        };
        let object = job("eval-7", "ci-main", &json!({"limits": {"nvidia.com/gpu": "0"}}));
        for yes in [
            "{namespaces: [ci-*]}",
            "{namespaces: [x, 'ci-{main,next}']}",
            "{kinds: [PyTorchJob, Job]}",
            "{names: ['eval-?']}",
            "{labels: {tier: a}}",
            "{accelerators: false}",
            "{namespaces: [ci-main], kinds: [Job], names: [eval-7], labels: {tier: a}, accelerators: false}",
        ] {
            assert!(fits(yes, &object), "{yes}");
        }
        for no in [
            "{namespaces: [ci]}",
            "{kinds: [CronJob]}",
            "{names: [eval]}",
            "{labels: {tier: b}}",
            "{labels: {other: a}}",
            "{accelerators: true}",
            "{namespaces: [ci-main], names: [other]}",
        ] {
            assert!(!fits(no, &object), "{no}");
        }
    }

    #[test]
    fn a_generated_name_is_matched_by_its_prefix() {
        let mut object = job("", "b", &json!({}));
        object["metadata"] = json!({"generateName": "eval-"});
        let policy = policy("{overrides: [{match: {names: [eval-*]}, rules: {deadline: {action: warn}}}]}");
        assert_eq!(action(&policy, &object), Action::Warn);
    }

    #[test]
    fn later_overrides_win_and_parameters_add_up() {
        let policy = policy(
            "{rules: {ttl-after-finished: {params: {seconds: 1, cronSeconds: 2}}},
              overrides: [{match: {names: [a]}, rules: {ttl-after-finished: {action: warn, params: {seconds: 3}}}},
                          {match: {kinds: [Job]}, rules: {ttl-after-finished: {action: ignore}}}]}",
        );
        let ttl = "ttl-after-finished";
        let object = job("a", "b", &json!({}));
        let workload = Workload::from_object(&object).unwrap();
        let settings = policy.scope(&Request::from_file(&object, None), &workload).settings(ttl).unwrap();
        assert_eq!(settings.action, Action::Ignore);
        assert_eq!(settings.param("seconds"), Some(&json!(3)));
        assert_eq!(settings.param("cronSeconds"), Some(&json!(2)));
        assert_eq!(settings.param("gitops"), Some(&json!(false)));
        assert_eq!(settings.param("other"), None);
        assert_eq!(
            policy.base(ttl).unwrap().param("seconds"),
            Some(&json!(1)),
            "an override leaves the policy as it was"
        );
    }

    #[test]
    fn settings_are_shared_where_no_override_speaks() {
        let policy = policy("{overrides: [{match: {names: [a]}, rules: {restart-policy: {action: warn}}}]}");
        let object = job("a", "b", &json!({}));
        let workload = Workload::from_object(&object).unwrap();
        let request = Request::from_file(&object, None);
        let scope = policy.scope(&request, &workload);
        let settled = policy.base("deadline").unwrap();
        assert!(Arc::ptr_eq(&scope.settings("deadline").unwrap().params, &settled.params));
    }

    #[test]
    fn exemptions_hold_until_the_end_of_their_last_day() {
        let policy =
            policy("{exemptions: [{match: {names: [a]}, rules: [deadline], reason: r, until: 2030-06-30}]}");
        let exemption = &policy.exemptions[0];
        assert!(exemption.holds_on(None));
        assert!(exemption.holds_on(Some(jiff::civil::date(2030, 6, 30))));
        assert!(!exemption.holds_on(Some(jiff::civil::date(2030, 7, 1))));
        assert!(exemption.covers("deadline") && !exemption.covers("restart-policy"));
        for (name, count) in [("a", 1), ("b", 0)] {
            let object = job(name, "x", &json!({}));
            let workload = Workload::from_object(&object).unwrap();
            let request = Request::from_file(&object, None);
            let scope = policy.scope(&request, &workload);
            assert_eq!(scope.exemptions().count(), count);
        }
    }

    #[test]
    fn the_hash_tells_policies_apart() {
        let (a, b) = (Policy::builtin("default").unwrap().hash, Policy::builtin("audit").unwrap().hash);
        assert_ne!(a, b);
        assert!(a.len() == 12 && a.chars().all(|c| c.is_ascii_hexdigit()));
        assert_eq!(Policy::plain(RuleSet::built_in(), "", "").hash, "e3b0c44298fc");
    }
}
