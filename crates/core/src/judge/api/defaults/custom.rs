//! The defaults of custom resources.

use std::sync::Arc;

use super::super::schema::{Id, Schema, SchemaShape};
use super::super::stored_object::{Entries, Stored};
use super::{each, each_sharing, existing, set};
use crate::kinds::{EACH, Kind};

/// Sets the defaults of a CustomResourceDefinition's schema. Those of the operator are never written.
pub(super) fn of_schema<'a>(schema: &'static Schema, id: Id, value: &mut Stored<'a>) {
    if !schema.has_defaults(id) {
        return;
    }
    match (schema.shape(id), value) {
        (SchemaShape::Object(fields), Stored::Mapping(entries)) => {
            for (name, default) in &fields.defaults {
                // `null` is dropped before defaults are set.
                if entries.get(name).is_none_or(Stored::is_null) {
                    entries.insert(&**name, Stored::from_value(default));
                }
            }
            for name in fields.names() {
                if let (Some(id), Some(value)) = (fields.get(name), entries.get_mut(name)) {
                    of_schema(schema, id, value);
                }
            }
        }
        (SchemaShape::List(item), Stored::List(items)) => {
            let mut shared: Option<Arc<Entries<'a>>> = None;
            for value in items.iter_mut() {
                let is_empty = value.as_mapping().is_some_and(|entries| is_bare(schema, *item, entries));
                match shared.as_ref().filter(|_| is_empty) {
                    Some(same) => *value = Stored::Shared(Arc::clone(same)),
                    None => {
                        if is_empty {
                            *value = Stored::Mapping(Entries::default());
                        }
                        of_schema(schema, *item, value);
                        if let Stored::Mapping(fields) = value
                            && is_empty
                        {
                            let same = Arc::new(std::mem::take(fields));
                            *value = Stored::Shared(Arc::clone(shared.insert(same)));
                        }
                    }
                }
            }
        }
        (SchemaShape::Map(item), Stored::Mapping(entries)) => {
            entries.values_mut().for_each(|value| of_schema(schema, *item, value));
        }
        _ => {}
    }
}

/// Tells whether a mapping has only `null` values, under names that the schema does not have. The server drops
/// those.
fn is_bare(schema: &Schema, id: Id, entries: &Entries<'_>) -> bool {
    let is_known = |name: &str| match schema.shape(id) {
        SchemaShape::Object(fields) => fields.get(name).is_some(),
        _ => true,
    };
    entries.iter().all(|(name, value)| value.is_null() && !is_known(name))
}

/// Sets the only default that the schemas of pod templates have in custom resources.
pub(super) fn ports(kind: Kind, object: &mut Stored<'_>) {
    for form in kind.pods {
        each_around(object, form.at, &mut |around| {
            let mut to_pod = form.template.at.iter().chain(form.template.spec);
            let Some(pod) = to_pod.try_fold(around, |around, key| existing(around, key)) else { return };
            let ports = |container: &mut Entries<'_>| {
                each_sharing(container, "ports", |port| set(port, "protocol", "TCP"));
            };
            for field in form.template.containers {
                match field.is_list {
                    true => each(pod, field.name).for_each(ports),
                    false => existing(pod, field.name).into_iter().for_each(ports),
                }
            }
        });
    }
}

/// Calls a function with each mapping around a pod template.
fn each_around<'a>(value: &mut Stored<'a>, path: &[&str], found: &mut dyn FnMut(&mut Entries<'a>)) {
    match (path.split_first(), value) {
        (None, Stored::Mapping(entries)) => found(entries),
        (Some((&EACH, below)), Stored::List(items)) => {
            items.iter_mut().for_each(|item| each_around(item, below, found));
        }
        (Some((&EACH, below)), Stored::Mapping(entries)) => {
            entries.values_mut().for_each(|entry| each_around(entry, below, found));
        }
        (Some((key, below)), Stored::Mapping(entries)) => {
            if let Some(value) = entries.get_mut(key) {
                each_around(value, below, found);
            }
        }
        _ => {}
    }
}
