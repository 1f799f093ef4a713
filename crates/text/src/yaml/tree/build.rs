//! Builds a tree from nodes, in the order in which they start.

use std::ops::Range;

use super::nodes::NodeStorage;
use super::{NodeKind, Style, SyntaxNode, SyntaxTree};
use crate::number::thousands;
use crate::yaml::error::SyntaxError;
use crate::yaml::limits::Limits;

/// An open container.
struct OpenContainer {
    at: u32,
    children: u32,
}

/// Builds a [`SyntaxTree`].
pub(in crate::yaml) struct TreeBuilder<'t> {
    source: &'t str,
    pub(super) limits: &'t Limits,
    /// The most nodes.
    most: usize,
    pub(super) tree: SyntaxTree,
    open: Vec<OpenContainer>,
    /// Where the last node ends.
    pub(super) last_end: u32,
}

impl<'t> TreeBuilder<'t> {
    /// Offsets fit 32 bits: see [`Limits::document_bytes`].
    pub(in crate::yaml) fn new(source: &'t str, limits: &'t Limits) -> Self {
        // Manifests have about one node per ten bytes.
        let nodes = NodeStorage::with_capacity(source.len() / 10);
        let most = limits.nodes_in(source.len());
        let tree = SyntaxTree { nodes, ..SyntaxTree::default() };
        Self { source, limits, most, tree, open: Vec::new(), last_end: 0 }
    }

    fn push(&mut self, node: SyntaxNode) -> Result<usize, SyntaxError> {
        let at = self.tree.nodes.len();
        if at >= self.most {
            let message = format!("the document has more than {} keys and values", thousands(self.most));
            return Err(SyntaxError::dense(message, node.span()));
        }
        if let Some(parent) = self.open.last_mut() {
            parent.children += 1;
        }
        self.last_end = node.end;
        self.tree.nodes.push(&node);
        Ok(at)
    }

    /// Opens a container whose bracket or first child is at `content`.
    pub(in crate::yaml) fn open(
        &mut self,
        kind: NodeKind,
        style: Style,
        content: u32,
    ) -> Result<usize, SyntaxError> {
        if self.open.len() >= self.limits.depth {
            return Err(too_deep(self.limits, content as usize..content as usize + 1));
        }
        let node = SyntaxNode::new(kind, style, content..content);
        let at = self.push(node)?;
        self.open.push(OpenContainer { at: at as u32, children: 0 });
        Ok(at)
    }

    /// Tells whether a value of a mapping comes next.
    pub(super) fn is_at_value(&self) -> bool {
        self.open.last().is_some_and(|open| {
            open.children % 2 == 1 && self.tree.nodes.at(open.at as usize).kind == NodeKind::Mapping
        })
    }

    /// Tells whether a key of a mapping comes next.
    pub(super) fn is_at_key(&self) -> bool {
        self.open.last().is_some_and(|open| {
            open.children.is_multiple_of(2) && self.tree.nodes.at(open.at as usize).kind == NodeKind::Mapping
        })
    }

    /// Closes the innermost container; one in brackets ends at `end`, a block with its last node.
    pub(in crate::yaml) fn close(&mut self, end: u32) {
        let next = self.tree.nodes.len() as u32;
        let Some(open) = self.open.pop() else { return };
        let last_end = &mut self.last_end;
        self.tree.nodes.update(open.at as usize, |node| {
            if node.style == Style::Flow {
                *last_end = end;
            }
            node.end = *last_end;
            node.next = next;
        });
    }

    /// Adds a scalar. Text that is part of the source is not copied.
    pub(in crate::yaml) fn scalar(
        &mut self,
        style: Style,
        span: Range<u32>,
        text: &str,
    ) -> Result<usize, SyntaxError> {
        let base = self.source.as_ptr() as usize;
        let offset = (text.as_ptr() as usize).wrapping_sub(base);
        let owned = offset > self.source.len() || offset + text.len() > self.source.len();
        let start = if text.is_empty() {
            0
        } else if owned {
            self.tree.owned.push_str(text);
            self.tree.owned.len() - text.len()
        } else {
            offset
        };
        let next = self.tree.nodes.len() as u32 + 1;
        let text_len = text.len() as u32;
        self.push(SyntaxNode {
            owned,
            next,
            text: start as u32,
            text_len,
            ..SyntaxNode::new(NodeKind::Scalar, style, span)
        })
    }

    /// Returns the innermost open bracket. A pair in a list (`[a: b]`) is a mapping without one.
    pub(super) fn open_bracket(&self, source: &str) -> Option<usize> {
        let open = self
            .open
            .iter()
            .rev()
            .map(|open| self.tree.nodes.at(open.at as usize))
            .filter(|node| node.style == Style::Flow);
        open.map(|node| node.content as usize)
            .find(|at| matches!(source.as_bytes().get(*at), Some(b'[' | b'{')))
    }

    /// Returns the tree.
    pub(in crate::yaml) fn finish(self) -> SyntaxTree {
        self.tree
    }
}

pub(in crate::yaml) fn too_deep(limits: &Limits, span: Range<usize>) -> SyntaxError {
    SyntaxError::limit(format!("nested more than {} levels deep", limits.depth), span)
}
