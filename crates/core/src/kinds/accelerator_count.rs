//! How many accelerators pods hold, by unit: a slice of a GPU does not count as a GPU.

use std::collections::BTreeMap;
use std::fmt;

use super::accelerator::{TAINTS, taint_of};
use super::workload::Workload;
use crate::k8s::quantity::Quantity;
use crate::kinds::field::Part;
use crate::kinds::pod::PodTemplate;
use crate::kinds::pods::ContainerSlot;
use crate::text::meter;
use crate::text::number::plural;
use crate::text::value::Value;

/// A unit in which accelerators are counted, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole GPU.
    Gpu,
    /// A TPU chip.
    Tpu,
    /// A Gaudi accelerator.
    Gaudi,
    /// A Neuron device, which has several cores.
    NeuronDevice,
    /// A core of a Neuron device.
    NeuronCore,
    /// A share of a GPU that others use at the same time.
    SharedGpu,
    /// A partition of a GPU.
    MigSlice,
}

impl Unit {
    /// All of them, in order.
    pub(crate) const ALL: [Self; 7] = [
        Self::Gpu,
        Self::Tpu,
        Self::Gaudi,
        Self::NeuronDevice,
        Self::NeuronCore,
        Self::SharedGpu,
        Self::MigSlice,
    ];

    /// Returns the unit of a resource, if it is an accelerator of the usual table.
    fn new(resource: &str) -> Option<Self> {
        taint_of(resource, TAINTS)?;
        Some(match resource {
            "aws.amazon.com/neuroncore" => Self::NeuronCore,
            "aws.amazon.com/neuron" | "aws.amazon.com/neurondevice" => Self::NeuronDevice,
            "google.com/tpu" => Self::Tpu,
            "habana.ai/gaudi" => Self::Gaudi,
            "nvidia.com/gpu.shared" => Self::SharedGpu,
            _ if resource.starts_with("nvidia.com/mig-") => Self::MigSlice,
            // The resources of Cloud TPU on GKE before `google.com/tpu`.
            _ if resource.starts_with("cloud-tpus.google.com/") => Self::Tpu,
            _ if resource.starts_with("tpu.googleapis.com/") => Self::Tpu,
            _ => Self::Gpu,
        })
    }

    /// Returns its name for people, in the singular.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Tpu => "TPU",
            Self::Gaudi => "Gaudi",
            Self::NeuronDevice => "Neuron device",
            Self::NeuronCore => "Neuron core",
            Self::SharedGpu => "shared GPU",
            Self::MigSlice => "MIG slice",
        }
    }

    /// Returns its name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Tpu => "tpu",
            Self::Gaudi => "gaudi",
            Self::NeuronDevice => "neuronDevice",
            Self::NeuronCore => "neuronCore",
            Self::SharedGpu => "sharedGpu",
            Self::MigSlice => "migSlice",
        }
    }
}

/// A number of accelerators of each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceleratorCount([i64; Unit::ALL.len()]);

/// The number of pods from which a template counts as unlimited, such as an autoscaler's default.
const NO_LIMIT: i64 = i32::MAX as i64;

impl AcceleratorCount {
    /// Returns what one pod of a template holds: all its containers together, or an init container that asks
    /// for more; nothing if a placeholder or wrong type hides it.
    #[must_use]
    pub(crate) fn from_pod(pod: &PodTemplate<'_>) -> Option<Self> {
        let mut resources: BTreeMap<&str, Sum> = BTreeMap::new();
        for (place, container) in pod.container_values() {
            let sidecar = container.get("restartPolicy").and_then(Value::as_str) == Some("Always");
            for (resource, amount) in by_container(container.get("resources"))? {
                let sum = resources.entry(resource).or_default();
                match place.slot() {
                    ContainerSlot::Init if sidecar => {
                        sum.sidecars = sum.sidecars.saturating_add(amount);
                        sum.start = sum.start.max(sum.sidecars);
                    }
                    ContainerSlot::Init => sum.start = sum.start.max(sum.sidecars.saturating_add(amount)),
                    ContainerSlot::Main => sum.main = sum.main.saturating_add(amount),
                    // They cannot request anything.
                    ContainerSlot::Ephemeral => {}
                }
            }
        }
        let mut held = Self::default();
        for (resource, sum) in resources {
            held.add(resource, sum.main.saturating_add(sum.sidecars).max(sum.start));
        }
        Some(held)
    }

