//! The queue of Kueue that an object names.

use super::kinds::{has_queue, kind_of};
use crate::text::value::Value;

/// The label of the queue.
pub(super) const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// Returns an entry of `labels` or `annotations`; an empty one counts as none.
pub(super) fn entry<'v>(manifest: &'v Value, map: &str, key: &str) -> Option<&'v str> {
    let text = manifest.get("metadata")?.get(map)?.get(key)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the LocalQueue of an object.
pub(super) fn queue(manifest: &Value) -> Option<&str> {
    entry(manifest, "labels", QUEUE)
}

/// Returns the queue of an object, if objects of its kind may wait in one.
pub(in super::super) fn queue_of(manifest: &Value) -> Option<&str> {
    queue(manifest).filter(|_| kind_in_queue(manifest).is_some())
}

/// Returns what the kind of an object is called here, if objects of it may wait in a queue.
pub(super) fn kind_in_queue(manifest: &Value) -> Option<&'static str> {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str);
    match (text("apiVersion"), text("kind")) {
        (Some("batch/v1"), Some("Job")) => Some("Job"),
        _ => kind_of(manifest).filter(|kind| has_queue(kind)),
    }
}
