//! Finds the source location of a place in the value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::resolve::{TreeText, Twice};
use super::tree::{NodeKind, Wide};
use crate::pointer::{Pointer, Token};
use crate::yaml::document::{Duplicate, Span};

/// A place of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundNode {
    /// The key of a field.
    pub(super) key: Option<usize>,
    /// The value; aliases are not followed.
    pub(super) value: usize,
    /// The outermost alias it is behind.
    pub(super) via: Option<usize>,
    /// The value of the outermost merge key it comes from.
    pub(super) merge: Option<usize>,
}

/// Finds a place.
pub(super) fn find(text: TreeText<'_>, pointer: &Pointer) -> Option<FoundNode> {
    if text.tree.is_empty() {
        return None;
    }
    let mut found = FoundNode { key: None, value: 0, via: None, merge: None };
    for token in pointer.tokens() {
        let mut at = found.value;
        if text.tree.node(at).kind == NodeKind::Alias {
            found.via = found.via.or(Some(at));
            at = text.tree.node(at).target();
        }
        match (token, text.tree.node(at).kind) {
            (Token::Index(index), NodeKind::Sequence) => {
                found.key = None;
                found.value = match wide(text, at) {
                    Some(Wide::Items(items)) => *items.get(*index)? as usize,
                    _ => text.tree.children(at).nth(*index)?,
                };
            }
            (Token::Key(name), NodeKind::Mapping) => found = field(text, at, name, found)?,
            _ => return None,
        }
    }
    Some(found)
}

/// Finds a key of a mapping: the one whose value counts.
pub(super) fn field(text: TreeText<'_>, mapping: usize, name: &str, within: FoundNode) -> Option<FoundNode> {
    if let Some(Wide::Fields { own, merges }) = wide(text, mapping) {
        let known = own.binary_search_by(|(key, _)| name_at(text, *key).as_ref().cmp(name)).ok();
        let mut last = known.and_then(|at| own.get(at)).map(|(key, value)| FoundNode {
            key: Some(*key as usize),
            value: *value as usize,
            ..within
        });
        let own = last.and_then(|found| found.key);
        for (key, value) in merges {
            // Nodes are in source order.
            if own.is_none_or(|own| own < *key as usize) {
                last = in_merge(text, *value as usize, name, within)?.or(last);
            }
        }
        return last;
    }
    let mut last = None;
    let mut explicit = None;
    for (key, value) in text.tree.entries(mapping) {
        if text.word(key).is_some_and(|word| word != name) {
            continue;
        }
        if text.is_merge(key) {
            last = in_merge(text, value, name, within)?.or(last);
        } else if let Ok((text, ty)) = text.key(key)
            && text == name
            && explicit.is_none_or(|known| known == ty)
        {
            explicit = Some(ty);
            last = Some(FoundNode { key: Some(key), value, ..within });
        }
    }
    last
}

/// Finds a key in merged mappings: `Some(None)` if they do not have it, `None` if they are not mappings.
fn in_merge(text: TreeText<'_>, value: usize, name: &str, within: FoundNode) -> Option<Option<FoundNode>> {
    for part in text.merged(value).ok()? {
        let node = text.tree.node(part);
        let (target, via) = if node.kind == NodeKind::Alias {
            (node.target(), within.via.or(Some(part)))
        } else {
            (part, within.via)
        };
        let within = FoundNode { via, merge: within.merge.or(Some(value)), ..within };
        if let Some(found) = field(text, target, name, within) {
            return Some(Some(found));
        }
    }
    Some(None)
}

/// The most nodes in a container that is searched without an index.
const WIDE: usize = 4096;

/// Returns the index of a container, if it is large.
fn wide<'t>(text: TreeText<'t>, at: usize) -> Option<&'t Wide> {
    if text.tree.node(at).next as usize - at <= WIDE {
        return None;
    }
    text.tree.wide.get_or_init(|| all_wide(text)).get(&at)
}

