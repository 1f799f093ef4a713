//! The cluster's facts about the claims and other objects that one object names.

use std::collections::BTreeMap;

use super::stats::Why;
use jobgate_core::judge::facts::{
    Claim, Fact, FactDefinition, FactTable, Facts, Found, WantedClaim, WantedObject, WantedParent,
};

/// Maximum number of names in a warning about claims that could not be looked up.
const MAX_NAMES_IN_WARNING: usize = 3;

/// The facts about the claims of one object.
#[derive(Clone, Debug, Default)]
pub struct ClaimFacts {
    /// The facts themselves.
    pub table: FactTable,
    /// The unknown claims that may cause a denial: their number for each reason, and the first few names.
    unknown: BTreeMap<Why, usize>,
    names: Vec<String>,
    caveat: Option<String>,
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

    /// Records another unknown object.
    pub(super) fn note_object(&mut self, wanted: &WantedObject, why: Why) {
        if let Some(reason) = why.explain() {
            let FactDefinition { nouns: [noun, _], unchecked, .. } = wanted.kind.definition();
            let name = &wanted.name;
            self.caveat = Some(format!(
                "jobgate could not look up the {noun} {name} and did not check {unchecked} ({reason})"
            ));
        }
    }

    /// Records an unknown parent: whether an object is a child of it is unknown, too.
    pub(super) fn note_parent(&mut self, parent: &WantedParent, why: Why) {
        if let Some(reason) = why.explain() {
            self.caveat = Some(format!(
                "jobgate trusts the maker of this object without a look at its {} {} ({reason})",
                parent.kind.title(),
                parent.name
            ));
        }
    }

    /// Adds the facts about other objects.
    pub fn know(&mut self, others: Self) {
        self.table.extend(others.table);
        self.caveat = self.caveat.take().or(others.caveat);
    }

    /// Writes the warning about unknown claims.
    pub(super) fn explain(&mut self) {
        let (total, reasons) =
            self.unknown.iter().fold((0, Vec::new()), |(total, mut reasons), (why, count)| {
                reasons.extend(why.explain().filter(|reason| !reasons.contains(reason)));
                (total + count, reasons)
            });
        if total == 0 {
            return;
        }
        let (claims, them) = if total == 1 { ("claim", "it") } else { ("claims", "them") };
        let more = if total > self.names.len() { ", …" } else { "" };
        let (names, reasons) = (self.names.join(", "), reasons.join("; "));
        self.caveat = Some(format!(
            "jobgate could not look up {total} {claims} and did not check {them} ({reasons}): {names}{more}"
        ));
    }
}

impl Facts for ClaimFacts {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        self.table.claim(namespace, name)
    }

    fn object(&self, wanted: &WantedObject) -> Fact<Found> {
        self.table.object(wanted)
    }

    fn parent(&self, wanted: &WantedParent) -> Fact<()> {
        self.table.parent(wanted)
    }

    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }
}
