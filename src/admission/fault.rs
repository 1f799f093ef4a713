//! What can go wrong with a review.

use super::Doubt;

/// Something that went wrong in Jobgate or in the request. The request is allowed and the fault is counted;
/// see [`Fault::is_ours`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The body is no AdmissionReview.
    Malformed,
    /// `object`, or `oldObject` of an UPDATE, is missing.
    ObjectMissing,
    /// `object` or `oldObject` cannot be read.
    ObjectUnreadable,
    /// The object has another kind than the request.
    KindMismatch,
    /// A patch was made and does not fit.
    Patch(Doubt),
    /// A rule panicked.
    Panic,
    /// The answer was not ready in time.
    Deadline,
}

impl Fault {
    /// The faults that alert operators.
    pub const OURS: [Self; 6] = [
        Self::Panic,
        Self::Deadline,
        Self::Patch(Doubt::DoesNotApply),
        Self::Patch(Doubt::StraysOutside),
        Self::Patch(Doubt::NotIdempotent),
        Self::Patch(Doubt::NewDenial),
    ];

    /// Faults that no user of an API server can cause: such an API server is incompatible with Jobgate.
    pub const NOT_OF_AN_API_SERVER: [Self; 3] = [Self::Malformed, Self::ObjectMissing, Self::KindMismatch];

    /// Tells whether it is a fault of Jobgate, which alerts its operators, and not of the caller.
    ///
    /// Anyone who can reach the port or create objects can send a malformed review, a review without its
    /// object or with one of another kind, an unreadable object, or one that needs too large a patch. That
    /// must not page anyone. The deadline counts as ours although a flood of costly reviews can exceed it:
    /// objects that were admitted for lack of time must be noticed.
    #[must_use]
    pub fn is_ours(self) -> bool {
        match self {
            Self::Malformed
            | Self::ObjectMissing
            | Self::ObjectUnreadable
            | Self::KindMismatch
            | Self::Patch(Doubt::TooLarge) => false,
            Self::Patch(_) | Self::Panic | Self::Deadline => true,
        }
    }

    /// Returns a word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::ObjectMissing => "object_missing",
            Self::ObjectUnreadable => "object_unreadable",
            Self::KindMismatch => "kind_mismatch",
            Self::Patch(doubt) => doubt.as_str(),
            Self::Panic => "panic",
            Self::Deadline => "deadline",
        }
    }

    /// Returns the user's warning: the object is admitted.
    pub(super) fn warning(self) -> &'static str {
        match self {
            Self::Malformed => "jobgate could not read the review and let the object pass unchecked",
            Self::ObjectMissing | Self::ObjectUnreadable => {
                "jobgate could not read the object and let it pass unchecked"
            }
            Self::KindMismatch => {
                "jobgate received an object of another kind than in the request and let it pass unchecked"
            }
            Self::Patch(_) => "jobgate could not fill defaults into this object safely and left it as it is",
            Self::Panic => "jobgate failed while it checked the object and let it pass unchecked",
            Self::Deadline => "jobgate could not check the object in time and let it pass unchecked",
        }
    }
}
