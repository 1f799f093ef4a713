//! Claims in the linted files and the `--facts` files.

use std::sync::Arc;

use jobgate_lint::claims::{self, Claims, Read, entries};
use jobgate_lint::{FileBytes, Input};
use rayon::prelude::*;

use super::discover::Unreadable;
use super::options::Options;
use super::source::{self, TooLarge};
use crate::text::lines::Lines;
use crate::text::number::bytes;
use crate::text::yaml::{self, SyntaxError};

/// A `--facts` file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FactsError {
    /// It cannot be read at all.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It is too large.
    #[error("the facts in {path} are larger than the limit of {limit}; raise it with `--max-file-size`")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// It is not YAML or JSON.
    #[error("facts in {path}: line {line}")]
    Syntax {
        /// The path.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The error.
        source: SyntaxError,
    },
}

/// Reads the claims of `--facts` files.
///
/// # Errors
///
/// A file cannot be read or is not YAML: missing facts would change verdicts.
pub(crate) fn facts_in(inputs: &[Input], options: &Options<'_>) -> Result<Claims, FactsError> {
    let mut claims = Claims::default();
    for input in inputs {
        let path = || input.path.to_string();
        let loaded = match source::load(input, options.max_file_size)? {
            Ok(loaded) => loaded,
            Err(TooLarge { .. }) => {
                return Err(FactsError::TooLarge { path: path(), limit: bytes(options.max_file_size) });
            }
        };
        let (lines, input) = (Lines::new(loaded.bytes()), Arc::new(input.clone()));
        let limits = options.limits();
        for chunk in yaml::split(loaded.bytes(), &limits) {
            let document = chunk.and_then(|chunk| yaml::parse(loaded.bytes(), &chunk, &limits));
            let document = document.map_err(|source| FactsError::Syntax {
                path: path(),
                line: lines.position(source.span.start).line,
                source,
            })?;
            claims.extend(entries(&input, &lines, &document));
        }
    }
    Ok(claims)
}

/// Finds the claims in the linted files. Unreadable files are left to the linter. `alone` is the content
/// of the only file, if there is one.
pub(super) fn in_inputs(inputs: &[Input], alone: Option<&FileBytes>, options: &Options<'_>) -> Claims {
    let found: Vec<Vec<Read>> = inputs.par_iter().map(|input| in_input(input, alone, options)).collect();
    let mut claims = Claims::default();
    claims.extend(found.into_iter().flatten());
    claims
}

/// Finds the claims, volumes and runtimes of a file.
pub(super) fn in_input(input: &Input, alone: Option<&FileBytes>, options: &Options<'_>) -> Vec<Read> {
    let mentions = match alone {
        Some(_) => true,
        None => source::mentions(input, &claims::KINDS, options.max_file_size),
    };
    if !mentions {
        return Vec::new();
    }
    let loaded =
        alone.cloned().map_or_else(|| source::load(input, options.max_file_size), |loaded| Ok(Ok(loaded)));
    let Ok(Ok(loaded)) = loaded else { return Vec::new() };
    claims::in_text(input, loaded.bytes(), &options.limits())
}
