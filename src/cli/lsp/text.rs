//! Places of a text as the protocol writes them: lines from 0, columns in units of the agreed encoding.

use std::ops::Range;

use gen_lsp_types::{Position, Range as Span, TextEdit};
use serde_json::Value;

use crate::text::lines::{self, Lines};
use crate::text::yaml::Edit;

/// The unit of columns.
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

/// Converts a line and column.
pub(super) fn of(at: lines::Position) -> Position {
    let number = |value: usize| u32::try_from(value.saturating_sub(1)).unwrap_or(u32::MAX);
    Position { line: number(at.line), character: number(at.column) }
}

/// Returns the range of some bytes.
pub(super) fn range(lines: &Lines<'_>, span: &Range<usize>, encoding: Encoding) -> Span {
    Span { start: position(lines, span.start, encoding), end: position(lines, span.end, encoding) }
}

/// Returns edits of a source in the form of the protocol.
pub(super) fn edits(source: &str, edits: &[Edit], encoding: Encoding) -> Vec<TextEdit> {
    let lines = Lines::new(source.as_bytes());
    let edit =
        |edit: &Edit| TextEdit { range: range(&lines, &edit.span, encoding), new_text: edit.text.clone() };
    edits.iter().map(edit).collect()
}

/// A line: its number from 0, and where it starts.
type LineStart = (u32, usize);

/// Returns where the first line starts: a byte order mark is not part of it.
fn first(text: &str) -> LineStart {
    (0, if text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 })
}

/// Finds a line from a known one; `None` if the text has fewer.
fn line_from(text: &str, near: LineStart, wanted: u32) -> Option<LineStart> {
    let bytes = text.as_bytes();
    let (mut line, mut start) = if wanted < near.0 / 2 { first(text) } else { near };
    while line < wanted {
        let end = start + memchr::memchr2(b'\n', b'\r', &bytes[start..])?;
        start = end + if bytes[end..].starts_with(b"\r\n") { 2 } else { 1 };
        line += 1;
    }
    while line > wanted {
        let before = bytes[..start].strip_suffix(b"\r\n").map_or(start - 1, <[u8]>::len);
        line -= 1;
        start = memchr::memrchr2(b'\n', b'\r', &bytes[..before]).map_or(first(text).1, |at| at + 1);
    }
    Some((line, start))
}

/// Returns the offset of a column of the line that starts at an offset: the end of the line for a column past it, the
/// start of a character for a column inside it.
fn column(text: &str, start: usize, wanted: u32, encoding: Encoding) -> usize {
    let bytes = text.as_bytes();
    let end = memchr::memchr2(b'\n', b'\r', &bytes[start..]).map_or(text.len(), |at| start + at);
    let line = &text[start..end];
    let wanted = wanted as usize;
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

/// Returns the offset of a position; of one outside of the text, the offset of the nearest one inside.
pub(super) fn offset(text: &str, position: Position, encoding: Encoding) -> usize {
    let line = line_from(text, first(text), position.line);
    line.map_or(text.len(), |(_, start)| column(text, start, position.character, encoding))
}

/// A change of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextChange {
    /// The range to replace; the whole text without it.
    range: Option<Span>,
    text: String,
}

impl TextChange {
    /// Reads a change of the protocol.
    ///
    /// The type of the protocol is not used: it ignores a range that it cannot read, such as one up to a column larger
    /// than the protocol allows, and then the text of a few bytes would replace the document.
    pub(super) fn from_change(change: &Value) -> Option<Self> {
        let number = |value: &Value| {
            let number = value.as_f64()?;
            // The cast saturates.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(number as u32)
        };
        let place = |place: &Value| {
            Some(Position { line: number(place.get("line")?)?, character: number(place.get("character")?)? })
        };
        let range = match change.get("range") {
            None | Some(Value::Null) => None,
            Some(range) => Some(Span { start: place(range.get("start")?)?, end: place(range.get("end")?)? }),
        };
        Some(Self { range, text: change.get("text")?.as_str()?.to_owned() })
    }
}

/// Applies changes, one after the other. Each line is searched from the previous change: an editor that replaces all of
/// something sends thousands at once.
pub(super) fn change(text: &mut String, changes: Vec<TextChange>, encoding: Encoding) {
    let mut near = first(text);
    for change in changes {
        let Some(range) = change.range else {
            *text = change.text;
            near = first(text);
            continue;
        };
        let start_line = line_from(text, near, range.start.line);
        let start =
            start_line.map_or(text.len(), |(_, at)| column(text, at, range.start.character, encoding));
        let end = if range.end.line >= range.start.line {
            let line = start_line.and_then(|line| line_from(text, line, range.end.line));
            line.map_or(text.len(), |(_, at)| column(text, at, range.end.character, encoding))
        } else {
            start
        };
        text.replace_range(start..end.max(start), &change.text);
        // Its line starts where it did, unless a line break is longer now.
        near = start_line.filter(|(line, _)| *line > 0).unwrap_or(first(text));
        if text.as_bytes()[..near.1].ends_with(b"\r") && text.as_bytes()[near.1..].starts_with(b"\n") {
            near = first(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    fn replace(start: Position, end: Position, text: &str) -> TextChange {
        TextChange { range: Some(Span { start, end }), text: text.to_owned() }
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
        change(&mut changed, vec![replace(at(1, 1), at(0, 0), "c")], Encoding::Utf16);
        assert_eq!(changed, "a😀\nbc", "a range that ends before it starts is empty");
    }

    #[test]
    fn a_range_that_is_no_range_is_not_the_whole_text() {
        let of = |change: Value| TextChange::from_change(&change);
        let start = json!({"line": 0, "character": 0});
        let range =
            |end: Value| json!({"text": "", "range": {"start": start, "end": {"line": 0, "character": end}}});
        let whole = Some(TextChange { range: None, text: String::new() });
        assert_eq!(of(json!({"text": ""})), whole);
        assert_eq!(of(json!({"text": "", "range": null, "rangeLength": 1})), whole);
        for (end, expected) in [
            (json!(1), 1),
            (json!(1.0), 1),
            (json!(-1), 0),
            (json!(u64::MAX), u32::MAX),
            (json!(9_007_199_254_740_991_u64), u32::MAX),
            (json!(1e300), u32::MAX),
        ] {
            assert_eq!(of(range(end)), Some(replace(at(0, 0), at(0, expected), "")));
        }
        assert_eq!(of(range(json!("1"))), None);
        assert_eq!(of(json!({"text": "", "range": {}})), None);
        assert_eq!(of(json!({"text": 1})), None);
        assert_eq!(of(json!([])), None);
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
        fn changes_at_once_are_those_one_by_one(
            text in "\u{FEFF}?[aä😀\n\r]{0,30}",
            made in prop::collection::vec((any::<[u8; 4]>(), "\u{FEFF}?[b😀\n\r]{0,4}"), 0..6),
            utf8: bool,
        ) {
            let encoding = if utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
            let made = made.into_iter().map(|(places, new)| {
                let [a, b, c, d] = places.map(|place| u32::from(place % 12));
                (Span { start: at(a, b % 4), end: at(c, d % 4) }, new)
            });
            let made: Vec<(Span, String)> = made.collect();
            let mut expected = text.clone();
            for (range, new) in &made {
                let start = offset(&expected, range.start, encoding);
                let end = offset(&expected, range.end, encoding).max(start);
                expected.replace_range(start..end, new);
            }
            let mut changed = text;
            let changes = made.into_iter().map(|(range, text)| TextChange { range: Some(range), text });
            change(&mut changed, changes.collect(), encoding);
            prop_assert_eq!(changed, expected);
        }
    }
}
