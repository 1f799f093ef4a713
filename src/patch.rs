//! Operations as a JSON Patch (RFC 6902): printing them, and applying them to a value.

use serde_json::{Value, json};

use crate::finding::Op;
use crate::pointer::{Pointer, Token};
use crate::workload::Part;

/// A patch that does not fit the object it is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing to change at `{0}`")]
pub struct DoesNotApply(Pointer);

/// Returns the operations as a JSON Patch document.
#[must_use]
pub fn to_json(ops: &[Op]) -> Value {
    let one = |op: &Op| match op {
        Op::Add(at, value) => json!({"op": "add", "path": at.to_json_pointer(), "value": value}),
        Op::Replace(at, value) => json!({"op": "replace", "path": at.to_json_pointer(), "value": value}),
        Op::Remove(at) => json!({"op": "remove", "path": at.to_json_pointer()}),
    };
    ops.iter().map(one).collect()
}

/// Returns the object with the operations made.
///
/// This is stricter than any engine, so that what it accepts means the same to all of them: where they differ (adding to the whole document, replacing
/// a missing key, steps such as `-1` and `01`), the patch does not apply.
///
/// # Errors
/// An operation names a place that is not there, or one below something that is no mapping or list.
pub fn apply(object: &Value, ops: &[Op]) -> Result<Value, DoesNotApply> {
    let mut patched = object.clone();
    for op in ops {
        apply_one(&mut patched, op).ok_or_else(|| DoesNotApply(op.pointer().clone()))?;
    }
    Ok(patched)
}

/// Tells whether an engine that is not ours makes the same of the operations, from the text that goes over the wire.
#[must_use]
pub fn agrees_with_rfc_6902(object: &Value, ops: &[Op], patched: &Value) -> bool {
    let Ok(patch) = serde_json::from_value::<json_patch::Patch>(to_json(ops)) else { return false };
    let mut other = object.clone();
    json_patch::patch(&mut other, &patch).is_ok() && other == *patched
}

fn apply_one(object: &mut Value, op: &Op) -> Option<()> {
    let tokens = op.pointer().tokens();
    let (last, parents) = tokens.split_last()?;
    let parent = parents.iter().try_fold(object, |value, token| match (value, token) {
        (Value::Object(map), Token::Key(key)) => map.get_mut(&**key),
        (Value::Array(list), Token::Index(index)) => list.get_mut(*index),
        _ => None,
    })?;
    match (op, parent, last) {
        (Op::Add(_, value), Value::Object(map), Token::Key(key)) => drop(map.insert(key.to_string(), value.clone())),
        (Op::Add(_, value), Value::Array(list), Token::Index(index)) if *index <= list.len() => list.insert(*index, value.clone()),
        (Op::Replace(_, value), Value::Object(map), Token::Key(key)) => *map.get_mut(&**key)? = value.clone(),
        (Op::Replace(_, value), Value::Array(list), Token::Index(index)) => *list.get_mut(*index)? = value.clone(),
        (Op::Remove(_), Value::Object(map), Token::Key(key)) => drop(map.remove(&**key)?),
        (Op::Remove(_), Value::Array(list), Token::Index(index)) if *index < list.len() => drop(list.remove(*index)),
        _ => return None,
    }
    Some(())
}

/// Returns the operation that sets a field below a mapping that may itself be missing; nothing where something else stands in the way.
///
/// The nearest mapping that exists gets the rest as one value, so that the operation applies as it is.
#[must_use]
pub fn set(parent: &Part<'_>, key: &'static str, value: Value) -> Option<Op> {
    match parent.value {
        Some(Value::Object(_)) => Some(Op::Add(&parent.pointer / key, value)),
        // `null` is no mapping to add to, but a value to put a mapping in the place of.
        Some(Value::Null) => Some(Op::Replace(parent.pointer.clone(), json!({key: value}))),
        None => Some(Op::Add(parent.pointer.clone(), json!({key: value}))),
        Some(_) => None,
    }
}

/// Returns operations that do what all the given ones do, for operations that were each made for the same object.
///
/// Two that each bring the same missing mapping would undo one another: the second becomes additions to the first's mapping.
#[must_use]
pub fn combine(ops: impl IntoIterator<Item = Op>) -> Vec<Op> {
    let mut out: Vec<Op> = Vec::new();
    for op in ops {
        match &op {
            Op::Add(at, Value::Object(entries)) | Op::Replace(at, Value::Object(entries)) if brings_mapping(&out, at) => {
                let parts = entries.iter().map(|(key, value)| Op::Add(at.key(key), value.clone()));
                out.extend(parts);
            }
            _ if out.contains(&op) => {}
            _ => out.push(op),
        }
    }
    out
}

/// Tells whether one of the operations puts a mapping at the place.
fn brings_mapping(ops: &[Op], at: &Pointer) -> bool {
    ops.iter().any(|op| matches!(op, Op::Add(there, Value::Object(_)) | Op::Replace(there, Value::Object(_)) if there == at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_bring_the_same_mapping_become_one() {
        let object = json!({"spec": {}});
        let parent = Part { pointer: Pointer::of(&["spec", "runPolicy"]), value: None };
        let ops = [set(&parent, "a", 1.into()), set(&parent, "b", 2.into())].into_iter().flatten();
        let patched = apply(&object, &combine(ops)).expect("applies");
        assert_eq!(patched, json!({"spec": {"runPolicy": {"a": 1, "b": 2}}}));
    }

    #[test]
    fn a_null_parent_is_replaced_and_anything_else_is_left_alone() {
        let null = Value::Null;
        let text = Value::from("x");
        let pointer = Pointer::of(&["runPolicy"]);
        assert_eq!(set(&Part { pointer: pointer.clone(), value: Some(&null) }, "a", 1.into()), Some(Op::Replace(pointer.clone(), json!({"a": 1}))));
        assert_eq!(set(&Part { pointer, value: Some(&text) }, "a", 1.into()), None);
    }

    #[test]
    fn a_patch_that_does_not_fit_is_an_error() {
        let at = |keys: &[&'static str]| Pointer::of(keys);
        let object = json!({"a": "text", "n": null, "list": [1]});
        for op in [
            Op::Add(at(&["a", "b"]), 1.into()),
            Op::Add(at(&["n", "b"]), 1.into()),
            Op::Add(at(&["missing", "b"]), 1.into()),
            Op::Add(at(&[]), 1.into()),
            Op::Add(at(&["list", "-"]), 1.into()),
            Op::Add(at(&["list"]) / 2, 1.into()),
            Op::Replace(at(&["missing"]), 1.into()),
            Op::Replace(at(&["list"]) / 1, 1.into()),
            Op::Remove(at(&["missing"])),
            Op::Remove(at(&["list"]) / 1),
        ] {
            assert_eq!(apply(&object, std::slice::from_ref(&op)), Err(DoesNotApply(op.pointer().clone())), "{op:?}");
        }
    }
}
