//! The items of a problem, a few bytes for each.

use super::{ItemStep, KeptStep, steps, with_steps};
use crate::judge::fold::walk::{ItemWalk, Way};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// The items that a problem is about, if there are more than [`MOST_APART`](super::MOST_APART).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// How often the problem was found.
    pub count: usize,
    /// The path of the last item, and the place where it is shown. The problem itself has those of the first
    /// item.
    pub last: Option<(Pointer, Pointer)>,
    /// Whether the words are those of the first item, and those of others differ.
    pub(crate) varied: bool,
    /// Whether fixing all items would take too many changes.
    pub(crate) unfixed: bool,
    /// The words without the places.
    pub(in crate::judge) words: Option<Box<str>>,
    /// The number of leading steps that all items share.
    pub(super) fixed: usize,
    pub(super) set: ItemSet,
}

/// A set of places that differ in some steps, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ItemSet {
    /// Runs, each as the number of steps shared with the run before, the other steps, the number of items that
    /// follow, and the step that grows by one for each.
    pub(super) bytes: Vec<u8>,
    /// The last item.
    pub(super) last: Vec<KeptStep>,
    /// The step of the last run that grows by one per item, and how often it did; not in `bytes` yet.
    pub(super) run: Option<(usize, usize)>,
}

fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

