//! Reads values with `serde`, whole or in part.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Value;
use super::map::ListItems;
use crate::meter;
use crate::value::map::Fields;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueReader(Whole).deserialize(deserializer)
    }
}

/// Selects the part of a JSON value to read.
pub trait Select: Copy {
    /// Returns what to read of a field; nothing to skip it.
    fn field(self, name: &str) -> Option<Self>;
    /// Returns what to read of the items of a list.
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

/// Reads the selected part of a JSON value.
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
        while let Some(BorrowedKey(key)) = map.next_key()? {
            meter::spend(1);
            match self.0.field(&key) {
                Some(select) => fields.set((&*key).into(), map.next_value_seed(Self(select))?),
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(Value::Object(fields.into_map()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = ListItems::default();
        while let Some(item) = list.next_element_seed(Self(self.0.item()))? {
            meter::spend(1);
            items.push(item);
        }
        Ok(Value::Array(items.into_list()))
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

/// A key, borrowed if it has no escapes.
#[derive(Deserialize)]
struct BorrowedKey<'a>(#[serde(borrow)] Cow<'a, str>);
