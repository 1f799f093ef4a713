//! A list of nodes that does not move when it grows, with 16 bytes per node.

use super::{NodeKind, Style, SyntaxNode, Tag};

/// Nodes in a piece; a power of two.
const PIECE: usize = 4096;

/// Nodes, in pieces of a fixed size. A growing vector has its old and its new copy in memory at once, three
/// times what it holds, and a large document may have a node for every second byte.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeStorage {
    /// All but the last one are full.
    pieces: Vec<Vec<Packed>>,
    /// The rest of the nodes that need more room.
    more: Vec<More>,
}

/// A node without the fields that follow from the others.
#[derive(Clone, Copy, Debug)]
struct Packed {
    start: u32,
    end: u32,
    /// The node after a container, the target of an alias, or an index of [`NodeStorage::more`].
    link: u32,
    /// Kind, style and tag, [`ANCHORED`] and [`MORE`], and in the upper bits the width of tag and anchor.
    bits: u32,
}

/// The fields that a [`Packed`] lacks: for text that differs from the source, as with escapes, and for wide
/// tags and anchors.
#[derive(Clone, Copy, Debug)]
struct More {
    owned: bool,
    content: u32,
    next: u32,
    text: u32,
    text_len: u32,
}

const STYLE: u32 = 2;
const TAG: u32 = 5;
const ANCHORED: u32 = 1 << 9;
const MORE: u32 = 1 << 10;
/// The first bit of the width of tag and anchor, which is at most this.
const WIDTH: u32 = 11;
const MAX_WIDTH: u32 = u32::MAX >> WIDTH;

const KINDS: [NodeKind; 4] = [NodeKind::Mapping, NodeKind::Sequence, NodeKind::Scalar, NodeKind::Alias];
const STYLES: [Style; 8] = [
    Style::Block,
    Style::Flow,
    Style::Plain,
    Style::Single,
    Style::Double,
    Style::Literal,
    Style::Folded,
    // There are seven.
    Style::Plain,
];
const TAGS: [Tag; 16] = {
    let mut tags = [Tag::Other; 16];
    let known = [
        Tag::None,
        Tag::NonSpecific,
        Tag::Str,
        Tag::Bool,
        Tag::Int,
        Tag::Float,
        Tag::Null,
        Tag::Timestamp,
        Tag::Binary,
        Tag::Merge,
    ];
    let mut at = 0;
    while at < known.len() {
        tags[known[at] as usize] = known[at];
        at += 1;
    }
    tags
};

impl NodeStorage {
    /// Returns an empty list with room for some nodes.
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self { pieces: vec![Vec::with_capacity(nodes.min(PIECE))], more: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    pub(super) fn push(&mut self, node: &SyntaxNode) {
        let packed = self.pack(self.len(), node, None);
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(packed),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(packed);
                self.pieces.push(piece);
            }
            None => self.pieces.push(vec![packed]),
        }
    }

    /// Changes a node.
    pub(super) fn update(&mut self, at: usize, change: impl FnOnce(&mut SyntaxNode)) {
        let old = self.pieces[at / PIECE][at % PIECE];
        let mut node = self.unpack(at, old);
        change(&mut node);
        let more = (old.bits & MORE != 0).then_some(old.link);
        self.pieces[at / PIECE][at % PIECE] = self.pack(at, &node, more);
    }

    /// Returns a node, which must exist.
    pub(super) fn at(&self, at: usize) -> SyntaxNode {
        self.unpack(at, self.pieces[at / PIECE][at % PIECE])
    }

    pub(super) fn get(&self, at: usize) -> Option<SyntaxNode> {
        let packed = self.pieces.get(at / PIECE)?.get(at % PIECE)?;
        Some(self.unpack(at, *packed))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = SyntaxNode> {
        self.pieces.iter().flatten().enumerate().map(|(at, packed)| self.unpack(at, *packed))
    }

    /// Packs a node; `known` is the index that it already has in `more`.
    fn pack(&mut self, at: usize, node: &SyntaxNode, known: Option<u32>) -> Packed {
        let width = node.content - node.start;
        let link = match node.kind {
            NodeKind::Mapping | NodeKind::Sequence => node.next,
            NodeKind::Alias => node.text,
            NodeKind::Scalar => 0,
        };
        let mut bits = node.kind as u32 | (node.style as u32) << STYLE | (node.tag as u32) << TAG;
        if node.anchored {
            bits |= ANCHORED;
        }
        let packed = Packed { start: node.start, end: node.end, link, bits: bits | width << WIDTH };
        if width <= MAX_WIDTH && self.unpack(at, packed).has_text_of(node) {
            return packed;
        }
        let SyntaxNode { owned, content, next, text, text_len, .. } = *node;
        let more = More { owned, content, next, text, text_len };
        let link = match known {
            Some(known) => {
                self.more[known as usize] = more;
                known
            }
            None => {
                self.more.push(more);
                (self.more.len() - 1) as u32
            }
        };
        Packed { link, bits: bits | MORE, ..packed }
    }

    fn unpack(&self, at: usize, packed: Packed) -> SyntaxNode {
        let Packed { start, end, link, bits } = packed;
        let kind = KINDS[(bits & 3) as usize];
        let style = STYLES[(bits >> STYLE & 7) as usize];
        let mut node = SyntaxNode {
            tag: TAGS[(bits >> TAG & 15) as usize],
            anchored: bits & ANCHORED != 0,
            next: at as u32 + 1,
            ..SyntaxNode::new(kind, style, start..end)
        };
        if bits & MORE != 0 {
            let More { owned, content, next, text, text_len } = self.more[link as usize];
            return SyntaxNode { owned, content, next, text, text_len, ..node };
        }
        node.content = start + (bits >> WIDTH);
        match kind {
            NodeKind::Mapping | NodeKind::Sequence => node.next = link,
            NodeKind::Alias => node.text = link,
            NodeKind::Scalar => {
                // The text is that of the source, without its quotes.
                let quote = u32::from(matches!(style, Style::Single | Style::Double));
                node.text = node.content + quote;
                node.text_len = end.saturating_sub(node.text + quote);
            }
        }
        node
    }
}

