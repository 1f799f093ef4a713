//! JSON Patch operations (RFC 6902): printing, applying, and combining them.

mod joined;
mod op;

use std::collections::BTreeMap;
use std::mem;

use json_patch::jsonptr::{self, PointerBuf};
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};

use crate::meter;
use crate::pointer::{Pointer, Token};
use crate::value::{Value, make_room};
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
    apply_reversibly(object, ops).map(drop)
}

/// Applies the operations to the object itself, and returns those that reverse them.
///
/// # Errors
/// As [`apply`]; earlier operations stay applied.
pub fn apply_reversibly(object: &mut Value, ops: &[Op]) -> Result<Vec<Op>, DoesNotApply> {
    let reverse = |op: &Op| apply_one(object, op).ok_or_else(|| DoesNotApply(op.pointer().clone()));
    let mut reversed: Vec<Op> = ops.iter().map(reverse).collect::<Result<_, _>>()?;
    reversed.reverse();
    Ok(reversed)
}

/// Merges a patch into a value (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let mut merged = target.to_json();
    json_patch::merge(&mut merged, &patch.to_json());
    *target = merged.into();
}

/// Returns the part of the object that the operations refer to, and the operations on that part.
///
/// The part has the values at those places and the paths to them: of mappings only the keys on a path, of lists
/// only the items between the first and the last one touched. The operations have the same effect on it as on
/// the object, which may be much larger, with much longer lists.
#[must_use]
pub fn footprint(object: &Value, ops: &[Op]) -> (Value, Vec<Op>) {
    let steps: Vec<Vec<&Token>> = ops.iter().map(|op| op.pointer().tokens()).collect();
    let mut moved: Vec<Vec<Token>> =
        steps.iter().map(|steps| steps.iter().copied().cloned().collect()).collect();
    let places: Vec<Below<'_>> = steps.iter().map(Vec::as_slice).enumerate().collect();
    let part = footprint_of(object, &places, 0, &mut moved);
    let at = |steps: Vec<Token>| steps.into_iter().fold(Pointer::root(), Pointer::then);
    (part, ops.iter().zip(moved).map(|(op, steps)| op.moved_to(at(steps))).collect())
}

