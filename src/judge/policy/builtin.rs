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
    summary: "The defaults of every rule: deny costly mistakes, fill in safe values",
    source: include_str!("../../../policies/default.yaml"),
};

/// All of them, the default first.
pub const BUILTINS: [Builtin; 4] = [
    DEFAULT,
    Builtin {
        name: "audit",
        summary: "Warn only, for a rollout: nothing is denied or filled in",
        source: include_str!("../../../policies/audit.yaml"),
    },
    Builtin {
        name: "accelerators",
        summary: "Deny only objects that request an accelerator",
        source: include_str!("../../../policies/accelerators.yaml"),
    },
    Builtin {
        name: "strict",
        summary: "Deny whatever is always wrong, also what the default fills in",
        source: include_str!("../../../policies/strict.yaml"),
    },
];
