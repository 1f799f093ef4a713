//! A document, with the places of its values.

use std::ops::Range;

use super::error::SyntaxError;
use super::locate;
use super::resolve::{TreeText, Twice};
use super::split::DocumentSyntax;
use super::tree::SyntaxTree;
use crate::pointer::Pointer;
use crate::value::Value;

/// A duplicate key of a mapping. kubectl uses the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The field.
    pub pointer: Pointer,
    /// The key that is ignored.
    pub dropped: Range<usize>,
    /// The key that is used.
    pub kept: Range<usize>,
}

/// Where a place of a document is in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The key of a field, with quotes.
    pub key: Option<Range<usize>>,
    /// The value, with its tag and anchor. A missing value is empty and right after the colon.
    ///
    /// A block mapping or list spans from its first key or dash to the end of its last value, one in brackets
    /// from bracket to bracket, a block of text from its `|` or `>` to the end of its last line, without the
    /// line break.
    pub value: Range<usize>,
    /// Whether the place is an alias or behind one. `value` is then the outermost alias.
    pub via_alias: bool,
}

/// One document: its value, and where each part of it is.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its number in the source, from 0. Empty documents count, as in kubectl.
    pub(crate) index: usize,
    /// Its bytes in the source, without separators.
    pub span: Range<usize>,
    /// Its value, as kubectl reads it.
    pub value: Value,
    /// Why kubectl rejects it although it can be parsed: directives, or content on the line of its `---`.
    /// Then kubectl does not read the document before it either, unless that has its own separator after it.
    pub refused: Option<SyntaxError>,
    /// Its duplicate keys, in source order. Few are ever looked at, and a text may have one for every two bytes.
    pub(super) twice: Vec<Twice>,
    pub(super) source: Box<str>,
    pub(super) tree: SyntaxTree,
    pub(super) form: DocumentSyntax,
}

impl Document {
    /// Returns where a place of the document is in the source; nothing if it does not exist.
    ///
    /// A place behind an alias is located at the alias, one in an inline merge (`<<: {a: 1}`) where it is
    /// written.
    #[must_use]
    pub fn locate(&self, pointer: &Pointer) -> Option<Span> {
        locate::locate(self.text(), &self.span, pointer)
    }

    /// Returns its duplicate keys.
    #[must_use]
    pub fn duplicates(&self) -> Duplicates<'_> {
        Duplicates { document: self, at: Pointer::root(), node: 0, twice: &self.twice }
    }

    /// Returns the duplicate keys inside a place, without looking at all others. Those behind an alias are
    /// where they are written.
    #[must_use]
    pub fn duplicates_within(&self, at: &Pointer) -> Duplicates<'_> {
        let node = if self.twice.is_empty() { None } else { locate::written(self.text(), at) };
        let (node, twice) = node.map_or((0, &[][..]), |nodes| {
            let first = self.twice.partition_point(|pair| (pair.dropped as usize) < nodes.start);
            let end = self.twice.partition_point(|pair| (pair.dropped as usize) < nodes.end);
            (nodes.start, &self.twice[first..end])
        });
        Duplicates { document: self, at: at.clone(), node, twice }
    }

    /// Tells whether it has only spaces and comments, such as a licence before the first `---`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Tells whether the document is read as JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.form == DocumentSyntax::Json
    }

    pub(super) fn text(&self) -> TreeText<'_> {
        TreeText { tree: &self.tree, source: &self.source, json: self.is_json() }
    }
}

/// Some of the duplicate keys of a document, in source order.
#[derive(Clone, Debug)]
pub struct Duplicates<'d> {
    document: &'d Document,
    /// The place that they are in, and its node.
    at: Pointer,
    node: usize,
    twice: &'d [Twice],
}

impl Duplicates<'_> {
    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.twice.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.twice.is_empty()
    }

    /// Returns the first ones, at most `most`.
    #[must_use]
    pub fn first(&self, most: usize) -> Vec<Duplicate> {
        self.some(&self.twice[..most.min(self.twice.len())])
    }

    /// Returns the last one.
    #[must_use]
    pub fn last(&self) -> Option<Duplicate> {
        self.some(&self.twice[self.twice.len().saturating_sub(1)..]).pop()
    }

    fn some(&self, twice: &[Twice]) -> Vec<Duplicate> {
        let document = self.document;
        locate::duplicates(document.text(), document.span.start, twice, &self.at, self.node)
    }
}