    /// Returns what the pods of some templates hold at once, at most; nothing if it is unknown or has no limit.
    #[must_use]
    pub(crate) fn from_pods(pods: &[PodTemplate<'_>]) -> Option<Self> {
        let mut held = Self::default();
        for pod in pods {
            let one = Self::from_pod(pod)?;
            if !one.is_none() {
                held += one.times(pod.count.most.filter(|most| *most < NO_LIMIT)?);
            }
        }
        Some(held)
    }

    /// Returns what a run of a workload holds at once, at most; nothing if it is unknown or has no limit.
    #[must_use]
    pub(crate) fn from_run(workload: &Workload<'_>, run: usize) -> Option<Self> {
        let Some(reference) = workload.kind.runs_in else {
            return Self::from_pods(workload.pods_of(run));
        };
        let mut node = Self::default();
        for (resource, amount) in by_container(workload.object.at(reference.resources).value)? {
            node.add(resource, amount);
        }
        if node.is_none() {
            return Some(node);
        }
        workload.object.at(reference.nodes).int().set().map(|nodes| node.times(nodes))
    }

    fn add(&mut self, resource: &str, amount: i64) {
        if let Some(unit) = Unit::new(resource) {
            let place = &mut self.0[unit as usize];
            *place = place.saturating_add(amount.max(0));
        }
    }

    /// Returns what so many times as many pods hold.
    pub(crate) fn times(self, times: i64) -> Self {
        Self(self.0.map(|number| number.saturating_mul(times.max(0))))
    }

    /// Tells whether no accelerators are held.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.total() == 0
    }

    /// Returns the sum of all units, each counted as one.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.0.iter().fold(0, |sum, number| sum.saturating_add(*number))
    }

    /// Returns the units above zero, each with its number.
    pub fn units(&self) -> impl Iterator<Item = (Unit, i64)> + use<> {
        Unit::ALL.into_iter().zip(self.0).filter(|(_, number)| *number > 0)
    }

    /// Returns the name of the only unit, or the word for several.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        let mut units = self.units();
        match (units.next(), units.next()) {
            (Some((unit, _)), None) => unit.name(),
            _ => "accelerator",
        }
    }
}

impl std::ops::AddAssign for AcceleratorCount {
    fn add_assign(&mut self, other: Self) {
        for (number, more) in self.0.iter_mut().zip(other.0) {
            *number = number.saturating_add(more);
        }
    }
}

impl fmt::Display for AcceleratorCount {
    /// Writes `64 GPUs`, or `8 GPUs and 2 MIG slices`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.units().count();
        for (nth, (unit, number)) in self.units().enumerate() {
            let before = match nth {
                0 => "",
                _ if nth + 1 == all => " and ",
                _ => ", ",
            };
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            write!(f, "{before}{}", plural(number, unit.name()))?;
        }
        Ok(())
    }
}

/// The amounts of one resource that the containers of a pod request.
#[derive(Default)]
struct Sum {
    /// The peak before the main containers start.
    start: i64,
    sidecars: i64,
    main: i64,
}

/// Returns the accelerators that a container asks for, by limit or request; nothing if an amount is unknown.
fn by_container(resources: Option<&Value>) -> Option<BTreeMap<&str, i64>> {
    let mut amounts: BTreeMap<&str, i64> = BTreeMap::new();
    for list in ["limits", "requests"] {
        let entries = resources.and_then(|resources| resources.get(list)?.as_object());
        for (resource, value) in entries.into_iter().flatten() {
            meter::spend(1);
            if Unit::new(resource).is_none() {
                continue;
            }
            let amount = Quantity::from_json(value).ok()?.value().max(0);
            let known = amounts.entry(resource).or_default();
            *known = amount.max(*known);
        }
    }
    Some(amounts)
}

impl<'a> Workload<'a> {
    /// Returns the `labels` that a run's pods may carry: those of the object, of the object around it, and of
    /// the run.
    pub fn labels(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let of = |part: &Part<'a>| part.at(&["metadata", "labels"]);
        let run = self.runs.first().map(|run| run.metadata.get("labels"));
        std::iter::once(of(&self.object)).chain(run).chain(self.inside.as_ref().map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn job(spec: &Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec})
    }

    fn held(object: &Value) -> Option<String> {
        AcceleratorCount::from_run(&Workload::from_object(object).expect("a workload"), 0)
            .map(|held| held.to_string())
    }

    fn pod(spec: Value) -> Option<String> {
        held(&job(&json!({"template": {"spec": spec}})))
    }

    fn asks(resource: &str, amount: Value) -> Value {
        json!({"resources": {"limits": {resource: amount}}})
    }

