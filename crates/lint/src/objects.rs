//! The objects of a document, with lists flattened as by kubectl, and those of an OpenShift `Template`.

use std::borrow::Cow;
use std::ops::ControlFlow;

use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::{Map, Value};
use jobgate_core::text::yaml::{self, Document, Limits};

/// One object of a document.
#[derive(Debug)]
pub struct Object<'v> {
    /// Its place: the root of the document, or an item of a list.
    pub at: Pointer,
    /// The object; a copy only if it has inherited the kind of its list.
    pub value: Cow<'v, Value>,
}

/// Calls a function with the objects of a document in order, until it breaks: the document itself, or the items of a
/// list of objects, and theirs. They are produced one by one, since a list may have one for every three bytes.
///
/// A list is an object with `items` whose kind ends in `List`. An item without `apiVersion` and `kind` has
/// those of the list, without the `List`, as in client-go. Items that are not objects are skipped.
pub fn each<'v, B>(document: &'v Value, mut take: impl FnMut(Object<'v>) -> ControlFlow<B>) -> Option<B> {
    take_apart(Pointer::root(), Cow::Borrowed(document), &mut take).break_value()
}

/// Returns the objects of a document, see [`each`].
pub fn objects(document: &Value) -> Vec<Object<'_>> {
    let mut found = Vec::new();
    each(document, |object| {
        found.push(object);
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Tells whether a predicate holds for any object of a document.
pub(crate) fn any(document: &Value, is_one: impl Fn(&Value) -> bool) -> bool {
    let look = |object: Object<'_>| {
        if is_one(&object.value) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    each(document, look).is_some()
}

/// Returns the first document of a file that is not empty, such as one after a licence comment and a separator.
pub fn first(text: &[u8], limits: &Limits) -> Option<Document> {
    let mut documents = yaml::split(text, limits).map(|chunk| yaml::parse(text, &chunk?, limits));
    documents.find(|document| document.as_ref().map_or(true, |document| !document.is_empty()))?.ok()
}

fn take_apart<'v, B>(
    at: Pointer,
    value: Cow<'v, Value>,
    take: &mut impl FnMut(Object<'v>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match value {
        Cow::Borrowed(Value::Object(fields)) if list(fields).is_some() => {
            let Some(ObjectList { field, items, version, kind }) = list(fields) else {
                return ControlFlow::Continue(());
            };
            let place = at / field;
            for (index, item) in items.iter().enumerate() {
                take_apart(&place / index, inheriting(item, version, kind), take)?;
            }
        }
        Cow::Owned(Value::Object(fields)) if list(&fields).is_some() => {
            // A list in a list of lists that has inherited its kind.
            let Some(ObjectList { field, items, version, kind }) = list(&fields) else {
                return ControlFlow::Continue(());
            };
            let place = at / field;
            for (index, item) in items.iter().enumerate() {
                take_apart(&place / index, Cow::Owned(inheriting(item, version, kind).into_owned()), take)?;
            }
        }
        value if value.is_object() => take(Object { at, value })?,
        _ => {}
    }
    ControlFlow::Continue(())
}

/// Returns an item with the version and kind that it inherits from its list.
fn inheriting<'v>(item: &'v Value, version: &Value, kind: &str) -> Cow<'v, Value> {
    let says_nothing = |key: &str| item.get(key).is_none_or(Value::is_null);
    if kind.is_empty() || !item.is_object() || !says_nothing("kind") || !says_nothing("apiVersion") {
        return Cow::Borrowed(item);
    }
    let mut item = item.clone();
    item["kind"] = kind.into();
    item["apiVersion"] = version.clone();
    Cow::Owned(item)
}

/// A list of objects.
struct ObjectList<'v> {
    /// The field with the items.
    field: &'static str,
    items: &'v [Value],
    /// The version and kind that items may inherit.
    version: &'v Value,
    kind: &'v str,
}

/// Returns an object as a list, if it is one.
fn list(fields: &Map) -> Option<ObjectList<'_>> {
    let kind = fields.get("kind")?.as_str()?;
    let version = fields.get("apiVersion").unwrap_or(&Value::Null);
    let list = |field, kind| {
        let items = fields.get(field)?.as_array()?;
        Some(ObjectList { field, items, version, kind })
    };
    // `Template` was once a core kind. `oc process` replaces its parameters by values.
    let of_openshift = version
        .as_str()
        .is_some_and(|version| version == "v1" || version.strip_prefix("template.openshift.io/").is_some());
    if kind == "Template" && of_openshift {
        return list("objects", "");
    }
    list("items", kind.strip_suffix("List")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    fn places(document: Value) -> Vec<(String, String)> {
        let name = |value: &Value| {
            format!(
                "{}/{}",
                value["apiVersion"].as_str().unwrap_or_default(),
                value["kind"].as_str().unwrap_or_default()
            )
        };
        objects(&document)
            .into_iter()
            .map(|object| (object.at.to_json_pointer(), name(&object.value)))
            .collect()
    }

    #[test]
    fn an_object_is_itself() {
        assert_eq!(
            places(json!({"apiVersion": "batch/v1", "kind": "Job"})),
            [(String::new(), "batch/v1/Job".to_owned())]
        );
        assert_eq!(places(json!([1])), []);
        // A custom resource whose name ends so, and that is no list.
        assert_eq!(places(json!({"apiVersion": "x/v1", "kind": "PriceList"})).len(), 1);
    }

    #[test]
    fn lists_are_taken_apart_however_deep() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job"});
        let inner = json!({"apiVersion": "v1", "kind": "List", "items": [null, job]});
        let found = places(json!({"apiVersion": "v1", "kind": "List", "items": [job, inner, null, 5]}));
        assert_eq!(
            found,
            [
                ("/items/0".to_owned(), "batch/v1/Job".to_owned()),
                ("/items/1/items/1".to_owned(), "batch/v1/Job".to_owned())
            ]
        );
        assert_eq!(places(json!({"apiVersion": "v1", "kind": "List", "items": []})), []);
    }

    #[test]
    fn objects_of_a_template_are_judged_in_their_place() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job"});
        for version in ["template.openshift.io/v1", "v1"] {
            let template =
                json!({"apiVersion": version, "kind": "Template", "objects": [{"kind": "Route"}, job]});
            let found = places(template);
            assert_eq!(found[1], ("/objects/1".to_owned(), "batch/v1/Job".to_owned()));
        }
        let other = json!({"apiVersion": "example.com/v1", "kind": "Template", "objects": [job]});
        assert_eq!(places(other).len(), 1);
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
