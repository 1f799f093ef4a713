//! The objects that an exported policy applies to: a policy's overrides, exemptions and trusted controllers.

use std::collections::BTreeMap;

use super::{CelSource, by_kind, list, quoted};
use crate::judge::engine::IGNORE;
use crate::judge::policy::{Action, Matcher, OptOut, Policy};
use crate::judge::rule::Kinds;
use crate::kinds::Kind;
use crate::text::value::{Value, json};

/// A judged object, by its name in expressions.
#[derive(Clone, Copy)]
pub(super) struct ConditionSubject {
    /// The object.
    pub(super) object: &'static str,
    /// The object around it: its name counts, and its annotations apply where the inner object has none.
    pub(super) around: Option<&'static str>,
}

impl ConditionSubject {
    /// Creates a subject that is not inside another object.
    pub(super) const fn itself(object: &'static str) -> Self {
        Self { object, around: None }
    }

    fn named(self) -> &'static str {
        self.around.unwrap_or(self.object)
    }
}

/// Returns the conditions under which an object is judged by a rule at a level.
pub(super) fn of_object(judge: &CelSource<'_>) -> Vec<Value> {
    let trusted = trusted(judge.policy).map(|trusted| ("not-made-by-a-trusted-controller", trusted));
    named(trusted.into_iter().chain(by_policy(judge, ConditionSubject::itself("object"))))
}

/// Returns the conditions of an object that has others inside.
pub(super) fn around(judge: &CelSource<'_>) -> Vec<Value> {
    named(trusted(judge.policy).map(|trusted| ("not-made-by-a-trusted-controller", trusted)))
}

fn named(conditions: impl IntoIterator<Item = (&'static str, String)>) -> Vec<Value> {
    conditions.into_iter().map(|(name, expression)| json!({"name": name, "expression": expression})).collect()
}

/// Returns the condition that no trusted controller made the object; nothing if the policy trusts none. Same as
/// [`crate::judge::trust`], except that the owner is not looked up.
fn trusted(policy: &Policy) -> Option<String> {
    if policy.trusted_controllers.is_empty() {
        return None;
    }
    let users = || policy.trusted_controllers.iter().map(String::as_str);
    let title = |group: &str, name: &str| format!("{group}/{name}");
    // Whatever the account, a parent only has children of the kinds that its operator makes.
    let children: BTreeMap<String, Vec<String>> = Kind::with_children()
        .map(|kind| {
            let made = kind.children.iter().map(|made| title(made.group, made.name));
            (title(kind.group, kind.name), made.collect())
        })
        .collect();
    // A known account makes objects for its own kinds; an account that the policy adds, for any kind.
    let mut parents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for user in users() {
        for kind in Kind::all().filter(|kind| kind.makers.contains(&user)) {
            parents.entry(user.to_owned()).or_default().push(title(kind.group, kind.name));
        }
    }
    Some(format!(
        "!(request.userInfo.username in {} &&
  object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) &&
  [{}].exists(parent,
    {} in {}[?parent].orValue([{}]) &&
    parent in {}[?request.userInfo.username].orValue([parent]))))",
        list(users()),
        by_kind::group_kind("owner"),
        by_kind::group_kind("object"),
        mapping(&children),
        by_kind::group_kind("object"),
        mapping(&parents),
    ))
}

