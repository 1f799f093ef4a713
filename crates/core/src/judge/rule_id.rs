//! The id of a rule or check.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The id of a rule or of a check of the input, kebab-case: `gpu-toleration`.
///
/// It is cheap to clone, and equal to any id or string with the same text: the text of a built-in rule is part
/// of the program, that of a rule made at run time is shared.
#[derive(Clone)]
pub struct RuleId(RuleIdText);

#[derive(Clone)]
enum RuleIdText {
    BuiltIn(&'static str),
    Shared(Arc<str>),
}

impl RuleId {
    /// Creates the id of a built-in rule or check.
    #[must_use]
    pub const fn new(id: &'static str) -> Self {
        Self(RuleIdText::BuiltIn(id))
    }

    /// Returns the text of a built-in id, for uses that need a static text.
    #[must_use]
    pub fn as_static(&self) -> Option<&'static str> {
        match self.0 {
            RuleIdText::BuiltIn(id) => Some(id),
            RuleIdText::Shared(_) => None,
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            RuleIdText::BuiltIn(id) => id,
            RuleIdText::Shared(id) => id,
        }
    }
}

impl From<&'static str> for RuleId {
    fn from(id: &'static str) -> Self {
        Self::new(id)
    }
}

impl From<String> for RuleId {
    fn from(id: String) -> Self {
        Self(RuleIdText::Shared(id.into()))
    }
}

impl Deref for RuleId {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for RuleId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for RuleId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for RuleId {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RuleId {}

impl PartialEq<str> for RuleId {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for RuleId {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for RuleId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RuleId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// Equal to the hash of its text, as [`Borrow`] requires.
impl Hash for RuleId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl serde::Serialize for RuleId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
