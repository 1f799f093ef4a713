//! What is known of the world around an object: data with three states, so that a rule cannot tell a cluster from the next file.

use std::collections::BTreeMap;

use crate::finding::Source;
use crate::value::Value;

/// What is known of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// It is there, and this is what is known of it.
    Known(T),
    /// It was looked for and is not there.
    Absent,
    /// Nobody looked, or the answer did not come in time. Never a reason to deny.
    Unknown,
}

/// A `PersistentVolumeClaim`, as far as rules care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Access modes: of the bound volume where the claim is bound (`status.accessModes`), else those asked for (`spec.accessModes`).
    pub access_modes: Vec<String>,
    /// Where the claim stands, for the report's second place.
    pub source: Source,
}

impl Claim {
    /// Reads a claim object; nothing if the object has no readable access modes.
    ///
    /// The modes of `status` are those of the bound volume and win once the claim is bound (kubernetes.md §5.1).
    #[must_use]
    pub fn from_object(object: &Value, source: Source) -> Option<Self> {
        let modes = |part: &str| -> Option<Vec<String>> {
            let list = object.get(part)?.get("accessModes")?.as_array()?;
            list.iter().map(|mode| mode.as_str().map(str::to_owned)).collect()
        };
        let bound = object.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
        let status = modes("status").filter(|list| bound && !list.is_empty());
        let access_modes = status.or_else(|| modes("spec")).filter(|list| !list.is_empty())?;
        Some(Self { access_modes, source })
    }

    /// Tells whether the claim has the given access mode.
    #[must_use]
    pub fn has(&self, mode: &str) -> bool {
        self.access_modes.iter().any(|have| have == mode)
    }
}

/// A claim whose access modes the judgement of an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedClaim {
    /// The namespace of the object.
    pub namespace: String,
    /// The name, as the object has it: not always one that can exist.
    pub name: String,
    /// Whether more than one pod may use it at once. Only then can its access modes be a reason for a denial.
    pub shared: bool,
}

/// The facts a review rests on. Without an entry everything is [`Fact::Unknown`].
pub trait Facts {
    /// Returns what is known of a claim; `namespace` is empty where the manifest names none.
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim>;

    /// Returns one line for the author about claims that could decide and could not be looked up; nothing where none is
    /// missing, and where nobody meant to look.
    fn caveat(&self) -> Option<&str> {
        None
    }
}

/// Facts that were gathered before the review: a plain table.
#[derive(Clone, Debug, Default)]
pub struct FactTable {
    /// Claims by namespace and name.
    pub claims: BTreeMap<(String, String), Fact<Claim>>,
}

impl Facts for FactTable {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned())).cloned().unwrap_or(Fact::Unknown)
    }
}

/// No facts at all: everything is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl Facts for NoFacts {
    fn claim(&self, _namespace: &str, _name: &str) -> Fact<Claim> {
        Fact::Unknown
    }
}
