//! Finds placeholders that are the reason why the API server rejects an object.

use crate::judge::finding::Finding;
use crate::k8s::go::quoted;
use crate::text::meter;
use crate::text::placeholder::{is_placeholder, is_to_replace};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

use super::structure;
use super::validate::{Cause, Reason};

/// A placeholder that is the reason for a cause.
pub(super) enum HeldPlaceholder<'c, 'o> {
    Value(&'c Pointer, &'o str),
    Key(&'c Pointer, &'c str),
}

impl HeldPlaceholder<'_, '_> {
    pub(super) fn finding(&self) -> Finding {
        match *self {
            Self::Value(at, text) => structure::held(at.clone(), text),
            Self::Key(at, key) => structure::held_as_key(at.clone(), key),
        }
    }
}

/// Returns the placeholder that a cause is about: a value, or the key of a mapping that the server refuses.
pub(super) fn placeholder_of<'c, 'o>(cause: &'c Cause, object: &'o Value) -> Option<HeldPlaceholder<'c, 'o>> {
    // A name in capitals counts as a placeholder only where it is rejected.
    let is_refused = matches!(cause.reason, Reason::Invalid | Reason::NotSupported | Reason::NotFound)
        && !cause.message.ends_with("immutable");
    let holds = |text: &str| is_placeholder(text) || is_refused && is_to_replace(text);
    let places = [&cause.path, &cause.pointer];
    let value = |at: &'c Pointer| at.find(object)?.as_str().filter(|text| holds(text));
    if let Some(held) = places.into_iter().find_map(|at| Some(HeldPlaceholder::Value(at, value(at)?))) {
        return Some(held);
    }
    let Some(Token::Key(key)) = cause.pointer.last().filter(|_| is_refused) else { return None };
    (holds(key) && cause.message.contains(&quoted(key))).then(|| HeldPlaceholder::Key(&cause.pointer, key))
}

/// Texts that the API server takes as they are.
const FREE: [&str; 3] = ["args", "command", "value"];

/// Tells whether a value, the entry of a key, has a text in it that may be a placeholder where the API server rejects it.
pub(super) fn may_hold(value: &Value, key: &str) -> bool {
    meter::spend(1);
    match value {
        Value::String(text) => is_placeholder(text) || is_to_replace(text),
        Value::Array(items) => items.iter().any(|item| may_hold(item, key)),
        Value::Object(entries) => entries.iter().any(|(name, value)| match (key, name) {
            // Variables have names in capitals.
            ("env", "name") => value.as_str().is_some_and(is_placeholder),
            (_, name) if FREE.contains(&name) => false,
            _ => is_placeholder(name) || is_to_replace(name) || may_hold(value, name),
        }),
        _ => false,
    }
}
