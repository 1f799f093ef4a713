//! Formats values in messages as Go does.

use std::fmt::Write as _;

/// Formats a string as `%q` does: in double quotes, with escapes.
#[must_use]
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            // Writing to a string cannot fail.
            '\0'..='\u{7f}' => _ = write!(out, "\\x{:02x}", c as u32),
            _ if is_printed(c) => out.push(c),
            '\u{80}'..='\u{ffff}' => _ = write!(out, "\\u{:04x}", c as u32),
            _ => _ = write!(out, "\\U{:08x}", c as u32),
        }
    }
    out.push('"');
    out
}

/// Tells whether Go prints a character without an escape: letters, marks, numbers, punctuation, symbols and
/// space.
fn is_printed(c: char) -> bool {
    !(c.is_control()
        || c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quotes_like_go() {
        assert_eq!(quoted("a\"b\\c\n\u{1}\u{7f}é\u{a0}😀"), r#""a\"b\\c\n\x01\x7fé\u00a0😀""#);
    }
}
