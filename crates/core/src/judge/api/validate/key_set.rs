//! A set for finding duplicates, fast for short lists and linear for long ones.

use std::collections::BTreeSet;

/// Maximum values that are searched one by one.
const FEW: usize = 16;

/// Values that were seen.
#[derive(Debug)]
pub(super) struct SeenValues<T> {
    few: Vec<T>,
    many: BTreeSet<T>,
}

impl<T> Default for SeenValues<T> {
    fn default() -> Self {
        Self { few: Vec::new(), many: BTreeSet::new() }
    }
}

impl<T: Ord> SeenValues<T> {
    /// Tells whether a value was seen.
    pub(super) fn contains(&self, value: &T) -> bool {
        self.few.contains(value) || self.many.contains(value)
    }

    /// Adds a value; returns whether it is new.
    pub(super) fn insert(&mut self, value: T) -> bool {
        if self.few.contains(&value) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(value);
            return true;
        }
        self.many.insert(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_behave_alike() {
        let mut seen = SeenValues::default();
        for value in 0..3 * FEW {
            assert!(
                !seen.contains(&value) && seen.insert(value) && seen.contains(&value) && !seen.insert(value),
                "{value}"
            );
        }
        assert!((0..3 * FEW).all(|value| seen.contains(&value)));
    }
}
