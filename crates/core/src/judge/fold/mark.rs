//! Hashes of places, each made from that of the place around it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash as _, Hasher};
use std::sync::LazyLock;

use crate::text::hash;

/// A map whose keys are hashes.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<AsIs>>;
/// A set of hashes.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<AsIs>>;

/// The hash of the whole object.
static ROOT: LazyLock<u64> = LazyLock::new(|| hash::keyed().finish());

/// Returns the hash of the whole object.
pub(crate) fn root() -> u64 {
    *ROOT
}

/// Returns the hash of a step from a place. This runs several times for each item of lists with hundreds of
/// thousands: hashing the whole path would take most of that time.
#[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
pub(crate) fn mix(place: u64, step: u64) -> u64 {
    let product = u128::from(place ^ 0x9E37_79B9_7F4A_7C15) * u128::from(step ^ 0xD6E8_FEB8_6659_FD93);
    (product >> 64) as u64 ^ product as u64
}

/// Returns the hash of the step to a key.
pub(crate) fn key(place: u64, key: &str) -> u64 {
    let mut hasher = hash::keyed();
    key.hash(&mut hasher);
    mix(place, hasher.finish())
}

/// A hasher that returns a hash unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| mix(hash, u64::from(*byte)));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_hashes_of_their_own() {
        let mut hashes = Hashes::default();
        let mut count = 0;
        for list in ["containers", "volumes", ""] {
            let list = key(root(), list);
            for index in 0..2_000 {
                let item = mix(list, index);
                hashes.extend([item, key(item, "name"), key(item, "value"), mix(item, 0), mix(item, 1)]);
                count += 5;
            }
        }
        assert_eq!(hashes.len(), count);
    }
}
