//! Hashes of untrusted text.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// Returns a hasher with a random key for each process, so that nobody can write texts that have the same hash.
/// Its hashes are valid only in this process.
#[must_use]
pub fn keyed() -> DefaultHasher {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.build_hasher()
}

#[cfg(test)]
mod tests {
    use std::hash::{Hash as _, Hasher as _};

    use super::*;

    #[test]
    fn hashes_are_those_of_this_process() {
        let hash = |mut hasher: DefaultHasher| {
            "claim".hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(keyed()), hash(keyed()));
        // What everybody can work out.
        assert_ne!(hash(keyed()), hash(DefaultHasher::new()));
    }
}
