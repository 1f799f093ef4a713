//! Runs every fixture of every rule: `tests/rules/<rule>/<case>.yaml`.
//!
//! A fixture is a file of manifests that starts with what must be found in it. Nothing else may be, by the
//! folder's rule and those that the lines name; the other rules are ignored, so that a new one changes no
//! fixture of another:
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
mod new_kind;
#[cfg(feature = "serve")]
mod served;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::ExitCode;

use jobgate::judge::finding::Safety;
use jobgate::judge::rules::RULES;
use jobgate::local::lint::{self, Input};
use libtest_mimic::{Arguments, Failed, Trial};
use support::fixing;
use support::fixture::{self, Fixture};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = new_kind::trials();
    trials.extend(golden::trials());
    for entry in RULES {
        let rule = entry.rule;
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
            let (name, path, policy) = (
                format!("{}::{}::fixed", rule.file(), fixture.case),
                fixture.path.clone(),
                fixture.policy.clone(),
            );
            if fixture.case.starts_with("good-") {
                let (path, policy) = (path.clone(), policy.clone());
                trials.push(Trial::test(name.replace("::fixed", "::valid"), move || valid(&path, &policy)));
            }
            trials.push(Trial::test(name, move || fixed(&path, &policy)));
            trials.push(Trial::test(format!("{}::{}", rule.file(), fixture.case), move || check(&fixture)));
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
            &jobgate::judge::engine::Request::of_file(object, None),
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
        findings.filter(|finding| !RULES.iter().any(|entry| entry.rule.id == finding.rule)).collect();
    if others.is_empty() { Ok(()) } else { Err(format!("{others:#?}").into()) }
}

/// Fixes the fixture's file, and holds what comes out against the files beside it.
fn fixed(path: &Path, policy: &jobgate::judge::policy::Policy) -> Result<(), Failed> {
    let source = std::fs::read(path)?;
    let make = |most: Safety| {
        let (linted, mut changed) = fixing::fix(&[Input::named(path)], policy, most);
        let withheld: Vec<String> = linted
            .report
            .findings
            .iter()
            .filter_map(|located| located.withheld.as_deref().map(str::to_owned))
            .collect();
        match withheld.is_empty() {
            true => Ok(changed.pop_first().map_or_else(|| source.clone(), |(_, changed)| changed.new)),
            false => Err(Failed::from(format!("{most:?} fixes are withheld: {withheld:?}"))),
        }
    };
    let (safe, all) = (make(Safety::Safe)?, make(Safety::Unsafe)?);
    golden_file(&path.with_extension("fixed.yaml"), (safe != source).then_some(&safe))?;
    golden_file(&path.with_extension("unsafe.yaml"), (all != safe).then_some(&all))
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
