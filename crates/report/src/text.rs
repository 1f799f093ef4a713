//! Cleans text from manifests for display: nothing in it may control a terminal, hide from its reader, or be a command
//! of the CI runner that prints it.
//!
//! GitHub interprets what follows `::` at the start of a line as a command, and what follows `##[` anywhere in it;
//! Azure and TeamCity have a word between `##` and `[`. Lines may be wrapped before any word, so each word counts.

use std::borrow::Cow;
use std::fmt::Write as _;

pub use jobgate_core::text::number::plural;
pub(super) use jobgate_core::text::number::thousands;

/// Returns the text with all characters made visible that a terminal would interpret, hide or reorder.
///
/// Control characters become pictures (`␛`), others their number (`<U+200B>`). What a CI runner would interpret as a
/// command is broken by a space.
pub fn clean(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        || !text.chars().any(|char| char == '\t' || is_hidden(char));
    if is_plain && !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    clean_into(&mut out, text);
    Cow::Owned(out.replace('\t', " "))
}

/// Returns a text of several lines with each of them cleaned. Tabs stay, and the two kinds of line breaks.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix("\r\n") {
            Some(line) => (line, "\r\n"),
            None => line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n")),
        };
        clean_into(&mut out, line);
        out.push_str(end);
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// Tells whether a character would complete the start of a runner's command.
fn completes_command(out: &str, char: char) -> bool {
    match char {
        ':' => out
            .strip_suffix(':')
            .is_some_and(|before| before.chars().next_back().is_none_or(char::is_whitespace)),
        '[' => out
            .trim_end_matches(|char: char| char.is_ascii_alphanumeric() || "-_.".contains(char))
            .ends_with("##"),
        _ => false,
    }
}

/// Appends the text, cleaned, to `out`. Tabs stay.
pub(super) fn clean_into(out: &mut String, text: &str) {
    for char in text.chars() {
        match char {
            ':' | '[' if completes_command(out, char) => out.extend([' ', char]),
            '\t' => out.push(char),
            '\0'..='\u{1F}' => {
                out.push(char::from_u32(0x2400 + u32::from(char)).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            '\u{7F}' => out.push('␡'),
            _ if is_hidden(char) => {
                let _ = write!(out, "<U+{:04X}>", u32::from(char));
            }
            _ => out.push(char),
        }
    }
}

/// Tells whether a character is not printed as it is.
fn is_hidden(char: char) -> bool {
    matches!(char,
        '\0'..='\u{8}' | '\n'..='\u{1F}' | '\u{7F}'..='\u{9F}'
        // Soft hyphen, grapheme joiner, Arabic and Mongolian marks.
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{180B}'..='\u{180F}'
        // Zero-width and directional characters, line and paragraph separators, invisible operators.
        | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{FFFE}' | '\u{FFFF}'
        // Private use, musical format characters, tags, and private use again.
        | '\u{E000}'..='\u{F8FF}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{10FFFF}')
}

/// Breaks text at spaces into lines of at most `width` characters, of which `used` are taken in the first line.
/// A longer word has a line of its own.
pub(super) fn wrap(text: &str, width: usize, used: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = used;
    for word in text.split(' ') {
        let length = word.chars().count();
        let space = usize::from(!out.is_empty());
        if !out.is_empty() && column + space + length > width {
            out.push('\n');
            column = 0;
        } else if space > 0 {
            out.push(' ');
            column += space;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// Returns a path relative to the root of a repository: without a leading `./`.
pub(super) fn repository_path(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix("./") {
        path = rest.trim_start_matches('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("one two three", 7, 0), "one two\nthree");
        assert_eq!(wrap("one two three", 7, 1), "one\ntwo\nthree");
        assert_eq!(wrap("one two three", 13, 0), "one two three");
        assert_eq!(wrap("a-long-word and more", 4, 9), "a-long-word\nand\nmore");
        assert_eq!(wrap("漢字 漢字", 4, 0), "漢字\n漢字");
        assert_eq!(wrap("", 4, 0), "");
    }

    #[test]
    fn nothing_in_a_text_steers_the_terminal() {
        assert_eq!(clean("plain `text`, naïve 漢字 🚀"), "plain `text`, naïve 漢字 🚀");
        assert_eq!(clean("\u{1b}[31mred\u{9b}0m\u{7f}"), "␛[31mred<U+009B>0m␡");
        assert_eq!(clean("a\r\nb\tc\0"), "a␍␊b c␀");
        assert_eq!(clean("ad\u{202E}min\u{200B}\u{FEFF}\u{2028}"), "ad<U+202E>min<U+200B><U+FEFF><U+2028>");
        assert_eq!(clean("\u{E0041}"), "<U+E0041>");
    }

    #[test]
    fn nothing_in_a_text_is_a_command_of_a_runner() {
        for (text, cleaned) in [
            ("::error::x", ": :error::x"),
            ("a ::error::x", "a : :error::x"),
            ("  ::: x", "  : : : x"),
            ("\t::x", " : :x"),
            ("a::b ::", "a::b : :"),
            ("##[stop-commands]x", "## [stop-commands]x"),
            ("a##[b", "a## [b"),
            ("###[b", "### [b"),
            ("##vso[task.setvariable]x", "##vso [task.setvariable]x"),
            ("##[[a", "## [[a"),
            ("# [a] ## b [c]", "# [a] ## b [c]"),
            ("spec.a[0]::b", "spec.a[0]::b"),
        ] {
            assert_eq!(clean(text), cleaned, "{text}");
            assert_eq!(clean(cleaned), cleaned, "{text}");
        }
        // Wherever a text is taken apart.
        for text in ["x ##vso[a", " ::a"] {
            for at in 0..text.len() {
                let mut out = String::new();
                clean_into(&mut out, &text[..at]);
                clean_into(&mut out, &text[at..]);
                assert!(!out.contains("##vso[") && !out.contains("::"), "{out}");
            }
        }
        assert_eq!(clean_lines("a\r\n ::b\n\tc\u{1b}\n##[d"), "a\r\n : :b\n\tc␛\n## [d");
        // A run of what may be a word is looked at once for each bracket.
        let long = "##".to_owned() + &"a".repeat(1 << 20) + &"[".repeat(1 << 20);
        assert_eq!(clean(&long).len(), long.len() + 1);
    }

    #[test]
    fn paths_start_at_the_repository() {
        assert_eq!(repository_path("./a/b.yaml"), "a/b.yaml");
        assert_eq!(repository_path(".//a.yaml"), "a.yaml");
        assert_eq!(repository_path("../a.yaml"), "../a.yaml");
        assert_eq!(repository_path("/a.yaml"), "/a.yaml");
    }
}
