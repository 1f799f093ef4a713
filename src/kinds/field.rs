//! Typed reads of fields that may hold anything: a custom resource reaches the mutating webhook before its
//! schema is checked.

use serde_json::Number;

use crate::text::meter;
use crate::text::patch::Op;
use crate::text::placeholder;
use crate::text::pointer::Pointer;
use crate::text::value::{Value, json};

/// A place of the object that may or may not be there.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Where it is, or would be.
    pub pointer: Pointer,
    /// What is there; nothing where the place does not exist. `null` is a value here and "unset" to
    /// [`Part::is_set`].
    pub value: Option<&'a Value>,
}

/// What a field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a, T> {
    /// Missing or null: Kubernetes treats both alike.
    Unset,
    /// A value of the right type.
    Set(T),
    /// A stand-in that some tool is meant to replace (`$NUM_NODES`).
    Placeholder(&'a str),
    /// A value of another type. The API server refuses it; rules say nothing about it.
    Wrong,
}

impl<T> Field<'_, T> {
    /// Returns the value, if there is one of the right type.
    pub fn set(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Unset | Self::Placeholder(_) | Self::Wrong => None,
        }
    }

    /// Tells whether the field is missing or null.
    pub fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }

    /// Returns the value, the default for an unset field, or nothing where nobody can say.
    pub fn or_default(self, default: T) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Unset => Some(default),
            Self::Placeholder(_) | Self::Wrong => None,
        }
    }
}

impl<'a> Part<'a> {
    /// Returns the whole of an object.
    #[must_use]
    pub fn root(object: &'a Value) -> Self {
        Self { pointer: Pointer::root(), value: Some(object) }
    }

    /// Returns the operation that sets a field of this mapping, which may itself be missing; nothing where
    /// something else is in its place.
    #[must_use]
    pub fn set(&self, key: &'static str, value: Value) -> Option<Op> {
        match self.value {
            Some(Value::Object(_)) => Some(Op::Add(&self.pointer / key, value)),
            // `null` is no mapping to add to, but a value to put a mapping in the place of.
            Some(Value::Null) => Some(Op::Replace(self.pointer.clone(), json!({key: value}))),
            None => Some(Op::Add(self.pointer.clone(), json!({key: value}))),
            Some(_) => None,
        }
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

    /// Returns the items of a list; none where there is no list.
    pub fn items(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let pointer = self.pointer.clone();
        let items = self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().enumerate().map(move |(index, value)| {
            meter::spend(1);
            Part { pointer: &pointer / index, value: Some(value) }
        })
    }

    /// Returns the entries of a mapping with keys of the author's choice, in key order; none where there is
    /// no mapping.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Part<'a>)> + use<'a> {
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

    /// Tells whether the place holds a mapping, so that a field can be added to it.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
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
        match self.value {
            None | Some(Value::Null) => Field::Unset,
            Some(Value::String(text)) if placeholder::is_placeholder(text) => Field::Placeholder(text),
            Some(Value::String(text)) => Field::Set(text),
            Some(_) => Field::Wrong,
        }
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

/// Returns an integer, also of a float without a fraction within ±2^53: kubectl writes `4.0` as `4` before it
/// sends it.
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
        let parent = Part { pointer: Pointer::of(&["spec", "runPolicy"]), value: None };
        let ops = [parent.set("a", 1.into()), parent.set("b", 2.into())].into_iter().flatten();
        let patched = patch::apply(&object, &patch::combine(ops)).expect("applies");
        assert_eq!(patched, json!({"spec": {"runPolicy": {"a": 1, "b": 2}}}));
    }

    #[test]
    fn a_null_parent_is_replaced_and_anything_else_is_left_alone() {
        let null = Value::Null;
        let text = Value::from("x");
        let pointer = Pointer::of(&["runPolicy"]);
        let parent = Part { pointer: pointer.clone(), value: Some(&null) };
        assert_eq!(parent.set("a", 1.into()), Some(Op::Replace(pointer.clone(), json!({"a": 1}))));
        assert_eq!(Part { pointer, value: Some(&text) }.set("a", 1.into()), None);
    }
}
