//! An object as the API server stores it. Borrows what the author wrote; only what the server adds or changes
//! is new.
//!
//! Every manifest is converted for validation, so keys and strings are not copied, and mappings are sorted
//! vectors: most fields that validation reads are missing, which is then fast to see.

use std::borrow::Cow;

use serde_json::Number;

use crate::k8s::quantity::{Quantity, QuantityError};
use crate::kinds::Kind;
use crate::text::value::{Map, Value};

/// A value of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, of the author or the server.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Self>),
    /// A mapping.
    Mapping(Entries<'a>),
}

impl<'a> Stored<'a> {
    /// Returns an unchanged value.
    #[must_use]
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => text.as_str().into(),
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Object(entries) => Self::Mapping(Entries::of(entries, |_, value| Some(Self::of(value)))),
        }
    }

    /// Returns an owned copy.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(*bool),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String((**text).into()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Mapping(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.to_owned(), value.to_value())).collect())
            }
        }
    }

    /// Tells whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items, if it is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the fields, if it is a mapping.
    #[must_use]
    pub fn as_mapping(&self) -> Option<&Entries<'a>> {
        match self {
            Self::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the items to change, if it is a list.
    #[must_use]
    pub fn as_list_mut(&mut self) -> Option<&mut [Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the fields to change, if it is a mapping.
    #[must_use]
    pub fn as_mapping_mut(&mut self) -> Option<&mut Entries<'a>> {
        match self {
            Self::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns a field, if it is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_mapping()?.get(key)
    }

    /// Returns the kind of an object, if the fields of its version are known.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        let version = self.get("apiVersion")?.as_str()?;
        let kind = Kind::typed(version, self.get("kind")?.as_str()?)?;
        kind.knows(version).then_some(kind)
    }

    /// Parses a quantity, as [`Quantity::from_json`] does.
    ///
    /// # Errors
    /// It is not a quantity.
    pub fn quantity(&self) -> Result<Quantity, QuantityError> {
        match self {
            Self::Text(text) => Quantity::parse(text.trim()),
            other => Quantity::from_json(&other.to_value()),
        }
    }
}

impl<'a> From<&'a str> for Stored<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Stored<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Stored<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Stored<'_> {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

/// The fields of a mapping, sorted by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries<'a>(Vec<(&'a str, Stored<'a>)>);

/// The most fields that are searched one by one: keys of different lengths, as most are, compare fast.
const FEW: usize = 16;

/// Capacity for defaults.
const SPARE: usize = 6;

impl<'a> Entries<'a> {
    /// Converts the fields of a mapping, without those for which `read` returns nothing.
    #[must_use]
    pub fn of(entries: &'a Map, mut read: impl FnMut(&'a str, &'a Value) -> Option<Stored<'a>>) -> Self {
        let mut fields = Vec::with_capacity(entries.len() + SPARE);
        fields.extend(entries.iter().filter_map(|(key, value)| Some((key, read(key, value)?))));
        debug_assert!(fields.is_sorted_by_key(|(key, _)| *key), "a mapping is sorted");
        Self(fields)
    }

    fn position(&self, key: &str) -> Option<usize> {
        if self.0.len() <= FEW {
            self.0.iter().position(|(known, _)| *known == key)
        } else {
            self.search(key).ok()
        }
    }

    /// Returns the index of a field, or where to insert it.
    fn search(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (*known).cmp(key))
    }

    /// Returns a field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Stored<'a>> {
        self.position(key).map(|at| &self.0[at].1)
    }

    /// Returns a field to change.
    #[must_use]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Stored<'a>> {
        self.position(key).map(|at| &mut self.0[at].1)
    }

    /// Tells whether a field is there.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Returns a field to change, added if missing.
    pub fn get_or_insert(&mut self, key: &'a str, value: impl FnOnce() -> Stored<'a>) -> &mut Stored<'a> {
        let at = match self.search(key) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (key, value()));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Sets a field.
    pub fn insert(&mut self, key: &'a str, value: Stored<'a>) {
        match self.search(key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Removes a field; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Stored<'a>> {
        self.position(key).map(|at| self.0.remove(at).1)
    }

    /// Tells whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &Stored<'a>)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }

    /// Returns the values to change, by key.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Stored<'a>> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn a_value_comes_back_as_it_was() {
        let value = json!({"b": [1, -2.5, "x", null, true, {}], "a": {"c": [], "": "é"}});
        assert_eq!(Stored::of(&value).to_value(), value);
        assert_eq!(Stored::of(&value).get("a").and_then(|a| a.get("")).and_then(Stored::as_str), Some("é"));
        assert_eq!(Stored::of(&value).get("b").and_then(Stored::as_list).map(<[_]>::len), Some(6));
    }

    #[test]
    fn fields_are_found_however_many_there_are() {
        let keys: Vec<String> = (0..2 * FEW).map(|nth| format!("{nth:03}")).collect();
        let mut entries = Entries::default();
        for key in keys.iter().rev() {
            assert!(!entries.contains(key));
            entries.get_or_insert(key, || key.as_str().into());
            entries.get_or_insert(key, || Stored::Null);
        }
        assert_eq!(entries.iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        assert!(keys.iter().all(|key| entries.get(key).and_then(Stored::as_str) == Some(key)));
        for key in &keys {
            entries.insert(key, Stored::Bool(true));
            assert_eq!((entries.remove(key), entries.remove(key)), (Some(Stored::Bool(true)), None));
        }
        assert!(entries.is_empty());
    }
}
