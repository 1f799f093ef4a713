//! Detects templates that are not rendered: `{{ … }}` and `{% … %}` in YAML (Helm, Jinja).

use std::ops::Range;

use crate::meter;

/// Returns the first template action outside quotes and comments.
///
/// Quotes are matched line by line, since a template need not be YAML.
pub(super) fn find(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        meter::spend_text(line);
        if let Some(at) = find_in_line(line) {
            let close = if line[at..].starts_with("{{") { "}}" } else { "%}" };
            let end = line[at..].find(close).map_or(line.trim_end().len(), |offset| at + offset + 2);
            return Some(start + at..start + end);
        }
        start += line.len();
    }
    None
}

fn find_in_line(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match quote {
            Some(b'"') if byte == b'\\' => at += 1,
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None => match byte {
                // A quote opens where a value may start, not inside a word.
                b'"' | b'\''
                    if at == 0 || matches!(bytes[at - 1], b' ' | b'\t' | b'[' | b'{' | b',' | b':') =>
                {
                    quote = Some(byte);
                }
                b'#' if at == 0 || bytes[at - 1].is_ascii_whitespace() => return None,
                b'{' if matches!(bytes.get(at + 1), Some(b'{' | b'%')) => return Some(at),
                _ => {}
            },
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn finds_actions_outside_of_quotes() {
        let cases = [
            ("a: {{ .Values.x }}\n", Some("{{ .Values.x }}")),
            ("{{- if .x }}\n", Some("{{- if .x }}")),
            ("a: 1\n  {% for x in y %}\n", Some("{% for x in y %}")),
            ("name: it's {{ x }}\n", Some("{{ x }}")),
            ("a: {{ open\nb: 1\n", Some("{{ open")),
            ("a: \"{{ x }}\"\n", None),
            ("a: '{{ x }}'\n", None),
            ("a: \"\\\"{{ x }}\"\n", None),
            ("# {{ x }}\n", None),
            ("a: {b: {c: 1}}\n", None),
        ];
        for (text, found) in cases {
            assert_eq!(find(text).map(|span| &text[span]), found, "{text:?}");
        }
    }
}
