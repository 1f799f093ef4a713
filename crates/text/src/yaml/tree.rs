//! The syntax tree of one document: what is where, before scalars are resolved. Only this module and `quoted`
//! use the YAML parser.
//!
//! Nodes are in one list in the order in which they start: a node's children follow it, and [`SyntaxNode::next`]
//! skips them. Offsets are bytes of the document's text. Without pointers, dropping a tree never recurses.

mod build;
mod explain;
mod nodes;
mod read;
mod refuse;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

pub(super) use build::{TreeBuilder, too_deep};
use nodes::NodeStorage;
pub(super) use read::read;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Mapping,
    Sequence,
    Scalar,
    Alias,
}

/// How a node is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A container by indentation.
    Block,
    /// A container in brackets.
    Flow,
    /// A scalar without quotes, or a missing value, which has no width.
    Plain,
    /// A scalar in `'`.
    Single,
    /// A scalar in `"`.
    Double,
    /// A block scalar, `|`.
    Literal,
    /// A block scalar, `>`.
    Folded,
}

/// The type that a scalar's tag requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// No tag.
    None,
    /// `!`: by the text, even in quotes.
    NonSpecific,
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    Merge,
    /// Any other tag: the text itself.
    Other,
}

/// One node.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyntaxNode {
    pub(super) kind: NodeKind,
    pub(super) style: Style,
    pub(super) tag: Tag,
    /// Whether it has an anchor.
    pub(super) anchored: bool,
    /// Whether the text is in [`SyntaxTree::owned`] rather than in the source.
    owned: bool,
    /// Where it starts, with tag and anchor.
    pub(super) start: u32,
    /// Where it starts, without tag and anchor; the header of a block scalar.
    pub(super) content: u32,
    /// Where it ends. A block scalar ends before its last line break.
    pub(super) end: u32,
    /// The node after it and all of its children.
    pub(super) next: u32,
    /// A scalar's text, or an alias's target.
    text: u32,
    text_len: u32,
}

impl SyntaxNode {
    fn new(kind: NodeKind, style: Style, span: Range<u32>) -> Self {
        Self {
            kind,
            style,
            tag: Tag::None,
            anchored: false,
            owned: false,
            start: span.start,
            content: span.start,
            end: span.end,
            next: 0,
            text: 0,
            text_len: 0,
        }
    }

    /// Returns its bytes, with tag and anchor.
    pub(super) fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Tells whether it is a missing value.
    pub(super) fn is_absent(&self) -> bool {
        self.kind == NodeKind::Scalar && self.style == Style::Plain && self.content == self.end
    }

    /// Returns the node that an alias refers to.
    pub(super) fn target(&self) -> usize {
        self.text as usize
    }
}

/// An index of a large container.
#[derive(Clone, Debug)]
pub(super) enum Wide {
    /// The items of a list.
    Items(Box<[u32]>),
    /// The key and value of each name of a mapping, by name, the last of equal keys, and its merge keys and
    /// their values in source order.
    Fields { own: Box<[(u32, u32)]>, merges: Vec<(u32, u32)> },
}

/// The syntax tree of one document.
#[derive(Clone, Debug, Default)]
pub(super) struct SyntaxTree {
    nodes: NodeStorage,
    /// Text of scalars that is not in the source as such: escapes, folded lines.
    owned: String,
    /// An index of its large containers, made on first use.
    pub(super) wide: OnceLock<BTreeMap<usize, Wide>>,
    /// Spaces per level, and whether lists in mappings are indented; made on first use.
    pub(super) indentation: OnceLock<(usize, bool)>,
    /// The nodes that aliases refer to, with all that is in them, in order; made on first use.
    shared: OnceLock<Vec<Range<usize>>>,
}

impl SyntaxTree {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, at: usize) -> SyntaxNode {
        self.nodes.at(at)
    }

    /// Tells whether the document has no content.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// Returns a scalar's text, after escapes and folding.
    pub(super) fn text<'t>(&'t self, source: &'t str, node: &SyntaxNode) -> &'t str {
        let pool = if node.owned { &self.owned } else { source };
        pool.get(node.text as usize..(node.text + node.text_len) as usize).unwrap_or_default()
    }

    /// Returns the children of a container; for a mapping, keys and values alternate.
    pub(super) fn children(&self, at: usize) -> ChildNodes<'_> {
        ChildNodes { tree: self, at: at + 1, end: self.nodes.at(at).next as usize }
    }

    /// Tells whether an alias refers to a node or to one around it.
    pub(super) fn is_shared(&self, at: usize) -> bool {
        let shared = self.shared.get_or_init(|| {
            let targets: BTreeSet<usize> = self
                .nodes
                .iter()
                .filter(|node| node.kind == NodeKind::Alias)
                .map(|node| node.target())
                .collect();
            let mut ranges: Vec<Range<usize>> = Vec::new();
            for target in targets {
                // Nodes are nested or disjoint.
                if ranges.last().is_none_or(|last| last.end <= target) {
                    ranges.push(target..self.nodes.at(target).next as usize);
                }
            }
            ranges
        });
        let before = shared.partition_point(|range| range.start <= at);
        before > 0 && shared[before - 1].contains(&at)
    }

    /// Returns the keys of a mapping with their values.
    pub(super) fn entries(&self, at: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut children = self.children(at);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }
}

/// See [`SyntaxTree::children`].
pub(super) struct ChildNodes<'t> {
    tree: &'t SyntaxTree,
    at: usize,
    end: usize,
}

impl Iterator for ChildNodes<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.at;
        (at < self.end).then(|| {
            self.at = self.tree.nodes.at(at).next as usize;
            at
        })
    }
}