/// Returns a mapping of strings to lists of them.
fn mapping(map: &BTreeMap<String, Vec<String>>) -> String {
    let entries =
        map.iter().map(|(key, all)| format!("{}: {}", quoted(key), list(all.iter().map(String::as_str))));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

/// Returns the conditions for a policy's exemptions, opt-out and overrides.
pub(super) fn by_policy(judge: &CelSource<'_>, subject: ConditionSubject) -> Vec<(&'static str, String)> {
    let CelSource { policy, rule, level, today, .. } = *judge;
    let mut conditions = Vec::new();
    let exempt: Vec<String> = policy
        .exemptions
        .iter()
        .filter(|exemption| exemption.covers(&rule.id) && exemption.holds_on(today))
        .map(|exemption| matching(&exemption.matcher, policy, subject))
        .collect();
    if !exempt.is_empty() {
        conditions.push(("not-exempt", format!("!({})", exempt.join(" ||\n  "))));
    }
    let may_ignore =
        policy.opt_out == OptOut::Denials || (policy.opt_out == OptOut::Warnings && level == Action::Warn);
    if may_ignore {
        let id = quoted(&rule.id);
        let annotation = |object: &str| format!("{object}.?metadata.?annotations[?'{IGNORE}']");
        let annotation = match subject.around {
            None => annotation(subject.object),
            Some(around) => format!("{}.or({})", annotation(subject.object), annotation(around)),
        };
        conditions.push((
            "not-ignored-by-its-author",
            format!("!{annotation}.orValue('').split(',').exists(name, name.trim() == {id})"),
        ));
    }
    let overrides: Vec<(String, Action)> = policy
        .overrides
        .iter()
        .filter_map(|over| {
            Some((matching(&over.matcher, policy, subject), over.rules.get(&*rule.id)?.action?))
        })
        .collect();
    if !overrides.is_empty() {
        // The last match wins. A list, since conditionals can be nested only 250 deep.
        let base = quoted(policy.base(&rule.id).map_or(rule.default, |base| base.action).as_str());
        let fitting =
            overrides.iter().map(|(fits, action)| format!("{fits} ? {} : ''", quoted(action.as_str())));
        let all: Vec<String> = std::iter::once(base).chain(fitting).collect();
        conditions.push((
            "of-this-level",
            format!(
                "[[{}].filter(action, action != '')].exists(fits, fits[size(fits) - 1] == {})",
                all.join(",\n  "),
                quoted(level.as_str())
            ),
        ));
    }
    conditions
}

/// Returns an expression that tells whether a matcher matches an object.
pub(super) fn matching(matcher: &Matcher, policy: &Policy, subject: ConditionSubject) -> String {
    let object = subject.object;
    let mut all = Vec::new();
    if !matcher.kinds.is_empty() {
        // Kinds of different groups may have the same name.
        let mut kinds: Vec<String> =
            matcher.kinds.iter().map(|kind| format!("{}/{}", kind.group, kind.name)).collect();
        kinds.dedup();
        let kinds = list(kinds.iter().map(String::as_str));
        all.push(format!("{} in {kinds}", by_kind::group_kind(object)));
    }
    let name = format!("{}.metadata.name", subject.named());
    for (globs, text) in [(&matcher.namespaces, "request.namespace"), (&matcher.names, name.as_str())] {
        if !globs.is_empty() {
            let any: Vec<String> =
                globs.iter().map(|glob| format!("{text}.matches({})", quoted(&regex(glob.glob())))).collect();
            all.push(if any.len() == 1 { any.concat() } else { format!("({})", any.join(" || ")) });
        }
    }
    for (key, value) in &matcher.labels {
        let (key, value) = (quoted(key), quoted(value));
        all.push(format!("{object}.?metadata.?labels[?{key}] == optional.of({value})"));
    }
    if let Some(wanted) = matcher.accelerators {
        let asks = asks_for_accelerators(policy, object);
        all.push(if wanted { asks } else { format!("!{asks}") });
    }
    if all.is_empty() { "true".to_owned() } else { format!("({})", all.join(" && ")) }
}

/// Returns a glob as a Go regular expression, without globset's flag for bytes that are not text.
fn regex(glob: &globset::Glob) -> String {
    let regex = glob.regex();
    regex.strip_prefix("(?-u)").unwrap_or(regex).to_owned()
}

pub(super) fn asks_for_accelerators(policy: &Policy, object: &str) -> String {
    let resources: Vec<String> = policy.accelerators().map(resource_regex).collect();
    if resources.is_empty() {
        return "false".to_owned();
    }
    let table = quoted(&format!("^({})$", resources.join("|")));
    format!(
        "[dyn({object})].map(o,
    {})[0].exists(template, ['initContainers', 'containers', 'ephemeralContainers'].exists(slot,
    template.?spec[?slot].orValue([]).exists(container, ['limits', 'requests'].exists(side,
    container.?resources[?side].orValue({{}}).exists(resource, resource.matches({table}) &&
    isQuantity(string(container.resources[side][resource])) &&
    quantity(string(container.resources[side][resource])).isGreaterThan(quantity('0'))))))",
        by_kind::templates(Kinds::WithDeadline)
    ) + ")"
}

/// Returns an entry of the table of accelerators, which may hold one `*`, as a regular expression.
fn resource_regex(pattern: &str) -> String {
    let literal = |text: &str| {
        text.chars().fold(String::new(), |mut out, char| {
            if char.is_ascii_punctuation() {
                out.push('\\');
            }
            out.push(char);
            out
        })
    };
    pattern
        .split_once('*')
        .map_or_else(|| literal(pattern), |(head, tail)| format!("{}.*{}", literal(head), literal(tail)))
}
