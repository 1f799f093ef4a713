//! YAML and JSON as kubectl reads them, with the byte span of every key and value. The only entry to YAML.
//!
//! [`split()`] separates documents, [`parse`] parses one, [`documents`] does both. Chunks can be parsed in
//! parallel.
//!
//! ```text
//! bytes ──split──> chunks ──tree, json──> syntax tree ──resolve──> value
//!                                              └──locate──> spans
//! ```

mod edit;
mod json;
mod locate;
mod print;
mod quoted;
mod resolve;
mod split;
mod template;
mod tree;

use std::borrow::Cow;
use std::ops::Range;

pub use edit::{Draft, Edit, Excerpt, Withheld, edit};
use resolve::{Text, Twice};
use split::Form;
pub use split::{Chunk, Chunks};
use tree::Tree;

use crate::lines::character_at;
use crate::meter;
use crate::pointer::Pointer;
use crate::value::Value;

/// Limits for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Documents in one source.
    pub documents: usize,
    /// Bytes of one document; at most 1 GiB.
    pub document_bytes: usize,
    /// Values and keys in one document, however long it is. Each takes about 20 bytes in the tree, and up to
    /// 100 in the value and what is known about it.
    pub nodes: usize,
    /// Values and keys in one document, however short it is. A longer one may have one for every six bytes.
    pub dense_nodes: usize,
    /// Levels of mappings and lists. kubectl allows 10,000, other clients of the API server less, serde_json
    /// 127.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            documents: 100_000,
            document_bytes: 64 << 20,
            nodes: 2_000_000,
            dense_nodes: 180_000,
            depth: 127,
        }
    }
}

impl Limits {
    /// Returns how many values and keys a document of so many bytes may have: one for every six bytes. A
    /// manifest has one for ten to twenty bytes. One of brackets alone has one for every second byte, and takes
    /// a hundred times the memory of its text.
    fn nodes_in(&self, bytes: usize) -> usize {
        (bytes / 6).max(self.dense_nodes).min(self.nodes)
    }
}

/// Why a document cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The message, without a period.
    pub message: String,
    /// The bytes of the source that it is about.
    pub span: Range<usize>,
    /// The kind of error.
    pub kind: SyntaxErrorKind,
}

impl SyntaxError {
    fn syntax(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span, kind: SyntaxErrorKind::Syntax }
    }

    fn not_utf8(at: usize) -> Self {
        let message = "the file is not UTF-8".to_owned();
        Self { message, span: at..at + 1, kind: SyntaxErrorKind::Encoding }
    }

    fn limit(message: String, span: Range<usize>) -> Self {
        Self { message, span, kind: SyntaxErrorKind::Limit }
    }

    fn dense(message: String, span: Range<usize>) -> Self {
        Self { message, span, kind: SyntaxErrorKind::Dense }
    }

    /// Moves the span by the offset of the document in the source.
    fn shifted(mut self, base: usize) -> Self {
        self.span = self.span.start + base..self.span.end + base;
        self
    }
}

/// The kinds of [`SyntaxError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// Not YAML or JSON, or kubectl rejects it.
    Syntax,
    /// A template that is not rendered (`{{ … }}`, `{% … %}` outside quotes).
    Template,
    /// Beyond a limit: too deep, too many aliases, too large.
    Limit,
    /// More keys and values than a document of its length may have.
    Dense,
    /// More documents than are read.
    Documents,
    /// Not UTF-8.
    Encoding,
}

/// A duplicate key of a mapping. kubectl uses the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The field.
    pub pointer: Pointer,
    /// The key that is ignored.
    pub dropped: Range<usize>,
    /// The key that is used.
    pub kept: Range<usize>,
}

/// Where a place of a document is in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The key of a field, with quotes.
    pub key: Option<Range<usize>>,
    /// The value, with its tag and anchor. A missing value is empty and right after the colon.
    ///
    /// A block mapping or list spans from its first key or dash to the end of its last value, one in brackets
    /// from bracket to bracket, a block of text from its `|` or `>` to the end of its last line, without the
    /// line break.
    pub value: Range<usize>,
    /// Whether the place is an alias or behind one. `value` is then the outermost alias.
    pub via_alias: bool,
}

