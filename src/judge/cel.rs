//! A policy as `ValidatingAdmissionPolicies`, for the rules that CEL can express
//! ([`Rule::export`](crate::judge::rule::Rule::export)).
//!
//! The exported policy works while Jobgate is down, costs no call, and answers like the webhook: the same
//! overrides, exemptions, opt-outs and trusted controllers, and on UPDATE the same leniency for existing
//! violations (also for one that was a warning and would be denied now, since the old object's level is not
//! computed). The API server evaluates it after validation, so types match the schema. Optional types (`.?`)
//! need Kubernetes 1.29, policies 1.30.

mod by_kind;

use std::fmt::Write as _;

use jiff::civil::Date;

use crate::judge::engine::IGNORE;
use crate::judge::policy::{Action, Exemption, Matcher, OptOut, Policy};
use crate::judge::rule::{Cel, Exportable, Kinds, Measure, Ratchet, Rule};
use crate::judge::rules::RULES;
use crate::kinds::registration::{self, NAMESPACE_LABEL, SYSTEM};
use crate::text::value::{Value, json};
use crate::text::yaml;

/// The exported parts of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    /// Each policy with its binding.
    pub objects: Vec<[Value; 2]>,
    /// One line for each part that was omitted or is temporary.
    pub notes: Vec<String>,
}

impl Export {
    /// Returns the objects as YAML documents, the notes as comments before them.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text: String = self.notes.iter().fold(String::new(), |mut text, note| {
            let _ = writeln!(text, "# {note}");
            text
        });
        let documents: Vec<String> = self.objects.iter().flatten().map(yaml::print).collect();
        text += &documents.join("---\n");
        text
    }
}

/// Exports a policy, without exemptions that ended before `today`. `own` is Jobgate's namespace, which is
/// excluded like those of the system.
#[must_use]
pub fn export(policy: &Policy, own: &str, today: Option<Date>) -> Export {
    let mut export = Export::default();
    let mut exported = Vec::new();
    for entry in RULES {
        let rule = entry.rule;
        let levels: Vec<Action> =
            [Action::Deny, Action::Warn].into_iter().filter(|level| can_be(policy, rule, *level)).collect();
        match &rule.export {
            Exportable::No(why) => export.notes.push(format!("Not exported: {}: {why}.", rule.id)),
            Exportable::Cel(_) if levels.is_empty() => {
                export.notes.push(format!("Not exported: {}: the policy neither denies nor warns.", rule.id));
            }
            Exportable::Cel(cel) => {
                exported.push(rule.id);
                export.objects.extend(
                    levels
                        .iter()
                        .map(|level| [judging(policy, rule, cel, *level, today), binding(rule, *level, own)]),
                );
            }
        }
    }
    let lifts = |exemption: &&Exemption| {
        exemption.holds_on(today) && exported.iter().any(|rule| exemption.covers(rule))
    };
    for exemption in policy.exemptions.iter().filter(lifts) {
        // CEL has no clock.
        if let Some(until) = exemption.until {
            export.notes.push(format!(
                "An exemption in this policy ends on {until}; export it again then ({}).",
                exemption.reason.escape_debug()
            ));
        }
    }
    export
}

/// Tells whether a rule has an action for some object.
fn can_be(policy: &Policy, rule: &'static Rule, action: Action) -> bool {
    let overrides = policy.overrides.iter().filter_map(|over| over.rules.get(rule.id)?.action);
    overrides.chain([policy.base(rule).action]).any(|own| own == action)
}

fn name(rule: &Rule, level: Action) -> String {
    if level == Action::Deny {
        format!("jobgate-{}", rule.id)
    } else {
        format!("jobgate-{}-{}", rule.id, level.as_str())
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "jobgate"}},
        "spec": spec,
    })
}

/// Returns whether the old object has finished.
fn has_finished(kinds: Kinds) -> String {
    format!("[dyn(oldObject)].map(o, {})[0]", by_kind::finished(kinds))
}

