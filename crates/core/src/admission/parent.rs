//! The parent of the object in a review, where that decides whether the object is judged.

use super::review::{Review, Subject};
use crate::judge::facts::WantedParent;
use crate::judge::policy::Policy;
use crate::judge::trust;

/// The warning if the parent of a trusted controller's object was not looked up, and there is no other caveat.
pub(super) const UNSEEN: &str = "jobgate trusts the maker of this object without a look at its parent";

impl Review<'_> {
    /// Returns the parent for which a trusted controller says that it made the object. Look it up before claims
    /// and runtimes, which do not matter if the object is not judged.
    #[must_use]
    pub fn parent(&self, policy: &Policy) -> Option<WantedParent> {
        let Subject::Object(change) = &self.subject else { return None };
        trust::wanted(policy, &change.object, &self.head.namespace, &self.head.user)
    }
}
