//! Words and operators of a script.

use std::borrow::Cow;

use super::Bound;
use super::parse::{Parser, UnreadScript};
use super::word::{Piece, SPREADS, UNKNOWN, Word};
use crate::meter;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShellToken<'t> {
    Word(Word<Piece<'t>>),
    /// `;`, `&`, `&&`, `||`, `|`, `;;`, `(`, `)`.
    Op(&'static str),
    NewLine,
    End,
}

/// Operators between commands, longest first.
const OPERATORS: [(&str, &str); 12] = [
    (";;&", ";;"),
    ("&&", "&&"),
    ("||", "||"),
    ("|&", "|"),
    (";;", ";;"),
    (";&", ";;"),
    (";", ";"),
    ("|", "|"),
    ("(", "("),
    (")", ")"),
    ("&", "&"),
    ("\n", "\n"),
];

/// Redirections, longest first, without the number in front.
const REDIRECTIONS: [&str; 12] = ["<<<", "<<-", "&>>", "<<", ">>", "<&", ">&", "<>", ">|", "&>", "<", ">"];

/// The most here-documents of one line: their delimiters are kept until the line ends.
const MAX_HEREDOCS: usize = 1024;

/// Bytes that end a word.
const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'(' | b')' | b'<')
}

/// Bytes that are literal in a word without quotes.
static ORDINARY: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "it is below 256")]
        let char = byte as u8;
        let starts = matches!(
            char,
            b'\\' | b'\'' | b'"' | b'$' | b'`' | b'>' | b'*' | b'?' | b'~' | b'{' | b'}' | b'[' | b']'
        );
        table[byte] = !starts && !ends_word(char);
        byte += 1;
    }
    table
};

/// Bytes of a script that are looked at in one step.
const BYTES_PER_STEP: usize = 16;

/// Spends the steps of looking at this many bytes one by one.
pub(super) fn spend_bytes(bytes: usize) {
    meter::spend(1 + (bytes / BYTES_PER_STEP) as u64);
}

/// A here-document whose text has not been read yet.
#[derive(Debug)]
pub(super) struct Heredoc<'t> {
    end: Cow<'t, str>,
    tabs: bool,
}

