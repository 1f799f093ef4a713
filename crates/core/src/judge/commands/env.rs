//! The variables of a container, as far as the object defines them.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::limits::{Beyond, Room};
use crate::kinds::Part;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::{SPREADS, UNKNOWN};
use crate::text::value::Value;

/// The variables that a kind's controller adds, with their values if they are known.
pub(crate) type Added = Rc<[(&'static str, Option<String>)]>;

/// The variables of a container.
#[derive(Debug, Default)]
pub(crate) struct Environment<'a> {
    /// The items of `env`, and where the container is.
    items: &'a [Value],
    container: Pointer,
    /// The variables that the kind's controller adds.
    added: Option<Added>,
    /// All variables, read on first use.
    #[allow(clippy::box_collection, reason = "there may be a hundred thousand containers that have none")]
    variables: OnceCell<Box<BTreeMap<&'a str, Variable<'a>>>>,
    /// The number of items searched without the table of variables, up to a bound.
    looked_at: Cell<u16>,
    /// The room for text with replaced variables, and whether it was exceeded.
    room: Rc<Room>,
    is_beyond: Cell<bool>,
    /// Whether there may be other variables: from `envFrom`, or from a controller whose variables are unknown.
    pub(crate) is_open: bool,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable<'a> {
    /// Its value, if it is known.
    pub value: Option<Cow<'a, str>>,
    /// The index of its item of `env`; nothing if the kind's controller adds it.
    pub(crate) item: Option<usize>,
}

impl Variable<'_> {
    /// Tells whether the kind's controller adds it.
    #[must_use]
    pub(crate) fn is_added(&self) -> bool {
        self.item.is_none()
    }
}

/// Maximum length of a known value, in bytes. Values may refer to one another, and grow.
const MAX_VALUE_BYTES: usize = 4096;

/// Maximum items that are searched without a table of the variables.
const FEW: u16 = 1024;

/// The longest name of a variable that is looked up, in bytes.
const MAX_NAME_BYTES: usize = 256;

impl<'a> Environment<'a> {
    /// Returns the variables of a container, with those of the kind's controller, which come last and win
    /// (docs/internals/training.md#variables-from-controllers).
    pub(super) fn new(container: &Part<'a>, added: Option<&Added>, room: &Rc<Room>) -> Self {
        let is_open = added.is_none() || !container.get("envFrom").values().is_empty();
        Self {
            items: container.get("env").values(),
            container: container.pointer.clone(),
            added: added.cloned(),
            variables: OnceCell::new(),
            looked_at: Cell::new(0),
            room: Rc::clone(room),
            is_beyond: Cell::new(false),
            is_open,
        }
    }

    /// Returns [`Beyond::Growth`] if the room for replaced variables was exceeded.
    pub(super) fn beyond(&self) -> Option<Beyond> {
        self.is_beyond.get().then_some(Beyond::Growth)
    }

    /// Tells whether there is room for a text in which variables are replaced.
    fn has_room(&self, written: &str, replaced: &str, is_value: bool) -> bool {
        let by = replaced.len().saturating_sub(written.len());
        let fits = by == 0 || self.room.grows(by, is_value);
        if !fits {
            self.is_beyond.set(true);
        }
        fits
    }

