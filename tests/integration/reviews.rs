//! Golden answers: every review that was recorded from a real API server, with the verdict and the patch that
//! it must get.
//!
//! The expectations are `reviews/expected.jsonl`, one line a review, with the reason. They were derived from
//! the rules' table, not from output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use jobgate::admission::{self, Answer, Endpoint, Review};
use jobgate::judge::facts::{Claim, Fact, FactTable, WantedClaim};
use jobgate::judge::finding::{Level, Source};
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::Needs;
use jobgate::text::value::{Value, json};

use crate::support::shared;

fn folder() -> Option<PathBuf> {
    shared::path("reviews")
}

fn policy() -> Policy {
    jobgate::policies::builtin("default").expect("the default policy")
}

/// The claims of `reviews/claims.yaml`; that each stands there is checked below.
fn facts() -> FactTable {
    let claims = [
        ("fraud-training-checkpoints", "ReadWriteOnce"),
        ("fraud-training-checkpoints-rwx", "ReadWriteMany"),
        ("data-rox", "ReadOnlyMany"),
        ("ckpt-rwop", "ReadWriteOncePod"),
    ];
    let claim =
        |mode: &str| Fact::Known(Claim { access_modes: vec![mode.to_owned()], source: Source::Cluster });
    FactTable {
        claims: claims
            .iter()
            .map(|(name, mode)| (("team-fraud".to_owned(), (*name).to_owned()), claim(mode)))
            .collect(),
        ..FactTable::default()
    }
}

fn expected() -> BTreeMap<String, Value> {
    rows(include_str!("../reviews/expected.jsonl"))
}

fn rows(text: &str) -> BTreeMap<String, Value> {
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a row"));
    rows.map(|row| (row["review"].as_str().expect("a name").to_owned(), row)).collect()
}

fn endpoint(review: &str) -> Endpoint {
    if review.ends_with(".validate") { Endpoint::Validate } else { Endpoint::Mutate }
}

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut names: Vec<String> =
        files.filter_map(|file| file.strip_suffix(".json").map(str::to_owned)).collect();
    names.sort();
    names
}

/// Returns an answer in the form of the table. `/mutate` counts what it fills in, and names rules only where it denies.
fn summary(review: &str, answer: &Answer, why: &Value) -> Value {
    let response = &serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"];
    let rules = |level| {
        let mut rules: Vec<&str> = answer
            .meta
            .findings
            .keys()
            .filter(|finding| finding.1 == level)
            .map(|finding| &*finding.0)
            .collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    };
    json!({
        "review": review, "allowed": response["allowed"], "deny": rules(Level::Deny), "warn": rules(Level::Warn), "patch": patch(response), "why": why,
    })
}

