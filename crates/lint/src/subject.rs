//! A file to judge, with what is known about it besides its text.

use std::fmt;
use std::sync::Arc;

use crate::input::Input;
use crate::patches::Patch;

/// The role of a file in a Helm chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Helm renders it to manifests.
    Template,
    /// Helm does not use it: it does not read hidden files.
    PassedOver,
    /// Helm uses it for something else, or not at all.
    Other,
}

/// A file, and what is known about it besides its text.
pub struct Subject<'a> {
    /// The file.
    pub input: &'a Input,
    /// The kustomization that lists the file as a patch.
    pub patch: Option<&'a Patch>,
    /// Whether it is a kustomization.
    pub is_kustomization: bool,
    /// Whether it is the file that makes a directory a chart.
    pub is_chart: bool,
    /// Finds the directory of the file's chart, and the file's role in it. Called where the text may be a template.
    pub chart: &'a (dyn Fn() -> Option<(Arc<str>, Role)> + Sync),
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("input", &self.input).finish_non_exhaustive()
    }
}
