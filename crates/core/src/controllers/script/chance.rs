//! What is left to chance in a real cluster, and is settled in one way here.

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
