//! What can go wrong with a review.

use crate::admission::check::Doubt;

/// Something that went wrong in Jobgate or in the request. The request is allowed and the fault is counted;
/// see [`Fault::is_ours`].
///
/// An unreadable object is not a fault: it is denied, or keeps its old spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The body is not an AdmissionReview.
    ///
    /// Not ours: no user can make an API server send one, but anyone who can reach the port can. Nothing is
    /// stored for a sender that is not an API server, so no object passes.
    Malformed,
    /// `object` is missing.
    ///
    /// Not ours, as [`Self::Malformed`]. Without `oldObject` an update is judged as a creation.
    ObjectMissing,
    /// The object has another kind than the request.
    ///
    /// Not ours, as [`Self::Malformed`]: an API server takes both from one place.
    KindMismatch,
    /// A patch was made and does not fit.
    ///
    /// Ours, except for one that is too large: any user can write an object that needs such a patch. Neither
    /// lets an object pass: `/validate` judges it as it is.
    Patch(Doubt),
    /// A rule panicked.
    ///
    /// Ours: the object passes unjudged.
    Panic,
    /// The answer was not ready in time.
    ///
    /// Ours, although a flood of costly reviews can cause it: the object passes unjudged.
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

    /// Faults that no user of an API server can cause: an API server that causes them is incompatible with
    /// Jobgate. Where callers authenticate, these alert as well.
    pub const NOT_OF_AN_API_SERVER: [Self; 3] = [Self::Malformed, Self::ObjectMissing, Self::KindMismatch];

    /// Tells whether it is a fault of Jobgate, which alerts its operators, and not of the caller.
    ///
    /// Whatever lets an API server's object pass unjudged is ours. A request that anyone who reaches the port
    /// can send must not page anyone.
    #[must_use]
    pub fn is_ours(self) -> bool {
        match self {
            Self::Malformed | Self::ObjectMissing | Self::KindMismatch | Self::Patch(Doubt::TooLarge) => {
                false
            }
            Self::Patch(_) | Self::Panic | Self::Deadline => true,
        }
    }

    /// Returns a word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::ObjectMissing => "object_missing",
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
            Self::ObjectMissing => "jobgate found no object in the review and let it pass unchecked",
            Self::KindMismatch => {
                "jobgate received an object of another kind than in the request and let it pass unchecked"
            }
            Self::Patch(_) => "jobgate could not fill defaults into this object safely and left it as it is",
            Self::Panic => "jobgate failed while it checked the object and let it pass unchecked",
            Self::Deadline => "jobgate could not check the object in time and let it pass unchecked",
        }
    }
}
