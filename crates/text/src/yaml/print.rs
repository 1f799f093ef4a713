//! Prints values as YAML or JSON, in the style of the surrounding text.

use super::resolve::{self, Scalar, is_word};
use super::tree::{Style, Tag};
use crate::value::{Map, Value};

/// The style of the surrounding text.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrintStyle {
    /// The line break.
    pub(super) newline: &'static str,
    /// Spaces per level.
    pub(super) step: usize,
    /// Whether a list below a key is indented further than the key.
    pub(super) indented_lists: bool,
    /// The quotes of keys.
    pub(super) key_quote: Option<char>,
    /// The quotes of strings that do not need any.
    pub(super) quote: Option<char>,
    /// The text between a key and its value, in brackets.
    pub(super) colon: &'static str,
    /// The text between two items on one line, in brackets.
    pub(super) comma: &'static str,
    /// Whether names come first in a mapping, as people write them; other keys are sorted.
    pub(super) names_first: bool,
}

/// The keys that people write first in list items: those that identify an item, and the fields of a
/// toleration.
const FIRST: [&str; 4] = ["name", "key", "operator", "value"];

/// Tells whether a value is printed on the line of its key.
pub(super) fn is_inline(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => true,
    }
}

impl PrintStyle {
    /// The style of kubectl.
    pub(super) const PLAIN: Self = Self {
        newline: "\n",
        step: 2,
        indented_lists: false,
        key_quote: None,
        quote: None,
        colon: ": ",
        comma: ", ",
        names_first: false,
    };

    /// Returns the entries of a mapping in the order in which they are printed.
    fn entries<'m>(&self, map: &'m Map) -> impl Iterator<Item = (&'m str, &'m Value)> {
        let first = if self.names_first { &FIRST[..] } else { &[] };
        let leads = first.iter().filter_map(|key| map.get_key_value(key));
        leads.chain(map.iter().filter(|(key, _)| !first.contains(key)))
    }

    /// Prints a key.
    pub(super) fn key(&self, key: &str, flow: bool) -> String {
        quoted(key, self.key_quote, flow)
    }

    /// Prints a value on one line, with containers in brackets.
    pub(super) fn inline(&self, value: &Value, flow: bool) -> String {
        match value {
            Value::String(text) => quoted(text, self.quote, flow),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.inline(item, true)).collect();
                format!("[{}]", items.join(self.comma))
            }
            Value::Object(map) => {
                let entries: Vec<String> =
                    self.entries(map).map(|(key, value)| self.entry(key, value)).collect();
                format!("{{{}}}", entries.join(self.comma))
            }
            scalar => scalar.to_string(),
        }
    }

    /// Prints a key and its value, on one line in brackets.
    pub(super) fn entry(&self, key: &str, value: &Value) -> String {
        format!("{}{}{}", self.key(key, true), self.colon, self.inline(value, true))
    }

    /// Prints a value in brackets on several lines; all but the first are indented by `indent`.
    pub(super) fn spread(&self, value: &Value, indent: &str, step: &str) -> String {
        let deeper = format!("{indent}{step}");
        let join = |parts: Vec<String>| parts.join(&format!(",{}{deeper}", self.newline));
        let newline = self.newline;
        match value {
            Value::Array(items) if !items.is_empty() => {
                let items = join(items.iter().map(|item| self.spread(item, &deeper, step)).collect());
                format!("[{newline}{deeper}{items}{newline}{indent}]")
            }
            Value::Object(map) if !map.is_empty() => {
                let entry = |(key, value): (&str, &Value)| {
                    format!("{}{}{}", self.key(key, true), self.colon, self.spread(value, &deeper, step))
                };
                let entries = join(self.entries(map).map(entry).collect());
                format!("{{{newline}{deeper}{entries}{newline}{indent}}}")
            }
            _ => self.inline(value, true),
        }
    }

    /// Prints a value as a block whose first line, which is not indented, goes to column `column`, from 0.
    pub(super) fn block(&self, value: &Value, column: usize) -> String {
        let mut out = String::new();
        self.push_block(value, column, &mut out);
        out
    }

    fn push_block(&self, value: &Value, column: usize, out: &mut String) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (nth, (key, value)) in self.entries(map).enumerate() {
                    if nth > 0 {
                        self.push_line(column, out);
                    }
                    self.push_block_entry(key, value, column, out);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (nth, item) in items.iter().enumerate() {
                    if nth > 0 {
                        self.push_line(column, out);
                    }
                    out.push_str("- ");
                    self.push_block(item, column + 2, out);
                }
            }
            _ => self.push_inline(value, out),
        }
    }

    /// Prints a key in column `column`, and its value, as a block.
    pub(super) fn block_entry(&self, key: &str, value: &Value, column: usize) -> String {
        let mut out = String::new();
        self.push_block_entry(key, value, column, &mut out);
        out
    }

    fn push_block_entry(&self, key: &str, value: &Value, column: usize, out: &mut String) {
        push_quoted(key, self.key_quote, false, out);
        out.push(':');
        self.push_behind_colon(value, column, out);
    }

    /// Prints what follows the colon of a key in column `column`.
    pub(super) fn behind_colon(&self, value: &Value, column: usize) -> String {
        let mut out = String::new();
        self.push_behind_colon(value, column, &mut out);
        out
    }

    fn push_behind_colon(&self, value: &Value, column: usize, out: &mut String) {
        if let Value::String(text) = value
            && is_literal(text)
        {
            out.push_str(" |-");
            for line in text.split('\n') {
                // Editors remove the indentation of empty lines.
                self.push_line(if line.is_empty() { 0 } else { column + self.step }, out);
                out.push_str(line);
            }
        } else if is_inline(value) {
            out.push(' ');
            self.push_inline(value, out);
        } else {
            let column = self.below(value, column);
            self.push_line(column, out);
            self.push_block(value, column, out);
        }
    }

    fn push_inline(&self, value: &Value, out: &mut String) {
        match value {
            Value::String(text) => push_quoted(text, self.quote, false, out),
            other => out.push_str(&self.inline(other, false)),
        }
    }

    /// Returns the column of a container below a key.
    pub(super) fn below(&self, value: &Value, column: usize) -> usize {
        if value.is_array() && !self.indented_lists { column } else { column + self.step }
    }

    /// Returns a line break and the indentation of the next line.
    pub(super) fn line(&self, column: usize) -> String {
        let mut line = String::with_capacity(self.newline.len() + column);
        self.push_line(column, &mut line);
        line
    }

    fn push_line(&self, column: usize, out: &mut String) {
        out.push_str(self.newline);
        out.extend(std::iter::repeat_n(' ', column));
    }
}

