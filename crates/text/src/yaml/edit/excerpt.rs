//! One list item as a small document, so that trying an edit does not parse all other items.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use super::pieces::Pieces;
use super::{Draft, Edit, Withheld, same, starts_with_brace, tail};
use crate::patch::Op;
use crate::pointer::{Pointer, Token};
use crate::value::Value;
use crate::yaml::locate;
use crate::yaml::tree::NodeKind;

impl Draft<'_> {
    /// Returns the document with each run of other items of a list replaced by one value; nothing if that
    /// would parse differently.
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
        // Keep the items that aliases refer to.
        let (mut kept, mut open) = (BTreeSet::from([*index]), vec![*index]);
        while let Some(index) = open.pop() {
            let at = node(index)?;
            let inner = (at..tree.node(at).next as usize).filter(|at| tree.node(*at).kind == NodeKind::Alias);
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
        let indentation = || self.editor(item, &[]).indentation();
        let _ = document.tree.indentation.set(*tree.indentation.get_or_init(indentation));
        let draft = Draft {
            open: tail::open_end(&short, &document),
            has_brace: starts_with_brace(&short),
            pieces: Pieces::whole(short.len()),
            span: 0..short.len(),
            text: short.into(),
            document: Cow::Owned(document),
            at_line_start: self.at_line_start,
            newline: self.newline,
        };
        Some(Excerpt { draft, cuts, there: item.clone(), here: list / here? })
    }
}

/// The text that replaces a run of items in an excerpt.
const CUT: &str = " 0";

/// A run of items that an excerpt leaves out.
#[derive(Debug)]
struct Cut {
    /// Where [`CUT`] is in the excerpt.
    at: usize,
    /// Where the items are in the document.
    span: Range<usize>,
}

/// A draft with one item of a long list. See [`Draft::excerpt`].
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
    /// Returns the unchanged excerpt.
    #[must_use]
    pub fn draft(&self) -> &Draft<'static> {
        &self.draft
    }

    /// Returns the depth of the item.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.here.depth()
    }

    /// Returns an operation on the item as one on the excerpt; nothing for any other operation.
    #[must_use]
    pub fn op(&self, op: &Op) -> Option<Op> {
        let mut op = op.below(&self.there)?;
        op.move_below(&self.here);
        Some(op)
    }

    /// Returns the edits of a draft of the excerpt as edits of the original text.
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

    /// Returns an error in the excerpt as one in the document.
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

/// Returns a value in which the list at `way` has only some of its items, and `0` for each run of others.
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
