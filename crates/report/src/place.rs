//! Maps the symbolic places of findings to the bytes of their source.

use std::borrow::Cow;
use std::ops::Range;

use jobgate_core::judge::finding::Part;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::Document;

/// Returns the bytes of a place, or of the nearest existing place around it.
///
/// The key of a document or list item is its `kind`.
pub fn span(source: &[u8], document: &Document, pointer: &Pointer, part: Part) -> Range<usize> {
    let mut at = Cow::Borrowed(pointer);
    loop {
        if let Some(span) = document.locate(&at) {
            let key =
                || span.key.clone().or_else(|| document.locate(&(&*at / "kind")).map(|kind| kind.value));
            return match part {
                Part::Key => key().unwrap_or_else(|| first_line(source, span.value.clone())),
                Part::Value => span.value,
                Part::Within(start, end) => {
                    let value = at.find(&document.value).and_then(Value::as_str).unwrap_or_default();
                    within(source, &span.value, value, start as usize..end as usize).unwrap_or(span.value)
                }
            };
        }
        match at.parent() {
            Some(parent) => at = Cow::Owned(parent),
            None => return first_line(source, document.span.clone()),
        }
    }
}

/// Cuts a range down to its first line, without the line break.
pub fn first_line(source: &[u8], span: Range<usize>) -> Range<usize> {
    let text = source.get(span.clone()).unwrap_or_default();
    let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let text = &text[blank..];
    let length = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
    span.start + blank..span.start + blank + length
}

/// Returns where a part of a string is, on its first line: in a plain or quoted scalar on one line, or in a literal
/// block. `None` if the source writes it in other characters.
fn within(source: &[u8], span: &Range<usize>, value: &str, part: Range<usize>) -> Option<Range<usize>> {
    let raw = source.get(span.clone())?;
    let before = value.get(..part.start)?;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = value[line_start..].split('\n').next().unwrap_or_default();
    let end = part.end.min(line_start + line.len()).max(part.start);
    let found = |at: usize| {
        let (at, length) = (at + part.start - line_start, end - part.start);
        let is_same = raw.get(at..at + length) == Some(&value.as_bytes()[part.start..end]);
        is_same.then(|| span.start + at..span.start + at + length)
    };
    if !raw.starts_with(b"|") {
        let quote = usize::from(raw.starts_with(b"\"") || raw.starts_with(b"'"));
        let is_same = raw.get(quote..quote + value.len()) == Some(value.as_bytes());
        return if is_same { found(quote) } else { None };
    }
    let mut lines = Vec::new();
    let mut start = 0;
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        lines.push((start, line));
        start += line.len();
    }
    let body = &lines[1..];
    let indent = body.iter().map(|(_, line)| line.iter().take_while(|byte| **byte == b' ').count());
    let is_blank = |line: &[u8]| line.iter().all(u8::is_ascii_whitespace);
    let indent = indent.zip(body).filter(|(_, (_, line))| !is_blank(line)).map(|(indent, _)| indent).min()?;
    let (start, text) = body.get(before.matches('\n').count())?;
    // An indentation indicator in the header (`|2`) leaves spaces in the value.
    let shift = text.windows(line.len().max(1)).take(indent + 1).position(|text| text == line.as_bytes())?;
    found(start + shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::yaml;

    #[test]
    fn a_word_of_a_script_has_a_place() {
        for (source, word, expected) in [
            ("a: torchrun --n 4\n", "--n", Some("a: torchrun ")),
            ("a: \"torchrun --n 4\"\n", "--n", Some("a: \"torchrun ")),
            ("a: 'torchrun --n 4'\n", "4", Some("a: 'torchrun --n ")),
            (
                "a: |\n  set -e\n\n  torchrun \\\n    --n 4\n",
                "--n",
                Some("a: |\n  set -e\n\n  torchrun \\\n    "),
            ),
            ("a: |-  # x\n    x --n\n", "--n", Some("a: |-  # x\n    x ")),
            ("a: |2\n    x --n\n", "--n", Some("a: |2\n    x ")),
            ("a: \"x\\t--n\"\n", "--n", None),
            ("a: >\n  x\n  --n\n", "--n", None),
        ] {
            let document = yaml::documents(source.as_bytes()).next().expect("one").expect("YAML");
            let at = Pointer::new(&["a"]);
            let value = at.find(&document.value).and_then(Value::as_str).expect("a string");
            let start = value.find(word).expect("the word") as u32;
            let part = Part::Within(start, start + word.len() as u32);
            let span = span(source.as_bytes(), &document, &at, part);
            match expected {
                Some(before) => {
                    assert_eq!((&source[..span.start], &source[span]), (before, word), "{source}");
                }
                None => assert!(span.len() > word.len(), "{source}"),
            }
        }
    }
}
