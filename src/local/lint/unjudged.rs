//! Files and directories that are not judged, or not fixed, and why.
//!
//! The reasons of objects are chosen by the linter's `judge::document::unjudged`.

use std::path::Path;
use std::sync::Arc;

use super::discover::Unreadable;
use super::fixing::Unwritten;
use crate::local::paths::shown;
use crate::report::{Kustomized, NotRendered, Reason, Unjudged};
use jobgate_lint::place::whole_file;

impl Unreadable {
    /// Returns the path as not judged.
    #[must_use]
    pub(crate) fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::UnreadablePath(self.reason.as_str().into()))
    }
}

impl Unwritten {
    /// Returns the file as not fixed.
    #[must_use]
    pub(crate) fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::NotWritten(self.reason.as_str().into()))
    }
}

/// Returns a file above the size limit.
pub(super) fn too_large(path: &Arc<str>) -> Unjudged {
    whole_file(Arc::clone(path), Reason::TooLarge)
}

/// Returns a chart that is not rendered, of which a file is known.
pub(super) fn chart_parts(path: Arc<str>, dir: Arc<str>) -> Unjudged {
    whole_file(path, Reason::ChartParts(dir))
}

/// Returns a kustomization that is not rendered.
pub(super) fn kustomization(kustomized: Kustomized) -> Unjudged {
    whole_file(Arc::clone(&kustomized.path), Reason::Kustomization(kustomized))
}

/// Returns a template of a rendered chart that rendered to nothing.
pub(super) fn no_output(path: &Arc<str>, dir: &Arc<str>) -> Unjudged {
    whole_file(Arc::clone(path), Reason::NoOutput(Arc::clone(dir)))
}

/// Returns a chart that was rendered without some of its dependencies.
pub(super) fn dependencies(file: &Path, names: &[String]) -> Unjudged {
    let dir = shown(file.parent().unwrap_or(Path::new("")));
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    whole_file(shown(file).into(), Reason::Dependencies(dir.into(), names.into()))
}

/// Returns the file of a chart or kustomization that could not be rendered.
pub(super) fn not_rendered(file: &Path, not: &NotRendered) -> Unjudged {
    whole_file(shown(file).into(), Reason::NotRendered(not.clone()))
}
