//! A rule is one value, which may be made at run time: a policy that has it denies by it, and the formats of a report
//! that say something of rules say it of this one; a policy that has not does not know it.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobgate::admission::{self, Doubt, Endpoint, Fault, Outcome, Review};
use jobgate::judge::engine::{Request, evaluate};
use jobgate::judge::facts::{Claim, Fact, FactTable, NoFacts};
use jobgate::judge::finding::{Level, Source};
use jobgate::judge::policy::{Action, Policy, schema};
use jobgate::judge::rule::{Cx, Needs, Page, Rule};
use jobgate::judge::rules::RuleSet;
use jobgate::judge::selection::Selection;
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::report::{self, Format};
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

/// Rules as a file might have them.
const RULES: &str = r#"[
    {"id": "label-team", "label": "team", "problem": "No team", "summary": "Jobs name their team"},
    {"id": "label-cost-centre", "label": "cost-centre", "problem": "Nobody pays", "summary": "Jobs name who pays"}
]"#;

/// Makes a rule from a value.
fn rule(value: &Value) -> Rule {
    let text = |key: &str| value[key].as_str().unwrap().to_owned();
    let label = text("label");
    let check = move |cx: &mut Cx<'_>| {
        if cx.workload.label(&label).is_none() {
            let labels = cx.workload.object.at(&["metadata", "labels"]).pointer;
            cx.missing(&labels, format!("the label `{label}` is missing"));
        }
    };
    Rule {
        problem: text("problem").into(),
        summary: text("summary").into(),
        page: Page::Text(format!("{}.\n\n## Why\n\nBills need a name.\n", text("summary"))),
        default: Action::Deny,
        ..Rule::new(text("id"), check)
    }
}

fn own() -> Vec<Rule> {
    serde_json::from_str::<Value>(RULES).unwrap().as_array().unwrap().iter().map(rule).collect()
}

fn policy(rules: RuleSet, spec: &str) -> Policy {
    let source =
        format!("apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: own}}\nspec: {spec}\n");
    Policy::parse_with(rules, &source, "own.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn job(labels: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "labels": labels},
        "spec": {"activeDeadlineSeconds": 60, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i:v1", "ports": [{"containerPort": 80}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        }}},
    })
}

/// Returns the rules that find something, sorted.
fn found(policy: &Policy, object: &Value) -> BTreeSet<String> {
    let verdict = evaluate(policy, &NoFacts, &Request::from_file(object, None));
    verdict.findings.iter().map(|finding| finding.rule.to_string()).collect()
}

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the trials.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, run: fn()| {
        Trial::test(format!("new_rule::{name}"), move || {
            run();
            Ok(())
        })
    };
    vec![
        trial("sets_side_by_side", sets_side_by_side),
        trial("set_by_a_policy", set_by_a_policy),
        trial("answered", answered),
        trial("called", called),
        trial("patched_and_denied", patched_and_denied),
        trial("looked_up_and_read", looked_up_and_read),
        trial("reported", reported),
    ]
}

