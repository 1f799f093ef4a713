//! The access modes of a claim in one byte, as the cache keeps them.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// The access modes in their usual order.
const NAMES: [(&str, u8); 4] =
    [("ReadWriteOnce", 1), ("ReadOnlyMany", 2), ("ReadWriteMany", 4), ("ReadWriteOncePod", 8)];

/// The bit of every mode that this program does not know.
const OTHER: u8 = 1 << 7;

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes(u8);

impl Modes {
    /// Returns whether the set is empty.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the names of the modes; `None` if there are none or one is unknown, so that no rule relies on
    /// them.
    pub(super) fn names(self) -> Option<Vec<String>> {
        if self.is_empty() || self.0 & OTHER != 0 {
            return None;
        }
        Some(NAMES.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(name, _)| (*name).to_owned()).collect())
    }

    /// Returns whether a claim with these modes can cause a denial: all of them are known, and none is
    /// `ReadWriteMany`.
    pub(super) fn can_deny(self) -> bool {
        !self.is_empty() && self.0 & (OTHER | bit("ReadWriteMany")) == 0
    }

    fn with(self, name: &str) -> Self {
        Self(self.0 | bit(name))
    }
}

/// Returns the bit of a mode.
fn bit(name: &str) -> u8 {
    NAMES.iter().find(|(known, _)| *known == name).map_or(OTHER, |(_, bit)| *bit)
}

impl<'de> Deserialize<'de> for Modes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ModesVisitor;

        impl<'de> Visitor<'de> for ModesVisitor {
            type Value = Modes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of access modes")
            }

            fn visit_unit<E>(self) -> Result<Modes, E> {
                Ok(Modes::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Modes, A::Error> {
                let mut modes = Modes::default();
                while let Some(name) = list.next_element::<Cow<'de, str>>()? {
                    modes = modes.with(&name);
                }
                Ok(modes)
            }
        }

        deserializer.deserialize_any(ModesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Modes {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_mode_comes_back_under_its_name() {
        for (name, _) in NAMES {
            assert_eq!(read(&format!("[\"{name}\"]")).names(), Some(vec![name.to_owned()]));
        }
        assert_eq!(
            read(r#"["ReadWriteMany","ReadWriteOnce"]"#).names(),
            Some(vec!["ReadWriteOnce".into(), "ReadWriteMany".into()])
        );
    }

    #[test]
    fn an_empty_set_and_an_unknown_mode_name_nothing() {
        assert_eq!(read("[]").names(), None);
        assert_eq!(read("null").names(), None);
        assert_eq!(read(r#"["ReadWriteOnce","ReadWriteSometimes"]"#).names(), None);
    }

    #[test]
    fn a_mode_of_another_type_is_an_error() {
        assert!(serde_json::from_str::<Modes>("[1]").is_err());
        assert!(serde_json::from_str::<Modes>("\"ReadWriteOnce\"").is_err());
    }
}
