//! RFC 6902 operations as byte edits of the file: only the bytes of the change move, in the style of what
//! stands around them.
//!
//! A [`Draft`] is a document's text on its way: operations are made on it, what results is read, and compared
//! with what the patch makes of the value. An edit that would not give exactly that is withheld, with the
//! reason. So the law `parse(edit(source, ops)) == patch(parse(source), ops)` holds for every edit that is
//! returned. Reading is what takes time, so operations are made all at once where they let themselves be.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Number;

use super::locate::{self, Found};
use super::print::{Look, is_inline};
use super::split::{Chunk, Form};
use super::tree::{Kind, Style, Tag, Tree};
use super::{Document, Limits};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::patch::{self, Clash};
use crate::text::pointer::{Pointer, Token};
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
            pieces: Pieces(vec![Piece::Kept(0..text.len())]),
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

    /// Returns an item of a list with what is around that list, but one value for each run of other items;
    /// nothing where that would read otherwise.
    #[must_use]
    pub fn excerpt(&self, item: &Pointer) -> Option<Excerpt> {
        let (list, Some(Token::Index(index))) = (item.parent()?, item.last()) else { return None };
        let (text, tree) = (self.document.text(), &self.document.tree);
        let len = list.find(&self.document.value)?.as_array()?.len();
        let node = |index: usize| {
            let found = locate::find(text, &(&list / index))?;
            (found.via.is_none() && found.merge.is_none()).then_some(found.value)
        };
        let whole = tree.node(locate::find(text, &list)?.value);
        let inside = |at: usize| (whole.start..whole.end).contains(&tree.node(at).start);
        // Items that an alias needs stay.
        let (mut kept, mut open) = (BTreeSet::from([*index]), vec![*index]);
        while let Some(index) = open.pop() {
            let at = node(index)?;
            let inner = (at..tree.node(at).next as usize).filter(|at| tree.node(*at).kind == Kind::Alias);
            for target in inner.map(|alias| tree.node(alias).target()).filter(|target| inside(*target)) {
                let (mut low, mut high) = (0, len);
                while high - low > 1 {
                    let middle = low.midpoint(high);
                    if node(middle)? <= target { low = middle } else { high = middle }
                }
                if kept.insert(low) {
                    open.push(low);
                }
            }
        }
        let (mut short, mut cuts, mut at) = (String::new(), Vec::new(), 0);
        let (mut items, mut next, mut here) = (Vec::new(), 0, None);
        for keep in kept.into_iter().chain([len]) {
            if next < keep {
                let end = (tree.node(node(keep - 1)?).end as usize).min(self.text.len());
                let span = tree.node(node(next)?).start as usize..end;
                short.push_str(self.text.get(at..span.start)?);
                at = span.end;
                cuts.push(Cut { at: short.len(), span });
                short.push_str(CUT);
                items.push(None);
            }
            if keep == *index {
                here = Some(items.len());
            }
            items.extend((keep < len).then_some(Some(keep)));
            next = keep + 1;
        }
        short.push_str(&self.text[at..]);
        let document = self.read(&short).filter(|document| {
            same(&document.value, &shortened(&self.document.value, &list.tokens(), &items))
        })?;
        let editor = Editor {
            text: &self.text,
            document: &self.document,
            tree,
            pointer: item,
            at_line_start: self.at_line_start,
            newline: self.newline,
            earlier: &[],
        };
        let _ = document.tree.indentation.set(*tree.indentation.get_or_init(|| editor.indentation()));
        let draft = Draft {
            has_brace: starts_with_brace(&short),
            pieces: Pieces(vec![Piece::Kept(0..short.len())]),
            span: 0..short.len(),
            text: short.into(),
            document: Cow::Owned(document),
            at_line_start: self.at_line_start,
            newline: self.newline,
        };
        Some(Excerpt { draft, cuts, there: item.clone(), here: list / here? })
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

/// What stands in an excerpt for items that are left out.
const CUT: &str = " 0";

/// Items that are left out of an excerpt.
#[derive(Debug)]
struct Cut {
    /// Where [`CUT`] stands for them.
    at: usize,
    /// Where they stand.
    span: Range<usize>,
}

/// An item of a list with little around it, as a draft by itself: what is tried there takes no reading of all
/// the others. See [`Draft::excerpt`].
#[derive(Debug)]
pub struct Excerpt {
    draft: Draft<'static>,
    cuts: Vec<Cut>,
    /// The item in the whole document.
    there: Pointer,
    /// The item here.
    here: Pointer,
}

impl Excerpt {
    /// Returns the excerpt as it is.
    #[must_use]
    pub fn draft(&self) -> &Draft<'static> {
        &self.draft
    }

    /// Returns how deep the item lies.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.here.depth()
    }

    /// Returns an operation on the item as one on the excerpt; nothing if it is about something else.
    #[must_use]
    pub fn op(&self, op: &Op) -> Option<Op> {
        let mut op = op.below(&self.there)?;
        op.move_below(&self.here);
        Some(op)
    }

    /// Returns what has become of the excerpt as changes of the text that it is from.
    #[must_use]
    pub fn edits(&self, draft: &Draft<'_>) -> Vec<Edit> {
        let there = |here: usize| match self
            .cuts
            .partition_point(|cut| cut.at < here)
            .checked_sub(1)
            .map(|last| &self.cuts[last])
        {
            Some(cut) => cut.span.end + here.saturating_sub(cut.at + CUT.len()),
            None => here,
        };
        draft
            .edits()
            .into_iter()
            .map(|Edit { span, text }| Edit { span: there(span.start)..there(span.end), text })
            .collect()
    }

    /// Says of the whole document why something was withheld here.
    #[must_use]
    pub fn withheld(&self, why: Withheld) -> Withheld {
        let there = |at: Pointer| at.below(&self.here).map_or(at, |below| self.there.join(&below));
        match why {
            Withheld::NotThere(at) => Withheld::NotThere(there(at)),
            Withheld::Shared(at) => Withheld::Shared(there(at)),
            Withheld::Layout(at) => Withheld::Layout(there(at)),
            Withheld::Differs(at) => Withheld::Differs(there(at)),
            why @ (Withheld::Stale | Withheld::Clash(_)) => why,
        }
    }
}

/// Returns a value with some items of the list at a place, and `0` for those that are left out.
fn shortened(value: &Value, way: &[&Token], items: &[Option<usize>]) -> Value {
    match (way, value) {
        ([], Value::Array(list)) => items
            .iter()
            .map(|item| item.and_then(|item| list.get(item)).cloned().unwrap_or_else(|| 0.into()))
            .collect(),
        ([Token::Key(key), rest @ ..], Value::Object(map)) => {
            let entry = |(name, value): (&str, &Value)| {
                (name.to_owned(), if name == *key { shortened(value, rest, items) } else { value.clone() })
            };
            map.iter().map(entry).collect()
        }
        ([Token::Index(index), rest @ ..], Value::Array(list)) => {
            let item =
                |(at, item)| if at == *index { shortened(item, rest, items) } else { Value::clone(item) };
            list.iter().enumerate().map(item).collect()
        }
        _ => value.clone(),
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

/// See [`Editor::above`].
struct Above {
    /// The key and the value that it goes behind, if there are any.
    behind: Option<(usize, usize)>,
    /// The key of what it goes above.
    large: usize,
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

/// A text put together from parts of the original and new ones: how edits of edits become edits of the
/// original.
#[derive(Clone, Debug)]
struct Pieces(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Kept(Range<usize>),
    New(String),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::New(text) => text.len(),
        }
    }

    fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Kept(kept) => Self::Kept(kept.start + range.start..kept.start + range.end),
            Self::New(text) => Self::New(text[range].to_owned()),
        }
    }
}

