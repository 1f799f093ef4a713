//! What rules need of an object and of the world around it.

use std::ops::{BitOr, BitOrAssign};

use crate::kinds::Kind;

/// The inputs that a rule needs besides those that every rule gets.
///
/// The webhook looks up and reads only what the rules in force need; `lint` and `dry-run` have everything. A
/// rule that does not declare its needs gets [`Fact::Unknown`](crate::judge::facts::Fact::Unknown), and an
/// object without these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u16);

/// Fields of a container that few rules read, and the needs that include them.
pub(crate) const OF_CONTAINER: [(&str, Needs); 6] = [
    ("livenessProbe", Needs::PROBES),
    ("ports", Needs::PORTS),
    ("readinessProbe", Needs::PROBES),
    ("securityContext", Needs::SECURITY_CONTEXTS),
    ("startupProbe", Needs::PROBES),
    ("volumeDevices", Needs::VOLUME_DEVICES),
];

/// Tells whether a review may be read without a field: what depends on the size of an object does not count it.
pub(super) fn may_be_unread(name: &str) -> bool {
    name == "managedFields" || OF_CONTAINER.iter().any(|(field, _)| *field == name)
}

/// The first bit of the needs that are looked up; those before it are fields of the object.
const FIRST_FACT: u32 = 8;

impl Needs {
    /// Nothing more.
    pub const NONE: Self = Self(0);
    /// `metadata.managedFields`: who manages which field, down to twelve levels. Versions and times are not read.
    pub const MANAGERS: Self = Self(1);
    /// The probes of containers.
    pub(crate) const PROBES: Self = Self(1 << 1);
    /// The ports of containers.
    pub const PORTS: Self = Self(1 << 2);
    /// The security contexts of containers.
    pub(crate) const SECURITY_CONTEXTS: Self = Self(1 << 3);
    /// The block devices of containers.
    pub(crate) const VOLUME_DEVICES: Self = Self(1 << 4);
    /// All fields of the containers in a custom resource.
    pub(crate) const CUSTOM_CONTAINERS: Self = Self(1 << 5);
    /// Every field of the object, whatever it is.
    pub const WHOLE_OBJECT: Self = Self((1 << FIRST_FACT) - 1);
    /// The claims that pods mount, and their volumes.
    pub const CLAIMS: Self = Self(1 << FIRST_FACT);
    /// The runtimes in which jobs run.
    pub const RUNTIMES: Self = Self(1 << (FIRST_FACT + 1));

    /// Everything.
    pub const ALL: Self = Self(u16::MAX);

    /// Returns the needs of an object of a kind: what is asked of custom resources only is resolved.
    #[must_use]
    pub(crate) fn of_kind(self, kind: Kind) -> Self {
        let mut needs = self;
        if !kind.is_built_in() && self.has(Self::CUSTOM_CONTAINERS) {
            OF_CONTAINER.iter().for_each(|(_, need)| needs |= *need);
        }
        needs
    }

    /// Returns the needs that are fields of the object, without those that are looked up.
    #[must_use]
    pub(crate) const fn of_object(self) -> Self {
        Self(self.0 & Self::WHOLE_OBJECT.0)
    }

    /// Tells whether it includes all of the other's needs.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Needs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Needs {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
