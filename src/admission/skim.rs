//! Reads an object without the parts that judging it has no use for.
//!
//! Most of a Job's text is its containers' environment, command lines, probes and mounts, and what the API server notes of who owns which field.
//! To build all of that in memory costs several times as much as judging what is left. No rule looks at it, but for one: whether a claim that only
//! one node can mount holds checkpoints is read off mounts, flags and variables. So [`crate::admission`] skims a new object first, and reads it
//! whole only where the facts make that rule ask.
//!
//! What is passed over is a list of names, so that a field nobody has heard of is kept. A patch means the same to what is left: rules add beside
//! what they see, and nothing that is passed over is on their lists.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::review::Text;
use crate::workload::Kind;

/// What of a value is read. It speaks of mappings and lists; a value of another type is read as it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// All of it.
    Whole,
    /// All fields, and of these as much as is said here; nothing is left of a field with [`Keep::Nothing`].
    Fields(&'static [(&'static str, Self)]),
    /// These fields, and no others.
    Only(&'static [(&'static str, Self)]),
    /// Of every item of a list, or entry of a mapping, as much as this.
    Each(&'static Self),
    /// Nothing.
    Nothing,
}

const CONTAINERS: Keep = Keep::Each(&Keep::Fields(&[
    ("args", Keep::Nothing),
    ("command", Keep::Nothing),
    ("env", Keep::Nothing),
    ("envFrom", Keep::Nothing),
    ("imagePullPolicy", Keep::Nothing),
    ("lifecycle", Keep::Nothing),
    ("livenessProbe", Keep::Nothing),
    ("ports", Keep::Nothing),
    ("readinessProbe", Keep::Nothing),
    ("securityContext", Keep::Nothing),
    ("startupProbe", Keep::Nothing),
    ("terminationMessagePath", Keep::Nothing),
    ("terminationMessagePolicy", Keep::Nothing),
    ("volumeDevices", Keep::Nothing),
    ("volumeMounts", Keep::Nothing),
    ("workingDir", Keep::Nothing),
]));

const TEMPLATE: Keep =
    Keep::Fields(&[("spec", Keep::Fields(&[("containers", CONTAINERS), ("ephemeralContainers", CONTAINERS), ("initContainers", CONTAINERS)]))]);

/// Of the managed fields it counts who applies (`manager`, `operation`), and whether `podReplacementPolicy` is among what they own.
const METADATA: Keep = Keep::Fields(&[(
    "managedFields",
    Keep::Each(&Keep::Only(&[
        ("manager", Keep::Whole),
        ("operation", Keep::Whole),
        ("fieldsV1", Keep::Only(&[("f:spec", Keep::Only(&[("f:podReplacementPolicy", Keep::Whole)]))])),
    ])),
)]);

const JOB_SPEC: Keep = Keep::Fields(&[("template", TEMPLATE)]);

/// Returns what is kept of an object of a kind: as much as judging it takes while nothing is known of its claims.
pub(super) fn of_kind(kind: Kind) -> Keep {
    match kind {
        Kind::Job => Keep::Fields(&[("metadata", METADATA), ("spec", JOB_SPEC), ("status", Keep::Nothing)]),
        Kind::CronJob => Keep::Fields(&[
            ("metadata", METADATA),
            ("spec", Keep::Fields(&[("jobTemplate", Keep::Fields(&[("spec", JOB_SPEC)]))])),
            ("status", Keep::Nothing),
        ]),
        Kind::PyTorchJob => Keep::Fields(&[
            ("metadata", METADATA),
            ("spec", Keep::Fields(&[("pytorchReplicaSpecs", Keep::Each(&Keep::Fields(&[("template", TEMPLATE)])))])),
            ("status", Keep::Nothing),
        ]),
    }
}

impl Keep {
    /// Returns what is kept of a field.
    fn field(self, name: &str) -> Self {
        let named = |fields: &'static [(&'static str, Self)]| fields.iter().find(|(field, _)| *field == name).map(|(_, keep)| *keep);
        match self {
            Self::Whole => Self::Whole,
            Self::Fields(fields) => named(fields).unwrap_or(Self::Whole),
            Self::Only(fields) => named(fields).unwrap_or(Self::Nothing),
            Self::Each(keep) => *keep,
            Self::Nothing => Self::Nothing,
        }
    }

    /// Returns what is kept of an item of a list. Of a list where a mapping is expected everything is: a rule may say so.
    fn item(self) -> Self {
        match self {
            Self::Each(keep) => *keep,
            _ => Self::Whole,
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
        let mut fields = Map::new();
        while let Some(Text(key)) = map.next_key()? {
            match self.field(&key) {
                Self::Nothing => _ = map.next_value::<IgnoredAny>()?,
                keep => _ = fields.insert(key.into_owned(), map.next_value_seed(keep)?),
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Value, A::Error> {
        let keep = self.item();
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(keep)? {
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
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
}
