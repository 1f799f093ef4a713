//! Places of an object for validation.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;

use super::cause::CausePlace;
use crate::judge::api::place::{ApiPlace, PlaceStep};
use crate::judge::api::stored_object::{Entries, Stored};
use crate::judge::fold;
use crate::kinds::whole;
use crate::text::meter;
use crate::text::pointer::Pointer;

/// A place of an object. It has no pointer yet: most of the hundreds that validation reads do not exist.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPart<'p, 'v> {
    /// The place.
    place: ApiPlace<'p>,
    /// The value; nothing if the place does not exist. `null` is a value, but "unset" to [`ObjectPart::is_set`].
    pub(super) value: Option<&'v Stored<'v>>,
}

impl<'p, 'v> ObjectPart<'p, 'v> {
    /// Returns a place of an object that is decoded without what is around it.
    pub(super) fn at_place(place: ApiPlace<'p>, value: &'v Stored<'v>) -> Self {
        Self { place, value: Some(value) }
    }
}

impl<'v> ObjectPart<'_, 'v> {
    /// Returns the root of an object.
    pub(super) fn root(object: &'v Stored<'v>) -> Self {
        Self { place: ApiPlace::ROOT, value: Some(object) }
    }

    /// Returns a field.
    pub(super) fn get(&self, key: &'static str) -> ObjectPart<'_, 'v> {
        ObjectPart {
            place: self.place.step(PlaceStep::Field(key)),
            value: self.value.and_then(|value| value.get(key)),
        }
    }

    /// Returns the field at the end of a path of keys.
    pub(super) fn at(&self, keys: &'static [&'static str]) -> ObjectPart<'_, 'v> {
        let value = keys.iter().try_fold(self.value, |value, key| Some(value?.get(key))).flatten();
        ObjectPart { place: self.place.step(PlaceStep::Fields(keys)), value }
    }

    /// Returns the items, if it is a list.
    pub(super) fn items(&self) -> impl Iterator<Item = ObjectPart<'_, 'v>> {
        let items = self.value.and_then(Stored::as_list).unwrap_or_default();
        items.iter().enumerate().map(|(index, value)| {
            meter::spend(1);
            ObjectPart { place: self.place.step(PlaceStep::Index(index)), value: Some(value) }
        })
    }

    /// Returns the items that can be read as mappings, if it is a list. Items of another type only get a finding
    /// for their type.
    pub(super) fn readable(&self) -> impl Iterator<Item = ObjectPart<'_, 'v>> {
        self.readable_with_index().map(|(_, item)| item)
    }

    /// Like [`ObjectPart::readable`], each with its index.
    pub(super) fn readable_with_index(&self) -> impl Iterator<Item = (usize, ObjectPart<'_, 'v>)> {
        let is_readable =
            |item: &ObjectPart<'_, 'v>| item.is_mapping() || item.value.is_some_and(Stored::is_null);
        self.items().enumerate().filter(move |(_, item)| is_readable(item))
    }

    /// Returns the number of its steps that differ between items of lists.
    pub(super) fn differing(&self) -> usize {
        let mut steps = Vec::new();
        self.place.differing(&mut steps);
        steps.len()
    }

    /// Returns the entries, if it is a mapping, whose keys the author chooses.
    pub(super) fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, ObjectPart<'s, 'v>)>
    where
        'v: 's,
    {
        let entries = self.value.and_then(Stored::as_mapping).into_iter().flat_map(Entries::iter);
        entries.map(|(key, value)| {
            meter::spend(1);
            (key, ObjectPart { place: self.place.step(PlaceStep::Key(key)), value: Some(value) })
        })
    }

    /// Tells whether there is a value other than null.
    pub(super) fn is_set(&self) -> bool {
        self.value.is_some_and(|value| !value.is_null())
    }

    /// Tells whether it is a mapping.
    pub(super) fn is_mapping(&self) -> bool {
        self.value.is_some_and(|value| value.as_mapping().is_some())
    }

    /// Returns the string, or an empty one.
    pub(super) fn text(&self) -> &'v str {
        match self.value {
            Some(Stored::Text(Cow::Borrowed(text))) => text,
            Some(Stored::Text(Cow::Owned(text))) => text,
            _ => "",
        }
    }

    /// Returns the integer, if it is one. A float without a fraction is one.
    pub(super) fn number(&self) -> Option<i64> {
        match self.value {
            Some(Stored::Number(number)) => whole(number),
            _ => None,
        }
    }

    /// Tells whether it is the boolean `true`.
    pub(super) fn is_true(&self) -> bool {
        self.bool() == Some(true)
    }

    /// Returns the boolean, if it is one.
    pub(super) fn bool(&self) -> Option<bool> {
        match self.value {
            Some(Stored::Bool(value)) => Some(*value),
            _ => None,
        }
    }
}

impl CausePlace for ObjectPart<'_, '_> {
    fn pointer(&self) -> Pointer {
        self.place.pointer()
    }

    fn pattern<'s>(&'s self, item: &mut Vec<fold::ItemStep<'s>>, hasher: &mut DefaultHasher) -> bool {
        self.place.pattern(item, hasher);
        true
    }
}
