//! The examples on the rules' pages are true: each one under `## Bad` breaks the rule, each one under `##
//! Good` breaks none.

use jobgate::cli::pages::examples;
use jobgate::cli::topics::{TOPICS, Topic};
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::{Claim, Fact, FactTable};
use jobgate::judge::finding::{Finding, Level, Source};
use jobgate::judge::policy::Policy;
use jobgate::judge::rules::RULES;
use jobgate::kinds::Kind;
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::text::value::Value;
use jobgate::text::yaml;

/// Judges the workloads of an example, with its claims as facts.
fn findings(example: &str) -> Vec<Finding> {
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
    let workloads: Vec<&Value> = values.iter().filter(|value| Kind::of(value).is_some()).collect();
    assert!(!workloads.is_empty(), "an example shows a workload:\n{example}");
    let judged = workloads
        .into_iter()
        .map(|value| engine::evaluate(&Policy::default(), &facts, &Request::of_file(value, None)));
    judged.flat_map(|verdict| verdict.findings).collect()
}

fn each_example(heading: &str, judge: impl Fn(&'static str, &str, &[Finding])) {
    for entry in RULES {
        let found = examples(&entry.page(), heading);
        assert!(!found.is_empty(), "the page of {} has an example under {heading}", entry.rule.id);
        for example in found {
            judge(entry.rule.id, &example, &findings(&example));
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
    // What a job may cost is said of every large one.
    all.filter(|finding| finding.rule != "accelerator-hours-bounded")
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
