//! Typed access to fields of any type: the mutating webhook gets custom resources before their schema is
//! checked.

use serde_json::Number;

use crate::text::meter;
use crate::text::patch::Op;
use crate::text::placeholder;
use crate::text::pointer::Pointer;
use crate::text::value::{Value, json};

/// A path of keys from a mapping down.
pub type Path = &'static [&'static str];

/// A place in an object, which may not exist.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Where it is, or would be.
    pub pointer: Pointer,
    /// The value; nothing if the place does not exist. `null` is a value, but "unset" to [`Part::is_set`].
    pub value: Option<&'a Value>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a, T> {
    /// Missing or null, which Kubernetes treats alike.
    Unset,
    /// A value of the right type.
    Set(T),
    /// A placeholder (`$NUM_NODES`).
    Placeholder(&'a str),
    /// A value of another type, which the API server rejects and rules ignore.
    Wrong,
}

impl<T> Field<'_, T> {
    /// Returns the value, if there is one of the right type.
    pub(crate) fn set(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Unset | Self::Placeholder(_) | Self::Wrong => None,
        }
    }

    /// Tells whether the field is missing or null.
    pub(crate) fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }

    /// Returns the value, the default for an unset field, or nothing if it is unknown.
    pub(crate) fn or_default(self, default: T) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Unset => Some(default),
            Self::Placeholder(_) | Self::Wrong => None,
        }
    }
}

impl<'a> Part<'a> {
    /// Returns the root of an object.
    #[must_use]
    pub fn root(object: &'a Value) -> Self {
        Self { pointer: Pointer::root(), value: Some(object) }
    }

    /// Returns the operation that sets a field of this mapping, which may be missing; nothing for other
    /// values.
    #[must_use]
    pub(crate) fn set(&self, key: &'static str, value: Value) -> Option<Op> {
        match self.value {
            Some(Value::Object(_)) => Some(Op::Add(&self.pointer / key, value)),
            // Replace `null`, to which nothing can be added.
            Some(Value::Null) => Some(Op::Replace(self.pointer.clone(), json!({key: value}))),
            None => Some(Op::Add(self.pointer.clone(), json!({key: value}))),
            Some(_) => None,
        }
    }

    /// Returns the operation that sets the field at the end of a path in this mapping: any on the way may be
    /// missing.
    #[must_use]
    pub(crate) fn set_at(&self, path: &[&'static str], value: Value) -> Option<Op> {
        let (key, below) = path.split_first()?;
        let part = self.get(key);
        if !below.is_empty() && part.is_set() {
            return part.set_at(below, value);
        }
        self.set(key, below.iter().rfold(value, |value, key| json!({*key: value})))
    }

    /// Returns the operation that removes a field that there is, and the mapping with it if it has no other.
    #[must_use]
    pub(crate) fn removal(&self, key: &'static str) -> Op {
        let is_alone = self.value.and_then(Value::as_object).is_some_and(|all| all.len() == 1);
        Op::Remove(if is_alone { self.pointer.clone() } else { &self.pointer / key })
    }

    /// Returns a field.
    #[must_use]
    pub fn get(&self, key: &'static str) -> Self {
        Self { pointer: &self.pointer / key, value: self.value.and_then(|value| value.as_object()?.get(key)) }
    }

    /// Returns the field at the end of a path of keys.
    #[must_use]
    pub fn at(&self, keys: &[&'static str]) -> Self {
        let mut pointer = self.pointer.clone();
        let mut value = self.value;
        for key in keys {
            pointer = pointer / *key;
            value = value.and_then(|value| value.as_object()?.get(key));
        }
        Self { pointer, value }
    }

    /// Returns the items without their places, if it is a list.
    #[must_use]
    pub(crate) fn values(&self) -> &'a [Value] {
        self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
    }

    /// Returns the items, if it is a list.
    pub fn items(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let pointer = self.pointer.clone();
        self.values().iter().enumerate().map(move |(index, value)| {
            meter::spend(1);
            Part { pointer: &pointer / index, value: Some(value) }
        })
    }

    /// Returns the items that can be read as mappings, if it is a list. Others are skipped: their type is all
    /// that there is to report, and a list may have nothing else.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let pointer = self.pointer.clone();
        self.values()
            .iter()
            .enumerate()
            .inspect(|_| meter::spend(1))
            .filter(|(_, value)| may_be_read(value))
            .map(move |(index, value)| Part { pointer: &pointer / index, value: Some(value) })
    }

