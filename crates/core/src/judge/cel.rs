//! A policy as `ValidatingAdmissionPolicies`, for the rules that CEL can express
//! ([`Rule::export`](crate::judge::rule::Rule::export)).
//!
//! The exported policy works while Jobgate is down, costs no call, and answers like the webhook: the same
//! overrides, exemptions, opt-outs and trusted controllers, and on UPDATE the same leniency for existing
//! violations (also for one that was a warning and would be denied now, since the old object's level is not
//! computed). Objects in an `AppWrapper` are judged by policies of their own. The API server evaluates all of
//! them after validation, so types match the schema, but not inside an `AppWrapper`. Optional types (`.?`) need
//! Kubernetes 1.29, policies 1.30.
//!
//! Nothing is looked up: the parent that a trusted controller names is assumed to exist.

mod by_kind;
mod components;
mod conditions;

use std::fmt::Write as _;

use jiff::civil::Date;

use crate::judge::policy::{Action, Exemption, Policy};
use crate::judge::rule::{Cel, Exportable, Kinds, Measure, Ratchet, Rule};
use crate::kinds::registration::{self, NAMESPACE_LABEL, SYSTEM};
use crate::kinds::{self, Kind};
use crate::text::value::{Value, json};
use crate::text::yaml;
use conditions::ConditionSubject;

/// The exported parts of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    /// Each policy with its binding.
    pub objects: Vec<[Value; 2]>,
    /// One line for each part that was omitted or is temporary.
    pub(crate) notes: Vec<String>,
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
    for rule in policy.rules() {
        let levels: Vec<Action> =
            [Action::Deny, Action::Warn].into_iter().filter(|level| can_be(policy, rule, *level)).collect();
        match &rule.export {
            Exportable::No(why) => export.notes.push(format!("Not exported: {}: {why}.", rule.id)),
            Exportable::Cel(_) if levels.is_empty() => {
                export.notes.push(format!("Not exported: {}: the policy neither denies nor warns.", rule.id));
            }
            Exportable::Cel(cel) => {
                exported.push(&*rule.id);
                let left_out = kinds::titles(rule.kinds.iter().filter(|kind| !is_judged(*kind, cel.kinds)));
                if !left_out.is_empty() {
                    let left_out = left_out.join(", ");
                    export.notes.push(format!("Exported in part: {}: not for {left_out}.", rule.id));
                }
                for level in levels {
                    let judge = CelSource { policy, rule, cel, level, today };
                    export.objects.push([judging(&judge), binding(&name(rule, "", level), level, own)]);
                    export.objects.extend(Kind::all().filter(|kind| kind.components.is_some()).map(|kind| {
                        let name = components::name(&judge, kind);
                        [components::judging(&judge, kind), binding(&name, level, own)]
                    }));
                }
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
    if !exported.is_empty() && !policy.trusted_controllers.is_empty() {
        export.notes.push(
            "Believed without a look: the owner that an object of a trusted controller names; \
             the webhook asks the API server whether it exists."
                .to_owned(),
        );
    }
    export
}

/// The source of one exported policy.
struct CelSource<'p> {
    policy: &'p Policy,
    rule: &'p Rule,
    cel: &'p Cel,
    level: Action,
    today: Option<Date>,
}

/// Tells whether the exported policies cover a kind, or no webhook judges it either.
fn is_judged(kind: Kind, exported: Kinds) -> bool {
    kind.untested || kind.components.is_some() || exported.contains(kind)
}

/// Tells whether a rule has an action for some object.
fn can_be(policy: &Policy, rule: &Rule, action: Action) -> bool {
    let overrides = policy.overrides.iter().filter_map(|over| over.rules.get(&*rule.id)?.action);
    overrides.chain(policy.base(&rule.id).map(|base| base.action)).any(|own| own == action)
}

/// Returns the name of a policy, and of its binding. `of` comes after the rule's id.
fn name(rule: &Rule, of: &str, level: Action) -> String {
    let level = if level == Action::Deny { String::new() } else { format!("-{}", level.as_str()) };
    format!("jobgate-{}{of}{level}", rule.id)
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "jobgate"}},
        "spec": spec,
    })
}

