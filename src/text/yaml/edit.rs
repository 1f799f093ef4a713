//! RFC 6902 operations as byte edits of the file: only the bytes of the change move, in the style of what
//! stands around them.
//!
//! A [`Draft`] is a document's text on its way: operations are made on it, what results is read, and compared
//! with what the patch makes of the value. An edit that would not give exactly that is withheld, with the
//! reason. So the law `parse(edit(source, ops)) == patch(parse(source), ops)` holds for every edit that is
//! returned. Reading is what takes time, so operations are made all at once where they let themselves be.

mod editor;
mod excerpt;
mod insert;
mod lines;
mod pieces;
mod remove;
mod replace;
mod style;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Number;

use editor::Editor;
pub use excerpt::Excerpt;
use pieces::Pieces;

use super::split::{Chunk, Form};
use super::{Document, Limits};
use crate::text::meter;
use crate::text::patch::{self, Clash, Op};
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// What an edited document may ask of us; the one that it was read by has been asked already.
const LIMITS: Limits = Limits { documents: 1, document_bytes: 1 << 30, nodes: 4_000_000, depth: 127 };

/// Bytes of the source and what is to stand there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that go; empty for an insertion.
    pub span: Range<usize>,
    /// What comes in their place.
    pub text: String,
}

/// Why an edit is not made. The file stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// The source is not the one that the document was read from.
    #[error("the file is not the one that was read")]
    Stale,
    /// The patch itself does not fit the object.
    #[error("the change does not fit the object: nothing to change at `{0}`")]
    NotThere(Pointer),
    /// The place is written once and stands in several places, by anchors, aliases and merge keys.
    #[error("`{0}` is shared through an anchor, so that changing it would change other places too")]
    Shared(Pointer),
    /// The text around the place is of a form that is not edited.
    #[error("the lines around `{0}` are written in a way that is not edited")]
    Layout(Pointer),
    /// Another change wants something else of the same place.
    #[error("{0}")]
    Clash(#[from] Clash),
    /// What results would not read as the patched object.
    #[error("the edited file would not read as the changed object at `{0}`")]
    Differs(Pointer),
}

/// Lowers operations on a document to edits of the source that it was read from, sorted and apart from each
/// other.
///
/// Operations are meant in order: one may speak of a place that an earlier one has made.
///
/// # Errors
/// The edit cannot be made without changing more than the operations do, or would not read as intended.
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

/// The text of one document on its way from the source to what it is to be, and what it reads as.
///
/// A draft never changes: making operations gives another one, or says why not.
#[derive(Clone, Debug)]
pub struct Draft<'d> {
    text: Cow<'d, str>,
    document: Cow<'d, Document>,
    pieces: Pieces,
    /// The bytes of the source that it is about.
    span: Range<usize>,
    /// A stream that starts with a brace is read as JSON; an edit must not make it one, nor the other way
    /// round.
    has_brace: bool,
    at_line_start: bool,
    /// The line break that the source has first.
    newline: &'static str,
}

