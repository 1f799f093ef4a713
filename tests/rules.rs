//! Runs every fixture of every rule: `tests/rules/<rule>/<case>.yaml`.
//!
//! A fixture is a file of manifests that starts with what must be found in it, and nothing else may be:
//!
//! ```yaml
//! # expect: deny deadline train spec.activeDeadlineSeconds
//! # expect: nothing
//! ```
//!
//! that is, level, rule, object name, field. `PersistentVolumeClaim`s of the file are facts. `<case>.policy.yaml` is the policy, else the default.
//! Cases are called `bad-…`, `good-…` and `edge-…`; a rule without one of each fails.

mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use support::fixture::{self, Fixture};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for entry in jobgate::rules::RULES {
        let rule = entry.rule;
        let fixtures = fixture::of_rule(rule);
        for sort in ["bad-", "good-", "edge-"] {
            let found = fixtures.iter().any(|fixture| fixture.case.starts_with(sort));
            let name = format!("{}::has_a_{}case", rule.file(), sort.replace('-', "_"));
            trials.push(Trial::test(name, move || found.then_some(()).ok_or_else(|| format!("no {sort}… case").into())));
        }
        for fixture in fixtures {
            trials.push(Trial::test(format!("{}::{}", rule.file(), fixture.case), move || check(&fixture)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Judges the fixture's objects as the linter does.
fn check(fixture: &Fixture) -> Result<(), Failed> {
    let mut found = Vec::new();
    for object in fixture.workloads() {
        let verdict = jobgate::engine::evaluate(&fixture.policy, &fixture.facts, &jobgate::engine::Request::of_file(object, None));
        found.extend(fixture::lines(object, &verdict.findings));
    }
    found.sort();
    if found == fixture.expected { Ok(()) } else { Err(format!("expected {:#?}\nfound {found:#?}", fixture.expected).into()) }
}
