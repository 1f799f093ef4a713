//! The variables of a container, as far as the object tells them.

use std::collections::BTreeMap;

use crate::kinds::Part;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::UNKNOWN;
use crate::text::value::Value;

/// The variables of a container.
#[derive(Debug, Default)]
pub struct Environment<'a> {
    variables: BTreeMap<&'a str, Variable>,
    /// Whether there may be variables besides: of `envFrom`, or of a controller that is not known so well.
    pub is_open: bool,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its value, if it is known.
    pub value: Option<String>,
    /// Its item of `env`; nothing if the kind's controller adds it.
    pub pointer: Option<Pointer>,
    /// The item of `env` that the controller's own entry takes the place of.
    pub overridden: Option<Pointer>,
}

/// The longest value that is followed, in bytes. Values may name one another, and grow.
const MAX_VALUE_BYTES: usize = 4096;

/// The longest name of a variable that is looked up, in bytes.
const MAX_NAME_BYTES: usize = 256;

impl<'a> Environment<'a> {
    /// Reads the variables of a container, and adds those of the kind's controller, which come last and win
    /// (training.md §0, fact 8).
    pub(super) fn of(container: &Part<'a>, added: Option<&[(&'static str, Option<String>)]>) -> Self {
        let is_open = added.is_none() || container.get("envFrom").items().next().is_some();
        let mut all = Self { is_open, ..Self::default() };
        for item in container.get("env").items() {
            let text = |key: &'static str| item.get(key).value.and_then(Value::as_str);
            let Some(name) = text("name") else { continue };
            let is_plain = !item.get("valueFrom").is_set();
            let value = match text("value") {
                Some(value) if is_plain => Some(all.expand(value, UNKNOWN)),
                None if is_plain && !item.get("value").is_set() => Some(String::new()),
                _ => None,
            };
            let value = value.filter(|value| !value.contains(UNKNOWN) && value.len() <= MAX_VALUE_BYTES);
            let pointer = Some(item.pointer);
            all.variables.insert(name, Variable { value, pointer, overridden: None });
        }
        for (name, value) in added.unwrap_or_default() {
            let overridden = all.variables.get(name).and_then(|own| own.pointer.clone());
            all.variables.insert(name, Variable { value: value.clone(), pointer: None, overridden });
        }
        all
    }

    /// Returns a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// Returns the variables by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &Variable)> {
        self.variables.iter().map(|(name, variable)| (*name, variable))
    }

    /// Returns the value of a variable, if it is known.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<String> {
        self.variables.get(name)?.value.clone()
    }

    /// Replaces `$(X)` as the kubelet does: of variables that exist; `$$` is a `$`. What is unknown becomes
    /// the character.
    pub(super) fn expand(&self, text: &str, unknown: char) -> String {
        meter::spend_text(text);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = memchr::memchr(b'$', rest.as_bytes()) {
            out.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            rest = behind;
            if let Some(escaped) = behind.strip_prefix('$') {
                out.push('$');
                rest = escaped;
                continue;
            }
            let Some(name) = name_behind(behind) else {
                out.push('$');
                continue;
            };
            meter::spend(2);
            let room = text.len() + MAX_VALUE_BYTES;
            match self.variables.get(name) {
                Some(Variable { value: Some(value), .. })
                    if out.len() + value.len() <= room && is_safe(value, unknown) =>
                {
                    out.push_str(value);
                }
                Some(_) => out.push(unknown),
                // In a script, the shell would run what the kubelet leaves: unknown in either case.
                None if self.is_open && unknown == UNKNOWN => out.push(unknown),
                None => {
                    out.push('$');
                    continue;
                }
            }
            rest = &behind[name.len() + 2..];
        }
        out.push_str(rest);
        out
    }
}

/// Returns the name in `(X)`, as it comes behind a `$`.
fn name_behind(behind: &str) -> Option<&str> {
    // No name has these characters or is longer: the bracket may be megabytes away.
    let is_name = |byte: &u8| !matches!(byte, b')' | b'$' | b'(' | b' ' | b'\n');
    let inner = behind.strip_prefix('(')?;
    let length = inner.bytes().take(MAX_NAME_BYTES).take_while(is_name).count();
    inner.get(length..)?.starts_with(')').then(|| &inner[..length])
}

/// Returns the names that the kubelet looks up in a text: those of `$(X)`, but not of `$$(X)`.
pub(crate) fn references(text: &str) -> Vec<&str> {
    meter::spend_text(text);
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'$', rest.as_bytes()) {
        let behind = &rest[at + 1..];
        rest = behind.strip_prefix('$').unwrap_or(behind);
        if let Some(name) = name_behind(behind) {
            names.push(name);
            rest = &behind[name.len() + 2..];
        }
    }
    names
}

/// Tells whether a value may be put into a text: into a script, if it has no meaning to the shell.
fn is_safe(value: &str, unknown: char) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:=,@%+".contains(char);
    unknown == UNKNOWN || value.chars().all(is_plain)
}

/// Tells whether a variable may be one that the kubelet makes of a Service.
pub(crate) fn is_of_service(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.ends_with("_PORT")
}
