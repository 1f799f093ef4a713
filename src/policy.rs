//! What to do about each rule's findings, for which objects: the policy, as read from `policies/*.yaml`.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde_json::Value;

use crate::engine::Request;
use crate::rule::Rule;
use crate::workload::Kind;

/// What is done about a rule's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The object is refused.
    Deny,
    /// The object is admitted with a warning.
    Warn,
    /// The webhook fills the value in; only for rules that can.
    Fill,
    /// The rule does not run.
    Ignore,
}

/// Which findings an author may lift with the annotation `jobgate.dev/ignore`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptOut {
    /// None.
    None,
    /// Those that do not deny.
    #[default]
    Warnings,
    /// All.
    Denials,
}

/// Which objects an override or exemption is for. All that is given must match.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// Globs; the object's namespace must match one.
    pub namespaces: Vec<globset::GlobMatcher>,
    /// The object must be of one of these kinds.
    pub kinds: Vec<Kind>,
    /// Globs; the object's name must match one.
    pub names: Vec<globset::GlobMatcher>,
    /// Labels the object must carry.
    pub labels: BTreeMap<String, String>,
}

/// A rule's action and parameters, as far as they are set.
#[derive(Clone, Debug, Default)]
pub struct RuleSettings {
    /// The action, where set.
    pub action: Option<Action>,
    /// Parameters, where set; checked against the rule's when the policy was read.
    pub params: BTreeMap<String, Value>,
}

/// Settings for some objects, on top of the policy's.
#[derive(Clone, Debug, Default)]
pub struct Override {
    /// Which objects.
    pub matcher: Matcher,
    /// Settings by rule id.
    pub rules: BTreeMap<String, RuleSettings>,
}

/// Lifts findings of some rules for some objects, for a reason and perhaps for a time.
#[derive(Clone, Debug)]
pub struct Exemption {
    /// Which objects.
    pub matcher: Matcher,
    /// Rule ids; empty for all.
    pub rules: Vec<String>,
    /// Why, for the people who will ask.
    pub reason: String,
    /// The last day on which it holds.
    pub until: Option<Date>,
}

/// A policy.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Its name, from `metadata.name`.
    pub name: String,
    /// Settings by rule id.
    pub rules: BTreeMap<String, RuleSettings>,
    /// Settings for some objects; later ones win.
    pub overrides: Vec<Override>,
    /// What is lifted.
    pub exemptions: Vec<Exemption>,
    /// Which findings an author may lift.
    pub opt_out: OptOut,
    /// Exact user names of controllers whose children are not judged again.
    pub trusted_controllers: Vec<String>,
    /// The first 12 hexadecimal digits of the SHA-256 of the source, to tell policies apart in logs and audit annotations.
    pub hash: String,
}

/// A rule's settings for one object, resolved.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The action.
    pub action: Action,
    params: BTreeMap<&'static str, Value>,
}

impl Effective {
    /// Returns a parameter's value. A name that the rule does not declare reads as null.
    #[must_use]
    pub fn param(&self, _rule: &Rule, name: &str) -> &Value {
        self.params.get(name).unwrap_or(&Value::Null)
    }
}

impl Matcher {
    /// Tells whether an object is meant.
    #[must_use]
    pub fn matches(&self, request: &Request<'_>, kind: Kind) -> bool {
        let any = |globs: &[globset::GlobMatcher], text: &str| globs.is_empty() || globs.iter().any(|glob| glob.is_match(text));
        let label = |key: &str| request.object.get("metadata")?.get("labels")?.get(key)?.as_str();
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && any(&self.namespaces, request.namespace)
            && any(&self.names, request.name())
            && self.labels.iter().all(|(key, value)| label(key) == Some(value))
    }
}

impl Exemption {
    /// Tells whether it speaks of a rule.
    #[must_use]
    pub fn covers(&self, rule: &str) -> bool {
        self.rules.is_empty() || self.rules.iter().any(|id| id == rule)
    }

    /// Tells whether it holds on a day; without a day it does.
    #[must_use]
    pub fn holds_on(&self, today: Option<Date>) -> bool {
        !matches!((self.until, today), (Some(until), Some(today)) if today > until)
    }
}

impl Policy {
    /// Returns a rule's settings for one object.
    #[must_use]
    pub fn settings(&self, rule: &'static Rule, request: &Request<'_>, kind: Kind) -> Effective {
        let mut action = rule.default;
        let mut params: BTreeMap<&'static str, Value> = rule.params.iter().map(|param| (param.name, param.default.to_value())).collect();
        let overrides = self.overrides.iter().filter(|over| over.matcher.matches(request, kind)).map(|over| &over.rules);
        for settings in std::iter::once(&self.rules).chain(overrides).filter_map(|rules| rules.get(rule.id)) {
            action = settings.action.unwrap_or(action);
            for (name, value) in &settings.params {
                if let Some(param) = rule.param(name) {
                    params.insert(param.name, value.clone());
                }
            }
        }
        Effective { action, params }
    }

    /// Returns the exemptions that speak of an object, whether they still hold or not.
    pub fn exemptions_for<'p>(&'p self, request: &'p Request<'_>, kind: Kind) -> impl Iterator<Item = &'p Exemption> {
        self.exemptions.iter().filter(move |exemption| exemption.matcher.matches(request, kind))
    }
}
