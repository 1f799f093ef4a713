//! From the bytes of a source to its documents.

use std::borrow::Cow;
use std::ops::Range;

use super::document::Document;
use super::error::{SyntaxError, SyntaxErrorKind};
use super::limits::Limits;
use super::resolve::{self, TreeText, Twice};
use super::split::{Chunk, Chunks, DocumentSyntax};
use super::tree::SyntaxTree;
use super::{json, locate, template, tree};
use crate::lines::character_at;
use crate::meter;
use crate::value::Value;

/// Splits a source into documents, without parsing them. An error concerns the whole source, and is the last
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

type ParsedDocument<'s> = (Cow<'s, str>, SyntaxTree, Value, Vec<Twice>);

/// Parses the bytes of a document; spans of errors are relative to it.
fn read<'s>(bytes: &'s [u8], chunk: &Chunk, limits: &Limits) -> Result<ParsedDocument<'s>, SyntaxError> {
    if bytes.len() > limits.document_bytes.min(1 << 30) {
        let message = format!("the document has more than {} bytes", limits.document_bytes);
        return Err(SyntaxError::limit(message, 0..0));
    }
    let text = str::from_utf8(bytes).map_err(|error| SyntaxError::not_utf8(error.valid_up_to()))?;
    meter::spend_text(text);
    let json = chunk.form == DocumentSyntax::Json;
    let text = if json { Cow::Borrowed(text) } else { as_go_sees_it(text)? };
    let tree = if json {
        json::read(&text, limits)?
    } else {
        tree::read(&text, chunk.form == DocumentSyntax::YamlWithDirectives, limits)?
    };
    let (value, mut twice) = resolve::value(TreeText { tree: &tree, source: &text, json }, limits)?;
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