/// Returns the operations of a response, by path.
fn patch(response: &Value) -> Vec<Value> {
    let Some(text) = response.get("patch") else {
        assert_eq!(response.get("patchType"), None);
        return Vec::new();
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(text.as_str().expect("text")).expect("base64");
    let mut ops: Vec<Value> = serde_json::from_slice(&bytes).expect("a list");
    ops.sort_by_key(|op| op["path"].to_string());
    ops
}

#[test]
fn every_recorded_review_gets_the_right_answer() {
    let Some(folder) = folder() else { return };
    let (policy, facts, expected) = (policy(), facts(), expected());
    let claims = std::fs::read_to_string(folder.join("claims.yaml")).expect("claims");
    for (_, name) in facts.claims.keys() {
        assert!(claims.contains(&format!("name: {name},")), "{name}");
    }
    let names = names(&folder);
    let mut wrong = Vec::new();
    for name in &names {
        let Some(want) = expected.get(name) else {
            wrong.push(format!("{name}: no expectation"));
            continue;
        };
        let body =
            std::fs::read(folder.join(name).with_extension(format!("{}.json", endpoint(name).as_str())))
                .expect("a review");
        let answer = admission::answer(endpoint(name), &policy, &facts, &body, None);
        assert_eq!((answer.status, answer.meta.fault), (200, None), "{name}");
        let got = summary(name, &answer, &want["why"]);
        if got != *want {
            wrong.push(format!(
                "{name}\n  want {want}\n  got  {got}\n  {}",
                String::from_utf8_lossy(&answer.body)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), names.len(), wrong.join("\n"));
    assert_eq!(names.len(), expected.len(), "expectations for reviews that are gone");
}

/// The same for reviews of kinds that operators have. What is below a list of an applied object is not filled,
/// and an object with fields of wrong types gets no answer but that of the API server.
#[test]
fn every_recorded_review_of_other_kinds_gets_the_right_answer() {
    let Some(folder) = shared::path("reviews-kinds") else { return };
    let (policy, expected) = (policy(), rows(include_str!("../reviews/kinds.jsonl")));
    let mut wrong = Vec::new();
    let names = names(&folder);
    for name in &names {
        let body = std::fs::read(folder.join(format!("{name}.json"))).expect("a review");
        let answer = admission::answer(endpoint(name), &policy, &jobgate::judge::facts::NoFacts, &body, None);
        assert_eq!((answer.status, answer.meta.fault), (200, None), "{name}");
        let why = expected.get(name).map_or(&Value::Null, |want| &want["why"]);
        let got = summary(name, &answer, why);
        if expected.get(name) != Some(&got) {
            wrong.push(format!("{got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), names.len(), wrong.join("\n"));
    assert_eq!(names.len(), expected.len(), "expectations for reviews that are gone");
}

#[test]
fn the_answer_is_the_same_for_a_dry_run_and_without_facts_it_is_never_harder() {
    let Some(folder) = folder() else { return };
    for name in names(&folder) {
        let body = std::fs::read_to_string(
            folder.join(&name).with_extension(format!("{}.json", endpoint(&name).as_str())),
        )
        .expect("a review");
        let (dry, wet) = (
            body.replace("\"dryRun\":false", "\"dryRun\":true"),
            body.replace("\"dryRun\":true", "\"dryRun\":false"),
        );
        let answer =
            |body: &str| admission::answer(endpoint(&name), &policy(), &facts(), body.as_bytes(), None);
        assert_eq!(answer(&dry).body, answer(&wet).body, "{name}");
        let unknown = admission::answer(
            endpoint(&name),
            &policy(),
            &jobgate::judge::facts::NoFacts,
            body.as_bytes(),
            None,
        );
        let denials = |answer: &Answer| {
            answer
                .meta
                .findings
                .iter()
                .filter(|(finding, _)| finding.1 == Level::Deny)
                .map(|(_, count)| count)
                .sum::<usize>()
        };
        assert!(denials(&unknown) <= denials(&answer(&body)), "{name}");
    }
}

#[test]
fn claims_are_asked_for_by_name_and_once() {
    let Some(folder) = folder() else { return };
    let claims = |name: &str| {
        let body = std::fs::read(folder.join(name)).expect("a review");
        Review::read(&body, Needs::ALL).expect("a review").claims
    };
    let (namespace, name) = ("team-fraud".to_owned(), "fraud-training-checkpoints".to_owned());
    let checkpoints = vec![WantedClaim { namespace, name, shared: true }];
    assert_eq!(claims("pytorchjob-create-rwo.mutate.json"), checkpoints);
    assert_eq!(claims("cronjob-create-rwo-parallel.validate.json"), checkpoints);
    assert_eq!(claims("job-create-ephemeral-parallel.mutate.json"), []);
    assert_eq!(claims("pytorchjob-delete.mutate.json"), []);
}

/// What `jobgate review --from` cannot know: the server's own marks, and who asks how.
const OF_THE_SERVER: [&str; 12] = [
    "/dryRun",
    "/object/metadata/creationTimestamp",
    "/object/metadata/generation",
    "/object/metadata/managedFields",
    "/object/metadata/uid",
    // They have the uid in them.
    "/object/spec/selector",
    "/object/spec/template/metadata/labels",
    "/options/dryRun",
    "/uid",
    "/userInfo/uid",
    "/userInfo/username",
    "/userInfo/groups",
];

/// Collects the places at which two values differ.
fn differences(a: &Value, b: &Value, at: &str, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<String> =
                a.iter().chain(b.iter()).map(|(key, _)| key.to_owned()).collect();
            for key in keys {
                let [a, b] = [a, b].map(|map| map.get(&key).unwrap_or(&Value::Null));
                differences(a, b, &format!("{at}/{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| differences(a, b, &format!("{at}/*"), found));
        }
        _ if a != b => found.push(at.to_owned()),
        _ => {}
    }
}

/// A review that is made of a manifest is the one that the API server sent when kubectl applied it.
#[test]
fn a_review_that_is_made_is_the_one_that_was_sent() {
    let mut compared = 0;
    for folder in [shared::path("reviews"), shared::path("reviews-kinds")].into_iter().flatten() {
        for name in names(&folder) {
            let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("a review");
            let review: Value = serde_json::from_str(&text).expect("JSON");
            let request = &review["request"];
            let applied = &request["object"]["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
            let (Some(applied), "CREATE") =
                (applied.as_str(), request["operation"].as_str().unwrap_or_default())
            else {
                continue;
            };
            let manifest: Value = serde_json::from_str(applied).expect("a manifest");
            let made = admission::request(&manifest, None, request["namespace"].as_str().unwrap_or_default());
            let mut made = made.unwrap_or_else(|| panic!("{name} is of a kind that is judged"));
            // kubectl ends it with a line break, and orders it in its own way.
            made["request"]["object"]["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                applied.into();
            let mut found = Vec::new();
            differences(request, &made["request"], "", &mut found);
            found.retain(|place| !OF_THE_SERVER.contains(&place.as_str()));
            assert_eq!(found, [""; 0], "{name}");
            compared += 1;
        }
    }
    if shared::path("reviews").is_some() {
        assert!(compared >= 60, "{compared}");
    }
}
