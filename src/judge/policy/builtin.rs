//! The policies that come with the program.

/// A built-in policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name, by which a command line may ask for it.
    pub name: &'static str,
    /// One line: what it is for.
    pub summary: &'static str,
    /// Its source, comments included.
    pub source: &'static str,
}

pub(super) const DEFAULT: Builtin = Builtin {
    name: "default",
    summary: "Every rule as its page says: deny what wastes a night, fill in what has one right value",
    source: include_str!("../../../policies/default.yaml"),
};

/// All of them, the default first.
pub const BUILTINS: [Builtin; 3] = [
    DEFAULT,
    Builtin {
        name: "audit",
        summary: "Warn only: nothing is denied and nothing filled in, for a roll-out",
        source: include_str!("../../../policies/audit.yaml"),
    },
    Builtin {
        name: "accelerators",
        summary: "Deny only what asks for an accelerator",
        source: include_str!("../../../policies/accelerators.yaml"),
    },
];
