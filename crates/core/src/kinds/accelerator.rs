//! Accelerator resources and the usual taints of their nodes.
//!
//! A table decides, not a prefix: `nvidia.com/rdma-vf` is a network card, and `gpu.intel.com/i915_monitoring`
//! is not an accelerator.

use crate::k8s::quantity::Quantity;
use crate::kinds::field::Part;
use crate::kinds::pod::{ContainerPlace, PodTemplate};
use crate::text::meter;
use crate::text::placeholder::is_placeholder;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// Resource names (or globs with one `*`) and the taint keys of their nodes
/// (docs/internals/pods.md#taints-of-accelerator-nodes). MIG slices and shared GPUs have the taint of the whole
/// GPU. Clusters that name GPU resources after the product use taints of their own.
pub const TAINTS: &[(&str, &str)] = &[
    ("amd.com/gpu", "amd.com/gpu"),
    ("aws.amazon.com/neuron", "aws.amazon.com/neuron"),
    ("aws.amazon.com/neuroncore", "aws.amazon.com/neuron"),
    ("aws.amazon.com/neurondevice", "aws.amazon.com/neuron"),
    ("cambricon.com/mlu*", NO_TAINT),
    ("cloud-tpus.google.com/*", NO_TAINT),
    ("google.com/tpu", "google.com/tpu"),
    ("gpu.intel.com/i915", "gpu.intel.com/i915"),
    ("gpu.intel.com/xe", "gpu.intel.com/xe"),
    ("habana.ai/gaudi", "habana.ai/gaudi"),
    ("huawei.com/Ascend*", NO_TAINT),
    ("huawei.com/ascend-*", NO_TAINT),
    ("nvidia.com/a100", NO_TAINT),
    ("nvidia.com/a40", NO_TAINT),
    ("nvidia.com/gpu", "nvidia.com/gpu"),
    ("nvidia.com/gpu.shared", "nvidia.com/gpu"),
    ("nvidia.com/mig-*", "nvidia.com/gpu"),
    ("nvidia.com/rtxa6000", NO_TAINT),
    ("tpu.googleapis.com/v*", NO_TAINT),
];

/// The taint key of nodes whose taint is unknown.
pub const NO_TAINT: &str = "";

/// Whole GPUs.
const GPUS: &[&str] =
    &["amd.com/gpu", "nvidia.com/a100", "nvidia.com/a40", "nvidia.com/gpu", "nvidia.com/rtxa6000"];

/// The other resource, besides whole GPUs, of which each process of a distributed run has one to itself.
/// Slices, Neuron cores and TPUs are shared or split in other ways.
const ONE_EACH_TOO: &str = "habana.ai/gaudi";

/// Returns how many accelerators a container gets of which each process has one to itself, with the place and
/// name of the resource. Nothing if there are none, if there are any others, or if the number is uncertain.
#[must_use]
pub(crate) fn one_each<'a>(container: &Part<'a>) -> Option<(i64, Pointer, &'a str)> {
    let resources = container.get("resources");
    // Claims may bring any device.
    if resources.get("claims").items().next().is_some() {
        return None;
    }
    let mut found: Option<(i64, Pointer, &str)> = None;
    for list in ["limits", "requests"] {
        for (resource, amount) in resources.get(list).entries() {
            if taint_of(resource, TAINTS).is_none() {
                continue;
            }
            let quantity = Quantity::from_json(amount.value?).ok()?;
            let number = quantity.is_integer().then(|| quantity.value()).filter(|number| *number > 0)?;
            let same = |(known, _, name): &(i64, Pointer, &str)| *known == number && *name == resource;
            let is_whole = GPUS.contains(&resource) || resource == ONE_EACH_TOO;
            if !is_whole || found.as_ref().is_some_and(|found| !same(found)) {
                return None;
            }
            found.get_or_insert((number, amount.pointer, resource));
        }
    }
    found
}

/// A container's request for an accelerator.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The resource.
    pub(crate) resource: &'a str,
    /// The taint key of its nodes.
    pub(crate) taint: &'a str,
    /// The container.
    container: ContainerPlace,
    /// `limits` or `requests`.
    list: &'static str,
}

impl Request<'_> {
    /// Returns its place in its pod template: `…resources.limits[nvidia.com/gpu]`.
    #[must_use]
    pub(crate) fn place(&self, pod: &PodTemplate<'_>) -> Pointer {
        (self.container.below(&pod.spec.own.pointer) / "resources" / self.list).key(self.resource)
    }
}

/// Returns the toleration to fill in for a taint.
#[must_use]
pub fn toleration(taint: &str) -> Value {
    [("key", taint), ("operator", "Exists"), ("effect", "NoSchedule")]
        .map(|(key, value)| (key, Value::from(value)))
        .into_iter()
        .collect()
}

/// Returns the tolerations that a list has after `beginning`, if there are any and all have the form of
/// [`toleration`].
#[must_use]
pub fn filled_behind<'a>(list: &'a [Value], beginning: &[Value]) -> Option<&'a [Value]> {
    let rest = list.strip_prefix(beginning).filter(|rest| !rest.is_empty())?;
    let ours = |value: &Value| {
        meter::spend(1);
        value
            .get("key")
            .and_then(Value::as_str)
            .is_some_and(|key| !key.is_empty() && *value == toleration(key))
    };
    rest.iter().all(ours).then_some(rest)
}

