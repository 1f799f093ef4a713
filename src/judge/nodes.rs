//! On how many nodes the pods of an object run.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;

use crate::kinds::{Among, PodTemplate, Workload, on_one_node, on_several_nodes};
use crate::text::meter;
use crate::text::value::Value;

/// On how many nodes pods run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// All on one.
    One,
    /// Certainly on several.
    Several,
    /// The scheduler decides.
    Any,
}

/// How many sets of templates a template may be in, on average. Each claim is used by one set, and four
/// templates make sixteen: an object with more is made to take long, and the answer for the rest is unknown.
const MAX_SETS_PER_TEMPLATE: usize = 16;

/// The pod templates of an object, with cached nodes: many claims may share a set of templates.
pub(super) struct Placement<'w, 'a> {
    workload: &'w Workload<'a>,
    nodes: RefCell<BTreeMap<(Vec<usize>, Among), Nodes>>,
    /// How much there is to read of each template, once it is needed.
    weights: OnceCell<Vec<usize>>,
    /// How much may still be read, once some was.
    weight_left: Cell<Option<usize>>,
}

impl<'w, 'a> Placement<'w, 'a> {
    pub(super) fn of(workload: &'w Workload<'a>) -> Self {
        Self { workload, nodes: RefCell::default(), weights: OnceCell::new(), weight_left: Cell::new(None) }
    }

    /// Returns on how many nodes the pods of the templates run; nothing once more than
    /// [`MAX_SETS_PER_TEMPLATE`] were asked for.
    pub(super) fn nodes(&self, pods: &[usize], among: Among) -> Option<Nodes> {
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
            _ if on_one_node(self.workload, &templates, among) => Nodes::One,
            Among::OneRun if on_several_nodes(self.workload, &minimums()) => Nodes::Several,
            _ => Nodes::Any,
        };
        self.nodes.borrow_mut().insert(key, nodes);
        Some(nodes)
    }
}

/// Returns how many values decide on which node a template's pods run.
fn placement_weight(pod: &PodTemplate<'_>) -> usize {
    let labels = pod.template.at(&["metadata", "labels"]);
    let parts = [labels, pod.spec.get("affinity"), pod.spec.get("nodeSelector")];
    1 + parts.iter().filter_map(|part| part.value).map(weight).sum::<usize>()
}

/// Returns how many values there are in a value, itself included.
fn weight(value: &Value) -> usize {
    meter::spend(1);
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(entries) => entries.values().map(weight).sum(),
        _ => 0,
    }
}