impl<'d> Draft<'d> {
    /// Starts with the source as it is.
    ///
    /// # Errors
    /// The source is not the one that the document was read from.
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
            at_line_start: span.start == 0 || matches!(source[span.start - 1], b'\n' | b'\r'),
            span,
        })
    }

    /// Makes operations that are meant in order, all at once: each must speak of a place that is there before
    /// the others, or of one more item of the same list. Where they are not like that, what results does not
    /// read as it should and they are withheld; one after the other they may do.
    ///
    /// # Errors
    /// As [`edit`].
    pub fn make(&self, ops: &[Op]) -> Result<Draft<'static>, Withheld> {
        let place = || ops.first().map_or_else(Pointer::root, |op| op.pointer().clone());
        let mut wanted = self.document.value.clone();
        patch::apply_in_place(&mut wanted, ops).map_err(|patch::DoesNotApply(at)| Withheld::NotThere(at))?;
        let mut splices = self.lower(ops)?;
        // What is put in at one place comes in the order of the operations, but behind what is put in deeper
        // down: that belongs to an inner part.
        splices.sort_by_key(|(container, splice)| {
            (splice.span.start, splice.span.end, std::cmp::Reverse(*container))
        });
        if let Some(pair) = splices.windows(2).find(|pair| pair[0].1.span.end > pair[1].1.span.start) {
            return Err(Withheld::Layout(pair[1].1.op.map_or_else(place, |op| ops[op].pointer().clone())));
        }
        self.spliced(splices.into_iter().map(|(_, splice)| splice).collect(), &wanted, place)
    }

    /// Makes changes of the text, sorted and apart from each other, that come from an [`Excerpt`] and do what
    /// the operations do.
    ///
    /// # Errors
    /// As [`edit`].
    pub fn make_as(&self, edits: Vec<Edit>, ops: &[Op]) -> Result<Draft<'static>, Withheld> {
        let place = || ops.first().map_or_else(Pointer::root, |op| op.pointer().clone());
        if edits.windows(2).any(|pair| pair[0].span.end > pair[1].span.start) {
            return Err(Withheld::Layout(place()));
        }
        let mut wanted = self.document.value.clone();
        patch::apply_in_place(&mut wanted, ops).map_err(|patch::DoesNotApply(at)| Withheld::NotThere(at))?;
        self.spliced(edits.into_iter().map(|edit| splice(edit.span, edit.text)).collect(), &wanted, place)
    }

    /// Makes changes of the text, sorted and apart from each other, if it then reads as is wanted.
    fn spliced(
        &self,
        splices: Vec<Splice>,
        wanted: &Value,
        place: impl Fn() -> Pointer,
    ) -> Result<Draft<'static>, Withheld> {
        let (mut text, mut pieces) = (String::with_capacity(self.text.len() + 256), self.pieces.clone());
        let mut at = 0;
        for splice in &splices {
            text.push_str(&self.text[at..splice.span.start]);
            text.push_str(&splice.text);
            at = splice.span.end;
        }
        text.push_str(&self.text[at..]);
        pieces.splice(splices);
        let splits = self.document.form == Form::Yaml && (text.starts_with("---") || text.contains("\n---"));
        if splits || starts_with_brace(&text) != self.has_brace {
            return Err(Withheld::Differs(place()));
        }
        let document = self
            .read(&text)
            .filter(|document| same(&document.value, wanted))
            .ok_or_else(|| Withheld::Differs(place()))?;
        let Self { ref span, has_brace, at_line_start, newline, .. } = *self;
        Ok(Draft {
            text: text.into(),
            document: Cow::Owned(document),
            pieces,
            span: span.clone(),
            has_brace,
            at_line_start,
            newline,
        })
    }

    /// Reads another text in the place of the document.
    fn read(&self, text: &str) -> Option<Document> {
        meter::spend_text(text);
        let chunk = Chunk {
            index: self.document.index,
            span: 0..text.len(),
            form: self.document.form,
            refused: None,
            not_json: None,
        };
        super::parse(text.as_bytes(), &chunk, &LIMITS).ok()
    }

    /// Tells whether operations could be made as far as the text around their places tells, without reading
    /// what results.
    ///
    /// # Errors
    /// As [`Draft::make`], for the first that cannot be made.
    pub fn try_out(&self, ops: &[Op]) -> Result<(), Withheld> {
        self.lower(ops).map(|_| ())
    }

    /// Returns the changes of each operation, with the collection that it is about.
    fn lower(&self, ops: &[Op]) -> Result<Vec<(usize, Splice)>, Withheld> {
        let mut all = Vec::new();
        let mut index = 0;
        while let Some(op) = ops.get(index) {
            let editor = Editor {
                text: &self.text,
                document: &self.document,
                tree: &self.document.tree,
                pointer: op.pointer(),
                at_line_start: self.at_line_start,
                newline: self.newline,
                earlier: &ops[..index],
            };
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

    /// Keeps a comment that follows a bracket or a quote at once from becoming a part of what comes in its
    /// place.
    fn before_comment(&self, mut splice: Splice) -> Splice {
        let before = splice.text.chars().last().or_else(|| self.text[..splice.span.start].chars().last());
        if self.text[splice.span.end..].starts_with('#')
            && before.is_some_and(|before| !before.is_whitespace())
        {
            splice.text.push(' ');
        }
        splice
    }

    /// Returns the document as it reads now. Before anything was made, its span is that of the source; then
    /// it stands alone.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Returns the document's text as it is now.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the way from the source to here: edits of the source, sorted and apart from each other.
    #[must_use]
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = self.pieces.edits(self.span.len());
        for edit in &mut edits {
            edit.span = edit.span.start + self.span.start..edit.span.end + self.span.start;
        }
        edits
    }
}

/// Returns the line break that a text has first.
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

/// Compares values; `1` and `1.0` are the same number.
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

/// One change of the current text.
#[derive(Debug)]
struct Splice {
    span: Range<usize>,
    text: String,
    /// Which operation it is for.
    op: Option<usize>,
}

fn splice(span: Range<usize>, text: impl Into<String>) -> Splice {
    Splice { span, text: text.into(), op: None }
}

#[cfg(test)]
mod tests;
