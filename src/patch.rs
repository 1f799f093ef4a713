//! Operations as a JSON Patch (RFC 6902): printing them, and applying them to a value.

use serde_json::{Value, json};

use crate::finding::Op;

/// A patch that does not fit the object it is for.
#[derive(Debug, thiserror::Error)]
#[error("apply the patch")]
pub struct DoesNotApply(#[from] json_patch::PatchError);

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
/// # Errors
/// An operation names a place that is not there, or one below something that is no mapping or list.
pub fn apply(object: &Value, ops: &[Op]) -> Result<Value, DoesNotApply> {
    let patch: json_patch::Patch = serde_json::from_value(to_json(ops)).unwrap_or_default();
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch)?;
    Ok(patched)
}
