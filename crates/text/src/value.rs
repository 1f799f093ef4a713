//! A JSON value that is small and fast to build. All objects are read into it.
//!
//! It is used like `serde_json::Value`, whose B-trees and strings take longer to allocate and drop than the
//! objects take to judge. Here the entries of a mapping are one sorted vector, and text of up to 24 bytes is
//! stored inline.

mod convert;
mod map;
mod read;
mod table;

use std::borrow::Cow;
use std::fmt;
use std::ops::{Index, IndexMut};

pub use compact_str::CompactString as Text;
pub use convert::json;
pub use map::make_room;
pub use map::{Entries, Fields, Map};
pub use read::{Select, ValueReader};
use serde_json::Number;
pub(crate) use table::KeyTable;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(Vec<Self>),
    /// A mapping.
    Object(Map),
}

impl Value {
    /// Returns a field of a mapping, by its key, or an item of a list, by its index.
    pub fn get(&self, step: impl KeyOrIndex) -> Option<&Self> {
        step.find_in(self)
    }

    /// Returns a field or an item, to change.
    pub fn get_mut(&mut self, step: impl KeyOrIndex) -> Option<&mut Self> {
        step.find_in_mut(self)
    }

    /// Returns the value at a JSON Pointer (RFC 6901).
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Array(items) => items.get(index_of(&step)?),
            value => value.get(&*step),
        })
    }

    /// Returns the value at a JSON Pointer, to change.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Array(items) => items.get_mut(index_of(&step)?),
            value => value.get_mut(&*step),
        })
    }

    /// Returns the string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(bool) => Some(*bool),
            _ => None,
        }
    }

    /// Returns the number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the number, if it is an integer in range.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// Returns the number, if it is an integer in range.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// Returns the number, if it is one, as a float.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// Returns the items, if it is a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the items to change, if it is a list.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the entries, if it is a mapping.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the entries to change, if it is a mapping.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// Tells whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Tells whether it is a string.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Tells whether it is a list.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Tells whether it is a mapping.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Replaces the value with `null`, and returns it.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns the value as one of `serde_json`, for other libraries.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(bool) => serde_json::Value::Bool(*bool),
            Self::Number(number) => serde_json::Value::Number(number.clone()),
            Self::String(text) => serde_json::Value::String(text.as_str().to_owned()),
            Self::Array(items) => items.iter().map(Self::to_json).collect(),
            Self::Object(entries) => serde_json::Value::Object(
                entries.iter().map(|(key, value)| (key.to_owned(), value.to_json())).collect(),
            ),
        }
    }
}

/// Returns the steps of a JSON Pointer, which is empty or starts with `/`.
fn steps(pointer: &str) -> Option<impl Iterator<Item = Cow<'_, str>>> {
    (pointer.is_empty() || pointer.starts_with('/')).then(|| pointer.split('/').skip(1).map(unescaped))
}

