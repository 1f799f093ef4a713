//! Findings with their places in files.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use jobgate_core::judge::finding::Finding;
use jobgate_core::judge::fold::Named;
use jobgate_core::text::lines::{Lines, Position};

use crate::object::ObjectId;
use crate::text::clean;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path, as the user gave it; `-` for standard input.
    pub file: Arc<str>,
    /// The byte range.
    pub span: Range<usize>,
    /// Where they start.
    pub start: Position,
    /// Where they end, exclusive.
    pub end: Position,
}

impl Location {
    /// Returns the location of a byte range in a file with these lines.
    #[must_use]
    pub fn new(file: &Arc<str>, span: Range<usize>, lines: &Lines<'_>) -> Self {
        let (start, end) = (lines.position(span.start), lines.position(span.end));
        Self { file: Arc::clone(file), span, start, end }
    }
}

/// A related place of a finding, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Its location; `None` for an object of a cluster.
    pub location: Option<Location>,
    /// The other object, if it is in another one (`PersistentVolumeClaim team-a/checkpoints`).
    pub object: Option<String>,
    /// The text of its label.
    pub text: Cow<'static, str>,
}

/// A finding with its places looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The location of its primary place.
    pub location: Location,
    /// The document's number in the file, from 0.
    pub document: usize,
    /// The object; nothing if the document could not be read.
    pub object: Option<Arc<ObjectId>>,
    /// The finding.
    pub finding: Finding,
    /// Its related places, in the order of `finding.labels`.
    pub related: Vec<Related>,
    /// Why `--fix` did not apply its fix.
    pub withheld: Option<Box<str>>,
    /// The finding's path with list items by name, if there are any.
    pub by_name: Option<Box<str>>,
    /// The paths of all its items, if they are many and were asked for.
    pub items: Option<Box<Named>>,
}

impl Located {
    /// Returns a finding without an object and further places.
    #[must_use]
    pub fn new(location: Location, document: usize, finding: Finding) -> Self {
        let related = Vec::new();
        Self {
            location,
            document,
            object: None,
            finding,
            related,
            withheld: None,
            by_name: None,
            items: None,
        }
    }
}

impl fmt::Display for Location {
    /// Writes the path, line and column, as compilers do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", clean(&self.file), self.start.line, self.start.column)
    }
}
