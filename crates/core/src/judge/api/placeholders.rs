//! Finds placeholders that are the reason why the API server rejects an object.

use super::structure;
use super::validate::{Cause, Reason};
use crate::judge::finding::Finding;
use crate::k8s::go::quoted;
use crate::text::meter;
use crate::text::placeholder::{is_placeholder, is_to_replace};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

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

/// Tells whether a value, the entry of a key, has a text in it that may be a placeholder where the API server rejects it.
pub(super) fn may_hold(value: &Value, key: &str) -> bool {
    meter::spend(1);
    match value {
        Value::String(text) => is_placeholder(text) || is_to_replace(text),
        Value::Array(items) => items.iter().any(|item| may_hold(item, key)),
        Value::Object(entries) => entries.iter().any(|(name, value)| match (key, name) {
            // The server takes these as they are.
            (_, "args" | "command") | ("env", "value") => false,
            // Variables have names in capitals.
            ("env", "name") => value.as_str().is_some_and(is_placeholder),
            _ => is_placeholder(name) || is_to_replace(name) || may_hold(value, name),
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::api;
    use crate::text::value::json;

    #[test]
    fn what_the_server_takes_as_it_is_holds_nothing() {
        let job = |container: &Value, pod: &Value| {
            let mut spec = json!({"restartPolicy": "Never", "containers": [container.clone()]});
            crate::text::patch::merge(&mut spec, pod);
            let job = json!({"name": "w", "template": {"spec": {"template": {"spec": spec}}}});
            json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}, "spec": {"replicatedJobs": [job]}})
        };
        let container = json!({
            "name": "c", "image": "i", "args": ["$A"], "command": ["${B}"], "env": [{"name": "MY_NAME", "value": "$(C)"}],
        });
        assert!(!may_hold(&job(&container, &json!({})), ""));
        for (container, pod, said) in [
            (json!({"name": "c", "image": "i", "env": [{"name": "${A}=", "value": "x"}]}), json!({}), true),
            (
                json!({"name": "c", "image": "i"}),
                json!({"tolerations": [{"key": "pool", "value": "${POOL}"}]}),
                true,
            ),
            (json!({"name": "c", "image": "i"}), json!({"nodeSelector": {"pool": "$POOL"}}), true),
            (json!({"name": "c", "image": "i"}), json!({"nodeSelector": {"pool": "gpu"}}), false),
        ] {
            let object = job(&container, &pod);
            assert_eq!(may_hold(&object, ""), said, "{object}");
            let found = api::check(&object);
            assert_eq!(
                found.iter().any(|finding| finding.rule == crate::judge::checks::PLACEHOLDER),
                said,
                "{object}"
            );
        }
    }
}
