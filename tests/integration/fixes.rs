//! Git equals live, from one end to the other: what `lint --fix` makes of files is what the webhook would
//! have made of their objects, and nothing else.
//!
//! The fixtures of the rules, and real manifests where they are (`JOBGATE_SHARED`, default `../shared`);
//! without those, a test prints a line and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::fixing::{self, Changed, patch_of, workloads};
use crate::support::{fixture, shared};
use jobgate::judge::api;
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::{Finding, Safety};
use jobgate::judge::policy::Policy;
use jobgate::judge::rules::RuleSet;
use jobgate::local::lint::{self, Input};
use jobgate::text::patch::{self, Joined};
use jobgate::text::value::Value;

/// Findings of real manifests whose fix may be withheld, in a hundred of those with one.
const WITHHELD: usize = 2;

#[test]
fn a_fixed_fixture_is_admitted_unpatched() {
    let (mut objects, mut patched) = (0, 0);
    // A part of an object (a kustomize patch) never comes as far as a webhook.
    let fixtures = RuleSet::built_in();
    let fixtures = fixtures
        .iter()
        .flat_map(fixture::of_rule)
        .filter(|fixture| !fixture.case.starts_with("edge-partial"));
    for fixture in fixtures {
        let source = std::fs::read(&fixture.path).expect("a fixture");
        patched +=
            workloads(&source).iter().filter(|object| patch_of(&fixture.policy, object).is_some()).count();
        for most in [Safety::Safe, Safety::Unsafe] {
            let (_, mut changed) = fixing::fix(&[Input::named(&fixture.path)], &fixture.policy, most);
            let text = changed.pop_first().map_or_else(|| source.clone(), |(_, changed)| changed.new);
            for object in workloads(&text) {
                assert_eq!(
                    patch_of(&fixture.policy, &object),
                    None,
                    "{} is patched once more: {object:#}",
                    fixture.path.display()
                );
                objects += 1;
            }
        }
    }
    assert!(objects > 150 && patched > 15, "{objects} objects, {patched} patched before");
}

/// Copies a tree, so that what is tried on it stays here.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() => copy(&entry.path(), &target),
            kind if kind.is_file() => {
                std::fs::write(target, std::fs::read(entry.path()).expect("a file")).expect("a copy");
            }
            _ => {}
        }
    }
}

/// Returns an object with all safe fixes, made on the value and not on the text.
fn fixed(policy: &Policy, object: &Value) -> Value {
    let mut object = object.clone();
    for _ in 0..8 {
        let findings = engine::evaluate(policy, &NoFacts, &Request::from_file(&object, None)).findings;
        let mut joined = Joined::default();
        let safe = |finding: &Finding| finding.fix.clone().filter(|fix| fix.safety == Safety::Safe);
        for fix in findings.iter().chain(&api::check(&object)).filter_map(safe) {
            joined.join(&fix.ops).expect("safe fixes do not clash");
        }
        if joined.ops().is_empty() {
            return object;
        }
        object = patch::apply(&object, joined.ops()).expect("a fix applies");
    }
    panic!("fixes without end: {object:#}");
}

/// Checks that two texts differ in the edits, and nowhere else.
fn check_edits(path: &str, Changed { old, new, edits }: &Changed) {
    let (mut before, mut now) = (0, 0);
    for edit in edits {
        let kept = &old[before..edit.span.start];
        assert!(new[now..].starts_with(kept), "{path}: something else has changed");
        now += kept.len();
        assert!(new[now..].starts_with(edit.text.as_bytes()), "{path}: an edit was not made");
        now += edit.text.len();
        before = edit.span.end;
    }
    assert_eq!(&old[before..], &new[now..], "{path}: the end has changed");
}

#[test]
#[allow(clippy::print_stdout, reason = "the count is what the test is for")]
fn real_manifests_are_fixed_as_the_webhook_would() {
    let Some(corpus) = shared::path("corpus") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let corpus_copy = folder.path().join("corpus");
    copy(&corpus, &corpus_copy);
    let policy = Policy::default();
    let inputs = lint::collect(std::slice::from_ref(&corpus_copy), |_| Ok(Vec::new())).files;
    let (linted, changed) = fixing::fix(&inputs, &policy, Safety::Safe);
    let report = &linted.report;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    report
        .findings
        .iter()
        .filter_map(|located| located.withheld.as_deref())
        .for_each(|why| *reasons.entry(why).or_default() += 1);
    println!("{} fixed in {} files, {} withheld: {reasons:?}", report.fixed, report.changed, report.withheld);
    assert!(linted.unwritten.is_empty(), "{:?}", linted.unwritten);
    assert!(
        report.withheld * 100 <= (report.fixed + report.withheld) * WITHHELD,
        "{} of {} are withheld",
        report.withheld,
        report.fixed
    );
    assert!(
        report.fixed > 1000 && changed.len() == report.changed,
        "{} fixed in {} files",
        report.fixed,
        changed.len()
    );
    let left: Vec<String> = report
        .findings
        .iter()
        .filter(|located| located.finding.fills && located.withheld.is_none())
        .map(|located| located.location.to_string())
        .collect();
    assert_eq!(left, [""; 0], "what is filled in is still open");

    // A fix at an alias would change what it stands for elsewhere.
    let withheld: BTreeSet<String> = report
        .findings
        .iter()
        .filter(|located| located.withheld.is_some())
        .map(|located| located.location.file.to_string())
        .collect();
    for (path, changed) in &changed {
        check_edits(path, changed);
        if withheld.contains(path) {
            continue;
        }
        let wanted: Vec<Value> =
            workloads(&changed.old).iter().map(|object| fixed(&policy, object)).collect();
        assert_eq!(workloads(&changed.new), wanted, "{path}");
        for object in &wanted {
            assert_eq!(patch_of(&policy, object), None, "{path}: {object:#}");
        }
    }

    // The program writes the same files, and finds nothing more to do in them.
    let run = || -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        let output = command
            .args(["lint", "--fix", "--format", "json"])
            .arg(&corpus_copy)
            .output()
            .expect("the binary runs");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("a report")["summary"].take()
    };
    assert_eq!(run()["fixed"], report.fixed);
    for input in &inputs {
        let (now, before) = (
            std::fs::read(&*input.path).expect("a file"),
            std::fs::read(original(&corpus, &corpus_copy, &input.path)),
        );
        let wanted =
            changed.get(&*input.path).map_or_else(|| before.expect("a file"), |changed| changed.new.clone());
        assert!(now == wanted, "{} was written as something else", input.path);
    }
    let again = run();
    assert_eq!((&again["fixed"], &again["changed"]), (&0.into(), &0.into()));
}

fn original(corpus: &Path, copy: &Path, path: &str) -> PathBuf {
    corpus.join(Path::new(path).strip_prefix(copy).expect("a path in the copy"))
}
