//! The identity of an object, from its manifest.

use std::fmt;

use jobgate_core::kinds::Kind;
use jobgate_core::text::value::Value;

/// The object that a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// The namespace, where the manifest names one.
    pub namespace: Option<String>,
    /// The name, or the `generateName` prefix followed by `*`.
    pub name: Option<String>,
}

impl ObjectId {
    /// Reads the identity of an object.
    #[must_use]
    pub fn from_object(object: &Value) -> Self {
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => Some(text.as_str().to_owned()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let metadata = |key: &str| text(object.get("metadata").and_then(|metadata| metadata.get(key)));
        Self {
            api_version: text(object.get("apiVersion")).unwrap_or_default(),
            kind: text(object.get("kind")).unwrap_or_default(),
            namespace: metadata("namespace"),
            name: metadata("name").or_else(|| metadata("generateName").map(|prefix| prefix + "*")),
        }
    }
}
impl ObjectId {
    /// Tells whether it is of a kind that Jobgate judges.
    pub(crate) fn is_ours(&self) -> bool {
        Kind::typed(&self.api_version, &self.kind).is_some()
    }

    /// Returns `namespace/name`, as far as the manifest has them; a dash for a missing name.
    #[must_use]
    pub fn full_name(&self) -> String {
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.clone(),
            (Some(namespace), None) => format!("{namespace}/-"),
            (None, None) => "-".to_owned(),
        }
    }
}

impl fmt::Display for ObjectId {
    /// Writes the kind and the name: `Job team-a/train`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.full_name())
    }
}