    #[test]
    fn containers_add_up_and_init_containers_come_before() {
        let (one, four) = (asks("nvidia.com/gpu", 1.into()), asks("nvidia.com/gpu", "4".into()));
        assert_eq!(pod(json!({"containers": [one, four, {}]})).as_deref(), Some("5 GPUs"));
        assert_eq!(
            pod(json!({"initContainers": [one, four], "containers": [one]})).as_deref(),
            Some("4 GPUs")
        );
        let mut sidecar = one.clone();
        sidecar["restartPolicy"] = "Always".into();
        assert_eq!(
            pod(json!({"initContainers": [sidecar, four], "containers": [one]})).as_deref(),
            Some("5 GPUs"),
            "an init container runs beside the sidecars before it"
        );
        assert_eq!(
            pod(json!({"initContainers": [four, sidecar], "containers": [four]})).as_deref(),
            Some("5 GPUs"),
            "a sidecar runs beside the containers"
        );
        let requests =
            json!({"resources": {"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": 2}}});
        assert_eq!(pod(json!({"containers": [requests]})).as_deref(), Some("2 GPUs"), "counted once");
        assert_eq!(
            pod(json!({"containers": [{"resources": {"requests": {"nvidia.com/gpu": 2}}}]})).as_deref(),
            Some("2 GPUs")
        );
    }

    #[test]
    fn parts_of_a_device_are_no_devices() {
        for (resource, words) in [
            ("amd.com/gpu", "2 GPUs"),
            ("google.com/tpu", "2 TPUs"),
            ("cloud-tpus.google.com/preemptible-v3", "2 TPUs"),
            ("tpu.googleapis.com/v2", "2 TPUs"),
            ("habana.ai/gaudi", "2 Gaudis"),
            ("aws.amazon.com/neuron", "2 Neuron devices"),
            ("aws.amazon.com/neuroncore", "2 Neuron cores"),
            ("nvidia.com/gpu.shared", "2 shared GPUs"),
            ("nvidia.com/mig-1g.10gb", "2 MIG slices"),
            ("nvidia.com/rdma-vf", ""),
            ("cpu", ""),
        ] {
            assert_eq!(
                pod(json!({"containers": [asks(resource, 2.into())]})).as_deref(),
                Some(words),
                "{resource}"
            );
        }
        let all = json!({"containers": [asks("nvidia.com/gpu", 1.into()), asks("nvidia.com/mig-1g.10gb", 2.into()), asks("nvidia.com/mig-2g.20gb", 1.into())]});
        assert_eq!(pod(all).as_deref(), Some("1 GPU and 3 MIG slices"));
    }

    #[test]
    fn nothing_is_said_where_an_amount_is_hidden() {
        for amount in ["$GPUS", "{{ .Values.gpus }}", "two"] {
            assert_eq!(pod(json!({"containers": [asks("nvidia.com/gpu", amount.into())]})), None, "{amount}");
        }
        assert_eq!(pod(json!({"containers": [asks("nvidia.com/gpu", Value::Null)]})).as_deref(), Some(""));
        assert_eq!(pod(json!({"containers": [asks("nvidia.com/gpu", (-1).into())]})).as_deref(), Some(""));
        assert_eq!(pod(json!({"containers": [asks("memory", "$MEMORY".into())]})).as_deref(), Some(""));
        let template = json!({"spec": {"containers": [asks("nvidia.com/gpu", 8.into())]}});
        assert_eq!(held(&job(&json!({"parallelism": "$NODES", "template": template}))), None);
        assert_eq!(held(&job(&json!({"parallelism": 8, "template": template}))).as_deref(), Some("64 GPUs"));
        assert_eq!(held(&job(&json!({"parallelism": 0, "template": template}))).as_deref(), Some(""));
        let cpu = json!({"spec": {"containers": [{}]}});
        assert_eq!(held(&job(&json!({"parallelism": "$NODES", "template": cpu}))).as_deref(), Some(""));
        let most = json!({"parallelism": i64::from(i32::MAX) - 1, "template": {"spec": {"containers": [asks("nvidia.com/gpu", i64::MAX.into())]}}});
        assert_eq!(
            AcceleratorCount::from_run(&Workload::from_object(&job(&most)).unwrap(), 0)
                .map(|held| held.total()),
            Some(i64::MAX)
        );
    }

    #[test]
    fn a_run_of_a_runtime_says_how_many_nodes_it_has() {
        let train = |nodes: Value| {
            json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {"trainer": {
                "numNodes": nodes, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}}})
        };
        assert_eq!(held(&train(4.into())).as_deref(), Some("32 GPUs"));
        assert_eq!(held(&train(Value::Null)), None, "the runtime's own number counts");
    }

    #[test]
    fn pods_that_an_autoscaler_may_add_count() {
        let elastic = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {
            "elasticPolicy": {"maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [asks("nvidia.com/gpu", 8.into())]}}}}}});
        assert_eq!(held(&elastic).as_deref(), Some("32 GPUs"));
        let ray = |most: Value| {
            json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {"rayClusterSpec": {
                "enableInTreeAutoscaling": true, "workerGroupSpecs": [{"maxReplicas": most, "template": {"spec": {"containers": [asks("nvidia.com/gpu", 1.into())]}}}]}}})
        };
        assert_eq!(held(&ray(3.into())).as_deref(), Some("3 GPUs"));
        assert_eq!(held(&ray(Value::Null)), None, "without a limit");
    }
}
