//! Which fixes a run applies, and where the fixed files go.

use std::fmt;

use jobgate_lint::Input;

use crate::judge::finding::Safety;
use crate::report::clean;
use crate::text::yaml::Edit;

/// Which findings a run fixes, and where the files go.
#[derive(Clone, Copy, Debug)]
pub struct Fixing<'a> {
    /// The least safe fixes that are made: [`Safety::Safe`] for those only, [`Safety::Unsafe`] for all.
    pub most: Safety,
    /// Takes each file that changes, from the thread that has judged it.
    pub sink: &'a dyn Sink,
}

/// One file before and after.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The file.
    pub input: &'a Input,
    /// The old text.
    pub old: &'a [u8],
    /// What it is to be; never the same.
    pub new: &'a [u8],
    /// The edits between them, sorted and without overlap.
    pub edits: &'a [Edit],
}

/// Where changed files go: to the disk, or into a diff.
pub trait Sink: fmt::Debug + Sync {
    /// Takes a changed file.
    ///
    /// # Errors
    ///
    /// The file is unchanged, and the report is about it.
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten>;
}

/// A file that should have been changed and was not.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {}", clean(path), clean(reason))]
pub struct Unwritten {
    /// The path, as the user gave it.
    pub path: String,
    /// The reason.
    pub reason: String,
}
