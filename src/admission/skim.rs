//! Reads an object without the parts that no rule reads.
//!
//! Part of a Job is probes, ports, security contexts and managed fields, which no rule reads. Objects are read
//! without them, a new one and the one that it replaces alike: whatever is in these fields, and however deeply
//! it nests, it neither makes an object unreadable nor exempts it. A rule that reads one of these fields
//! removes it from the list; the fixtures and the property test read each object both ways and fail if that is
//! forgotten.

use crate::text::value::Select;

/// Fields of a container.
const OF_CONTAINER: [&str; 6] =
    ["livenessProbe", "ports", "readinessProbe", "securityContext", "startupProbe", "volumeDevices"];
/// Fields of `managedFields[]`.
const OF_MANAGER: [&str; 3] = ["apiVersion", "fieldsType", "time"];
/// Fields of `managedFields[].fieldsV1`, at any depth.
const OF_OWNED: [&str; 5] = ["f:containers", "f:initContainers", "f:metadata", "f:status", "f:volumes"];
/// How many levels of `managedFields[].fieldsV1` are read. The tolerations of a CronJob's pods are the sixth;
/// below them a user may write what they like.
pub(super) const DEEPEST_OWNED: u8 = 12;

/// A value, by the parts to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// An object or its fields.
    Object,
    /// An object without its status and what else is beside its metadata and spec.
    Judged,
    /// Nothing is skipped.
    Whole,
    /// A list of containers, or one of them.
    Containers,
    /// The metadata of an object.
    Metadata,
    /// The list of managed fields, or one entry.
    ManagedFields,
    /// Managed fields, down to so many levels.
    Owned(u8),
}

impl Select for Keep {
    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Object | Self::Judged, "metadata") => Some(Self::Metadata),
            (Self::Judged, _) => ["apiVersion", "kind", "spec"].contains(&name).then_some(Self::Object),
            (Self::Object, "containers" | "ephemeralContainers" | "initContainers") => Some(Self::Containers),
            (Self::Metadata, "managedFields") => Some(Self::ManagedFields),
            (Self::ManagedFields, "fieldsV1") => Some(Self::Owned(DEEPEST_OWNED)),
            (Self::ManagedFields, _) => (!OF_MANAGER.contains(&name)).then_some(Self::Whole),
            (Self::Containers, _) => (!OF_CONTAINER.contains(&name)).then_some(Self::Whole),
            (Self::Owned(levels), _) => {
                let left = levels.checked_sub(1).filter(|_| !OF_OWNED.contains(&name));
                left.map(Self::Owned)
            }
            (Self::Object, _) => Some(Self::Object),
            (Self::Metadata | Self::Whole, _) => Some(Self::Whole),
        }
    }

    fn item(self) -> Self {
        self
    }
}

/// Where a field is that is passed over.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In a container.
    Container,
    /// In an entry of managed fields.
    Manager,
    /// In what an entry owns, at any depth.
    Owned,
    /// As deep in what an entry owns as nothing is read any more.
    BelowOwned,
}

/// Returns every field that is passed over.
#[cfg(test)]
pub(super) fn fields() -> impl Iterator<Item = (Place, &'static str)> {
    let of = |place: Place, names: &'static [&'static str]| names.iter().map(move |name| (place, *name));
    of(Place::Container, &OF_CONTAINER)
        .chain(of(Place::Manager, &OF_MANAGER))
        .chain(of(Place::Owned, &OF_OWNED))
        .chain(of(Place::BelowOwned, &["f:a"]))
}
