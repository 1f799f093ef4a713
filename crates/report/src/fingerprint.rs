//! Names for findings that do not depend on lines, so that tools can tell new findings from old ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::identity::Identity;
use crate::located::{Located, Location};
use crate::unjudged::Unjudged;

/// Returns the SHA-256, in hexadecimal, of a finding's [`Identity`], or of its file and document if it is
/// about no object.
pub(super) fn fingerprint(located: &Located) -> String {
    hex(&digest(located, &[]))
}

/// Generates names that are unique in a report.
#[derive(Debug, Default)]
pub(super) struct Unique {
    seen: BTreeMap<[u8; 32], usize>,
}

impl Unique {
    /// Returns a name like [`fingerprint`] that also depends on the file, and on the order of equal findings.
    pub(super) fn next(&mut self, located: &Located) -> String {
        self.unique(digest(located, &[&located.location.file]))
    }

    /// Returns a name for an unjudged item, which no finding has.
    pub(super) fn of_unjudged(&mut self, unjudged: &Unjudged, location: &Location) -> String {
        let mut hash = Sha256::new();
        for part in ["not-judged", unjudged.reason.word(), &unjudged.name(), &location.file] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        self.unique(hash.finalize().into())
    }

    fn unique(&mut self, digest: [u8; 32]) -> String {
        let nth = self.seen.entry(digest).or_default();
        *nth += 1;
        if *nth == 1 {
            return hex(&digest);
        }
        let mut hash = Sha256::new();
        hash.update(digest);
        hash.update(nth.to_be_bytes());
        hex(&hash.finalize().into())
    }
}

fn digest(located: &Located, further: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    let Identity { rule, object, path } = Identity::from_located(located);
    add(&rule);
    match &object {
        Some(object) => {
            add(&object.kind);
            add(object.namespace.as_deref().unwrap_or_default());
            add(object.name.as_deref().unwrap_or_default());
        }
        None => {
            add(&located.location.file);
            add(&located.document.to_string());
        }
    }
    add(&path);
    further.iter().for_each(|part| add(part));
    hash.finalize().into()
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn moving_lines_keeps_the_name() {
        let located = sample::report().findings.swap_remove(0);
        let mut moved = located.clone();
        moved.location.start.line += 7;
        moved.location.span = 900..901;
        assert_eq!(fingerprint(&located), fingerprint(&moved));
        assert_eq!(Unique::default().next(&located), Unique::default().next(&moved));
        let mut other = located.clone();
        std::sync::Arc::make_mut(other.object.as_mut().unwrap()).name = Some("other".to_owned());
        assert_ne!(fingerprint(&located), fingerprint(&other));
    }

    #[test]
    fn unique_names_are() {
        let located = sample::report().findings.swap_remove(0);
        let mut elsewhere = located.clone();
        elsewhere.location.file = "elsewhere.yaml".into();
        assert_eq!(fingerprint(&located), fingerprint(&elsewhere));
        let mut unique = Unique::default();
        let names = [&located, &located, &elsewhere, &located].map(|located| unique.next(located));
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}
