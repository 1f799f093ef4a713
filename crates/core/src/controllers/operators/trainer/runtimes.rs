//! The runtimes that TrainJobs name: those of the cluster, and those that Trainer ships (`manifests/base/runtimes`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::super::super::cluster::Cluster;
use super::TrainerRelease;
use crate::text::value::Value;
use crate::text::yaml;

/// The kind of a runtime where a reference has none, and the one that is shipped.
pub(super) const CLUSTER_RUNTIME: &str = "ClusterTrainingRuntime";

static SHIPPED: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let documents = yaml::documents(include_str!("shipped.yaml").as_bytes());
    let named = |object: Value| Some((object.pointer("/metadata/name")?.as_str()?.to_owned(), object));
    documents.filter_map(|document| named(document.ok()?.value)).collect()
});

/// Returns the `spec` of the runtime that the `spec` of a TrainJob names; nothing where there is none.
pub(super) fn runtime_of<'c>(
    cluster: &'c Cluster,
    train_job: &Value,
    release: TrainerRelease,
) -> Option<Cow<'c, Value>> {
    let name = runtime_name(train_job);
    let kind = runtime_kind(train_job);
    match cluster.object(kind, name) {
        Some((_, runtime)) => Some(Cow::Borrowed(runtime.spec())),
        None if kind == CLUSTER_RUNTIME => shipped_by(release, name),
        None => None,
    }
}

/// Returns the same of manifests.
pub(super) fn runtime_among<'o>(
    objects: &'o [Value],
    train_job: &Value,
    release: TrainerRelease,
) -> Option<Cow<'o, Value>> {
    let name = runtime_name(train_job);
    let kind = runtime_kind(train_job);
    let is_it = |object: &&Value| {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        text("/kind") == kind && text("/metadata/name") == name
    };
    match objects.iter().find(is_it) {
        Some(runtime) => runtime.get("spec").map(Cow::Borrowed),
        None if kind == CLUSTER_RUNTIME => shipped_by(release, name),
        None => None,
    }
}

/// Returns the name of the runtime that the `spec` of a TrainJob names.
pub(super) fn runtime_name(train_job: &Value) -> &str {
    train_job.pointer("/runtimeRef/name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the kind of the runtime that the `spec` of a TrainJob names.
pub(super) fn runtime_kind(train_job: &Value) -> &str {
    train_job.pointer("/runtimeRef/kind").and_then(Value::as_str).unwrap_or(CLUSTER_RUNTIME)
}

/// Returns the objects of the runtimes that Trainer 2.3.0 ships, by name, as far as rules or operators read them.
#[must_use]
pub fn shipped() -> &'static BTreeMap<String, Value> {
    &SHIPPED
}

/// Returns the `spec` of a runtime that a release ships.
fn shipped_by(release: TrainerRelease, name: &str) -> Option<Cow<'static, Value>> {
    let spec = SHIPPED.get(name)?.get("spec")?;
    if release > TrainerRelease::V2_2 || spec.pointer("/mlPolicy/mpi").is_none() {
        return Some(Cow::Borrowed(spec));
    }
    // Up to 2.2 the launcher comes first, and does not wait for the nodes.
    let mut spec = spec.clone();
    let jobs = spec.pointer_mut("/template/spec/replicatedJobs").and_then(Value::as_array_mut)?;
    jobs.sort_by_key(|job| job.get("name").and_then(Value::as_str) != Some("launcher"));
    for job in jobs.iter_mut().filter_map(Value::as_object_mut) {
        job.remove("dependsOn");
    }
    Some(Cow::Owned(spec))
}
