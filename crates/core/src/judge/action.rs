//! The action that a policy sets for a rule.

/// What to do about a rule's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The object is rejected.
    Deny,
    /// The object is admitted with a warning.
    Warn,
    /// The linter, the dry run and the audit report it; the webhook does not.
    Note,
    /// The webhook fills in the value; only for rules that can.
    Fill,
    /// The rule does not run.
    Ignore,
}

impl Action {
    /// All actions, in the order in which they are listed to people.
    pub const ALL: [Self; 5] = [Self::Deny, Self::Warn, Self::Note, Self::Fill, Self::Ignore];

    /// Returns the action's name in a policy.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Note => "note",
            Self::Fill => "fill",
            Self::Ignore => "ignore",
        }
    }

    /// Returns the actions that a policy may choose for a rule; `Fill` only if the rule can fill values in.
    pub fn allowed(can_fill: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |action| can_fill || *action != Self::Fill)
    }
}