impl<'t> Parser<'t, '_, '_> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn peek_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self, char: char) {
        self.at += char.len_utf8();
    }

    /// Skips blanks, comments, and line breaks after a backslash.
    pub(super) fn skip_blanks(&mut self) {
        let start = self.at;
        while let Some(byte) = self.peek_byte() {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'#' => {
                    let rest = self.rest().as_bytes();
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                b'\\' => {
                    let behind = &self.rest()[1..];
                    match behind.strip_prefix('\n').or_else(|| behind.strip_prefix("\r\n")) {
                        Some(more) => self.at = self.text.len() - more.len(),
                        None => break,
                    }
                }
                _ => break,
            }
        }
        spend_bytes(self.at - start);
    }

    /// Reads the next token, without redirections.
    pub(super) fn lex(&mut self) -> Result<ShellToken<'t>, UnreadScript> {
        loop {
            self.skip_blanks();
            let Some(first) = self.peek_byte() else {
                return if self.heredocs.is_empty() { Ok(ShellToken::End) } else { Err(UnreadScript) };
            };
            if matches!(first, b'0'..=b'9' | b'<' | b'>' | b'&') && self.redirection()? {
                continue;
            }
            if matches!(first, b';' | b'&' | b'|' | b'(' | b')' | b'\n') {
                let rest = self.rest();
                let found = OPERATORS.iter().find(|(text, _)| rest.starts_with(text));
                let (text, meant) = found.ok_or(UnreadScript)?;
                self.at += text.len();
                if *meant == "\n" {
                    self.skip_heredocs()?;
                    return Ok(ShellToken::NewLine);
                }
                return Ok(ShellToken::Op(meant));
            }
            return self.word().map(ShellToken::Word);
        }
    }

    /// Skips a redirection, if there is one: `2>&1`, `>file`, `<<EOF`.
    fn redirection(&mut self) -> Result<bool, UnreadScript> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        spend_bytes(digits);
        let after = &rest[digits..];
        // The command that a process substitution runs does not matter.
        if digits == 0 && (after.starts_with("<(") || after.starts_with(">(")) {
            return Ok(false);
        }
        let Some(operator) = REDIRECTIONS.iter().find(|operator| after.starts_with(**operator)) else {
            return Ok(false);
        };
        if digits > 0 && operator.starts_with('&') {
            return Ok(false);
        }
        if is_placeholder_at(after) {
            return Ok(false);
        }
        self.at += digits + operator.len();
        self.skip_blanks();
        if self.rest().is_empty() || self.rest().starts_with(['\n', ';', '&', '|', ')']) {
            return Err(UnreadScript);
        }
        let start = self.at;
        let word = self.word()?;
        if matches!(*operator, "<<" | "<<-") {
            if self.heredocs.len() == MAX_HEREDOCS {
                return Err(self.stop(Bound::Command));
            }
            let raw = &self.text[start..self.at];
            // `<<$X` does not expand.
            let end = if word.plain && !word.cut {
                word.text
            } else if raw.contains(['\'', '"', '\\']) {
                Cow::Owned(raw.replace(['\'', '"', '\\'], ""))
            } else {
                Cow::Borrowed(raw)
            };
            self.heredocs.push(Heredoc { end, tabs: *operator == "<<-" });
        }
        Ok(true)
    }

    fn skip_heredocs(&mut self) -> Result<(), UnreadScript> {
        if self.heredocs.is_empty() {
            return Ok(());
        }
        for heredoc in std::mem::take(&mut self.heredocs) {
            loop {
                let rest = self.rest();
                if rest.is_empty() {
                    // Shells read to the end, with a warning.
                    return Err(UnreadScript);
                }
                let length = memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
                let line = rest[..length].trim_end_matches(['\n', '\r']);
                let line = if heredoc.tabs { line.trim_start_matches('\t') } else { line };
                let is_end = line == heredoc.end;
                self.at += length;
                meter::spend_text(&rest[..length]);
                if is_end {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads a word, which may have several quoted parts.
    pub(super) fn word(&mut self) -> Result<Word<Piece<'t>>, UnreadScript> {
        let start = self.at;
        let mut word = Word::<Piece<'t>> { plain: true, ..Word::default() };
        let mut shape = WordShape::default();
        loop {
            let piece = self.ordinary();
            if !piece.is_empty() {
                shape.comma |= shape.brace && has_comma(&word.text, piece);
                word.add(piece);
            }
            let Some(byte) = self.peek_byte().filter(|byte| !ends_word(*byte) || *byte == b'<') else {
                break;
            };
            meter::spend(1);
            if !self.special(byte, &mut word, &mut shape)? {
                break;
            }
        }
        if self.at == start {
            return Err(UnreadScript);
        }
        word.span = start..self.at;
        // `{{ .Values.nodes }}` is filled in before a shell sees it.
        if word.plain && shape.brace && word.text.contains("{{") {
            word.text = Cow::Borrowed("\u{E001}");
            word.plain = false;
        }
        Ok(word)
    }

    /// Takes literal bytes of a word.
    fn ordinary(&mut self) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().position(|byte| !ORDINARY[usize::from(byte)]).unwrap_or(rest.len());
        spend_bytes(length);
        self.at += length;
        &rest[..length]
    }

    /// Reads what a special byte starts in a word. Returns whether the word goes on.
    fn special(
        &mut self,
        byte: u8,
        word: &mut Word<Piece<'t>>,
        shape: &mut WordShape,
    ) -> Result<bool, UnreadScript> {
        let was_plain = std::mem::replace(&mut word.plain, false);
        match byte {
            b'\\' => {
                self.at += 1;
                match self.peek_char() {
                    Some('\n') => self.at += 1,
                    Some(char) => {
                        word.push(char);
                        self.bump(char);
                    }
                    None => word.push('\\'),
                }
            }
            b'\'' => {
                self.at += 1;
                let rest = self.rest();
                let length = memchr::memchr(b'\'', rest.as_bytes()).ok_or(UnreadScript)?;
                word.add(&rest[..length]);
                self.at += length + 1;
                meter::spend_text(&rest[..length]);
            }
            b'"' => {
                self.at += 1;
                self.double_quoted(word)?;
            }
            b'$' => self.dollar(word, false)?,
            b'`' => {
                self.backticks()?;
                word.push(SPREADS);
            }
            b'<' | b'>' => {
                let rest = self.rest();
                if is_placeholder_at(rest) {
                    self.at += memchr::memchr(b'>', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
                    word.push(UNKNOWN);
                } else if rest[1..].starts_with('(') && word.text.is_empty() {
                    self.at += 2;
                    self.substitution()?;
                    word.push(UNKNOWN);
                } else {
                    word.plain = was_plain;
                    return Ok(false);
                }
            }
            b'*' | b'?' => {
                word.push(SPREADS);
                self.at += 1;
            }
            b'~' if word.text.is_empty() => {
                word.push(UNKNOWN);
                self.at += 1;
            }
            // `~`, and what a bare `{` or `[` in the word may become.
            _ => {
                word.plain = was_plain;
                shape.brace |= byte == b'{';
                shape.bracket |= byte == b'[';
                word.add(&self.rest()[..1]);
                self.at += 1;
                let is_brace = byte == b'}' && shape.comma;
                if is_brace || byte == b']' && shape.bracket && word.text.len() > 1 {
                    word.plain = false;
                    word.push(SPREADS);
                }
            }
        }
        Ok(true)
    }

    pub(super) fn double_quoted(&mut self, word: &mut Word<Piece<'t>>) -> Result<(), UnreadScript> {
        loop {
            let rest = self.rest();
            let special = |byte: u8| matches!(byte, b'"' | b'\\' | b'$' | b'`');
            let length = rest.bytes().position(special).ok_or(UnreadScript)?;
            spend_bytes(length);
            word.add(&rest[..length]);
            self.at += length;
            match rest.as_bytes()[length] {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    match self.peek_char().ok_or(UnreadScript)? {
                        '\n' => self.at += 1,
                        escaped => {
                            if !matches!(escaped, '$' | '`' | '"' | '\\') {
                                word.push('\\');
                            }
                            word.push(escaped);
                            self.bump(escaped);
                        }
                    }
                }
                b'$' => self.dollar(word, true)?,
                _ => {
                    self.backticks()?;
                    word.push(UNKNOWN);
                }
            }
        }
    }

    /// Skips one character, quoted text or expansion inside `[[ … ]]`.
    pub(super) fn skip_part(&mut self, scratch: &mut Word<Piece<'t>>) -> Result<(), UnreadScript> {
        let char = self.peek_char().ok_or(UnreadScript)?;
        match char {
            '\'' => {
                self.at += 1;
                let length = memchr::memchr(b'\'', self.rest().as_bytes()).ok_or(UnreadScript)?;
                self.at += length + 1;
            }
            '"' => {
                self.at += 1;
                self.double_quoted(scratch)?;
            }
            '$' => self.dollar(scratch, true)?,
            '`' => self.backticks()?,
            '\\' => {
                self.at += 1;
                let escaped = self.peek_char().ok_or(UnreadScript)?;
                self.bump(escaped);
            }
            _ => self.bump(char),
        }
        Ok(())
    }
}

/// The signs that a bare `{` or `[` in a word expands.
#[derive(Default)]
struct WordShape {
    brace: bool,
    comma: bool,
    bracket: bool,
}

/// Tells whether a piece, after the text of a word, has what a brace expansion needs.
fn has_comma(before: &str, piece: &str) -> bool {
    piece.contains(',') || piece.contains("..") || piece.starts_with('.') && before.ends_with('.')
}

/// Returns the length of the variable name that a text starts with.
pub(super) fn name_length(text: &str) -> usize {
    let is_name = |(at, byte): &(usize, u8)| {
        byte.is_ascii_alphabetic() || *byte == b'_' || (*at > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(is_name).count()
}

/// Tells whether a text starts with the placeholder `<NAME>`.
fn is_placeholder_at(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('<') else { return false };
    let length = inner
        .bytes()
        .take(64)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        .count();
    length > 0 && !inner.as_bytes()[0].is_ascii_digit() && inner[length..].starts_with('>')
}
