//! Words and operators of a script.

use super::{SPREADS, UNKNOWN, Word};
use crate::text::meter;
use crate::text::shell::parse::{Parser, Unread};

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
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

/// Characters that end a word.
const META: [char; 10] = [' ', '\t', '\n', '\r', ';', '&', '|', '(', ')', '<'];

/// A here-document whose text has not come yet.
#[derive(Debug)]
pub(super) struct Heredoc {
    end: String,
    tabs: bool,
}

impl<'t> Parser<'t, '_> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self, char: char) {
        self.at += char.len_utf8();
    }

    /// Skips blanks, comments, and new lines behind a backslash.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            if let Some(more) = rest.strip_prefix("\\\n").or_else(|| rest.strip_prefix("\\\r\n")) {
                self.at = self.text.len() - more.len();
            } else if rest.starts_with([' ', '\t', '\r']) {
                self.at += 1;
            } else if rest.starts_with('#') {
                self.at += memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            } else {
                return;
            }
            meter::spend(1);
        }
    }

    /// Reads the next token, without redirections.
    pub(super) fn lex(&mut self) -> Result<Token, Unread> {
        loop {
            meter::spend(1);
            self.skip_blanks();
            if self.rest().is_empty() {
                return if self.heredocs.is_empty() { Ok(Token::End) } else { Err(Unread) };
            }
            if self.redirection()? {
                continue;
            }
            for (text, meant) in OPERATORS {
                if self.rest().starts_with(text) {
                    self.at += text.len();
                    if meant == "\n" {
                        self.skip_heredocs()?;
                        return Ok(Token::NewLine);
                    }
                    return Ok(Token::Op(meant));
                }
            }
            return self.word().map(Token::Word);
        }
    }

    /// Skips a redirection, if one comes: `2>&1`, `>file`, `<<EOF`.
    fn redirection(&mut self) -> Result<bool, Unread> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
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
            return Err(Unread);
        }
        let start = self.at;
        let word = self.word()?;
        if matches!(*operator, "<<" | "<<-") {
            let raw = &self.text[start..self.at];
            // `<<$X` does not expand.
            let end = if word.plain { word.text } else { raw.replace(['\'', '"', '\\'], "") };
            self.heredocs.push(Heredoc { end, tabs: *operator == "<<-" });
        }
        Ok(true)
    }

    fn skip_heredocs(&mut self) -> Result<(), Unread> {
        for heredoc in std::mem::take(&mut self.heredocs) {
            loop {
                let rest = self.rest();
                if rest.is_empty() {
                    // Shells read to the end, with a warning.
                    return Err(Unread);
                }
                let length = memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
                let line = rest[..length].trim_end_matches(['\n', '\r']);
                let line = if heredoc.tabs { line.trim_start_matches('\t') } else { line };
                let is_end = line == heredoc.end;
                self.at += length;
                meter::spend(1);
                if is_end {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads a word, which may be of several quoted parts.
    pub(super) fn word(&mut self) -> Result<Word, Unread> {
        let start = self.at;
        let mut word = Word { plain: true, ..Word::default() };
        // What a bare `{` or `[` in the word may become.
        let (mut brace, mut comma, mut bracket) = (false, false, false);
        while let Some(char) = self.peek_char() {
            meter::spend(1);
            match char {
                '\\' => {
                    word.plain = false;
                    self.at += 1;
                    match self.peek_char() {
                        Some('\n') => self.at += 1,
                        Some(char) => {
                            word.text.push(char);
                            self.bump(char);
                        }
                        None => word.text.push('\\'),
                    }
                }
                '\'' => {
                    word.plain = false;
                    self.at += 1;
                    let length = memchr::memchr(b'\'', self.rest().as_bytes()).ok_or(Unread)?;
                    let at = self.at;
                    word.text.push_str(&self.text[at..at + length]);
                    self.at += length + 1;
                    meter::spend_text(&self.text[at..at + length]);
                }
                '"' => {
                    word.plain = false;
                    self.at += 1;
                    self.double_quoted(&mut word)?;
                }
                '$' => {
                    word.plain = false;
                    self.dollar(&mut word, false)?;
                }
                '`' => {
                    word.plain = false;
                    self.backticks()?;
                    word.text.push(SPREADS);
                }
                '<' | '>' => {
                    let rest = self.rest();
                    if is_placeholder_at(rest) {
                        self.at += memchr::memchr(b'>', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
                        word.text.push(UNKNOWN);
                    } else if rest[1..].starts_with('(') && word.text.is_empty() {
                        self.at += 2;
                        self.substitution()?;
                        word.text.push(UNKNOWN);
                    } else {
                        break;
                    }
                    word.plain = false;
                }
                _ if META.contains(&char) => break,
                '*' | '?' => {
                    word.plain = false;
                    word.text.push(SPREADS);
                    self.at += 1;
                }
                '~' if word.text.is_empty() => {
                    word.plain = false;
                    word.text.push(UNKNOWN);
                    self.at += 1;
                }
                _ => {
                    brace |= char == '{';
                    bracket |= char == '[';
                    comma |= brace && (char == ',' || (char == '.' && word.text.ends_with('.')));
                    word.text.push(char);
                    self.bump(char);
                    if (char == '}' && comma) || (char == ']' && bracket && word.text.len() > 1) {
                        word.plain = false;
                        word.text.push(SPREADS);
                    }
                }
            }
        }
        if self.at == start {
            return Err(Unread);
        }
        word.span = start..self.at;
        // `{{ .Values.nodes }}` is filled in before a shell sees it.
        if word.plain && word.text.contains("{{") {
            word.text = SPREADS.to_string();
            word.plain = false;
        }
        Ok(word)
    }

    pub(super) fn double_quoted(&mut self, word: &mut Word) -> Result<(), Unread> {
        while let Some(char) = self.peek_char() {
            meter::spend(1);
            match char {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    self.at += 1;
                    match self.peek_char().ok_or(Unread)? {
                        '\n' => self.at += 1,
                        escaped => {
                            if !matches!(escaped, '$' | '`' | '"' | '\\') {
                                word.text.push('\\');
                            }
                            word.text.push(escaped);
                            self.bump(escaped);
                        }
                    }
                }
                '$' => self.dollar(word, true)?,
                '`' => {
                    self.backticks()?;
                    word.text.push(UNKNOWN);
                }
                _ => {
                    word.text.push(char);
                    self.bump(char);
                }
            }
        }
        Err(Unread)
    }

    /// Skips one character, or what a quote or expansion starts, inside `[[ … ]]`.
    pub(super) fn skip_part(&mut self, scratch: &mut Word) -> Result<(), Unread> {
        let char = self.peek_char().ok_or(Unread)?;
        match char {
            '\'' => {
                self.at += 1;
                let length = memchr::memchr(b'\'', self.rest().as_bytes()).ok_or(Unread)?;
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
                let escaped = self.peek_char().ok_or(Unread)?;
                self.bump(escaped);
            }
            _ => self.bump(char),
        }
        Ok(())
    }
}

/// Returns the length of the variable name that a text starts with.
pub(super) fn name_length(text: &str) -> usize {
    let is_name = |(at, byte): &(usize, u8)| {
        byte.is_ascii_alphabetic() || *byte == b'_' || (*at > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(is_name).count()
}

/// Tells whether a text starts with `<NAME>`, which somebody is to replace.
fn is_placeholder_at(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('<') else { return false };
    let length = inner
        .bytes()
        .take(64)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        .count();
    length > 0 && !inner.as_bytes()[0].is_ascii_digit() && inner[length..].starts_with('>')
}
