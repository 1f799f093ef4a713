//! What rules need of an object and of the world around it.

use std::ops::{BitOr, BitOrAssign};

/// What a rule needs besides what every rule gets.
///
/// The webhook looks up and reads what the rules in force need, and nothing else; `lint` and `dry-run` have all of
/// it. A rule that does not say what it needs gets [`Fact::Unknown`](crate::judge::facts::Fact::Unknown), and an
/// object without these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u8);

impl Needs {
    /// Nothing more.
    pub const NONE: Self = Self(0);
    /// The claims that pods mount, and their volumes.
    pub const CLAIMS: Self = Self(1);
    /// The runtimes in which jobs run.
    pub const RUNTIMES: Self = Self(1 << 1);
    /// `metadata.managedFields`: who manages which field, down to twelve levels. Versions and times are not read.
    pub const MANAGERS: Self = Self(1 << 2);
    /// The probes of containers.
    pub const PROBES: Self = Self(1 << 3);
    /// The ports of containers.
    pub const PORTS: Self = Self(1 << 4);
    /// The security contexts of containers.
    pub const SECURITY_CONTEXTS: Self = Self(1 << 5);
    /// The block devices of containers.
    pub const VOLUME_DEVICES: Self = Self(1 << 6);
    /// Every field of the object, whatever it is.
    pub const WHOLE_OBJECT: Self = Self(
        1 << 7
            | Self::MANAGERS.0
            | Self::PROBES.0
            | Self::PORTS.0
            | Self::SECURITY_CONTEXTS.0
            | Self::VOLUME_DEVICES.0,
    );

    /// All that there is.
    pub const ALL: Self = Self(u8::MAX);

    /// Returns those that are fields of the object: nothing is looked up for them.
    #[must_use]
    pub const fn of_object(self) -> Self {
        Self(self.0 & !(Self::CLAIMS.0 | Self::RUNTIMES.0))
    }

    /// Tells whether all of the other are among them.
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
