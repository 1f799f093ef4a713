//! YAML and JSON as kubectl reads them, with the byte span of every key and value. The only entry to YAML.

use std::ops::Range;

use serde_json::Value;

use crate::pointer::Pointer;

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong; no period.
    pub message: String,
    /// Where: bytes of the source.
    pub span: Range<usize>,
    /// What sort of trouble it is.
    pub kind: SyntaxErrorKind,
}

/// The sorts of trouble a document can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// It is not YAML or JSON, or kubectl refuses it.
    Syntax,
    /// It looks like a template that nobody has rendered (`{{ … }}`, `{% … %}` outside of quotes).
    Template,
    /// It is beyond a limit: too deep, too many aliases, too large.
    Limit,
    /// It is not UTF-8 text.
    Encoding,
}

/// A key that a mapping has twice. kubectl takes the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The mapping's field.
    pub pointer: Pointer,
    /// The key that is dropped.
    pub dropped: Range<usize>,
    /// The key that counts.
    pub kept: Range<usize>,
}

/// Where a place of a document stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The key, for a field of a mapping; as written, quotes included.
    pub key: Option<Range<usize>>,
    /// The value; empty and right behind the colon for a value that is left out.
    pub value: Range<usize>,
}

/// One document: its value, and where each part of it stands.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its number in the source, from 0; documents without content count, as kubectl counts them.
    pub index: usize,
    /// The bytes it takes in the source, without separators.
    pub span: Range<usize>,
    /// What kubectl makes of it.
    pub value: Value,
    /// Keys that stand twice in one mapping, in source order.
    pub duplicates: Vec<Duplicate>,
}

impl Document {
    /// Returns where a place of the document stands; nothing for a place that is not there.
    ///
    /// A place that comes from an alias or a merge key is located at the alias.
    #[must_use]
    pub fn locate(&self, _pointer: &Pointer) -> Option<Span> {
        None
    }
}

/// Reads all documents of a source, in order. A broken one does not stop the others.
pub fn documents(_source: &[u8]) -> impl Iterator<Item = Result<Document, SyntaxError>> {
    std::iter::empty()
}
