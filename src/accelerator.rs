//! Which resources are accelerators, and which node taint each usually sits behind.
//!
//! By a table, never by prefix: `nvidia.com/rdma-vf` is a network card, and `gpu.intel.com/i915_monitoring` computes nothing.

use crate::k8s::quantity::Quantity;
use crate::workload::{Part, PodTemplate};

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
    /// Where it is asked for: `…resources.limits[nvidia.com/gpu]`.
    pub part: Part<'a>,
}

/// Returns what the template's containers ask for, in any slot, by limit or by request, above zero.
///
/// In a Job template limits are not copied to requests, so both are read (kubernetes.md §1.1).
pub fn requests<'a>(pod: &PodTemplate<'a>, taints: &[(&str, &'a str)]) -> Vec<Request<'a>> {
    let mut found: Vec<Request<'a>> = Vec::new();
    for (slot, index, container) in pod.container_values() {
        let resources = container.get("resources");
        for list in ["limits", "requests"] {
            let entries = resources.and_then(|resources| resources.get(list)?.as_object());
            for (resource, value) in entries.into_iter().flatten() {
                let Some(taint) = taint_of(resource, taints) else { continue };
                if Quantity::from_json(value).is_ok_and(|quantity| quantity.is_positive()) {
                    // Few resources are accelerators: places are made only for those.
                    let pointer = &pod.spec.pointer / slot.list() / index / "resources" / list;
                    let part = Part { pointer: pointer.key(resource), value: Some(value) };
                    found.push(Request { resource, taint, part });
                }
            }
        }
    }
    found
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
        let fits = |(head, tail): (&str, &str)| resource.len() >= head.len() + tail.len() && resource.starts_with(head) && resource.ends_with(tail);
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
        for resource in ["nvidia.com/rdma-vf", "nvidia.com/gpumem-percentage", "gpu.intel.com/i915_monitoring", "cpu", "vpc.amazonaws.com/efa"] {
            assert_eq!(taint_of(resource, TAINTS), None, "{resource}");
        }
    }

    #[test]
    fn an_exact_entry_beats_a_glob() {
        let taints = [("nvidia.com/mig-*", "nvidia.com/gpu"), ("nvidia.com/mig-7g.80gb", "dedicated")];
        assert_eq!(taint_of("nvidia.com/mig-7g.80gb", &taints), Some("dedicated"));
    }
}
