//! The requests of a job for the pods of its runtime, and the tolerations of the runtime.

pub mod shipped;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::judge::facts::Fact;
use crate::judge::finding::{Level, Place};
use crate::judge::rule::Cx;
use crate::judge::tolerations::{CoveredTaints, Platform};
use crate::k8s::quantity::Quantity;
use crate::kinds::accelerator::{NO_TAINT, taint_of};
use crate::kinds::{Part, PodSpec, PodTemplate, Reference, Workload, each_at};
use crate::text::lines::cut;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// Warns of accelerators that an object requests for the pods of another, without a toleration in either.
/// Nothing can be filled in: the list would belong to a patch, or to another object.
pub(super) fn check(cx: &mut Cx<'_>, reference: Reference, taints: &[(&str, &str)], platform: Platform) {
    let object = &cx.workload.object;
    let resources = object.at(reference.resources);
    let mut wanted: BTreeMap<&str, (&str, Pointer)> = BTreeMap::new();
    for list in ["limits", "requests"] {
        for (resource, amount) in resources.get(list).entries() {
            let is_some = amount.value.and_then(|value| Quantity::from_json(value).ok());
            if let Some(taint) = taint_of(resource, taints).filter(|taint| *taint != NO_TAINT)
                && is_some.is_some_and(|quantity| quantity.is_positive())
            {
                wanted.entry(taint).or_insert((resource, amount.pointer));
            }
        }
    }
    each_at(object, reference.patches, &mut |pod| {
        let covered = CoveredTaints::from_tolerations(&pod.get("tolerations"));
        wanted.retain(|taint, _| !covered.all && !covered.whole.contains(taint));
    });
    let Some((kind, runtime_name)) = reference.of(object).filter(|_| !wanted.is_empty()) else { return };
    let Fact::Known(runtime) = cx.facts().runtime(kind, cx.request.namespace, runtime_name) else { return };
    let pods = pods(&runtime.object);
    for (taint, (resource, place)) in wanted {
        let lacks = |pod: &&Value| {
            let spec = PodSpec::whole(Part::root(pod));
            let list = spec.get("tolerations");
            let covered = CoveredTaints::from_tolerations(&list);
            !covered.all && !covered.whole.contains(taint) && !platform.tolerates(&spec, resource, taint)
        };
        if !pods.iter().any(lacks) {
            continue;
        }
        let message = format!(
            "the runtime `{}` has no toleration `{{key: {taint}, operator: Exists, effect: NoSchedule}}`: \
             a pod that requests `{resource}` stays Pending if the nodes have this taint",
            shown(runtime_name)
        );
        let finding = cx.report(&place, message);
        finding.instead_of_fill(Level::Warn).at_most(Level::Warn);
        finding.help("add the toleration to the runtime, or to this job in `spec.runtimePatches`");
        let object = title(kind, runtime_name);
        let source = runtime.source.clone();
        finding.label(Place::Elsewhere { object, source }, "its pods have no such toleration");
    }
}

/// The label of a Job in a runtime that names its part in the training
/// (docs/internals/batch-kinds.md#training-runtimes).
pub(super) const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
/// Its value for the Job whose pods train.
pub(super) const TRAINER: &str = "trainer";

/// Returns the part of a runtime's Job in the training.
#[must_use]
pub(super) fn step<'a>(job: &PodTemplate<'a>) -> Option<&'a str> {
    let item = job.entry.as_ref().and_then(|entry| entry.part.value)?;
    item.pointer("/template/metadata/labels")?.get(STEP)?.as_str()
}

/// Returns the pod specs of the Jobs of a runtime whose pods train, or of all if none is marked so.
#[must_use]
fn pods(runtime: &Value) -> Vec<&Value> {
    let Some(workload) = Workload::from_object(runtime) else { return Vec::new() };
    let trains = |pod: &&PodTemplate<'_>| step(pod) == Some(TRAINER);
    let marked: Vec<&Value> =
        workload.pods.iter().filter(trains).filter_map(|pod| pod.spec.own.value).collect();
    if !marked.is_empty() {
        return marked;
    }
    workload.pods.iter().filter_map(|pod| pod.spec.own.value).collect()
}

/// Names a runtime in a label.
pub(super) fn title(kind: &str, name: &str) -> String {
    format!("{} {}", shown(kind), shown(name))
}

fn shown(name: &str) -> Cow<'_, str> {
    cut(name, MAX_NAME_BYTES, "…")
}

/// The longest name of an object that can exist, in bytes.
const MAX_NAME_BYTES: usize = 253;
