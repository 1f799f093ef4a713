//! Places on the stack while walking an object: a [`Pointer`] is made only for findings.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};

use crate::judge::fold;
use crate::kinds::EACH;
use crate::text::pointer::Pointer;
use crate::text::value::Value;
use crate::text::{hash, meter};

/// A place: a step from the place around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiPlace<'p> {
    around: Option<&'p Self>,
    step: PlaceStep<'p>,
}

/// A step to a place inside another.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlaceStep<'p> {
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

impl PlaceStep<'_> {
    /// Returns a number that is the same for all items of a list. Keys of the API are static, so their addresses
    /// suffice, and their text is not read.
    fn pattern(self) -> u64 {
        let at = |start: usize, length: usize| start as u64 ^ (length as u64) << 48;
        match self {
            PlaceStep::None => 0,
            PlaceStep::Key(_) => 1,
            PlaceStep::Index(_) => 2,
            PlaceStep::Field(key) => at(key.as_ptr() as usize, key.len()),
            PlaceStep::Fields(keys) => at(keys.as_ptr() as usize, keys.len()),
        }
    }
}

impl<'p> ApiPlace<'p> {
    /// The whole object.
    pub(super) const ROOT: Self = Self { around: None, step: PlaceStep::None };

    /// Returns a place inside this one.
    pub(super) fn step(&'p self, step: PlaceStep<'p>) -> Self {
        Self { around: Some(self), step }
    }

    /// Tells whether it is a field of the whole object.
    pub(super) fn is_of_root(&self) -> bool {
        self.around.is_some_and(|around| around.around.is_none())
    }

    /// Hashes the place without the steps that differ between the items of a list, which are added to `item`.
    /// The same place may have another hash if it is reached by other steps.
    pub(super) fn pattern<'s>(&'s self, item: &mut Vec<fold::ItemStep<'s>>, hasher: &mut DefaultHasher) {
        self.same().hash(hasher);
        self.differing(item);
    }

    /// Returns a hash of the place, as by [`ApiPlace::pattern`], and of `what`, and the steps that differ.
    pub(super) fn hashed(&self, what: impl Hash) -> (u64, Vec<fold::ItemStep<'_>>) {
        let (mut hasher, mut item) = (hash::keyed(), Vec::new());
        what.hash(&mut hasher);
        self.pattern(&mut item, &mut hasher);
        (hasher.finish(), item)
    }

    /// Returns a hash of the steps that do not differ between the items of a list.
    fn same(&self) -> u64 {
        self.around.map_or(0, |around| fold::mix(around.same(), self.step.pattern()))
    }

    /// Adds the steps that differ between the items of lists.
    pub(super) fn differing<'s>(&'s self, item: &mut Vec<fold::ItemStep<'s>>) {
        if let Some(around) = self.around {
            around.differing(item);
        }
        match self.step {
            PlaceStep::None | PlaceStep::Fields(_) | PlaceStep::Field(_) => {}
            PlaceStep::Key(key) => item.push(fold::ItemStep::Key(key)),
            PlaceStep::Index(index) => item.push(fold::ItemStep::Index(index)),
        }
    }

    /// Returns the pointer to the place.
    pub(super) fn pointer(&self) -> Pointer {
        let around = self.around.map(ApiPlace::pointer).unwrap_or_default();
        match self.step {
            PlaceStep::None => around,
            PlaceStep::Fields(keys) => keys.iter().fold(around, |pointer, key| pointer / *key),
            PlaceStep::Field(key) => around / key,
            PlaceStep::Key(key) => around.key(key),
            PlaceStep::Index(index) => around / index,
        }
    }
}

/// Calls a function with each mapping at a path of a value, and its place; [`EACH`] stands for any item or entry.
pub(super) fn each_mapping<'v>(
    around: &ApiPlace<'_>,
    value: &'v Value,
    path: &'static [&'static str],
    found: &mut dyn FnMut(ApiPlace<'_>, &'v Value),
) {
    meter::spend(1);
    let end = path.iter().position(|key| *key == EACH);
    let (fields, below) = end.map_or((path, None), |end| (&path[..end], Some(&path[end + 1..])));
    let Some(value) = value_at(value, fields) else { return };
    let place = around.step(PlaceStep::Fields(fields));
    match (value, below) {
        (Value::Object(_), None) => found(place, value),
        (Value::Object(entries), Some(below)) => {
            for (key, value) in entries {
                each_mapping(&place.step(PlaceStep::Key(key)), value, below, found);
            }
        }
        (Value::Array(items), Some(below)) => {
            for (index, value) in items.iter().enumerate() {
                each_mapping(&place.step(PlaceStep::Index(index)), value, below, found);
            }
        }
        _ => {}
    }
}

/// Returns the value at the end of a path of keys.
pub(super) fn value_at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}
