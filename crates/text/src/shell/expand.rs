//! Expansions: what a `$` or a backtick starts.

use std::borrow::Cow;

use super::lex::{name_length, spend_bytes};
use super::parse::{Parser, UnreadScript};
use super::variables::MAX_VALUE_BYTES;
use super::word::{Piece, SPREADS, UNKNOWN, Word};
use crate::meter;

/// The end of a line that goes on.
const CONTINUATION: &str = "\\\n";

/// Tells whether a variable's value is one word without quotes.
fn is_one_word(value: &str) -> bool {
    let bytes = value.as_bytes();
    !value.is_empty()
        && memchr::memchr3(b' ', b'\t', b'\n', bytes).is_none()
        && memchr::memchr3(b'*', b'?', b'[', bytes).is_none()
}

impl<'t> Parser<'t, '_, '_> {
    /// Reads what a `$` starts.
    pub(super) fn dollar(&mut self, word: &mut Word<Piece<'t>>, quoted: bool) -> Result<(), UnreadScript> {
        self.at += 1;
        let unknown = if quoted { UNKNOWN } else { SPREADS };
        let rest = self.rest();
        let Some(next) = rest.chars().next() else {
            word.push('$');
            return Ok(());
        };
        match next {
            '(' if rest.starts_with("((") => {
                self.at += 2;
                self.arithmetic()?;
                word.push(UNKNOWN);
            }
            '(' => {
                self.at += 1;
                self.substitution()?;
                word.push(unknown);
            }
            '{' => {
                self.at += 1;
                self.braced(word, quoted)?;
            }
            '\'' if !quoted => {
                self.at += 1;
                // `$'…'` ends at the first quote without a backslash.
                loop {
                    match self.peek_char().ok_or(UnreadScript)? {
                        '\'' => break self.at += 1,
                        '\\' => {
                            self.at += 1;
                            let escaped = self.peek_char().ok_or(UnreadScript)?;
                            self.bump(escaped);
                        }
                        char => self.bump(char),
                    }
                    meter::spend(1);
                }
                word.push(UNKNOWN);
            }
            '"' if !quoted => {
                self.at += 1;
                self.double_quoted(word)?;
            }
            'A'..='Z' | 'a'..='z' | '_' => {
                let name = self.name();
                expand(word, self.variables.get(&name), quoted);
            }
            '0'..='9' | '@' | '*' | '#' | '?' | '$' | '!' | '-' => {
                self.at += 1;
                word.push(if matches!(next, '@') { SPREADS } else { unknown });
            }
            _ => word.push('$'),
        }
        Ok(())
    }

    /// Reads the name of a variable. The end of a line that goes on is none of a name: it is gone before names are read.
    fn name(&mut self) -> Cow<'t, str> {
        let rest = self.rest();
        let length = name_length(rest);
        self.at += length;
        let mut name = Cow::Borrowed(&rest[..length]);
        loop {
            let rest = self.rest();
            let next = rest.trim_start_matches(CONTINUATION);
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let length = next.bytes().take_while(is_name).count();
            if next.len() == rest.len() || length == 0 {
                return name;
            }
            name.to_mut().push_str(&next[..length]);
            let read = rest.len() - next.len() + length;
            spend_bytes(read);
            self.at += read;
        }
    }

    /// Reads `${…}` after the brace.
    fn braced(&mut self, word: &mut Word<Piece<'t>>, quoted: bool) -> Result<(), UnreadScript> {
        let rest = self.rest();
        let length = name_length(rest);
        if length > 0 && rest[length..].starts_with('}') {
            self.at += length + 1;
            expand(word, self.variables.get(&rest[..length]), quoted);
            return Ok(());
        }
        let (name, operator) = rest.split_at(length);
        let assigns = operator.starts_with(":=") || operator.starts_with('=');
        // With a known value, `${X:-y}` and `${X-y}` are that value; `:` requires that it is not empty.
        let or_else = operator.starts_with('-') || operator.starts_with(":-") || operator.starts_with(":?");
        let known = self.variables.get(name).filter(|value| or_else && !value.is_empty()).map(str::to_owned);
        self.skip_braced()?;
        if assigns {
            self.variables.set(name, None);
        }
        match known {
            Some(value) => expand(word, Some(&value), quoted),
            // `${X[@]}` is several words even in quotes.
            None => {
                word.push(if quoted && !self.text[..self.at].ends_with("[@]}") { UNKNOWN } else { SPREADS });
            }
        }
        Ok(())
    }

    /// Skips past the brace that ends an expansion.
    fn skip_braced(&mut self) -> Result<(), UnreadScript> {
        let mut depth = 1;
        let mut in_quotes = false;
        while let Some(char) = self.peek_char() {
            meter::spend(1);
            self.bump(char);
            match char {
                '\\' => {
                    let escaped = self.peek_char().ok_or(UnreadScript)?;
                    self.bump(escaped);
                }
                '"' => in_quotes = !in_quotes,
                '\'' if !in_quotes => {
                    let length = memchr::memchr(b'\'', self.rest().as_bytes()).ok_or(UnreadScript)?;
                    self.at += length + 1;
                }
                '`' => {
                    self.at -= 1;
                    self.backticks()?;
                }
                '$' if self.rest().starts_with('{') => {
                    self.at += 1;
                    depth += 1;
                }
                '$' if self.rest().starts_with('(') => {
                    self.at += 1;
                    self.substitution()?;
                }
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(UnreadScript)
    }

    /// Skips past the `))` of an arithmetic expression.
    pub(super) fn arithmetic(&mut self) -> Result<(), UnreadScript> {
        let mut depth = 0;
        while let Some(char) = self.peek_char() {
            meter::spend(1);
            match char {
                '(' => depth += 1,
                ')' if depth == 0 => {
                    let rest = self.rest();
                    let behind = rest.strip_prefix("))").ok_or(UnreadScript)?;
                    self.at = self.text.len() - behind.len();
                    return Ok(());
                }
                ')' => depth -= 1,
                '\'' | '"' => return Err(UnreadScript),
                _ => {}
            }
            self.bump(char);
        }
        Err(UnreadScript)
    }

    pub(super) fn backticks(&mut self) -> Result<(), UnreadScript> {
        self.at += 1;
        loop {
            let char = self.peek_char().ok_or(UnreadScript)?;
            self.bump(char);
            meter::spend(1);
            match char {
                '`' => return Ok(()),
                '\\' => {
                    let escaped = self.peek_char().ok_or(UnreadScript)?;
                    self.bump(escaped);
                }
                _ => {}
            }
        }
    }
}

/// Puts a variable's value into a word.
fn expand(word: &mut Word<Piece<'_>>, value: Option<&str>, quoted: bool) {
    let unknown = if quoted { UNKNOWN } else { SPREADS };
    let Some(value) = value else { return word.push(unknown) };
    // A value that grows by itself (`X=$X$X`) would take more room than the script.
    if word.text.len() + value.len() > MAX_VALUE_BYTES {
        return word.push(SPREADS);
    }
    meter::spend(1 + (value.len() / VALUE_BYTES_PER_STEP) as u64);
    // Without quotes, an empty value makes no word, and blanks make several.
    if quoted || is_one_word(value) {
        word.add_value(value);
    } else {
        word.push(unknown);
    }
}

/// Bytes of a value that are copied in one step.
const VALUE_BYTES_PER_STEP: usize = 256;
