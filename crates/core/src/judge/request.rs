//! The object to judge, and how it was sent.

use jiff::civil::Date;

use crate::text::value::Value;

/// The requested operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is new.
    Create,
    /// The object replaces `Request::old`.
    Update,
}

impl Operation {
    /// Returns the API's name of the operation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
        }
    }
}

/// The origin of the object: only some origins distinguish a default from a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From a file: unset fields are absent.
    File,
    /// From an API server, which has already set the defaults of built-in kinds
    /// (docs/internals/kubernetes.md#defaults-before-admission).
    Admission,
}

/// One object to judge.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The requested operation.
    pub operation: Operation,
    /// Where it comes from.
    pub origin: Origin,
    /// The object.
    pub object: &'a Value,
    /// The object that it replaces, on UPDATE; nothing if that cannot be read, so that all violations are new.
    pub old: Option<&'a Value>,
    /// Whether both have the same spec, if that is known from their bytes because the values are incomplete.
    /// Otherwise the two values are compared.
    pub same_spec: Option<bool>,
    /// The namespace of the request; empty if unknown (a manifest may leave it to `kubectl -n`).
    pub namespace: &'a str,
    /// The user, if there is one.
    pub user: Option<&'a str>,
    /// Today, for exemptions that end. Without it they hold.
    pub today: Option<Date>,
}

impl<'a> Request<'a> {
    /// Returns the CREATE request of a manifest.
    #[must_use]
    pub fn from_file(object: &'a Value, today: Option<Date>) -> Self {
        let namespace = object
            .get("metadata")
            .and_then(|metadata| metadata.get("namespace")?.as_str())
            .unwrap_or_default();
        Self {
            operation: Operation::Create,
            origin: Origin::File,
            object,
            old: None,
            same_spec: None,
            namespace,
            user: None,
            today,
        }
    }

    /// Tells whether an UPDATE leaves the spec as it is.
    pub(super) fn has_same_spec(&self) -> bool {
        let compared = |old: &Value| old.get("spec") == self.object.get("spec");
        self.old.is_some_and(|old| self.same_spec.unwrap_or_else(|| compared(old)))
    }

    /// Returns the object's name, or its generated prefix, or nothing readable.
    #[must_use]
    pub(crate) fn name(&self) -> &'a str {
        let metadata = |key: &str| self.object.get("metadata")?.get(key)?.as_str();
        metadata("name").or_else(|| metadata("generateName")).unwrap_or_default()
    }
}
