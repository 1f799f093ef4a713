//! The verdict on one object.

use crate::judge::finding::{Finding, Level};
use crate::text::patch;
use crate::text::patch::Op;

/// Why an object was let through without being judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// It is not of a kind that Jobgate judges.
    NotOurs,
    /// It is being deleted and its spec is unchanged: a finalizer is removed.
    BeingDeleted,
    /// It cannot be read, or could not before, and its spec is unchanged.
    SameSpec,
    /// A controller made it from a parent that was judged.
    TrustedController,
    /// A trusted controller made it, from a parent that could not be looked up.
    TrustedUnseen,
}

impl Skipped {
    /// Tells whether a trusted controller made the object.
    #[must_use]
    pub fn is_trusted(self) -> bool {
        matches!(self, Self::TrustedController | Self::TrustedUnseen)
    }

    /// Returns a word for logs, metrics and audit annotations.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NotOurs => "not-ours",
            Self::BeingDeleted => "being-deleted",
            Self::SameSpec => "same-spec",
            Self::TrustedController | Self::TrustedUnseen => "trusted-controller",
        }
    }
}

/// A finding that an exemption or annotation suppresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppressed {
    /// The finding.
    pub finding: Finding,
    /// Why it is suppressed, in words.
    pub(crate) reason: String,
}

/// The result for one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Findings in a total order: place in the object, then rule.
    pub findings: Vec<Finding>,
    /// Suppressed findings.
    pub suppressed: Vec<Suppressed>,
    /// Why it was not judged, if it was not.
    pub skipped: Option<Skipped>,
    /// On UPDATE: restores what an apply removed from an immutable pod template
    /// (docs/internals/kubernetes.md#restore-on-update).
    pub(crate) restore: Vec<Op>,
}

impl Verdict {
    /// Returns the highest level among the findings.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }

    /// Returns the operations that the webhook makes: the fills on CREATE, or the restore on UPDATE.
    #[must_use]
    pub fn fill_ops(&self) -> Vec<Op> {
        patch::combine(self.fills().cloned())
    }

    /// Returns the same operations as the rules made them: some may be equal, or parts of one another.
    pub(crate) fn fills(&self) -> impl Iterator<Item = &Op> {
        let fills = self.findings.iter().filter(|finding| finding.is_filled_in());
        fills.filter_map(|finding| finding.fix.as_ref()).flat_map(|fix| &fix.ops).chain(&self.restore)
    }

    pub(super) fn skipped(why: Skipped) -> Self {
        Self { skipped: Some(why), ..Self::default() }
    }
}