/// Returns a policy of the API server.
fn validating(policy: &Policy, name: &str, spec: &Value) -> Value {
    let mut object = object("ValidatingAdmissionPolicy", name, spec);
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    object["metadata"]["annotations"] =
        json!({"jobgate.dev/policy": policy.name, "jobgate.dev/policy-hash": policy.hash});
    object
}

/// Applies an expression over `o` to an object of any name, since expressions take no arguments.
fn of(object: &str, expression: &str) -> String {
    format!("[dyn({object})].map(o,\n{expression}\n)[0]")
}

/// Returns the policy for one rule, for the objects to which the rule applies at one level.
fn judging(judge: &CelSource<'_>) -> Value {
    let CelSource { policy, rule, cel, level, .. } = *judge;
    let wrong = |object: &'static str| of(object, &places(judge, ConditionSubject::itself(object)));
    let (id, summary) = (quoted(&format!("{}: ", rule.id)), quoted(&format!(": {}", rule.summary)));
    // Same as the engine's ratchet.
    let Ratchet { labels, measure } = rule.ratchet;
    let grown = |measure: Measure| {
        let measured = by_kind::with_roles(measure.cel, cel.kinds);
        format!(" ||\n{} >\n{}", of("object", &measured), of("oldObject", &measured))
    };
    let grown = measure.map(grown).unwrap_or_default();
    let label = |object: &str, key: &str| format!("dyn({object}).metadata.?labels[?{}]", quoted(key));
    let same: String = labels
        .iter()
        .map(|key| format!(" &&\n  {} == {}", label("object", key), label("oldObject", key)))
        .collect();
    let deleted = match labels {
        [] => String::new(),
        _ => " ||\n  dyn(object).spec == dyn(oldObject).spec && has(object.metadata.deletionTimestamp)"
            .to_owned(),
    };
    let settled = format!(
        "[dyn(oldObject)].map(o, {})[0] ||\n  dyn(object).spec == dyn(oldObject).spec{same}{deleted}",
        by_kind::finished(cel.kinds)
    );
    let spec = json!({
        "failurePolicy": "Ignore",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": registration::rules(cel.kinds.exported())},
        "matchConditions": conditions::of_object(judge),
        "variables": [
            {"name": "wrong", "expression": wrong("object")},
            {"name": "before", "expression": format!("oldObject == null{grown} ? [] : {}", wrong("oldObject"))},
        ],
        "validations": [{
            "expression": format!("variables.wrong.all(place, place in variables.before) ||\n(oldObject != null && ({settled}))"),
            "messageExpression": format!("{id} + variables.wrong.filter(place, !(place in variables.before)).join(', ') + {summary}"),
            "reason": "Forbidden",
        }],
    });
    validating(policy, &name(rule, "", level), &spec)
}

/// Returns an expression for the places of the object `o` that violate the rule with the policy's parameters for
/// it.
fn places(judge: &CelSource<'_>, subject: ConditionSubject) -> String {
    let CelSource { policy, rule, cel, .. } = *judge;
    let base = policy.base(&rule.id);
    let with_roles = by_kind::with_roles(cel.places, cel.kinds);
    let with_params = cel.params.iter().fold(with_roles, |text, name| {
        let own = base.and_then(|base| base.param(name)).unwrap_or(&Value::Null).to_string();
        let others = policy.overrides.iter().filter_map(|over| {
            let value = over.rules.get(&*rule.id)?.params.get(*name)?;
            Some(format!("{} ? [{value}] : []", conditions::matching(&over.matcher, policy, subject)))
        });
        let all: Vec<String> = others.collect();
        // The last match wins.
        let value = match all.is_empty() {
            true => own,
            false => format!(
                "[[[{own}],\n  {}].filter(set, size(set) > 0)].map(sets, sets[size(sets) - 1][0])[0]",
                all.join(",\n  ")
            ),
        };
        text.replace(&format!("${name}"), &value)
    });
    by_kind::where_something_runs(cel.kinds, &with_params)
}

