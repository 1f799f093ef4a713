//! Words of commands, and how they are put together.

use std::borrow::Cow;
use std::ops::Range;

use super::MAX_COMMAND_BYTES;
use crate::value::Text;

/// Marks a part of a word that is known only when the script runs.
pub const UNKNOWN: char = '\u{E000}';
/// Marks a part of a word that is known only when the script runs, and may be several words or none.
pub const SPREADS: char = '\u{E001}';

/// The text of a word while its script is read: a piece of the script, or an owned text.
pub type Piece<'t> = Cow<'t, str>;

/// A word of a command, without quotes and with known variables replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word<T = Text> {
    /// The text; [`UNKNOWN`] and [`SPREADS`] stand for what is unknown.
    pub text: T,
    /// Its bytes in the script.
    pub span: Range<usize>,
    /// Whether it was written without quotes, escapes or expansions: only such a word is reserved.
    pub plain: bool,
    /// Whether it was too long to be kept in full.
    pub cut: bool,
}

impl<T: AsRef<str>> Word<T> {
    /// Returns the text if all of it is known.
    #[must_use]
    pub fn known(&self) -> Option<&str> {
        let text = self.text.as_ref();
        is_known(text).then_some(text)
    }

    /// Returns the text up to the first unknown part.
    #[must_use]
    pub fn start(&self) -> &str {
        self.text.as_ref().split([UNKNOWN, SPREADS]).next().unwrap_or_default()
    }

    /// Tells whether it may be several words or none.
    #[must_use]
    pub fn spreads(&self) -> bool {
        self.text.as_ref().contains(SPREADS)
    }

    /// Returns the word with an owned text.
    #[must_use]
    pub fn kept(&self) -> Word {
        Word { text: self.text.as_ref().into(), span: self.span.clone(), plain: self.plain, cut: self.cut }
    }
}

impl<'t> Word<Piece<'t>> {
    /// Makes a word that is a whole text.
    #[must_use]
    pub fn whole(text: &'t str) -> Self {
        let mut word = Self { span: 0..text.len(), ..Self::default() };
        word.add(text);
        word
    }

    /// Makes a word that stands for any number of words.
    #[must_use]
    pub fn spread(span: Range<usize>) -> Self {
        Self { text: Cow::Borrowed("\u{E001}"), span, ..Self::default() }
    }

    /// Adds a piece of the script, which stays borrowed as long as it is the only one.
    pub(super) fn add(&mut self, piece: &'t str) {
        let room = self.room();
        if self.cut || piece.len() > room {
            self.cut(piece, room);
        } else if self.text.is_empty() {
            self.text = Cow::Borrowed(piece);
        } else if !piece.is_empty() {
            self.text.to_mut().push_str(piece);
        }
    }

    /// Adds the value of a variable.
    pub(super) fn add_value(&mut self, value: &str) {
        let room = self.room();
        if self.cut || value.len() > room {
            self.cut(value, room);
        } else {
            self.text.to_mut().push_str(value);
        }
    }

    /// Adds a character.
    pub(super) fn push(&mut self, char: char) {
        if !self.cut && self.room() >= char.len_utf8() {
            self.text.to_mut().push(char);
        } else {
            self.cut("", 0);
        }
    }

    fn room(&self) -> usize {
        MAX_COMMAND_BYTES.saturating_sub(self.text.len())
    }

    /// Adds as much of a text as there is room for, once; the rest is unknown.
    fn cut(&mut self, text: &str, room: usize) {
        if std::mem::replace(&mut self.cut, true) {
            return;
        }
        let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let own = self.text.to_mut();
        own.push_str(&text[..end.unwrap_or_default()]);
        own.push(SPREADS);
    }
}

/// Tells whether a text has no unknown part.
fn is_known(text: &str) -> bool {
    // Both begin with this byte, which is rare.
    memchr::memchr(0xEE, text.as_bytes()).is_none() || !text.contains([UNKNOWN, SPREADS])
}
