//! Conversions from and to Rust types and `serde_json`.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Number;

use super::{Text, Value};
use crate::value::map::Map;

/// Makes a value from JSON, like the macro of `serde_json`.
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => {
        $crate::value::Value::from(::serde_json::json!($($json)+))
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
            // They are sorted.
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
    /// Returns the number, or `null` for NaN and infinity.
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

macro_rules! equals_text {
    ($($text:ty),+) => {
        $(impl PartialEq<$text> for Value {
            fn eq(&self, other: &$text) -> bool {
                self.as_str() == Some(other)
            }
        })+
    };
}

equals_text!(str, &str, String);

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
