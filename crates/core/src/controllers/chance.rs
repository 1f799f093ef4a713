//! What is left to chance in a real cluster, and is settled in one way here.

use super::time::Time;

/// How much later than usual an operator may see what happens.
pub const WATCH_DELAY: Time = Time::from_millis(150);

/// In which order an operator goes through a map: Go takes another one each time. Where what comes of it depends on the
/// order, it is either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapOrder {
    /// The order of the documentation: a master before its workers.
    #[default]
    Forward,
    /// The other way round.
    Backward,
}

/// What comes of an action of a Volcano policy with a `timeout`: it marks pods one by one beside the worker, which writes the
/// status meanwhile, so that its own write fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimedActions {
    /// What was seen most: one that kills two pods or more is lost.
    #[default]
    Likely,
    /// They take effect.
    Taken,
    /// They are lost: the pods die, and nothing of it is written.
    Lost,
}
