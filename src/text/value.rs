//! A JSON value, small and quick to make: what every object is read into, in each of the three ways in.
//!
//! It is used as `serde_json::Value` is, and holds the same. What differs is how it lies in memory. That of
//! `serde_json` has a node of a B-tree, with room for eleven entries, for a mapping of one, and an allocation
//! for each key and each text; to make and to drop those costs more than to judge what they hold. Here the
//! entries of a mapping lie in one sorted vector, and text of up to 24 bytes, which most is, lies in its
//! value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Index, IndexMut};

pub use compact_str::CompactString as Text;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Number;

use crate::text::meter;

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
    /// A text.
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

    /// Returns what stands at a place, written as a JSON Pointer (RFC 6901).
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, step| {
            let step = unescaped(step);
            match value {
                Self::Array(items) => items.get(index_of(&step)?),
                value => value.get(&*step),
            }
        })
    }

    /// Returns what stands at a place, to change.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, step| {
            let step = unescaped(step);
            match value {
                Self::Array(items) => items.get_mut(index_of(&step)?),
                value => value.get_mut(&*step),
            }
        })
    }

    /// Returns the text, if it is one.
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

    /// Tells whether it is a text.
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

    /// Takes the value out, and leaves `null`.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns the value as `serde_json` has it, for libraries that take no other.
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

/// Returns a step of a JSON Pointer as it is meant.
fn unescaped(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

/// Reads the index of an item: no sign, and no zeros before it.
fn index_of(step: &str) -> Option<usize> {
    if step.starts_with('+') || step.starts_with('0') && step.len() > 1 { None } else { step.parse().ok() }
}

/// One step into a value: a key or an index.
pub trait KeyOrIndex {
    /// Returns what is one step inside of a value.
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// Returns what is one step inside of a value, to change.
    fn find_in_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// Returns what is one step inside of a value, to change; a field that is not there is made, as `null`,
    /// in a mapping and in what is `null`.
    ///
    /// # Panics
    /// There is no place for such a field or item.
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

// -------------------------------------------------------------------------------------------------------------------------------------
// mappings

/// The entries of a mapping, sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map(Vec<(Text, Value)>);

/// Up to so many entries are looked through one after another: keys of different lengths, which most are,
/// differ at once.
const FEW: usize = 16;

impl Map {
    /// Returns a mapping without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns how many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, key: &str) -> Option<usize> {
        meter::spend(1);
        if self.0.len() <= FEW {
            self.0.iter().position(|(known, _)| known == key)
        } else {
            self.search(key).ok()
        }
    }

    /// Returns where an entry is, or else where it belongs.
    fn search(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(key))
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|at| &self.0[at].1)
    }

    /// Returns the value of a key, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|at| &mut self.0[at].1)
    }

    /// Returns an entry.
    #[must_use]
    pub fn get_key_value(&self, key: &str) -> Option<(&str, &Value)> {
        self.position(key).map(|at| (self.0[at].0.as_str(), &self.0[at].1))
    }

    /// Tells whether there is such a key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Returns the value of a key to change, made where there is none.
    pub fn get_or_insert_with(&mut self, key: &str, value: impl FnOnce() -> Value) -> &mut Value {
        let at = match self.search(key) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (key.into(), value()));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Sets the value of a key; returns the one that it had.
    pub fn insert(&mut self, key: impl Into<Text>, value: Value) -> Option<Value> {
        let key = key.into();
        match self.search(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Takes an entry out; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).map(|at| self.0.remove(at).1)
    }

    /// Keeps the entries that are wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str, &mut Value) -> bool) {
        self.0.retain_mut(|(key, value)| wanted(key, value));
    }

    /// Returns the entries, by key.
    pub fn iter(&self) -> Entries<'_> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the values, by key.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns the values, by key, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

/// The entries of a [`Map`], by key.
pub type Entries<'v> =
    std::iter::Map<std::slice::Iter<'v, (Text, Value)>, fn(&'v (Text, Value)) -> (&'v str, &'v Value)>;

impl<K: AsRef<str>> Index<K> for Map {
    type Output = Value;

    /// Returns the value of a key; `null` where there is none.
    fn index(&self, key: K) -> &Value {
        self.get(key.as_ref()).unwrap_or(&Value::Null)
    }
}

impl<'v> IntoIterator for &'v Map {
    type Item = (&'v str, &'v Value);
    type IntoIter = Entries<'v>;

    fn into_iter(self) -> Entries<'v> {
        self.iter()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        let mut fields = Fields::default();
        entries.into_iter().for_each(|(key, value)| fields.set(key.into(), value));
        fields.into_map()
    }
}

