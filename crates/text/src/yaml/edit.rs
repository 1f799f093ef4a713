//! Turns RFC 6902 operations into byte edits of the file, in the style of the surrounding text.
//!
//! A [`Draft`] is the text of a document with some operations applied. The result is parsed again and
//! compared with the patched value; an edit that does not match is rejected with the reason. So
//! `parse(edit(source, ops)) == patch(parse(source), ops)` holds for every edit that is returned. Parsing
//! takes the time, so operations are applied together where possible.

mod editor;
mod excerpt;
mod insert;
mod lines;
mod pieces;
mod remove;
mod replace;
mod style;
mod tail;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Number;

use editor::Editor;
pub use excerpt::Excerpt;
use pieces::Pieces;

use super::split::{Chunk, DocumentSyntax};
use crate::meter;
use crate::patch::{self, Clash, Op};
use crate::pointer::Pointer;
use crate::value::Value;
use crate::yaml::document::Document;
use crate::yaml::limits::Limits;

/// Limits for an edited document; the original was read within stricter ones. A document that an edit makes
/// shorter may have as many values as before.
const LIMITS: Limits =
    Limits { documents: 1, document_bytes: 1 << 30, nodes: 4_000_000, dense_nodes: 4_000_000, depth: 127 };

/// A range of the source and its new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes to remove; empty for an insertion.
    pub span: Range<usize>,
    /// The text to insert.
    pub text: String,
}

/// Why an edit cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// The document was read from another source.
    #[error("the file is not the one that was read")]
    Stale,
    /// The patch does not apply to the object.
    #[error("the change does not fit the object: nothing to change at `{0}`")]
    NotThere(Pointer),
    /// The value is shared through an anchor, alias or merge key.
    #[error("`{0}` is shared through an anchor, so that changing it would change other places too")]
    Shared(Pointer),
    /// The surrounding text has a form that is not supported.
    #[error("the lines around `{0}` are written in a way that is not edited")]
    Layout(Pointer),
    /// Another change edits the same place differently.
    #[error("{0}")]
    Clash(#[from] Clash),
    /// The result would not parse as the patched object.
    #[error("the edited file would not read as the changed object at `{0}`")]
    Differs(Pointer),
}

/// Returns operations on a document as edits of its source: sorted, without overlaps.
///
/// Operations apply in order: one may refer to a place that an earlier one has added.
///
/// # Errors
/// The edit would change more than the operations do, or would not parse as intended.
pub fn edit(source: &[u8], document: &Document, ops: &[Op]) -> Result<Vec<Edit>, Withheld> {
    let draft = Draft::new(source, document)?;
    let draft = match draft.make(ops) {
        Err(_) if ops.len() > 1 => {
            ops.iter().try_fold(draft, |draft, op| draft.make(std::slice::from_ref(op)))
        }
        made => made,
    };
    Ok(draft?.edits())
}

/// The text of one document with edits applied, and its parsed value. Immutable: applying operations returns
/// a new draft.
#[derive(Clone, Debug)]
pub struct Draft<'d> {
    text: Cow<'d, str>,
    document: Cow<'d, Document>,
    pieces: Pieces,
    /// The document's bytes in the source.
    span: Range<usize>,
    /// A stream that starts with a brace is read as JSON; an edit must not change that.
    has_brace: bool,
    at_line_start: bool,
    /// The first line break of the source.
    newline: &'static str,
    /// See [`tail::open_end`].
    open: Option<Range<usize>>,
}

impl<'d> Draft<'d> {
    /// Starts with the unchanged source.
    ///
    /// # Errors
    /// The document was read from another source.
    pub fn new(source: &'d [u8], document: &'d Document) -> Result<Self, Withheld> {
        let span = document.span.clone();
        let bytes = source.get(span.clone()).ok_or(Withheld::Stale)?;
        let text = str::from_utf8(bytes).map_err(|_| Withheld::Stale)?;
        Ok(Self {
            text: text.into(),
            document: Cow::Borrowed(document),
            pieces: Pieces::whole(text.len()),
            has_brace: starts_with_brace(text),
            newline: newline(text),
            open: tail::open_end(text, document),
            at_line_start: span.start == 0 || matches!(source[span.start - 1], b'\n' | b'\r'),
            span,
        })
    }