/// Returns the text of a key; empty if it is not valid.
fn name_at(text: TreeText<'_>, key: u32) -> Cow<'_, str> {
    text.key(key as usize).map(|(name, _)| name).unwrap_or_default()
}

fn all_wide(text: TreeText<'_>) -> BTreeMap<usize, Wide> {
    let node = |at: usize| u32::try_from(at).ok();
    let parts = |at: usize| match text.tree.node(at).kind {
        NodeKind::Sequence => Some(Wide::Items(text.tree.children(at).map(node).collect::<Option<_>>()?)),
        NodeKind::Mapping => {
            // Without their texts, which are in the source: there may be one for every four bytes.
            let mut own: Vec<(u32, u32)> = Vec::new();
            let mut merges = Vec::new();
            for (key, value) in text.tree.entries(at) {
                let entry = (node(key)?, node(value)?);
                if text.is_merge(key) {
                    merges.push(entry);
                } else if text.key(key).is_ok() {
                    own.push(entry);
                }
            }
            // Keys are in source order, and the sort is stable.
            own.sort_by(|(left, _), (right, _)| name_at(text, *left).cmp(&name_at(text, *right)));
            let ty = |entry: &(u32, u32)| text.key(entry.0 as usize).map(|(_, ty)| ty).ok();
            // The last of those that have the type of the first one.
            let mut first = None;
            own.dedup_by(|later, kept| {
                let is_same = name_at(text, later.0) == name_at(text, kept.0);
                if !is_same {
                    first = None;
                } else if *first.get_or_insert_with(|| ty(kept)) == ty(later) {
                    *kept = *later;
                }
                is_same
            });
            let own = own.into_boxed_slice();
            Some(Wide::Fields { own, merges })
        }
        NodeKind::Scalar | NodeKind::Alias => None,
    };
    let is_wide = |at: &usize| text.tree.node(*at).next as usize - at > WIDE;
    (0..text.tree.len()).filter(is_wide).filter_map(|at| Some((at, parts(at)?))).collect()
}

/// Returns the source location of a place.
pub(super) fn locate(text: TreeText<'_>, document: &Range<usize>, pointer: &Pointer) -> Option<Span> {
    let base = document.start;
    // The text has a line break at its end, which the source may lack.
    let shift =
        |range: Range<usize>| (range.start + base).min(document.end)..(range.end + base).min(document.end);
    let span = |at: usize| shift(text.tree.node(at).span());
    if text.tree.is_empty() {
        return pointer.is_root().then_some(Span { key: None, value: base..base, via_alias: false });
    }
    let found = find(text, pointer)?;
    if let Some(alias) = found.via {
        return Some(Span { key: None, value: span(alias), via_alias: true });
    }
    let via_alias = text.tree.node(found.value).kind == NodeKind::Alias;
    Some(Span { key: found.key.map(span), value: span(found.value), via_alias })
}

/// Returns the nodes of a place and everything inside it, unless it is behind an alias.
pub(super) fn written(text: TreeText<'_>, pointer: &Pointer) -> Option<Range<usize>> {
    let found = find(text, pointer).filter(|found| found.via.is_none())?;
    let node = text.tree.node(found.value);
    (node.kind != NodeKind::Alias).then_some(found.value..node.next as usize)
}

/// Sorts duplicate keys from the order in which they were found to source order, each with the key that is kept
/// in the end: of three equal keys the third is kept for both others.
pub(super) fn settle(twice: &mut Vec<Twice>) {
    twice.shrink_to_fit();
    let found = |at: u32| at as usize;
    let mut by_dropped: Vec<u32> = (0..twice.len()).filter_map(|at| u32::try_from(at).ok()).collect();
    by_dropped.sort_unstable_by_key(|at| twice[found(*at)].dropped);
    for at in (0..twice.len()).rev() {
        let kept = twice[at].kept;
        if let Ok(later) = by_dropped.binary_search_by_key(&kept, |at| twice[found(*at)].dropped) {
            twice[at].kept = twice[found(by_dropped[later])].kept;
        }
    }
    twice.sort_unstable_by_key(|pair| pair.dropped);
}

/// Returns duplicate keys with their pointers. `twice` is in source order, inside `node`, which is at the
/// pointer `at`.
pub(super) fn duplicates(
    text: TreeText<'_>,
    base: usize,
    twice: &[Twice],
    at: &Pointer,
    node: usize,
) -> Vec<Duplicate> {
    if twice.is_empty() {
        return Vec::new();
    }
    let mut wanted = twice.to_vec();
    wanted.sort_by_key(|pair| (pair.mapping, pair.dropped));
    let mut places = DuplicateWalk { text, wanted: &wanted, next: 0, at, path: Vec::new(), out: Vec::new() };
    places.visit(node);
    let span = |at: u32| {
        let range = text.tree.node(at as usize).span();
        range.start + base..range.end + base
    };
    let duplicate = |(pointer, pair): (Pointer, Twice)| Duplicate {
        pointer,
        dropped: span(pair.dropped),
        kept: span(pair.kept),
    };
    let mut out: Vec<Duplicate> = places.out.into_iter().map(duplicate).collect();
    out.sort_by_key(|duplicate| duplicate.dropped.start);
    out
}

/// A walk through the tree that tracks its place.
struct DuplicateWalk<'t> {
    text: TreeText<'t>,
    wanted: &'t [Twice],
    next: usize,
    /// The pointer of the first node.
    at: &'t Pointer,
    path: Vec<TreeStep>,
    out: Vec<(Pointer, Twice)>,
}

