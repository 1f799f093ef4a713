//! An object as the API server stores it. Borrows what the author wrote; only what the server adds or changes
//! is new.
//!
//! Every manifest is converted for validation, so keys and strings are not copied, and mappings are sorted
//! vectors: most fields that validation reads are missing, which is then fast to see.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::Number;

use crate::k8s::quantity::{Quantity, QuantityError};
use crate::kinds::Kind;
use crate::text::hash;
use crate::text::value::{Map, Value};

/// A value of an object.
#[derive(Clone, Debug)]
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
    /// A mapping that equal items of a list share, with its defaults.
    Shared(Arc<Entries<'a>>),
}

impl PartialEq for Stored<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Shared(one), Self::Shared(other)) if Arc::ptr_eq(one, other) => true,
            (one, other) => one.as_mapping().zip(other.as_mapping()).is_some_and(|(one, other)| one == other),
        }
    }
}

impl<'a> Stored<'a> {
    /// Returns an unchanged value.
    #[must_use]
    pub(crate) fn from_value(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => text.as_str().into(),
            Value::Array(items) => Self::List(items.iter().map(Self::from_value).collect()),
            // Without spare capacity: nothing is added to it, and there may be many.
            Value::Object(entries) => Self::Mapping(Map::from_sorted(
                entries.iter().map(|(key, value)| (key, Self::from_value(value))).collect(),
            )),
        }
    }

    /// Returns an owned copy.
    #[must_use]
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(*bool),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String((**text).into()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Mapping(_) | Self::Shared(_) => {
                let entries = self.as_mapping().into_iter().flat_map(Entries::iter);
                Value::Object(entries.map(|(key, value)| (key.to_owned(), value.to_value())).collect())
            }
        }
    }

    /// Tells whether it is `null`.
    #[must_use]
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items, if it is a list.
    #[must_use]
    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the fields, if it is a mapping.
    #[must_use]
    pub(crate) fn as_mapping(&self) -> Option<&Entries<'a>> {
        match self {
            Self::Mapping(entries) => Some(entries),
            Self::Shared(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the items to change, if it is a list.
    #[must_use]
    pub(crate) fn as_list_mut(&mut self) -> Option<&mut [Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the fields to change, if it is a mapping of its own.
    #[must_use]
    pub(crate) fn as_mapping_mut(&mut self) -> Option<&mut Entries<'a>> {
        match self {
            Self::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns a field, if it is a mapping that has it.
    #[must_use]
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.as_mapping()?.get(key)
    }

    /// Returns the kind of an object, if the fields of its version are known.
    #[must_use]
    pub(crate) fn kind(&self) -> Option<Kind> {
        let version = self.get("apiVersion")?.as_str()?;
        let kind = Kind::typed(version, self.get("kind")?.as_str()?)?;
        kind.knows(version).then_some(kind)
    }

    /// Parses a quantity, as [`Quantity::from_json`] does.
    ///
    /// # Errors
    /// It is not a quantity.
    pub(crate) fn quantity(&self) -> Result<Quantity, QuantityError> {
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
pub(crate) type Entries<'a> = Map<&'a str, Stored<'a>>;

/// Maximum values and keys of a mapping that [`hash_of_small`] hashes.
const SMALL: usize = 16;

/// Returns a hash of a small mapping, to find equal ones.
pub(super) fn hash_of_small(entries: &Entries<'_>) -> Option<u64> {
    let (mut hasher, mut left) = (hash::keyed(), SMALL);
    hash(entries, &mut hasher, &mut left).then(|| hasher.finish())
}

/// Hashes a mapping; `false` once nothing is left of `left`.
fn hash(entries: &Entries<'_>, hasher: &mut DefaultHasher, left: &mut usize) -> bool {
    entries.len().hash(hasher);
    entries.iter().all(|(key, value)| {
        key.hash(hasher);
        hash_value(value, hasher, left)
    })
}

fn hash_value(value: &Stored<'_>, hasher: &mut DefaultHasher, left: &mut usize) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    match value {
        Stored::Null => 0_u8.hash(hasher),
        Stored::Bool(bool) => bool.hash(hasher),
        Stored::Number(number) => number.hash(hasher),
        Stored::Text(text) => text.hash(hasher),
        Stored::List(items) => {
            items.len().hash(hasher);
            return items.iter().all(|item| hash_value(item, hasher, left));
        }
        Stored::Mapping(entries) => return hash(entries, hasher, left),
        Stored::Shared(entries) => return hash(entries, hasher, left),
    }
    true
}

/// Converts the fields of a mapping, without those for which `read` returns nothing.
#[must_use]
pub(crate) fn fields<'a>(
    entries: &'a Map,
    mut read: impl FnMut(&'a str, &'a Value) -> Option<Stored<'a>>,
) -> Entries<'a> {
    let mut fields = Vec::new();
    for (nth, (key, value)) in entries.iter().enumerate() {
        if let Some(value) = read(key, value) {
            if fields.is_empty() {
                // Exact capacity, and only once there is a field: an object may consist of small mappings, or of
                // mappings without known fields.
                fields.reserve_exact(entries.len() - nth);
            }
            fields.push((key, value));
        }
    }
    Map::from_sorted(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn a_value_comes_back_as_it_was() {
        let value = json!({"b": [1, -2.5, "x", null, true, {}], "a": {"c": [], "": "é"}});
        assert_eq!(Stored::from_value(&value).to_value(), value);
        assert_eq!(
            Stored::from_value(&value).get("a").and_then(|a| a.get("")).and_then(Stored::as_str),
            Some("é")
        );
        assert_eq!(Stored::from_value(&value).get("b").and_then(Stored::as_list).map(<[_]>::len), Some(6));
    }
}
