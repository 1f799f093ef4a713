//! Reads an object without the parts that no rule reads.
//!
//! Most of a Job is environment, command lines, probes, mounts and managed fields. Building all of that in
//! memory costs several times as much as judging the rest. Few rules need it, and of few objects: such as one
//! with a claim limited to one node, or one on spot nodes. So [`crate::admission`] skims a new object first and
//! reads it whole only if one of these rules needs it. A rule that reads one of these fields removes it from
//! the list, or says in [`read_containers`](crate::judge::rules::read_containers) of which objects it does; the
//! fixtures and the property test read each object both ways and fail if that is forgotten.

use crate::text::value::Select;

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
