//! Reads an object without the parts that no rule in force reads.
//!
//! Few rules read probes, ports, security contexts and managed fields. New objects and those that they replace
//! are both read without them: the content of these fields, however deeply nested, neither makes an object
//! unreadable nor exempts it. A rule that reads one of them declares that in its [`Needs`]; the fixtures and
//! the property test read each object both ways and fail if that is forgotten.

use crate::judge::rule::{Needs, OF_CONTAINER};
use crate::kinds::Kind;
use crate::text::value::Select;

/// Fields of `managedFields[]`.
const OF_MANAGER: [&str; 3] = ["apiVersion", "fieldsType", "time"];
/// Fields of `managedFields[].fieldsV1`, at any depth.
const OF_OWNED: [&str; 5] = ["f:containers", "f:initContainers", "f:metadata", "f:status", "f:volumes"];
/// How many levels of `managedFields[].fieldsV1` are read. The tolerations of a CronJob's pods are the sixth;
/// below them a user may write what they like.
pub(super) const DEEPEST_OWNED: u8 = 12;

/// A sort of value, which decides the parts to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkimKeep {
    /// An object or its fields.
    Object(Needs),
    /// An object with only its type, metadata and spec.
    Judged(Needs),
    /// Nothing is skipped.
    Whole,
    /// A list of containers, or one of them.
    Containers(Needs),
    /// The metadata of an object.
    Metadata(Needs),
    /// The list of managed fields, or one entry.
    ManagedFields,
    /// Managed fields, down to so many levels.
    Owned(u8),
}

impl SkimKeep {
    /// Returns what is kept of an object of a kind.
    pub(super) fn of_kind(self, kind: Kind) -> Self {
        match self {
            Self::Object(needs) => Self::Object(needs.of_kind(kind)),
            other => other,
        }
    }
}

impl Select for SkimKeep {
    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Object(needs) | Self::Judged(needs), "metadata") => Some(Self::Metadata(needs)),
            (Self::Judged(needs), _) => {
                ["apiVersion", "kind", "spec"].contains(&name).then_some(Self::Object(needs))
            }
            (Self::Object(needs), "containers" | "ephemeralContainers" | "initContainers") => {
                Some(Self::Containers(needs))
            }
            (Self::Metadata(needs), "managedFields") if needs.has(Needs::WHOLE_OBJECT) => Some(Self::Whole),
            (Self::Metadata(needs), "managedFields") => {
                needs.has(Needs::MANAGERS).then_some(Self::ManagedFields)
            }
            (Self::ManagedFields, "fieldsV1") => Some(Self::Owned(DEEPEST_OWNED)),
            (Self::ManagedFields, _) => (!OF_MANAGER.contains(&name)).then_some(Self::Whole),
            (Self::Containers(needs), _) => {
                let unread = |(field, need): &(&str, Needs)| *field == name && !needs.has(*need);
                (!OF_CONTAINER.iter().any(unread)).then_some(Self::Whole)
            }
            (Self::Owned(levels), _) => {
                let left = levels.checked_sub(1).filter(|_| !OF_OWNED.contains(&name));
                left.map(Self::Owned)
            }
            (Self::Object(needs), _) => Some(Self::Object(needs)),
            (Self::Metadata(_) | Self::Whole, _) => Some(Self::Whole),
        }
    }

    fn item(self) -> Self {
        self
    }
}

/// The place of a skipped field.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(super) enum SkimPlace {
    /// In a container.
    Container,
    /// In an entry of managed fields.
    Manager,
    /// In what an entry owns, at any depth.
    Owned,
    /// Deeper in what an entry owns than anything is read.
    BelowOwned,
}

/// Returns every skipped field.
#[cfg(test)]
pub(super) fn fields() -> impl Iterator<Item = (SkimPlace, &'static str)> {
    let of = |place: SkimPlace, names: &'static [&'static str]| names.iter().map(move |name| (place, *name));
    let of_container = OF_CONTAINER.iter().map(|(name, _)| (SkimPlace::Container, *name));
    of_container
        .chain(of(SkimPlace::Manager, &OF_MANAGER))
        .chain(of(SkimPlace::Owned, &OF_OWNED))
        .chain(of(SkimPlace::BelowOwned, &["f:a"]))
}
