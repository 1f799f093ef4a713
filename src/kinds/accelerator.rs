//! Which resources are accelerators, and which node taint each usually sits behind.
//!
//! By a table, never by prefix: `nvidia.com/rdma-vf` is a network card, and `gpu.intel.com/i915_monitoring`
//! computes nothing.

use crate::k8s::quantity::Quantity;
use crate::kinds::{ContainerSlot, PodTemplate};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// Resource name (or glob with one `*`) and the key of the taint on nodes that have it.
///
/// Sources: kubernetes.md §6. MIG slices and shared GPUs sit behind the taint of the whole GPU.
pub const TAINTS: &[(&str, &str)] = &[
    ("amd.com/gpu", "amd.com/gpu"),
    ("aws.amazon.com/neuron", "aws.amazon.com/neuron"),
    ("aws.amazon.com/neuroncore", "aws.amazon.com/neuron"),
    ("aws.amazon.com/neurondevice", "aws.amazon.com/neuron"),
    ("google.com/tpu", "google.com/tpu"),
    ("gpu.intel.com/i915", "gpu.intel.com/i915"),
    ("gpu.intel.com/xe", "gpu.intel.com/xe"),
    ("habana.ai/gaudi", "habana.ai/gaudi"),
    ("nvidia.com/gpu", "nvidia.com/gpu"),
    ("nvidia.com/gpu.shared", "nvidia.com/gpu"),
    ("nvidia.com/mig-*", "nvidia.com/gpu"),
];

/// An accelerator that a container asks for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The resource.
    pub resource: &'a str,
    /// The key of the taint it sits behind.
    pub taint: &'a str,
    /// Which list of the pod spec the container is in, and where in it.
    container: (ContainerSlot, usize),
    /// `limits` or `requests`.
    list: &'static str,
}

impl Request<'_> {
    /// Returns where it is asked for: `…resources.limits[nvidia.com/gpu]`. `pod` is the template that it was
    /// found in.
    #[must_use]
    pub fn place(&self, pod: &PodTemplate<'_>) -> Pointer {
        let (slot, index) = self.container;
        (&pod.spec.pointer / slot.list() / index / "resources" / self.list).key(self.resource)
    }
}

/// Returns the toleration that is filled in for a taint.
#[must_use]
pub fn toleration(taint: &str) -> Value {
    [("key", taint), ("operator", "Exists"), ("effect", "NoSchedule")]
        .map(|(key, value)| (key, Value::from(value)))
        .into_iter()
        .collect()
}

/// Returns the end of a list of tolerations that another begins with and lacks, if there is one and each of
/// it has the shape of [`toleration`].
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

/// Returns what the template's containers ask for, in any slot, by limit or by request, above zero.
///
/// In a Job template limits are not copied to requests, so both are read (kubernetes.md §1.1).
pub fn requests<'a>(pod: &PodTemplate<'a>, taints: &[(&str, &'a str)]) -> impl Iterator<Item = Request<'a>> {
    pod.container_values().flat_map(move |(slot, index, container)| {
        let resources = container.get("resources");
        ["limits", "requests"].into_iter().flat_map(move |list| {
            let entries = resources.and_then(|resources| resources.get(list)?.as_object());
            entries.into_iter().flatten().filter_map(move |(resource, value)| {
                meter::spend(1);
                let taint = taint_of(resource, taints)?;
                let asked = Quantity::from_json(value).is_ok_and(|quantity| quantity.is_positive());
                asked.then_some(Request { resource, taint, container: (slot, index), list })
            })
        })
    })
}

/// Returns the key of the taint that a resource sits behind; nothing for a resource that is no accelerator.
#[must_use]
pub fn taint_of<'t>(resource: &str, taints: &[(&str, &'t str)]) -> Option<&'t str> {
    let first = resource.as_bytes().first();
    let mut globbed = None;
    for (pattern, taint) in taints {
        // Every container names `cpu` and `memory`, twice: the first byte tells them from all entries.
        let begin = pattern.as_bytes().first();
        if begin != first && begin != Some(&b'*') {
            continue;
        }
        // An exact entry beats a glob, so that a policy can single one slice out.
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

    #[test]
    fn accelerators_are_told_by_the_table() {
        assert_eq!(taint_of("nvidia.com/gpu", TAINTS), Some("nvidia.com/gpu"));
        assert_eq!(taint_of("nvidia.com/mig-1g.10gb", TAINTS), Some("nvidia.com/gpu"));
        assert_eq!(taint_of("nvidia.com/mig-1g.10gb.shared", TAINTS), Some("nvidia.com/gpu"));
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
    fn an_exact_entry_beats_a_glob() {
        let taints = [("nvidia.com/mig-*", "nvidia.com/gpu"), ("nvidia.com/mig-7g.80gb", "dedicated")];
        assert_eq!(taint_of("nvidia.com/mig-7g.80gb", &taints), Some("dedicated"));
    }
}
