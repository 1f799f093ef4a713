//! Fields of objects, whatever they hold.

use jiff::Timestamp;

use super::super::time::Time;
use crate::text::value::Value;

/// Returns a text; nothing where it is empty or no text.
pub(in super::super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// Returns a text as an own one.
pub(in super::super) fn owned(value: &Value, pointer: &str) -> Option<String> {
    text(value, pointer).map(str::to_owned)
}

/// Returns a number that is not negative; what is larger than the range is the largest.
pub(in super::super) fn number(value: &Value, pointer: &str) -> Option<u32> {
    let number = value.pointer(pointer)?.as_u64()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns the items of a list.
pub(in super::super) fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns a time, from a moment on that is given in milliseconds since 1970.
pub(in super::super) fn time(value: &Value, pointer: &str, now: i64) -> Option<Time> {
    let at: Timestamp = text(value, pointer)?.parse().ok()?;
    Some(Time::from_millis(at.as_millisecond().saturating_sub(now)))
}

/// Returns when an object was deleted; of one with a time that cannot be read, the moment itself.
pub(in super::super) fn deletion(object: &Value, now: i64) -> Option<Time> {
    const FIELD: &str = "/metadata/deletionTimestamp";
    text(object, FIELD).map(|_| time(object, FIELD, now).unwrap_or_default())
}

/// Returns a label or an annotation.
pub(in super::super) fn tagged<'v>(object: &'v Value, list: &str, key: &str) -> Option<&'v str> {
    object.get("metadata")?.get(list)?.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// Returns a number from an annotation.
pub(in super::super) fn annotated(object: &Value, key: &str) -> Option<u32> {
    tagged(object, "annotations", key)?.parse().ok()
}
