//! The examples on the rules' pages are true: each one under `## Bad` breaks the rule, each one under `##
//! Good` breaks none.

use jobgate::cli::pages::examples;
use jobgate::cli::topics::{TOPICS, Topic};
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::{Claim, Fact, FactTable};
use jobgate::judge::finding::{Finding, Level, Source};
use jobgate::judge::policy::{Action, Policy};
use jobgate::judge::rule::Rule;
use jobgate::judge::rules::RuleSet;
use jobgate::kinds::Kind;
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::text::value::Value;
use jobgate::text::yaml;

/// Returns the default policy, in which a rule warns that is off by default.
fn policy(rule: &Rule) -> Policy {
    let rules = match rule.default {
        Action::Ignore => format!("{{{}: {{action: warn}}}}", rule.id),
        _ => "{}".to_owned(),
    };
    let source = format!(
        "{{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {{name: page}}, spec: {{rules: {rules}}}}}"
    );
    Policy::parse(&source, "page.yaml").expect("a policy")
}

/// Judges the workloads of an example, with its claims as facts.
fn findings(example: &str, policy: &Policy) -> Vec<Finding> {
    let values: Vec<Value> = yaml::documents(example.as_bytes())
        .map(|document| document.expect("an example is YAML").value)
        .collect();
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut facts = FactTable::default();
    for value in values.iter().filter(|value| text(value, "/kind") == "PersistentVolumeClaim") {
        let claim =
            Claim::from_object(value, Source::Cluster).expect("a claim in an example has access modes");
        facts
            .claims
            .insert((text(value, "/metadata/namespace"), text(value, "/metadata/name")), Fact::Known(claim));
    }
    let workloads: Vec<&Value> = values.iter().filter(|value| Kind::from_object(value).is_some()).collect();
    assert!(!workloads.is_empty(), "an example shows a workload:\n{example}");
    let judged =
        workloads.into_iter().map(|value| engine::evaluate(policy, &facts, &Request::from_file(value, None)));
    judged.flat_map(|verdict| verdict.findings).collect()
}

fn each_example(heading: &str, judge: impl Fn(&str, &str, &[Finding])) {
    for rule in &RuleSet::built_in() {
        let found = examples(&rule.page.text(), heading);
        assert!(!found.is_empty(), "the page of {} has an example under {heading}", rule.id);
        let policy = policy(rule);
        for example in found {
            judge(&rule.id, &example, &findings(&example, &policy));
        }
    }
}

#[test]
fn bad_examples_break_their_rule() {
    each_example("Bad", |rule, example, found| {
        assert!(
            found.iter().any(|finding| finding.rule == rule),
            "{rule} finds nothing in\n{example}\nbut {found:#?}"
        );
    });
}

#[test]
fn good_examples_break_no_rule() {
    each_example("Good", |rule, example, found| {
        let bad: Vec<&Finding> =
            found.iter().filter(|finding| finding.level > Level::Note || finding.rule == rule).collect();
        assert!(bad.is_empty(), "{rule}: {bad:#?}\nin\n{example}");
    });
}

/// What is found in the manifests of a topic's page under a heading, by rules and by checks of the API.
fn in_topic(topic: &Topic, heading: &str) -> Vec<String> {
    let found = examples(topic.page(), heading);
    assert!(!found.is_empty(), "{} has no example under {heading}", topic.id);
    let lint = |example: &String| {
        let input = Input::text("topic.yaml", example.clone().into_bytes());
        lint::lint(&[input], &Policy::default(), &Claims::default(), &Options::default()).report.findings
    };
    let all = found.iter().flat_map(lint).map(|located| located.finding);
    // What a job may cost is said of every large one, and ranks that start again alone of every one of theirs.
    let said = ["accelerator-hours-bounded", "gang-restarts-together"];
    all.filter(|finding| !(finding.level == Level::Note && said.contains(&&*finding.rule)))
        .map(|finding| format!("{}: {}", finding.rule, finding.message))
        .collect()
}

#[test]
fn topics_show_what_is_wrong_and_what_is_right() {
    for topic in TOPICS {
        let (common, better) = (in_topic(topic, "Common version"), in_topic(topic, "Better"));
        assert!(!common.is_empty(), "{}: nothing is wrong with the common version", topic.id);
        assert!(better.is_empty(), "{}: {better:#?}", topic.id);
    }
}

/// The rules that a change of the number of workers can break, and that deny or are asked to.
const BY_NUMBER: [&str; 3] =
    ["accelerator-hours-bounded", "checkpoint-volume-access", "launcher-nodes-match-pods"];

#[test]
fn pages_say_where_the_scale_subresource_goes_around_a_rule() {
    let scaled: Vec<Kind> = Kind::all().filter(|kind| kind.scale.is_some()).collect();
    assert!(!scaled.is_empty());
    for rule in RuleSet::built_in().iter().filter(|rule| BY_NUMBER.contains(&&*rule.id)) {
        let page = rule.page.text();
        assert!(page.contains("`kubectl scale`") && page.contains("`jobgate audit`"), "{}", rule.id);
        for kind in &scaled {
            assert!(page.contains(kind.title()), "{} of {}", kind.title(), rule.id);
        }
    }
}

#[test]
fn the_kinds_that_can_be_scaled_are_those_of_the_definitions() {
    let Some(folder) = crate::support::shared::path("crds") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let definition = yaml::documents(&text).next().unwrap().unwrap().value;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, name) = (word(&definition["spec"]["group"]), word(&definition["spec"]["names"]["kind"]));
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let api = format!("{group}/{}", word(&version["name"]));
            let Some(kind) = Kind::typed(&api, &name).filter(|kind| kind.api_version() == api) else {
                continue;
            };
            let path = version.pointer("/subresources/scale/specReplicasPath").map(word);
            let ours = kind.scale.map(|path| format!(".{}", path.join(".")));
            assert_eq!(ours, path, "{api} {name}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}