/// One document: its value, and where each part of it is.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its number in the source, from 0. Empty documents count, as in kubectl.
    pub index: usize,
    /// Its bytes in the source, without separators.
    pub span: Range<usize>,
    /// Its value, as kubectl reads it.
    pub value: Value,
    /// Why kubectl rejects it although it can be parsed: directives, or content on the line of its `---`.
    /// Then kubectl does not read the document before it either, unless that has its own separator after it.
    pub refused: Option<SyntaxError>,
    /// Its duplicate keys, in source order. Few are ever looked at, and a text may have one for every two bytes.
    twice: Vec<Twice>,
    source: Box<str>,
    tree: Tree,
    form: Form,
}

impl Document {
    /// Returns where a place of the document is in the source; nothing if it does not exist.
    ///
    /// A place behind an alias is located at the alias, one in an inline merge (`<<: {a: 1}`) where it is
    /// written.
    #[must_use]
    pub fn locate(&self, pointer: &Pointer) -> Option<Span> {
        locate::locate(self.text(), &self.span, pointer)
    }

    /// Returns its duplicate keys.
    #[must_use]
    pub fn duplicates(&self) -> Duplicates<'_> {
        Duplicates { document: self, at: Pointer::root(), node: 0, twice: &self.twice }
    }

    /// Returns the duplicate keys inside a place, without looking at all others. Those behind an alias are
    /// where they are written.
    #[must_use]
    pub fn duplicates_within(&self, at: &Pointer) -> Duplicates<'_> {
        let node = if self.twice.is_empty() { None } else { locate::written(self.text(), at) };
        let (node, twice) = node.map_or((0, &[][..]), |nodes| {
            let first = self.twice.partition_point(|pair| (pair.dropped as usize) < nodes.start);
            let end = self.twice.partition_point(|pair| (pair.dropped as usize) < nodes.end);
            (nodes.start, &self.twice[first..end])
        });
        Duplicates { document: self, at: at.clone(), node, twice }
    }

    /// Tells whether it has only spaces and comments, such as a licence before the first `---`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Tells whether the document is read as JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    fn text(&self) -> Text<'_> {
        Text { tree: &self.tree, source: &self.source, json: self.is_json() }
    }
}

/// Some of the duplicate keys of a document, in source order.
#[derive(Clone, Debug)]
pub struct Duplicates<'d> {
    document: &'d Document,
    /// The place that they are in, and its node.
    at: Pointer,
    node: usize,
    twice: &'d [Twice],
}

impl Duplicates<'_> {
    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.twice.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.twice.is_empty()
    }

    /// Returns the first ones, at most so many.
    #[must_use]
    pub fn first(&self, most: usize) -> Vec<Duplicate> {
        self.some(&self.twice[..most.min(self.twice.len())])
    }

    /// Returns the last one.
    #[must_use]
    pub fn last(&self) -> Option<Duplicate> {
        self.some(&self.twice[self.twice.len().saturating_sub(1)..]).pop()
    }

    fn some(&self, twice: &[Twice]) -> Vec<Duplicate> {
        let document = self.document;
        locate::duplicates(document.text(), document.span.start, twice, &self.at, self.node)
    }
}

/// Prints a value as a YAML document.
#[must_use]
pub fn print(value: &Value) -> String {
    print::Look::PLAIN.block(value, 0) + "\n"
}

/// Splits a source into documents, without parsing them. An error is about the whole source, and the last
/// item.
pub fn split<'s>(source: &'s [u8], limits: &Limits) -> Chunks<'s> {
    Chunks::new(source, limits)
}

/// Parses one document of the source that it was split from.
///
/// # Errors
/// See [`SyntaxErrorKind`]. The span is inside the document.
pub fn parse(source: &[u8], chunk: &Chunk, limits: &Limits) -> Result<Document, SyntaxError> {
    let base = chunk.span.start;
    let bytes = source.get(chunk.span.clone()).unwrap_or_default();
    let result = read(bytes, chunk, limits);
    let (text, tree, value, twice) = match result {
        Ok(read) => read,
        Err(mut error) => {
            error.span = whole_characters(bytes, &error.span);
            return Err(blame(error.shifted(base), bytes, chunk));
        }
    };
    let refused = chunk.refused.clone();
    Ok(Document {
        index: chunk.index,
        span: chunk.span.clone(),
        value,
        twice,
        refused,
        source: text.into_owned().into_boxed_str(),
        tree,
        form: chunk.form,
    })
}

