//! Places of a text as the protocol writes them: lines from 0, columns in units of the agreed encoding.

use std::ops::Range;

use gen_lsp_types::{Position, Range as Span, TextEdit};

use crate::text::lines::{self, Lines};
use crate::text::yaml::Edit;

/// What columns count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Bytes.
    Utf8,
    /// Code units of UTF-16, which every editor knows.
    Utf16,
}

impl Encoding {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
        }
    }
}

/// Returns the position of an offset.
pub(super) fn position(lines: &Lines<'_>, offset: usize, encoding: Encoding) -> Position {
    let at = match encoding {
        Encoding::Utf8 => lines.position_utf8(offset),
        Encoding::Utf16 => lines.position_utf16(offset),
    };
    of(at)
}

/// Returns a position that is known by its line and column.
pub(super) fn of(at: lines::Position) -> Position {
    let number = |value: usize| u32::try_from(value.saturating_sub(1)).unwrap_or(u32::MAX);
    Position { line: number(at.line), character: number(at.column) }
}

/// Returns the range of some bytes.
pub(super) fn range(lines: &Lines<'_>, span: &Range<usize>, encoding: Encoding) -> Span {
    Span { start: position(lines, span.start, encoding), end: position(lines, span.end, encoding) }
}

/// Returns edits of a source as the protocol writes them.
pub(super) fn edits(source: &str, edits: &[Edit], encoding: Encoding) -> Vec<TextEdit> {
    let lines = Lines::new(source.as_bytes());
    let edit =
        |edit: &Edit| TextEdit { range: range(&lines, &edit.span, encoding), new_text: edit.text.clone() };
    edits.iter().map(edit).collect()
}

/// Returns the offset of a position. One behind the end of its line is that end, one inside of a character is
/// its start.
pub(super) fn offset(text: &str, position: Position, encoding: Encoding) -> usize {
    let bytes = text.as_bytes();
    let mut start = if text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
    for _ in 0..position.line {
        let Some(at) = memchr::memchr2(b'\n', b'\r', &bytes[start..]) else { return text.len() };
        let is_pair = bytes[start + at..].starts_with(b"\r\n");
        start += at + if is_pair { 2 } else { 1 };
    }
    let end = memchr::memchr2(b'\n', b'\r', &bytes[start..]).map_or(text.len(), |at| start + at);
    let line = &text[start..end];
    let wanted = position.character as usize;
    if encoding == Encoding::Utf8 || line.is_ascii() {
        return lines::character_at(text, start.saturating_add(wanted).min(end));
    }
    let mut units = 0;
    for (at, char) in line.char_indices() {
        units += char.len_utf16();
        if units > wanted {
            return start + at;
        }
    }
    end
}

/// Replaces a range of a text.
pub(super) fn replace(text: &mut String, range: Span, new: &str, encoding: Encoding) {
    let start = offset(text, range.start, encoding);
    let end = offset(text, range.end, encoding).max(start);
    text.replace_range(start..end, new);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn columns_count_units_of_the_encoding() {
        let text = "a: 😀b\r\nc: ä\rd";
        for (place, utf16, utf8) in
            [("b", at(0, 5), at(0, 7)), ("ä", at(1, 3), at(1, 3)), ("d", at(2, 0), at(2, 0))]
        {
            let here = text.find(place).unwrap();
            let lines = Lines::new(text.as_bytes());
            assert_eq!(position(&lines, here, Encoding::Utf16), utf16);
            assert_eq!(position(&lines, here, Encoding::Utf8), utf8);
            assert_eq!(offset(text, utf16, Encoding::Utf16), here);
            assert_eq!(offset(text, utf8, Encoding::Utf8), here);
        }
    }

    #[test]
    fn a_place_outside_is_the_nearest_inside() {
        let text = "a😀\nb";
        assert_eq!(offset(text, at(0, 2), Encoding::Utf16), 1, "between two halves");
        assert_eq!(offset(text, at(0, 3), Encoding::Utf8), 1);
        assert_eq!(offset(text, at(0, 99), Encoding::Utf16), 5);
        assert_eq!(offset(text, at(1, u32::MAX), Encoding::Utf8), 7);
        assert_eq!(offset(text, at(u32::MAX, 0), Encoding::Utf16), 7);
        let mut changed = text.to_owned();
        replace(&mut changed, Span { start: at(1, 1), end: at(0, 0) }, "c", Encoding::Utf16);
        assert_eq!(changed, "a😀\nbc", "a range that ends before it starts is empty");
    }

    proptest! {
        #[test]
        fn positions_and_offsets_are_inverse(text in "[a😀ä\n\r]{0,40}", utf8: bool) {
            let encoding = if utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
            let lines = Lines::new(text.as_bytes());
            for (here, _) in text.char_indices() {
                // No position is between the two characters of a line break.
                if text[..here].ends_with('\r') && text[here..].starts_with('\n') {
                    continue;
                }
                prop_assert_eq!(offset(&text, position(&lines, here, encoding), encoding), here);
            }
        }

        #[test]
        fn no_range_panics(text in ".{0,20}", new in ".{0,5}", places: [u32; 4], utf8: bool) {
            let encoding = if utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
            let mut text = text;
            let [a, b, c, d] = places.map(|place| place % 24);
            replace(&mut text, Span { start: at(a % 3, b), end: at(c % 3, d) }, &new, encoding);
            prop_assert!(text.contains(&new));
        }
    }
}
