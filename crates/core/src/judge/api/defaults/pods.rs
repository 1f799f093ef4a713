//! The pod templates and Job specs in a custom resource, as the API server decodes the pods and Jobs that are made of them.

use super::super::schema::{Schema, SchemaShape};
use super::super::stored_object::{Entries, Stored};
use super::{mapping, pod_spec, resource_lists, set, tidied, whole_job_spec};
use crate::kinds::{Count, EACH, Kind, Pods, Reference, Restart, Times, Unset};
use crate::text::value::Value;

/// Returns a Job spec as its controller gets it.
#[must_use]
pub(in crate::judge::api) fn made_job<'a>(kind: Kind, form: &Pods, value: &'a Value) -> Stored<'a> {
    let mut job = decoded(&["spec"], value);
    if let Some(spec) = job.as_mapping_mut() {
        if matches!(form.count, Count::Jobs(Times::OfOthers)) {
            spec.remove("completions");
            spec.remove("parallelism");
        }
        if let Some(mode) = kind.made.completion_mode {
            set(spec, "completionMode", mode);
        }
        if let Some(template) = mapping(spec, "template") {
            overwrite(kind, form, template);
        }
        whole_job_spec(spec);
    }
    job
}

/// Returns a template as pods are made of it.
#[must_use]
pub(in crate::judge::api) fn made_template<'a>(kind: Kind, form: &Pods, value: &'a Value) -> Stored<'a> {
    let mut template = decoded(&["spec", "template"], value);
    if let Some(entries) = template.as_mapping_mut() {
        mapping(entries, "metadata");
        overwrite(kind, form, entries);
        if let Some(pod) = mapping(entries, "spec") {
            pod_spec(pod);
        }
    }
    template
}

/// Returns what an object writes over the pod spec of another.
#[must_use]
pub(in crate::judge::api) fn pod_patch(value: &Value) -> Stored<'_> {
    let mut pod = decoded(&["spec", "template", "spec"], value);
    pod.as_mapping_mut().into_iter().for_each(pod_spec);
    pod
}

/// Returns what an object writes into the container of another that trains.
#[must_use]
pub(in crate::judge::api) fn trainer<'a>(reference: &Reference, value: &'a Value) -> Stored<'a> {
    const CONTAINER: [&str; 5] = ["spec", "template", "spec", "containers", EACH];
    let mut trainer = decoded(&CONTAINER, value);
    if let Some(entries) = trainer.as_mapping_mut() {
        if let Some((key, written)) = reference.resources.last().and_then(|key| Some((*key, value.get(key)?)))
        {
            let mut resources = decoded(&[&CONTAINER[..], &["resources"]].concat(), written);
            resources.as_mapping_mut().into_iter().for_each(resource_lists);
            entries.insert(key, resources);
        }
        super::container(entries);
    }
    trainer
}

/// Returns a value as what stands at a path of a Job.
fn decoded<'a>(path: &[&str], value: &'a Value) -> Stored<'a> {
    let schema = Schema::get();
    let id = path.iter().try_fold(schema.job(), |id, key| match schema.shape(id) {
        SchemaShape::Object(fields) => fields.get(key),
        SchemaShape::List(item) if *key == EACH => Some(*item),
        _ => None,
    });
    id.map_or_else(|| Stored::from_value(value), |id| tidied(schema, id, value))
}

/// Sets what the operator writes into a template.
fn overwrite(kind: Kind, form: &Pods, template: &mut Entries<'_>) {
    let Some(pod) = mapping(template, "spec") else { return };
    for field in kind.made.overwrites {
        pod.remove(field);
    }
    if let Restart::OfTemplate { unset: Unset::Is(policy), .. } = form.restart {
        set(pod, "restartPolicy", policy);
    }
}