/// The index of an operation, and its steps below some value.
type Below<'a> = (usize, &'a [&'a Token]);

/// Returns the footprint of operations at places below a value, `depth` steps from the root, and shifts their
/// indexes into its lists, in `moved`.
fn footprint_of(value: &Value, places: &[Below<'_>], depth: usize, moved: &mut [Vec<Token>]) -> Value {
    // Group the operations by their first step, or the work could double at every step.
    let mut below: BTreeMap<&Token, Vec<Below<'_>>> = BTreeMap::new();
    for &(op, place) in places {
        meter::spend(1);
        let Some((first, rest)) = place.split_first() else { return value.clone() };
        below.entry(first).or_default().push((op, rest));
    }
    match value {
        Value::Object(map) => {
            let keys = below.iter().filter_map(|(token, rest)| match token {
                Token::Key(key) => map.get_key_value(key).map(|entry| (entry, rest)),
                Token::Index(_) => None,
            });
            keys.map(|((key, child), rest)| (key.to_owned(), footprint_of(child, rest, depth + 1, moved)))
                .collect()
        }
        Value::Array(list) => {
            let touched = || {
                below.iter().filter_map(|(token, rest)| match token {
                    Token::Index(index) => Some((*index, rest)),
                    Token::Key(_) => None,
                })
            };
            let from = touched().map(|(index, _)| index).min().unwrap_or(0).min(list.len());
            let last = touched().map(|(index, _)| index).max().unwrap_or(0);
            // Each operation may remove an item, which moves a later one into the range.
            let to = last.saturating_add(1 + places.len()).min(list.len());
            let mut items = vec![Value::Null; to - from];
            for (index, rest) in touched() {
                for (op, _) in rest {
                    moved[*op][depth] = Token::Index(index - from);
                }
                if let (Some(item), Some(child)) = (items.get_mut(index - from), list.get(index)) {
                    *item = footprint_of(child, rest, depth + 1, moved);
                }
            }
            Value::Array(items)
        }
        value => value.clone(),
    }
}

/// Tells whether another engine gets the same result from the JSON Patch document that is sent.
#[must_use]
pub fn agrees_with_rfc_6902(object: &Value, ops: &[Op], patched: &Value) -> bool {
    let mut other = object.to_json();
    json_patch::patch(&mut other, &document(ops)).is_ok() && *patched == other
}

/// Applies one operation, and returns the one that reverses it.
fn apply_one(object: &mut Value, op: &Op) -> Option<Op> {
    let tokens = op.pointer().tokens();
    let (last, parents) = tokens.split_last()?;
    let parent = parents.iter().try_fold(object, |value, token| match (value, token) {
        (Value::Object(map), Token::Key(key)) => map.get_mut(key),
        (Value::Array(list), Token::Index(index)) => list.get_mut(*index),
        _ => None,
    })?;
    Some(match (op, parent, last) {
        (Op::Add(at, value), Value::Object(map), Token::Key(key)) => {
            match map.insert(key.to_string(), value.clone()) {
                Some(before) => Op::Replace(at.clone(), before),
                None => Op::Remove(at.clone()),
            }
        }
        (Op::Add(at, value), Value::Array(list), Token::Index(index)) if *index <= list.len() => {
            make_room(list);
            list.insert(*index, value.clone());
            Op::Remove(at.clone())
        }
        (Op::Replace(at, value), Value::Object(map), Token::Key(key)) => {
            Op::Replace(at.clone(), mem::replace(map.get_mut(key)?, value.clone()))
        }
        (Op::Replace(at, value), Value::Array(list), Token::Index(index)) => {
            Op::Replace(at.clone(), mem::replace(list.get_mut(*index)?, value.clone()))
        }
        (Op::Remove(at), Value::Object(map), Token::Key(key)) => Op::Add(at.clone(), map.remove(key)?),
        (Op::Remove(at), Value::Array(list), Token::Index(index)) if *index < list.len() => {
            Op::Add(at.clone(), list.remove(*index))
        }
        _ => return None,
    })
}

/// Combines operations that were each made for the same object; one that clashes with an earlier one is left
/// out.
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
    use crate::value::json;

    #[test]
    fn a_footprint_is_what_the_operations_see() {
        let object = json!({"metadata": {"name": "x"}, "spec": {"a": {"b": [1, {"c": 2, "d": 3}, 4]}, "tolerations": [{"key": "x"}], "other": 5}});
        let item = Pointer::new(&["spec", "a", "b"]) / 1;
        let ops = [
            Op::Add(Pointer::new(&["spec", "ttl"]), 1.into()),
            Op::Replace(item.key("c"), 9.into()),
            Op::Add(Pointer::new(&["spec", "tolerations"]) / 1, json!({})),
        ];
        let (small, moved) = footprint(&object, &ops);
        assert_eq!(small, json!({"spec": {"a": {"b": [{"c": 2}, null]}, "tolerations": []}}));
        let after = apply(&small, &moved).expect("applies");
        assert_eq!(after, json!({"spec": {"a": {"b": [{"c": 9}, null]}, "tolerations": [{}], "ttl": 1}}));
        for (place, applies) in [
            (Pointer::new(&["spec", "a", "b"]) / 4, false),
            (Pointer::new(&["spec", "a", "b"]) / 3, true),
            (Pointer::new(&["spec", "other", "x"]), false),
            (Pointer::new(&["status", "x"]), false),
            (Pointer::new(&["spec", "a"]), true),
        ] {
            let ops = [Op::Add(place, true.into())];
            assert_eq!(apply(&object, &ops).is_ok(), applies);
            let (small, moved) = footprint(&object, &ops);
            assert_eq!(apply(&small, &moved).is_ok(), applies);
        }
    }

    #[test]
    fn operations_are_reversed() {
        let object = json!({"metadata": {"name": "x"}, "list": [1, 2, 3], "n": null});
        let list = Pointer::new(&["list"]);
        let ops = [
            Op::Add(Pointer::new(&["spec"]), json!({"a": 1})),
            Op::Add(Pointer::new(&["spec", "b"]), 2.into()),
            Op::Add(Pointer::new(&["n"]), 3.into()),
            Op::Replace(Pointer::new(&["metadata", "name"]), "y".into()),
            Op::Add(&list / 3, 4.into()),
            Op::Remove(&list / 0),
            Op::Replace(&list / 1, 5.into()),
            Op::Remove(Pointer::new(&["metadata"])),
        ];
        let mut changed = object.clone();
        let reverse = apply_reversibly(&mut changed, &ops).expect("applies");
        assert_eq!(changed, json!({"list": [2, 5, 4], "n": 3, "spec": {"a": 1, "b": 2}}));
        apply_in_place(&mut changed, &reverse).expect("applies");
        assert_eq!(changed, object);
    }

    #[test]
    fn a_footprint_of_a_long_list_is_short() {
        let list = Pointer::new(&["list"]);
        let object = json!({"list": vec![0; 10_000]});
        let add = |index: usize| Op::Add(&list / index, 1.into());
        for (ops, length, applies) in [
            (vec![add(10_000), add(10_001)], 0, true),
            (vec![add(10_001)], 0, false),
            (vec![Op::Replace(&list / 5_000, 1.into())], 2, true),
            // The last one is nearer to the front by two then.
            (
                vec![
                    Op::Remove(&list / 9_000),
                    Op::Remove(&list / 9_000),
                    Op::Replace(&list / 9_997, 1.into()),
                ],
                1_000,
                true,
            ),
            (
                vec![
                    Op::Remove(&list / 9_000),
                    Op::Remove(&list / 9_000),
                    Op::Replace(&list / 9_998, 1.into()),
                ],
                1_000,
                false,
            ),
        ] {
            let (small, moved) = footprint(&object, &ops);
            assert_eq!(small["list"].as_array().map(Vec::len), Some(length), "{ops:?}");
            assert_eq!(apply(&object, &ops).is_ok(), applies, "{ops:?}");
            assert_eq!(apply(&small, &moved).is_ok(), applies, "{ops:?}");
        }
        // The steps below a value that is replaced as a whole do not change.
        let ops = [add(3), Op::Replace(list.clone(), json!([1]))];
        assert_eq!(footprint(&object, &ops), (object, ops.to_vec()));
    }

    #[test]
    fn a_patch_that_does_not_fit_is_an_error() {
        let at = |keys: &[&'static str]| Pointer::new(keys);
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
