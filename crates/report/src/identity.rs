//! Identities of findings that do not depend on lines and documents.

use crate::located::Located;
use crate::object::ObjectId;
use crate::unjudged::{Reason, Unjudged};

/// The identity of a finding: the rule, the object by its name, and the field.
///
/// Fingerprints and baselines compare runs by it. It includes neither the message nor the level, which change
/// with versions of Jobgate and the policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Id of the rule or check.
    pub rule: String,
    /// The object; `None` if the document could not be read, which leaves only the file.
    pub object: Option<Name>,
    /// The field as Kubernetes writes it, with the items of lists by their names where they have any.
    pub path: String,
}

/// The name of an object, without the version of its API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Name {
    /// `kind`.
    pub(crate) kind: String,
    /// The namespace, where the manifest names one.
    pub(crate) namespace: Option<String>,
    /// The name, or the `generateName` prefix followed by `*`.
    pub name: Option<String>,
}

impl Identity {
    /// Returns the identity of a finding.
    #[must_use]
    pub fn from_located(located: &Located) -> Self {
        let object = located.object.as_deref().map(Name::from_object);
        let path = located
            .by_name
            .as_ref()
            .map_or_else(|| located.finding.path.to_string(), |path| path.to_string());
        Self { rule: located.finding.rule.to_string(), object, path }
    }

    /// Returns the identity of an unjudged item; `None` if it is about the run: its arguments, unreadable files, a
    /// cluster.
    #[must_use]
    pub fn from_unjudged(unjudged: &Unjudged) -> Option<Self> {
        // A baseline may accept a rendering that fails.
        let is_of_run = unjudged.reason.is_error() && !unjudged.reason.has_failed();
        if unjudged.location.is_none() || is_of_run || unjudged.reason == Reason::Nothing {
            return None;
        }
        let path = match &unjudged.reason {
            Reason::Claim(name) | Reason::Runtime(name) => name.to_string(),
            _ => String::new(),
        };
        Some(Self {
            rule: format!("not-judged/{}", unjudged.reason.word()),
            object: unjudged.object.as_deref().map(Name::from_object),
            path,
        })
    }
}

impl Name {
    fn from_object(object: &ObjectId) -> Self {
        Self { kind: object.kind.clone(), namespace: object.namespace.clone(), name: object.name.clone() }
    }
}
