//! `jobgate policy test`: judges the cases of a policy, and shows how they differ from their expectations.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rayon::prelude::*;

use super::configuration::{Configuration, seen_from};
use super::lint::write_diff;
use super::stderr::say;
use super::{Exit, policy_named};
use crate::cli::args::PolicyTest;
use crate::judge::policy::Policy;
use crate::local::cases::{self, Beside, Case, Difference, Paths, Problem};
use crate::local::lint::path_text;
use crate::local::replace::{self, NotReplaced};
use crate::report::{clean, plural};
use crate::text::number::thousands;

/// The outcome of one case.
enum PolicyTestOutcome {
    Passed,
    /// It does not meet its expectations: the files that differ, and the unexpected findings.
    Failed(Vec<Difference>, Vec<String>),
    /// It tests nothing.
    Broken(Vec<Problem>),
}

/// A policy, and its name for display.
struct Chosen {
    policy: Policy,
    shown: String,
}

/// Runs the command. `color` is whether `out` may have colours.
///
/// Ends with [`Exit::Findings`] where a case does not meet its expectations, and with [`Exit::Failed`] where one cannot
/// be read, tests nothing, or cannot be written.
///
/// # Errors
/// The policy of the arguments cannot be read, or `out` cannot be written.
pub fn run(args: &PolicyTest, color: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let found = cases::find(&args.paths);
    let mut problems = found.problems;
    let policies = FolderPolicies::new(args, &found.cases, &mut problems)?;
    let outcomes: Vec<PolicyTestOutcome> =
        found.cases.par_iter().map(|paths| judge(paths, policies.of_case(paths), args.update)).collect();
    let (mut passed, mut failed, mut updated) = (0, 0, 0);
    let broken = outcomes.iter().filter(|outcome| matches!(outcome, PolicyTestOutcome::Broken(_))).count();
    for (paths, outcome) in found.cases.iter().zip(outcomes) {
        let name = paths.shown();
        match outcome {
            PolicyTestOutcome::Passed => {
                passed += 1;
                if args.verbose {
                    writeln!(out, "ok {name}")?;
                }
            }
            PolicyTestOutcome::Failed(differences, _) if args.update => match update(&differences) {
                Ok(()) => {
                    updated += 1;
                    for difference in &differences {
                        let what = if difference.new.is_some() { "wrote" } else { "removed" };
                        writeln!(out, "{what} {}", difference.shown())?;
                        for line in no_longer_expected(difference) {
                            writeln!(out, "  no longer expected: {line}")?;
                        }
                    }
                }
                Err(problem) => problems.push(problem),
            },
            PolicyTestOutcome::Failed(differences, told) => {
                failed += 1;
                writeln!(out, "FAILED {name}")?;
                show(color, &differences, &told, out)?;
            }
            PolicyTestOutcome::Broken(mut found) => problems.append(&mut found),
        }
    }
    let has_cases = !found.cases.is_empty();
    if !has_cases && problems.is_empty() {
        let paths: Vec<String> = args.paths.iter().map(|path| clean(&path_text(path)).into_owned()).collect();
        say(&format!("no cases in {}; see docs/policy-test.md", paths.join(", ")))?;
        return Ok(Exit::Failed);
    }
    for problem in &problems {
        say(&problem.to_string())?;
    }
    if has_cases {
        let mut parts = vec![format!("{} passed", plural(passed, "case"))];
        let counted = [(updated, "updated"), (failed, "failed"), (broken, "not run")];
        parts.extend(
            counted
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{} {what}", thousands(count))),
        );
        let hint = if failed > 0 { "; --update writes what was found into the cases" } else { "" };
        writeln!(out, "{} ({}){hint}", parts.join(", "), policies.shown())?;
    }
    Ok(match () {
        () if !problems.is_empty() => Exit::Failed,
        () if failed > 0 => Exit::Findings,
        () => Exit::Clean,
    })
}

/// The policies of the cases' folders.
struct FolderPolicies {
    /// The policies, by the path of the file; the empty path is that of cases without one.
    by_path: BTreeMap<PathBuf, Option<Chosen>>,
    /// The path for each folder.
    by_folder: BTreeMap<PathBuf, PathBuf>,
}

impl FolderPolicies {
    /// Reads the policies. Errors in one go to `problems`: its cases are not run.
    fn new(args: &PolicyTest, cases: &[Paths], problems: &mut Vec<Problem>) -> anyhow::Result<Self> {
        let mut policies = Self { by_path: BTreeMap::new(), by_folder: BTreeMap::new() };
        let current = std::env::current_dir().context("find the current directory")?;
        let fallback = match &args.policy {
            Some(name) => Some(Chosen { policy: policy_named(name)?, shown: name.clone() }),
            None => None,
        };
        let is_fixed = fallback.is_some();
        policies.by_path.insert(PathBuf::new(), fallback);
        for paths in cases {
            let folder = paths.case.parent().unwrap_or(Path::new("")).to_owned();
            if policies.by_folder.contains_key(&folder) {
                continue;
            }
            let path = if is_fixed { None } else { cases::policy_above(&folder) };
            let path = path.map(|path| seen_from(&current, &path)).unwrap_or_default();
            if path.as_os_str().is_empty() && !is_fixed && policies.by_path[&path].is_none() {
                let chosen = configured(&args.paths, &current)?;
                policies.by_path.insert(PathBuf::new(), Some(chosen));
            } else if !policies.by_path.contains_key(&path) {
                let read = cases::read_policy(&path)
                    .map(|policy| Chosen { policy, shown: clean(&path_text(&path)).into_owned() });
                let read = read.map_err(|mut found| problems.append(&mut found)).ok();
                policies.by_path.insert(path.clone(), read);
            }
            policies.by_folder.insert(folder, path);
        }
        Ok(policies)
    }

