//! The fixes that a run applies, and the destination of the fixed files.

use std::fmt;

use jobgate_lint::Input;

use crate::judge::finding::Safety;
use crate::report::clean;
use crate::text::yaml::Edit;

/// The findings that a run fixes, and the destination of the files.
#[derive(Clone, Copy, Debug)]
pub struct Fixing<'a> {
    /// The least safe kind of fix to apply: [`Safety::Safe`] for those only, [`Safety::Unsafe`] for all.
    pub most: Safety,
    /// Receives each changed file, on the thread that judged it.
    pub sink: &'a dyn Sink,
}

/// One file before and after.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The file.
    pub input: &'a Input,
    /// The old text.
    pub old: &'a [u8],
    /// The new text; never equal to the old one.
    pub new: &'a [u8],
    /// The edits between them, sorted and without overlap.
    pub edits: &'a [Edit],
}

/// The destination of changed files: the disk, or a diff.
pub trait Sink: fmt::Debug + Sync {
    /// Receives a changed file.
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
    pub(crate) path: String,
    /// The reason.
    pub(crate) reason: String,
}
