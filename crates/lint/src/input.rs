//! Texts to lint: the file of each, and how the run reached it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The argument and path of standard input.
pub const STDIN: &str = "-";

/// One file to lint.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path in reports; `-` for standard input.
    pub path: Arc<str>,
    /// Where its text is.
    pub content: Content,
    /// Whether the user named this file, so that it is meant as a manifest, and not just a directory.
    pub named: bool,
    /// The directory argument that it is in; nothing for a named file.
    pub root: Option<Arc<str>>,
    /// How the run reached it.
    pub reached: Reached,
}

/// How a run reached a file.
#[derive(Clone, Debug, Default)]
pub enum Reached {
    /// Named by the user, or not a file.
    #[default]
    Named,
    /// Found by a walk of these directories that the user named; absolute, without links.
    Inside(Arc<[PathBuf]>),
    /// Found by a walk through a link that leads outside of everything that the user named.
    Outside,
}

/// Where the text of an [`Input`] is.
#[derive(Clone, Debug)]
pub enum Content {
    /// In a file, which is read later.
    File(PathBuf),
    /// In an editor, overriding the text of this file.
    Open(PathBuf, Arc<String>),
    /// In memory: from standard input or a pipe, which can be read only once, or from a test.
    Bytes(Arc<[u8]>),
}

impl Content {
    /// Returns the file of the text.
    #[must_use]
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(path) | Self::Open(path, _) => Some(path),
            Self::Bytes(_) => None,
        }
    }
}

impl Input {
    /// Returns a file that the user named.
    #[must_use]
    pub fn named(path: &Path) -> Self {
        Self {
            path: shown(path),
            content: Content::File(path.to_owned()),
            named: true,
            root: None,
            reached: Reached::Named,
        }
    }

    /// Returns a text that is not in a file.
    #[must_use]
    pub fn text(path: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self {
            path: path.into(),
            content: Content::Bytes(bytes.into()),
            named: true,
            root: None,
            reached: Reached::Named,
        }
    }
}

/// Returns a path for reports, without a leading `./`.
#[must_use]
pub fn shown(path: &Path) -> Arc<str> {
    let path = path.strip_prefix(".").ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(path);
    path_text(path).into()
}

/// Returns the text of a path, with `/` on every system: reports, baselines and links are the same everywhere.
#[must_use]
pub fn path_text(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() }
}
