//! YAML and JSON as kubectl reads them, with the byte span of every key and value. The only entry to YAML.
//!
//! [`split`] draws the borders between documents, [`parse`] reads one of them; [`documents`] does both. A chunk can be parsed on any thread.
//!
//! ```text
//! bytes ──split──> chunks ──tree, json──> syntax tree ──resolve──> value
//!                                              └──locate──> spans
//! ```

mod edit;
mod json;
mod locate;
mod print;
mod resolve;
mod split;
mod template;
mod tree;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

pub use edit::{Edit, Withheld, edit};
use resolve::{Text, Twice};
use split::Form;
pub use split::{Chunk, Chunks};
use tree::Tree;

use crate::pointer::Pointer;

/// What a source may ask of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Documents in one source.
    pub documents: usize,
    /// Bytes of one document; at most 1 GiB.
    pub document_bytes: usize,
    /// Values and keys in one document. Each takes about 30 bytes for its place, and up to 100 for its value.
    pub nodes: usize,
    /// Levels of mappings and lists. kubectl goes to 10,000, but the API server's other clients do not, and serde_json reads 127.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { documents: 100_000, document_bytes: 64 << 20, nodes: 2_000_000, depth: 127 }
    }
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong; no period.
    pub message: String,
    /// Where: bytes of the source.
    pub span: Range<usize>,
    /// What sort of trouble it is.
    pub kind: SyntaxErrorKind,
}

impl SyntaxError {
    /// Moves the place by the offset of the document in the source.
    fn shifted(mut self, base: usize) -> Self {
        self.span = self.span.start + base..self.span.end + base;
        self
    }
}

/// The sorts of trouble a document can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// It is not YAML or JSON, or kubectl refuses it.
    Syntax,
    /// It looks like a template that nobody has rendered (`{{ … }}`, `{% … %}` outside of quotes).
    Template,
    /// It is beyond a limit: too deep, too many aliases, too large.
    Limit,
    /// It is not UTF-8 text.
    Encoding,
}

/// A key that a mapping has twice. kubectl takes the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The mapping's field.
    pub pointer: Pointer,
    /// The key that is dropped.
    pub dropped: Range<usize>,
    /// The key that counts.
    pub kept: Range<usize>,
}

/// Where a place of a document stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The key, for a field of a mapping; as written, quotes included.
    pub key: Option<Range<usize>>,
    /// The value, with its tag and anchor; empty and right behind the colon for a value that is left out.
    ///
    /// A collection by indentation goes from its first key or dash to the end of its last value, one in brackets from bracket to bracket.
    /// A block of text goes from its `|` or `>` to the end of its last line, without the line break.
    pub value: Range<usize>,
    /// Whether the value is written elsewhere: the place is an alias, or lies behind one. `value` is then the (outermost) alias.
    pub via_alias: bool,
}

/// One document: its value, and where each part of it stands.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its number in the source, from 0; documents without content count, as kubectl counts them.
    pub index: usize,
    /// The bytes it takes in the source, without separators.
    pub span: Range<usize>,
    /// What kubectl makes of it.
    pub value: Value,
    /// Keys that stand twice in one mapping, in source order.
    pub duplicates: Vec<Duplicate>,
    /// Why kubectl refuses it all the same: directives, or content on the line of its `---`. In the latter case kubectl reads the document before
    /// it neither, unless that has a separator of its own behind it.
    pub refused: Option<SyntaxError>,
    source: Box<str>,
    tree: Tree,
    form: Form,
}

impl Document {
    /// Returns where a place of the document stands; nothing for a place that is not there.
    ///
    /// A place that comes from an alias or a merge key is located at the alias. One that a merge key takes from a mapping written right behind it
    /// (`<<: {a: 1}`) is located there.
    #[must_use]
    pub fn locate(&self, pointer: &Pointer) -> Option<Span> {
        locate::locate(self.text(), &self.span, pointer)
    }

    /// Tells whether the document is read by the rules of JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    fn text(&self) -> Text<'_> {
        Text { tree: &self.tree, source: &self.source, json: self.is_json() }
    }
}

/// Splits a source into its documents, without reading them. An error is about the whole source, and is the last item.
pub fn split<'s>(source: &'s [u8], limits: &Limits) -> Chunks<'s> {
    Chunks::new(source, limits)
}

