//! Parses JSON into the same tree as YAML, as Go's decoder does: no comments, no trailing commas, the last of
//! equal keys counts.

use std::ops::Range;

use super::tree::{NodeKind, Style, SyntaxTree, TreeBuilder};
use crate::meter;
use crate::yaml::error::SyntaxError;
use crate::yaml::limits::Limits;

/// Returns the length of the JSON value at the start of `source`, valid or not.
///
/// A value with unclosed brackets ends before the next line that starts with `{`, so that later objects of
/// the stream are read.
pub(super) fn skim(source: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = source.get(at) {
        match byte {
            b'"' => {
                at += 1 + string_len(&source[at + 1..]).unwrap_or(source.len() - at - 1);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    memchr::memmem::find(source, b"\n{").map_or(source.len(), |offset| offset + 1)
}

/// Returns the length of the rest of a string, with its closing quote; nothing if it is not closed.
fn string_len(source: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(offset) = memchr::memchr2(b'"', b'\\', source.get(at..)?) {
        at += offset + 1;
        if source[at - 1] == b'"' {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Checks that a range of the source is JSON; spans of errors are bytes of the source.
pub(super) fn check(source: &[u8], span: Range<usize>, limits: &Limits) -> Result<(), SyntaxError> {
    let text = str::from_utf8(&source[span.clone()])
        .map_err(|error| SyntaxError::not_utf8(span.start + error.valid_up_to()))?;
    read(text, limits).map(|_| ()).map_err(|error| error.shifted(span.start))
}

/// Reads one JSON value.
pub(super) fn read(source: &str, limits: &Limits) -> Result<SyntaxTree, SyntaxError> {
    let mut reader =
        JsonReader { bytes: source.as_bytes(), source, at: 0, builder: TreeBuilder::new(source, limits) };
    reader.document()?;
    Ok(reader.builder.finish())
}

struct JsonReader<'t> {
    source: &'t str,
    bytes: &'t [u8],
    at: usize,
    builder: TreeBuilder<'t>,
}

impl JsonReader<'_> {
    fn document(&mut self) -> Result<(), SyntaxError> {
        // The expected closing brackets.
        let mut open: Vec<u8> = Vec::new();
        loop {
            self.blank();
            let opened = self.value(&mut open)?;
            let mut first = opened;
            loop {
                self.blank();
                let Some(close) = open.last().copied() else {
                    return if self.at == self.bytes.len() {
                        Ok(())
                    } else {
                        Err(self.error("unexpected text after the end of the JSON value"))
                    };
                };
                match self.bytes.get(self.at) {
                    Some(byte) if *byte == close => {
                        self.at += 1;
                        self.builder.close(self.at as u32);
                        open.pop();
                        first = false;
                        continue;
                    }
                    Some(b',') if !first => {
                        self.at += 1;
                        self.blank();
                    }
                    _ if first => {}
                    None => return Err(self.error("the JSON value ends too early")),
                    Some(_) if close == b'}' => return Err(self.error("expected `,` or `}`")),
                    Some(_) => return Err(self.error("expected `,` or `]`")),
                }
                if close == b'}' {
                    self.key()?;
                }
                break;
            }
        }
    }

    fn blank(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.error("expected a key in double quotes"));
        }
        self.string()?;
        self.blank();
        if self.bytes.get(self.at) != Some(&b':') {
            return Err(self.error("expected `:`"));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a scalar or an opening bracket; returns whether it was a bracket.
    fn value(&mut self, open: &mut Vec<u8>) -> Result<bool, SyntaxError> {
        meter::spend(1);
        let start = self.at;
        match self.bytes.get(start) {
            Some(b'{') => {
                self.builder.open(NodeKind::Mapping, Style::Flow, start as u32)?;
                open.push(b'}');
                self.at += 1;
                Ok(true)
            }
            Some(b'[') => {
                self.builder.open(NodeKind::Sequence, Style::Flow, start as u32)?;
                open.push(b']');
                self.at += 1;
                Ok(true)
            }
            Some(b'"') => self.string().map(|()| false),
            Some(_) => {
                let len = self.bytes[start..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
                    .count();
                let word = &self.source[start..start + len];
                if !(matches!(word, "true" | "false" | "null") || is_number(word.as_bytes())) {
                    return Err(self.error("expected a JSON value"));
                }
                self.at += len;
                self.builder.scalar(Style::Plain, start as u32..self.at as u32, word)?;
                Ok(false)
            }
            None => Err(self.error("the JSON value ends too early")),
        }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let Some(len) = string_len(&self.bytes[start + 1..]) else {
            return Err(self.error("the quote is never closed"));
        };
        let end = start + 1 + len;
        let inner = &self.source[start + 1..end - 1];
        if let Some(control) = inner.bytes().position(|byte| byte < 0x20) {
            self.at = start + 1 + control;
            return Err(self.error("line break or control character inside a JSON string"));
        }
        self.at = end;
        let span = start as u32..end as u32;
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            self.builder.scalar(Style::Double, span, inner)?;
        } else {
            let text = unescape(inner).map_err(|at| {
                self.at = start + 1 + at;
                self.error("unknown escape")
            })?;
            self.builder.scalar(Style::Double, span, &text)?;
        }
        Ok(())
    }

    fn error(&self, message: &str) -> SyntaxError {
        let len = self.source[self.at..].chars().next().map_or(0, char::len_utf8);
        SyntaxError::syntax(message, self.at..self.at + len)
    }
}

/// Tells whether a word is a JSON number.
pub(super) fn is_number(word: &[u8]) -> bool {
    fn digits(word: &[u8]) -> (usize, &[u8]) {
        let count = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count, &word[count..])
    }
    let rest = word.strip_prefix(b"-").unwrap_or(word);
    let (count, mut rest_of) = digits(rest);
    if count == 0 || (count > 1 && rest[0] == b'0') {
        return false;
    }
    if let Some(fraction) = rest_of.strip_prefix(b".") {
        let (count, after) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest_of = after;
    }
    if let [b'e' | b'E', exponent @ ..] = rest_of {
        let exponent =
            exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let (count, after) = digits(exponent);
        return count > 0 && after.is_empty();
    }
    rest_of.is_empty()
}

/// Resolves the escapes of a string; halves of surrogate pairs become U+FFFD, as in Go. Fails with the offset
/// of an unknown escape.
fn unescape(text: &str) -> Result<String, usize> {
    let bytes = text.as_bytes();
    let hex = |at: usize| -> Option<u32> {
        let digits = bytes.get(at..at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..]) {
        out.push_str(&text[at..at + step]);
        at += step;
        let plain = match bytes.get(at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = hex(at + 2).ok_or(at)?;
                at += 6;
                let low = if (0xD800..0xDC00).contains(&high) && bytes.get(at..at + 2) == Some(b"\\u") {
                    hex(at + 2)
                } else {
                    None
                };
                match low {
                    Some(low @ 0xDC00..0xE000) => {
                        at += 6;
                        out.push(
                            char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                                .unwrap_or(char::REPLACEMENT_CHARACTER),
                        );
                    }
                    _ => out.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
                continue;
            }
            _ => return Err(at),
        };
        out.push(plain);
        at += 2;
    }
    out.push_str(&text[at..]);
    Ok(out)
}
