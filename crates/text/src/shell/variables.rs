//! The variables of a script, as far as their values are known.

use std::collections::BTreeMap;
use std::fmt;

use super::MAX_VARIABLES;
use crate::meter;
use crate::value::Text;

/// The longest value that is kept, in bytes: no path or option on Linux is longer than a page.
pub(super) const MAX_VALUE_BYTES: usize = 4096;

/// The longest name that is kept, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Where a script's variables come from: the environment, and the script's own assignments.
pub struct Variables<'a> {
    environment: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The variables that the script has assigned, with their indexes in `values`.
    own: BTreeMap<Text, usize>,
    /// The values; nothing for an unknown one.
    values: Vec<Option<Text>>,
    /// The assignments in each open part that may not run, or not in this shell.
    scopes: Vec<VariableScope>,
    /// Whether something unread may have set any variable.
    pub(super) tainted: bool,
    /// Whether there are more variables than are kept.
    full: bool,
}

const BITS: usize = u64::BITS as usize;

/// A set of variables, by their indexes.
#[derive(Clone, Copy, Default)]
struct VariableScope {
    is_used: bool,
    set: [u64; MAX_VARIABLES / BITS],
}

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Variables").field("own", &self.own).finish_non_exhaustive()
    }
}

/// The variables that a script assigns, or nothing if they are too many to know.
#[derive(Debug)]
pub struct Assigned(Option<BTreeMap<Text, usize>>);

impl Assigned {
    /// Tells whether a variable is among them, or may be.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.contains_key(name))
    }
}

impl<'a> Variables<'a> {
    /// Starts with an environment, which returns the known values.
    #[must_use]
    pub fn new(environment: &'a dyn Fn(&str) -> Option<&'a str>) -> Self {
        Self {
            environment,
            own: BTreeMap::new(),
            values: Vec::new(),
            scopes: Vec::new(),
            tainted: false,
            full: false,
        }
    }

    /// Returns the variables that the script has assigned.
    #[must_use]
    pub fn assigned(self) -> Assigned {
        Assigned((!self.full).then_some(self.own))
    }

    /// Returns the value of a variable, if it is known.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        meter::spend(2);
        if self.tainted || self.full {
            return None;
        }
        match self.own.get(name) {
            Some(at) => self.values[*at].as_deref(),
            None => (self.environment)(name),
        }
    }

    /// Assigns a variable; nothing for an unknown value. A value that is too long to be kept is unknown.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) {
        meter::spend(4);
        if self.full {
            return;
        }
        let value = value.filter(|value| value.len() <= MAX_VALUE_BYTES);
        let at = match self.own.get(name) {
            Some(at) => *at,
            None if self.values.len() == MAX_VARIABLES || name.len() > MAX_NAME_BYTES => {
                self.forget_all();
                return;
            }
            None => {
                self.own.insert(name.into(), self.values.len());
                self.values.push(None);
                self.values.len() - 1
            }
        };
        meter::spend_text(value.unwrap_or_default());
        self.values[at] = value.map(Text::from);
        if let Some(scope) = self.scopes.last_mut() {
            scope.is_used = true;
            scope.set[at / BITS] |= 1 << (at % BITS);
        }
    }

    /// Makes all values unknown, for the rest of the script.
    pub(super) fn forget_all(&mut self) {
        self.full = true;
        self.values.iter_mut().for_each(|value| *value = None);
    }

    /// Tells whether there are more variables than are kept.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Starts a part of the script that may not run, or runs in a shell of its own.
    pub(super) fn enter(&mut self) {
        self.scopes.push(VariableScope::default());
    }

    /// Ends such a part: what it assigned is unknown from here on.
    pub(super) fn leave(&mut self) {
        let Some(scope) = self.scopes.pop().filter(|scope| scope.is_used) else { return };
        meter::spend(4);
        for (word, bits) in scope.set.iter().enumerate() {
            let mut left = *bits;
            while left != 0 {
                meter::spend(1);
                let at = word * BITS + left.trailing_zeros() as usize;
                self.values[at] = None;
                left &= left - 1;
            }
        }
        self.add_to_last(&scope);
    }

    /// Ends such a part that has certainly run.
    pub(super) fn leave_certain(&mut self) {
        let Some(scope) = self.scopes.pop().filter(|scope| scope.is_used) else { return };
        meter::spend(4);
        self.add_to_last(&scope);
    }

    fn add_to_last(&mut self, scope: &VariableScope) {
        if let Some(last) = self.scopes.last_mut() {
            last.is_used = true;
            last.set.iter_mut().zip(scope.set).for_each(|(word, bits)| *word |= bits);
        }
    }
}