/// Widens a range to whole characters: a NEL is parsed as two (see [`as_go_sees_it`]).
fn whole_characters(bytes: &[u8], span: &Range<usize>) -> Range<usize> {
    let (start, mut end) = (span.start.min(bytes.len()), span.end.min(bytes.len()));
    match str::from_utf8(bytes) {
        Ok(text) => {
            while !text.is_char_boundary(end) {
                end += 1;
            }
            character_at(text, start)..end
        }
        Err(_) => start..end,
    }
}

/// Parses all documents of a source, in order. One with an error does not stop the others.
pub fn documents(source: &[u8]) -> Documents<'_> {
    let limits = Limits::default();
    Documents { source, chunks: split(source, &limits), limits }
}

/// The documents of a source, in order. Made by [`documents`].
#[derive(Clone, Debug)]
pub struct Documents<'s> {
    source: &'s [u8],
    chunks: Chunks<'s>,
    limits: Limits,
}

impl Iterator for Documents<'_> {
    type Item = Result<Document, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.chunks.next()?.and_then(|chunk| parse(self.source, &chunk, &self.limits)))
    }
}

type Read<'s> = (Cow<'s, str>, Tree, Value, Vec<Twice>);

/// Parses the bytes of a document; spans of errors are relative to it.
fn read<'s>(bytes: &'s [u8], chunk: &Chunk, limits: &Limits) -> Result<Read<'s>, SyntaxError> {
    if bytes.len() > limits.document_bytes.min(1 << 30) {
        let message = format!("the document has more than {} bytes", limits.document_bytes);
        return Err(SyntaxError::limit(message, 0..0));
    }
    let text = str::from_utf8(bytes).map_err(|error| SyntaxError::not_utf8(error.valid_up_to()))?;
    meter::spend_text(text);
    let json = chunk.form == Form::Json;
    let text = if json { Cow::Borrowed(text) } else { as_go_sees_it(text)? };
    let tree = if json {
        json::read(&text, limits)?
    } else {
        tree::read(&text, chunk.form == Form::YamlWithDirectives, limits)?
    };
    let (value, mut twice) = resolve::value(Text { tree: &tree, source: &text, json }, limits)?;
    locate::settle(&mut twice);
    Ok((text, tree, value, twice))
}

/// Rejects control characters, and replaces what Go's decoder reads differently from YAML 1.2. Offsets stay
/// the same.
fn as_go_sees_it(text: &str) -> Result<Cow<'_, str>, SyntaxError> {
    let bytes = text.as_bytes();
    let mut next_lines = false;
    let mut at = 0;
    // Most text is printable ASCII, which is fast to check in blocks.
    for block in bytes.chunks(64) {
        let end = at + block.len();
        if block.iter().fold(0, |other, byte| {
            other | (u8::from(byte.wrapping_sub(0x20) > 0x5E) & u8::from(*byte != b'\n'))
        }) != 0
        {
            for at in at..end {
                let refused = match bytes[at] {
                    b'\t' | b'\n' | b'\r' | b' '..=b'~' => false,
                    0xC2 => {
                        next_lines |= bytes[at + 1] == 0x85;
                        bytes[at + 1] < 0xA0 && bytes[at + 1] != 0x85
                    }
                    0xEF => bytes[at + 1] == 0xBF && bytes[at + 2] >= 0xBE,
                    byte => byte < 0x80,
                };
                if refused {
                    let control = text[at..].chars().next().unwrap_or_default();
                    let message =
                        format!("the control character U+{:04X} is not allowed here", u32::from(control));
                    return Err(SyntaxError::syntax(message, at..at + control.len_utf8()));
                }
            }
        }
        at = end;
    }
    // A byte order mark at the start becomes line breaks of the same width; spaces would be indentation.
    let marked = text.starts_with('\u{FEFF}');
    // kubectl adds a line break at the end, which a block of text then keeps.
    let open = !text.is_empty() && !text.ends_with('\n');
    if !(next_lines || marked || open) {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = text.to_owned();
    if next_lines {
        // U+0085 is a line break in Go; `\r\n` has as many bytes.
        text = text.replace('\u{85}', "\r\n");
    }
    if marked {
        text.replace_range(..3, "\n\n\n");
    }
    if open {
        text.push('\n');
    }
    Ok(Cow::Owned(text))
}