/// Prints text in the given quotes, or without quotes if none are given and none needed.
fn quoted(text: &str, quote: Option<char>, flow: bool) -> String {
    let mut out = String::new();
    push_quoted(text, quote, flow, &mut out);
    out
}

fn push_quoted(text: &str, quote: Option<char>, flow: bool, out: &mut String) {
    match quote {
        None if is_plain(text, flow) => out.push_str(text),
        Some('\'') if text.chars().all(is_printable) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        _ => out.push_str(&double(text)),
    }
}

/// Tells whether text without quotes parses as the same text. If unsure, returns false.
fn is_plain(text: &str, flow: bool) -> bool {
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return false };
    // Nearly all keys and many values are words.
    if is_word(text)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
    {
        return true;
    }
    let starts = match first {
        b'-' => bytes.get(1).is_some_and(u8::is_ascii_alphanumeric),
        b'?' | b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\''
        | b'"' | b'%' | b'@' | b'`' | b'=' | b'<' => false,
        _ => true,
    };
    starts
        && !text.starts_with(' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("...")
        && text.chars().all(is_printable)
        && !(flow && text.contains([',', '[', ']', '{', '}', ':', '#', '?']))
        && resolve::scalar(text, Style::Plain, Tag::None) == Ok(Scalar::Text(text.into()))
        // Numbers in other versions of YAML, such as sexagesimal ones.
        && !(first.is_ascii_digit() && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-' | b'_' | b'+' | b'e' | b'E')))
}

/// Tells whether text has several lines and parses as the same text from a literal block (`|-`).
fn is_literal(text: &str) -> bool {
    let edges = |text: &str| text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
    text.contains('\n')
        && !edges(text)
        && text.split('\n').all(|line| !line.ends_with(' ') && line.chars().all(is_printable))
}

/// Tells whether a character is allowed in plain and single-quoted text on one line.
fn is_printable(char: char) -> bool {
    !char.is_control() && !matches!(char, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Prints text in double quotes, with escapes that both JSON and Go's YAML decoder support.
fn double(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if is_printable(char) => out.push(char),
            // All characters that are not printable have four digits.
            char => out.push_str(&format!("\\u{:04x}", u32::from(char))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    #[test]
    fn text_of_several_lines_is_a_block_where_it_reads_back() {
        for (text, block) in [
            ("a\n  b: c # d", true),
            ("a\n\n- b", true),
            ("---\n...", true),
            ("a\n", false),
            ("\na", false),
            (" a\nb", false),
            ("a \nb", false),
            ("a\n\tb", false),
        ] {
            let value = json!({"list": [{"key": text, "other": {}}]});
            let printed = super::super::print(&value);
            assert_eq!(printed.contains("key: |-\n"), block, "{printed}");
            let read = super::super::documents(printed.as_bytes()).next().unwrap().unwrap();
            assert_eq!(read.value, value, "{printed}");
        }
    }

    #[test]
    fn quotes_what_would_mean_something_else() {
        for text in ["Failed", "nvidia.com/gpu", "a:b", "-c", "/bin/sh", "it's", "训练", "a b", "v1.2-x"] {
            assert_eq!(quoted(text, None, false), text);
        }
        for text in [
            "",
            "yes",
            "n",
            "null",
            "~",
            "1",
            "1.5",
            "0x1F",
            "1:30",
            "2024-01-01",
            "- a",
            "-",
            "a: b",
            "a #b",
            "a:",
            " a",
            "a ",
            "*x",
            "{a",
            "---",
            "<<",
            "=",
        ] {
            assert_eq!(quoted(text, None, false), format!("\"{text}\""));
        }
        assert_eq!(quoted("a, b", None, false), "a, b");
        assert_eq!(quoted("a, b", None, true), "\"a, b\"");
        assert_eq!(quoted("it's", Some('\''), false), "'it''s'");
        assert_eq!(quoted("a\n\u{7}\u{85}\"\\", Some('\''), false), "\"a\\n\\u0007\\u0085\\\"\\\\\"");
    }
}
