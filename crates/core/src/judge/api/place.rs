//! Places on the stack while walking an object: a [`Pointer`] is made only for findings.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};

use crate::judge::fold;
use crate::text::hash;
use crate::text::pointer::Pointer;

/// A place: a step from the place around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    around: Option<&'p Self>,
    step: Step<'p>,
    /// A hash of the place without the steps that differ between the items of a list.
    pattern: u64,
}

/// A step to a place inside another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'p> {
    /// To the place itself.
    None,
    /// To a field, by the keys of the API.
    Fields(&'static [&'static str]),
    /// To a field of the API.
    Field(&'static str),
    /// To a key chosen by the author.
    Key(&'p str),
    /// To an item of a list.
    Index(usize),
}

impl Step<'_> {
    /// Returns what is the same in all items of a list. Keys of the API are where they are for as long as the
    /// program runs, so that none has to be read.
    fn pattern(self) -> u64 {
        let at = |start: usize, length: usize| start as u64 ^ (length as u64) << 48;
        match self {
            Step::None => 0,
            Step::Key(_) => 1,
            Step::Index(_) => 2,
            Step::Field(key) => at(key.as_ptr() as usize, key.len()),
            Step::Fields(keys) => at(keys.as_ptr() as usize, keys.len()),
        }
    }
}

impl<'p> Place<'p> {
    /// The whole object.
    pub(super) const ROOT: Self = Self { around: None, step: Step::None, pattern: 0 };

    /// Returns a place inside this one.
    pub(super) fn step(&'p self, step: Step<'p>) -> Self {
        Self { around: Some(self), step, pattern: fold::mix(self.pattern, step.pattern()) }
    }

    /// Tells whether it is a field of the whole object.
    pub(super) fn is_of_root(&self) -> bool {
        self.around.is_some_and(|around| around.around.is_none())
    }

    /// Hashes the place without the steps that differ between the items of a list, which are added to `item`.
    /// Two ways to write a place may have another hash.
    pub(super) fn pattern<'s>(&'s self, item: &mut Vec<fold::Step<'s>>, hasher: &mut DefaultHasher) {
        self.pattern.hash(hasher);
        self.differing(item);
    }

    /// Returns a hash of the place and of something else, as [`Place::pattern`], and the steps that differ.
    pub(super) fn hashed(&self, what: impl Hash) -> (u64, Vec<fold::Step<'_>>) {
        let (mut hasher, mut item) = (hash::keyed(), Vec::new());
        what.hash(&mut hasher);
        self.pattern(&mut item, &mut hasher);
        (hasher.finish(), item)
    }

    /// Adds the steps that differ between the items of lists.
    pub(super) fn differing<'s>(&'s self, item: &mut Vec<fold::Step<'s>>) {
        if let Some(around) = self.around {
            around.differing(item);
        }
        match self.step {
            Step::None | Step::Fields(_) | Step::Field(_) => {}
            Step::Key(key) => item.push(fold::Step::Key(key)),
            Step::Index(index) => item.push(fold::Step::Index(index)),
        }
    }

    /// Returns the pointer to the place.
    pub(super) fn pointer(&self) -> Pointer {
        let around = self.around.map(Place::pointer).unwrap_or_default();
        match self.step {
            Step::None => around,
            Step::Fields(keys) => keys.iter().fold(around, |pointer, key| pointer / *key),
            Step::Field(key) => around / key,
            Step::Key(key) => around.key(key),
            Step::Index(index) => around / index,
        }
    }
}