impl Pieces {
    /// Makes changes of the current text, which are sorted and apart from each other.
    fn splice(&mut self, splices: Vec<Splice>) {
        let mut out = Vec::with_capacity(self.0.len() + 2 * splices.len());
        let mut old = std::mem::take(&mut self.0).into_iter();
        // What is left of the piece at hand, and where it starts in the current text.
        let (mut rest, mut at) = (old.next(), 0);
        // Takes what lies before a place out of the pieces.
        let mut take = |until: usize, out: Option<&mut Vec<Piece>>| {
            let mut out = out;
            while at < until
                && let Some(piece) = rest.take()
            {
                let len = piece.len().min(until - at);
                at += len;
                rest = if len < piece.len() { Some(piece.part(len..piece.len())) } else { old.next() };
                if let Some(out) = &mut out {
                    out.push(piece.part(0..len));
                }
            }
        };
        for Splice { span, text, .. } in splices {
            take(span.start, Some(&mut out));
            take(span.end, None);
            out.push(Piece::New(text));
        }
        take(usize::MAX, Some(&mut out));
        out.retain(|piece| piece.len() > 0);
        self.0 = out;
    }

    /// Returns what lies between the parts of the original that stay.
    fn edits(&self, len: usize) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut at = 0;
        let mut pending = String::new();
        for piece in &self.0 {
            match piece {
                Piece::New(text) => pending.push_str(text),
                Piece::Kept(kept) => {
                    if kept.start > at || !pending.is_empty() {
                        edits.push(Edit { span: at..kept.start, text: std::mem::take(&mut pending) });
                    }
                    at = kept.end;
                }
            }
        }
        if at < len || !pending.is_empty() {
            edits.push(Edit { span: at..len, text: pending });
        }
        edits
    }
}

/// The text as it stands, with the operation at hand.
struct Editor<'e> {
    text: &'e str,
    document: &'e Document,
    tree: &'e Tree,
    /// For what is said of a withheld edit.
    pointer: &'e Pointer,
    at_line_start: bool,
    newline: &'static str,
    /// The operations that are made together with it and come before it.
    earlier: &'e [Op],
}

type Splices = Result<Vec<Splice>, Withheld>;

impl<'e> Editor<'e> {
    /// Returns the changes that an operation takes, and the collection that they are made in.
    fn lower(&self, op: &Op) -> Result<(usize, Vec<Splice>), Withheld> {
        let (Some(parent), Some(last)) = (op.pointer().parent(), op.pointer().last()) else {
            return match op {
                Op::Add(_, value) | Op::Replace(_, value) if !self.tree.is_empty() => {
                    Ok((0, self.replace(None, 0, value)?))
                }
                _ => Err(self.layout()),
            };
        };
        let container = self.container(&parent)?;
        Ok((container, self.change(container, last, op)?))
    }

    /// Returns the change of a key, and the mapping that it stands in, if two operations move a value to
    /// another key of the same mapping. So it stays where it is, with the comments around it.
    fn rename(&self, add: &Op, remove: &Op) -> Option<(usize, Vec<Splice>)> {
        let (Op::Add(to, value), Op::Remove(from)) = (add, remove) else { return None };
        let (Some(Token::Key(new)), Some(Token::Key(old))) = (to.last(), from.last()) else { return None };
        let parent = to.parent()?;
        if from.parent()? != parent
            || from.find(&self.document.value)? != value
            || to.find(&self.document.value).is_some()
        {
            return None;
        }
        let mapping = self.container(&parent).ok().filter(|at| self.tree.node(*at).kind == Kind::Mapping)?;
        let text = self.document.text();
        let named = |key: &usize| !text.is_merge(*key) && text.key(*key).is_ok_and(|(name, _)| name == **old);
        let mut keys = self.tree.entries(mapping).map(|(key, _)| key).filter(named);
        let (key, None) = (keys.next()?, keys.next()) else { return None };
        let node = self.tree.node(key);
        if node.kind != Kind::Scalar || node.start != node.content || self.tree.is_shared(key) {
            return None;
        }
        let look = Look { key_quote: self.quote(key), ..self.look(mapping) };
        Some((
            mapping,
            vec![splice(self.span(key), look.key(new, self.tree.node(mapping).style == Style::Flow))],
        ))
    }

    fn change(&self, container: usize, last: &Token, op: &Op) -> Splices {
        match (self.tree.node(container).kind, op) {
            (Kind::Mapping, _) => {
                let key = match last {
                    Token::Key(key) => key.to_string(),
                    Token::Index(index) => index.to_string(),
                };
                let field = locate::field(self.document.text(), container, &key, Found::default());
                match (op, field) {
                    (Op::Remove(_), Some(Found { via: None, .. })) => self.remove_key(container, &key),
                    (Op::Remove(_), _) => Err(self.shared()),
                    (
                        Op::Add(_, value) | Op::Replace(_, value),
                        Some(Found { via: None, key: Some(key), value: at, .. }),
                    ) => self.replace(Some((self.owner(container, at), Some(key))), at, value),
                    (Op::Add(_, value) | Op::Replace(_, value), _) => self.add_key(container, &key, value),
                }
            }
            (Kind::Sequence, _) => {
                let items: Vec<usize> = self.tree.children(container).collect();
                let Token::Index(index) = *last else { return Err(self.not_there()) };
                match op {
                    Op::Add(_, value) if index <= items.len() + self.added() => {
                        self.insert(container, &items, index.min(items.len()), value)
                    }
                    Op::Replace(_, value) if index < items.len() => {
                        self.replace(Some((container, None)), items[index], value)
                    }
                    Op::Remove(_) if index < items.len() => self.remove_item(container, &items, index),
                    _ => Err(self.not_there()),
                }
            }
            _ => Err(self.not_there()),
        }
    }

    /// Returns how many items the earlier operations add to the list that this one is about.
    fn added(&self) -> usize {
        let list = self.pointer.parent();
        self.earlier.iter().rev().take_while(|op| matches!(op, Op::Add(at, _) if at.parent() == list)).count()
    }

    fn not_there(&self) -> Withheld {
        Withheld::NotThere(self.pointer.clone())
    }

    fn shared(&self) -> Withheld {
        Withheld::Shared(self.pointer.clone())
    }

    fn layout(&self) -> Withheld {
        Withheld::Layout(self.pointer.clone())
    }

    /// Finds the mapping or list that the operation changes.
    fn container(&self, pointer: &Pointer) -> Result<usize, Withheld> {
        let found = locate::find(self.document.text(), pointer).ok_or_else(|| self.not_there())?;
        if found.via.is_some()
            || self.tree.node(found.value).kind == Kind::Alias
            || self.tree.is_shared(found.value)
        {
            return Err(self.shared());
        }
        if self.tree.node(0).style == Style::Block && !self.at_line_start {
            return Err(self.layout());
        }
        Ok(found.value)
    }

    /// Returns the mapping that a field stands in: the one that is changed, or one that it merges in.
    fn owner(&self, mapping: usize, value: usize) -> usize {
        let inside = |at: &usize| {
            self.tree.node(*at).kind == Kind::Mapping
                && (*at..self.tree.node(*at).next as usize).contains(&value)
        };
        let mut owner = mapping;
        while let Some(inner) = self.tree.children(owner).find(|child| *child != value && inside(child)) {
            owner = inner;
        }
        owner
    }

