//! The pod templates and Job specs in a custom resource, as the API server decodes the pods and Jobs that are made of them.

use super::super::schema::{Id, Schema, SchemaShape};
use super::super::stored::{Entries, Stored};
use super::{mapping, pod_spec, resource_lists, set, tidied, whole_job_spec};
use crate::kinds::{EACH, Kind, Pods, Reference, Restart, TEMPLATE, Unset};
use crate::text::value::{Value, json};

/// Returns the part of an object of a kind that has its templates, with these as the API server would decode them, and nothing
/// else changed.
pub(in crate::judge::api) fn with_pods(kind: Kind, object: &Value) -> Stored<'_> {
    let schema = Schema::get();
    let mut whole = Entries::default();
    for form in kind.pods.iter().filter(|form| form.template.containers == TEMPLATE.containers) {
        let Some((&key, below)) = form.at.split_first() else { continue };
        let Some(value) = object.get(key) else { continue };
        let stored = whole.get_or_insert_with(key, || Stored::from_value(value));
        let id = if form.is_job() { job_spec_id(schema) } else { template_id(schema) };
        let Some(id) = id else { continue };
        each(value, stored, below, &mut |value, stored| match form.is_job() {
            true => of_job(kind, form, (schema, id), value, stored),
            false => of_template(kind, form, (schema, id), value, stored),
        });
    }
    if let Some(reference) = &kind.runs_in {
        overrides(reference, schema, object, &mut whole);
    }
    Stored::Mapping(whole)
}

/// Does the same with what an object writes into the pods of another.
fn overrides<'a>(reference: &Reference, schema: &Schema, object: &'a Value, whole: &mut Entries<'a>) {
    let pod = template_id(schema).and_then(|template| field(schema, template, "spec"));
    let container = pod.and_then(|pod| match schema.shape(field(schema, pod, "containers")?) {
        SchemaShape::List(item) => Some(*item),
        _ => None,
    });
    let (Some(pod), Some(of_container)) = (pod, container) else { return };
    let Some((&key, below)) = reference.patches.split_first() else { return };
    let Some(value) = object.get(key) else { return };
    let stored = whole.get_or_insert_with(key, || Stored::from_value(value));
    each(value, stored, below, &mut |value, stored| {
        *stored = tidied(schema, pod, value);
        stored.as_mapping_mut().into_iter().for_each(pod_spec);
    });
    each(value, stored, &reference.trainer[1..], &mut |value, stored| {
        let mut trainer = tidied(schema, of_container, value);
        if let Some(entries) = trainer.as_mapping_mut() {
            let resources = reference.resources.last().copied();
            let written = resources.and_then(|key| Some((key, value.get(key)?)));
            if let Some(((key, value), id)) = written.zip(field(schema, of_container, "resources")) {
                let mut resources = tidied(schema, id, value);
                resources.as_mapping_mut().into_iter().for_each(resource_lists);
                entries.insert(key, resources);
            }
            super::container(entries);
        }
        *stored = trainer;
    });
}

fn job_spec_id(schema: &Schema) -> Option<Id> {
    let root = schema.root(&json!({"apiVersion": "batch/v1", "kind": "Job"}))?;
    field(schema, root.shape, "spec")
}

fn template_id(schema: &Schema) -> Option<Id> {
    field(schema, job_spec_id(schema)?, "template")
}

fn field(schema: &Schema, id: Id, name: &str) -> Option<Id> {
    match schema.shape(id) {
        SchemaShape::Object(fields) => fields.get(name),
        _ => None,
    }
}

/// Calls a function with each mapping around a template, as written and as stored.
fn each<'a>(
    value: &'a Value,
    stored: &mut Stored<'a>,
    path: &[&str],
    found: &mut dyn FnMut(&'a Value, &mut Stored<'a>),
) {
    let Some((key, below)) = path.split_first() else { return found(value, stored) };
    match (*key, value, stored) {
        (EACH, Value::Array(values), Stored::List(items)) => {
            values.iter().zip(items).for_each(|(value, stored)| each(value, stored, below, found));
        }
        (EACH, Value::Object(values), Stored::Mapping(entries)) => {
            for (key, value) in values {
                if let Some(stored) = entries.get_mut(key) {
                    each(value, stored, below, found);
                }
            }
        }
        (key, Value::Object(values), Stored::Mapping(entries)) => {
            if let (Some(value), Some(stored)) = (values.get(key), entries.get_mut(key)) {
                each(value, stored, below, found);
            }
        }
        _ => {}
    }
}

fn of_job<'a>(
    kind: Kind,
    form: &Pods,
    (schema, id): (&Schema, Id),
    value: &'a Value,
    stored: &mut Stored<'a>,
) {
    let mut job = tidied(schema, id, value);
    if let Some(spec) = job.as_mapping_mut() {
        if let Some(mode) = kind.made.completion_mode {
            set(spec, "completionMode", mode);
        }
        if let Some(template) = mapping(spec, "template") {
            of_pod(kind, form, template);
        }
        whole_job_spec(spec);
    }
    *stored = job;
}

fn of_template<'a>(
    kind: Kind,
    form: &Pods,
    (schema, id): (&Schema, Id),
    value: &'a Value,
    stored: &mut Stored<'a>,
) {
    let path = form.template.at;
    let Some(value) = path.iter().try_fold(value, |value, key| value.get(key)) else { return };
    let mut template = tidied(schema, id, value);
    if let Some(entries) = template.as_mapping_mut() {
        mapping(entries, "metadata");
        of_pod(kind, form, entries);
        if let Some(pod) = mapping(entries, "spec") {
            pod_spec(pod);
        }
    }
    let (last, around) = path.split_last().unzip();
    let around = around
        .unwrap_or_default()
        .iter()
        .try_fold(stored, |stored, key| stored.as_mapping_mut().and_then(|entries| entries.get_mut(key)));
    if let Some((last, entries)) = last.zip(around.and_then(Stored::as_mapping_mut)) {
        entries.insert(*last, template);
    }
}

/// Sets what the operator writes into a template.
fn of_pod(kind: Kind, form: &Pods, template: &mut Entries<'_>) {
    let Some(pod) = mapping(template, "spec") else { return };
    for field in kind.made.overwrites {
        pod.remove(field);
    }
    if let Restart::OfTemplate { unset: Unset::Is(policy), .. } = form.restart {
        set(pod, "restartPolicy", policy);
    }
}
