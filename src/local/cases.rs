//! Cases of a policy: manifests that say in comments what must be found in them. Rules are tested by them in
//! `tests/rules`, and the policies of users by `jobgate policy test`.
//!
//! ```yaml
//! # expect: deny deadline train spec.activeDeadlineSeconds
//! # expect: nothing
//! ```
//!
//! ```text
//! directory ──files──> paths of a case ──Case::read──> Case ──judge──> Judged ──differences──> files to write
//! ```
//!
//! The differences are files as they would be if the case were right: a report shows them as a diff, and an update
//! writes them.

mod expectations;
mod files;
mod judge;

pub use expectations::{Expectations, line};
pub use files::{Found, Paths, find, policy_above};
pub use judge::Judged;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::fix;
use super::lint::{self, Claims, Input, MAX_FILE_SIZE, Options};
use crate::judge::policy::Policy;
use crate::judge::rule::RuleId;
use crate::judge::rules::RuleSet;
use crate::report::clean;
use crate::text::lines::{Lines, Position};
use crate::text::yaml::Edit;

/// An error in the case itself, which then tests nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {message}{}", clean(.path), place(.position.as_ref()), more(.help.as_deref()))]
pub struct Problem {
    /// The file, as it is shown.
    pub(crate) path: String,
    /// Where in it, if it is about a line.
    pub(crate) position: Option<Position>,
    /// The message, without a period.
    pub(crate) message: String,
    /// What to do about it, where there is more to say; no period.
    pub(crate) help: Option<String>,
}

fn place(position: Option<&Position>) -> String {
    position.map(|position| format!(":{}:{}", position.line, position.column)).unwrap_or_default()
}

fn more(help: Option<&str>) -> String {
    help.map(|help| format!("; {help}")).unwrap_or_default()
}

impl Problem {
    /// Returns what is wrong with a whole file.
    pub(crate) fn new(path: &Path, message: impl Into<String>) -> Self {
        Self { path: shown(path), position: None, message: message.into(), help: None }
    }
}

/// One case, read.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its files.
    pub(crate) paths: Paths,
    /// The text of the manifests.
    pub source: Vec<u8>,
    /// What must be found in them.
    pub expectations: Expectations,
    /// The objects that exist beside them, of `<case>.facts.yaml`.
    pub(crate) facts: Claims,
    /// The policy of the case alone, of `<case>.policy.yaml`.
    pub policy: Option<Policy>,
}

/// A file that differs from what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The file.
    pub path: PathBuf,
    /// Its text; `None` if there is no such file.
    pub(crate) old: Option<Vec<u8>>,
    /// What the text should be; `None` if there should be no such file.
    pub new: Option<Vec<u8>>,
    /// Whether it differs only in the expected lines, like the case itself, so that a report need not repeat it.
    pub(crate) follows: bool,
    /// What a missing file is compared with: the case.
    base: Vec<u8>,
}

/// The files beside a case that must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// `<case>.fixed.yaml`, if there is something to fix; the others are compared if they exist.
    Fixed,
    /// `<case>.unsafe.yaml`, too, if unsafe fixes change more.
    Unsafe,
}

impl Case {
    /// Reads the files of a case.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not what it should be.
    pub fn load(paths: &Paths) -> Result<Self, Vec<Problem>> {
        let case = &paths.case;
        let source = bytes(case).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let expectations = Expectations::parse(&source, &shown(case)).unwrap_or_else(|mut found| {
            problems.append(&mut found);
            Expectations::default()
        });
        let policy = match paths.policy() {
            Some(path) => read_policy(&path).map(Some).unwrap_or_else(|mut found| {
                problems.append(&mut found);
                None
            }),
            None => None,
        };
        let facts = match paths.facts() {
            Some(path) => facts(&path).unwrap_or_else(|problem| {
                problems.push(problem);
                Claims::default()
            }),
            None => Claims::default(),
        };
        match problems.is_empty() {
            true => Ok(Self { paths: paths.clone(), source, expectations, facts, policy }),
            false => Err(problems),
        }
    }

    /// Returns the problem of a case without any expectations.
    #[must_use]
    pub fn asserts_nothing(&self) -> Option<Problem> {
        self.expectations.is_empty().then(|| Problem {
            position: Some(Position { line: 1, column: 1 }),
            help: Some(
                "add `# expect: nothing`, or `# expect: LEVEL RULE NAME FIELD` for each finding; --update does it"
                    .to_owned(),
            ),
            ..Problem::new(&self.paths.case, "the case has no `# expect:` line")
        })
    }

    /// Tells whether the findings of a rule or check count in this case. In a folder with the name of a rule,
    /// that rule counts and those that are expected, so that a new rule changes no case of another. In any
    /// other folder everything does.
    #[must_use]
    pub(crate) fn counts(&self, id: &str) -> bool {
        self.paths.rule().is_none_or(|own| own == *id) || self.expectations.names(id)
    }

    /// Returns a policy with only the rules that count.
    #[must_use]
    pub fn narrowed(&self, policy: Policy) -> Policy {
        match self.paths.rule() {
            Some(_) => policy.with_only(|id| self.counts(id)),
            None => policy,
        }
    }

    /// Judges the manifests by the policy of the case, or else by that of its folder.
    ///
    /// # Errors
    ///
    /// The manifests cannot be read, or there is nothing to judge in them.
    pub fn judge(&self, policy: &Policy, beside: Beside) -> Result<Judged, Vec<Problem>> {
        let policy = self.narrowed(self.policy.as_ref().unwrap_or(policy).clone());
        judge::judge(self, &policy, beside)
    }

