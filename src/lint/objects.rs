//! The objects of a document, as kubectl takes lists apart.

use serde_json::{Map, Value};

use crate::pointer::Pointer;

/// One object of a document.
#[derive(Debug)]
pub(super) struct Object {
    /// Where it stands: the root of the document, or an item of a list.
    pub(super) at: Pointer,
    /// The object.
    pub(super) value: Value,
}

/// Returns the objects of a document, in order: itself, or, if it is a list of objects, its items and theirs.
///
/// A list is an object whose kind ends in `List` and that has `items`. An item with neither `apiVersion` nor `kind` takes those of the list, without
/// the `List`, as client-go does it for a `JobList`. Items that are no objects are left out.
pub(super) fn objects(document: Value) -> Vec<Object> {
    let mut found = Vec::new();
    take_apart(Pointer::root(), document, &mut found);
    found
}

fn take_apart(at: Pointer, value: Value, found: &mut Vec<Object>) {
    let Value::Object(mut fields) = value else { return };
    let Some((items, version, kind)) = list(&mut fields) else {
        found.push(Object { at, value: Value::Object(fields) });
        return;
    };
    let place = at / "items";
    for (index, mut item) in items.into_iter().enumerate() {
        if let (Value::Object(item), false) = (&mut item, kind.is_empty())
            && item.get("kind").is_none_or(Value::is_null)
            && item.get("apiVersion").is_none_or(Value::is_null)
        {
            item.insert("kind".to_owned(), kind.clone().into());
            item.insert("apiVersion".to_owned(), version.clone());
        }
        take_apart(&place / index, item, found);
    }
}

/// Takes the items out of a list, with the version and kind that they may inherit.
fn list(fields: &mut Map<String, Value>) -> Option<(Vec<Value>, Value, String)> {
    let kind = fields.get("kind")?.as_str()?.strip_suffix("List")?.to_owned();
    let Some(Value::Array(items)) = fields.get_mut("items") else { return None };
    let items = std::mem::take(items);
    Some((items, fields.get("apiVersion").cloned().unwrap_or_default(), kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(document: Value) -> Vec<(String, String)> {
        let name = |value: &Value| format!("{}/{}", value["apiVersion"].as_str().unwrap_or_default(), value["kind"].as_str().unwrap_or_default());
        objects(document).into_iter().map(|object| (object.at.to_json_pointer(), name(&object.value))).collect()
    }

    #[test]
    fn an_object_is_itself() {
        assert_eq!(places(json!({"apiVersion": "batch/v1", "kind": "Job"})), [(String::new(), "batch/v1/Job".to_owned())]);
        assert_eq!(places(json!([1])), []);
        // A custom resource whose name ends so, and that is no list.
        assert_eq!(places(json!({"apiVersion": "x/v1", "kind": "PriceList"})).len(), 1);
    }

    #[test]
    fn lists_are_taken_apart_however_deep() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job"});
        let inner = json!({"apiVersion": "v1", "kind": "List", "items": [null, job]});
        let found = places(json!({"apiVersion": "v1", "kind": "List", "items": [job, inner, null, 5]}));
        assert_eq!(found, [("/items/0".to_owned(), "batch/v1/Job".to_owned()), ("/items/1/items/1".to_owned(), "batch/v1/Job".to_owned())]);
        assert_eq!(places(json!({"apiVersion": "v1", "kind": "List", "items": []})), []);
    }

    #[test]
    fn items_take_their_kind_from_a_typed_list_only() {
        let list = |kind: &str| json!({"apiVersion": "batch/v1", "kind": kind, "items": [{"spec": {}}]});
        assert_eq!(places(list("JobList")), [("/items/0".to_owned(), "batch/v1/Job".to_owned())]);
        assert_eq!(places(list("List")), [("/items/0".to_owned(), "/".to_owned())]);
        let half = json!({"apiVersion": "batch/v1", "kind": "JobList", "items": [{"kind": "CronJob"}]});
        assert_eq!(places(half), [("/items/0".to_owned(), "/CronJob".to_owned())]);
    }
}
