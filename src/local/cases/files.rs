//! The files of cases, and their roles in a directory.
//!
//! | File | What it is |
//! | --- | --- |
//! | `policy.yaml` | the policy for the cases of its folder and of those below |
//! | `<case>.yaml` | a case |
//! | `<case>.policy.yaml` | the policy for this case alone |
//! | `<case>.facts.yaml` | objects that exist: claims, volumes, training runtimes |
//! | `<case>.fixed.yaml` | the case with safe fixes |
//! | `<case>.unsafe.yaml` | the case with all fixes, if these change more |
//! | `<case>.patch.json` | what the webhook would answer |

use std::io;
use std::path::{Path, PathBuf};

use super::{NO_FILE, Problem, rule_of, shown};
use crate::judge::rule::RuleId;
use crate::local::lint::{Content, MAX_FILE_SIZE, STDIN, collect, drained, normal};
use crate::report::clean;

/// The files of one case, of which only the first must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The manifests.
    pub case: PathBuf,
}

/// The cases in some directories.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The cases, sorted by path.
    pub cases: Vec<Paths>,
    /// What cannot be read, or belongs to no case.
    pub problems: Vec<Problem>,
}

/// The role of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CaseFileRole {
    Case,
    /// A file beside the case of a name.
    Beside(PathBuf),
    /// A policy, or something that has nothing to do with cases.
    Other,
}

/// The endings of files beside a case, without the extension of the case itself.
const BESIDE: [&str; 4] = [".policy", ".facts", ".fixed", ".unsafe"];

/// The ending of the file with the webhook's answers.
const PATCH: &str = ".patch.json";

/// Files of a folder that are not cases. The second is the configuration of a repository.
const NO_CASES: [&str; 2] = ["policy", "jobgate"];

fn role(path: &Path) -> CaseFileRole {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().unwrap_or(Path::new(""));
    if let Some(case) = name.strip_suffix(PATCH) {
        let case = ["yaml", "yml"].map(|ending| folder.join(format!("{case}.{ending}")));
        return CaseFileRole::Beside(case.iter().find(|case| case.is_file()).unwrap_or(&case[0]).clone());
    }
    let Some((stem, ending)) = name.rsplit_once('.').filter(|(_, ending)| ["yaml", "yml"].contains(ending))
    else {
        return CaseFileRole::Other;
    };
    if NO_CASES.contains(&stem) {
        return CaseFileRole::Other;
    }
    match BESIDE.iter().find_map(|beside| stem.strip_suffix(beside)) {
        Some(case) if !case.is_empty() => CaseFileRole::Beside(folder.join(format!("{case}.{ending}"))),
        _ => CaseFileRole::Case,
    }
}

/// Finds the cases of directories and files. Directories are walked as the linter walks them.
#[must_use]
pub fn find(arguments: &[PathBuf]) -> Found {
    let mut found = Found::default();
    let (stdin, arguments): (Vec<PathBuf>, Vec<PathBuf>) =
        arguments.iter().cloned().partition(|argument| argument.as_os_str() == STDIN);
    found.problems.extend(stdin.iter().map(|path| Problem::new(path, "cases are files in a directory")));
    let inputs = collect(&arguments, |_| Err(io::Error::other(NO_FILE)));
    for error in &inputs.unreadable {
        found.problems.push(Problem::new(Path::new(&error.path), error.reason.as_str()));
    }
    for input in &inputs.files {
        let Content::File(path) = &input.content else { continue };
        match role(path) {
            CaseFileRole::Case => found.cases.push(Paths { case: path.clone() }),
            CaseFileRole::Beside(case) if !case.is_file() => {
                found.problems.push(Problem {
                    help: Some(format!("there is no {}", shown(&case))),
                    ..Problem::new(path, "this file belongs to no case")
                });
            }
            CaseFileRole::Other if input.named => {
                found
                    .problems
                    .push(Problem::new(path, "this is not a case: the name of one is `<case>.yaml`"));
            }
            CaseFileRole::Beside(case) if input.named => found.cases.push(Paths { case }),
            CaseFileRole::Beside(_) | CaseFileRole::Other => {}
        }
    }
    found.cases.sort_by(|a, b| a.case.cmp(&b.case));
    found.cases.dedup();
    found
}

/// Returns the policy for the cases of a folder: the nearest in it or above it, as far as the root of the repository.
/// Above the folder, a `policy.yaml` that is not Jobgate's is skipped.
#[must_use]
pub fn policy_above(folder: &Path) -> Option<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let absolute = normal(&std::path::absolute(folder).ok()?);
    for (up, directory) in absolute.ancestors().enumerate() {
        // The path is shown as the user gave it, as far as that is possible.
        let place = if up == 0 { folder } else { directory };
        for path in POLICIES.map(|name| place.join(name)) {
            let is_ours = || {
                let text = drained(&path, MAX_FILE_SIZE).unwrap_or_default();
                memchr::memmem::find(&text, GROUP.as_bytes()).is_some()
            };
            if path.is_file() && (up == 0 || is_ours()) {
                return Some(path);
            }
        }
        if directory.join(REPOSITORY).exists() {
            break;
        }
    }
    None
}

/// The names of the policy of a folder.
const POLICIES: [&str; 2] = ["policy.yaml", "policy.yml"];

/// The group of Jobgate's own kinds.
const GROUP: &str = "jobgate.dev/";

/// An entry in the root of a repository.
const REPOSITORY: &str = ".git";

impl Paths {
    /// Returns the name of the case.
    #[must_use]
    pub fn name(&self) -> String {
        self.case.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of the case as reports show it.
    #[must_use]
    pub(crate) fn shown(&self) -> String {
        clean(&shown(&self.case)).into_owned()
    }

    /// Returns the rule that the folder is named after, if it is.
    pub(super) fn rule(&self) -> Option<RuleId> {
        let absolute = std::path::absolute(&self.case).ok()?;
        rule_of(absolute.parent()?.file_name()?.to_str()?)
    }

    fn beside(&self, what: &str) -> PathBuf {
        let ending = self.case.extension().unwrap_or_default().to_string_lossy().into_owned();
        self.case.with_file_name(format!("{}.{what}.{ending}", self.name()))
    }

    /// Returns the policy of the case alone, if there is one.
    pub(super) fn policy(&self) -> Option<PathBuf> {
        Some(self.beside("policy")).filter(|path| path.exists())
    }

    /// Returns the file of existing objects, if there is one.
    pub(super) fn facts(&self) -> Option<PathBuf> {
        Some(self.beside("facts")).filter(|path| path.exists())
    }

    /// Returns the path of the case with safe fixes, for a case with something to fix.
    #[must_use]
    pub(crate) fn fixed(&self) -> PathBuf {
        self.beside("fixed")
    }

    /// Returns the path of the case with all fixes, for a case in which they change more.
    #[must_use]
    pub(crate) fn fully_fixed(&self) -> PathBuf {
        self.beside("unsafe")
    }

    /// Returns the path of the webhook's answers.
    #[must_use]
    pub(crate) fn patch(&self) -> PathBuf {
        self.case.with_file_name(format!("{}{PATCH}", self.name()))
    }
}
