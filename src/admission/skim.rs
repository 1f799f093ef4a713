//! Reads an object without what no rule can ever see.
//!
//! Most of a Job's text is its containers' environment, command lines, probes and mounts, and what the API server notes of who owns which field.
//! To build all of that in memory costs several times as much as judging what is left. No rule looks at it, but for one: whether a claim that only
//! one node can mount holds checkpoints is read off mounts, flags and variables. So [`crate::admission`] skims a new object first, and reads it
//! whole only where the facts make that rule ask. A rule that looks at one of these fields takes it off the list; where that is forgotten, the
//! fixtures and the property test, which read each object both ways, say so.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::review::Text;
use crate::text::meter;
use crate::text::value::{Fields, Value};

/// Fields of a container.
const OF_CONTAINER: [&str; 12] = [
    "args",
    "command",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "volumeDevices",
    "volumeMounts",
];
/// Fields of `managedFields[].fieldsV1`, at any depth.
const OF_OWNED: [&str; 5] = ["f:containers", "f:initContainers", "f:metadata", "f:status", "f:volumes"];

/// A value, by what is skipped in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// An object, or what is in one.
    Object,
    /// Nothing is skipped.
    Whole,
    /// A list of containers, or one of them.
    Containers,
    /// The metadata of an object.
    Metadata,
    /// The list of managed fields, or one entry.
    ManagedFields,
    /// The fields that somebody owns.
    Owned,
}

impl Keep {
    /// Returns how a field is read, or nothing if it is skipped.
    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Object, "metadata") => Some(Self::Metadata),
            (Self::Object, "containers" | "ephemeralContainers" | "initContainers") => Some(Self::Containers),
            (Self::Metadata, "managedFields") => Some(Self::ManagedFields),
            (Self::ManagedFields, "fieldsV1") => Some(Self::Owned),
            (Self::Containers, _) => (!OF_CONTAINER.contains(&name)).then_some(Self::Whole),
            (Self::Owned, _) => (!OF_OWNED.contains(&name)).then_some(Self::Owned),
            (Self::Object, _) => Some(Self::Object),
            (Self::Metadata | Self::ManagedFields | Self::Whole, _) => Some(Self::Whole),
        }
    }
}

impl<'a> DeserializeSeed<'a> for Keep {
    type Value = Value;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Keep {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(Text(key)) = map.next_key()? {
            meter::spend(1);
            match self.field(&key) {
                None => _ = map.next_value::<IgnoredAny>()?,
                Some(keep) => fields.set((&*key).into(), map.next_value_seed(keep)?),
            }
        }
        Ok(Value::Object(fields.into_map()))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            meter::spend(1);
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
}
