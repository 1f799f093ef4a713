//! Sets of completion indexes, as ranges: a Job may have two thousand million of them.

use std::fmt;

/// A set of numbers, as ranges that are sorted and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Indexes(Vec<(u32, u32)>);

impl Indexes {
    /// Returns the numbers from the first to the last.
    #[must_use]
    pub(crate) fn from_range(first: u32, last: u32) -> Self {
        Self(if first <= last { vec![(first, last)] } else { Vec::new() })
    }

    /// Returns the numbers below one.
    #[must_use]
    pub(crate) fn below(end: u32) -> Self {
        end.checked_sub(1).map_or_else(Self::default, |last| Self::from_range(0, last))
    }

    /// Returns a set of numbers.
    #[must_use]
    pub(crate) fn from_numbers(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if number <= last.saturating_add(1) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Self(ranges)
    }

    /// Reads `succeededIndexes`: numbers and ranges with commas. What is not read is left out.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(Self::from_range(first.trim().parse().ok()?, last.trim().parse().ok()?))
        };
        let ranges: Vec<Self> = text.split(',').filter_map(range).collect();
        ranges.iter().collect()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|(first, last)| (last - first).saturating_add(1)).fold(0, u32::saturating_add)
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lowest.
    #[must_use]
    pub(crate) fn first(&self) -> Option<u32> {
        self.0.first().map(|(first, _)| *first)
    }

    /// Returns the highest.
    #[must_use]
    pub(crate) fn last(&self) -> Option<u32> {
        self.0.last().map(|(_, last)| *last)
    }

    /// Returns the numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Returns the numbers of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        [self, other].into_iter().collect()
    }

    /// Returns the numbers of both.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let (mut both, mut here, mut there) = (Vec::new(), 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(here), other.0.get(there)) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                both.push((first, last));
            }
            if a.1 < b.1 { here += 1 } else { there += 1 }
        }
        Self(both)
    }

    /// Returns the numbers that the other does not have.
    #[must_use]
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut there = 0;
        for &(mut first, last) in &self.0 {
            while other.0.get(there).is_some_and(|taken| taken.1 < first) {
                there += 1;
            }
            let mut nth = there;
            let mut is_done = false;
            while let Some(taken) = other.0.get(nth).filter(|taken| taken.0 <= last) {
                if first < taken.0 {
                    left.push((first, taken.0 - 1));
                }
                if taken.1 >= last {
                    is_done = true;
                    break;
                }
                first = taken.1 + 1;
                nth += 1;
            }
            if !is_done {
                left.push((first, last));
            }
        }
        Self(left)
    }

    /// Returns the lowest numbers, as many as asked for.
    #[must_use]
    pub(crate) fn lowest(&self, count: u32) -> Self {
        let (mut taken, mut left) = (Vec::new(), count);
        for &(first, last) in &self.0 {
            if left == 0 {
                break;
            }
            let end = last.min(first.saturating_add(left - 1));
            taken.push((first, end));
            left -= end - first + 1;
        }
        Self(taken)
    }
}

impl<'a> FromIterator<&'a Self> for Indexes {
    fn from_iter<T: IntoIterator<Item = &'a Self>>(sets: T) -> Self {
        let mut all: Vec<(u32, u32)> = sets.into_iter().flat_map(|set| &set.0).copied().collect();
        // Of two sorted lists, the stable sort is one walk.
        all.sort();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }
}

/// Writes them as `status.completedIndexes` has them: two neighbours with a comma, more as a range.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (first, last)) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn from_set(set: &BTreeSet<u32>) -> Indexes {
        set.iter().fold(Indexes::default(), |all, one| all.union(&Indexes::from_range(*one, *one)))
    }

    proptest! {
        #[test]
        fn they_are_sets(a in prop::collection::btree_set(0_u32..20, 0..12), b in prop::collection::btree_set(0_u32..20, 0..12), count in 0_u32..12) {
            let (left, right) = (from_set(&a), from_set(&b));
            let set = |indexes: &Indexes| indexes.iter().collect::<BTreeSet<u32>>();
            prop_assert_eq!(set(&left.union(&right)), &a | &b);
            prop_assert_eq!(set(&left.intersection(&right)), &a & &b);
            prop_assert_eq!(set(&left.without(&right)), &a - &b);
            prop_assert_eq!(set(&left.lowest(count)), a.iter().copied().take(count as usize).collect::<BTreeSet<u32>>());
            prop_assert_eq!(left.len() as usize, a.len());
            prop_assert_eq!(Indexes::parse(&left.to_string()), left.clone());
            prop_assert_eq!([&left, &right].into_iter().collect::<Indexes>(), left.union(&right));
        }
    }

    #[test]
    fn they_are_written_as_the_api_does() {
        for (text, expected) in
            [("0-1", "0,1"), ("3,4,5,7", "3-5,7"), ("", ""), ("0-2147483647", "0-2147483647")]
        {
            assert_eq!(Indexes::parse(text).to_string(), expected);
        }
    }
}
