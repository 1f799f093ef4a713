//! Lines and columns of byte offsets.

use std::borrow::Cow;
use std::ops::Range;

/// A line and a column, both from 1. Columns count Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Returns the start of the character at a byte offset, or the end of the text.
pub fn character_at(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Shortens a text to a number of bytes, with a mark at its end.
pub fn cut<'t>(text: &'t str, most: usize, mark: &str) -> Cow<'t, str> {
    if text.len() <= most {
        return text.into();
    }
    (text[..character_at(text, most - mark.len())].to_owned() + mark).into()
}

/// Bytes between two marks, and the most that a lookup counts.
const STRIDE: usize = 1024;

/// An index of the lines and characters of a source.
///
/// A line ends with `\n`, `\r\n` or a lone `\r`. A byte order mark is not part of a line, as in editors. A
/// lookup counts at most 1,024 bytes, however long the line: a JSON manifest may be one line of megabytes.
/// The index is small, since one thread makes it while others wait to judge the documents.
#[derive(Clone, Debug)]
pub struct Lines<'s> {
    source: &'s [u8],
    /// Whether the source has `\r`.
    returns: bool,
    /// The lines before each multiple of [`STRIDE`].
    blocks: Vec<Before>,
    /// Characters before each multiple of [`STRIDE`]; empty for ASCII, where bytes are characters.
    marks: Vec<CharacterCount>,
}

/// The lines before a place.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// Line breaks.
    breaks: usize,
    /// Where the line of the place starts.
    start: usize,
}

/// A number of characters, in the two units that reports use.
#[derive(Clone, Copy, Debug, Default)]
struct CharacterCount {
    scalars: usize,
    utf16: usize,
}

impl CharacterCount {
    fn new(bytes: &[u8]) -> Self {
        let scalars = bytes.iter().filter(|&&byte| !is_continuation(byte)).count();
        // Four bytes of UTF-8 are two units of UTF-16, fewer are one.
        let astral = bytes.iter().filter(|&&byte| byte >= 0xF0).count();
        Self { scalars, utf16: scalars + astral }
    }