/// Returns the requests of the template's containers for accelerators, without those of zero.
///
/// Reads both limits and requests: in a Job template, limits are not copied to requests
/// (docs/internals/pods.md#limits-and-requests).
pub(crate) fn requests<'a>(
    pod: &PodTemplate<'a>,
    taints: &[(&str, &'a str)],
) -> impl Iterator<Item = Request<'a>> {
    pod.container_values().flat_map(move |(place, container)| {
        let requested = requested(container.get("resources"), taints);
        requested.map(move |(list, resource, taint)| Request { resource, taint, container: place, list })
    })
}

/// Returns the list, resource and taint of each accelerator above zero in the `resources` of a container.
pub(crate) fn requested<'a>(
    resources: Option<&'a Value>,
    taints: &[(&str, &'a str)],
) -> impl Iterator<Item = (&'static str, &'a str, &'a str)> {
    ["limits", "requests"].into_iter().flat_map(move |list| {
        let entries = resources.and_then(|resources| resources.get(list)?.as_object());
        entries.into_iter().flatten().filter_map(move |(resource, value)| {
            meter::spend(1);
            let taint = taint_of(resource, taints)?;
            let asked = Quantity::from_json(value).is_ok_and(|quantity| quantity.is_positive());
            asked.then_some((list, resource, taint))
        })
    })
}

/// Tells whether a container requests an accelerator of the usual table, by limit or request. A placeholder for
/// the number counts.
#[must_use]
pub(crate) fn is_requested_by(container: &Value) -> bool {
    entries(container).any(|(resource, value)| {
        taint_of(resource, TAINTS).is_some()
            && (Quantity::from_json(value).is_ok_and(|quantity| quantity.is_positive())
                || value.as_str().is_some_and(is_placeholder))
    })
}

/// Returns the number of whole GPUs that a container gets, by limit or request; 0 if unknown.
#[must_use]
pub(crate) fn gpus(container: &Value) -> i64 {
    entries(container)
        .filter(|(resource, _)| GPUS.contains(resource))
        .filter_map(|(_, value)| Some(Quantity::from_json(value).ok()?.value()))
        .max()
        .unwrap_or(0)
}

/// Returns the resources of a container that are limited or requested.
fn entries(container: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let resources = container.get("resources");
    ["limits", "requests"].into_iter().flat_map(move |list| {
        let entries = resources.and_then(|resources| resources.get(list)?.as_object());
        entries.into_iter().flatten().inspect(|_| meter::spend(1))
    })
}

/// Returns the taint key of a resource; nothing if it is not an accelerator.
#[must_use]
pub fn taint_of<'t>(resource: &str, taints: &[(&str, &'t str)]) -> Option<&'t str> {
    let first = resource.as_bytes().first();
    let mut globbed = None;
    for (pattern, taint) in taints {
        // Nearly every container has `cpu` and `memory`, twice; their first byte rules out most entries.
        let begin = pattern.as_bytes().first();
        if begin != first && begin != Some(&b'*') {
            continue;
        }
        // An exact entry beats a glob, so that a policy can set one slice.
        if *pattern == resource {
            return Some(taint);
        }
        let fits = |(head, tail): (&str, &str)| {
            resource.len() >= head.len() + tail.len()
                && resource.starts_with(head)
                && resource.ends_with(tail)
        };
        if globbed.is_none() && pattern.split_once('*').is_some_and(fits) {
            globbed = Some(*taint);
        }
    }
    globbed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn accelerators_are_those_of_the_table() {
        assert_eq!(taint_of("nvidia.com/gpu", TAINTS), Some("nvidia.com/gpu"));
        assert_eq!(taint_of("nvidia.com/mig-1g.10gb", TAINTS), Some("nvidia.com/gpu"));
        assert_eq!(taint_of("nvidia.com/mig-1g.10gb.shared", TAINTS), Some("nvidia.com/gpu"));
        assert_eq!(taint_of("nvidia.com/a100", TAINTS), Some(NO_TAINT));
        for resource in GPUS.iter().chain([&ONE_EACH_TOO]) {
            assert!(taint_of(resource, TAINTS).is_some(), "{resource}");
        }
        for resource in [
            "nvidia.com/rdma-vf",
            "nvidia.com/gpumem-percentage",
            "gpu.intel.com/i915_monitoring",
            "cpu",
            "vpc.amazonaws.com/efa",
        ] {
            assert_eq!(taint_of(resource, TAINTS), None, "{resource}");
        }
    }

    #[test]
    fn the_gpus_of_a_container_are_whole_ones() {
        let container = |limits: Value| json!({"resources": {"limits": limits}});
        for (limits, any, gpus) in [
            (json!({"nvidia.com/gpu": "8", "cpu": 4}), true, 8),
            (json!({"amd.com/gpu": 2}), true, 2),
            (json!({"nvidia.com/a100": 4}), true, 4),
            (json!({"nvidia.com/mig-1g.10gb": 2}), true, 0),
            (json!({"google.com/tpu": 4}), true, 0),
            (json!({"nvidia.com/gpu": 0}), false, 0),
            (json!({"nvidia.com/gpu": "$GPUS"}), true, 0),
            (json!({"nvidia.com/gpu": null}), false, 0),
            (json!({}), false, 0),
        ] {
            let container = container(limits);
            assert_eq!((is_requested_by(&container), super::gpus(&container)), (any, gpus), "{container}");
        }
    }

    #[test]
    fn an_exact_entry_beats_a_glob() {
        let taints = [("nvidia.com/mig-*", "nvidia.com/gpu"), ("nvidia.com/mig-7g.80gb", "dedicated")];
        assert_eq!(taint_of("nvidia.com/mig-7g.80gb", &taints), Some("dedicated"));
    }
}