/// Resolves the escapes in a step of a JSON Pointer.
fn unescaped(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

/// Parses an index, which has no sign and no leading zeros.
fn index_of(step: &str) -> Option<usize> {
    if step.starts_with('+') || step.starts_with('0') && step.len() > 1 { None } else { step.parse().ok() }
}

/// One step into a value: a key or an index.
pub trait KeyOrIndex {
    /// Returns the value at this key or index.
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// Returns the value at this key or index, to change.
    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// Returns the value at this key or index, to change. A missing field of a mapping or of `null` is added
    /// as `null`.
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

impl fmt::Display for Value {
    /// Writes the value as JSON: in one line, or with `{:#}` in many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::map::FEW;
    use super::*;

    /// Returns JSON of every type, with keys that repeat and texts around the length that lies in a value.
    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "[a-zé\"\\\\]{0,30}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 64, 24, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..24).prop_map(Into::into),
                prop::collection::vec(("[a-e~/0-9]{0,3}", inner), 0..40)
                    .prop_map(|entries| entries.into_iter().collect()),
            ]
        })
    }

    #[test]
    fn of_equal_keys_the_last_one_counts() {
        for count in [1, FEW - 1, FEW, FEW + 1, 4 * FEW] {
            let once = (0..count).map(|nth| format!(r#""{nth}":0"#)).collect::<Vec<_>>().join(",");
            let value: Value =
                serde_json::from_str(&format!(r#"{{"0":[],{once},"0":1,"0":2}}"#)).expect("JSON");
            assert_eq!((value["0"].as_i64(), value.as_object().map(Map::len)), (Some(2), Some(count)));
        }
    }

    #[test]
    fn entries_are_found_however_many_there_are() {
        let keys: Vec<String> = (0..2 * FEW).map(|nth| format!("{nth:03}")).collect();
        let mut map = Map::new();
        let mut fields = Fields::default();
        for key in keys.iter().rev() {
            assert_eq!((map.insert(key, Value::Null), map.insert(key, 1.into())), (None, Some(Value::Null)));
            assert!(fields.get_mut(key).is_none());
            fields.push(key.into(), 0.into());
            *fields.get_mut(key).expect("it was put in") = 1.into();
        }
        assert!(map.keys().eq(keys.iter().map(String::as_str)));
        assert_eq!(fields.into_map(), map);
        for key in &keys {
            *map.get_or_insert_with(key, || panic!("it is there")) = true.into();
            assert_eq!(
                (map.get(key).and_then(Value::as_bool), map.remove(key), map.remove(key)),
                (Some(true), Some(true.into()), None)
            );
        }
        assert!(map.is_empty());
    }

    #[test]
    fn what_is_not_there_is_null_and_made_where_it_is_set() {
        let mut value = json!({"a": [1, {"b": "c"}]});
        assert_eq!(
            (&value["a"][1]["b"], &value["a"]["x"], &value["x"]["y"]),
            (&json!("c"), &Value::Null, &Value::Null)
        );
        value["x"]["y"] = true.into();
        value["a"][0] = 2.into();
        assert_eq!(value, json!({"a": [2, {"b": "c"}], "x": {"y": true}}));
        assert_eq!(value["a"].take(), json!([2, {"b": "c"}]));
        assert_eq!(value, json!({"a": null, "x": {"y": true}}));
    }

    proptest! {
        #[test]
        fn it_holds_and_prints_what_serde_json_does(json in any_json()) {
            let value = Value::from(json.clone());
            prop_assert_eq!(&value.to_json(), &json);
            prop_assert_eq!(value.to_string(), json.to_string());
            prop_assert_eq!(format!("{value:#}"), format!("{json:#}"));
            let read: Value = serde_json::from_str(&json.to_string()).expect("JSON");
            prop_assert_eq!(&read.to_json(), &serde_json::from_str::<serde_json::Value>(&json.to_string()).expect("JSON"));
        }

        #[test]
        fn pointers_lead_to_the_same_places(json in any_json(), steps in prop::collection::vec("[a-e]|[0-9]{1,2}|~0|~1|~|\\+1|01|", 0..4)) {
            let pointer: String = steps.iter().map(|step| format!("/{step}")).collect();
            let mut value = Value::from(json.clone());
            let found = json.pointer(&pointer).cloned();
            prop_assert_eq!(value.pointer(&pointer).map(Value::to_json), found.clone());
            prop_assert_eq!(value.pointer_mut(&pointer).map(|value| value.to_json()), found);
        }

        #[test]
        fn values_are_equal_where_those_of_serde_json_are(all in prop::collection::vec(any_json(), 2..6)) {
            for (left, right) in all.iter().flat_map(|left| all.iter().map(move |right| (left, right))) {
                let (ours, others): (Value, Value) = (left.clone().into(), right.clone().into());
                prop_assert_eq!(ours == others, left == right);
            }
        }
    }
}