/// The entries of a mapping that is being read, in the order in which they come.
#[derive(Debug, Default)]
pub struct Fields {
    entries: Vec<(Text, Value)>,
    /// Where the entry of a key is, once one was looked for among more than [`FEW`].
    places: BTreeMap<Text, usize>,
    /// Whether a key may stand twice among them.
    repeats: bool,
}

impl Fields {
    /// Returns the value that a key has so far, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = if self.entries.len() <= FEW {
            self.entries.iter().position(|(known, _)| known == key)?
        } else {
            let known = self.places.len();
            self.places
                .extend(self.entries.iter().enumerate().skip(known).map(|(at, (key, _))| (key.clone(), at)));
            *self.places.get(key)?
        };
        Some(&mut self.entries[at].1)
    }

    /// Adds an entry for a key that has none.
    pub fn push(&mut self, key: Text, value: Value) {
        self.entries.push((key, value));
    }

    /// Sets the value of a key: of equal keys the last one counts.
    pub fn set(&mut self, key: Text, value: Value) {
        if self.entries.len() >= FEW {
            // Among many, equal keys are found when they are sorted.
            self.repeats = true;
            return self.push(key, value);
        }
        match self.entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.push(key, value),
        }
    }

    /// Returns the mapping.
    #[must_use]
    pub fn into_map(self) -> Map {
        let mut entries = self.entries;
        if self.repeats {
            // The sort keeps the order of equal keys; the one that is kept takes the later value.
            entries.sort_by(|(left, _), (right, _)| left.as_str().cmp(right));
            entries.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    std::mem::swap(later, kept);
                }
                same
            });
        } else {
            entries.sort_unstable_by(|(left, _), (right, _)| left.as_str().cmp(right));
        }
        Map(entries)
    }
}

// ----------------------------------------------------------------------------------------------------------------------------------
// conversions

/// Returns a value written as JSON, as the macro of `serde_json` does.
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => {
        $crate::text::value::Value::from(::serde_json::json!($($json)+))
    };
}
pub use json;

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(bool) => Self::Bool(bool),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            // They come sorted by key, each once.
            serde_json::Value::Object(entries) => {
                Self::Object(entries.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

macro_rules! from_text {
    ($($text:ty),+) => {
        $(impl From<$text> for Value {
            fn from(text: $text) -> Self {
                Self::String(text.into())
            }
        })+
    };
}

from_text!(&str, String, &String, Text, Cow<'_, str>);

macro_rules! from_integer {
    ($($integer:ty),+) => {
        $(impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(number.into())
            }
        }

        impl PartialEq<$integer> for Value {
            fn eq(&self, other: &$integer) -> bool {
                self.as_number() == Some(&Number::from(*other))
            }
        })+
    };
}

from_integer!(u16, i32, i64, u32, u64, usize);

impl From<f64> for Value {
    /// Returns the number; `null` for one that is none, or infinite.
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<Map> for Value {
    fn from(entries: Map) -> Self {
        Self::Object(entries)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<Text>> FromIterator<(K, Self)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, Self)>>(entries: I) -> Self {
        Self::Object(entries.into_iter().collect())
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl PartialEq<serde_json::Value> for Value {
    fn eq(&self, other: &serde_json::Value) -> bool {
        self.to_json() == *other
    }
}

impl PartialEq<Value> for serde_json::Value {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(bool) => serializer.serialize_bool(*bool),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => items.serialize(serializer),
            Self::Object(entries) => entries.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueReader(Whole).deserialize(deserializer)
    }
}

/// What is read of a JSON value; the rest is passed over.
pub trait Select: Copy {
    /// Returns what is read of a field; nothing where it is passed over.
    fn field(self, name: &str) -> Option<Self>;
    /// Returns what is read of each item of a list.
    fn item(self) -> Self;
}

#[derive(Clone, Copy)]
struct Whole;

impl Select for Whole {
    fn field(self, _: &str) -> Option<Self> {
        Some(self)
    }

    fn item(self) -> Self {
        self
    }
}

/// Reads a JSON value, or what is selected of it.
#[derive(Clone, Copy, Debug)]
pub struct ValueReader<S>(pub S);

impl<'de, S: Select> DeserializeSeed<'de> for ValueReader<S> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Select> Visitor<'de> for ValueReader<S> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(Key(key)) = map.next_key()? {
            meter::spend(1);
            match self.0.field(&key) {
                Some(select) => fields.set((&*key).into(), map.next_value_seed(Self(select))?),
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(Value::Object(fields.into_map()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Self(self.0.item()))? {
            meter::spend(1);
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value, E> {
        Ok(bool.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