fn sets_side_by_side() {
    let object = job(&json!({"team": "vision"}));
    let built_in = Policy::default();
    let both = policy(RuleSet::built_in().with(own()).unwrap(), "{}");
    let only = policy(RuleSet::new(own()).unwrap(), "{}");
    let of_built_in = found(&built_in, &object);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| assert_eq!(found(&built_in, &object), of_built_in));
            scope.spawn(|| assert_eq!(found(&only, &object), words(&["label-cost-centre"])));
            scope.spawn(|| {
                let more = found(&both, &object);
                assert_eq!(&more - &of_built_in, words(&["label-cost-centre"]));
                assert!(of_built_in.is_subset(&more));
            });
        }
    });
    assert!(!of_built_in.contains("label-cost-centre"));
    assert_eq!(found(&only, &job(&Value::Null)), words(&["label-cost-centre", "label-team"]));
    let same = RuleSet::built_in().with([Rule::new("deadline", |_: &mut Cx<'_>| {})]);
    assert_eq!(same.unwrap_err().to_string(), "there are two rules `deadline`");
    for (id, error) in [
        ("syntax", "`syntax` is a check of the input, and cannot be the id of a rule"),
        ("A, b", "`A, b` is not the id of a rule: write lower-case words with hyphens between them"),
        ("a--b", "`a--b` is not the id of a rule: write lower-case words with hyphens between them"),
    ] {
        let made = RuleSet::new(vec![Rule::new(id, |_: &mut Cx<'_>| {})]);
        assert_eq!(made.unwrap_err().to_string(), error);
    }
}

fn set_by_a_policy() {
    let rules = RuleSet::new(own()).unwrap();
    let bare = job(&Value::Null);
    let spec = "{rules: {label-team: {action: warn}}, \
                exemptions: [{match: {names: [train]}, rules: [label-cost-centre], reason: free}]}";
    let mild = policy(rules.clone(), spec);
    let verdict = evaluate(&mild, &NoFacts, &Request::from_file(&bare, None));
    assert_eq!(verdict.level(), Some(Level::Warn));
    assert_eq!(verdict.suppressed.len(), 1);
    // A rule that the set lacks cannot be set, and an annotation that names it is a typo.
    let unknown = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: x}\n\
                   spec: {rules: {label-team: {action: warn}}}\n";
    let errors = Policy::parse(unknown, "x.yaml").unwrap_err().to_string();
    assert!(errors.contains("there is no rule `label-team`"), "{errors}");
    let mut ignoring = bare;
    ignoring["metadata"]["annotations"] = json!({"jobgate.dev/ignore": "label-team"});
    assert!(!found(&mild, &ignoring).contains("unknown-rule"));
    assert!(found(&Policy::default(), &ignoring).contains("unknown-rule"));
    let selection = Selection::new(&rules, &["label-t*".to_owned()], &[]).unwrap().unwrap();
    assert!(selection.has("label-team") && !selection.has("label-cost-centre"));
    let schema = schema(&rules);
    let ids: Vec<&str> = schema["$defs"]["rules"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(ids, ["label-cost-centre", "label-team"]);
}

fn answered() {
    let review = admission::request(&job(&Value::Null), None, "ml").unwrap().to_string();
    let answer = |policy: &Policy, endpoint: Endpoint| {
        let answer = admission::answer(endpoint, policy, &NoFacts, review.as_bytes(), None);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        (body["response"]["allowed"].as_bool().unwrap(), answer.meta)
    };
    let late = policy(RuleSet::new(own()).unwrap(), "{}");
    assert!(answer(&late, Endpoint::Mutate).0);
    let (allowed, meta) = answer(&late, Endpoint::Validate);
    assert!(!allowed);
    let counted: Vec<String> = meta.findings.keys().map(|(rule, _)| rule.to_string()).collect();
    assert_eq!(counted, ["label-cost-centre", "label-team"]);
    let early = own().into_iter().map(|rule| Rule { before_validate: rule.id == "label-team", ..rule });
    let early = policy(RuleSet::new(early.collect()).unwrap(), "{}");
    assert!(!answer(&early, Endpoint::Mutate).0, "what must be rejected early is");
}

/// `/mutate` calls a rule that does not fill in for an object that it denies, and one that denies for an object that it patches as
/// well; `/validate` does not call one that only notes.
fn called() {
    let count = |action| {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let check = move |_: &mut Cx<'_>| _ = counted.fetch_add(1, Ordering::Relaxed);
        (calls, Rule { default: action, ..Rule::new(format!("counts-{}", action.as_str()), check) })
    };
    let (counters, rules): (Vec<_>, Vec<_>) =
        [Action::Ignore, Action::Note, Action::Warn, Action::Deny].map(count).into_iter().unzip();
    let own = policy(RuleSet::built_in().with(rules).unwrap(), "{}");
    let bare = job(&json!({}));
    let mut filled = bare.clone();
    filled["spec"]["ttlSecondsAfterFinished"] = 60.into();
    filled["spec"]["podReplacementPolicy"] = "Failed".into();
    let mut denied = filled.clone();
    denied["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    let cases = [
        (Endpoint::Mutate, &filled, [0, 0, 0, 0]),
        // A patch may not lead to a denial.
        (Endpoint::Mutate, &bare, [0, 0, 0, 1]),
        (Endpoint::Validate, &filled, [0, 0, 1, 1]),
        // For what the denial says.
        (Endpoint::Mutate, &denied, [0, 1, 1, 1]),
    ];
    for (endpoint, object, expected) in cases {
        let body = admission::request(object, None, "ml").unwrap().to_string();
        drop(admission::answer(endpoint, &own, &NoFacts, body.as_bytes(), None));
        let calls: Vec<usize> = counters.iter().map(|calls| calls.swap(0, Ordering::Relaxed)).collect();
        assert_eq!(calls, expected, "{endpoint:?} {object}");
    }
}

/// A patch is sent for an object that is denied with it and without it, and not for one that is denied with it alone.
fn patched_and_denied() {
    let denies = |id: &'static str, only_filled: bool| {
        let check = move |cx: &mut Cx<'_>| {
            let ttl = cx.workload.object.at(&["spec", "ttlSecondsAfterFinished"]);
            if !only_filled || ttl.is_set() {
                cx.report(&cx.workload.object.pointer.clone(), "no");
            }
        };
        Rule { default: Action::Deny, ..Rule::new(id, check) }
    };
    let body = admission::request(&job(&json!({})), None, "ml").unwrap().to_string();
    let old =
        admission::request(&job(&json!({})), Some(&job(&json!({"team": "a"}))), "ml").unwrap().to_string();
    for (only_filled, outcome) in [(false, Outcome::Patched), (true, Outcome::Faulted)] {
        let rules = RuleSet::built_in().with([denies("denies-some", only_filled)]).unwrap();
        let own = policy(rules, "{}");
        let answer = admission::answer(Endpoint::Mutate, &own, &NoFacts, body.as_bytes(), None);
        assert_eq!(answer.meta.outcome, outcome, "{:?}", answer.meta);
        let fault = (only_filled).then_some(Fault::Patch(Doubt::NewDenial));
        assert_eq!(answer.meta.fault, fault);
        // An update is not filled in.
        let answer = admission::answer(Endpoint::Mutate, &own, &NoFacts, old.as_bytes(), None);
        assert_eq!(answer.meta.outcome, Outcome::Allowed, "{:?}", answer.meta);
    }
}

/// A rule gets what it says it needs, whatever other rules there are and what a policy says of them.
fn looked_up_and_read() {
    let claims = |cx: &mut Cx<'_>| {
        if let Fact::Known(_) = cx.facts().claim("ml", "data") {
            cx.report(&cx.workload.object.pointer.clone(), "the claim is there");
        }
    };
    let ports = |cx: &mut Cx<'_>| {
        let at = cx.workload.object.at(&["spec", "template", "spec", "containers"]);
        if at.items().any(|container| container.get("ports").is_set()) {
            cx.report(&cx.workload.object.pointer.clone(), "a port is open");
        }
    };
    let rules = |needs: bool| {
        let need = |needed| if needs { needed } else { Needs::NONE };
        let claims = Rule { needs: need(Needs::CLAIMS), ..Rule::new("sees-claims", claims) };
        let ports = Rule { needs: need(Needs::PORTS), ..Rule::new("sees-ports", ports) };
        RuleSet::built_in().with([claims, ports]).unwrap()
    };
    let ignored =
        "{rules: {checkpoint-volume-access: {action: ignore}, pod-template-valid: {action: ignore}}}";
    let body = admission::request(&job(&Value::Null), None, "ml").unwrap().to_string();
    for needs in [true, false] {
        let policy = policy(rules(needs), ignored);
        assert_eq!(policy.needs().has(Needs::CLAIMS | Needs::PORTS), needs);
        let review = Review::read(body.as_bytes(), policy.needs()).unwrap();
        // As the webhook looks up what a review asks for.
        let claim = Fact::Known(Claim { access_modes: vec![], source: Source::Cluster });
        let claims = review.claims.iter().map(|wanted| (wanted.namespace.clone(), wanted.name.clone()));
        let facts =
            FactTable { claims: claims.map(|at| (at, claim.clone())).collect(), ..FactTable::default() };
        let answer = admission::judge(Endpoint::Validate, &policy, &facts, review, None);
        let counts = |rule: &str| answer.meta.findings.contains_key(&(rule.to_owned().into(), Level::Warn));
        assert_eq!([counts("sees-claims"), counts("sees-ports")], [needs, needs]);
    }
    let ignored = policy(
        rules(true),
        "{rules: {sees-claims: {action: ignore}, checkpoint-volume-access: {action: ignore}}}",
    );
    assert!(!ignored.needs().has(Needs::CLAIMS), "nothing is looked up for a rule that is ignored");
}

fn reported() {
    let policy = policy(RuleSet::new(own()).unwrap(), "{}");
    let manifest = job(&Value::Null).to_string();
    let input = Input::text("job.json", manifest.as_bytes());
    let report = lint::lint(&[input], &policy, &Claims::default(), &Options::default()).report;
    let written = |format: Format| {
        let options = report::Options { rules: policy.rules().clone(), ..report::Options::default() };
        let mut out = Vec::new();
        report::write(&report, format, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let human = written(Format::Human);
    assert!(human.contains("label-team") && human.contains("Bills need a name"), "{human}");
    assert!(written(Format::Markdown).contains("Nobody pays"));
    let sarif: Value = serde_json::from_str(&written(Format::Sarif)).unwrap();
    let run = &sarif["runs"][0];
    let listed = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_i64().unwrap()).unwrap();
        assert_eq!(listed[index]["id"], result["ruleId"]);
    }
    assert!(listed.iter().any(|rule| rule["id"].as_str() == Some("label-team")));
    assert!(!listed.iter().any(|rule| rule["id"].as_str() == Some("deadline")));
}
