//! The parameters of rules: their names, types and defaults.

use crate::text::value::{Map, Value};

/// One parameter of a rule, with its type and default.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// camelCase name in a policy.
    pub name: &'static str,
    /// One sentence: meaning and unit.
    pub doc: &'static str,
    /// Type and default.
    pub default: ParamDefault,
}

/// A boolean parameter.
#[derive(Clone, Copy, Debug)]
pub struct Flag(pub Param);

/// A parameter that is a whole number.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub Param);

/// A parameter that is a list of strings.
#[derive(Clone, Copy, Debug)]
pub struct Strings(pub Param);

/// A parameter that maps strings to strings.
#[derive(Clone, Copy, Debug)]
pub struct Mapping(pub Param);

/// A parameter with a fixed set of values.
#[derive(Clone, Copy, Debug)]
pub struct Word(pub Param);

impl Flag {
    /// Creates a parameter that is off by default.
    #[must_use]
    pub(crate) const fn off(name: &'static str, doc: &'static str) -> Self {
        Self(Param { name, doc, default: ParamDefault::Bool(false) })
    }
}

impl Number {
    /// Creates a parameter with a default and a minimum.
    #[must_use]
    pub(crate) const fn new(name: &'static str, doc: &'static str, value: i64, least: i64) -> Self {
        Self(Param { name, doc, default: ParamDefault::Int { value, least } })
    }
}

impl Strings {
    /// Creates a parameter with a default.
    #[must_use]
    pub(crate) const fn new(name: &'static str, doc: &'static str, default: &'static [&'static str]) -> Self {
        Self(Param { name, doc, default: ParamDefault::Strings(default) })
    }
}

impl Word {
    /// Creates a parameter; the first word is the default.
    #[must_use]
    pub(crate) const fn new(name: &'static str, doc: &'static str, words: &'static [&'static str]) -> Self {
        Self(Param { name, doc, default: ParamDefault::Word(words) })
    }
}

impl Mapping {
    /// Creates a parameter with a default.
    #[must_use]
    pub(crate) const fn new(
        name: &'static str,
        doc: &'static str,
        default: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self(Param { name, doc, default: ParamDefault::Map(default) })
    }
}

/// Type and default value of a [`Param`].
#[derive(Clone, Copy, Debug)]
pub enum ParamDefault {
    /// A boolean.
    Bool(bool),
    /// An integer, not below `least`.
    Int {
        /// The default.
        value: i64,
        /// The smallest value allowed.
        least: i64,
    },
    /// A list of strings.
    Strings(&'static [&'static str]),
    /// A mapping of strings to strings.
    Map(&'static [(&'static str, &'static str)]),
    /// One of these words; the first is the default.
    Word(&'static [&'static str]),
}

impl ParamDefault {
    /// Returns the default as a JSON value.
    #[must_use]
    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Bool(value) => value.into(),
            Self::Int { value, .. } => value.into(),
            Self::Strings(list) => list.iter().copied().collect(),
            Self::Map(map) => map
                .iter()
                .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                .collect::<Map>()
                .into(),
            Self::Word(words) => words.first().copied().unwrap_or_default().into(),
        }
    }
}