/// Returns the policy that judges by one rule, for the objects that the rule has one action for.
fn judging(policy: &Policy, rule: &'static Rule, cel: &Cel, level: Action, today: Option<Date>) -> Value {
    // Binds the object to a name: expressions cannot be given arguments.
    let places =
        |object: &str| format!("[dyn({object})].map(o,\n{}\n)[0]", with_params(policy, rule, cel, object));
    let (id, summary) = (quoted(&format!("{}: ", rule.id)), quoted(&format!(": {}", rule.summary)));
    // As the engine's ratchet has it.
    let Ratchet { labels, measure } = rule.ratchet;
    let measured = |object: &str, of: &str| format!("[dyn({object})].map(o,\n{of}\n)[0]");
    let grows = |measure: Measure| by_kind::with_roles(measure.cel, cel.kinds);
    let grown = |measure: Measure| {
        format!(" ||\n{} >\n{}", measured("object", &grows(measure)), measured("oldObject", &grows(measure)))
    };
    let grown = measure.map(grown).unwrap_or_default();
    let label =
        |object: &str, key: &str| format!("dyn({object}).metadata.?labels[?{}].orValue('')", quoted(key));
    let same: String = labels
        .iter()
        .map(|key| format!(" &&\n  {} == {}", label("object", key), label("oldObject", key)))
        .collect();
    let settled = format!("{} ||\n  dyn(object).spec == dyn(oldObject).spec{same}", has_finished(cel.kinds));
    let mut spec = json!({
        "failurePolicy": "Ignore",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": registration::rules(cel.kinds.exported())},
        "matchConditions": conditions(policy, rule, level, today),
        "variables": [
            {"name": "wrong", "expression": places("object")},
            {"name": "before", "expression": format!("oldObject == null{grown} ? [] : {}", places("oldObject"))},
        ],
        "validations": [{
            "expression": format!("variables.wrong.all(place, place in variables.before) ||\n(oldObject != null && ({settled}))"),
            "messageExpression": format!("{id} + variables.wrong.filter(place, !(place in variables.before)).join(', ') + {summary}"),
            "reason": "Forbidden",
        }],
    });
    if let Some(map) = spec.as_object_mut() {
        map.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    let mut object = object("ValidatingAdmissionPolicy", &name(rule, level), &spec);
    object["metadata"]["annotations"] =
        json!({"jobgate.dev/policy": policy.name, "jobgate.dev/policy-hash": policy.hash});
    object
}

/// Returns a rule's expression with the policy's parameters for an object.
fn with_params(policy: &Policy, rule: &'static Rule, cel: &Cel, object: &str) -> String {
    let base = policy.base(rule);
    cel.params.iter().fold(by_kind::with_roles(cel.places, cel.kinds), |text, name| {
        let own = base.param(rule, name).to_string();
        let others = policy.overrides.iter().filter_map(|over| {
            let value = over.rules.get(rule.id)?.params.get(*name)?;
            Some(format!("{} ? [{value}] : []", matching(&over.matcher, policy, object)))
        });
        let all: Vec<String> = others.collect();
        // The last that fits wins.
        let value = match all.is_empty() {
            true => own,
            false => format!(
                "[[[{own}],\n  {}].filter(set, size(set) > 0)].map(sets, sets[size(sets) - 1][0])[0]",
                all.join(",\n  ")
            ),
        };
        text.replace(&format!("${name}"), &value)
    })
}

fn binding(rule: &Rule, level: Action, own: &str) -> Value {
    let name = name(rule, level);
    let excluded: Vec<&str> = SYSTEM.into_iter().chain([own]).collect();
    let spec = json!({
        "policyName": name,
        "validationActions": [if level == Action::Deny { "Deny" } else { "Warn" }],
        "matchResources": {"namespaceSelector": {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": excluded}]}},
    });
    object("ValidatingAdmissionPolicyBinding", &name, &spec)
}

/// Returns the conditions under which an object is judged by a rule at a level.
fn conditions(policy: &Policy, rule: &'static Rule, level: Action, today: Option<Date>) -> Vec<Value> {
    let mut conditions = Vec::new();
    let mut add =
        |name: &str, expression: String| conditions.push(json!({"name": name, "expression": expression}));
    if !policy.trusted_controllers.is_empty() {
        let users = list(policy.trusted_controllers.iter().map(String::as_str));
        add(
            "not-made-by-a-trusted-controller",
            format!(
                "!(request.userInfo.username in {users} && object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false)))"
            ),
        );
    }
    let exempt: Vec<String> = policy
        .exemptions
        .iter()
        .filter(|exemption| exemption.covers(rule.id) && exemption.holds_on(today))
        .map(|exemption| matching(&exemption.matcher, policy, "object"))
        .collect();
    if !exempt.is_empty() {
        add("not-exempt", format!("!({})", exempt.join(" ||\n  ")));
    }
    let may_ignore =
        policy.opt_out == OptOut::Denials || (policy.opt_out == OptOut::Warnings && level == Action::Warn);
    if may_ignore {
        let id = quoted(rule.id);
        add(
            "not-ignored-by-its-author",
            format!(
                "!object.metadata.?annotations['{IGNORE}'].orValue('').split(',').exists(name, name.trim() == {id})"
            ),
        );
    }
    let overrides: Vec<(String, Action)> = policy
        .overrides
        .iter()
        .filter_map(|over| {
            Some((matching(&over.matcher, policy, "object"), over.rules.get(rule.id)?.action?))
        })
        .collect();
    if !overrides.is_empty() {
        // The last that fits wins. A list, as conditions within conditions can be nested 250 deep only.
        let base = quoted(policy.base(rule).action.as_str());
        let fitting =
            overrides.iter().map(|(fits, action)| format!("{fits} ? {} : ''", quoted(action.as_str())));
        let all: Vec<String> = std::iter::once(base).chain(fitting).collect();
        add(
            "of-this-level",
            format!(
                "[[{}].filter(action, action != '')].exists(fits, fits[size(fits) - 1] == {})",
                all.join(",\n  "),
                quoted(level.as_str())
            ),
        );
    }
    conditions
}

/// Returns an expression that tells whether a matcher matches `object` or `oldObject`.
fn matching(matcher: &Matcher, policy: &Policy, object: &str) -> String {
    let mut all = Vec::new();
    if !matcher.kinds.is_empty() {
        all.push(format!("{object}.kind in {}", list(matcher.kinds.iter().map(|kind| kind.name))));
    }
    let name = format!("{object}.metadata.name");
    for (globs, text) in [(&matcher.namespaces, "request.namespace"), (&matcher.names, name.as_str())] {
        if !globs.is_empty() {
            let any: Vec<String> =
                globs.iter().map(|glob| format!("{text}.matches({})", quoted(&regex(glob.glob())))).collect();
            all.push(if any.len() == 1 { any.concat() } else { format!("({})", any.join(" || ")) });
        }
    }
    for (key, value) in &matcher.labels {
        let (key, value) = (quoted(key), quoted(value));
        all.push(format!(
            "({key} in {object}.metadata.?labels.orValue({{}}) && {object}.metadata.labels[{key}] == {value})"
        ));
    }
    if let Some(wanted) = matcher.accelerators {
        let asks = asks_for_accelerators(policy, object);
        all.push(if wanted { asks } else { format!("!{asks}") });
    }
    if all.is_empty() { "true".to_owned() } else { format!("({})", all.join(" && ")) }
}

/// Returns a glob as a regular expression of Go, without globset's flag for bytes that are not text.
fn regex(glob: &globset::Glob) -> String {
    let regex = glob.regex();
    regex.strip_prefix("(?-u)").unwrap_or(regex).to_owned()
}

fn asks_for_accelerators(policy: &Policy, object: &str) -> String {
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

/// Returns a list of strings.
fn list<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    format!("[{}]", texts.map(quoted).collect::<Vec<_>>().join(", "))
}

/// Returns a string as CEL writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for char in text.chars() {
        match char {
            '\'' | '\\' => out.extend(['\\', char]),
            char if char.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out + "'"
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn policy(spec: &str) -> Policy {
        let source = format!(
            "{{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {{name: test}}, spec: {spec}}}"
        );
        Policy::parse(&source, "test.yaml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Returns the names of what is exported, with the conditions of each.
    fn conditions_of(policy: &Policy) -> Vec<(String, Vec<String>)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = |object: &Value| {
            object["spec"]["matchConditions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| text(&one["name"]))
                .collect()
        };
        export(policy, "own", None)
            .objects
            .iter()
            .map(|[judging, _]| (text(&judging["metadata"]["name"]), conditions(judging)))
            .collect()
    }

    #[test]
    fn what_neither_denies_nor_warns_is_left_out_with_a_note() {
        let export = export(&policy("{rules: {deadline: {action: ignore}}}"), "own", None);
        assert_eq!(
            export.objects.iter().map(|[judging, _]| judging["metadata"]["name"].clone()).collect::<Vec<_>>(),
            ["jobgate-restart-policy"]
        );
        assert!(
            export.notes.contains(&"Not exported: deadline: the policy neither denies nor warns.".to_owned()),
            "{:?}",
            export.notes
        );
        let exported_or_noted = export.notes.len() + export.objects.len();
        assert_eq!(exported_or_noted, RULES.len(), "every rule is exported or has a note");
    }

    #[test]
    fn each_level_is_a_policy_with_its_own_way_out() {
        let trusted = "not-made-by-a-trusted-controller".to_owned();
        let one = policy(
            "{rules: {restart-policy: {action: ignore}}, overrides: [{match: {kinds: [Job]}, rules: {deadline: {action: warn}}}]}",
        );
        let (deny, warn) = (
            vec![trusted.clone(), "of-this-level".to_owned()],
            vec![trusted, "not-ignored-by-its-author".to_owned(), "of-this-level".to_owned()],
        );
        assert_eq!(
            conditions_of(&one),
            [("jobgate-deadline".to_owned(), deny), ("jobgate-deadline-warn".to_owned(), warn)]
        );
        let ignored =
            policy("{rules: {restart-policy: {action: ignore}}, optOut: denials, trustedControllers: []}");
        assert_eq!(
            conditions_of(&ignored),
            [("jobgate-deadline".to_owned(), vec!["not-ignored-by-its-author".to_owned()])]
        );
        assert_eq!(
            conditions_of(&policy(
                "{rules: {restart-policy: {action: ignore}}, optOut: none, trustedControllers: []}"
            ))[0]
                .1,
            [""; 0]
        );
    }

    #[test]
    fn of_several_overrides_the_later_wins() {
        let one = policy(
            "{overrides: [{match: {kinds: [Job]}, rules: {deadline: {action: warn}}}, {match: {names: [a]}, rules: {deadline: {action: ignore}}}]}",
        );
        let [judging, _] = &export(&one, "own", None).objects[0];
        let conditions = judging["spec"]["matchConditions"].as_array().unwrap();
        let expression =
            conditions.iter().find(|condition| condition["name"] == "of-this-level").unwrap()["expression"]
                .as_str()
                .unwrap();
        assert_eq!(
            expression,
            "[['deny',\n  (object.kind in ['Job']) ? 'warn' : '',\n  (object.metadata.name.matches('^a$')) ? 'ignore' : ''].filter(action, action != '')].exists(fits, fits[size(fits) - 1] == 'deny')"
        );
    }

    #[test]
    fn exemptions_that_end_get_a_note_and_those_that_ended_left_out() {
        let one = policy(
            "{exemptions: [{match: {names: [a]}, rules: [deadline], reason: \"r\\n1\", until: '2030-01-31'}]}",
        );
        let before = export(&one, "own", Some(date(2030, 1, 31)));
        assert!(
            before.notes.contains(
                &"An exemption in this policy ends on 2030-01-31; export it again then (r\\n1).".to_owned()
            ),
            "{:?}",
            before.notes
        );
        assert!(before.to_yaml().contains("name: not-exempt"));
        let elsewhere = policy(
            "{exemptions: [{match: {names: [a]}, rules: [gpu-toleration], reason: r, until: '2030-01-31'}]}",
        );
        assert!(
            !export(&elsewhere, "own", None).to_yaml().contains("2030"),
            "it speaks of nothing that is exported"
        );
        let after = export(&one, "own", Some(date(2030, 2, 1))).to_yaml();
        assert!(!after.contains("not-exempt") && !after.contains("2030"), "{after}");
    }

    #[test]
    fn accelerators_are_those_of_the_policys_table() {
        let expression = |taints: &str| {
            let gpu = format!("gpu-toleration: {{action: fill, params: {{taints: {taints}}}}}");
            asks_for_accelerators(&policy(&format!("{{rules: {{{gpu}}}}}")), "object")
        };
        assert_eq!(expression("{}"), "false", "nothing is one, and not everything");
        assert!(
            expression(r#"{"example.com/a?[x": z, "example.com/b-*": z}"#)
                .contains(r"resource.matches('^(example\\.com\\/a\\?\\[x|example\\.com\\/b\\-.*)$')")
        );
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quoted("it's\\ \n\u{7f}ü"), "'it\\'s\\\\ \\u000a\\u007fü'");
    }

    #[test]
    fn the_output_reads_back_and_leaves_namespaces_alone() {
        let export = export(&Policy::default(), "own", None);
        let read: Vec<Value> =
            yaml::documents(export.to_yaml().as_bytes()).map(|document| document.unwrap().value).collect();
        assert!(read.iter().eq(export.objects.iter().flatten()));
        for [judging, binding] in &export.objects {
            assert_eq!(
                judging["spec"]["failurePolicy"], "Ignore",
                "an error in it must not stop the cluster"
            );
            let excluded =
                &binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][0]["values"];
            assert_eq!(excluded, &json!(["kube-node-lease", "kube-public", "kube-system", "own"]));
        }
    }
}
