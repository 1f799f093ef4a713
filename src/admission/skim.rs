//! Reads an object without the parts that no rule reads.
//!
//! Part of a Job is probes, ports, security contexts and managed fields, which no rule reads. A new object is
//! read without them. A rule that reads one of these fields removes it from the list; the fixtures and the
//! property test read each object both ways and fail if that is forgotten.

use crate::text::value::Select;

/// Fields of a container.
const OF_CONTAINER: [&str; 6] =
    ["livenessProbe", "ports", "readinessProbe", "securityContext", "startupProbe", "volumeDevices"];
/// Fields of `managedFields[].fieldsV1`, at any depth.
const OF_OWNED: [&str; 5] = ["f:containers", "f:initContainers", "f:metadata", "f:status", "f:volumes"];

/// A value, by the parts to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// An object or its fields.
    Object,
    /// Nothing is skipped.
    Whole,
    /// A list of containers, or one of them.
    Containers,
    /// The metadata of an object.
    Metadata,
    /// The list of managed fields, or one entry.
    ManagedFields,
    /// Managed fields.
    Owned,
}

impl Select for Keep {
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

    fn item(self) -> Self {
        self
    }
}
