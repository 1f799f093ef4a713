//! Which operators run, and where their programs are.

use std::env;
use std::path::{Path, PathBuf};

use super::{OPERATORS, Operator, given, known};
use crate::{programs, simulated};

/// Returns the operators that are to run, in the order in which they start: those of `JOBGATE_OPERATORS` (`NAME=FOLDER …`, or
/// `NAME` of one that `tests/cluster/get` makes), else those that run in every gate; where rows are recorded, else all that
/// `tests/cluster/get` makes.
pub(crate) fn chosen() -> Result<Vec<(&'static Operator, Option<PathBuf>)>, String> {
    let given = env::var("JOBGATE_OPERATORS").unwrap_or_default();
    if given.is_empty() {
        let is_chosen = |operator: &&Operator| {
            let is_usual = OPERATORS.iter().any(|usual| usual.name == operator.name);
            is_usual || simulated::is_recorded() && programs::is_component(operator.name)
        };
        return Ok(known().filter(is_chosen).map(|operator| (operator, None)).collect());
    }
    let mut all = Vec::new();
    for entry in given.split_whitespace() {
        let wrong = |why: &str| format!("JOBGATE_OPERATORS: {entry} {why}");
        let (name, folder) =
            entry.split_once('=').map_or((entry, None), |(name, folder)| (name, Some(folder)));
        let found = known().enumerate().find(|(_, operator)| operator.name == name);
        let (place, operator) = found.ok_or_else(|| wrong("is of no known operator"))?;
        if folder.is_none() && !programs::is_component(name) {
            return Err(wrong("is not NAME=FOLDER, and tests/cluster/get does not make it"));
        }
        // Programs are started elsewhere.
        let folder = folder.map(|folder| Path::new(folder).canonicalize()).transpose();
        all.push((place, operator, folder.map_err(|e| wrong(&format!("cannot be read: {e}")))?));
    }
    all.sort_by_key(|(place, ..)| *place);
    Ok(all.into_iter().map(|(_, operator, folder)| (operator, folder)).collect())
}

/// Returns the folders of operators' programs, which are made where none is given; or says why there are none.
pub(crate) fn folders() -> Result<Vec<(&'static Operator, PathBuf)>, String> {
    let folder = |(operator, given): (&'static Operator, Option<PathBuf>)| {
        Ok((operator, given.map_or_else(|| programs::made(operator.name), Ok)?))
    };
    chosen()?.into_iter().map(folder).collect()
}

/// Says which operators are not run because their programs were not given; none if some were.
pub(crate) fn not_run() -> Option<String> {
    if env::var("JOBGATE_OPERATORS").is_ok_and(|given| !given.is_empty()) {
        return None;
    }
    let titles: Vec<&str> = given::OPERATORS.iter().map(|operator| operator.title).collect();
    let example = given::OPERATORS.first()?.name;
    Some(format!(
        "not run: scenarios beside {}: `.ci/operators {example}=FOLDER …` runs them with programs in given folders",
        titles.join(", "),
    ))
}
