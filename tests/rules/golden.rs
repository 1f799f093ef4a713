//! What people read of each rule, as text: every message with its help, one report, and one denial. A change
//! of words is a change of `tests/golden/<rule>.txt`, which `UPDATE=1` writes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use jobgate::admission::{self, Endpoint};
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::{Finding, Level};
use jobgate::judge::rule::Rule;
use jobgate::judge::rules::RuleSet;
use jobgate::kinds::Kind;
use jobgate::local::lint::{self, Claims, Input};
use jobgate::report::{self, Format};
use jobgate::text::value::{Value, json};
use libtest_mimic::{Failed, Trial};

use crate::support::fixture::{self, Fixture};

/// Returns a trial for each rule.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |rule: Rule| Trial::test(format!("{}::golden", rule.file()), move || check(&rule));
    RuleSet::built_in().iter().cloned().map(trial).collect()
}

fn check(rule: &Rule) -> Result<(), Failed> {
    let fixtures = fixture::of_rule(rule);
    let mut out = String::from("# Messages\n");
    let mut messages = BTreeSet::new();
    for fixture in &fixtures {
        for object in fixture.workloads() {
            let verdict =
                engine::evaluate(&fixture.policy, &fixture.facts, &Request::from_file(object, None));
            messages.extend(verdict.findings.iter().filter(|finding| finding.rule == rule.id).map(text));
        }
    }
    messages.iter().for_each(|message| out += message);
    let bad = fixtures.iter().find(|fixture| fixture.case.starts_with("bad-")).ok_or("no bad case")?;
    let _ = write!(out, "\n# Report of {}\n\n{}", bad.case, human(bad)?);
    if let Some(denial) = bad.workloads().find_map(|object| denial(bad, object)) {
        let _ = write!(out, "\n# Denial of {}\n\n{denial}\n", bad.case);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{}.txt", rule.id));
    crate::golden_file(&path, Some(&out.into_bytes()))
}

/// Returns the words of a finding.
fn text(finding: &Finding) -> String {
    let mut out = format!("\n{}: {}\n  help: {}\n", finding.level.as_str(), finding.message, finding.help);
    for label in &finding.labels {
        let _ = writeln!(out, "  place: {}", label.text);
    }
    out
}

fn human(fixture: &Fixture) -> Result<String, Failed> {
    // The path differs by machine, and is in the report.
    let name = fixture.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let input = Input::text(&name, std::fs::read(&fixture.path)?);
    let linted = lint::lint(&[input], &fixture.policy, &Claims::default(), &lint::Options::default());
    let mut out = Vec::new();
    report::write(&linted.report, Format::Human, &report::Options::default(), &mut out)?;
    Ok(String::from_utf8(out)?)
}

/// Returns the message that somebody reads whose object is denied.
fn denial(fixture: &Fixture, object: &Value) -> Option<String> {
    let kind = Kind::from_object(object)?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let kind = json!({"group": kind.group, "version": kind.version, "kind": kind.name});
    let request =
        json!({"uid": "u", "kind": kind, "operation": "CREATE", "namespace": namespace, "object": object});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let with_claims = engine::evaluate(&fixture.policy, &fixture.facts, &Request::from_file(object, None));
    let denies = with_claims.findings.iter().any(|finding| finding.level == Level::Deny);
    let facts: &dyn jobgate::judge::facts::Facts = if denies { &fixture.facts } else { &NoFacts };
    let answer =
        admission::answer(Endpoint::Validate, &fixture.policy, facts, review.to_string().as_bytes(), None);
    let answer: Value = serde_json::from_slice(&answer.body).ok()?;
    answer["response"]["status"]["message"].as_str().map(str::to_owned)
}
