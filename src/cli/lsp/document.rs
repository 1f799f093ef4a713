//! The open documents, shared by the thread that reads and the one that judges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsp_server::RequestId;

use super::uri;
use crate::cli::configuration;
use crate::judge::policy;
use crate::judge::settings::API_VERSION;
use crate::local::lint::{Content, Input, Reached, path_text};

/// Maximum number of cancelled requests to keep that were never made.
const MAX_CANCELLED: usize = 1000;

/// One document.
#[derive(Clone, Debug)]
pub(super) struct LspDocument {
    /// Its file, or its URI if it has none.
    pub(super) path: PathBuf,
    pub(super) version: i32,
    pub(super) text: Arc<String>,
    /// Unique among all texts of all documents. Versions start again when a document is opened again.
    serial: u64,
}

/// The type of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentType {
    Policy,
    Configuration,
    /// A manifest, or something else.
    Manifest,
}

impl LspDocument {
    pub(super) fn new(uri: &str, version: i32, text: String) -> Self {
        let path = uri::to_path(uri).unwrap_or_else(|| PathBuf::from(uri));
        Self { path, version, text: Arc::new(text), serial: next_serial() }
    }

    /// Changes the text.
    pub(super) fn change(&mut self, version: i32, change: impl FnOnce(&mut String)) {
        (self.version, self.serial) = (version, next_serial());
        change(Arc::make_mut(&mut self.text));
    }

    /// Tells whether both are the same document with the same text.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.serial == other.serial
    }

    /// Returns it as an input of the linter.
    pub(super) fn input(&self) -> Input {
        Input {
            path: path_text(&self.path).into(),
            content: Content::Open(self.path.clone(), Arc::clone(&self.text)),
            named: false,
            root: None,
            reached: Reached::Named,
        }
    }

    pub(super) fn form(&self) -> DocumentType {
        form(&self.path, &self.text)
    }
}

fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the type of a text, also while it is being written: from its first lines of `apiVersion` and `kind`.
pub(super) fn form(path: &Path, text: &str) -> DocumentType {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map(|value| value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']))
    };
    let group = API_VERSION.split('/').next().unwrap_or_default();
    let is_ours = value("apiVersion").is_none_or(|version| version.split('/').next() == Some(group));
    match value("kind") {
        Some(policy::KIND) if is_ours => DocumentType::Policy,
        Some(configuration::KIND) if is_ours => DocumentType::Configuration,
        None if is_ours && path.ends_with(configuration::FILE) => DocumentType::Configuration,
        _ => DocumentType::Manifest,
    }
}

/// The open documents by URI, and the requests that were cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenDocuments(Arc<Mutex<DocumentState>>);

#[derive(Debug, Default)]
struct DocumentState {
    open: BTreeMap<String, LspDocument>,
    cancelled: BTreeSet<RequestId>,
}

impl OpenDocuments {
    fn lock(&self) -> MutexGuard<'_, DocumentState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, uri: String, document: LspDocument) {
        self.lock().open.insert(uri, document);
    }

    /// Changes a document. Returns whether it is open.
    pub(super) fn change(&self, uri: &str, change: impl FnOnce(&mut LspDocument)) -> bool {
        self.lock().open.get_mut(uri).map(change).is_some()
    }

    pub(super) fn close(&self, uri: &str) -> Option<LspDocument> {
        self.lock().open.remove(uri)
    }

    /// Returns a document as it is now.
    pub(super) fn get(&self, uri: &str) -> Option<LspDocument> {
        self.lock().open.get(uri).cloned()
    }

    /// Returns all documents as they are now.
    pub(super) fn all(&self) -> Vec<(String, LspDocument)> {
        self.lock().open.iter().map(|(uri, document)| (uri.clone(), document.clone())).collect()
    }

    /// Returns the URI and the document of a file, if it is open.
    pub(super) fn of_path(&self, path: &Path) -> Option<(String, LspDocument)> {
        let shared = self.lock();
        let found = shared.open.iter().find(|(_, document)| document.path == path);
        found.map(|(uri, document)| (uri.clone(), document.clone()))
    }

    pub(super) fn cancel(&self, id: RequestId) {
        let mut shared = self.lock();
        if shared.cancelled.len() >= MAX_CANCELLED {
            shared.cancelled.clear();
        }
        shared.cancelled.insert(id);
    }

    /// Tells whether a request was cancelled, and forgets it.
    pub(super) fn is_cancelled(&self, id: &RequestId) -> bool {
        self.lock().cancelled.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_known_from_their_first_lines() {
        for (path, text, expected) in [
            ("p.yaml", "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nspec: [", DocumentType::Policy),
            ("c.yaml", "kind: \"Configuration\" # x\n", DocumentType::Configuration),
            ("jobgate.yaml", "", DocumentType::Configuration),
            ("jobgate.yaml", "apiVersion: v1\nkind: Namespace\n", DocumentType::Manifest),
            ("p.yaml", "apiVersion: kyverno.io/v1\nkind: Policy\n", DocumentType::Manifest),
            ("j.yaml", "spec:\n  kind: Policy\n", DocumentType::Manifest),
        ] {
            assert_eq!(form(Path::new(path), text), expected, "{text}");
        }
    }
}
