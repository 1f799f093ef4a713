//! What a rule is, and what it is given.
//!
//! A rule is a static [`Rule`] in `rules/<id>.rs`; the doc comment of that file is its manual page. Its check is given a [`Cx`] and reports findings.

use std::borrow::Cow;

use crate::judge::engine::Request;
use crate::judge::facts::Facts;
use crate::judge::finding::{Finding, Level, Part as FindingPart};
use crate::judge::policy::{Action, Effective};
use crate::kinds::{Kind, Workload};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value};

/// One rule: data, and one function.
#[derive(Debug)]
pub struct Rule {
    /// Kebab-case id; the file, the fixture folder and the page are named after it.
    pub id: &'static str,
    /// One line: what must hold.
    pub summary: &'static str,
    /// The kinds it looks at.
    pub kinds: &'static [Kind],
    /// What is done about a finding unless the policy says otherwise.
    pub default: Action,
    /// Where its fills may write: JSON Pointers with `*` for any one step. Empty for a rule that cannot fill.
    pub fills: &'static [&'static str],
    /// Its parameters.
    pub params: &'static [Param],
    /// The rule in CEL, for an API server to judge by itself; or why that cannot be.
    pub cel: Result<Cel, &'static str>,
    /// Finds what is wrong.
    pub check: fn(&mut Cx<'_>),
    /// On UPDATE of a Job or PyTorchJob: what puts back that which an apply of the author's manifest takes out of what the webhook
    /// filled in. It is asked whatever the policy says of the rule: what was filled in under another one must not be in the way.
    pub restore: Option<fn(&Cx<'_>) -> Vec<Op>>,
    /// What makes a violation a new one on UPDATE, besides its place.
    pub ratchet: Ratchet,
}

/// On UPDATE only new violations are denied. One is known by its place; this is what a rule adds to that.
#[derive(Clone, Copy, Debug)]
pub struct Ratchet {
    /// Labels of the object that the rule reads. Without a change of the spec, a change of one of these, and of nothing else, may be denied.
    pub labels: &'static [&'static str],
    /// How bad it is, where that can be said: a violation that has grown is a new one.
    pub measure: Option<Measure>,
}

/// How bad a violation is, of an object that may have one: in code and in CEL.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The number.
    pub of: fn(&Workload<'_>) -> i64,
    /// The same number, as an expression over `o`; only asked for of rules that are written in CEL.
    pub cel: &'static str,
}

impl Ratchet {
    /// The place is all there is to it.
    pub const BY_PLACE: Self = Self { labels: &[], measure: None };
}

/// A rule in the Common Expression Language, as a `ValidatingAdmissionPolicy` has it.
#[derive(Debug)]
pub struct Cel {
    /// The kinds for which this is worth it: what breaks the rule in another, the API server itself refuses.
    pub kinds: &'static [Kind],
    /// The parameters of the rule that `places` names, each as `$name`: booleans and whole numbers.
    pub params: &'static [&'static str],
    /// The places that break the rule, as a list of strings: an expression over `o`, an object of one of the kinds, after the API server's validation.
    pub places: &'static str,
}

/// One parameter of a rule, with its type and default.
#[derive(Debug)]
pub struct Param {
    /// camelCase name, as it stands in a policy.
    pub name: &'static str,
    /// One sentence: meaning and unit.
    pub doc: &'static str,
    /// Type and default.
    pub default: ParamDefault,
}

/// Type and default value of a [`Param`].
#[derive(Debug)]
pub enum ParamDefault {
    /// A boolean.
    Bool(bool),
    /// An integer, not below `least`.
    Int {
        /// The default.
        value: i64,
        /// The smallest value allowed.
        least: i64,
    },
    /// A list of strings.
    Strings(&'static [&'static str]),
    /// A mapping of strings to strings.
    Map(&'static [(&'static str, &'static str)]),
}

impl ParamDefault {
    /// Returns the default as JSON, which is how a policy holds it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Int { value, .. } => (*value).into(),
            Self::Strings(list) => list.iter().copied().collect(),
            Self::Map(map) => map.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect::<Map>().into(),
        }
    }
}

impl Rule {
    /// Tells whether the rule can fill values in.
    #[must_use]
    pub fn can_fill(&self) -> bool {
        !self.fills.is_empty()
    }

    /// Returns a parameter by name.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// Returns the rule's file name without ending, which is also the name of its fixture folder.
    #[must_use]
    pub fn file(&self) -> String {
        self.id.replace('-', "_")
    }
}

/// What one rule is given to look at one object, and where it reports.
#[allow(missing_debug_implementations, reason = "facts are a trait object")]
pub struct Cx<'a> {
    /// The rule that runs.
    pub rule: &'static Rule,
    /// The object, its old state and how it came.
    pub request: &'a Request<'a>,
    /// The object, seen as a workload.
    pub workload: &'a Workload<'a>,
    pub(crate) facts: &'a dyn Facts,
    pub(crate) settings: &'a Effective,
    /// What was found so far, by this rule and those before it.
    pub(crate) findings: Vec<Finding>,
    /// Whether the object is a part of one, so that nothing can be said to be missing.
    pub(crate) partial: bool,
}

impl<'a> Cx<'a> {
    /// Returns the facts about the world around the object.
    #[must_use]
    pub fn facts(&self) -> &'a dyn Facts {
        self.facts
    }

    /// Reports that something is wrong at an existing place. The level is the policy's for this rule.
    pub fn report(&mut self, at: &Pointer, message: impl Into<Cow<'static, str>>) -> &mut Finding {
        meter::spend(4);
        let (level, fills) = match self.settings.action {
            Action::Deny => (Level::Deny, false),
            Action::Warn => (Level::Warn, false),
            Action::Fill => (Level::Note, true),
            Action::Ignore => (Level::Note, false),
        };
        self.findings.push(Finding {
            rule: self.rule.id,
            level,
            pointer: at.clone(),
            part: FindingPart::Value,
            message: message.into(),
            help: Cow::Borrowed(""),
            path: at.clone(),
            labels: Vec::new(),
            fix: None,
            fills,
        });
        let last = self.findings.len() - 1;
        &mut self.findings[last]
    }

    /// Returns the finding that the rule reported last.
    pub fn last(&mut self) -> Option<&mut Finding> {
        self.findings.last_mut().filter(|finding| finding.rule == self.rule.id)
    }

    /// Reports that a field is missing. Says nothing of a partial object, whose rest nobody has seen.
    ///
    /// The finding points at the nearest mapping around the field that exists.
    pub fn missing(&mut self, field: &Pointer, message: impl Into<Cow<'static, str>>) -> Option<&mut Finding> {
        if self.partial {
            return None;
        }
        let found = self.report(&field.nearest(self.request.object), message);
        Some(found.field(field.clone()).at_key())
    }

    /// Returns a boolean parameter.
    #[must_use]
    pub fn bool(&self, name: &str) -> bool {
        self.settings.param(self.rule, name).as_bool().unwrap_or_default()
    }

    /// Returns an integer parameter.
    #[must_use]
    pub fn int(&self, name: &str) -> i64 {
        self.settings.param(self.rule, name).as_i64().unwrap_or_default()
    }

    /// Returns a list parameter.
    pub fn strings(&self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.settings.param(self.rule, name).as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str)
    }

    /// Returns a mapping parameter, in key order.
    pub fn map(&self, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let map = self.settings.param(self.rule, name).as_object();
        map.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)))
    }
}
