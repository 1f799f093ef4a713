//! The keys of text that is nearly YAML, such as a template, found by indentation.
//!
//! It serves to find the line of a field, never to read values. Only certain matches are returned.

use std::collections::BTreeMap;
use std::ops::Range;

use jobgate_core::text::pointer::{Pointer, Token};
use jobgate_core::text::value::Value;

/// The keys and list items of a text, and where they are.
#[derive(Debug)]
pub(super) struct Outline {
    nodes: Vec<OutlineNode>,
    /// Nodes by parent and key.
    keys: BTreeMap<(usize, String), usize>,
    /// The first line with anything on it.
    first: Range<usize>,
    /// Whether it may render to anything: conditions, loops and definitions alone do not.
    writes: bool,
}

#[derive(Debug, Default)]
struct OutlineNode {
    /// Its lines: branches of a template may have the same key.
    lines: Vec<Range<usize>>,
    items: Vec<usize>,
    /// The text after the key on its first line.
    value: String,
}

/// A key or an item that is still open.
struct OpenOutlineNode {
    indent: usize,
    is_item: bool,
    node: usize,
}

/// Tells whether a line of a template is one action that writes nothing itself, or a comment.
fn is_control(line: &str) -> bool {
    const WORDS: [&str; 7] = ["if", "else", "end", "range", "with", "define", "block"];
    let inner = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    let inner =
        inner.map(|inner| inner.trim_start_matches('-').trim_start()).filter(|one| !one.contains("}}"));
    line.starts_with('#')
        || inner.is_some_and(|inner| {
            let word =
                inner.split(|char: char| char.is_whitespace() || char == '-').next().unwrap_or_default();
            WORDS.contains(&word) || inner.starts_with("/*") || inner.starts_with('$') && inner.contains('=')
        })
}

impl Outline {
    /// Reads a part of a text.
    pub(super) fn new(text: &[u8], span: Range<usize>) -> Self {
        let mut outline = Self {
            nodes: vec![OutlineNode::default()],
            keys: BTreeMap::new(),
            first: span.start..span.start,
            writes: false,
        };
        let mut open: Vec<OpenOutlineNode> = Vec::new();
        let mut at = span.start;
        for line in text.get(span).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            let start = at;
            at += line.len();
            let Ok(line) = str::from_utf8(line) else { continue };
            let mut rest = line.trim_start_matches(' ');
            let mut indent = line.len() - rest.len();
            rest = rest.trim_end();
            let place = start + indent..start + indent + rest.len();
            outline.writes |= !rest.is_empty() && !rest.starts_with("---") && !is_control(rest);
            if rest.is_empty() || rest.starts_with(['#', '{', '}', '%']) || rest.starts_with("---") {
                continue;
            }
            if outline.first.is_empty() {
                outline.first = place.clone();
            }
            let mut deep = 0;
            while let Some(item) = rest.strip_prefix("- ").or_else(|| (rest == "-").then_some("")) {
                deep += 1;
                if deep > MOST_NESTED {
                    break;
                }
                while open
                    .last()
                    .is_some_and(|top| top.indent > indent || top.indent == indent && top.is_item)
                {
                    open.pop();
                }
                let above = open.last().map_or(0, |top| top.node);
                let node = outline.add(place.clone());
                outline.nodes[above].items.push(node);
                open.push(OpenOutlineNode { indent, is_item: true, node });
                let inner = item.trim_start_matches(' ');
                indent += rest.len() - inner.len();
                rest = inner;
            }
            let Some((key, value)) = key(rest) else { continue };
            while open.last().is_some_and(|top| top.indent >= indent) {
                open.pop();
            }
            let above = open.last().map_or(0, |top| top.node);
            let node = match outline.keys.get(&(above, key.to_owned())) {
                Some(node) => {
                    outline.nodes[*node].lines.push(place);
                    *node
                }
                None => {
                    let node = outline.add(place);
                    outline.nodes[node].value = value.to_owned();
                    outline.keys.insert((above, key.to_owned()), node);
                    node
                }
            };
            open.push(OpenOutlineNode { indent, is_item: false, node });
        }
        outline
    }

    fn add(&mut self, line: Range<usize>) -> usize {
        self.nodes.push(OutlineNode { lines: vec![line], ..OutlineNode::default() });
        self.nodes.len() - 1
    }

    /// Tells whether the text may render to anything.
    pub(super) fn writes(&self) -> bool {
        self.writes
    }

    /// Returns the text after a key, by its path from the outermost mapping.
    pub(super) fn text(&self, path: &[&str]) -> Option<&str> {
        let mut node = 0;
        for key in path {
            node = *self.keys.get(&(node, (*key).to_owned()))?;
        }
        Some(self.nodes[node].value.trim_matches(['"', '\'']))
    }

    /// Returns the line of a place, or of its nearest certain parent; and whether it is the line of the place itself.
    /// `rendered` is the document that the text renders to.
    pub(super) fn find(&self, pointer: &Pointer, rendered: &Value) -> (Range<usize>, bool) {
        let (mut node, mut whole, mut value) = (0, true, Some(rendered));
        let mut line = None;
        for token in pointer.tokens() {
            let next = match token {
                Token::Key(key) => {
                    value = value.and_then(|value| value.as_object()?.get(key));
                    self.keys.get(&(node, key.to_string())).copied()
                }
                Token::Index(index) => {
                    value = value.and_then(|value| value.as_array()?.get(*index));
                    self.item(node, value)
                }
            };
            let Some(next) = next else {
                whole = false;
                break;
            };
            node = next;
            match self.nodes[node].lines.as_slice() {
                [only] => line = Some(only.clone()),
                // The same key in several branches: only its parent is certain.
                _ => whole = false,
            }
        }
        let kind = || {
            let node = self.keys.get(&(0, "kind".to_owned()))?;
            self.nodes[*node].lines.first().cloned()
        };
        (line.or_else(kind).unwrap_or_else(|| self.first.clone()), whole)
    }

    /// Returns the list item that a rendered item comes from: the only one, or the one of the same name.
    fn item(&self, list: usize, rendered: Option<&Value>) -> Option<usize> {
        match self.nodes[list].items.as_slice() {
            [only] => Some(*only),
            items => {
                let name = rendered?.get("name")?.as_str()?;
                let of_name = |item: &&usize| {
                    self.keys
                        .get(&(**item, "name".to_owned()))
                        .is_some_and(|node| self.nodes[*node].value.trim_matches(['"', '\'']) == name)
                };
                let mut found = items.iter().take(MOST_ITEMS).filter(of_name);
                found.next().filter(|_| found.next().is_none()).copied()
            }
        }
    }
}