    // Text.

    fn span(&self, at: usize) -> Range<usize> {
        let node = self.tree.node(at);
        self.clamp(node.content as usize)..self.clamp(node.end as usize)
    }

    /// The document is read with a line break at its end, which the text may lack.
    fn clamp(&self, offset: usize) -> usize {
        offset.min(self.text.len())
    }

    fn line_start(&self, at: usize) -> usize {
        let start = self.text[..at].rfind(['\n', '\r']).map_or(0, |line| line + 1);
        meter::spend_text(&self.text[start..at]);
        if start == 0 && self.text.starts_with('\u{FEFF}') { 3 } else { start }
    }

    fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find(['\n', '\r']).map_or(self.text.len(), |offset| at + offset);
        meter::spend_text(&self.text[at..end]);
        end
    }

    /// Returns where the line behind the one that ends at `end` starts.
    fn next_line(&self, end: usize) -> usize {
        let rest = &self.text[end..];
        end + if rest.starts_with("\r\n") { 2 } else { usize::from(!rest.is_empty()) }
    }

    fn column(&self, at: usize) -> usize {
        self.text[self.line_start(at)..at].chars().count()
    }

    /// Tells whether only blanks stand before a place on its line. The line may be the whole file, so nothing
    /// but the blanks is looked at.
    fn is_first(&self, at: usize) -> bool {
        let before = self.text[..at].trim_end_matches(' ');
        before.is_empty() || before.ends_with(['\n', '\r']) || before == "\u{FEFF}"
    }

    /// Returns the blanks that a line starts with.
    fn indent(&self, at: usize) -> &'e str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// Returns the end of the line of `at`, if nothing but a comment follows there.
    fn end_of_line(&self, at: usize) -> Result<usize, Withheld> {
        let rest = &self.text[at..];
        let trimmed = rest.trim_start_matches([' ', '\t']);
        let blanks = rest.len() - trimmed.len();
        match trimmed.chars().next() {
            None | Some('\n' | '\r') => Ok(at + blanks),
            // Behind a quote, a bracket or a comma a comment needs no blank; behind plain text there is none
            // without.
            Some('#') => Ok(self.line_end(at + blanks)),
            // The line may be the whole file: its end is not looked for.
            Some(_) => Err(self.layout()),
        }
    }

    /// Returns the end of the comment lines that go on below a part whose line ends at `end`. They are about
    /// that part if they are indented deeper than what comes next.
    fn with_comments(&self, mut end: usize, column: usize) -> usize {
        loop {
            let next = self.next_line(end);
            let line = &self.text[next..];
            let comment = line.trim_start_matches(' ');
            if next == end || line.len() - comment.len() <= column || !comment.starts_with('#') {
                return end;
            }
            end = self.line_end(next);
        }
    }

    /// Returns the lines of a range as one span, with the line break behind them, or before them at the end
    /// of the text.
    fn lines(&self, start: usize, end: usize) -> Result<Range<usize>, Withheld> {
        let start = self.line_start(start);
        let end = self.end_of_line(end)?;
        let next = self.next_line(end);
        if next > end || start == 0 {
            return Ok(start..next);
        }
        let before = self.text[..start]
            .strip_suffix('\n')
            .map_or(&self.text[..start], |text| text.strip_suffix('\r').unwrap_or(text));
        Ok(before.len()..end)
    }

    // Style.

    fn quote(&self, at: usize) -> Option<char> {
        match self.tree.node(at).style {
            Style::Double => Some('"'),
            Style::Single => Some('\''),
            _ => None,
        }
    }

    /// Returns how a collection's text looks.
    fn look(&self, container: usize) -> Look {
        let json = self.document.is_json();
        let node = self.tree.node(container);
        let mapping = (container..node.next as usize).chain(0..container).find(|at| {
            self.tree.node(*at).kind == Kind::Mapping && self.tree.node(*at).next as usize > at + 1
        });
        let key = mapping.map(|mapping| mapping + 1);
        let key_quote = if json { Some('"') } else { key.and_then(|key| self.quote(key)) };
        // Where keys are quoted in brackets, somebody writes JSON.
        let quote = (json || node.style == Style::Flow && key_quote == Some('"')).then_some('"');
        let tight = |at: usize, mark: char| {
            let rest =
                self.text[self.clamp(self.tree.node(at).end as usize)..].trim_start_matches([' ', '\t']);
            rest.strip_prefix(mark).is_some_and(|rest| !rest.starts_with([' ', '\t', '\n', '\r']))
        };
        let flow_mapping = mapping.filter(|at| self.tree.node(*at).style == Style::Flow);
        let colon =
            if quote.is_some() && flow_mapping.is_some_and(|at| tight(at + 1, ':')) { ":" } else { ": " };
        let first = self.tree.children(container).nth(usize::from(node.kind == Kind::Mapping));
        let comma = match first {
            Some(at) if self.tree.node(at).next < node.next => tight(at, ','),
            _ => colon == ":",
        };
        let (step, indented_lists) = *self.tree.indentation.get_or_init(|| self.indentation());
        Look {
            newline: self.newline,
            step,
            indented_lists,
            key_quote,
            quote,
            colon,
            comma: if comma { "," } else { ", " },
            names_first: true,
        }
    }

    /// Returns the spaces per level and whether lists are indented, as the document has it where it first
    /// shows.
    fn indentation(&self) -> (usize, bool) {
        let (mut step, mut lists) = (None, None);
        let mut stack = vec![0];
        while let Some(at) = stack.pop() {
            let node = self.tree.node(at);
            if node.kind != Kind::Mapping || node.style != Style::Block {
                continue;
            }
            let column = self.column(node.content as usize);
            for (_, value) in self.tree.entries(at) {
                let child = self.tree.node(value);
                if child.style == Style::Block && self.is_first(child.content as usize) {
                    let deeper = self.column(child.content as usize).saturating_sub(column);
                    match child.kind {
                        Kind::Sequence => _ = lists.get_or_insert(deeper > 0),
                        _ => _ = step.get_or_insert(deeper),
                    }
                }
                if child.kind == Kind::Sequence {
                    stack.extend(self.tree.children(value));
                } else {
                    stack.push(value);
                }
            }
            if step.is_some() && lists.is_some() {
                break;
            }
        }
        (step.filter(|step| (1..=8).contains(step)).unwrap_or(2), lists.unwrap_or(true))
    }

    // Operations.

    /// Adds a key to a mapping: see [`Editor::above`], else as its last.
    fn add_key(&self, mapping: usize, key: &str, value: &Value) -> Splices {
        let node = self.tree.node(mapping);
        let look = self.look(mapping);
        let Some((last, last_value)) = self.tree.entries(mapping).last() else {
            let inside = node.content as usize + 1..self.clamp(node.end as usize) - 1;
            return Ok(vec![splice(self.blank(inside), look.entry(key, value))]);
        };
        let place = self.above(mapping, value);
        if node.style == Style::Flow {
            let print = |spread: Option<(&str, &str)>| match spread {
                Some((indent, step)) => {
                    format!("{}{}{}", look.key(key, true), look.colon, look.spread(value, indent, step))
                }
                None => look.entry(key, value),
            };
            let start = |key: usize| self.tree.node(key).start as usize;
            return Ok(match place {
                Some(Above { behind: Some((before, before_value)), .. }) if self.is_first(start(before)) => {
                    self.append(mapping, start(before), self.span(before_value).end, print)
                }
                Some(Above { behind: Some((_, before)), .. }) => {
                    let end = self.span(before).end;
                    vec![splice(end..end, look.comma.to_owned() + &print(None))]
                }
                Some(Above { behind: None, large }) => self.prepend(mapping, start(large), print),
                None => self.append(mapping, start(last), self.span(last_value).end, print),
            });
        }
        let column = self.column(node.content as usize);
        let entry = look.block_entry(key, value, column);
        let end = match place {
            Some(Above { behind: Some((_, before)), .. }) => {
                self.end_of_line(self.clamp(self.tree.node(before).end as usize))?
            }
            Some(Above { behind: None, large }) => {
                let at = self.head(self.tree.node(large).start as usize);
                return Ok(vec![splice(at..at, entry + &look.line(column))]);
            }
            None => self.end_of_line(self.clamp(node.end as usize))?,
        };
        let end = self.with_comments(end, column);
        Ok(vec![splice(end..end, look.line(column) + &entry)])
    }

    /// Returns where something short goes in a mapping that has something long, such as a limit beside the
    /// template of a pod: above the long part, behind the scalars there if it is a scalar itself. What stands
    /// right above the long part belongs to that.
    fn above(&self, mapping: usize, value: &Value) -> Option<Above> {
        let is_collection = |value: &Value| value.is_object() || value.is_array();
        let is_mapping = match value {
            Value::Object(entries) if entries.iter().any(|(_, value)| is_collection(value)) => return None,
            Value::Object(_) => true,
            Value::Array(_) => return None,
            _ => false,
        };
        let mut behind = None;
        for (key, value) in self.tree.entries(mapping) {
            if self.is_long(value) {
                return Some(Above { behind, large: key });
            }
            if is_mapping || self.tree.node(value).kind == Kind::Scalar {
                behind = Some((key, value));
            }
        }
        None
    }

    /// Tells whether a value is a mapping in which collections lie three deep, or that has a lot in it.
    fn is_long(&self, at: usize) -> bool {
        const LOT: usize = 200;
        let node = self.tree.node(at);
        let inner = |at: usize| {
            self.tree
                .children(at)
                .filter(|child| matches!(self.tree.node(*child).kind, Kind::Mapping | Kind::Sequence))
        };
        node.kind == Kind::Mapping
            && (node.next as usize - at > LOT
                || inner(at).any(|inside| inner(inside).any(|inside| inner(inside).next().is_some())))
    }

    /// Returns where a key with the comment right above it starts.
    fn head(&self, key: usize) -> usize {
        let mut start = key;
        while self.is_first(start) {
            let line = self.line_start(start);
            let before = self.text[..line].trim_end_matches(['\n', '\r']);
            let above = self.line_start(before.len());
            let comment = &before[above.min(before.len())..];
            let blanks = comment.len() - comment.trim_start_matches(' ').len();
            if line == 0
                || self.next_line(before.len()) != line
                || !comment[blanks..].starts_with('#')
                || above + blanks == start
            {
                break;
            }
            if blanks != self.column(key) {
                // It goes on with what is said of something above.
                break;
            }
            start = above + blanks;
        }
        start
    }

    /// Puts a part before another one of a collection in brackets, which starts at `start`.
    fn prepend(
        &self,
        container: usize,
        start: usize,
        print: impl Fn(Option<(&str, &str)>) -> String,
    ) -> Vec<Splice> {
        let look = self.look(container);
        if !self.is_first(start) {
            return vec![splice(start..start, print(None) + look.comma)];
        }
        let indent = self.indent(start);
        let step =
            indent.strip_prefix(self.indent(self.tree.node(container).content as usize)).unwrap_or_default();
        let text = print((!step.is_empty()).then_some((indent, step)));
        let start = self.head(start);
        vec![splice(start..start, format!("{text},{}{indent}", look.newline))]
    }

    /// Returns the inside of empty brackets if it is to go: blanks, but no lines.
    fn blank(&self, inside: Range<usize>) -> Range<usize> {
        let blank = self.text[inside.clone()].bytes().all(|byte| byte == b' ');
        if blank { inside } else { inside.start..inside.start }
    }

    /// Appends to a collection in brackets, behind its last part. What is printed gets the indentation if
    /// parts stand on lines of their own.
    fn append(
        &self,
        container: usize,
        last: usize,
        end: usize,
        print: impl Fn(Option<(&str, &str)>) -> String,
    ) -> Vec<Splice> {
        let look = self.look(container);
        let rest = &self.text[end..];
        let comma = rest
            .trim_start_matches([' ', '\t', '\n', '\r'])
            .starts_with(',')
            .then(|| end + rest.find(',').unwrap_or_default() + 1);
        let behind = comma.unwrap_or(end);
        if !self.is_first(last) {
            let space = if look.comma == "," { "" } else { " " };
            let text = print(None);
            return vec![splice(
                behind..behind,
                if comma.is_some() { format!("{space}{text}") } else { format!("{}{text}", look.comma) },
            )];
        }
        let indent = self.indent(last);
        let outer = self.indent(self.tree.node(container).content as usize);
        let step = indent.strip_prefix(outer).unwrap_or_default();
        let text = format!(
            "{}{indent}{}{}",
            look.newline,
            print((!step.is_empty()).then_some((indent, step))),
            if comma.is_some() { "," } else { "" }
        );
        let line =
            self.end_of_line(behind).map_or(behind, |line| self.with_comments(line, self.column(last)));
        if comma.is_some() {
            return vec![splice(line..line, text)];
        }
        if self.text[end..line].trim().is_empty() {
            return vec![splice(end..end, format!(",{text}"))];
        }
        vec![splice(end..end, ","), splice(line..line, text)]
    }

    /// Inserts an item into a list.
    fn insert(&self, list: usize, items: &[usize], index: usize, value: &Value) -> Splices {
        let node = self.tree.node(list);
        let look = self.look(list);
        if items.is_empty() {
            let inside = node.content as usize + 1..self.clamp(node.end as usize) - 1;
            return Ok(vec![splice(self.blank(inside), look.inline(value, true))]);
        }
        let print = |spread: Option<(&str, &str)>| match spread {
            Some((indent, step)) => look.spread(value, indent, step),
            None => look.inline(value, true),
        };
        if node.style == Style::Flow {
            if index == items.len() {
                let last = items[index - 1];
                return Ok(self.append(
                    list,
                    self.tree.node(last).start as usize,
                    self.span(last).end,
                    print,
                ));
            }
            return Ok(self.prepend(list, self.tree.node(items[index]).start as usize, print));
        }
        let start = node.content as usize;
        let column = self.column(start);
        let item = format!("- {}", look.block(value, column + 2));
        if index == 0 {
            return Ok(vec![splice(start..start, item + &look.line(column))]);
        }
        let end = self.with_comments(
            self.end_of_line(self.clamp(self.tree.node(items[index - 1]).end as usize))?,
            column,
        );
        Ok(vec![splice(end..end, look.line(column) + &item)])
    }

    /// Puts a value in the place of a node, whose parent and key are given.
    fn replace(&self, place: Option<(usize, Option<usize>)>, at: usize, value: &Value) -> Splices {
        if self.tree.is_shared(at) {
            return Err(self.shared());
        }
        let node = self.tree.node(at);
        let parent = place.map(|(parent, _)| parent);
        let mut look = self.look(parent.unwrap_or(at));
        if value.is_string() && matches!(node.style, Style::Single | Style::Double) {
            look.quote = self.quote(at);
        }
        // An anchor that nothing refers to may stay; a tag was for the old value.
        let start = if node.tag == Tag::None { node.content } else { node.start } as usize;
        let (start, end) = (self.clamp(start), self.clamp(node.end as usize));
        let is_flow = parent.is_some_and(|parent| self.tree.node(parent).style == Style::Flow)
            || self.document.is_json();
        if is_flow {
            if node.is_absent() {
                let colon = if self.text[..start].trim_end().ends_with(':') { " " } else { ": " };
                return Ok(vec![splice(start..start, colon.to_owned() + &look.inline(value, true))]);
            }
            let own_line =
                place.map_or(start, |(_, key)| key.map_or(start, |key| self.tree.node(key).start as usize));
            let outer = || Some(self.indent(self.tree.node(parent?).content as usize));
            let indent = self.is_first(own_line).then(|| self.indent(own_line));
            let step = indent.and_then(|indent| indent.strip_prefix(outer()?)).unwrap_or_default();
            let text = match indent {
                Some(indent) if !step.is_empty() => look.spread(value, indent, step),
                _ => look.inline(value, true),
            };
            return Ok(vec![splice(start..end, text)]);
        }
        if node.style == Style::Flow && !is_inline(value) {
            return Ok(vec![splice(start..end, look.inline(value, true))]);
        }
        match (is_inline(value), node.style == Style::Block) {
            (true, false) => {
                let space = if node.is_absent() && !self.text[..start].ends_with([' ', '\t', '\n', '\r']) {
                    " "
                } else {
                    ""
                };
                Ok(vec![splice(start..end, space.to_owned() + &look.inline(value, false))])
            }
            (true, true) => self.replace_block(place, at, &look.inline(value, false)),
            (false, true) => {
                let column = self.column(node.content as usize);
                let outer = parent.map(|parent| self.column(self.tree.node(parent).content as usize));
                if value.is_object()
                    && node.kind == Kind::Sequence
                    && outer.is_some_and(|outer| outer >= column)
                {
                    return Err(self.layout());
                }
                Ok(vec![splice(node.content as usize..end, look.block(value, column))])
            }
            (false, false) => self.replace_inline(place, at, &look, value),
        }
    }

    /// Puts text on one line in the place of a collection by indentation.
    fn replace_block(&self, place: Option<(usize, Option<usize>)>, at: usize, text: &str) -> Splices {
        let node = self.tree.node(at);
        let (start, end) = (node.content as usize, self.clamp(node.end as usize));
        let Some((_, key)) = place.filter(|_| self.is_first(start)) else {
            return Ok(vec![splice(start..end, text)]);
        };
        if node.start != node.content {
            return Err(self.layout());
        }
        let introducer = match key {
            Some(key) => self.colon(key)?,
            None => self.dash(at)? + 1,
        };
        Ok(vec![splice(introducer..introducer, format!(" {text}")), splice(self.lines(start, end)?, "")])
    }

    /// Puts a collection by indentation in the place of a scalar.
    fn replace_inline(
        &self,
        place: Option<(usize, Option<usize>)>,
        at: usize,
        look: &Look,
        value: &Value,
    ) -> Splices {
        let node = self.tree.node(at);
        let (start, end) = (self.clamp(node.start as usize), self.clamp(node.end as usize));
        let Some((parent, key)) = place else { return Ok(vec![splice(start..end, look.block(value, 0))]) };
        let column = self.column(self.tree.node(parent).content as usize);
        let Some(key) = key else {
            let space = if node.is_absent() { " " } else { "" };
            return Ok(vec![splice(start..end, space.to_owned() + &look.block(value, column + 2))]);
        };
        if self.is_first(start) {
            return Ok(vec![splice(start..end, look.block(value, self.column(start)))]);
        }
        let colon = self.colon(key)?;
        let line = self.end_of_line(end)?;
        let text = look.behind_colon(value, column);
        if line == end {
            return Ok(vec![splice(colon..end, text)]);
        }
        Ok(vec![splice(colon..end, ""), splice(line..line, text)])
    }

    /// Returns the place right behind a key's colon.
    fn colon(&self, key: usize) -> Result<usize, Withheld> {
        let end = self.clamp(self.tree.node(key).end as usize);
        let rest = &self.text[end..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if rest[blanks..].starts_with(':') { Ok(end + blanks + 1) } else { Err(self.layout()) }
    }

    /// Returns the place of an item's dash.
    fn dash(&self, item: usize) -> Result<usize, Withheld> {
        let before = self.text[..self.clamp(self.tree.node(item).start as usize)]
            .trim_end_matches([' ', '\t', '\n', '\r']);
        if before.ends_with('-') { Ok(before.len() - 1) } else { Err(self.layout()) }
    }

    /// Takes a key out of a mapping, every time it stands there.
    fn remove_key(&self, mapping: usize, name: &str) -> Splices {
        let text = self.document.text();
        let entries: Vec<(usize, usize)> = self.tree.entries(mapping).collect();
        let named = |key: usize| !text.is_merge(key) && text.key(key).is_ok_and(|(key, _)| key == name);
        let doomed: Vec<usize> = (0..entries.len()).filter(|index| named(entries[*index].0)).collect();
        if doomed.is_empty() {
            return Err(self.layout());
        }
        let parts: Vec<Range<usize>> = entries
            .iter()
            .map(|(key, value)| {
                let end = self.tree.node(*value).end.max(self.tree.node(*key).end) as usize;
                self.clamp(self.tree.node(*key).start as usize)..self.clamp(end)
            })
            .collect();
        if doomed.iter().any(|index| self.tree.is_shared(entries[*index].1)) {
            return Err(self.shared());
        }
        self.remove(mapping, &parts, &doomed, &Value::Object(Default::default()))
    }

    /// Takes an item out of a list.
    fn remove_item(&self, list: usize, items: &[usize], index: usize) -> Splices {
        if self.tree.is_shared(items[index]) {
            return Err(self.shared());
        }
        let is_flow = self.tree.node(list).style == Style::Flow;
        let part = |item: &usize| {
            let start = if is_flow { self.tree.node(*item).start as usize } else { self.dash(*item)? };
            Ok(self.clamp(start)..self.clamp(self.tree.node(*item).end as usize))
        };
        let parts: Vec<Range<usize>> = items.iter().map(part).collect::<Result<_, Withheld>>()?;
        self.remove(list, &parts, &[index], &Value::Array(Vec::new()))
    }

    /// Takes parts out of a collection; what would be left empty becomes `empty`.
    fn remove(&self, container: usize, parts: &[Range<usize>], doomed: &[usize], empty: &Value) -> Splices {
        let node = self.tree.node(container);
        if doomed.len() == parts.len() {
            let place = (container > 0).then(|| self.place(container));
            return self.replace(place, container, empty);
        }
        let mut splices = Vec::new();
        for index in doomed.iter().copied() {
            let part = parts[index].clone();
            if node.style == Style::Flow {
                let span = match parts.get(index + 1) {
                    Some(next) => part.start..next.start,
                    // The comma before it goes along, and the whole tail if that goes too.
                    None => {
                        let stays =
                            (0..index).rev().find(|index| !doomed.contains(index)).unwrap_or_default();
                        parts[stays].end..part.end
                    }
                };
                splices.push(splice(span, ""));
            } else if self.is_first(part.start) {
                splices.push(splice(self.lines(part.start, part.end)?, ""));
            } else {
                // The first part, behind a dash: the next one moves up.
                let next = parts.get(index + 1).ok_or_else(|| self.layout())?;
                let line = self.end_of_line(part.end)?;
                if self.text[line..next.start].contains('#') || doomed.contains(&(index + 1)) {
                    return Err(self.layout());
                }
                splices.push(splice(part.start..next.start, ""));
            }
        }
        Ok(splices)
    }

    /// Returns the parent of a collection, and its key there.
    fn place(&self, at: usize) -> (usize, Option<usize>) {
        let parent = (0..at).rev().find(|parent| {
            let node = self.tree.node(*parent);
            matches!(node.kind, Kind::Mapping | Kind::Sequence) && at < node.next as usize
        });
        let parent = parent.unwrap_or_default();
        let key = match self.tree.node(parent).kind {
            Kind::Mapping => self.tree.entries(parent).find(|(_, value)| *value == at).map(|(key, _)| key),
            _ => None,
        };
        (parent, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn at(source: &str, index: usize) -> Document {
        super::super::documents(source.as_bytes()).nth(index).unwrap().unwrap()
    }

    fn try_make(source: &str, ops: &[Op]) -> Result<String, Withheld> {
        let edits = edit(source.as_bytes(), &at(source, 0), ops)?;
        let mut out = source.to_owned();
        for edit in edits.into_iter().rev() {
            out.replace_range(edit.span, &edit.text);
        }
        Ok(out)
    }

    #[track_caller]
    fn check(source: &str, ops: &[Op], expected: &str) {
        assert_eq!(try_make(source, ops).as_deref(), Ok(expected), "{source}");
    }

    fn p(path: &str, source: &str) -> Pointer {
        Pointer::parse(path, &at(source, 0).value).unwrap()
    }

    #[track_caller]
    fn add(source: &str, path: &str, value: Value, expected: &str) {
        check(source, &[Op::Add(p(path, source), value)], expected);
    }

    #[track_caller]
    fn replace(source: &str, path: &str, value: Value, expected: &str) {
        check(source, &[Op::Replace(p(path, source), value)], expected);
    }

    #[track_caller]
    fn remove(source: &str, path: &str, expected: &str) {
        check(source, &[Op::Remove(p(path, source))], expected);
    }

    #[test]
    fn adds_keys_to_blocks() {
        add("a: 1\n", "/b", json!(2), "a: 1\nb: 2\n");
        add("a: 1", "/b", json!(2), "a: 1\nb: 2");
        add("a: 1 # one\n# end\n", "/b", json!("x"), "a: 1 # one\nb: x\n# end\n");
        add(
            "s:\n    t: 1\n\n# next\nu: 1\n",
            "/s/v",
            json!({"w": [1, {"x": "yes"}]}),
            "s:\n    t: 1\n    v:\n        w:\n            - 1\n            - x: \"yes\"\n\n# next\nu: 1\n",
        );
        add("l:\n- a: 1\n- a: 2\n", "/l/0/b", json!([1]), "l:\n- a: 1\n  b:\n  - 1\n- a: 2\n");
        add(
            "a: 1\r\nb:\r\n  c: 1\r\n",
            "/b/d",
            json!({"k": null}),
            "a: 1\r\nb:\r\n  c: 1\r\n  d:\r\n    k: null\r\n",
        );
        add("a: |\n  text\n\nb: 1\n", "/c", json!("n"), "a: |\n  text\n\nb: 1\nc: \"n\"\n");
        add("s:\n  a: |+\n    text\n\nb: 1\n", "/s/c", json!(1), "s:\n  a: |+\n    text\n\n  c: 1\nb: 1\n");
        add("\"a\": \"1\"\n", "/b", json!("x"), "\"a\": \"1\"\n\"b\": x\n");
        add("a:\n", "/b", json!(1), "a:\nb: 1\n");
        add("\u{FEFF}a: 1\n", "/b", json!(1), "\u{FEFF}a: 1\nb: 1\n");
        add("a: 1\n...\n", "/b", json!(1), "a: 1\nb: 1\n...\n");
    }

    #[test]
    fn what_is_short_goes_above_what_is_long() {
        let long = "template:\n    spec:\n      containers:\n      - name: a\n  more: {}\n";
        let with = |before: &str, added: &str| format!("spec:\n{before}{added}  {long}");
        for (before, added) in [
            ("  a: 1 # one\n", "  l: 2\n"),
            ("  a: \"x\n y\"\n", "  l: 2\n"),
            ("  a:\n", "  l: 2\n"),
            ("  a: |\n    text\n", "  l: 2\n"),
            ("  a: |+\n    text\n\n", "  l: 2\n"),
            ("", "  l: 2\n"),
            ("# far\n\n", "  l: 2\n"),
        ] {
            add(&with(before, ""), "/spec/l", json!(2), &with(before, added));
        }
        // A comment stays above what it is about.
        let comment = "  # the pods\n  # of it\n";
        add(
            &with(&format!("  a: 1\n{comment}"), ""),
            "/spec/l",
            json!(2),
            &with(&format!("  a: 1\n  l: 2\n{comment}"), ""),
        );
        add(&with(comment, ""), "/spec/l", json!(2), &with(&format!("  l: 2\n{comment}"), ""));
        add(
            &with(&format!("  a: 1\n  b:\n    c: 1\n{comment}"), ""),
            "/spec/l",
            json!({"x": 1}),
            &with(&format!("  a: 1\n  b:\n    c: 1\n  l:\n    x: 1\n{comment}"), ""),
        );
        // A scalar stays with the scalars; something long goes to the end.
        add(
            &with("  a: 1\n  b:\n    c: 1\n", ""),
            "/spec/l",
            json!(2),
            &with("  a: 1\n  l: 2\n  b:\n    c: 1\n", ""),
        );
        add(&with("  a: 1\n", ""), "/spec/l", json!([1]), &format!("{}  l:\n  - 1\n", with("  a: 1\n", "")));
        // In an item, where the dash is, and in brackets.
        add("- template: {a: {b: {c: {}}}}\n", "/0/l", json!(2), "- l: 2\n  template: {a: {b: {c: {}}}}\n");
        add("{t: {a: {b: {c: {}}}}}\n", "/l", json!(2), "{l: 2, t: {a: {b: {c: {}}}}}\n");
        add("s: {a: 1, t: {a: {b: {c: {}}}}}\n", "/s/l", json!(2), "s: {a: 1, l: 2, t: {a: {b: {c: {}}}}}\n");
        let json = "{\n  \"a\": 1,\n  \"t\": {\"a\": {\"b\": {\"c\": {}}}}\n}\n";
        add(json, "/l", json!(2), &json.replace("1,\n", "1,\n  \"l\": 2,\n"));
        add(&json.replace("  \"a\": 1,\n", ""), "/l", json!(2), &json.replace("\"a\": 1", "\"l\": 2"));
        add(
            &format!("\u{FEFF}{}", with("", "").replace('\n', "\r\n")),
            "/spec/l",
            json!(2),
            &format!("\u{FEFF}{}", with("", "  l: 2\n").replace('\n', "\r\n")),
        );
    }

    #[test]
    fn adds_keys_to_brackets() {
        add("a: {}\n", "/a/b", json!(1), "a: {b: 1}\n");
        add("a: { }\n", "/a/b", json!(1), "a: {b: 1}\n");
        add("a: { b: 1 }\n", "/a/c", json!({"d": [1]}), "a: { b: 1, c: {d: [1]} }\n");
        add("a: {b: 1,}\n", "/a/c", json!(2), "a: {b: 1, c: 2}\n");
        add(
            "a: {\n  b: 1, # one\n  c: 2 # two\n}\n",
            "/a/d",
            json!(3),
            "a: {\n  b: 1, # one\n  c: 2, # two\n  d: 3\n}\n",
        );
        add("a: {\n  b: 1,\n}\n", "/a/d", json!({"e": 3}), "a: {\n  b: 1,\n  d: {\n    e: 3\n  },\n}\n");
        add("{\"a\":1,\"b\":[]}", "/c", json!({"d": ["x", 1]}), "{\"a\":1,\"b\":[],\"c\":{\"d\":[\"x\",1]}}");
        add(
            "{\n    \"a\": 1\n}\n",
            "/c",
            json!({"d": ["x"]}),
            "{\n    \"a\": 1,\n    \"c\": {\n        \"d\": [\n            \"x\"\n        ]\n    }\n}\n",
        );
        add("{\"a\": {}, \"b\": 1}", "/a/c", json!("y"), "{\"a\": {\"c\": \"y\"}, \"b\": 1}");
        add(
            "# JSON in YAML\n{\"a\": \"x\"}\n",
            "/b",
            json!("y"),
            "# JSON in YAML\n{\"a\": \"x\", \"b\": \"y\"}\n",
        );
    }

    #[test]
    fn inserts_into_lists() {
        add(
            "a:\n- 1\n- 2 # two\nb: 1\n",
            "/a/2",
            json!({"x": 1, "z": [2]}),
            "a:\n- 1\n- 2 # two\n- x: 1\n  z:\n  - 2\nb: 1\n",
        );
        add("a:\n  # first\n  - 1\n  - 2\n", "/a/0", json!("n"), "a:\n  # first\n  - \"n\"\n  - 1\n  - 2\n");
        add("a:\n  - 1 # one\n  - 2\n", "/a/1", json!(5), "a:\n  - 1 # one\n  - 5\n  - 2\n");
        add("a: []\n", "/a/0", json!({"k": 1}), "a: [{k: 1}]\n");
        add("a: [1, 2]\n", "/a/2", json!("x,y"), "a: [1, 2, \"x,y\"]\n");
        add("a: [1, 2]\n", "/a/1", json!(5), "a: [1, 5, 2]\n");
        add(
            "{\n \"a\": [\n  1\n ]\n}",
            "/a/1",
            json!({"b": 1}),
            "{\n \"a\": [\n  1,\n  {\n   \"b\": 1\n  }\n ]\n}",
        );
        add("{\n \"a\": [\n  1\n ]\n}", "/a/0", json!(0), "{\n \"a\": [\n  0,\n  1\n ]\n}");
        add("- - 1\n  - 2\n- 3\n", "/0/2", json!(4), "- - 1\n  - 2\n  - 4\n- 3\n");
    }

    #[test]
    fn replaces() {
        replace("a: Always # why\n", "/a", json!("Never"), "a: Never # why\n");
        replace("a: 'x'\nb: \"y\"\n", "/a", json!("z"), "a: 'z'\nb: \"y\"\n");
        replace("a: 'x'\n", "/a", json!(3), "a: 3\n");
        replace("a:\nb: 1\n", "/a", json!(3), "a: 3\nb: 1\n");
        replace("a:   # none\nb: 1\n", "/a", json!({"c": 1}), "a:   # none\n  c: 1\nb: 1\n");
        replace("a: null # none\nb: 1\n", "/a", json!({"c": 1}), "a: # none\n  c: 1\nb: 1\n");
        replace("a: null\nb: 1\n", "/a", json!([1]), "a:\n  - 1\nb: 1\n");
        replace("a: {b: 1}\n", "/a/b", json!({"c": 1}), "a: {b: {c: 1}}\n");
        replace("a: |\n  x\n  y\nb: 1\n", "/a", json!("z"), "a: z\nb: 1\n");
        replace("a:\n  # c\n  b: 1\n  d: 2\ne: 1\n", "/a", json!(5), "a: 5\n  # c\ne: 1\n");
        replace("a:\n  b: 1\n", "/a", json!({"c": [1]}), "a:\n  c:\n    - 1\n");
        replace("- a: 1\n  b: 2\n- 3\n", "/0", json!(1), "- 1\n- 3\n");
        replace("-\n- 3\n", "/0", json!({"x": 1}), "- x: 1\n- 3\n");
        replace("a: !!str 1\n", "/a", json!(1), "a: 1\n");
        replace("a: &x 1\n", "/a", json!(2), "a: &x 2\n");
        replace("a: &x 1\nb: *x\n", "/b", json!(2), "a: &x 1\nb: 2\n");
        replace("{\"a\": [1, \"b\"]}", "/a/1", json!(null), "{\"a\": [1, null]}");
        replace("{a, b: 1}", "/a", json!(1), "{a: 1, b: 1}");
    }

    #[test]
    fn removes() {
        remove("a: 1\nb: 2 # two\nc: 3\n", "/b", "a: 1\nc: 3\n");
        remove("a: 1\nb: 2", "/b", "a: 1");
        remove("a:\n  b: 1\nc: 3\n", "/a/b", "a: {}\nc: 3\n");
        remove("a:\n  b: |\n    x\n  c: 3\n", "/a/b", "a:\n  c: 3\n");
        remove("- a: 1\n  b: 2\n", "/0/a", "- b: 2\n");
        remove("- a: 1\n", "/0/a", "- {}\n");
        remove("a:\n- 1\n- 2\n", "/a/0", "a:\n- 2\n");
        remove("a:\n- 1\nb: 1\n", "/a/0", "a: []\nb: 1\n");
        remove("a: {b: 1, c: 2}\n", "/a/b", "a: {c: 2}\n");
        remove("a: {b: 1, c: 2}\n", "/a/c", "a: {b: 1}\n");
        remove("a: {b: 1}\n", "/a/b", "a: {}\n");
        remove("a: 1\nb: 2\na: 3\n", "/a", "b: 2\n");
        remove("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "/b", "{\n  \"a\": 1\n}\n");
        remove("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "/a", "{\n  \"b\": 2\n}\n");
    }

    #[test]
    fn a_key_is_renamed_where_it_stands() {
        let renamed = |source: &str, path: &str, to: &str, expected: &str| {
            let from = p(path, source);
            let value = from.find(&at(source, 0).value).unwrap().clone();
            let target = from.parent().unwrap().key(to);
            check(source, &[Op::Add(target, value), Op::Remove(from)], expected);
        };
        renamed(
            "s:\n  # why\n  wrong: 1 # so\n  b: 2\n",
            "/s/wrong",
            "right",
            "s:\n  # why\n  right: 1 # so\n  b: 2\n",
        );
        renamed(
            "wrong:\n  - a # one\n  - {b: 2}\nc: 3\n",
            "/wrong",
            "right",
            "right:\n  - a # one\n  - {b: 2}\nc: 3\n",
        );
        renamed(
            "{\"a\": 1, \"wrong\": {\"x\": [1]}}",
            "/wrong",
            "right",
            "{\"a\": 1, \"right\": {\"x\": [1]}}",
        );
        renamed("a: {'wrong': 1, b: 2}\n", "/a/wrong", "on", "a: {'on': 1, b: 2}\n");
        renamed("wrong: 1\n", "/wrong", "on", "\"on\": 1\n");
        renamed("? wrong\n: 1\n", "/wrong", "right", "? right\n: 1\n");
        renamed("wrong: &a {x: 1}\nb: *a\n", "/wrong", "right", "right: &a {x: 1}\nb: *a\n");
        // A key that stands there twice, or with an anchor, is moved.
        renamed("wrong: 1\nb: 2\nwrong: 3\n", "/wrong", "right", "b: 2\nright: 3\n");
        renamed("&k wrong: 1\nb: 2\n", "/wrong", "right", "b: 2\nright: 1\n");
        // What merges in from elsewhere is no key to rename, and another value is no renaming.
        let merged = "base: &b {wrong: 1}\nuse:\n  <<: *b\n  c: 1\n";
        let ops = [Op::Add(p("/use/right", merged), json!(1)), Op::Remove(p("/use/wrong", merged))];
        assert!(matches!(try_make(merged, &ops), Err(Withheld::Shared(_))));
        check(
            "a: 1\nwrong: 1\n",
            &[Op::Add(Pointer::of(&["right"]), json!(2)), Op::Remove(Pointer::of(&["wrong"]))],
            "a: 1\nright: 2\n",
        );
    }

    #[test]
    fn a_comment_that_goes_on_stays_with_its_key() {
        let on = "# one\n       # two\n";
        add(&format!("a: 1 {on}"), "/b", json!(2), &format!("a: 1 {on}b: 2\n"));
        add(
            &format!("a:\n  b: 1 {on}# three\nc: 1\n"),
            "/a/d",
            json!(2),
            &format!("a:\n  b: 1 {on}  d: 2\n# three\nc: 1\n"),
        );
        add("a:\n  b: 1\n  # c: 2\n", "/d", json!(2), "a:\n  b: 1\n  # c: 2\nd: 2\n");
        add(
            "a:\n- 1 # one\n    # two\n# three\n",
            "/a/1",
            json!(2),
            "a:\n- 1 # one\n    # two\n- 2\n# three\n",
        );
        add(
            "a: {\n  b: 1 # one\n       # two\n}\n",
            "/a/c",
            json!(2),
            "a: {\n  b: 1, # one\n       # two\n  c: 2\n}\n",
        );
        // Above what is long, the comment of that stays with it.
        let long = "  # the pods\n  t: {a: {b: {c: {}}}}\n";
        for before in ["s: # one\n   # two\n", "s:\n  a: 1 # one\n       # two\n"] {
            add(&format!("{before}{long}"), "/s/l", json!(2), &format!("{before}  l: 2\n{long}"));
        }
        for before in ["s: {\n", "s: { # one\n    # two\n", "s: {\n  a: 1, # one\n        # two\n"] {
            add(&format!("{before}{long}}}\n"), "/s/l", json!(2), &format!("{before}  l: 2,\n{long}}}\n"));
        }
        add("a: [\n  # one\n  1\n]\n", "/a/0", json!(0), "a: [\n  0,\n  # one\n  1\n]\n");
    }

    #[test]
    fn a_comment_right_behind_a_bracket_stays_one() {
        add("a: {b: 1}# c\n", "/d", json!(2), "a: {b: 1}# c\nd: 2\n");
        add("a: {b: 1}# c\n", "/a/d", json!(2), "a: {b: 1, d: 2}# c\n");
        add("a: {\n  b: [1]# c\n}\n", "/a/d", json!(2), "a: {\n  b: [1], # c\n  d: 2\n}\n");
        replace("a: {b: 1}# c\n", "/a", json!(2), "a: 2 # c\n");
        replace("a: \"b\"# c\n", "/a", json!(2), "a: 2 # c\n");
        remove("a: {b: 1, c: []# d\n}\n", "/a/c", "a: {b: 1 # d\n}\n");
        remove("a: [1]# c\nb: 1\n", "/a", "b: 1\n");
    }

    #[test]
    fn what_an_item_is_called_comes_first() {
        let item = json!([{"effect": "e", "key": "k", "operator": "o"}]);
        add("a: 1\n", "/b", item.clone(), "a: 1\nb:\n  - key: k\n    operator: o\n    effect: e\n");
        let valued = json!([{"value": "v", "effect": "e", "operator": "o", "key": "k"}]);
        add("a: 1\n", "/b", valued, "a: 1\nb:\n  - key: k\n    operator: o\n    value: v\n    effect: e\n");
        add(
            "{\"a\": 1}",
            "/b",
            item,
            "{\"a\": 1, \"b\": [{\"key\": \"k\", \"operator\": \"o\", \"effect\": \"e\"}]}",
        );
    }

    #[test]
    fn several_changes_make_one_edit_each() {
        let source = "spec:\n  template:\n    spec:\n      containers: []\n# end\n";
        let spec = Pointer::of(&["spec"]);
        let ops = [
            Op::Add(&spec / "activeDeadlineSeconds", json!(3600)),
            Op::Add(&spec / "ttlSecondsAfterFinished", json!(86400)),
            Op::Add(&spec / "template" / "metadata", json!({"labels": {"a": "b"}})),
            Op::Add(&spec / "template" / "metadata" / "labels" / "c", json!("d")),
        ];
        let expected = "spec:\n  template:\n    spec:\n      containers: []\n    metadata:\n      labels:\n        a: b\n        c: d\n  activeDeadlineSeconds: 3600\n  ttlSecondsAfterFinished: 86400\n# end\n";
        check(source, &ops, expected);
        assert_eq!(edit(source.as_bytes(), &at(source, 0), &ops).unwrap().len(), 1);
        // What is added and taken out again leaves no trace.
        check(source, &[Op::Add(&spec / "x", json!(1)), Op::Remove(&spec / "x")], source);
    }

    #[test]
    fn edits_speak_of_the_whole_source() {
        let source = "a: 1\n---\n# second\nb: 1\n---\nc: 1\n";
        let edits =
            edit(source.as_bytes(), &at(source, 1), &[Op::Add(Pointer::of(&["x"]), json!(2))]).unwrap();
        assert_eq!(edits, [Edit { span: 22..22, text: "\nx: 2".into() }]);
        let source = "{\"a\":1}\n{\"b\":1}\n";
        let edits = edit(source.as_bytes(), &at(source, 1), &[Op::Remove(Pointer::of(&["b"]))]).unwrap();
        assert_eq!(edits, [Edit { span: 8..15, text: "{}".into() }]);
    }

    #[test]
    fn shared_places_are_withheld() {
        let source = "base: &b {x: 1}\nuse: *b\nmore:\n  <<: *b\n  y: 2\n";
        let of = |path: &str| p(path, source);
        for path in ["/use/x", "/base/x"] {
            assert_eq!(try_make(source, &[Op::Replace(of(path), json!(2))]), Err(Withheld::Shared(of(path))));
        }
        assert_eq!(try_make(source, &[Op::Remove(of("/more/x"))]), Err(Withheld::Shared(of("/more/x"))));
        // A key of the mapping's own overrides what it merges in.
        check(
            source,
            &[Op::Replace(of("/more/x"), json!(5))],
            "base: &b {x: 1}\nuse: *b\nmore:\n  <<: *b\n  y: 2\n  x: 5\n",
        );
        check(
            source,
            &[Op::Replace(of("/use"), json!({"x": 5}))],
            "base: &b {x: 1}\nuse:\n  x: 5\nmore:\n  <<: *b\n  y: 2\n",
        );
        let list = "a: &l\n  - 1\nb: *l\n";
        assert!(matches!(try_make(list, &[Op::Add(p("/a/1", list), json!(2))]), Err(Withheld::Shared(_))));
        assert!(matches!(try_make(list, &[Op::Remove(p("/nothing", list))]), Err(Withheld::NotThere(_))));
    }

    #[test]
    fn inline_merges_are_edited_where_they_stand() {
        let source = "a:\n  <<: {b: 1, c: 2}\n  d: 1\n";
        replace(source, "/a/b", json!(5), "a:\n  <<: {b: 5, c: 2}\n  d: 1\n");
    }
}
