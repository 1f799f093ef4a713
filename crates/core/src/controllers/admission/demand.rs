//! What a pod asks for, and whether it is a valid pod at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::k8s::quantity::Quantity;
use crate::text::value::Value;

/// Amounts of resources by name, in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(BTreeMap<String, i128>);

impl Amounts {
    /// Reads a mapping of quantities; what is none is left out.
    pub(super) fn parse(value: Option<&Value>) -> Self {
        let entries = value.and_then(Value::as_object).into_iter().flat_map(|map| map.iter());
        Self(entries.filter_map(|(name, amount)| Some((name.to_string(), milli(amount)?))).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &i128)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }

    pub(super) fn get(&self, name: &str) -> Option<&i128> {
        self.0.get(name)
    }

    /// Returns these, with others for what is not in them.
    pub(super) fn or(mut self, others: &Self) -> Self {
        for (name, amount) in &others.0 {
            self.0.entry(name.clone()).or_insert(*amount);
        }
        self
    }

    /// Returns these of several pods.
    pub(super) fn times(self, count: u32) -> Self {
        let count = i128::from(count);
        Self(self.0.into_iter().map(|(name, amount)| (name, amount.saturating_mul(count))).collect())
    }

    /// Adds others.
    pub(super) fn add(&mut self, others: &Self) {
        self.combine(others, i128::saturating_add);
    }

    fn combine(&mut self, other: &Self, join: fn(i128, i128) -> i128) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = join(*sum, *amount);
        }
    }
}

/// What decides whether the API server takes a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodDemand {
    is_valid: bool,
    containers: Vec<ContainerDemand>,
}

/// What a container asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerDemand {
    /// Whether it has to end before the others start.
    is_init: bool,
    /// `resources.requests`; where one is missing, the limit.
    pub(super) requests: Amounts,
    /// `resources.limits`.
    pub(super) limits: Amounts,
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn name(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

impl PodDemand {
    /// Reads `spec` of a pod.
    #[must_use]
    pub(crate) fn from_pod(pod: &Value) -> Self {
        let is_sidecar =
            |container: &Value| container.get("restartPolicy").and_then(Value::as_str) == Some("Always");
        let main = list(pod, "containers").map(|container| ContainerDemand::parse(container, false));
        let init = list(pod, "initContainers")
            .map(|container| ContainerDemand::parse(container, !is_sidecar(container)));
        let containers = main.chain(init).collect();
        Self { is_valid: is_valid_pod(pod), containers }
    }

    /// Tells whether the API server's validation takes it.
    #[must_use]
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid && self.containers.iter().all(ContainerDemand::is_valid)
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &ContainerDemand> {
        self.containers.iter()
    }

    pub(super) fn requests(&self) -> Amounts {
        self.sum(|container| &container.requests)
    }

    pub(super) fn limits(&self) -> Amounts {
        self.sum(|container| &container.limits)
    }

    /// Returns what all containers take together; one that ends before the others start, by itself.
    fn sum(&self, of: fn(&ContainerDemand) -> &Amounts) -> Amounts {
        let mut sum = Amounts::default();
        for container in self.containers.iter().filter(|container| !container.is_init) {
            sum.add(of(container));
        }
        for container in self.containers.iter().filter(|container| container.is_init) {
            sum.combine(of(container), i128::max);
        }
        sum
    }

    /// Adds what a LimitRange says for containers that say nothing.
    pub(super) fn set_defaults(&mut self, limits: &Amounts, requests: &Amounts) {
        for container in &mut self.containers {
            container.requests = std::mem::take(&mut container.requests).or(requests);
            container.limits = std::mem::take(&mut container.limits).or(limits);
        }
    }
}

impl ContainerDemand {
    fn parse(container: &Value, is_init: bool) -> Self {
        let resources = container.get("resources").unwrap_or(&Value::Null);
        let limits = Amounts::parse(resources.get("limits"));
        let requests = Amounts::parse(resources.get("requests")).or(&limits);
        Self { is_init, requests, limits }
    }

    fn is_valid(&self) -> bool {
        self.limits.iter().all(|(name, limit)| self.requests.get(name).is_none_or(|request| request <= limit))
    }
}

/// Tells whether a pod keeps to the rules of the API server that manifests break most
/// (`pkg/apis/core/validation/validation.go`): the CRD of its owner does not know them.
fn is_valid_pod(pod: &Value) -> bool {
    let volumes: BTreeSet<&str> = list(pod, "volumes").map(name).collect();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for container in list(pod, "containers").chain(list(pod, "initContainers")) {
        let of = name(container);
        if of.is_empty() || !names.insert(of) {
            return false;
        }
        if !list(container, "volumeMounts").all(|mount| volumes.contains(name(mount))) {
            return false;
        }
    }
    let restart = pod.get("restartPolicy").filter(|policy| !policy.is_null());
    let has_policy = restart
        .is_none_or(|policy| ["Always", "OnFailure", "Never"].contains(&policy.as_str().unwrap_or_default()));
    has_policy && list(pod, "containers").next().is_some()
}

/// Reads an amount, in thousandths.
pub(super) fn milli(value: &Value) -> Option<i128> {
    Quantity::from_json(value).ok().map(|quantity| i128::from(quantity.milli_value()))
}