/// Maximum number of nested lists that one line opens.
const MOST_NESTED: usize = 32;
/// Maximum number of list items to compare.
const MOST_ITEMS: usize = 256;

/// Returns the key of a line, and the text after it.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = match line.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let end = line[1..].find(char::from(*quote))? + 1;
            (&line[1..end], line[end + 1..].strip_prefix(':')?)
        }
        _ => {
            let at = line.find(": ").or_else(|| line.ends_with(':').then(|| line.len() - 1))?;
            (&line[..at], &line[at + 1..])
        }
    };
    let is_plain = !key.is_empty() && !key.contains("{{") && !key.contains(['{', '[', '"']);
    is_plain.then(|| (key, value.split(" #").next().unwrap_or_default().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    const TEMPLATE: &str = "\
{{- if .Values.on }}
# a comment: here
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-train
  {{- with .Values.labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  backoffLimit: {{ .Values.limit }}
  template:
    spec:
      {{- if .Values.a }}
      restartPolicy: Always
      {{- else }}
      restartPolicy: Never
      {{- end }}
      containers:
      - name: one
        image: a
      - image: b
        name: \"two\"
        resources:
          limits: {cpu: 1}
      volumes:
        - name: {{ .x }}
          emptyDir: {}
{{- end }}
";

    fn line(pointer: &str) -> (&'static str, bool) {
        let rendered = json!({
            "kind": "Job", "metadata": {"name": "r-train", "labels": {"a": "b"}},
            "spec": {"backoffLimit": 1, "template": {"spec": {"restartPolicy": "Always",
                "containers": [{"name": "one"}, {"name": "two", "resources": {"limits": {"cpu": 1}}}, {"name": "three"}],
                "volumes": [{"name": "v", "emptyDir": {}}]}}},
        });
        let outline = Outline::new(TEMPLATE.as_bytes(), 0..TEMPLATE.len());
        let pointer = Pointer::parse(pointer, &rendered).unwrap();
        let (span, whole) = outline.find(&pointer, &rendered);
        (&TEMPLATE[span], whole)
    }

    #[test]
    fn the_line_of_a_field_is_found_or_the_nearest_around_it() {
        for (pointer, expected) in [
            ("", ("kind: Job", true)),
            ("/spec/backoffLimit", ("backoffLimit: {{ .Values.limit }}", true)),
            ("/spec/template/spec", ("spec:", true)),
            ("/spec/template/spec/containers/1/resources/limits/cpu", ("limits: {cpu: 1}", false)),
            ("/spec/template/spec/containers/1/resources", ("resources:", true)),
            ("/spec/template/spec/containers/0/image", ("image: a", true)),
            // Nothing says which one it is.
            ("/spec/template/spec/containers/2/image", ("containers:", false)),
            ("/spec/template/spec/restartPolicy", ("spec:", false)),
            ("/spec/template/spec/volumes/0/emptyDir", ("emptyDir: {}", true)),
            ("/metadata/labels/a", ("labels:", false)),
            ("/nothing", ("kind: Job", false)),
        ] {
            assert_eq!(line(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn texts_without_keys_have_a_first_line() {
        for (text, first) in
            [("", ""), ("{{ include \"x\" . }}\n", ""), ("# a\n\nword\n", "word"), ("- a\n", "- a")]
        {
            let outline = Outline::new(text.as_bytes(), 0..text.len());
            let (span, _) = outline.find(&Pointer::new(&["spec"]), &Value::Null);
            assert_eq!(&text[span], first, "{text}");
        }
        assert_eq!(Outline::new(b"\xff: a\nkind: Job\n", 0..15).text(&["kind"]), Some("Job"));
    }

    #[test]
    fn deep_nesting_costs_no_more_than_its_bytes() {
        let mut text: String = (0..3000).map(|deep| format!("{}a:\n", " ".repeat(deep))).collect();
        text += &"- ".repeat(1 << 20);
        let begun = std::time::Instant::now();
        let outline = Outline::new(text.as_bytes(), 0..text.len());
        assert!(outline.nodes.len() > 3000);
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