    /// Returns the files that are not as they should be: the case, for its lines, and the files beside it.
    ///
    /// # Errors
    ///
    /// A file beside the case cannot be read.
    pub fn differences(&self, judged: &Judged) -> Result<Vec<Difference>, Problem> {
        let edits = self.expectations.edits(&self.source, &judged.lines);
        let mut differences = Vec::new();
        if !edits.is_empty() {
            differences.push(Difference {
                path: self.paths.case.clone(),
                old: Some(self.source.clone()),
                new: Some(fix::apply(&self.source, &edits)),
                follows: false,
                base: Vec::new(),
            });
        }
        // A file beside the case repeats it, with the lines that the case should have.
        let moved = |text: &[u8]| {
            let lines = Expectations::parse(text, "").unwrap_or_default();
            fix::apply(text, &lines.edits(text, &judged.lines))
        };
        let fixed = judged.fixed.as_deref().map(moved);
        let fully = judged.fully_fixed.as_deref().map(moved);
        let patch = judged.patch.clone();
        let beside = [
            (self.paths.fixed(), Some(fixed)),
            (self.paths.fully_fixed(), judged.has_fully_fixed.then_some(fully)),
            (self.paths.patch(), judged.has_patch.then_some(patch)),
        ];
        for (path, new) in beside {
            let Some(new) = new else { continue };
            let old = if path.exists() { Some(bytes(&path)?) } else { None };
            if old != new {
                let follows = !edits.is_empty() && old.as_deref().map(moved) == new;
                let base = match path.extension().is_some_and(|ending| ending == "json") {
                    true => Vec::new(),
                    false => moved(&self.source),
                };
                differences.push(Difference { path, old, new, follows, base });
            }
        }
        Ok(differences)
    }
}

impl Difference {
    /// Returns the difference as a unified diff of the file, with nothing in it that controls a terminal.
    #[must_use]
    pub fn diff(&self) -> String {
        let (old, new) = (self.old.as_ref().unwrap_or(&self.base), self.new.as_deref().unwrap_or_default());
        let diff = fix::diff(&self.shown(), old, &edits(old, new));
        let mut lines: Vec<Cow<'_, str>> = diff.lines().take(MAX_DIFF_LINES).map(clean).collect();
        let more = diff.lines().count() - lines.len();
        if more > 0 {
            lines.push(format!("… and {more} more lines").into());
        }
        lines.join("\n") + "\n"
    }

    /// Returns the path as reports show it.
    #[must_use]
    pub(crate) fn shown(&self) -> String {
        clean(&shown(&self.path)).into_owned()
    }

    /// Returns a note about the file, if a diff does not show the problem.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let path = self.shown();
        match (&self.old, &self.new) {
            (None, _) => Some(format!("{} is missing; --fix makes these changes", path)),
            (_, None) => Some(format!("{} should not exist: there is nothing to fix", path)),
            _ => None,
        }
    }
}

/// Maximum lines of a diff to show.
const MAX_DIFF_LINES: usize = 200;

/// Returns the edit from one text to another: the lines between those that are the same.
fn edits(old: &[u8], new: &[u8]) -> Vec<Edit> {
    let lines = |text| <[u8]>::split_inclusive(text, |byte: &u8| *byte == b'\n');
    let length = |same: &mut dyn Iterator<Item = (&[u8], &[u8])>| -> usize {
        same.take_while(|(old, new)| old == new).map(|(line, _)| line.len()).sum()
    };
    let start = length(&mut lines(old).zip(lines(new)));
    let behind = length(&mut lines(&old[start..]).rev().zip(lines(&new[start..]).rev()));
    let text = String::from_utf8_lossy(&new[start..new.len() - behind]).into_owned();
    vec![Edit { span: start..old.len() - behind, text }]
}

/// Reads a policy.
///
/// # Errors
///
/// It cannot be read, or is not valid.
pub(crate) fn read_policy(path: &Path) -> Result<Policy, Vec<Problem>> {
    let source = bytes(path).map_err(|problem| vec![problem])?;
    let Ok(source) = String::from_utf8(source) else {
        return Err(vec![Problem::new(path, "this is not UTF-8")]);
    };
    Policy::parse(&source, &shown(path)).map_err(|errors| {
        let lines = Lines::new(errors.source.as_bytes());
        let one = |error: &crate::judge::settings::SettingsError| Problem {
            path: shown(path),
            position: Some(lines.position(error.span.start)),
            message: clean(&error.message).into_owned(),
            help: error.help.as_ref().map(|help| clean(help).into_owned()),
        };
        errors.errors.iter().map(one).collect()
    })
}

fn facts(path: &Path) -> Result<Claims, Problem> {
    let input = Input::text(&shown(path), bytes(path)?);
    lint::facts_in(&[input], &Options::default()).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Problem::new(path, clean(&format!("{error}{cause}")).into_owned())
    })
}

/// Reads a file up to the size that a linted one may have.
fn bytes(path: &Path) -> Result<Vec<u8>, Problem> {
    // Reading a pipe would wait for whoever writes into it.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Problem::new(path, NO_FILE));
    }
    let text = lint::drained(path, MAX_FILE_SIZE).map_err(|error| Problem::new(path, error.to_string()))?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(Problem::new(path, "the file is too large"));
    }
    Ok(text)
}

/// The message about a pipe, a device or a directory in place of a file.
const NO_FILE: &str = "this is not a regular file";

/// Returns a path as reports show it.
fn shown(path: &Path) -> String {
    Input::named(path).path.to_string()
}

/// Returns the rule with this file name or id.
fn rule_of(file: &str) -> Option<RuleId> {
    let rules = RuleSet::built_in();
    rules.iter().find(|rule| rule.file() == file || rule.id == *file).map(|rule| rule.id.clone())
}
