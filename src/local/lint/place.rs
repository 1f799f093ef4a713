//! Files that were not judged, or not fixed.

use super::fixing::Unwritten;
use super::input::Unreadable;
use crate::report::{Reason, Unjudged};
pub(super) use jobgate_lint::place::*;

impl Unreadable {
    /// Returns the path as not judged.
    #[must_use]
    pub(crate) fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::UnreadablePath(self.reason.as_str().into()))
    }
}

impl Unwritten {
    /// Returns the file as not fixed.
    #[must_use]
    pub(crate) fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::NotWritten(self.reason.as_str().into()))
    }
}
