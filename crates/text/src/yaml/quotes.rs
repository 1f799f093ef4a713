//! Lets the parser accept what Go's decoder does: quoted text with any indentation and with the escape `\'`,
//! and comments right after a closing quote, a bracket, a comma in brackets, or the header of a block of
//! text.
//!
//! A document that the parser rejects for that is parsed again through [`CoveredSource`], which replaces such text
//! with letters and such comments with spaces. [`super::tree`] then reads the text separately.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use granit_parser::{BorrowedInput, Input};
use memchr::memmem;

/// The longest lookahead of the parser.
const WINDOW: usize = 128;
/// The lookahead with which it asks for the end of the input: only at the start of a token or quoted text.
const AT_TOKEN: usize = 4;

/// What [`CoveredSource`] has covered.
#[derive(Debug, Default)]
pub(super) struct Covers {
    /// Covered text, with quotes.
    pub(super) texts: RefCell<Vec<Range<usize>>>,
    /// The first quote that is never closed.
    pub(super) unclosed: Cell<Option<usize>>,
}

/// A source in which quoted text is covered.
pub(super) struct CoveredSource<'s> {
    source: &'s str,
    at: usize,
    /// The range shown as letters.
    text: Cell<(usize, usize)>,
    /// The range shown as spaces.
    comment: Cell<(usize, usize)>,
    /// The end of the last quoted text.
    known: Cell<usize>,
    /// The last lookahead of the parser.
    ahead: usize,
    /// The place of the last token.
    token: Cell<usize>,
    covers: Rc<Covers>,
}

impl<'s> CoveredSource<'s> {
    pub(super) fn new(source: &'s str, covers: Rc<Covers>) -> Self {
        let (text, comment, known, token) =
            (Cell::default(), Cell::default(), Cell::new(0), Cell::new(usize::MAX));
        Self { source, at: 0, text, comment, known, ahead: 0, token, covers }
    }

    /// Records the place of the parser. Right after a quote that is a token, it reads quoted text.
    fn stand(&self) {
        if self.ahead != AT_TOKEN {
            return;
        }
        let before = self.token.replace(self.at);
        let bytes = self.source.as_bytes();
        let open = self.at.checked_sub(1).filter(|open| {
            *open == before && *open >= self.known.get() && matches!(bytes[*open], b'\'' | b'"')
        });
        let Some(open) = open else { return self.cover_comment(self.behind_token()) };
        let quote = bytes[open];
        let Some(close) = closing(bytes, self.at, quote) else {
            self.known.set(usize::MAX);
            self.covers.unclosed.set(Some(open));
            return;
        };
        self.known.set(close + 1);
        if is_covered(&bytes[open..close]) {
            self.text.set((self.at, close));
            self.covers.texts.borrow_mut().push(open..close + 1);
        }
        self.cover_comment(Some(close + 1));
    }

    /// Returns the place after the bracket, comma or block header at the parser's place.
    fn behind_token(&self) -> Option<usize> {
        // None inside quotes.
        let rest = self.source.as_bytes().get(self.at..).filter(|_| self.at >= self.known.get())?;
        match rest.first()? {
            b'[' | b']' | b'{' | b'}' | b',' => Some(self.at + 1),
            b'|' | b'>' => Some(
                self.at
                    + 1
                    + rest[1..].iter().take_while(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9')).count(),
            ),
            _ => None,
        }
    }

    /// Covers the comment that starts at a place, if there is one.
    fn cover_comment(&self, at: Option<usize>) {
        let bytes = self.source.as_bytes();
        if let Some(at) = at.filter(|at| bytes.get(*at) == Some(&b'#')) {
            let end = memchr::memchr2(b'\n', b'\r', &bytes[at..]).map_or(bytes.len(), |len| at + len);
            self.comment.set((at, end));
        }
    }

    fn show(&self, at: usize, character: char) -> char {
        let within = |(start, end): (usize, usize)| (start..end).contains(&at);
        if within(self.text.get()) {
            'x'
        } else if within(self.comment.get()) {
            ' '
        } else {
            character
        }
    }

    fn next(&mut self) -> Option<char> {
        let character = self.source[self.at..].chars().next()?;
        let shown = self.show(self.at, character);
        self.at += character.len_utf8();
        Some(shown)
    }
}

/// Tells whether quoted text must be covered.
pub(super) fn is_covered(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_some()
        || text.starts_with(b"\"") && memmem::find(text, b"\\'").is_some()
}

/// Returns the places of the backslashes of `\'` in double-quoted text.
pub(super) fn apostrophes(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(step) = memchr::memchr(b'\\', text.get(at..).unwrap_or_default()) {
        at += step;
        if text.get(at + 1) == Some(&b'\'') {
            found.push(at);
        }
        at += 2;
    }
    found
}

/// Returns the place of the closing quote of text that starts at `at`.
fn closing(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    let escape = if quote == b'"' { b'\\' } else { quote };
    loop {
        at += memchr::memchr2(quote, escape, bytes.get(at..)?)?;
        match bytes[at] {
            b'\\' if quote == b'"' => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            _ => return Some(at),
        }
    }
}

impl Input for CoveredSource<'_> {
    fn lookahead(&mut self, count: usize) {
        self.ahead = count;
    }

    fn buflen(&self) -> usize {
        WINDOW
    }

    fn bufmaxlen(&self) -> usize {
        WINDOW
    }

    fn raw_read_ch(&mut self) -> char {
        self.next().unwrap_or_default()
    }

    fn raw_read_non_breakz_ch(&mut self) -> Option<char> {
        if matches!(self.peek(), '\n' | '\r' | '\0') { None } else { self.next() }
    }

    fn skip(&mut self) {
        self.next();
    }

    fn skip_n(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    fn peek(&self) -> char {
        self.peek_nth(0)
    }

    fn peek_nth(&self, n: usize) -> char {
        let next = self.source[self.at..].char_indices().nth(n);
        next.map_or('\0', |(offset, character)| self.show(self.at + offset, character))
    }

    fn byte_offset(&self) -> Option<usize> {
        Some(self.at)
    }

    fn slice_bytes(&self, start: usize, end: usize) -> Option<&str> {
        self.source.get(start..end)
    }

    fn next_is_z(&self) -> bool {
        self.stand();
        self.at >= self.source.len()
    }
}

impl<'s> BorrowedInput<'s> for CoveredSource<'s> {
    fn slice_borrowed(&self, start: usize, end: usize) -> Option<&'s str> {
        self.source.get(start..end)
    }
}