fn take(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

impl ItemSet {
    pub(super) fn push(&mut self, item: &[ItemStep<'_>]) {
        if self.bytes.is_empty() {
            self.begin(0, item);
            return;
        }
        let differs = |at: &usize| self.last.get(*at).map(KeptStep::step) != item.get(*at).copied();
        let Some(first) = (0..item.len()).find(differs) else { return };
        let only = (first + 1..item.len()).all(|at| !differs(&at));
        if only && self.last[first].precedes(item[first]) {
            match &mut self.run {
                None => self.run = Some((first, 1)),
                Some((at, more)) if *at == first => *more += 1,
                Some(_) => return self.begin(first, item),
            }
            self.last[first] = KeptStep::new(item[first]);
            return;
        }
        self.begin(first, item);
    }

    /// Begins a run, which shares the first `shared` steps with the last item.
    pub(super) fn begin(&mut self, shared: usize, item: &[ItemStep<'_>]) {
        if !self.bytes.is_empty() {
            self.close();
        }
        put(&mut self.bytes, shared);
        for step in &item[shared..] {
            match step {
                ItemStep::Index(index) => {
                    self.bytes.push(0);
                    put(&mut self.bytes, *index);
                }
                ItemStep::Key(key) => {
                    self.bytes.push(1);
                    put(&mut self.bytes, key.len());
                    self.bytes.extend(key.as_bytes());
                }
            }
        }
        self.last.truncate(shared);
        self.last.extend(item[shared..].iter().copied().map(KeptStep::new));
    }

    pub(super) fn close(&mut self) {
        let (at, more) = self.run.take().unwrap_or_default();
        put(&mut self.bytes, more);
        if more > 0 {
            put(&mut self.bytes, at);
        }
    }

    /// Calls a function with each item, and the number of leading steps that it shares with the one before.
    pub(super) fn each(&self, width: usize, found: &mut dyn FnMut(&[ItemStep<'_>], usize)) {
        let mut bytes = &*self.bytes;
        let mut item: Vec<ItemStep<'_>> = Vec::with_capacity(width);
        while !bytes.is_empty() {
            let shared = take(&mut bytes);
            item.truncate(shared);
            while item.len() < width {
                let Some((tag, rest)) = bytes.split_first() else { return };
                bytes = rest;
                let number = take(&mut bytes);
                item.push(if *tag == 0 {
                    ItemStep::Index(number)
                } else {
                    let Some((key, rest)) = bytes.split_at_checked(number) else { return };
                    bytes = rest;
                    ItemStep::Key(str::from_utf8(key).unwrap_or_default())
                });
            }
            found(&item, shared);
            // The last run is not closed.
            let (more, at) = if bytes.is_empty() {
                self.run.map_or((0, 0), |(at, more)| (more, at))
            } else {
                let more = take(&mut bytes);
                (more, if more > 0 { take(&mut bytes) } else { 0 })
            };
            for _ in 0..more {
                if let Some(ItemStep::Index(index)) = item.get_mut(at) {
                    *index += 1;
                }
                found(&item, at);
            }
        }
    }
}

impl Items {
    pub(super) fn new(item: &[ItemStep<'_>]) -> Self {
        let mut set = ItemSet::default();
        set.push(item);
        Self { count: 1, fixed: item.len(), set, ..Self::default() }
    }

    pub(super) fn add(&mut self, item: &[ItemStep<'_>]) {
        self.count += 1;
        self.set.push(item);
    }

    pub(super) fn absorb(&mut self, other: &Self) {
        self.count += other.count;
        other.set.each(other.set.last.len(), &mut |item, _| self.set.push(item));
        self.unfixed |= other.unfixed;
        self.varied |= other.varied;
    }

    /// Prepends steps to all items, for an object inside another one.
    pub(in crate::judge) fn move_below(&mut self, around: &Pointer) {
        let around = steps(around);
        if around.is_empty() {
            return;
        }
        let mut set = ItemSet::default();
        self.set.each(self.set.last.len(), &mut |item, _| {
            set.push(&around.iter().chain(item).copied().collect::<Vec<_>>());
        });
        self.fixed += around.len();
        self.set = set;
    }

    /// If `like` is one of the items, adds equal ones from the list around it: ranges of indexes, and entries
    /// with some keys.
    pub(in crate::judge) fn add_like(&mut self, like: &Pointer, indexes: &[(usize, usize)], keys: &[&str]) {
        let like = steps(like);
        let mut is_one = false;
        self.set.each(self.set.last.len(), &mut |item, _| is_one |= item == like);
        let Some((_, around)) = like.split_last().filter(|_| is_one) else { return };
        let mut add = |step: ItemStep<'_>| {
            let mut item: Vec<ItemStep<'_>> = around.to_vec();
            item.push(step);
            self.add(&item);
        };
        indexes.iter().flat_map(|(first, last)| *first..=*last).for_each(|index| add(ItemStep::Index(index)));
        keys.iter().for_each(|key| add(ItemStep::Key(key)));
    }

    /// Returns the place of the last item that corresponds to a place of the first one.
    pub(in crate::judge) fn of_last(&self, place: &Pointer) -> Pointer {
        with_steps(place, self.set.last.iter().map(KeptStep::step))
    }

    /// Returns the place of the item with this path that corresponds to a place of the former first item.
    pub(in crate::judge) fn of_first(&self, path: &Pointer, place: &Pointer) -> Pointer {
        with_steps(place, steps(path).into_iter())
    }

    /// Returns the wanted items, and the path of the first of them; nothing if there are none. `path` is that of
    /// the first item.
    pub(crate) fn kept<'v>(
        &self,
        path: &Pointer,
        (root, way): (&'v Value, Way),
        wants: &mut dyn FnMut(&ItemWalk<'v>, &[ItemStep<'_>], usize) -> bool,
    ) -> Option<(Self, Pointer)> {
        let mut kept = Self { count: 0, set: ItemSet::default(), last: None, ..self.clone() };
        let mut walk = ItemWalk::new(path, root, way);
        let mut first = None;
        self.set.each(self.set.last.len(), &mut |item, shared| {
            walk.go(item, shared);
            if wants(&walk, item, shared) {
                kept.add(item);
                first.get_or_insert_with(|| walk.pointer());
            }
        });
        Some((kept, first?))
    }

    /// Returns the places of all items; `path` is that of the first one in `root`.
    pub fn named(&self, path: &Pointer, root: &Value) -> Named {
        let mut walk = ItemWalk::new(path, root, Way::Exact);
        let is_index = |at: &usize| matches!(walk.path[*at], Token::Index(_));
        let indexes: Vec<bool> = walk.wild.iter().map(is_index).collect();
        let mut named = Named { path: path.clone(), indexes, set: ItemSet::default(), count: self.count };
        self.set.each(self.set.last.len(), &mut |item, shared| {
            walk.go(item, shared);
            let names = walk.wild.iter().zip(item).map(|(at, step)| {
                let item = walk.stack.get(at + 1).and_then(|(here, _)| *here);
                match (step, item.and_then(|item| item.get("name")?.as_str())) {
                    (ItemStep::Index(_), Some(name)) => ItemStep::Key(name),
                    _ => *step,
                }
            });
            named.set.push(&names.collect::<Vec<_>>());
        });
        named
    }
}

/// The places of many items, by name where items have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    path: Pointer,
    /// Whether each of the differing steps is an item of a list.
    indexes: Vec<bool>,
    set: ItemSet,
    count: usize,
}

impl Named {
    /// Calls a function with each place, in the form of [`Pointer::by_name`], or as printed where no item has a
    /// name.
    pub fn each(&self, found: &mut dyn FnMut(String)) {
        self.set.each(self.set.last.len(), &mut |item, _| {
            let names: Vec<Option<&str>> = item
                .iter()
                .zip(&self.indexes)
                .filter(|(_, is_index)| **is_index)
                .map(|(step, _)| if let ItemStep::Key(name) = step { Some(*name) } else { None })
                .collect();
            let steps = item.iter().zip(&self.indexes).map(|(step, is_index)| match step {
                ItemStep::Key(_) if *is_index => ItemStep::Index(0),
                step => *step,
            });
            let path = with_steps(&self.path, steps);
            match names.iter().any(Option::is_some) {
                true => found(path.with_names(&names)),
                false => found(path.to_string()),
            }
        });
    }
}
