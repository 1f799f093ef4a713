//! Walks the items of a set, with their values and the hashes of their places.

use std::hash::{Hash as _, Hasher as _};

use super::{ItemStep, mark, step, steps};
use crate::judge::fold::items::Items;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
use crate::text::{hash, meter};

/// Calls a function with each place that a problem is about.
pub(crate) fn each_place<'v>(
    path: &Pointer,
    items: Option<&Items>,
    (root, way): (&'v Value, Way),
    found: &mut dyn FnMut(&ItemWalk<'v>),
) {
    let first = steps(path);
    let mut walk = ItemWalk::new(path, root, way);
    match items {
        None => {
            walk.go(&first, 0);
            found(&walk);
        }
        Some(items) => items.set.each(first.len(), &mut |item, shared| {
            walk.go(item, shared);
            found(&walk);
        }),
    }
}

/// How places are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By their steps.
    Exact,
    /// By what does not change when list items move: items with a name are identified by it, as in Kubernetes'
    /// merges of lists. A claim is identified by its name, whichever volume or template uses it.
    ByName,
}

/// Walks the items of a set, with their values and the hashes of their places.
#[allow(missing_debug_implementations, reason = "it lives while a set is walked")]
pub(crate) struct ItemWalk<'v> {
    pub(super) path: Vec<Token>,
    /// The positions of the steps that differ, in the path.
    pub(super) wild: Vec<usize>,
    /// The value and the hash at each step of the path, the root first.
    pub(super) stack: Vec<(Option<&'v Value>, u64)>,
    way: Way,
}

impl<'v> ItemWalk<'v> {
    pub(crate) fn new(path: &Pointer, root: &'v Value, way: Way) -> Self {
        let path: Vec<Token> = path.tokens().into_iter().cloned().collect();
        let wild = (0..path.len()).filter(|at| step(&path[*at]).is_some()).collect();
        Self { path, wild, stack: vec![(Some(root), mark::root())], way }
    }

    /// Moves to an item that shares its first `shared` steps with the one before.
    pub(crate) fn go(&mut self, item: &[ItemStep<'_>], shared: usize) {
        meter::spend(1);
        for (at, step) in self.wild.iter().zip(item).skip(shared) {
            self.path[*at] = step.token();
        }
        // Everything before the first differing step is unchanged.
        let from = self.wild.get(shared).copied().unwrap_or(self.path.len()).min(self.stack.len() - 1);
        self.stack.truncate(from + 1);
        for token in &self.path[from..] {
            let Some((here, hash)) = self.stack.last().copied() else { break };
            self.stack.push(below(here, hash, token, self.way));
        }
    }

    /// Returns the hash of the place.
    pub(crate) fn hash(&self) -> u64 {
        let Some((here, hash)) = self.stack.last() else { return 0 };
        let is_claim = || matches!(self.path.last(), Some(Token::Key(key)) if **key == *"claimName");
        match here.and_then(Value::as_str).filter(|_| self.way == Way::ByName && is_claim()) {
            Some(claim) => {
                let mut hasher = hash::keyed();
                (1_u8, claim).hash(&mut hasher);
                hasher.finish()
            }
            None => *hash,
        }
    }

    /// Returns the number of steps from the root.
    pub(crate) fn depth(&self) -> usize {
        self.path.len()
    }

    /// Returns the hashes of the places around it, from the root.
    pub(crate) fn around(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.stack.iter().take(self.path.len()).map(|(_, hash)| *hash)
    }

    /// Returns the value there, or that of the nearest place around it.
    pub(crate) fn nearest(&self) -> Option<&'v Value> {
        self.stack.iter().rev().find_map(|(here, _)| *here)
    }

    /// Returns the value there.
    pub(crate) fn here(&self) -> Option<&'v Value> {
        self.stack.last().and_then(|(here, _)| *here)
    }

    /// Returns the value that many steps above it.
    pub(crate) fn above(&self, steps: usize) -> Option<&'v Value> {
        self.stack.get(self.path.len().checked_sub(steps)?).and_then(|(here, _)| *here)
    }

    pub(super) fn pointer(&self) -> Pointer {
        self.path.iter().cloned().fold(Pointer::root(), Pointer::then)
    }
}

fn below<'v>(here: Option<&'v Value>, hash: u64, token: &Token, way: Way) -> (Option<&'v Value>, u64) {
    match token {
        Token::Key(key) => (here.and_then(|value| value.get(&**key)), mark::key(hash, key)),
        Token::Index(index) => {
            let item = here.and_then(|value| value.get(*index));
            let name = || item.and_then(|item| item.get("name")?.as_str());
            let hash = match name().filter(|_| way == Way::ByName) {
                Some(name) => mark::key(hash, name),
                None => mark::mix(hash, *index as u64),
            };
            (item, hash)
        }
    }
}
