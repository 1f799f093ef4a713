//! The cluster's facts about the claims of one object.

use std::collections::BTreeMap;

use super::stats::Why;
use jobgate_core::judge::facts::{FactTable, WantedClaim};

/// Maximum number of names in a warning about claims that could not be looked up.
const MAX_NAMES_IN_WARNING: usize = 3;

/// The facts about the claims of one object.
#[derive(Debug, Default)]
pub(super) struct ClaimFacts {
    pub(super) table: FactTable,
    /// The unknown claims that may cause a denial: their number for each reason, and the first few names.
    unknown: BTreeMap<Why, usize>,
    names: Vec<String>,
}

impl ClaimFacts {
    /// Records an unknown claim.
    pub(super) fn note(&mut self, claim: &WantedClaim, why: Why) {
        // Other claims cause no denial; with look-ups off, the operator already knows.
        if !claim.shared || why.explain().is_none() {
            return;
        }
        *self.unknown.entry(why).or_default() += 1;
        if self.names.len() < MAX_NAMES_IN_WARNING {
            self.names.push(claim.name.clone());
        }
    }

    /// Returns the facts, with a warning about unknown claims.
    pub(super) fn explained(mut self) -> FactTable {
        let (total, reasons) =
            self.unknown.iter().fold((0, Vec::new()), |(total, mut reasons), (why, count)| {
                reasons.extend(why.explain().filter(|reason| !reasons.contains(reason)));
                (total + count, reasons)
            });
        if total == 0 {
            return self.table;
        }
        let (claims, them) = if total == 1 { ("claim", "it") } else { ("claims", "them") };
        let more = if total > self.names.len() { ", …" } else { "" };
        let (names, reasons) = (self.names.join(", "), reasons.join("; "));
        self.table.caveat = Some(format!(
            "jobgate could not look up {total} {claims} and did not check {them} ({reasons}): {names}{more}"
        ));
        self.table
    }
}
