//! Finds the items of a list by their keys.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

/// The index of each key of a list. The keys stay in the list: a mapping may have one for every four bytes of a
/// text, and each takes some 20 bytes at most here.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    /// A part of each key's hash, with its index plus one; zero where there is none.
    slots: Vec<(u32, u32)>,
    len: usize,
    /// Random for each table, so that nobody can write keys that share one slot.
    state: RandomState,
}

impl KeyTable {
    /// Returns how many keys are known.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Finds the index of a key: the one that `is_own` accepts.
    pub(crate) fn find(&self, key: &str, is_own: impl Fn(usize) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let hash = self.hash(key);
        let mut place = self.place(hash);
        loop {
            let (known, at) = self.slots[place];
            let at = (at as usize).checked_sub(1)?;
            if known == hash && is_own(at) {
                return Some(at);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds a key that is not known, with its index. Documents have fewer keys than fit 32 bits.
    pub(crate) fn add(&mut self, key: &str, at: usize) {
        let Some(at) = u32::try_from(at).ok().and_then(|at| at.checked_add(1)) else { return };
        // At most three of four slots are used.
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![(0, 0); (2 * old.len()).max(32)];
            old.into_iter().filter(|(_, at)| *at > 0).for_each(|slot| self.put(slot));
        }
        self.put((self.hash(key), at));
        self.len += 1;
    }

    fn put(&mut self, slot: (u32, u32)) {
        let mut place = self.place(slot.0);
        while self.slots[place].1 > 0 {
            place = (place + 1) & (self.slots.len() - 1);
        }
        self.slots[place] = slot;
    }

    /// Returns the first place for a hash. The number of places is a power of two.
    fn place(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a part of the hash is enough")]
    fn hash(&self, key: &str) -> u32 {
        self.state.hash_one(key) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_where_it_was_put() {
        let keys: Vec<String> = (0..1000).map(|nth| format!("k{nth}")).collect();
        let mut table = KeyTable::default();
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(table.find(key, |at| keys[at] == *key), None);
            table.add(key, at);
            assert_eq!(table.len(), at + 1);
        }
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(table.find(key, |at| keys[at] == *key), Some(at));
        }
        assert!(table.slots.len() <= 3 * keys.len());
    }
}
