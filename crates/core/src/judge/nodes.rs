//! The spread of an object's pods over nodes.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;

use crate::kinds::{Among, ContainerSlot, PodTemplate, Workload, accelerator, on_one_node, on_several_nodes};
use crate::text::meter;
use crate::text::value::Value;

/// The spread of pods over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeSpread {
    /// All pods run on one node.
    One,
    /// The pods certainly run on several nodes.
    Several,
    /// The scheduler decides.
    Any,
}

/// Maximum sets of templates per template, on average. Each claim is used by one set, and four templates make
/// sixteen: an object with more is built to be slow, and the answer for the rest is unknown.
const MAX_SETS_PER_TEMPLATE: usize = 16;

/// The most whole GPUs of one node (DGX-2, `a2-megagpu-16g`).
const MOST_GPUS: i64 = 16;

/// The pod templates of an object, with cached nodes: many claims may share a set of templates.
pub(super) struct Placement<'w, 'a> {
    workload: &'w Workload<'a>,
    nodes: RefCell<BTreeMap<(Vec<usize>, Among), NodeSpread>>,
    /// The number of values to read of each template, counted on first use.
    weights: OnceCell<Vec<usize>>,
    /// The number of values that may still be read, set on first use.
    weight_left: Cell<Option<usize>>,
    /// The whole GPUs of a pod of each template, counted once: a template may have as many containers as the
    /// object has bytes, and be in many sets.
    gpus: OnceCell<Vec<i64>>,
}

impl<'w, 'a> Placement<'w, 'a> {
    pub(super) fn from_workload(workload: &'w Workload<'a>) -> Self {
        Self {
            workload,
            nodes: RefCell::default(),
            weights: OnceCell::new(),
            weight_left: Cell::new(None),
            gpus: OnceCell::new(),
        }
    }

    /// Returns the spread of the templates' pods over nodes; nothing once more than [`MAX_SETS_PER_TEMPLATE`]
    /// were asked for.
    pub(super) fn nodes(&self, pods: &[usize], among: Among) -> Option<NodeSpread> {
        let key = (pods.to_vec(), among);
        if let Some(known) = self.nodes.borrow().get(&key) {
            return Some(*known);
        }
        let weights = self.weights.get_or_init(|| self.workload.pods.iter().map(placement_weight).collect());
        let weight: usize = pods.iter().map(|pod| weights[*pod]).sum();
        let all = || MAX_SETS_PER_TEMPLATE * weights.iter().sum::<usize>();
        let left = self.weight_left.get().unwrap_or_else(all);
        self.weight_left.set(Some(left.saturating_sub(weight)));
        if weight > left {
            return None;
        }
        let templates: Vec<&PodTemplate<'_>> = pods.iter().map(|pod| &self.workload.pods[*pod]).collect();
        let minimums = || {
            pods.iter()
                .map(|pod| (&self.workload.pods[*pod], self.workload.pods[*pod].count.least))
                .collect::<Vec<_>>()
        };
        let nodes = match among {
            _ if on_one_node(self.workload, &templates, among) => NodeSpread::One,
            Among::OneRun if self.need_several(pods) || on_several_nodes(self.workload, &minimums()) => {
                NodeSpread::Several
            }
            _ => NodeSpread::Any,
        };
        self.nodes.borrow_mut().insert(key, nodes);
        Some(nodes)
    }

    /// Tells whether no node has the whole GPUs that the pods of the templates request together. A pod with one
    /// may get a share of it (time slicing), so it does not count.
    fn need_several(&self, pods: &[usize]) -> bool {
        let gpus = self.gpus.get_or_init(|| self.workload.pods.iter().map(whole_gpus).collect());
        let needs = |pod: &usize| match gpus[*pod] {
            0 | 1 => 0,
            gpus => gpus.saturating_mul(self.workload.pods[*pod].count.least),
        };
        pods.iter().map(needs).fold(0, i64::saturating_add) > MOST_GPUS
    }
}

/// Returns the whole GPUs of a template's pod.
fn whole_gpus(pod: &PodTemplate<'_>) -> i64 {
    let main = pod.container_values().filter(|(place, _)| place.slot() == ContainerSlot::Main);
    main.map(|(_, container)| accelerator::gpus(container)).fold(0, i64::saturating_add)
}

/// Returns the number of values that decide on which node a template's pods run.
fn placement_weight(pod: &PodTemplate<'_>) -> usize {
    let labels = pod.template.at(&["metadata", "labels"]);
    let parts = [labels, pod.spec.get("affinity"), pod.spec.get("nodeSelector")];
    1 + parts.iter().filter_map(|part| part.value).map(weight).sum::<usize>()
}

/// Returns the number of values inside a value, itself included.
fn weight(value: &Value) -> usize {
    meter::spend(1);
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(entries) => entries.values().map(weight).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::meter::Bounds;
    use crate::text::value::{Map, json};

    #[test]
    fn containers_are_looked_at_once_however_many_sets_a_template_is_in() {
        const CONTAINERS: u64 = 20_000;
        let container = json!({"resources": {"limits": {"nvidia.com/gpu": 1}}});
        let replica = |containers: u64| {
            let containers: Vec<Value> = (0..containers).map(|_| container.clone()).collect();
            json!({"replicas": 1, "template": {"spec": {"containers": containers}}})
        };
        let roles: Map = (0..200)
            .map(|role| (format!("Role{role}"), replica(if role == 0 { CONTAINERS } else { 1 })))
            .collect();
        let job = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}});
        let workload = Workload::from_object(&job).expect("a workload");
        let large = workload.pods.iter().position(|pod| pod.role() == Some("Role0")).expect("a role");
        let placement = Placement::from_workload(&workload);
        let ask = || {
            let others = (0..workload.pods.len()).filter(|other| *other != large);
            others.filter_map(|other| placement.nodes(&[large, other], Among::OneRun)).collect::<Vec<_>>()
        };
        let (answers, steps) = meter::run(Bounds::default(), ask).expect("no bound");
        assert!(answers.len() > 100 && answers.iter().all(|nodes| *nodes == NodeSpread::Several));
        assert!(steps < 10 * CONTAINERS, "{steps} steps");
    }
}
