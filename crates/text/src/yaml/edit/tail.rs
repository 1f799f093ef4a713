//! A block of text that ends with the file.
//!
//! kubectl adds the line break that a file lacks at its end, so that `|` keeps one. Clients that do not (PyYAML,
//! a request with a YAML body) read the text without it. An edit must not change either value, so nothing is
//! written below such a text.

use std::ops::Range;

use crate::yaml::document::Document;
use crate::yaml::tree::{NodeKind, Style, SyntaxTree};

/// Returns the block of text that ends with the text of a document, if clients differ about its last line
/// break.
pub(super) fn open_end(text: &str, document: &Document) -> Option<Range<usize>> {
    if document.is_json() || text.ends_with(['\n', '\r']) {
        return None;
    }
    let tree = &document.tree;
    let node = tree.node(tree.len().checked_sub(1)?);
    if node.kind != NodeKind::Scalar || !matches!(node.style, Style::Literal | Style::Folded) {
        return None;
    }
    let span = node.content as usize..(node.end as usize).min(text.len());
    let header = text[span.clone()].split(['\n', '\r', '#']).next().unwrap_or_default();
    // `|-` has no line break at its end.
    let is_last = text[span.end..].bytes().all(|byte| matches!(byte, b' ' | b'\t'));
    (is_last && !header.contains('-')).then_some(span)
}

/// Tells whether the value of a document is followed by anything other than space and comments.
pub(super) fn has_more(text: &str, document: &Document) -> bool {
    if document.is_json() || document.is_empty() {
        return false;
    }
    let rest = text.get(document.tree.node(0).end as usize..).unwrap_or_default();
    let is_nothing = |line: &str| line.is_empty() || line.starts_with('#') || line == "...";
    !rest.split(['\n', '\r']).map(|line| line.trim_matches([' ', '\t'])).all(is_nothing)
}

/// Tells whether a node ends where the document does.
pub(super) fn is_last(tree: &SyntaxTree, at: usize) -> bool {
    tree.node(at).next as usize == tree.len()
}