fn binding(name: &str, level: Action, own: &str) -> Value {
    let excluded: Vec<&str> = SYSTEM.into_iter().chain([own]).collect();
    let spec = json!({
        "policyName": name,
        "validationActions": [if level == Action::Deny { "Deny" } else { "Warn" }],
        "matchResources": {"namespaceSelector": {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": excluded}]}},
    });
    object("ValidatingAdmissionPolicyBinding", name, &spec)
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
            ["jobgate-restart-policy", "jobgate-restart-policy-in-appwrapper"]
        );
        assert!(
            export.notes.contains(&"Not exported: deadline: the policy neither denies nor warns.".to_owned()),
            "{:?}",
            export.notes
        );
        let noted = export.notes.iter().filter(|note| note.starts_with("Not exported: ")).count();
        assert_eq!(
            noted + export.objects.len() / 2,
            crate::judge::rules::RuleSet::built_in().len(),
            "every rule is exported or has a note"
        );
    }

    #[test]
    fn each_level_is_a_policy_with_its_own_way_out() {
        let trusted = "not-made-by-a-trusted-controller".to_owned();
        let one = policy(
            "{rules: {restart-policy: {action: ignore}}, overrides: [{match: {kinds: [Job]}, rules: {deadline: {action: warn}}}]}",
        );
        let (deny, warn) = (
            vec![trusted.clone(), "of-this-level".to_owned()],
            vec![trusted.clone(), "not-ignored-by-its-author".to_owned(), "of-this-level".to_owned()],
        );
        assert_eq!(
            conditions_of(&one),
            [
                ("jobgate-deadline".to_owned(), deny),
                ("jobgate-deadline-in-appwrapper".to_owned(), vec![trusted.clone()]),
                ("jobgate-deadline-warn".to_owned(), warn),
                ("jobgate-deadline-in-appwrapper-warn".to_owned(), vec![trusted]),
            ]
        );
        let ignored =
            policy("{rules: {restart-policy: {action: ignore}}, optOut: denials, trustedControllers: []}");
        assert_eq!(
            conditions_of(&ignored),
            [
                ("jobgate-deadline".to_owned(), vec!["not-ignored-by-its-author".to_owned()]),
                ("jobgate-deadline-in-appwrapper".to_owned(), Vec::new()),
            ]
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
            "[['deny',\n  (object.apiVersion.split('/')[0] + '/' + object.kind in ['batch/Job']) ? 'warn' : '',\n  (object.metadata.name.matches('^a$')) ? 'ignore' : ''].filter(action, action != '')].exists(fits, fits[size(fits) - 1] == 'deny')"
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
    fn a_kind_is_that_of_its_group() {
        let one = policy(
            "{exemptions: [{match: {kinds: [Job.batch.volcano.sh, MPIJob]}, rules: [deadline], reason: r}]}",
        );
        let text = export(&one, "own", None).to_yaml();
        assert!(text.contains("in ['batch.volcano.sh/Job', 'kubeflow.org/MPIJob']"), "{text}");
    }

    #[test]
    fn what_is_not_exported_of_a_rule_has_a_note() {
        let notes = export(&Policy::default(), "own", None).notes;
        for note in [
            "Exported in part: deadline: not for JobSet, TrainingRuntime, ClusterTrainingRuntime, Job.batch.volcano.sh.",
            "Believed without a look: the owner that an object of a trusted controller names; the webhook asks \
             the API server whether it exists.",
        ] {
            assert!(notes.iter().any(|have| have == note), "{note}: {notes:#?}");
        }
        assert!(notes.iter().any(|note| note.starts_with("Exported in part: restart-policy: not for Job, ")));
    }

    #[test]
    fn accelerators_are_those_of_the_policys_table() {
        let expression = |taints: &str| {
            let gpu = format!("gpu-toleration: {{action: fill, params: {{taints: {taints}}}}}");
            conditions::asks_for_accelerators(&policy(&format!("{{rules: {{{gpu}}}}}")), "object")
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