#[derive(Clone, Copy)]
enum TreeStep {
    Key(usize),
    Index(usize),
    /// A merge key adds no step.
    Merge,
}

impl DuplicateWalk<'_> {
    /// Visits a node, whose depth is limited; skips those without duplicates.
    fn visit(&mut self, at: usize) {
        let node = self.text.tree.node(at);
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
            NodeKind::Mapping => {
                let mut key = at + 1;
                while key < node.next as usize && has(self, at) {
                    let value = self.text.tree.node(key).next as usize;
                    let step = if self.text.is_merge(key) { TreeStep::Merge } else { TreeStep::Key(key) };
                    self.step(step, value);
                    key = self.text.tree.node(value).next as usize;
                }
            }
            NodeKind::Sequence => {
                let in_merge = matches!(self.path.last(), Some(TreeStep::Merge));
                let mut item = at + 1;
                let mut index = 0;
                while item < node.next as usize && has(self, at) {
                    self.step(if in_merge { TreeStep::Merge } else { TreeStep::Index(index) }, item);
                    item = self.text.tree.node(item).next as usize;
                    index += 1;
                }
            }
            NodeKind::Scalar | NodeKind::Alias => {}
        }
    }

    fn step(&mut self, step: TreeStep, at: usize) {
        self.path.push(step);
        self.visit(at);
        self.path.pop();
    }

    fn pointer(&self, last: Option<usize>) -> Pointer {
        let mut pointer = self.at.clone();
        for step in self.path.iter().copied().chain(last.map(TreeStep::Key)) {
            match step {
                TreeStep::Key(at) => {
                    pointer = pointer
                        .key(&self.text.key(at).map(|(name, _)| name.into_owned()).unwrap_or_default());
                }
                TreeStep::Index(index) => pointer = pointer / index,
                TreeStep::Merge => {}
            }
        }
        pointer
    }
}

#[cfg(test)]
mod tests {
    use crate::pointer::Pointer;
    use crate::yaml::documents;

    /// Entries that take the same places when others stand before or behind them.
    const TRICKY: &str = "  a: 1\n  <<: *base\n  b: 2\n  <<: [{d: 4}, *base]\n  a: 5\n  1: int\n  '1': text\n  e: {f: [7, 8]}\n";

    #[test]
    fn a_large_collection_is_looked_up_in_as_a_small_one_is_walked_over() {
        let filler: String = (0..super::WIDE).map(|at| format!("  x{at}: {at}\n")).collect();
        let found = |before: &str, behind: &str| {
            let source = format!("base: &base {{a: 8, b: 9, c: 10, e: 11}}\nmap:\n{before}{TRICKY}{behind}");
            let document = documents(source.as_bytes()).next().expect("a document").expect("YAML");
            let start = source.find(TRICKY).expect("the entries");
            let spans = ["a", "b", "c", "d", "1", "e", "e/f/1", "g"].map(|place| {
                let span = document.locate(&Pointer::parse(&format!("/map/{place}"), &document.value)?)?;
                let shift = |at: usize| at.checked_sub(start);
                Some((
                    span.key.map(|key| shift(key.start)),
                    shift(span.value.start),
                    shift(span.value.end),
                    span.via_alias,
                ))
            });
            let values = ["a", "b", "c", "d", "1", "e"].map(|key| document.value["map"][key].to_string());
            (spans, values)
        };
        let small = found("", "");
        assert_eq!(small.0.iter().filter(|span| span.is_some()).count(), 7, "{small:?}");
        assert_eq!(found(&filler, ""), small);
        assert_eq!(found("", &filler), small);
    }

    #[test]
    fn each_item_of_a_long_list_is_found() {
        // More nodes than are walked over.
        let source: String = (0..super::WIDE).map(|at| format!("- [{at}, x]\n")).collect();
        let document = documents(source.as_bytes()).next().expect("a document").expect("YAML");
        for at in [0, 1, 499, super::WIDE - 1] {
            let span = document.locate(&(Pointer::root() / at / 0)).expect("a place");
            assert_eq!(source[span.value], at.to_string());
        }
        assert_eq!(document.locate(&(Pointer::root() / super::WIDE)), None);
    }
}