    /// Returns the entries with values that can be read as mappings, if it is a mapping with keys chosen by the
    /// author.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a str, Part<'a>)> + use<'a> {
        let pointer = self.pointer.clone();
        let entries = self.value.and_then(Value::as_object).into_iter().flatten();
        entries
            .inspect(|_| meter::spend(1))
            .filter(|(_, value)| may_be_read(value))
            .map(move |(key, value)| (key, Part { pointer: pointer.key(key), value: Some(value) }))
    }

    /// Returns the entries, if it is a mapping with keys chosen by the author.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Part<'a>)> + use<'a> {
        let pointer = self.pointer.clone();
        let entries = self.value.and_then(Value::as_object).into_iter().flatten();
        entries.map(move |(key, value)| {
            meter::spend(1);
            (key, Part { pointer: pointer.key(key), value: Some(value) })
        })
    }

    /// Tells whether there is a value other than null.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.value.is_some_and(|value| !value.is_null())
    }

    /// Tells whether it is a mapping.
    #[must_use]
    pub(crate) fn is_mapping(&self) -> bool {
        self.value.is_some_and(Value::is_object)
    }

    /// Reads an integer. A float without a fraction is one.
    #[must_use]
    pub fn int(&self) -> Field<'a, i64> {
        match self.value {
            None | Some(Value::Null) => Field::Unset,
            Some(Value::Number(number)) => whole(number).map_or(Field::Wrong, Field::Set),
            Some(Value::String(text)) if placeholder::is_placeholder(text) => Field::Placeholder(text),
            Some(_) => Field::Wrong,
        }
    }

    /// Reads a string.
    #[must_use]
    pub fn text(&self) -> Field<'a, &'a str> {
        text_of(self.value)
    }

    /// Reads a boolean.
    #[must_use]
    pub fn bool(&self) -> Field<'a, bool> {
        match self.value {
            None | Some(Value::Null) => Field::Unset,
            Some(Value::Bool(value)) => Field::Set(*value),
            Some(Value::String(text)) if placeholder::is_placeholder(text) => Field::Placeholder(text),
            Some(_) => Field::Wrong,
        }
    }
}

/// Reads a string field of an item without making its pointer: a list may have hundreds of thousands of items.
pub(crate) fn text_in<'a>(item: &'a Value, key: &str) -> Field<'a, &'a str> {
    text_of(item.get(key))
}

fn text_of(value: Option<&Value>) -> Field<'_, &str> {
    match value {
        None | Some(Value::Null) => Field::Unset,
        Some(Value::String(text)) if placeholder::is_placeholder(text) => Field::Placeholder(text),
        Some(Value::String(text)) => Field::Set(text),
        Some(_) => Field::Wrong,
    }
}

/// Tells whether a value is a mapping, or null, which counts as missing.
pub(super) fn may_be_read(value: &Value) -> bool {
    value.is_object() || value.is_null()
}

/// Returns an integer, also for a float without a fraction within ±2^53: kubectl sends `4.0` as `4`.
#[allow(clippy::cast_possible_truncation, reason = "whole and in range")]
pub(crate) fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| {
            number.is_f64() && float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0
        })?;
        Some(float as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::patch;

    #[test]
    fn two_that_bring_the_same_mapping_become_one() {
        let object = json!({"spec": {}});
        let parent = Part { pointer: Pointer::new(&["spec", "runPolicy"]), value: None };
        let ops = [parent.set("a", 1.into()), parent.set("b", 2.into())].into_iter().flatten();
        let patched = patch::apply(&object, &patch::combine(ops)).expect("applies");
        assert_eq!(patched, json!({"spec": {"runPolicy": {"a": 1, "b": 2}}}));
    }

    #[test]
    fn a_field_below_missing_mappings_brings_them() {
        let path = ["strategy", "after", "seconds"];
        for before in [
            json!({}),
            json!({"strategy": null}),
            json!({"strategy": {}}),
            json!({"strategy": {"after": {}}}),
        ] {
            let op = Part::root(&before).set_at(&path, 1.into()).expect("an operation");
            let patched = patch::apply(&before, &[op]).expect("applies");
            assert_eq!(patched, json!({"strategy": {"after": {"seconds": 1}}}), "{before}");
        }
        assert_eq!(Part::root(&json!({"strategy": "x"})).set_at(&path, 1.into()), None);
    }

    #[test]
    fn a_null_parent_is_replaced_and_anything_else_is_left_alone() {
        let null = Value::Null;
        let text = Value::from("x");
        let pointer = Pointer::new(&["runPolicy"]);
        let parent = Part { pointer: pointer.clone(), value: Some(&null) };
        assert_eq!(parent.set("a", 1.into()), Some(Op::Replace(pointer.clone(), json!({"a": 1}))));
        assert_eq!(Part { pointer, value: Some(&text) }.set("a", 1.into()), None);
    }
}
