//! Finds the path of a place in a YAML text by indentation: it is needed while somebody types, when no parser can read
//! the text.

use std::ops::Range;

use crate::text::value::Value;

/// Maximum number of lines above a place that are searched for the keys around it.
const MAX_LINES: usize = 5000;
/// Maximum bytes of a line that is searched.
const MAX_LINE: usize = 4 << 10;

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Item,
}

/// A place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CursorPosition {
    /// The path of the value that the word is, or of the mapping that it is a key of.
    pub(super) path: Vec<PathStep>,
    /// Whether the word is a key, or may become one.
    pub(super) is_key: bool,
    /// The bytes of the word.
    pub(super) word: Range<usize>,
}

/// A line: where its dashes and its key are.
struct KeyLine<'t> {
    dashes: Vec<usize>,
    /// The column of what follows them.
    column: usize,
    key: Option<&'t str>,
}

fn read(line: &str) -> Option<KeyLine<'_>> {
    let mut rest = line;
    let mut dashes = Vec::new();
    loop {
        rest = rest.trim_start_matches(' ');
        match rest.strip_prefix('-') {
            Some(behind) if behind.is_empty() || behind.starts_with(' ') => {
                dashes.push(line.len() - rest.len());
                rest = behind;
            }
            _ => break,
        }
    }
    if (rest.is_empty() && dashes.is_empty()) || rest.starts_with('#') {
        return None;
    }
    Some(KeyLine { dashes, column: line.len() - rest.len(), key: key(rest).map(|(key, _)| key) })
}

/// Returns the key that a text starts with, without quotes, and the length up to its value.
fn key(text: &str) -> Option<(&str, usize)> {
    if text.starts_with(['{', '[', '#']) {
        return None;
    }
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    let (key, end) = match quote {
        Some(quote) => {
            let end = text[1..].find(quote)? + 1;
            (&text[1..end], end + 1)
        }
        None => {
            let ends = |(at, _): &(usize, &str)| {
                let behind = &text[at + 1..];
                behind.is_empty() || behind.starts_with(' ')
            };
            let (at, _) = text.match_indices(':').find(ends)?;
            (&text[..at], at)
        }
    };
    text[end..].starts_with(':').then_some((key, end + 1))
}

/// Returns the position of an offset.
pub(super) fn at(text: &str, offset: usize) -> CursorPosition {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[start..offset];
    let is_word = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_' | '.' | '/');
    let word_start = before
        .rfind(|char| !is_word(char))
        .map_or(start, |at| start + at + before[at..].chars().next().map_or(1, char::len_utf8));
    let behind = text[offset..].find(|char| !is_word(char)).map_or(text.len(), |at| offset + at);
    let mut at = CursorPosition { path: Vec::new(), is_key: true, word: word_start..behind };
    if before.len() > MAX_LINE {
        return at;
    }
    let mut inner = Vec::new();
    let line = read(before);
    let (dashes, column) = match &line {
        Some(line) => (line.dashes.clone(), line.column),
        None => (Vec::new(), before.len()),
    };
    if let Some((name, length)) = before.get(column..).and_then(key) {
        inner.push(PathStep::Key(name.to_owned()));
        at.is_key = flow(&before[column + length..], &mut inner);
    } else if before[column..].starts_with(['[', '{']) {
        at.is_key = flow(&before[column..], &mut inner);
    }
    // From the inside out.
    let mut outer = Vec::new();
    let (mut level, mut in_list) = (column, false);
    for dash in dashes.iter().rev() {
        outer.push(PathStep::Item);
        (level, in_list) = (*dash, true);
    }
    for line in text[..start].lines().rev().take(MAX_LINES) {
        if line.starts_with("---") || (level == 0 && !in_list) {
            break;
        }
        let Some(line) = read(line.get(..MAX_LINE).unwrap_or(line)) else { continue };
        let is_around = line.column < level || (in_list && line.column == level);
        if let Some(key) = line.key.filter(|_| is_around) {
            outer.push(PathStep::Key(key.to_owned()));
            (level, in_list) = (line.column, false);
        }
        for dash in line.dashes.iter().rev() {
            if *dash < level {
                outer.push(PathStep::Item);
                (level, in_list) = (*dash, true);
            }
        }
    }
    outer.reverse();
    outer.extend(inner);
    at.path = outer;
    at
}