/// Reads one document of the source that it was split from.
///
/// # Errors
/// The document is not UTF-8 text, not YAML or JSON, refused by kubectl, beyond a limit, or a template. Its span is never outside of the document.
pub fn parse(source: &[u8], chunk: &Chunk, limits: &Limits) -> Result<Document, SyntaxError> {
    let base = chunk.span.start;
    let bytes = source.get(chunk.span.clone()).unwrap_or_default();
    let result = read(bytes, chunk, limits);
    let (text, tree, value, twice) = match result {
        Ok(read) => read,
        Err(mut error) => {
            error.span = error.span.start.min(bytes.len())..error.span.end.min(bytes.len());
            return Err(blame(error.shifted(base), bytes, chunk));
        }
    };
    let json = chunk.form == Form::Json;
    let duplicates = locate::duplicates(Text { tree: &tree, source: &text, json }, base, twice);
    let refused = chunk.refused.clone();
    Ok(Document {
        index: chunk.index,
        span: chunk.span.clone(),
        value,
        duplicates,
        refused,
        source: text.into_owned().into_boxed_str(),
        tree,
        form: chunk.form,
    })
}

/// Reads all documents of a source, in order. A broken one does not stop the others.
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

/// Reads the bytes of a document; spans of errors are bytes of the document.
fn read<'s>(bytes: &'s [u8], chunk: &Chunk, limits: &Limits) -> Result<Read<'s>, SyntaxError> {
    if bytes.len() > limits.document_bytes.min(1 << 30) {
        let message = format!("the document has more than {} bytes", limits.document_bytes);
        return Err(SyntaxError { message, span: 0..0, kind: SyntaxErrorKind::Limit });
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        SyntaxError { message: "the file is not UTF-8 text".into(), span: at..at + 1, kind: SyntaxErrorKind::Encoding }
    })?;
    let json = chunk.form == Form::Json;
    let text = if json { Cow::Borrowed(text) } else { as_go_sees_it(text)? };
    let tree = if json { json::read(&text, limits)? } else { tree::read(&text, chunk.form == Form::YamlWithDirectives, limits)? };
    let (value, twice) = resolve::value(Text { tree: &tree, source: &text, json }, limits)?;
    Ok((text, tree, value, twice))
}

/// Refuses control characters, and evens out what Go's decoder reads otherwise than YAML 1.2, without moving a byte that has meaning.
fn as_go_sees_it(text: &str) -> Result<Cow<'_, str>, SyntaxError> {
    let bytes = text.as_bytes();
    let mut next_lines = false;
    let mut at = 0;
    // Most text is printable ASCII, which a whole block at a time is told by.
    for block in bytes.chunks(64) {
        let end = at + block.len();
        if block.iter().fold(false, |other, byte| other | !(0x20..0x7F).contains(byte) & (*byte != b'\n')) {
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
                    let message = format!("the control character U+{:04X} is not allowed here", u32::from(control));
                    return Err(SyntaxError { message, span: at..at + control.len_utf8(), kind: SyntaxErrorKind::Syntax });
                }
            }
        }
        at = end;
    }
    // A byte-order mark at the start is skipped; blanks would be indentation, so it goes by way of a line break of the same width.
    let marked = text.starts_with('\u{FEFF}');
    // kubectl hands every document over with a line break at its end, which a block of text then keeps.
    let open = !text.is_empty() && !text.ends_with('\n');
    if !(next_lines || marked || open) {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = text.to_owned();
    if next_lines {
        // U+0085 is a line break to Go; this one has as many bytes.
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

/// Decides what to say of a document that cannot be read.
fn blame(error: SyntaxError, bytes: &[u8], chunk: &Chunk) -> SyntaxError {
    if error.kind != SyntaxErrorKind::Syntax {
        return error;
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Some(action) = template::find(text)
    {
        let shown: String = text[action.clone()].chars().take(40).collect();
        let message = format!("a template that is not rendered: `{shown}`");
        return SyntaxError { message, span: action, kind: SyntaxErrorKind::Template }.shifted(chunk.span.start);
    }
    if let Some(refused) = &chunk.refused {
        return refused.clone();
    }
    // Where kubectl has tried JSON first, the reading that got further is the one that was meant.
    match &chunk.not_json {
        Some(not_json) if not_json.span.start >= error.span.start => not_json.clone(),
        _ => error,
    }
}
