//! Text in quotes as Go's decoder reads it: its lines may be indented anyhow, and `\'` is an escape. And
//! comments as that reads them: they may follow a closing quote, a bracket, a comma in brackets, and the
//! header of a block of text at once.
//!
//! The parser is stricter. So a document that it refuses for that is read a second time through [`Covered`],
//! which shows it such text as one line of as many letters, and such comments as blanks. The text itself is
//! then read apart, by [`super::tree`].

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use granit_parser::{BorrowedInput, Input};
use memchr::memmem;

/// How far the parser looks ahead at most.
const WINDOW: usize = 128;
/// How far it looks ahead where a token or a text in quotes starts, and nowhere else where it asks for the
/// end.
const AT_TOKEN: usize = 4;

/// What [`Covered`] has done, for whoever must check it.
#[derive(Debug, Default)]
pub(super) struct Covers {
    /// Texts that the parser does not see, quotes included.
    pub(super) texts: RefCell<Vec<Range<usize>>>,
    /// The first quote that is never closed.
    pub(super) unclosed: Cell<Option<usize>>,
}

/// A source whose texts in quotes look as the parser wants them.
pub(super) struct Covered<'s> {
    source: &'s str,
    at: usize,
    /// What is shown as letters.
    text: Cell<(usize, usize)>,
    /// What is shown as blanks.
    comment: Cell<(usize, usize)>,
    /// Where the text in quotes that was met last ends.
    known: Cell<usize>,
    /// How far the parser looked ahead last.
    ahead: usize,
    /// Where the parser last stood at a token.
    token: Cell<usize>,
    covers: Rc<Covers>,
}

impl<'s> Covered<'s> {
    pub(super) fn new(source: &'s str, covers: Rc<Covers>) -> Self {
        let (text, comment, known, token) =
            (Cell::default(), Cell::default(), Cell::new(0), Cell::new(usize::MAX));
        Self { source, at: 0, text, comment, known, ahead: 0, token, covers }
    }

    /// Notes where the parser stands. Right behind a quote that is a token by itself, it reads what is in
    /// quotes.
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

    /// Returns the place behind the bracket, the comma or the header of a block of text that the parser
    /// stands at.
    fn behind_token(&self) -> Option<usize> {
        // Within quotes there is none.
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

/// Tells whether a text, which starts with its quote, is one that the parser does not get to see.
pub(super) fn is_covered(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_some()
        || text.starts_with(b"\"") && memmem::find(text, b"\\'").is_some()
}

/// Returns the places of the backslashes in `\'`, in a text in double quotes.
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

/// Returns where a quote that opened before `at` is closed.
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

impl Input for Covered<'_> {
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

impl<'s> BorrowedInput<'s> for Covered<'s> {
    fn slice_borrowed(&self, start: usize, end: usize) -> Option<&'s str> {
        self.source.get(start..end)
    }
}