/// Reads the value of a key on its own line, up to a place in it: adds the steps to that place, and returns whether it
/// is in a mapping's key.
fn flow(value: &str, steps: &mut Vec<PathStep>) -> bool {
    // For each open bracket, whether it is of a mapping, and the steps outside of it.
    let mut open: Vec<(bool, usize)> = Vec::new();
    let mut is_key = false;
    let mut rest = value;
    while let Some(first) = rest.chars().next() {
        match first {
            '{' => {
                open.push((true, steps.len()));
                is_key = true;
            }
            '[' => {
                open.push((false, steps.len()));
                steps.push(PathStep::Item);
                is_key = false;
            }
            '}' | ']' => {
                if let Some((_, outside)) = open.pop() {
                    steps.truncate(outside);
                }
                is_key = false;
            }
            ',' => {
                if let Some((is_mapping, outside)) = open.last() {
                    steps.truncate(outside + usize::from(!is_mapping));
                    is_key = *is_mapping;
                }
            }
            _ if is_key && !first.is_whitespace() => {
                let part = rest.split(['{', '[', ',', '}', ']']).next().unwrap_or_default();
                if let Some((name, length)) = key(part) {
                    steps.push(PathStep::Key(name.to_owned()));
                    is_key = false;
                    rest = &rest[length..];
                } else {
                    rest = &rest[part.len()..];
                }
                continue;
            }
            _ => {}
        }
        rest = &rest[first.len_utf8()..];
    }
    is_key
}

/// Returns the part of a JSON Schema for a place.
pub(super) fn schema_at<'s>(schema: &'s Value, path: &[PathStep]) -> Option<&'s Value> {
    path.iter().try_fold(schema, |part, step| {
        let part = followed(schema, part)?;
        match step {
            PathStep::Item => part.get("items"),
            PathStep::Key(key) => {
                let named = part.get("properties").and_then(|properties| properties.get(key.as_str()));
                named.or_else(|| part.get("additionalProperties").filter(|more| more.is_object()))
            }
        }
    })
}

/// Follows the references of a part of a schema.
pub(super) fn followed<'s>(schema: &'s Value, part: &'s Value) -> Option<&'s Value> {
    let mut part = part;
    // Our schemas have no chains of references.
    for _ in 0..4 {
        let Some(reference) = part.get("$ref").and_then(Value::as_str) else { return Some(part) };
        part = schema.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the place of `|` in a text.
    fn place(text: &str) -> (String, bool, String) {
        let offset = text.find('|').unwrap();
        let text = text.replacen('|', "", 1);
        let found = at(&text, offset);
        let step = |step: &PathStep| match step {
            PathStep::Key(key) => format!("/{key}"),
            PathStep::Item => "/*".to_owned(),
        };
        (found.path.iter().map(step).collect(), found.is_key, text[found.word].to_owned())
    }

    #[test]
    fn a_place_is_found_by_indentation() {
        for (text, path, is_key, word) in [
            ("|", "", true, ""),
            ("a:\n  |", "/a", true, ""),
            ("a: b|c", "/a", false, "bc"),
            ("a:\n  b:\n    c: d\n  e|", "/a", true, "e"),
            ("a:\n  b:\n    c: |", "/a/b/c", false, ""),
            ("a:\n  - b: 1\n    c|", "/a/*", true, "c"),
            ("a:\n- b: 1\n  c: x|", "/a/*/c", false, "x"),
            ("a:\n- b: 1\n- c|", "/a/*", true, "c"),
            ("a:\n  b: 1\n---\nc:\n  |", "/c", true, ""),
            ("a:\n  x:\n  - y\n  z|", "/a", true, "z"),
            ("a:\n\n  # b:\n  c|", "/a", true, "c"),
            ("a:\n  - - b|", "/a/*/*", true, "b"),
            ("\"a/b\":\n  'c d': e|", "/a/b/c d", false, "e"),
        ] {
            assert_eq!(place(text), (path.to_owned(), is_key, word.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_place_in_brackets_is_found_on_its_line() {
        for (text, path, is_key, word) in [
            ("a: {b: c|", "/a/b", false, "c"),
            ("a: {b: c, d|", "/a", true, "d"),
            ("a: {b: {c: 1}, d: e|}", "/a/d", false, "e"),
            ("a: [b, c|]", "/a/*", false, "c"),
            ("a: [{b: 1, c: |}]", "/a/*/c", false, ""),
            ("a:\n  - {b: [c], d: e|", "/a/*/d", false, "e"),
            ("a: {b: 1} |", "/a", false, ""),
        ] {
            assert_eq!(place(text), (path.to_owned(), is_key, word.to_owned()), "{text}");
        }
    }

    #[test]
    fn no_text_panics() {
        for text in
            ["- ", "-", ":", "ä: ö", "[", "]]", "{,", "'", "\"a", "a: 'b", "- -- :", "\u{feff}a:", "{ä:[,"]
        {
            for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let found = at(text, offset);
                assert!(text.get(found.word).is_some(), "{text}");
            }
        }
    }
}
