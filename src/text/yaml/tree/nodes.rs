//! A list of nodes that does not move when it grows.

use std::ops::{Index, IndexMut};

use super::Node;

/// Nodes in a piece; a power of two.
const PIECE: usize = 4096;

/// Nodes, in pieces of a fixed size. A vector that grows has its old and its new copy at once, three times what
/// it holds, and the text of a large document has a node for every second byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// All but the last one are full.
    pieces: Vec<Vec<Node>>,
}

impl Nodes {
    /// Returns an empty list with room for some nodes.
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self { pieces: vec![Vec::with_capacity(nodes.min(PIECE))] }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    pub(super) fn push(&mut self, node: Node) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(node),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(node);
                self.pieces.push(piece);
            }
            None => self.pieces.push(vec![node]),
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&Node> {
        self.pieces.get(at / PIECE)?.get(at % PIECE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.pieces.iter().flatten()
    }
}

impl Index<usize> for Nodes {
    type Output = Node;

    fn index(&self, at: usize) -> &Node {
        &self.pieces[at / PIECE][at % PIECE]
    }
}

impl IndexMut<usize> for Nodes {
    fn index_mut(&mut self, at: usize) -> &mut Node {
        &mut self.pieces[at / PIECE][at % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Style};
    use super::*;

    #[test]
    fn nodes_are_where_they_were_put() {
        let mut nodes = Nodes::default();
        for at in 0..3 * PIECE as u32 + 1 {
            assert_eq!(nodes.len(), at as usize);
            nodes.push(Node::new(Kind::Scalar, Style::Plain, at..at));
        }
        for at in [0, 1, PIECE - 1, PIECE, 2 * PIECE, 3 * PIECE] {
            assert_eq!(nodes[at].start as usize, at);
            assert_eq!(nodes.get(at).map(|node| node.start as usize), Some(at));
        }
        assert!(nodes.get(nodes.len()).is_none());
        assert!(nodes.iter().enumerate().all(|(at, node)| node.start as usize == at));
    }
}
