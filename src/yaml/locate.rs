//! From a place in the value back to the bytes it came from.

use std::ops::Range;

use super::resolve::Text;
use super::tree::Kind;
use super::{Duplicate, Span, Twice};
use crate::pointer::{Pointer, Token};

/// A place of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// The node of the key, for a field of a mapping.
    pub(super) key: Option<usize>,
    /// The node of the value; an alias is not followed.
    pub(super) value: usize,
    /// The alias it stands behind, the outermost one.
    pub(super) via: Option<usize>,
    /// The value of the merge key it comes from, the outermost one.
    pub(super) merge: Option<usize>,
}

/// Finds a place.
pub(super) fn find(text: Text<'_>, pointer: &Pointer) -> Option<Found> {
    if text.tree.is_empty() {
        return None;
    }
    let mut found = Found { key: None, value: 0, via: None, merge: None };
    for token in pointer.tokens() {
        let mut at = found.value;
        if text.tree.node(at).kind == Kind::Alias {
            found.via = found.via.or(Some(at));
            at = text.tree.node(at).target();
        }
        match (token, text.tree.node(at).kind) {
            (Token::Index(index), Kind::Sequence) => {
                found.key = None;
                found.value = text.tree.children(at).nth(*index)?;
            }
            (Token::Key(name), Kind::Mapping) => found = field(text, at, name, found)?,
            _ => return None,
        }
    }
    Some(found)
}

/// Finds a key of a mapping: the one that is assigned last, as the value has it.
pub(super) fn field(text: Text<'_>, mapping: usize, name: &str, within: Found) -> Option<Found> {
    let mut last = None;
    let mut explicit = None;
    for (key, value) in text.tree.entries(mapping) {
        if text.is_merge(key) {
            for part in text.merged(value).ok()? {
                let node = text.tree.node(part);
                let (target, via) = if node.kind == Kind::Alias { (node.target(), within.via.or(Some(part))) } else { (part, within.via) };
                let within = Found { via, merge: within.merge.or(Some(value)), ..within };
                if let Some(found) = field(text, target, name, within) {
                    last = Some(found);
                    break;
                }
            }
        } else if let Ok((text, ty)) = text.key(key)
            && text == name
            && explicit.is_none_or(|known| known == ty)
        {
            explicit = Some(ty);
            last = Some(Found { key: Some(key), value, ..within });
        }
    }
    last
}

/// Returns where a place stands.
pub(super) fn locate(text: Text<'_>, document: &Range<usize>, pointer: &Pointer) -> Option<Span> {
    let base = document.start;
    // The text was read with a line break at its end, which the source may lack.
    let shift = |range: Range<usize>| (range.start + base).min(document.end)..(range.end + base).min(document.end);
    let span = |at: usize| shift(text.tree.node(at).span());
    if text.tree.is_empty() {
        return pointer.is_root().then_some(Span { key: None, value: base..base, via_alias: false });
    }
    let found = find(text, pointer)?;
    if let Some(alias) = found.via {
        return Some(Span { key: None, value: span(alias), via_alias: true });
    }
    let via_alias = text.tree.node(found.value).kind == Kind::Alias;
    Some(Span { key: found.key.map(span), value: span(found.value), via_alias })
}

/// Returns the keys that stand twice, with the places of their fields, in source order.
pub(super) fn duplicates(text: Text<'_>, base: usize, mut twice: Vec<Twice>) -> Vec<Duplicate> {
    if twice.is_empty() {
        return Vec::new();
    }
    // Of three equal keys the first two are dropped for the third: follow each to the one that stays.
    let mut stays = std::collections::BTreeMap::new();
    for pair in twice.iter_mut().rev() {
        pair.kept = stays.get(&pair.kept).copied().unwrap_or(pair.kept);
        stays.insert(pair.dropped, pair.kept);
    }
    twice.sort_by_key(|pair| (pair.mapping, pair.dropped));
    let mut places = Places { text, wanted: &twice, next: 0, path: Vec::new(), out: Vec::new() };
    places.visit(0);
    let span = |at: u32| {
        let range = text.tree.node(at as usize).span();
        range.start + base..range.end + base
    };
    let mut out: Vec<Duplicate> =
        places.out.iter().map(|(pointer, pair)| Duplicate { pointer: pointer.clone(), dropped: span(pair.dropped), kept: span(pair.kept) }).collect();
    out.sort_by_key(|duplicate| duplicate.dropped.start);
    out
}

/// A walk through the tree that knows its place.
struct Places<'t> {
    text: Text<'t>,
    wanted: &'t [Twice],
    next: usize,
    path: Vec<Step>,
    out: Vec<(Pointer, Twice)>,
}

#[derive(Clone, Copy)]
enum Step {
    Key(usize),
    Index(usize),
    /// A merge key takes no step.
    Merge,
}

impl Places<'_> {
    /// Visits a node whose depth the reader has bounded; leaves out what has nothing in it.
    fn visit(&mut self, at: usize) {
        let node = *self.text.tree.node(at);
        while let Some(pair) = self.wanted.get(self.next).filter(|pair| pair.mapping as usize == at) {
            let field = self.pointer(Some(pair.dropped as usize));
            self.out.push((field, *pair));
            self.next += 1;
        }
        let has = |places: &Self, at: usize| {
            let end = places.text.tree.node(at).next;
            places.wanted.get(places.next).is_some_and(|pair| pair.mapping < end)
        };
        match node.kind {
            Kind::Mapping => {
                let mut key = at + 1;
                while key < node.next as usize && has(self, at) {
                    let value = self.text.tree.node(key).next as usize;
                    let step = if self.text.is_merge(key) { Step::Merge } else { Step::Key(key) };
                    self.step(step, value);
                    key = self.text.tree.node(value).next as usize;
                }
            }
            Kind::Sequence => {
                let in_merge = matches!(self.path.last(), Some(Step::Merge));
                let mut item = at + 1;
                let mut index = 0;
                while item < node.next as usize && has(self, at) {
                    self.step(if in_merge { Step::Merge } else { Step::Index(index) }, item);
                    item = self.text.tree.node(item).next as usize;
                    index += 1;
                }
            }
            Kind::Scalar | Kind::Alias => {}
        }
    }

    fn step(&mut self, step: Step, at: usize) {
        self.path.push(step);
        self.visit(at);
        self.path.pop();
    }

    fn pointer(&self, last: Option<usize>) -> Pointer {
        let mut pointer = Pointer::root();
        for step in self.path.iter().copied().chain(last.map(Step::Key)) {
            match step {
                Step::Key(at) => pointer = pointer.key(&self.text.key(at).map(|(name, _)| name.into_owned()).unwrap_or_default()),
                Step::Index(index) => pointer = pointer / index,
                Step::Merge => {}
            }
        }
        pointer
    }
}
