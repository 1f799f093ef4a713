//! What the webhook may change, as the definition of a kind has it.

use std::collections::{BTreeMap, BTreeSet};

use jobgate::kinds::{Api, EACH, Kind, Part, Path, Ttl, each_at};
use jobgate::text::value::Value;

use super::places::each_mut;

/// A field, item or entry that has another value than before.
struct Change<'v> {
    at: Vec<String>,
    before: Option<&'v Value>,
    after: &'v Value,
}

/// A place that may be filled in.
pub(crate) struct Fill {
    /// Where, with [`EACH`] for any item or entry.
    at: Vec<&'static str>,
    with: With,
}

/// What may be filled in.
enum With {
    /// A number of seconds, where there is none.
    Seconds,
    /// This value, where there is none.
    Value(Value),
    /// This value, where there is none or the default of the API server.
    InsteadOf(&'static str, Value),
    /// A new item: a toleration.
    Toleration,
}

impl Fill {
    /// Returns where it is, with [`EACH`] for any item or entry.
    pub(crate) fn place(&self) -> String {
        self.at.join(".")
    }

    fn is_at(&self, at: &[String]) -> bool {
        self.at.len() == at.len() && self.at.iter().zip(at).all(|(step, at)| *step == EACH || step == at)
    }

    fn makes(&self, before: Option<&Value>, after: &Value) -> bool {
        let was_unset = before.is_none_or(Value::is_null);
        match &self.with {
            With::Seconds => was_unset && after.as_i64().is_some_and(|seconds| seconds >= 0),
            With::Value(value) => was_unset && after == value,
            With::InsteadOf(default, value) => {
                (was_unset || before.is_some_and(|before| before == default)) && after == value
            }
            With::Toleration => before.is_none() && is_toleration(after),
        }
    }
}

/// Returns the places that may be filled in.
pub(crate) fn fills(kind: Kind) -> Vec<Fill> {
    // What is inside of another object is the author's alone.
    if kind.components.is_some() {
        return Vec::new();
    }
    let fill = |path: Path, fields: &[&'static str], with| Fill { at: [path, fields].concat(), with };
    let mut fills = Vec::new();
    if let Ttl::Deletes { .. } = kind.ttl {
        fills.push(fill(kind.limits, kind.ttl_at, With::Seconds));
    }
    if let Some(release) = kind.release {
        fills.push(fill(kind.limits, &[release.field], With::Value(release.value())));
    }
    for pods in kind.pods {
        for spec in std::iter::once(pods.spec_path()).chain(pods.template.shared.map(<[_]>::to_vec)) {
            fills.push(Fill { at: [&spec[..], &["tolerations", EACH]].concat(), with: With::Toleration });
        }
        if pods.is_job() {
            let with = match kind.api {
                Api::Job => With::InsteadOf("TerminatingOrFailed", "Failed".into()),
                _ => With::Value("Failed".into()),
            };
            fills.push(fill(pods.at, &["podReplacementPolicy"], with));
        }
    }
    fills
}

/// Checks that a patch has only filled in what may be filled in, and returns where.
pub(crate) fn assert_only_fills(kind: Kind, before: &Value, after: &Value) -> BTreeSet<String> {
    let fills = fills(kind);
    let mut changes = Vec::new();
    collect(&mut Vec::new(), Some(before), after, &mut changes);
    let known = changes.into_iter().map(|Change { at, before, after }| {
        let fill = fills.iter().find(|fill| fill.is_at(&at) && fill.makes(before, after));
        let at = at.join(".");
        fill.unwrap_or_else(|| panic!("nothing else is touched: {at} was {before:?} and is {after}"))
    });
    known.map(Fill::place).collect()
}

/// Collects the changes. A new mapping counts by its fields, unless it is empty or an item of a list.
fn collect<'v>(
    at: &mut Vec<String>,
    before: Option<&'v Value>,
    after: &'v Value,
    changes: &mut Vec<Change<'v>>,
) {
    match (before, after) {
        (Some(before), after) if before == after => {}
        (Some(Value::Object(before)), Value::Object(after)) => {
            assert!(before.keys().all(|key| after.contains_key(key)), "a field is gone");
            for (key, value) in after {
                at.push(key.to_owned());
                collect(at, before.get(key), value, changes);
                at.pop();
            }
        }
        // A null is as good as nothing.
        (None | Some(Value::Null), Value::Object(after)) if !after.is_empty() => {
            for (key, value) in after {
                at.push(key.to_owned());
                collect(at, None, value, changes);
                at.pop();
            }
        }
        (Some(Value::Array(_)) | Some(Value::Null) | None, Value::Array(after)) if !after.is_empty() => {
            let before = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            assert!(before.len() <= after.len(), "an item is gone");
            for (nth, item) in after.iter().enumerate() {
                at.push(nth.to_string());
                match before.get(nth) {
                    Some(before) => collect(at, Some(before), item, changes),
                    None => changes.push(Change { at: at.clone(), before: None, after: item }),
                }
                at.pop();
            }
        }
        (before, after) => changes.push(Change { at: at.clone(), before, after }),
    }
}

/// Tells whether it is a toleration as the webhook writes it.
fn is_toleration(value: &Value) -> bool {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    value.as_object().is_some_and(|fields| fields.len() == 3)
        && text("key").is_some_and(|key| !key.is_empty())
        && (text("operator"), text("effect")) == (Some("Exists"), Some("NoSchedule"))
}

/// Checks that an update was given back what an apply took out of its pod templates, and that nothing else
/// was done.
pub(crate) fn assert_restored(kind: Kind, object: &Value, patched: &Value, old: &Value) {
    let (before, after, old) = (templates(kind, object), templates(kind, patched), templates(kind, old));
    let mut restored = 0;
    for (at, template) in &before {
        if after.get(at) != Some(template) {
            assert_eq!(after.get(at), old.get(at), "a template is changed back or not at all");
            restored += 1;
        }
    }
    assert!(restored > 0, "something was restored");
    let without = |object: &Value| {
        let mut object = object.clone();
        for_each_template(kind, &mut object, &mut |template| *template = Value::Null);
        object
    };
    assert_eq!(without(object), without(patched), "nothing but templates is restored");
}

/// Returns the pod templates of an object, each with its place.
fn templates(kind: Kind, object: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for pods in kind.pods {
        each_at(&Part::root(object), &[pods.at, pods.template.at].concat(), &mut |template| {
            found.extend(template.value.map(|value| (template.pointer.to_json_pointer(), value.clone())));
        });
    }
    found
}

/// Calls a function with each pod template of an object.
pub(super) fn for_each_template(kind: Kind, object: &mut Value, found: &mut dyn FnMut(&mut Value)) {
    for pods in kind.pods {
        each_mut(object, &[pods.at, pods.template.at].concat(), found);
    }
}
