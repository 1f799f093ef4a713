//! What is left to chance in a real cluster, and is settled in one way here.

use super::Script;

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

impl Script {
    /// Returns the script with what is left to chance settled otherwise, one thing at a time.
    #[must_use]
    pub(in super::super) fn chances(&self) -> Vec<Self> {
        let backward = Self { map_order: MapOrder::Backward, ..self.clone() };
        vec![backward]
    }
}