    fn added(&self) -> &[(&'static str, Option<String>)] {
        self.added.as_deref().unwrap_or_default()
    }

    fn variables(&self) -> &BTreeMap<&'a str, Variable<'a>> {
        self.variables.get_or_init(|| {
            let mut all = BTreeMap::new();
            for (index, item) in self.items.iter().enumerate() {
                meter::spend(1);
                let field = |key| item.get(key).filter(|value| !value.is_null());
                let Some(name) = item.get("name").and_then(Value::as_str) else { continue };
                let value = match field("value") {
                    _ if field("valueFrom").is_some() => None,
                    Some(value) => value.as_str().and_then(|text| {
                        let value = expanded(&all, self.is_open, text, UNKNOWN);
                        let is_kept = !value.contains(UNKNOWN) && value.len() <= MAX_VALUE_BYTES;
                        (is_kept && self.has_room(text, &value, true)).then_some(value)
                    }),
                    None => Some(Cow::Borrowed("")),
                };
                all.insert(name, Variable { value, item: Some(index) });
            }
            for (name, value) in self.added() {
                let value = value.clone().map(Cow::Owned);
                all.insert(name, Variable { value, item: None });
            }
            Box::new(all)
        })
    }

    /// Returns the names of the variables, possibly with duplicates.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        let own = self.items.iter().filter_map(|item| {
            meter::spend(1);
            item.get("name")?.as_str()
        });
        own.chain(self.added().iter().map(|(name, _)| *name))
    }

    /// Returns a variable.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<&Variable<'a>> {
        // Most variables that rules look up do not exist. With many items or lookups, as for a script, a table
        // is faster than a walk for each.
        let looked_at =
            u16::try_from(self.items.len()).unwrap_or(u16::MAX).saturating_add(self.looked_at.get());
        if looked_at <= FEW && self.variables.get().is_none() {
            self.looked_at.set(looked_at);
            if !self.names().any(|own| own == name) {
                return None;
            }
        }
        self.variables().get(name)
    }

    /// Tells whether the kind's controller adds a variable.
    #[must_use]
    pub(crate) fn adds(&self, name: &str) -> bool {
        self.added().iter().any(|(added, _)| *added == name)
    }

    /// Returns where a variable is; nothing if the kind's controller adds it.
    #[must_use]
    pub(crate) fn place(&self, variable: &Variable<'_>) -> Option<Pointer> {
        variable.item.map(|index| &(&self.container / "env") / index)
    }

    /// Returns the variables by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &Variable<'a>)> {
        self.variables().iter().map(|(name, variable)| (*name, variable))
    }

    /// Returns the value of a variable, if it is known.
    #[must_use]
    pub(crate) fn known(&self, name: &str) -> Option<&str> {
        self.get(name)?.value.as_deref()
    }

    /// Replaces `$(X)` as the kubelet does: only variables that exist; `$$` becomes `$`. Unknown values become
    /// the character `unknown`.
    pub(super) fn expand<'t>(&self, text: &'t str, unknown: char) -> Cow<'t, str> {
        if memchr::memchr(b'$', text.as_bytes()).is_none() {
            meter::spend_text(text);
            return Cow::Borrowed(text);
        }
        let replaced = expanded(self.variables(), self.is_open, text, unknown);
        if self.has_room(text, &replaced, false) {
            return replaced;
        }
        Cow::Borrowed(if unknown == SPREADS { "\u{E001}" } else { "\u{E000}" })
    }
}

/// Replaces `$(X)` with the values of the variables so far.
fn expanded<'t>(
    variables: &BTreeMap<&str, Variable<'_>>,
    is_open: bool,
    text: &'t str,
    unknown: char,
) -> Cow<'t, str> {
    meter::spend_text(text);
    if memchr::memchr(b'$', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    // `copied` is the end of the text that is in `out`, `at` the end of the text that was read.
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'$', &text.as_bytes()[at..]) {
        let dollar = at + found;
        let behind = &text[dollar + 1..];
        at = dollar + 1;
        if behind.starts_with('$') {
            // One of the two stays.
            out.push_str(&text[copied..at]);
            at += 1;
            copied = at;
            continue;
        }
        let Some(name) = name_behind(behind) else { continue };
        meter::spend(2);
        let room = text.len() + MAX_VALUE_BYTES;
        let length = out.len() + dollar - copied;
        let value = match variables.get(name) {
            Some(Variable { value: Some(value), .. })
                if length + value.len() <= room && is_safe(value, unknown) =>
            {
                Some(&**value)
            }
            Some(_) => None,
            // In a script, the shell would run what the kubelet leaves: unknown in either case.
            None if is_open && unknown == UNKNOWN => None,
            None => continue,
        };
        out.push_str(&text[copied..dollar]);
        match value {
            Some(value) => out.push_str(value),
            None => out.push(unknown),
        }
        at = dollar + 1 + name.len() + 2;
        copied = at;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Returns the name in `(X)`, from the text after a `$`.
fn name_behind(behind: &str) -> Option<&str> {
    // No name has these characters or is longer; the closing bracket may be megabytes away.
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

/// Tells whether a value may be put into a text. Into a script, only if it has no meaning to the shell.
fn is_safe(value: &str, unknown: char) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:=,@%+".contains(char);
    unknown == UNKNOWN || value.chars().all(is_plain)
}

/// Tells whether a variable may be one that the kubelet makes of a Service.
pub(crate) fn is_of_service(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.ends_with("_PORT")
}
