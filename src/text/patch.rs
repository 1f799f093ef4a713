//! JSON Patch operations (RFC 6902): printing, applying, and combining them.

mod joined;
mod op;

use std::collections::BTreeMap;

use json_patch::jsonptr::{self, PointerBuf};
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};

use crate::text::meter;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
pub use joined::{Clash, Joined};
pub use op::Op;

/// A patch that does not apply to its object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing to change at `{0}`")]
pub struct DoesNotApply(pub Pointer);

/// Returns the operations as a JSON Patch document.
#[must_use]
pub fn document(ops: &[Op]) -> json_patch::Patch {
    let place = |pointer: &Pointer| {
        PointerBuf::from_tokens(pointer.tokens().into_iter().map(|token| match token {
            Token::Key(key) => jsonptr::Token::new(&**key),
            Token::Index(index) => (*index).into(),
        }))
    };
    let one = |op: &Op| match op {
        Op::Add(at, value) => PatchOperation::Add(AddOperation { path: place(at), value: value.to_json() }),
        Op::Replace(at, value) => {
            PatchOperation::Replace(ReplaceOperation { path: place(at), value: value.to_json() })
        }
        Op::Remove(at) => PatchOperation::Remove(RemoveOperation { path: place(at) }),
    };
    json_patch::Patch(ops.iter().map(one).collect())
}

/// Returns the object with the operations applied.
///
/// Where JSON Patch engines differ (adding to the whole document, replacing a missing key, steps such as `-1`
/// and `01`), the patch does not apply.
///
/// # Errors
/// A place does not exist, or is below a value that is not a mapping or list.
pub fn apply(object: &Value, ops: &[Op]) -> Result<Value, DoesNotApply> {
    let mut patched = object.clone();
    apply_in_place(&mut patched, ops)?;
    Ok(patched)
}

/// Applies the operations to the object itself.
///
/// # Errors
/// As [`apply`]; earlier operations stay applied.
pub fn apply_in_place(object: &mut Value, ops: &[Op]) -> Result<(), DoesNotApply> {
    ops.iter().try_for_each(|op| apply_one(object, op).ok_or_else(|| DoesNotApply(op.pointer().clone())))
}

/// Merges a patch into a value (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let mut merged = target.to_json();
    json_patch::merge(&mut merged, &patch.to_json());
    *target = merged.into();
}

/// Returns the part of the object that the operations refer to: the values at their places and the path
/// there.
///
/// Mappings on the path keep only the keys of the path, lists keep their length. The operations have the same
/// effect on it as on the object, which may be much larger.
#[must_use]
pub fn footprint(object: &Value, ops: &[Op]) -> Value {
    let steps: Vec<Vec<&Token>> = ops.iter().map(|op| op.pointer().tokens()).collect();
    footprint_of(object, &steps.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Returns the footprint of operations at places below this value.
fn footprint_of(value: &Value, places: &[&[&Token]]) -> Value {
    // Group the operations by their first step, or the work could double at every step.
    let mut below: BTreeMap<&Token, Vec<&[&Token]>> = BTreeMap::new();
    for place in places {
        meter::spend(1);
        let Some((first, rest)) = place.split_first() else { return value.clone() };
        below.entry(first).or_default().push(rest);
    }
    match value {
        Value::Object(map) => {
            let keys = below.iter().filter_map(|(token, rest)| match token {
                Token::Key(key) => map.get_key_value(key).map(|entry| (entry, rest)),
                Token::Index(_) => None,
            });
            keys.map(|((key, child), rest)| (key.to_owned(), footprint_of(child, rest))).collect()
        }
        Value::Array(list) => {
            let mut items = vec![Value::Null; list.len()];
            for (token, rest) in &below {
                if let Token::Index(index) = token
                    && let (Some(item), Some(child)) = (items.get_mut(*index), list.get(*index))
                {
                    *item = footprint_of(child, rest);
                }
            }
            Value::Array(items)
        }
        value => value.clone(),
    }
}

/// Tells whether an engine that is not ours makes the same of the operations, from the document that goes
/// over the wire.
#[must_use]
pub fn agrees_with_rfc_6902(object: &Value, ops: &[Op], patched: &Value) -> bool {
    let mut other = object.to_json();
    json_patch::patch(&mut other, &document(ops)).is_ok() && *patched == other
}

fn apply_one(object: &mut Value, op: &Op) -> Option<()> {
    let tokens = op.pointer().tokens();
    let (last, parents) = tokens.split_last()?;
    let parent = parents.iter().try_fold(object, |value, token| match (value, token) {
        (Value::Object(map), Token::Key(key)) => map.get_mut(key),
        (Value::Array(list), Token::Index(index)) => list.get_mut(*index),
        _ => None,
    })?;
    match (op, parent, last) {
        (Op::Add(_, value), Value::Object(map), Token::Key(key)) => {
            drop(map.insert(key.to_string(), value.clone()));
        }
        (Op::Add(_, value), Value::Array(list), Token::Index(index)) if *index <= list.len() => {
            list.insert(*index, value.clone());
        }
        (Op::Replace(_, value), Value::Object(map), Token::Key(key)) => *map.get_mut(key)? = value.clone(),
        (Op::Replace(_, value), Value::Array(list), Token::Index(index)) => {
            *list.get_mut(*index)? = value.clone();
        }
        (Op::Remove(_), Value::Object(map), Token::Key(key)) => drop(map.remove(key)?),
        (Op::Remove(_), Value::Array(list), Token::Index(index)) if *index < list.len() => {
            drop(list.remove(*index));
        }
        _ => return None,
    }
    Some(())
}

/// Returns operations that do what all the given ones do, for operations that were each made for the same
/// object; one that clashes with an earlier one is left out.
#[must_use]
pub fn combine(ops: impl IntoIterator<Item = Op>) -> Vec<Op> {
    let mut joined = Joined::default();
    for op in ops {
        let _ = joined.join(&[op]);
    }
    joined.into_ops()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn a_footprint_is_what_the_operations_see() {
        let object = json!({"metadata": {"name": "x"}, "spec": {"a": {"b": [1, {"c": 2, "d": 3}, 4]}, "tolerations": [{"key": "x"}], "other": 5}});
        let item = Pointer::of(&["spec", "a", "b"]) / 1;
        let ops = [
            Op::Add(Pointer::of(&["spec", "ttl"]), 1.into()),
            Op::Replace(item.key("c"), 9.into()),
            Op::Add(Pointer::of(&["spec", "tolerations"]) / 1, json!({})),
        ];
        let small = footprint(&object, &ops);
        assert_eq!(small, json!({"spec": {"a": {"b": [null, {"c": 2}, null]}, "tolerations": [null]}}));
        assert_eq!(apply(&small, &ops).expect("applies")["spec"]["tolerations"], json!([null, {}]));
        for (place, applies) in [
            (Pointer::of(&["spec", "a", "b"]) / 4, false),
            (Pointer::of(&["spec", "a", "b"]) / 3, true),
            (Pointer::of(&["spec", "other", "x"]), false),
            (Pointer::of(&["status", "x"]), false),
            (Pointer::of(&["spec", "a"]), true),
        ] {
            let ops = [Op::Add(place, true.into())];
            assert_eq!(apply(&object, &ops).is_ok(), applies);
            assert_eq!(apply(&footprint(&object, &ops), &ops).is_ok(), applies);
        }
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
            assert_eq!(
                apply(&object, std::slice::from_ref(&op)),
                Err(DoesNotApply(op.pointer().clone())),
                "{op:?}"
            );
        }
    }
}
