//! Texts to lint: which file each is of, and how a run has come to it.

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
    /// How a walk has come to it.
    pub reached: Reached,
}

/// How a run has come to a file.
#[derive(Clone, Debug, Default)]
pub enum Reached {
    /// The user has named it, or it is no file.
    #[default]
    Named,
    /// A walk has found it in what the user has named: directories, absolute and without links.
    Inside(Arc<[PathBuf]>),
    /// A walk has found a link to it, which leads out of all that the user has named.
    Outside,
}

/// Where the text of an [`Input`] is.
#[derive(Clone, Debug)]
pub enum Content {
    /// In a file, which is read later.
    File(PathBuf),
    /// In an editor, in place of that of a file.
    Open(PathBuf, Arc<String>),
    /// In memory: from standard input or a pipe, which can be read only once, or from a test.
    Bytes(Arc<[u8]>),
}

impl Content {
    /// Returns the file that the text is of.
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

/// Returns the text of a path, with `/` on every system: reports, baselines and links say the same everywhere.
#[must_use]
pub fn path_text(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() }
}
