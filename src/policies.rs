//! The built-in policies.

use crate::judge::policy::Policy;

/// A built-in policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line: what it is for.
    pub(crate) summary: &'static str,
    /// Its source, comments included.
    pub source: &'static str,
}

const DEFAULT: Builtin = Builtin {
    name: "default",
    summary: "The defaults of every rule: deny costly mistakes, fill in safe values",
    source: include_str!("../policies/default.yaml"),
};

/// All built-in policies, the default first.
pub const BUILTINS: [Builtin; 4] = [
    DEFAULT,
    Builtin {
        name: "audit",
        summary: "Warn only, for a rollout: nothing is denied or filled in",
        source: include_str!("../policies/audit.yaml"),
    },
    Builtin {
        name: "accelerators",
        summary: "Deny only objects that request an accelerator",
        source: include_str!("../policies/accelerators.yaml"),
    },
    Builtin {
        name: "strict",
        summary: "Deny whatever is always wrong, also what the default fills in",
        source: include_str!("../policies/strict.yaml"),
    },
];

/// Returns the source of a built-in policy, comments included.
#[must_use]
pub fn source(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|builtin| builtin.name == name).map(|builtin| builtin.source)
}

/// Returns the policy `default` without reading it.
#[must_use]
pub fn default() -> Policy {
    let mut policy = Policy::default();
    policy.hash = Policy::hash_of(DEFAULT.source);
    policy
}

/// Returns the built-in policy of a name; [`BUILTINS`] lists them.
#[must_use]
pub fn builtin(name: &str) -> Option<Policy> {
    Policy::parse(source(name)?, name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_read_and_set_every_rule() {
        for known in BUILTINS {
            let policy = Policy::parse(known.source, known.name).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(policy.name, known.name);
            let first = known.source.lines().next().unwrap_or_default();
            assert!(first.starts_with("# yaml-language-server: $schema=https://"), "{first}");
            assert!(first.ends_with("/policies/policy.schema.json"), "{first}");
            let set = policy.settings().keys().map(String::as_str);
            assert!(set.eq(policy.rules().iter().map(|rule| &*rule.id)), "{}", known.name);
        }
        assert_eq!(BUILTINS[0], DEFAULT);
        assert_eq!(builtin("default").map(|policy| policy.hash), Some(default().hash));
        assert!(builtin("none").is_none());
    }
}
