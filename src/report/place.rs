//! From the symbolic place of a finding to the bytes of its source.

use std::borrow::Cow;
use std::ops::Range;

use crate::judge::finding::Part;
use crate::text::pointer::Pointer;
use crate::text::yaml::Document;

/// Returns the bytes of a place, or of the nearest existing place around it.
///
/// The key of a document or list item is its `kind`.
pub(crate) fn span(source: &[u8], document: &Document, pointer: &Pointer, part: Part) -> Range<usize> {
    let mut at = Cow::Borrowed(pointer);
    loop {
        if let Some(span) = document.locate(&at) {
            let key =
                || span.key.clone().or_else(|| document.locate(&(&*at / "kind")).map(|kind| kind.value));
            return match part {
                Part::Key => key().unwrap_or_else(|| first_line(source, span.value.clone())),
                Part::Value => span.value,
            };
        }
        match at.parent() {
            Some(parent) => at = Cow::Owned(parent),
            None => return first_line(source, document.span.clone()),
        }
    }
}

/// Cuts a range down to its first line, without the line break.
pub(crate) fn first_line(source: &[u8], span: Range<usize>) -> Range<usize> {
    let text = source.get(span.clone()).unwrap_or_default();
    let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let text = &text[blank..];
    let length = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
    span.start + blank..span.start + blank + length
}
