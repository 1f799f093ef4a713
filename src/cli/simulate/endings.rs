//! How stories end, and what decides where they may end otherwise.

use crate::controllers::story::Ending;

/// What decides between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrBecause {
    /// Whether the pods need one another.
    Peers,
    /// Two things fall on one moment.
    Moment,
}

impl OrBecause {
    /// Returns it in words, before the other end.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Peers => "where the pods do not need one another",
            Self::Moment => "two things fall on one moment, and if the other comes first",
        }
    }
}

/// Returns how bad an ending is.
pub(super) fn severity(ending: Ending) -> u8 {
    match ending {
        Ending::Completes => 0,
        Ending::Fails => 1,
        Ending::CompletesHalfDone => 2,
        Ending::RunsOn => 3,
        Ending::Waits => 4,
        Ending::Wedged => 5,
    }
}
