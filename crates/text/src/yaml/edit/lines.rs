//! Lines, columns and comments around a node.

use std::ops::Range;

use super::{Editor, Withheld};
use crate::meter;

impl<'e> Editor<'e> {
    pub(super) fn span(&self, at: usize) -> Range<usize> {
        let node = self.tree.node(at);
        self.clamp(node.content as usize)..self.clamp(node.end as usize)
    }

    /// Limits an offset to the text: the parser saw a line break at the end, which the text may lack.
    pub(super) fn clamp(&self, offset: usize) -> usize {
        offset.min(self.text.len())
    }

    pub(super) fn line_start(&self, at: usize) -> usize {
        let start = self.text[..at].rfind(['\n', '\r']).map_or(0, |line| line + 1);
        meter::spend_text(&self.text[start..at]);
        if start == 0 && self.text.starts_with('\u{FEFF}') { 3 } else { start }
    }

    pub(super) fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find(['\n', '\r']).map_or(self.text.len(), |offset| at + offset);
        meter::spend_text(&self.text[at..end]);
        end
    }

    /// Returns the start of the line after the one that ends at `end`.
    pub(super) fn next_line(&self, end: usize) -> usize {
        let rest = &self.text[end..];
        end + if rest.starts_with("\r\n") { 2 } else { usize::from(!rest.is_empty()) }
    }

    pub(super) fn column(&self, at: usize) -> usize {
        self.text[self.line_start(at)..at].chars().count()
    }

    /// Tells whether only spaces precede a place on its line. Looks at nothing else, since the line may be
    /// the whole file.
    pub(super) fn is_first(&self, at: usize) -> bool {
        let before = self.text[..at].trim_end_matches(' ');
        before.is_empty() || before.ends_with(['\n', '\r']) || before == "\u{FEFF}"
    }

    /// Returns the indentation of the line of `at`.
    pub(super) fn indent(&self, at: usize) -> &'e str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// Returns the end of the line of `at`, if only a comment follows.
    pub(super) fn end_of_line(&self, at: usize) -> Result<usize, Withheld> {
        let rest = &self.text[at..];
        let trimmed = rest.trim_start_matches([' ', '\t']);
        let blanks = rest.len() - trimmed.len();
        match trimmed.chars().next() {
            None | Some('\n' | '\r') => Ok(at + blanks),
            // After a quote, bracket or comma a comment needs no space; plain text cannot end right before
            // `#`.
            Some('#') => Ok(self.line_end(at + blanks)),
            // Do not search for the end of the line: it may be the whole file.
            Some(_) => Err(self.layout()),
        }
    }

    /// Returns the end of the comment lines that continue below a line that ends at `end`: those indented
    /// deeper than `column`.
    pub(super) fn with_comments(&self, mut end: usize, column: usize) -> usize {
        loop {
            let next = self.next_line(end);
            let line = &self.text[next..];
            let comment = line.trim_start_matches(' ');
            if next == end || line.len() - comment.len() <= column || !comment.starts_with('#') {
                return end;
            }
            end = self.line_end(next);
        }
    }

    /// Returns the whole lines of a range, with the line break after them, or before them at the end of the
    /// text.
    pub(super) fn lines(&self, start: usize, end: usize) -> Result<Range<usize>, Withheld> {
        let start = self.line_start(start);
        let end = self.end_of_line(end)?;
        let next = self.next_line(end);
        if next > end || start == 0 {
            return Ok(start..next);
        }
        let before = self.text[..start]
            .strip_suffix('\n')
            .map_or(&self.text[..start], |text| text.strip_suffix('\r').unwrap_or(text));
        Ok(before.len()..end)
    }

    /// Returns where a key starts, with the comment right above it.
    pub(super) fn head(&self, key: usize) -> usize {
        let mut start = key;
        while self.is_first(start) {
            let line = self.line_start(start);
            let before = self.text[..line].trim_end_matches(['\n', '\r']);
            let above = self.line_start(before.len());
            let comment = &before[above.min(before.len())..];
            let blanks = comment.len() - comment.trim_start_matches(' ').len();
            if line == 0
                || self.next_line(before.len()) != line
                || !comment[blanks..].starts_with('#')
                || above + blanks == start
            {
                break;
            }
            if blanks != self.column(key) {
                // It continues a comment on something above.
                break;
            }
            start = above + blanks;
        }
        start
    }

    /// Returns the place right after a key's colon.
    pub(super) fn colon(&self, key: usize) -> Result<usize, Withheld> {
        let end = self.clamp(self.tree.node(key).end as usize);
        let rest = &self.text[end..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if rest[blanks..].starts_with(':') { Ok(end + blanks + 1) } else { Err(self.layout()) }
    }

    /// Returns the place of an item's dash.
    pub(super) fn dash(&self, item: usize) -> Result<usize, Withheld> {
        let before = self.text[..self.clamp(self.tree.node(item).start as usize)]
            .trim_end_matches([' ', '\t', '\n', '\r']);
        if before.ends_with('-') { Ok(before.len() - 1) } else { Err(self.layout()) }
    }
}
