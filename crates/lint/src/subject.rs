//! A file as it is judged: what is known of it beside its text.

use std::fmt;
use std::sync::Arc;

use crate::input::Input;
use crate::patches::Patch;

/// What Helm makes of a file of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Manifests.
    Template,
    /// Nothing: it does not read hidden files.
    PassedOver,
    /// Something else, or nothing.
    Other,
}

/// A file, and what is known of it beside its text.
pub struct Subject<'a> {
    /// The file.
    pub input: &'a Input,
    /// The kustomization that lists the file as a patch.
    pub patch: Option<&'a Patch>,
    /// Whether it is a kustomization.
    pub is_kustomization: bool,
    /// Whether it is the file that makes a directory a chart.
    pub is_chart: bool,
    /// Finds the directory of the chart that the file is in, and what the file is to it. It is called where the text
    /// may be a template.
    pub chart: &'a (dyn Fn() -> Option<(Arc<str>, Role)> + Sync),
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("input", &self.input).finish_non_exhaustive()
    }
}
