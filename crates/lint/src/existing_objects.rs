//! Existing objects, by kind, namespace and name.

use std::collections::BTreeMap;

use jobgate_core::kinds::Kind;
use jobgate_core::text::value::Value;

/// The identity of an object in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty if unknown.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// Returns the key of an object of a judged kind; nothing if its name is yet to be generated.
    #[must_use]
    pub fn from_object(object: &Value, namespace: &str) -> Option<Self> {
        let metadata = |key: &str| object.get("metadata")?.get(key)?.as_str().filter(|text| !text.is_empty());
        let namespace = metadata("namespace").unwrap_or(namespace).to_owned();
        Some(Self { kind: Kind::from_object(object)?, namespace, name: metadata("name")?.to_owned() })
    }
}

/// Current or former objects: those of a cluster, or of an earlier version of the manifests.
#[derive(Clone, Debug, Default)]
pub struct ExistingObjects {
    objects: BTreeMap<ObjectKey, Value>,
}

impl ExistingObjects {
    /// Adds an object, unless there is already one with its key.
    pub fn add(&mut self, object: Value, namespace: &str) {
        if let Some(key) = ObjectKey::from_object(&object, namespace) {
            self.objects.entry(key).or_insert(object);
        }
    }

    /// Returns the object that an object of a judged kind would replace.
    #[must_use]
    pub fn of(&self, object: &Value, namespace: &str) -> Option<&Value> {
        self.find(&ObjectKey::from_object(object, namespace)?)
    }

    /// Returns the object of a key. A missing namespace on either side matches any, if only one object fits.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<&Value> {
        if let Some(object) = self.objects.get(key) {
            return Some(object);
        }
        let open = |known: &ObjectKey| {
            known.kind == key.kind
                && known.name == key.name
                && (known.namespace.is_empty() || key.namespace.is_empty())
        };
        let mut fitting = self.objects.iter().filter(|(known, _)| open(known)).map(|(_, object)| object);
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }
}
