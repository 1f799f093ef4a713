//! Verdicts as people and other programs read them: one file per format.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::finding::{Finding, Level};

/// A line and a column, both from 1. Columns count Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path, as the user gave it; `-` for standard input.
    pub file: Arc<str>,
    /// The bytes.
    pub span: Range<usize>,
    /// Where they start.
    pub start: Position,
    /// Where they end, exclusive.
    pub end: Position,
}

/// What object a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// The namespace, where the manifest names one.
    pub namespace: Option<String>,
    /// The name, or the `generateName` prefix followed by `*`.
    pub name: Option<String>,
}

/// A further place of a finding, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Where; nothing for an object of a cluster.
    pub location: Option<Location>,
    /// The other object, where it is another (`PersistentVolumeClaim team-a/checkpoints`).
    pub object: Option<String>,
    /// What is there.
    pub text: String,
}

/// A finding with its places looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Where its primary place stands.
    pub location: Location,
    /// The document's number in the file, from 0.
    pub document: usize,
    /// What it is about; nothing where the document could not be read.
    pub object: Option<ObjectId>,
    /// The finding.
    pub finding: Finding,
    /// Its further places, in the order of `finding.labels`.
    pub related: Vec<Related>,
}

/// Everything a run has to say.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files read.
    pub files: usize,
    /// Documents in them.
    pub documents: usize,
    /// Objects among those that Jobgate judges.
    pub objects: usize,
    /// Findings lifted by exemptions and annotations.
    pub lifted: usize,
    /// What was found, sorted by file, offset, rule.
    pub findings: Vec<Located>,
    /// The text of every file that a finding points into, by path.
    pub sources: BTreeMap<Arc<str>, Arc<str>>,
}

impl Report {
    /// Returns how many findings there are of a level.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|located| located.finding.level == level).count()
    }
}