    fn plus(self, other: Self) -> Self {
        Self { scalars: self.scalars + other.scalars, utf16: self.utf16 + other.utf16 }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

impl Before {
    /// Returns the lines before the end of a range; `self` is for its start.
    fn behind(self, source: &[u8], returns: bool, range: Range<usize>) -> Self {
        let first = range.start;
        let bytes = &source[range];
        let (count, last) = if returns {
            let ends = |at: &usize| bytes[*at] == b'\n' || source.get(first + at + 1) != Some(&b'\n');
            memchr::memchr2_iter(b'\n', b'\r', bytes)
                .filter(ends)
                .fold((0, None), |(count, _), at| (count + 1, Some(at)))
        } else {
            (memchr::memchr_iter(b'\n', bytes).count(), memchr::memrchr(b'\n', bytes))
        };
        Self { breaks: self.breaks + count, start: last.map_or(self.start, |at| first + at + 1) }
    }
}

impl<'s> Lines<'s> {
    /// Indexes a source. In one that is not UTF-8, columns are approximate.
    #[must_use]
    pub fn new(source: &'s [u8]) -> Self {
        let returns = memchr::memchr(b'\r', source).is_some();
        let mut here =
            Before { breaks: 0, start: if source.starts_with("\u{FEFF}".as_bytes()) { 3 } else { 0 } };
        let blocks = (0..source.len()).step_by(STRIDE).map(|block| {
            let before = here;
            here = here.behind(source, returns, block..source.len().min(block + STRIDE));
            before
        });
        let blocks = blocks.collect();
        let marks = if source.is_ascii() {
            Vec::new()
        } else {
            let blocks = source.chunks(STRIDE).scan(CharacterCount::default(), |before, block| {
                let mark = *before;
                *before = before.plus(CharacterCount::new(block));
                Some(mark)
            });
            blocks.collect()
        };
        Self { source, returns, blocks, marks }
    }

    /// Returns the line and column, from 1, of a byte offset. Columns count Unicode scalar values.
    ///
    /// An offset inside a character means its start; one after the end means the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        self.locate(offset, |count| count.scalars)
    }

    /// Returns what [`Lines::position`] does, with columns that count UTF-16 code units.
    #[must_use]
    pub fn position_utf16(&self, offset: usize) -> Position {
        self.locate(offset, |count| count.utf16)
    }

    /// Returns what [`Lines::position`] does, with columns that count bytes.
    #[must_use]
    pub fn position_utf8(&self, offset: usize) -> Position {
        let (line, start, offset) = self.line(offset);
        Position { line, column: offset.saturating_sub(start) + 1 }
    }

    fn locate(&self, offset: usize, unit: fn(CharacterCount) -> usize) -> Position {
        let (line, start, offset) = self.line(offset);
        let column = unit(self.before(offset)).saturating_sub(unit(self.before(start)));
        Position { line, column: column + 1 }
    }

    /// Returns the line of an offset, from 1, where it starts, and the start of the offset's character.
    fn line(&self, offset: usize) -> (usize, usize, usize) {
        let mut offset = offset.min(self.source.len());
        while offset > 0 && self.source.get(offset).is_some_and(|&byte| is_continuation(byte)) {
            offset -= 1;
        }
        // There is no block after a full last one.
        let block = (offset / STRIDE).min(self.blocks.len().saturating_sub(1));
        let before = self.blocks.get(block).map_or(Before { breaks: 0, start: 0 }, |before| {
            before.behind(self.source, self.returns, block * STRIDE..offset)
        });
        (before.breaks + 1, before.start, offset)
    }

    /// Counts the characters from the start of the source to an offset.
    fn before(&self, offset: usize) -> CharacterCount {
        let block = offset / STRIDE;
        match self.marks.get(block) {
            Some(mark) => mark.plus(CharacterCount::new(&self.source[block * STRIDE..offset])),
            // After a full last block.
            None if block > 0 && block == self.marks.len() => {
                self.marks[block - 1].plus(CharacterCount::new(&self.source[(block - 1) * STRIDE..offset]))
            }
            None => CharacterCount { scalars: offset, utf16: offset },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(source: &str, offset: usize) -> (usize, usize) {
        let position = Lines::new(source.as_bytes()).position(offset);
        (position.line, position.column)
    }

    #[test]
    fn all_three_line_breaks_end_a_line() {
        let source = "a\nb\r\nc\rd";
        let places: Vec<_> = (0..=source.len()).map(|offset| at(source, offset)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (4, 2)]);
        assert_eq!(at("", 0), (1, 1));
        assert_eq!(at("a\n", 2), (2, 1));
        assert_eq!(at("a\n", 99), (2, 1));
        assert_eq!(at("a\n\r\n\r", 9), (4, 1));
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let source = "ä: 🚀x";
        let x = source.len() - 1;
        assert_eq!(at(source, x), (1, 5));
        assert_eq!(Lines::new(source.as_bytes()).position_utf16(x), Position { line: 1, column: 6 });
        assert_eq!(at(source, x - 2), (1, 4), "inside the rocket");
    }

    #[test]
    fn a_byte_order_mark_is_in_front_of_the_first_column() {
        assert_eq!(at("\u{FEFF}kind: Job", 3), (1, 1));
        assert_eq!(at("\u{FEFF}kind: Job", 0), (1, 1));
        assert_eq!(at("\u{FEFF}kind: Job", 9), (1, 7));
    }

    #[test]
    fn a_line_may_be_longer_than_the_stride() {
        for unit in ["a", "ß", "€", "🚀"] {
            for count in [STRIDE - 1, STRIDE, STRIDE + 1, 4 * STRIDE] {
                let source = unit.repeat(count);
                assert_eq!(at(&source, source.len()), (1, count + 1));
                assert_eq!(
                    Lines::new(source.as_bytes()).position_utf16(source.len()).column,
                    source.encode_utf16().count() + 1
                );
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_counting_from_the_start(source in "[a\r\nß€🚀]{0,60}", pad in 0..3usize) {
            let pad = pad * STRIDE;
            let source = "ü".repeat(pad / 2) + &source;
            let lines = Lines::new(source.as_bytes());
            for (offset, _) in source.char_indices().chain([(source.len(), ' ')]).skip_while(|(offset, _)| *offset < pad) {
                let unified = source[..offset].replace("\r\n", "\n").replace('\r', "\n");
                // Between `\r` and `\n` no line has ended yet.
                if source[..offset].ends_with('\r') && source[offset..].starts_with('\n') {
                    continue;
                }
                let last = unified.rsplit('\n').next().unwrap();
                let line = unified.matches('\n').count() + 1;
                prop_assert_eq!(lines.position(offset), Position { line, column: last.chars().count() + 1 });
                prop_assert_eq!(lines.position_utf16(offset), Position { line, column: last.encode_utf16().count() + 1 });
            }
        }

        #[test]
        fn takes_any_bytes(source in prop::collection::vec(any::<u8>(), 0..3000), offset in 0..4000usize) {
            let position = Lines::new(&source).position(offset);
            prop_assert!(position.line >= 1 && position.column >= 1);
        }
    }
}
