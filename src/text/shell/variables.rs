//! The variables of a script, as far as their values are known.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::meter;

/// Where a script's variables come from: the environment, and the script's own assignments.
pub struct Variables<'a> {
    environment: &'a dyn Fn(&str) -> Option<&'a str>,
    /// What the script has assigned; nothing for an unknown value.
    own: BTreeMap<String, Option<String>>,
    /// The names that were assigned in each part that may not run, or not in this shell.
    scopes: Vec<Vec<String>>,
    /// Whether something unread may have set any variable.
    pub(super) tainted: bool,
}

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Variables").field("own", &self.own).finish_non_exhaustive()
    }
}

impl<'a> Variables<'a> {
    /// Starts with an environment, which returns the values that are known.
    #[must_use]
    pub fn of(environment: &'a dyn Fn(&str) -> Option<&'a str>) -> Self {
        Self { environment, own: BTreeMap::new(), scopes: Vec::new(), tainted: false }
    }

    /// Returns the names of the variables that the script has assigned, sorted.
    #[must_use]
    pub fn assigned(self) -> Vec<String> {
        self.own.into_keys().collect()
    }

    /// Returns the value of a variable, if it is known.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        meter::spend(2);
        if self.tainted {
            return None;
        }
        match self.own.get(name) {
            Some(value) => value.as_deref(),
            None => (self.environment)(name),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Option<String>) {
        meter::spend(4);
        self.own.insert(name.to_owned(), value);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(name.to_owned());
        }
    }

    /// Starts a part of the script that may not run, or runs in a shell of its own.
    pub(super) fn enter(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Ends it: what it assigned is unknown from here on.
    pub(super) fn leave(&mut self) {
        for name in self.scopes.pop().unwrap_or_default() {
            self.set(&name, None);
        }
    }

    /// Ends it, where it certainly has run.
    pub(super) fn leave_certain(&mut self) {
        let names = self.scopes.pop().unwrap_or_default();
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(names);
        }
    }
}
