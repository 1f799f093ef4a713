//! What the YAML parser accepts and Go's decoder rejects: some tabs and escapes.

use std::ops::Range;

use super::{Style, SyntaxTree};
use crate::yaml::error::SyntaxError;

/// Rejects tabs at the start of a line or after a dash, outside brackets and text, also on blank lines and
/// before comments.
pub(super) fn check_tabs(source: &str, tree: &SyntaxTree) -> Result<(), SyntaxError> {
    let bytes = source.as_bytes();
    // The end of text and brackets that start before the tab.
    let mut covered = 0;
    let mut next = 0;
    // The last tab that follows something on its line.
    let mut behind = None;
    for tab in memchr::memchr_iter(b'\t', bytes) {
        while let Some(node) = tree.nodes.get(next).filter(|node| node.content as usize <= tab) {
            if node.style != Style::Block {
                covered = covered.max(node.end as usize);
            }
            next += 1;
        }
        if tab < covered {
            continue;
        }
        let known = behind
            .is_some_and(|behind: usize| bytes[behind..tab].iter().all(|byte| matches!(byte, b' ' | b'\t')));
        if !known
            && bytes[..tab]
                .iter()
                .rev()
                .take_while(|byte| !matches!(byte, b'\n' | b'\r'))
                .all(|byte| matches!(byte, b' ' | b'\t' | b'-'))
        {
            return Err(SyntaxError::syntax(TAB, tab..tab + 1));
        }
        behind = Some(tab);
    }
    Ok(())
}

pub(super) const TAB: &str = "tab in the indentation; YAML uses spaces";

/// Rejects the escapes of a double-quoted scalar that Go's decoder rejects: `\/` and halves of surrogate
/// pairs.
pub(super) fn check_escapes(source: &str, span: Range<usize>) -> Result<(), SyntaxError> {
    let bytes = source.as_bytes();
    let mut at = span.start;
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..span.end]) {
        at += step;
        let refuse = |len: usize, what: &str| {
            let span = at..(at + len).min(span.end);
            Err(SyntaxError::syntax(
                format!("kubectl rejects the escape `{}`{what}", &source[span.clone()]),
                span,
            ))
        };
        match bytes.get(at + 1) {
            Some(b'/') => return refuse(2, ""),
            Some(b'u')
                if matches!(bytes.get(at + 2), Some(b'd' | b'D'))
                    && matches!(bytes.get(at + 3), Some(b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F')) =>
            {
                return refuse(6, ": it is half a character; write the character itself");
            }
            _ => {}
        }
        at = (at + 2).min(span.end);
    }
    Ok(())
}
