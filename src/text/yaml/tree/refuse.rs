//! What the YAML parser takes and Go's decoder refuses: tabs and escapes.

use std::ops::Range;

use super::{Style, Tree};
use crate::text::yaml::{SyntaxError, SyntaxErrorKind};

/// Refuses tabs where Go's decoder takes no blanks: at the start of a line or behind a dash, outside of
/// brackets and text.
///
/// That holds for lines that are blank or have nothing but a comment, too.
pub(super) fn check_tabs(source: &str, tree: &Tree) -> Result<(), SyntaxError> {
    let bytes = source.as_bytes();
    // Where text and brackets that started before the tab end.
    let mut covered = 0;
    let mut next = 0;
    // The last tab that stands behind something on its line.
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
            return Err(SyntaxError {
                message: TAB.to_owned(),
                span: tab..tab + 1,
                kind: SyntaxErrorKind::Syntax,
            });
        }
        behind = Some(tab);
    }
    Ok(())
}

pub(super) const TAB: &str = "a tab in the indentation; YAML is indented with spaces";

/// Refuses the escapes of a double-quoted scalar that Go's decoder does not know: `\/`, and halves of
/// surrogate pairs.
pub(super) fn check_escapes(source: &str, span: Range<usize>) -> Result<(), SyntaxError> {
    let bytes = source.as_bytes();
    let mut at = span.start;
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..span.end]) {
        at += step;
        let refuse = |len: usize, what: &str| {
            let span = at..(at + len).min(span.end);
            Err(SyntaxError {
                message: format!("kubectl does not know the escape `{}`{what}", &source[span.clone()]),
                span,
                kind: SyntaxErrorKind::Syntax,
            })
        };
        match bytes.get(at + 1) {
            Some(b'/') => return refuse(2, ""),
            Some(b'u')
                if matches!(bytes.get(at + 2), Some(b'd' | b'D'))
                    && matches!(bytes.get(at + 3), Some(b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F')) =>
            {
                return refuse(6, ": it is half of a character; write the character itself");
            }
            _ => {}
        }
        at = (at + 2).min(span.end);
    }
    Ok(())
}
