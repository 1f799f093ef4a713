//! Byte offsets as lines and columns.

use crate::report::Position;

/// Where the lines of a source start. Lines end with `\n`, `\r\n` or `\r`.
#[derive(Clone, Debug)]
pub struct Lines<'s> {
    source: &'s [u8],
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    /// Finds the lines of a source.
    #[must_use]
    pub fn new(source: &'s [u8]) -> Self {
        let mut starts = vec![0];
        for at in memchr::memchr2_iter(b'\n', b'\r', source) {
            if source[at] == b'\n' || source.get(at + 1) != Some(&b'\n') {
                starts.push(at + 1);
            }
        }
        Self { source, starts }
    }

    /// Returns the line and the column of a byte, both from 1. Columns count Unicode scalar values; a byte-order mark takes none.
    ///
    /// An offset behind the end is taken as the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.source.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let mut text = &self.source[start..offset];
        if start == 0 {
            text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
        // Bytes that continue a character (10xxxxxx) take no column of their own.
        let column = text.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        Position { line, column: column + 1 }
    }

    /// Returns the bytes of a line, from 1, without its break; empty for a line that is not there.
    #[must_use]
    pub fn text(&self, line: usize) -> &'s [u8] {
        let Some(start) = line.checked_sub(1).and_then(|index| self.starts.get(index)) else { return &[] };
        let end = self.starts.get(line).copied().unwrap_or(self.source.len());
        let text = &self.source[*start..end];
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        text.strip_suffix(b"\r").unwrap_or(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_line_break() {
        let lines = Lines::new(b"a\r\nb\rc\nd");
        let at = |offset| (lines.position(offset).line, lines.position(offset).column);
        assert_eq!([at(0), at(1), at(3), at(5), at(7), at(8), at(99)], [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1), (4, 2), (4, 2)]);
        assert_eq!([lines.text(1), lines.text(2), lines.text(4), lines.text(5), lines.text(0)], [&b"a"[..], b"b", b"d", b"", b""]);
    }

    #[test]
    fn counts_characters() {
        let source = "\u{FEFF}训练: 😀x\n".as_bytes();
        let lines = Lines::new(source);
        let column = |needle: &str| {
            let text = str::from_utf8(source).unwrap();
            lines.position(text.find(needle).unwrap()).column
        };
        assert_eq!([column("训"), column(":"), column("😀"), column("x")], [1, 3, 5, 6]);
    }
}