impl SyntaxNode {
    /// Tells whether another node has the same text, or refers to the same node.
    fn has_text_of(&self, other: &Self) -> bool {
        self.text_len == other.text_len
            && (self.text == other.text && self.owned == other.owned
                || other.kind != NodeKind::Alias && other.text_len == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_where_they_were_put() {
        let mut nodes = NodeStorage::default();
        for at in 0..3 * PIECE as u32 + 1 {
            assert_eq!(nodes.len(), at as usize);
            nodes.push(&SyntaxNode::new(NodeKind::Scalar, Style::Plain, at..at));
        }
        for at in [0, 1, PIECE - 1, PIECE, 2 * PIECE, 3 * PIECE] {
            assert_eq!(nodes.at(at).start as usize, at);
            assert_eq!(nodes.get(at).map(|node| node.start as usize), Some(at));
        }
        assert!(nodes.get(nodes.len()).is_none());
        assert!(nodes.iter().enumerate().all(|(at, node)| node.start as usize == at));
        assert!(nodes.more.is_empty());
    }

    /// Returns nodes with all that one can have, alone and together.
    fn samples() -> Vec<SyntaxNode> {
        let mut out = Vec::new();
        for kind in KINDS {
            for style in STYLES {
                for tag in TAGS {
                    for content in [7, 8, 7 + MAX_WIDTH, 8 + MAX_WIDTH] {
                        for (owned, text, text_len) in [(false, content, 9), (true, 0, 3), (false, 1, 2)] {
                            let base = SyntaxNode::new(kind, style, 7..content + 9);
                            let anchored = content > 7;
                            out.push(SyntaxNode {
                                tag,
                                anchored,
                                content,
                                owned,
                                next: 0,
                                text,
                                text_len,
                                ..base
                            });
                        }
                    }
                }
            }
        }
        out
    }

    #[test]
    fn a_node_comes_back_as_it_was() {
        let mut nodes = NodeStorage::default();
        let mut put = Vec::new();
        for mut node in samples() {
            let at = nodes.len();
            // A scalar and an alias have nothing in them; a container and an alias have no text.
            match node.kind {
                NodeKind::Mapping | NodeKind::Sequence => {
                    (node.owned, node.text, node.text_len, node.next) = (false, 0, 0, at as u32 + 5);
                }
                NodeKind::Alias => (node.owned, node.text_len, node.next) = (false, 0, at as u32 + 1),
                NodeKind::Scalar => node.next = at as u32 + 1,
            }
            nodes.push(&node);
            put.push(node);
        }
        for (at, node) in put.iter_mut().enumerate() {
            assert_eq!(format!("{:?}", nodes.at(at)), format!("{node:?}"));
            // What it has in `more` is not added again.
            let more = nodes.more.len();
            nodes.update(at, |node| node.tag = Tag::Str);
            node.tag = Tag::Str;
            assert_eq!((format!("{:?}", nodes.at(at)), nodes.more.len()), (format!("{node:?}"), more));
        }
    }
}
