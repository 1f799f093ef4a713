//! One step into a value.

use std::ops::{Index, IndexMut};

use super::{Map, Value};

/// One step into a value: a key or an index.
pub trait KeyOrIndex {
    /// Returns the value at this key or index.
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// Returns the value at this key or index, to change.
    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// Returns the value at this key or index, to change. A missing field of a mapping or of `null` is added as
    /// `null`.
    ///
    /// # Panics
    /// The value cannot have such a field or item.
    fn make<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl KeyOrIndex for str {
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn make<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(entries) => entries.get_or_insert_with(self, || Value::Null),
            other => panic!("no field `{self}` can be made in `{other}`"),
        }
    }
}

impl KeyOrIndex for usize {
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn make<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        match value {
            Value::Array(items) => &mut items[*self],
            other => panic!("`{other}` has no items"),
        }
    }
}

impl KeyOrIndex for String {
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.as_str().find_in(value)
    }

    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.as_str().find_in_mut(value)
    }

    fn make<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.as_str().make(value)
    }
}

impl<S: KeyOrIndex + ?Sized> KeyOrIndex for &S {
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).find_in(value)
    }

    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).find_in_mut(value)
    }

    fn make<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).make(value)
    }
}

impl<S: KeyOrIndex> Index<S> for Value {
    type Output = Self;

    /// Returns a field or an item; `null` where there is none.
    fn index(&self, step: S) -> &Self {
        step.find_in(self).unwrap_or(&Self::Null)
    }
}

impl<S: KeyOrIndex> IndexMut<S> for Value {
    /// Returns a field or an item to change; see [`KeyOrIndex::make`].
    fn index_mut(&mut self, step: S) -> &mut Self {
        step.make(self)
    }
}