    fn of_case(&self, paths: &Paths) -> Option<&Policy> {
        let folder = paths.case.parent().unwrap_or(Path::new(""));
        Some(&self.by_path.get(self.by_folder.get(folder)?)?.as_ref()?.policy)
    }

    /// Returns the policies in words.
    fn shown(&self) -> String {
        let shown: Vec<&str> = self.by_path.values().flatten().map(|chosen| chosen.shown.as_str()).collect();
        match shown.as_slice() {
            [] => "no policy".to_owned(),
            [only] => format!("policy {only}"),
            several => format!("{} policies", several.len()),
        }
    }
}

/// Returns the policy of the configuration, or else the default one.
fn configured(paths: &[PathBuf], current: &Path) -> anyhow::Result<Chosen> {
    let configuration = Configuration::load(None, paths, current)?;
    if let Some((file, named)) = configuration.as_ref().and_then(|file| Some((file, file.policy.as_ref()?))) {
        let shown = format!("{} of {}", clean(&named.value), clean(&file.path));
        return Ok(Chosen { policy: file.read_policy(named)?, shown });
    }
    Ok(Chosen { policy: crate::policies::default(), shown: "default, as there is no policy.yaml".to_owned() })
}

fn judge(paths: &Paths, policy: Option<&Policy>, update: bool) -> PolicyTestOutcome {
    let Some(policy) = policy else { return PolicyTestOutcome::Broken(Vec::new()) };
    let done = || -> Result<PolicyTestOutcome, Vec<Problem>> {
        let case = Case::load(paths)?;
        if let Some(problem) = case.asserts_nothing().filter(|_| !update) {
            return Err(vec![problem]);
        }
        let judged = case.judge(policy, Beside::Fixed)?;
        let differences = case.differences(&judged).map_err(|problem| vec![problem])?;
        if differences.is_empty() {
            return Ok(PolicyTestOutcome::Passed);
        }
        let lines = judged.lines.iter().zip(judged.told);
        let unexpected = lines.filter(|(line, _)| !case.expectations.lines.contains(line));
        Ok(PolicyTestOutcome::Failed(differences, unexpected.map(|(_, told)| told).collect()))
    };
    done().unwrap_or_else(PolicyTestOutcome::Broken)
}

/// Shows how a case differs, and the findings that it does not expect.
fn show(color: bool, differences: &[Difference], told: &[String], out: &mut dyn Write) -> io::Result<()> {
    for difference in differences.iter().filter(|difference| !difference.follows) {
        if let Some(note) = difference.note() {
            writeln!(out, "{note}")?;
        }
        write_diff(color, &difference.diff(), out)?;
    }
    for line in told {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

/// Returns the expectations that an update removes from a case: a policy that finds less may be a mistake.
fn no_longer_expected(difference: &Difference) -> Vec<String> {
    let expectations = |text: &Option<Vec<u8>>| -> Vec<String> {
        let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default());
        let lines = text.lines().filter_map(|line| line.strip_prefix("# expect:"));
        lines.map(|line| clean(line.trim()).into_owned()).collect()
    };
    if difference.follows || difference.new.is_none() {
        return Vec::new();
    }
    let now: BTreeSet<String> = expectations(&difference.new).into_iter().collect();
    let before = expectations(&difference.old).into_iter();
    before.filter(|line| line != "nothing" && !now.contains(line)).collect()
}

/// Writes the files of a case, each completely or not at all; the case itself last, so that one that is half
/// written still fails.
fn update(differences: &[Difference]) -> Result<(), Problem> {
    for difference in differences.iter().rev() {
        let path = &difference.path;
        let failed = |error: String| Problem {
            path: path_text(path),
            position: None,
            message: format!("cannot be written: {error}"),
            help: None,
        };
        match (&difference.old, &difference.new) {
            // It was found by a walk, and not named by the user.
            (Some(_), _) if path.is_symlink() => return Err(failed(NotReplaced::Link.to_string())),
            (Some(old), Some(new)) => {
                replace::replace(path, old, new).map_err(|error| failed(error.to_string()))?;
            }
            (None, Some(new)) => replace::put(path, new).map_err(|error| failed(error.to_string()))?,
            (_, None) => std::fs::remove_file(path).map_err(|error| failed(error.to_string()))?,
        }
    }
    Ok(())
}
