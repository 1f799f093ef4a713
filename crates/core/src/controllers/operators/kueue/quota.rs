//! What a Workload asks of a ClusterQueue, and what that has.

use std::collections::BTreeMap;

use super::super::super::object::Object;
use super::workload::Workload;
use crate::k8s::quantity::Quantity;
use crate::text::value::Value;

/// The resource that counts pods.
pub(super) const PODS: &str = "pods";

/// QuotaAmounts of resources: of `cpu` in thousandths.
pub(super) type QuotaAmounts = BTreeMap<String, i64>;

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn amount(name: &str, value: &Value) -> Option<i64> {
    let quantity = Quantity::from_json(value).ok()?;
    Some(if name == "cpu" { quantity.milli_value() } else { quantity.value() })
}

/// Returns what a container requests; its limits where it requests nothing.
fn of_container(container: &Value) -> QuotaAmounts {
    let mut amounts = QuotaAmounts::new();
    for key in ["limits", "requests"] {
        let resources = container.get("resources").and_then(|resources| resources.get(key));
        for (name, value) in resources.and_then(Value::as_object).into_iter().flat_map(|map| map.iter()) {
            if let Some(amount) = amount(name, value) {
                amounts.insert(name.to_string(), amount.max(0));
            }
        }
    }
    amounts
}

fn add(amounts: &mut QuotaAmounts, more: &QuotaAmounts) {
    for (name, amount) in more {
        let sum = amounts.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

/// Returns what one pod requests: all containers together, or its init container that requests most
/// (`k8s.io/component-helpers/resource`).
pub(super) fn of_pod(template: &Value) -> QuotaAmounts {
    let pod = template.get("spec").unwrap_or(&Value::Null);
    let mut amounts = QuotaAmounts::new();
    for container in list(pod, "containers") {
        add(&mut amounts, &of_container(container));
    }
    let (mut beside, mut most) = (QuotaAmounts::new(), QuotaAmounts::new());
    for container in list(pod, "initContainers") {
        let mut here = of_container(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            add(&mut amounts, &here);
            add(&mut beside, &here);
            here = beside.clone();
        } else {
            add(&mut here, &beside);
        }
        for (name, amount) in here {
            let largest = most.entry(name).or_default();
            *largest = (*largest).max(amount);
        }
    }
    for (name, amount) in most {
        let largest = amounts.entry(name).or_default();
        *largest = (*largest).max(amount);
    }
    amounts
}

fn times(amounts: &QuotaAmounts, count: u32) -> QuotaAmounts {
    let each = |(name, amount): (&String, &i64)| (name.clone(), amount.saturating_mul(i64::from(count)));
    amounts.iter().map(each).collect()
}

/// Returns what a Workload asks for with so many pods.
pub(super) fn asked(workload: &Workload<'_>, count: u32) -> QuotaAmounts {
    let template = workload.pod_set().get("template").unwrap_or(&Value::Null);
    let mut amounts = times(&of_pod(template), count);
    amounts.insert(PODS.to_owned(), i64::from(count));
    amounts
}

/// Returns what a Workload holds: nothing of what its pods need no more.
pub(super) fn held(workload: &Workload<'_>) -> QuotaAmounts {
    let Some(admission) = &workload.status.admission else { return QuotaAmounts::new() };
    let left = workload.count().saturating_sub(workload.status.reclaimable);
    asked(workload, admission.count.min(left))
}

/// The quota of a ClusterQueue.
#[derive(Clone, Debug, Default)]
pub(super) struct Quota {
    /// `nominalQuota` of each resource.
    nominal: QuotaAmounts,
    /// What is held of it.
    used: QuotaAmounts,
}

impl Quota {
    /// Reads the quota of a ClusterQueue: of each group of resources that of the first flavor.
    pub(super) fn from_queue(queue: &Object) -> Self {
        let mut nominal = QuotaAmounts::new();
        for group in list(queue.spec(), "resourceGroups") {
            let Some(flavor) = list(group, "flavors").next() else { continue };
            for resource in list(flavor, "resources") {
                let name = resource.get("name").and_then(Value::as_str).unwrap_or_default();
                let quota = resource.get("nominalQuota").and_then(|quota| amount(name, quota));
                nominal.insert(name.to_owned(), quota.unwrap_or_default());
            }
        }
        Self { nominal, used: QuotaAmounts::new() }
    }

    /// Counts what is held.
    pub(super) fn take(&mut self, amounts: &QuotaAmounts) {
        add(&mut self.used, amounts);
    }

    /// Counts it no more.
    pub(super) fn give(&mut self, amounts: &QuotaAmounts) {
        for (name, amount) in amounts {
            let used = self.used.entry(name.clone()).or_default();
            *used = used.saturating_sub(*amount);
        }
    }

    /// Returns what is missing of a resource, the first by name; nothing where all fits. A resource without a quota never
    /// fits; pods are counted where there is a quota of them.
    fn missing(&self, asked: &QuotaAmounts, is_empty: bool) -> Option<(String, Option<i64>)> {
        asked.iter().filter(|(name, _)| self.counts(name)).find_map(|(name, amount)| {
            let Some(nominal) = self.nominal.get(name) else { return Some((name.clone(), None)) };
            let used = if is_empty { 0 } else { self.used.get(name).copied().unwrap_or_default() };
            let over = amount.saturating_add(used).saturating_sub(*nominal);
            (over > 0).then(|| (name.clone(), Some(over)))
        })
    }

    fn counts(&self, name: &str) -> bool {
        name != PODS || self.nominal.contains_key(name)
    }

    /// Tells whether something fits beside what is held.
    pub(super) fn fits(&self, asked: &QuotaAmounts) -> bool {
        self.missing(asked, false).is_none()
    }

    /// Tells whether something fits where nothing is held: others may be preempted for it.
    pub(super) fn could_fit(&self, asked: &QuotaAmounts) -> bool {
        self.missing(asked, true).is_none()
    }

    /// Returns why something does not fit.
    pub(super) fn why(&self, asked: &QuotaAmounts) -> String {
        let prefix = "couldn't assign flavors to pod set main";
        match self.missing(asked, true).or_else(|| self.missing(asked, false)) {
            Some((name, None)) => format!("{prefix}: resource {name} unavailable in ClusterQueue"),
            Some((name, Some(over))) if self.could_fit(asked) => {
                format!("{prefix}: insufficient unused quota for {name}, {over} more needed")
            }
            Some((name, Some(over))) => {
                format!("{prefix}: insufficient quota for {name}, {over} more needed")
            }
            None => String::new(),
        }
    }
}
