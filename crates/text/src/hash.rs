//! Hashes of what strangers write.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// Returns a hasher whose key is another one in each process: nobody can write texts that have the same hash. Its
/// hashes are good in this process only.
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