/// Chooses the most helpful error for a document that cannot be parsed.
fn blame(error: SyntaxError, bytes: &[u8], chunk: &Chunk) -> SyntaxError {
    if error.kind != SyntaxErrorKind::Syntax {
        return error;
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Some(action) = template::find(text)
    {
        let shown: String = text[action.clone()].chars().take(40).collect();
        let message = format!("template that is not rendered: `{shown}`");
        return SyntaxError { message, span: action, kind: SyntaxErrorKind::Template }
            .shifted(chunk.span.start);
    }
    if let Some(refused) = &chunk.refused {
        return refused.clone();
    }
    // If kubectl tried JSON first, a quoted key after the brace shows that JSON was meant.
    let inside = bytes.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    match &chunk.not_json {
        Some(not_json) if inside.trim_ascii_start().starts_with(b"\"") => not_json.clone(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::value::json;

    fn read_all(source: &[u8]) -> Vec<Result<Document, SyntaxError>> {
        documents(source).collect()
    }

    fn value(source: &str) -> Value {
        documents(source.as_bytes()).next().unwrap().unwrap().value
    }

    #[track_caller]
    fn error(source: &str, kind: SyntaxErrorKind, at: &str) -> String {
        let error = documents(source.as_bytes())
            .find_map(|document| document.map_or_else(Some, |document| document.refused))
            .unwrap();
        assert_eq!((error.kind, &source[error.span.clone()]), (kind, at), "{error}");
        error.message
    }

    #[test]
    fn errors_point_at_the_place() {
        use SyntaxErrorKind::{Limit, Syntax, Template};
        error("a: 1\nb:\n\tc: 1\n", Syntax, "\t");
        error("a: 1\n  \t# comment\n", Syntax, "\t");
        error("a: [1, 2\nb: 1\n", Syntax, "[");
        error("a: [äb: 1\nc: 2\n]d}\n", Syntax, "[");
        error("a: 'x\n", Syntax, "'x");
        error("a: *nope\n", Syntax, "*nope");
        error("a: @x\n", Syntax, "@x");
        error("a: b: c\n", Syntax, ":");
        error("a: \"\\/\"\n", Syntax, "\\/");
        error("a: .inf\n", Syntax, ".inf");
        error("? [a]\n: b\n", Syntax, "[a]");
        error("~: b\n", Syntax, "~");
        error("a:\n  <<: 5\n", Syntax, "5");
        error("a: &a\n  b: *a\n", Syntax, "*a");
        error("a: \"\u{7}\"\n", Syntax, "\u{7}");
        error("{\"a\": 1 \"b\": 2}", Syntax, "\"");
        error("{\"a\": 1}\n{\"b\": 2}\n{\"c\": tru}", Syntax, "t");
        error("a: 1\n----\nb: 2\n", Syntax, "----");
        error("a: 1\n--- {b: 2}\n", Syntax, "--- {b: 2}");
        error("%YAML 1.1\n---\na: 1\n", Syntax, "%YAML 1.1");
        error("a: {{ .Values.x }}\nb: 1\n", Template, "{{ .Values.x }}");
        error("{{- if .x }}\na: 1\n{{- end }}\n", Template, "{{- if .x }}");
        error("a: 1\n{% if x %}\nb: 2\n", Template, "{% if x %}");
        error(&format!("a: {}1\n", "[".repeat(200)), Limit, "[");
    }

    #[test]
    fn a_document_of_brackets_alone_has_too_many_values() {
        use SyntaxErrorKind::Dense;
        let most = Limits::default().dense_nodes;
        // The list is a value, too.
        let list = |items: usize, item: &str| format!("[{}]", vec![item; items].join(","));
        for item in ["1", "a", "[]", "\"\""] {
            assert!(documents(list(most - 1, item).as_bytes()).all(|read| read.is_ok()), "{item}");
            let said = error(&list(most, item), Dense, if item == "[]" { "" } else { item });
            assert_eq!(said, "the document has more than 180,000 keys and values");
        }
        // As JSON, and beside other documents.
        let json = format!("{{\"a\":{}}}\n{{\"b\":1}}", list(most, "1"));
        let read = read_all(json.as_bytes());
        assert!(read[0].as_ref().is_err_and(|error| error.kind == Dense) && read[1].is_ok());
        // A longer document may have more of them: one for six bytes, and two million in all.
        error(&list(most, "abcd"), Dense, "abcd");
        assert!(documents(list(most, "abcdef").as_bytes()).all(|read| read.is_ok()));
        let limits = Limits::default();
        assert_eq!(
            [0, 8 << 20, 30 << 20].map(|bytes| limits.nodes_in(bytes)),
            [180_000, 1_398_101, 2_000_000]
        );
        // What aliases refer to counts as often as they do.
        let aliases = |times: usize| {
            let own = list(5_000, "1");
            format!("a: &a {}\nb: {own}\nc: {}\n", list(1_000, "1"), list(times, "*a"))
        };
        assert!(documents(aliases(170).as_bytes()).all(|read| read.is_ok()));
        let said = error(&aliases(180), Dense, "*a");
        assert_eq!(said, "aliases expand the document to more than 180,000 keys and values");
    }

    #[test]
    fn text_in_quotes_is_indented_anyhow() {
        for (source, expected) in [
            ("a: 'one\ntwo'\nb: 3\n", json!({"a": "one two", "b": 3})),
            (
                "a:\n  b: \"one\ntwo\n\n \t three \t\n\t four\"\n  c: 3\n",
                json!({"a": {"b": "one two\nthree four", "c": 3}}),
            ),
            ("a:\n  b: \"\n\none\n\"\n", json!({"a": {"b": "\none "}})),
            ("a:\n  b: \"one\\\ntwo \\\n\\  three\"\n", json!({"a": {"b": "onetwo   three"}})),
            ("a:\n- - 'b: c\n- d\n# ''e''\n'\n- f\n", json!({"a": [["b: c - d # 'e' "], "f"]})),
            (
                "a: &x \"é\nü\"\nb: [*x, \"c\nd\", {e: \"f\ng\"}]\n",
                json!({"a": "é ü", "b": ["é ü", "c d", {"e": "f g"}]}),
            ),
            (
                "a:\r\n  b: \"one\r\ntwo\r\n\r\nthree\"\r\nc: 1\r\n",
                json!({"a": {"b": "one two\nthree"}, "c": 1}),
            ),
            ("\u{FEFF}a:\n  b: \"one\u{85}two\nthree\"\n", json!({"a": {"b": "one two three"}})),
            // What opens no quotes: in plain text, blocks of text and comments.
            (
                "a:\n  b: \"x\ny\"\n  c: it's \"\n  d: |\n    \"\n    '\n  # \"\n  e: 1\n",
                json!({"a": {"b": "x y", "c": "it's \"", "d": "\"\n'\n", "e": 1}}),
            ),
            // Other things that the parser is stricter about.
            ("a: \"it\\'s \\\\'\\n\"\n", json!({"a": "it's \\'\n"})),
            ("a: \"b\"# comment\nc: 'd'# \"\n", json!({"a": "b", "c": "d"})),
            ("? 'a\nb'\n: c\n", json!({"a b": "c"})),
        ] {
            assert_eq!(value(source), expected, "{source:?}");
        }
    }

    /// As kubectl reads them.
    #[test]
    fn comments_may_follow_brackets_and_quotes_at_once() {
        for (source, expected) in [
            ("a: {b: 1}# c\nd: [1]#\n", json!({"a": {"b": 1}, "d": [1]})),
            ("a: {b: 1}# c: d", json!({"a": {"b": 1}})),
            ("a: [1,# é\n 2 ,#\n [# d ]\n 3]# e\n]# f\n", json!({"a": [1, 2, [3]]})),
            ("a: {# \"\n b: {}# }\n , c: ''# '\n }\n# d\ne: 1\n", json!({"a": {"b": {}, "c": ""}, "e": 1})),
            ("- {a: \"x\ny\"}# c\r\n- &x !x [1]# d\r\n- *x\r\n", json!([{"a": "x y"}, [1], [1]])),
            ("a: |# c\n  x\nb: >-# d\n  y\nc: |2# e\n   z\n", json!({"a": "x\n", "b": "y", "c": " z\n"})),
            ("{a: 1}# c\n", json!({"a": 1})),
            // What is no comment: in plain text and in quotes.
            (
                "a: {b: 1# c\n}\nd: x]#,# y\ne: ']# z'\nf: [1]# g\n",
                json!({"a": {"b": "1# c"}, "d": "x]#,# y", "e": "]# z", "f": [1]}),
            ),
            ("a: \"\"\nb: [\"\",# c\n '[# d', \"\"]# e\n", json!({"a": "", "b": ["", "[# d", ""]})),
            ("a: |\n  [1]# b\nc: [1]# d\n", json!({"a": "[1]# b\n", "c": [1]})),
        ] {
            let document = documents(source.as_bytes())
                .next()
                .unwrap()
                .unwrap_or_else(|error| panic!("{source:?}: {error:?}"));
            assert_eq!(document.value, expected, "{source:?}");
        }
        let source = "a: {b: 1}# c\nd: [é]# ü\ne: [f,# g\n h]\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        for (place, text) in [("/a", "{b: 1}"), ("/d", "[é]"), ("/e", "[f,# g\n h]"), ("/e/1", "h")] {
            let at = document.locate(&Pointer::parse(place, &document.value).unwrap()).unwrap();
            assert_eq!(&source[at.value], text);
        }
        for source in [
            "a: &x [1]# c\nb: *x# d\n",
            "a: {b: 1}# c\n  x: 1\n",
            "a:# c\n  b: 1\n",
            "a: ]# c\n",
            "a: [1]# c\nb: {c# d\n: 1\n",
        ] {
            assert!(documents(source.as_bytes()).any(|document| document.is_err()), "{source:?}");
        }
    }

    #[test]
    fn errors_in_and_behind_text_in_quotes_point_at_the_place() {
        use SyntaxErrorKind::Syntax;
        error("a:\n  b: \"one\ntwo\n  c: 3\n", Syntax, "\"one");
        error("a:\n  b: \"it\\'s\n\\'\n\\q\"\n", Syntax, "\"it\\'");
        error("a:\n  b: \"one\ntwo\"\n  c: @x\n", Syntax, "@x");
        error("a:\n  b: 'one\ntwo' three\n", Syntax, "three");
        error("a:\n  b: 'one\n...\n'\n", Syntax, "'one");
        error("'a\nb': c\n", Syntax, ":");
        for key in ["{'a\nb': c}\n", "x:\n  'a\nb' : c\n", "x:\n  ? 'a\nb' : c\n"] {
            error(key, Syntax, "'a\nb'");
        }
    }

    #[test]
    fn a_broken_document_costs_no_other() {
        let all = read_all(b"a: 1\n---\nb: [\n---\nc: 1\n---\nd: \xFF\n---\ne: 1\n");
        let good: Vec<Value> = all.iter().flatten().map(|document| document.value.clone()).collect();
        assert_eq!(good, [json!({"a": 1}), json!({"c": 1}), json!({"e": 1})]);
        assert_eq!(all.iter().flatten().map(|document| document.index).collect::<Vec<_>>(), [0, 2, 4]);
        let kinds: Vec<SyntaxErrorKind> =
            all.iter().filter_map(|document| document.as_ref().err()).map(|error| error.kind).collect();
        assert_eq!(kinds, [SyntaxErrorKind::Syntax, SyntaxErrorKind::Encoding]);
        let all = read_all(b"{\"a\":1}\n{\"b\":2}\n{\"c\":\n{\"d\":4}\n");
        assert_eq!(all.iter().filter(|document| document.is_ok()).count(), 3);
    }

    #[test]
    fn what_kubectl_refuses_is_read_all_the_same() {
        for source in ["--- {a: 1}\n", "%YAML 1.1\n%TAG !k! tag:example.com,2026:\n---\na: 1\n"] {
            let document = documents(source.as_bytes()).next().unwrap().unwrap();
            assert_eq!(document.value, json!({"a": 1}));
            assert!(document.refused.is_some());
        }
    }

    #[test]
    fn duplicates_are_reported() {
        let source = "a:\n  - b: 1\n    b: 2\n    c: {d: 1, \"d\": 2, d: 3}\n1: x\n'1': y\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        assert_eq!(document.value, json!({"a": [{"b": 2, "c": {"d": 3}}], "1": "x"}));
        let found: Vec<(String, usize, usize)> = document
            .duplicates()
            .first(9)
            .iter()
            .map(|twice| (twice.pointer.to_string(), twice.dropped.start, twice.kept.start))
            .collect();
        let found: Vec<(&str, usize, usize)> =
            found.iter().map(|(at, dropped, kept)| (at.as_str(), *dropped, *kept)).collect();
        assert_eq!(found, [("a[0].b", 7, 16), ("a[0].c.d", 29, 43), ("a[0].c.d", 35, 43), ("1", 54, 49)]);
    }

    #[test]
    fn duplicates_of_an_item_take_no_look_at_those_of_others() {
        let steps = |count: usize| {
            let source = "- {a: 1, a: 2, b: {c: 1, c: 2}}\n".repeat(count);
            let document = documents(source.as_bytes()).next().unwrap().unwrap();
            let all = || {
                (0..count)
                    .map(|item| document.duplicates_within(&(Pointer::root() / item)).first(9).len())
                    .sum::<usize>()
            };
            let (found, steps) = meter::run(meter::Bounds::default(), all).unwrap();
            assert_eq!(found, 2 * count);
            steps
        };
        let (few, many) = (steps(500), steps(2000));
        assert!(many <= 6 * few, "{many} steps for four times the input of {few}");
    }

    #[test]
    fn aliases_and_merges_are_located_where_they_stand() {
        let source = "base: &b {x: 1}\nuse: *b\nmore: {<<: *b, w: 2}\nown: {<<: {z: 3}}\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let at = |path: &str| {
            let span = document.locate(&Pointer::parse(path, &document.value).unwrap()).expect(path);
            (span.key.map(|key| &source[key]), source[span.value].to_owned(), span.via_alias)
        };
        assert_eq!(at("/base"), (Some("base"), "&b {x: 1}".into(), false));
        assert_eq!(at("/use"), (Some("use"), "*b".into(), true));
        assert_eq!(at("/use/x"), (None, "*b".into(), true));
        assert_eq!(at("/more/x"), (None, "*b".into(), true));
        assert_eq!(at("/more/w"), (Some("w"), "2".into(), false));
        assert_eq!(at("/own/z"), (Some("z"), "3".into(), false));
    }

    #[test]
    fn spans_are_exact() {
        let source = "a:\nb: |\n  x\n  y\n\nc: !!str &s 1 # one\nd:\n- 'q'\n-\n  - {e: \"f\", g}\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let at = |path: &str| document.locate(&Pointer::parse(path, &document.value).unwrap()).unwrap().value;
        assert_eq!(at("/a"), 2..2);
        for (path, text) in [
            ("/b", "|\n  x\n  y"),
            ("/c", "!!str &s 1"),
            ("/d/0", "'q'"),
            ("/d/1/0", "{e: \"f\", g}"),
            ("/d/1/0/e", "\"f\""),
        ] {
            assert_eq!(&source[at(path)], text, "{path}");
        }
        assert!(source[at("/d")].starts_with("- 'q'") && source[at("/d")].ends_with('}'));
        assert_eq!(at(""), 0..source.len() - 1);
    }

    #[test]
    fn text_is_read_as_yaml_1_1() {
        assert_eq!(
            value("a: yes\nb: 0777\nc: 1.0\nd: 1_000\ne: 12:30\nf: 1e400\n"),
            json!({"a": true, "b": 511, "c": 1, "d": 1000, "e": "12:30", "f": "1e400"})
        );
        assert_eq!(
            value("a: !!binary aGk=\nb: ! 1\nc: !x 1\nd: !\n"),
            json!({"a": "hi", "b": 1, "c": "1", "d": ""})
        );
        assert_eq!(value("0x10: a\n1000000.0: b\nyes: c\n"), json!({"16": "a", "1e+06": "b", "true": "c"}));
        assert_eq!(value("a: |\n  x"), json!({"a": "x\n"}));
    }

    /// Inputs that are made to hurt: each must be read or rejected at once, whatever the answer is.
    #[test]
    fn hostile_inputs_are_cheap() {
        let bomb = (1..30).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |bomb, level| {
            let below = format!("*a{}", level - 1);
            bomb + &format!("a{level}: &a{level} [{}]\n", [below.as_str(); 9].join(","))
        });
        let merges = (1..40).fold("a0: &a0 {x: 1}\n".to_owned(), |bomb, level| {
            bomb + &format!("a{level}: &a{level} {{<<: [*a{0}, *a{0}]}}\n", level - 1)
        });
        let deep: String = (0..100_000).map(|level| format!("{}a:\n", " ".repeat(level % 2000))).collect();
        let inputs = [
            ("alias bomb", bomb),
            ("merge bomb", merges),
            ("self-merge", "a: &a\n  <<: *a\n".to_owned()),
            ("open lists", "[".repeat(100_000)),
            ("open mappings", "{a: ".repeat(100_000)),
            ("JSON lists", format!("{{\"a\": {}", "[".repeat(100_000))),
            ("block lists", "- ".repeat(100_000)),
            ("block mappings", deep),
            ("question marks", "? ".repeat(100_000)),
            ("equal keys", "a: 1\n".repeat(60_000)),
            ("many keys", (0..60_000).map(|key| format!("k{key}: 1\n")).collect()),
            ("equal keys in lists", "- {a: 1, a: 2}\n".repeat(30_000)),
            ("separators", "---\n".repeat(50_000)),
            ("bad separators", "----\n".repeat(20_000)),
            ("tabs", format!("a:{}1\n", "\t".repeat(200_000))),
            ("quotes", "\"".repeat(100_000)),
            ("texts of two lines", "- - \"a\nb\"\n".repeat(10_000)),
            ("a text of many lines", format!("a:\n  b: \"{}\"\n", "x\n".repeat(100_000))),
            (
                "texts of two lines, and one that never ends",
                format!("{}- \"", "- - \"a\nb\"\n".repeat(10_000)),
            ),
            ("apostrophes", format!("a: \"{}\"\n", "\\'".repeat(100_000))),
            ("a long line", format!("a: {}\n", "x ".repeat(200_000))),
            ("long keys", format!("{}: 1\n", "x".repeat(200_000))),
            ("anchors", (0..20_000).map(|anchor| format!("a{anchor}: &a{anchor} 1\n")).collect()),
            ("NUL", "\0".repeat(10_000)),
            ("templates", "{{ x }}\n".repeat(20_000)),
            ("comments", "#\n".repeat(200_000)),
        ];
        for (name, source) in inputs {
            let start = Instant::now();
            for document in documents(source.as_bytes()) {
                match document {
                    Ok(document) => _ = document.locate(&Pointer::root()),
                    Err(error) => assert!(error.span.end <= source.len()),
                }
            }
            // An unoptimised build on a busy machine still has to get by.
            assert!(start.elapsed() < Duration::from_secs(5), "{name} took {:?}", start.elapsed());
        }
        for source in [&b"\xFF\xFEa\0:\0"[..], b"\xFE\xFF\0a", b"\xC3\x28", b"a: \xF0\x9F"] {
            assert!(
                read_all(source)
                    .iter()
                    .any(|read| read.as_ref().is_err_and(|error| error.kind == SyntaxErrorKind::Encoding))
            );
        }
    }
}
