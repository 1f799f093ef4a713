//! Runs every fixture of every rule: `tests/rules/<rule>/<case>.yaml`.
//!
//! A fixture is a case as `jobgate policy test` reads and judges it, by the same code
//! ([`jobgate::local::cases`]): a file of manifests that starts with what must be found in it. Nothing else may
//! be, by the folder's rule and those that the lines name; the other rules are ignored, so that a new one
//! changes no fixture of another:
//!
//! ```yaml
//! # expect: deny deadline train spec.activeDeadlineSeconds
//! # expect: nothing
//! ```
//!
//! that is, level, rule, object name, field. `PersistentVolumeClaim`s of the file are facts.
//! `<case>.policy.yaml` is the policy, else the default. What `lint --fix` makes of it stands in
//! `<case>.fixed.yaml`, byte for byte, and what `--unsafe-fixes` makes of it in `<case>.unsafe.yaml` where
//! that is something else. A file that is missing or one too many fails; `UPDATE=1` writes them anew. Read
//! what it has written: users will see it in their files.
//!
//! Cases are called `bad-…`, `good-…` and `edge-…`; a rule without one of each fails.

mod golden;
mod needs;
mod new_kind;
mod new_rule;
#[cfg(feature = "serve")]
mod served;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use jobgate::judge::rules::RuleSet;
use jobgate::local::cases::Beside;
use jobgate::local::lint::{self, Input};
use jobgate::local::replace;
use libtest_mimic::{Arguments, Failed, Trial};
use support::fixture::{self, Fixture};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = new_kind::trials();
    trials.extend(new_rule::trials());
    trials.extend(golden::trials());
    trials.extend(needs::trials());
    for rule in &RuleSet::built_in() {
        let fixtures = fixture::of_rule(rule);
        for sort in ["bad-", "good-", "edge-"] {
            let found = fixtures.iter().any(|fixture| fixture.case.starts_with(sort));
            let name = format!("{}::has_a_{}case", rule.file(), sort.replace('-', "_"));
            trials.push(Trial::test(name, move || {
                found.then_some(()).ok_or_else(|| format!("no {sort}… case").into())
            }));
        }
        let cases: Vec<String> = fixtures.iter().map(|fixture| fixture.case.clone()).collect();
        let folder = fixture::folder(rule);
        trials.push(Trial::test(format!("{}::has_no_stray_file", rule.file()), move || {
            strays(&folder, &cases)
        }));
        for fixture in fixtures {
            let name = format!("{}::{}", rule.file(), fixture.case);
            if fixture.case.starts_with("good-") {
                let (path, policy) = (fixture.path.clone(), fixture.policy.clone());
                trials.push(Trial::test(format!("{name}::valid"), move || valid(&path, &policy)));
            }
            let fixture = Arc::new(fixture);
            let fixed_fixture = Arc::clone(&fixture);
            trials.push(Trial::test(format!("{name}::fixed"), move || fixed(&fixed_fixture)));
            trials.push(Trial::test(name, move || check(&fixture)));
        }
    }
    #[cfg(feature = "serve")]
    trials.extend(served::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Judges the fixture's objects as the linter does.
fn check(fixture: &Fixture) -> Result<(), Failed> {
    let mut found = Vec::new();
    for object in fixture.workloads() {
        let verdict = jobgate::judge::engine::evaluate(
            &fixture.policy,
            &fixture.facts,
            &jobgate::judge::engine::Request::from_file(object, None),
        );
        found.extend(fixture::lines(object, &verdict.findings));
    }
    found.sort();
    if found == fixture.expected {
        Ok(())
    } else {
        Err(format!("expected {:#?}\nfound {found:#?}", fixture.expected).into())
    }
}

/// Fails for a good fixture that the linter takes for something that the API server would reject.
fn valid(path: &Path, policy: &jobgate::judge::policy::Policy) -> Result<(), Failed> {
    let options = lint::Options::default();
    let report = lint::lint(&[Input::named(path)], policy, &lint::Claims::default(), &options).report;
    let findings = report.findings.iter().map(|located| &located.finding);
    let others: Vec<_> =
        findings.filter(|finding| !RuleSet::built_in().iter().any(|rule| rule.id == finding.rule)).collect();
    if others.is_empty() { Ok(()) } else { Err(format!("{others:#?}").into()) }
}

/// Judges the fixture as `jobgate policy test` does, and holds what comes out against its files.
fn fixed(fixture: &Fixture) -> Result<(), Failed> {
    let case = &fixture.read;
    let failed = |problems: Vec<_>| Failed::from(format!("{problems:?}"));
    let judged = case.judge(&fixture.policy, Beside::Unsafe).map_err(failed)?;
    if !judged.withheld.is_empty() {
        return Err(format!("fixes are withheld: {:?}", judged.withheld).into());
    }
    let mut message = String::new();
    for difference in case.differences(&judged)? {
        // What is expected is written by people.
        if std::env::var_os("UPDATE").is_none() || difference.path == fixture.path {
            message.extend(difference.note());
            message += &difference.diff();
            continue;
        }
        match &difference.new {
            Some(text) => replace::put(&difference.path, text)?,
            None => std::fs::remove_file(&difference.path)?,
        }
    }
    if message.is_empty() { Ok(()) } else { Err(message.into()) }
}

/// Compares a file with what it should hold, or should not be there for.
pub(crate) fn golden_file(path: &Path, wanted: Option<&Vec<u8>>) -> Result<(), Failed> {
    let there = std::fs::read(path).ok();
    if there.as_ref() == wanted {
        return Ok(());
    }
    if std::env::var_os("UPDATE").is_some() {
        match wanted {
            Some(text) => {
                path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(path, text)?;
            }
            None => std::fs::remove_file(path)?,
        }
        return Ok(());
    }
    let shown = |text: Option<&Vec<u8>>| {
        text.map_or_else(
            || "is not there".to_owned(),
            |text| format!("is\n{}", String::from_utf8_lossy(text)),
        )
    };
    Err(format!("{} {}\nand should be as in\n{}", path.display(), shown(there.as_ref()), shown(wanted))
        .into())
}

/// Fails for a file that belongs to no case.
fn strays(folder: &Path, cases: &[String]) -> Result<(), Failed> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let (case, ending) = name.split_once('.').unwrap_or((&name, ""));
        if !cases.iter().any(|known| known == case)
            || !["yaml", "policy.yaml", "fixed.yaml", "unsafe.yaml"].contains(&ending)
        {
            return Err(format!("{name} belongs to no case").into());
        }
    }
    Ok(())
}
