//! Mappings: sorted vectors of entries.

use std::ops::Index;

use super::table::KeyTable;
use super::{Text, Value};
use crate::meter;

/// The entries of a mapping, sorted by key, each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K = Text, V = Value>(Vec<(K, V)>);

/// The most entries that are searched one by one: keys of different lengths, as most are, compare fast.
pub(super) const FEW: usize = 16;

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: AsRef<str>, V> Map<K, V> {
    /// Returns a mapping without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns a mapping with entries that are sorted by key, each key once.
    #[must_use]
    pub fn from_sorted(entries: Vec<(K, V)>) -> Self {
        debug_assert!(entries.is_sorted_by(|(left, _), (right, _)| left.as_ref() < right.as_ref()));
        Self(entries)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, key: &str) -> Option<usize> {
        meter::spend(1);
        if self.0.len() <= FEW {
            self.0.iter().position(|(known, _)| known.as_ref() == key)
        } else {
            self.search(key).ok()
        }
    }

    /// Returns the index of a key, or where to insert it.
    fn search(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_ref().cmp(key))
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&V> {
        self.position(key).map(|at| &self.0[at].1)
    }

    /// Returns the value of a key, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.position(key).map(|at| &mut self.0[at].1)
    }

    /// Returns an entry.
    #[must_use]
    pub(crate) fn get_key_value(&self, key: &str) -> Option<(&str, &V)> {
        self.position(key).map(|at| (self.0[at].0.as_ref(), &self.0[at].1))
    }

    /// Tells whether there is such a key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Returns the value of a key, to change. Adds a missing one.
    pub fn get_or_insert_with(
        &mut self,
        key: impl Into<K> + AsRef<str>,
        value: impl FnOnce() -> V,
    ) -> &mut V {
        let at = match self.search(key.as_ref()) {
            Ok(at) => at,
            Err(at) => {
                make_room(&mut self.0);
                self.0.insert(at, (key.into(), value()));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Sets the value of a key; returns the old one.
    pub fn insert(&mut self, key: impl Into<K>, value: V) -> Option<V> {
        let key = key.into();
        match self.search(key.as_ref()) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                make_room(&mut self.0);
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes an entry; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<V> {
        self.position(key).map(|at| self.0.remove(at).1)
    }

    /// Keeps only some of the entries.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| wanted(key.as_ref(), value));
    }

    /// Returns the entries, by key.
    pub fn iter(&self) -> Entries<'_, K, V> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Returns the keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().map(|(key, _)| key.as_ref())
    }

    /// Returns the values, by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns the values, by key, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

/// The entries of a [`Map`], by key.
pub type Entries<'v, K = Text, V = Value> =
    std::iter::Map<std::slice::Iter<'v, (K, V)>, fn(&'v (K, V)) -> (&'v str, &'v V)>;

impl<K: AsRef<str>> Index<K> for Map {
    type Output = Value;

    /// Returns the value of a key, or `null`.
    fn index(&self, key: K) -> &Value {
        self.get(key.as_ref()).unwrap_or(&Value::Null)
    }
}

impl<'v, K: AsRef<str>, V> IntoIterator for &'v Map<K, V> {
    type Item = (&'v str, &'v V);
    type IntoIter = Entries<'v, K, V>;

    fn into_iter(self) -> Entries<'v, K, V> {
        self.iter()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        let mut fields = Fields::default();
        entries.into_iter().for_each(|(key, value)| fields.set(key.into(), value));
        fields.into_map()
    }
}

/// Releases the unused room of a list: an object may consist of small lists.
fn fit<T>(list: &mut Vec<T>) {
    if list.capacity() > list.len() + list.len() / 4 {
        list.shrink_to_fit();
    }
}

/// The items of a list while it is read. A vector that doubles has its old items in memory twice while they are
/// copied, and then up to twice the room that it needs; a long list is kept in pieces instead.
#[derive(Debug)]
pub(super) struct ListItems<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
}

impl<T> Default for ListItems<T> {
    fn default() -> Self {
        Self { full: Vec::new(), last: Vec::new() }
    }
}

impl<T> ListItems<T> {
    pub(super) fn push(&mut self, item: T) {
        if self.last.len() == MANY {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(MANY)));
        }
        self.last.push(item);
    }

    /// Returns the list, without spare room.
    pub(super) fn into_list(mut self) -> Vec<T> {
        if self.full.is_empty() {
            fit(&mut self.last);
            return self.last;
        }
        let mut all = Vec::with_capacity(self.full.len() * MANY + self.last.len());
        self.full.into_iter().for_each(|piece| all.extend(piece));
        all.extend(self.last);
        all
    }
}

/// The number of items from which a list is long.
const MANY: usize = 4096;

/// A list with fewer items is short.
const SHORT: usize = 8;

/// Makes room for one more item in a list that is made once and kept: a short list grows by one, a long one by
/// a quarter. A vector by itself starts with room for four and doubles, which is too much for a text of nothing
/// but small mappings, or of one long list.
pub fn make_room<T>(list: &mut Vec<T>) {
    let more = match list.len() {
        0..SHORT => 1,
        MANY.. => list.len() / 4,
        _ => return,
    };
    if list.len() == list.capacity() {
        list.reserve_exact(more);
    }
}

/// The entries of a mapping while it is read, in source order.
#[derive(Debug, Default)]
pub struct Fields {
    entries: Vec<(Text, Value)>,
    /// The index of each key, made on the first search among more than [`FEW`].
    places: Option<Box<KeyTable>>,
    /// Whether keys may be duplicate.
    repeats: bool,
}

impl Fields {
    /// Returns a mapping without entries yet, with room for some.
    #[must_use]
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries), ..Self::default() }
    }

    /// Returns the value of a key so far, to change.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let entries = &self.entries;
        let at = if entries.len() <= FEW {
            entries.iter().position(|(known, _)| known == key)?
        } else {
            let places = self.places.get_or_insert_default();
            for (at, (key, _)) in entries.iter().enumerate().skip(places.len()) {
                places.add(key, at);
            }
            places.find(key, |at| entries[at].0 == key)?
        };
        Some(&mut self.entries[at].1)
    }

    /// Adds an entry for a new key.
    pub(crate) fn push(&mut self, key: Text, value: Value) {
        self.entries.push((key, value));
    }

    /// Sets the value of a key, which may exist.
    pub(crate) fn set(&mut self, key: Text, value: Value) {
        if self.entries.len() >= FEW {
            // Among many, duplicates are found when sorting.
            self.repeats = true;
            return self.push(key, value);
        }
        match self.entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.push(key, value),
        }
    }

    /// Returns the mapping.
    #[must_use]
    pub(crate) fn into_map(self) -> Map {
        let mut entries = self.entries;
        if self.repeats {
            // The sort is stable: keep the last value of equal keys.
            entries.sort_by(|(left, _), (right, _)| left.as_str().cmp(right));
            entries.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    std::mem::swap(later, kept);
                }
                same
            });
        } else {
            entries.sort_unstable_by(|(left, _), (right, _)| left.as_str().cmp(right));
        }
        fit(&mut entries);
        Map(entries)
    }
}