    /// Applies operations together. Each must refer to a place that exists before the others apply, or append
    /// to the same list; otherwise they fail here and can still be applied one by one.
    ///
    /// # Errors
    /// As [`edit`].
    pub fn make(&self, ops: &[Op]) -> Result<Draft<'static>, Withheld> {
        let wanted = self.patched(ops)?;
        let mut splices = self.lower(ops)?;
        // Insertions at one place come in the order of the operations, inner containers first.
        splices.sort_by_key(|(container, splice)| {
            (splice.span.start, splice.span.end, std::cmp::Reverse(*container))
        });
        if let Some(pair) = splices.windows(2).find(|pair| pair[0].1.span.end > pair[1].1.span.start) {
            return Err(Withheld::Layout(
                pair[1].1.op.map_or_else(|| first(ops), |op| ops[op].pointer().clone()),
            ));
        }
        self.spliced(splices.into_iter().map(|(_, splice)| splice).collect(), &wanted, ops)
    }

    /// Applies edits from an [`Excerpt`], sorted and without overlaps, that have the effect of the
    /// operations.
    ///
    /// # Errors
    /// As [`edit`].
    pub fn make_as(&self, edits: Vec<Edit>, ops: &[Op]) -> Result<Draft<'static>, Withheld> {
        if edits.windows(2).any(|pair| pair[0].span.end > pair[1].span.start) {
            return Err(Withheld::Layout(first(ops)));
        }
        let wanted = self.patched(ops)?;
        self.spliced(edits.into_iter().map(|edit| splice(edit.span, edit.text)).collect(), &wanted, ops)
    }

    /// Returns the value with the operations applied.
    fn patched(&self, ops: &[Op]) -> Result<Value, Withheld> {
        let mut value = self.document.value.clone();
        patch::apply_in_place(&mut value, ops).map_err(|patch::DoesNotApply(at)| Withheld::NotThere(at))?;
        Ok(value)
    }

    /// Applies splices, sorted and without overlaps, if the result then parses as `wanted`.
    fn spliced(&self, splices: Vec<Splice>, wanted: &Value, ops: &[Op]) -> Result<Draft<'static>, Withheld> {
        let (mut text, mut pieces) = (String::with_capacity(self.text.len() + 256), self.pieces.clone());
        let mut at = 0;
        for splice in &splices {
            text.push_str(&self.text[at..splice.span.start]);
            text.push_str(&splice.text);
            at = splice.span.end;
        }
        text.push_str(&self.text[at..]);
        let covers = |tail: &Range<usize>| {
            splices.iter().any(|splice| splice.span.start <= tail.start && tail.end <= splice.span.end)
        };
        let is_replaced = self.open.as_ref().is_some_and(covers);
        pieces.splice(splices);
        let splits =
            self.document.form == DocumentSyntax::Yaml && (text.starts_with("---") || text.contains("\n---"));
        if splits || starts_with_brace(&text) != self.has_brace {
            return Err(Withheld::Differs(first(ops)));
        }
        let document = self
            .read(&text)
            .filter(|document| same(&document.value, wanted))
            .ok_or_else(|| Withheld::Differs(first(ops)))?;
        // kubectl stops at the end of the first value; others reject what follows it.
        if tail::has_more(&text, &document) && !tail::has_more(&self.text, &self.document) {
            return Err(Withheld::Differs(first(ops)));
        }
        let open = tail::open_end(&text, &document);
        let is_kept = match (&self.open, &open) {
            (Some(before), Some(after)) => self.text[before.clone()] == text[after.clone()],
            (Some(_), None) => is_replaced,
            (None, after) => after.is_none(),
        };
        if !is_kept {
            return Err(Withheld::Layout(first(ops)));
        }
        let Self { ref span, has_brace, at_line_start, newline, .. } = *self;
        Ok(Draft {
            text: text.into(),
            document: Cow::Owned(document),
            pieces,
            span: span.clone(),
            has_brace,
            at_line_start,
            newline,
            open,
        })
    }

    /// Parses another text in place of the document.
    fn read(&self, text: &str) -> Option<Document> {
        meter::spend_text(text);
        let chunk = Chunk {
            index: self.document.index,
            span: 0..text.len(),
            form: self.document.form,
            refused: None,
            not_json: None,
        };
        super::read::parse(text.as_bytes(), &chunk, &LIMITS).ok()
    }

    /// Checks operations against the surrounding text only, without parsing the result.
    ///
    /// # Errors
    /// As [`Draft::make`], for the first operation that fails.
    pub fn try_out(&self, ops: &[Op]) -> Result<(), Withheld> {
        self.lower(ops).map(|_| ())
    }

    /// Returns the splices of the operations, each with the container that it changes.
    fn lower(&self, ops: &[Op]) -> Result<Vec<(usize, Splice)>, Withheld> {
        let mut all = Vec::new();
        let mut index = 0;
        while let Some(op) = ops.get(index) {
            let editor = self.editor(op.pointer(), &ops[..index]);
            let renamed = ops.get(index + 1).and_then(|next| editor.rename(op, next));
            let count = if renamed.is_some() { 2 } else { 1 };
            let (container, splices) = renamed.map_or_else(|| editor.lower(op), Ok)?;
            all.extend(
                splices
                    .into_iter()
                    .map(|splice| (container, Splice { op: Some(index), ..self.before_comment(splice) })),
            );
            index += count;
        }
        Ok(all)
    }

    fn editor<'e>(&'e self, pointer: &'e Pointer, earlier: &'e [Op]) -> Editor<'e> {
        Editor {
            text: &self.text,
            document: &self.document,
            tree: &self.document.tree,
            pointer,
            at_line_start: self.at_line_start,
            newline: self.newline,
            earlier,
            is_open: self.open.is_some(),
        }
    }

    /// Puts a space before a comment that would otherwise become part of the new text.
    fn before_comment(&self, mut splice: Splice) -> Splice {
        let before = splice.text.chars().last().or_else(|| self.text[..splice.span.start].chars().last());
        if self.text[splice.span.end..].starts_with('#')
            && before.is_some_and(|before| !before.is_whitespace())
        {
            splice.text.push(' ');
        }
        splice
    }

    /// Returns the parsed document. Its span is that of the source only before the first edit.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Returns the current text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the edits that lead from the source to this draft: sorted, without overlaps.
    #[must_use]
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = self.pieces.edits(self.span.len());
        for edit in &mut edits {
            edit.span = edit.span.start + self.span.start..edit.span.end + self.span.start;
        }
        edits
    }
}

/// Returns the place of the first operation, to name in an error.
fn first(ops: &[Op]) -> Pointer {
    ops.first().map_or_else(Pointer::root, |op| op.pointer().clone())
}

/// Returns the first line break of a text.
fn newline(text: &str) -> &'static str {
    match text.find(['\n', '\r']) {
        Some(at) if text[at..].starts_with("\r\n") => "\r\n",
        Some(at) if text[at..].starts_with('\r') => "\r",
        _ => "\n",
    }
}

fn starts_with_brace(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Compares values; `1` and `1.0` are equal.
fn same(a: &Value, b: &Value) -> bool {
    let number = |a: &Number, b: &Number| a == b || a.as_f64() == b.as_f64() && a.is_f64() != b.is_f64();
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        _ => a == b,
    }
}

/// A change of the current text.
#[derive(Debug)]
struct Splice {
    span: Range<usize>,
    text: String,
    /// The index of its operation.
    op: Option<usize>,
}

fn splice(span: Range<usize>, text: impl Into<String>) -> Splice {
    Splice { span, text: text.into(), op: None }
}

#[cfg(test)]
mod tests;
