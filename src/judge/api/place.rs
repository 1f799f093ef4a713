//! Places on the stack while walking an object: a [`Pointer`] is made only for findings.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hash as _;

use crate::judge::fold;
use crate::text::pointer::Pointer;

/// A place: a step from the place around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    around: Option<&'p Self>,
    step: Step<'p>,
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

impl<'p> Place<'p> {
    /// The whole object.
    pub(super) const ROOT: Self = Self { around: None, step: Step::None };

    /// Returns a place inside this one.
    pub(super) fn step(&'p self, step: Step<'p>) -> Self {
        Self { around: Some(self), step }
    }

    /// Tells whether it is a field of the whole object.
    pub(super) fn is_of_root(&self) -> bool {
        self.around.is_some_and(|around| around.around.is_none())
    }

    /// Hashes the place without the steps that differ between the items of a list, which are added to `item`.
    pub(super) fn pattern<'s>(&'s self, item: &mut Vec<fold::Step<'s>>, hasher: &mut DefaultHasher) {
        if let Some(around) = self.around {
            around.pattern(item, hasher);
        }
        match self.step {
            Step::None => {}
            Step::Fields(keys) => keys.iter().for_each(|key| key.hash(hasher)),
            Step::Field(key) => key.hash(hasher),
            Step::Key(key) => {
                1_u8.hash(hasher);
                item.push(fold::Step::Key(key));
            }
            Step::Index(index) => {
                0_u8.hash(hasher);
                item.push(fold::Step::Index(index));
            }
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
