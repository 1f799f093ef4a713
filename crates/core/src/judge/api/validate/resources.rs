//! Requests and limits of containers and pods.

use std::collections::{BTreeSet, HashMap};

use super::cause::{CausePlace, Causes};
use super::key_set::SeenValues;
use super::object_part::ObjectPart;
use crate::k8s::go::quoted;
use crate::k8s::names;
use crate::k8s::quantity::Quantity;

/// Tells whether a resource is part of Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Tells whether a resource is of a device plugin, such as `nvidia.com/gpu`.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Tells whether a resource can be overcommitted, so that request and limit may differ.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Resources without a domain that are counted.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

fn is_standard(name: &str) -> bool {
    const OTHER: [&str; 10] = [
        "cpu",
        "ephemeral-storage",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
    ];
    OTHER.contains(&name)
        || COUNTED.contains(&name)
        || name == "storage"
        || is_huge_page(name)
        || name.starts_with("requests.hugepages-")
}

/// Checks the name of any resource; returns whether it is one.
fn resource_name(name: &str, at: &dyn CausePlace, causes: &mut Causes) -> bool {
    let messages = names::qualified_name(name);
    for message in &messages {
        causes.invalid_text(at, name, message);
    }
    let is_known = name.contains('/') || is_standard(name);
    if messages.is_empty() && !is_known {
        causes.invalid_text(at, name, "must be a standard resource type or fully qualified");
    }
    messages.is_empty() && is_known
}

fn container_resource_name(name: &str, at: &dyn CausePlace, causes: &mut Causes) {
    resource_name(name, at, causes);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            causes.invalid_text(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.invalid_text(at, name, "doesn't follow extended resource name standard");
    }
}

/// Checks one quantity of a resource.
pub(super) fn quantity(name: &str, field: &ObjectPart<'_, '_>, quantity: &Quantity, causes: &mut Causes) {
    let shown = || quoted(&quantity.canonical());
    if quantity.is_negative() {
        causes.invalid_shown(field, &shown(), "must be greater than or equal to 0");
    }
    if let Some(size) = name.strip_prefix("hugepages-") {
        let page = Quantity::parse(size).ok();
        let is_multiple = |page: Quantity| page.value() > 0 && quantity.value() % page.value() == 0;
        if !page.is_some_and(is_multiple) {
            causes.invalid_shown(
                field,
                &shown(),
                &format!("{} is not positive integer multiple of {name}", quantity.canonical()),
            );
        }
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity.is_integer() {
        causes.invalid_shown(field, &shown(), "must be an integer");
    }
}

/// Maximum names that a message lists.
const MOST_LISTED: usize = 64;

/// Checks `resources` of a container.
pub(super) fn of_container(resources: &ObjectPart<'_, '_>, claims: &BTreeSet<&str>, causes: &mut Causes) {
    requirements(resources, container_resource_name, causes);
    // Claims by name and request, claims without a request (which means all of them), and all claims.
    let (mut seen, mut whole, mut any) =
        (SeenValues::default(), SeenValues::default(), SeenValues::default());
    let mut listed: Option<String> = None;
    for claim in resources.get("claims").items() {
        let (name, request) = (claim.get("name"), claim.get("request"));
        let key = (name.text(), request.text());
        if key.0.is_empty() {
            causes.required(&claim, "");
            continue;
        }
        let is_known = any.contains(&key.0);
        if is_known && (key.1.is_empty() || whole.contains(&key.0) || seen.contains(&key)) {
            causes.duplicate(&claim, &quoted(key.0));
        }
        any.insert(key.0);
        if key.1.is_empty() {
            whole.insert(key.0);
        } else {
            seen.insert(key);
        }
        causes.format_if_set(&request, names::dns_label);
        if !claims.contains(key.0) {
            let detail = listed.get_or_insert_with(|| {
                let known: Vec<&str> = claims.iter().copied().collect();
                let known = match known.len() {
                    0 => " which is empty".to_owned(),
                    1..=MOST_LISTED => format!(": {}", known.join(", ")),
                    // The server lists all names; here that would be a long text for each claim.
                    all => format!(": {}, … ({all} names)", known[..MOST_LISTED].join(", ")),
                };
                format!("must be one of the names in pod.spec.resourceClaims{known}")
            });
            causes.not_found(&claim, key.0, detail);
        }
    }
}

/// Checks `resources` of a pod spec, which may only have resources that its containers can share.
pub(super) fn of_pod(resources: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if !resources.is_set() {
        return;
    }
    if resources.get("claims").is_set() {
        causes.forbidden(&resources.get("claims"), "claims may not be set for Resources at pod-level");
    }
    requirements(
        resources,
        |name, at, causes| {
            if resource_name(name, at, causes) && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
                causes.unsupported(at, &quoted(name), &["cpu", "hugepages-", "memory"]);
            }
        },
        causes,
    );
}

/// Checks the pod's requests and limits against those of its containers.
pub(super) fn of_pod_and_containers(spec: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let resources = spec.get("resources");
    for list in ["requests", "limits"] {
        let sums = Sums::new(spec, list);
        for (name, field) in resources.get(list).entries() {
            let Some((amount, total)) = read(&field).zip(sums.of(name)) else { continue };
            // Other limits are compared with those of one container each.
            if amount.amount_cmp(&total).is_lt() && (list == "requests" || is_huge_page(name)) {
                let detail = format!(
                    "must be greater than or equal to aggregate container {list} of {}",
                    total.canonical()
                );
                causes.invalid_shown(&field, &quoted(&amount.canonical()), &detail);
            }
        }
    }
    let limits = resources.get("limits");
    // Read once: there may be many containers.
    let limits: HashMap<&str, Quantity> =
        limits.entries().filter_map(|(name, field)| Some((name, read(&field)?))).collect();
    if limits.is_empty() {
        return;
    }
    for (index, container) in spec.get("containers").items().enumerate() {
        let of_container = container.get("resources");
        for (name, field) in of_container.get("limits").entries() {
            let Some(most) = limits.get(name) else { continue };
            let Some(amount) = read(&field).filter(|amount| amount.amount_cmp(most).is_gt()) else {
                continue;
            };
            let said = resources.pointer().key(&format!("containers[{index}][{name}]")).key("limits");
            let detail = format!("must be less than or equal to pod limits of {}", most.canonical());
            causes.invalid_shown(&said, &quoted(&amount.canonical()), &detail).pointer = field.pointer();
        }
    }
}

fn read(field: &ObjectPart<'_, '_>) -> Option<Quantity> {
    field.value.and_then(|value| value.quantity().ok())
}

/// How much of each resource of a pod its containers ask for.
struct Sums<'a>(HashMap<&'a str, Sum>);

/// How much of a resource the containers of a pod ask for, in thousandths.
#[derive(Default)]
struct Sum {
    /// Of all that run together.
    main: i64,
    /// Of the sidecars that were started so far.
    sidecars: i64,
    /// The most while init containers run: of one, and the sidecars before it.
    starting: i64,
    /// The first amount. The server prints a sum with its suffixes.
    first: Option<Quantity>,
}

impl<'a> Sums<'a> {
    /// Adds up what containers ask for in a list, of the resources that the pod has there too.
    fn new(spec: &ObjectPart<'_, 'a>, list: &'static str) -> Self {
        let resources = spec.get("resources");
        let mut sums: HashMap<&str, Sum> =
            resources.get(list).entries().map(|(name, _)| (name, Sum::default())).collect();
        if sums.is_empty() {
            return Self(sums);
        }
        for (field, is_main) in [("containers", true), ("initContainers", false)] {
            for container in spec.get(field).items() {
                let is_sidecar = !is_main && container.get("restartPolicy").text() == "Always";
                for (name, field) in container.get("resources").get(list).entries() {
                    if let Some((sum, amount)) = sums.get_mut(name).zip(read(&field)) {
                        sum.add(&amount, is_main, is_sidecar);
                    }
                }
            }
        }
        Self(sums)
    }

    fn of(&self, name: &str) -> Option<Quantity> {
        let sum = self.0.get(name)?;
        Some(sum.first.as_ref()?.with_milli(sum.main.max(sum.starting)))
    }
}

impl Sum {
    fn add(&mut self, amount: &Quantity, is_main: bool, is_sidecar: bool) {
        if self.first.is_none() && !amount.is_zero() {
            self.first = Some(amount.clone());
        }
        let amount = amount.milli_value();
        if is_main || is_sidecar {
            self.main = self.main.saturating_add(amount);
        }
        if is_sidecar {
            self.sidecars = self.sidecars.saturating_add(amount);
            self.starting = self.starting.max(self.sidecars);
        } else if !is_main {
            self.starting = self.starting.max(self.sidecars.saturating_add(amount));
        }
    }
}

fn requirements(
    resources: &ObjectPart<'_, '_>,
    check_name: fn(&str, &dyn CausePlace, &mut Causes),
    causes: &mut Causes,
) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    for (name, field) in limits.entries() {
        check_name(name, &field, causes);
        if let Some(amount) = read(&field) {
            quantity(name, &field, &amount, causes);
        }
    }
    for (name, field) in requests.entries() {
        check_name(name, &field, causes);
        let Some(amount) = read(&field) else { continue };
        quantity(name, &field, &amount, causes);
        let limit = limits.value.and_then(|limits| limits.get(name));
        let Some(limit) = limit else {
            if !may_overcommit(name) {
                causes.required(&limits, "Limit must be set for non overcommitable resources");
            }
            continue;
        };
        let Ok(limit) = limit.quantity() else { continue };
        let order = amount.amount_cmp(&limit);
        let rule = match order {
            _ if order.is_ne() && !may_overcommit(name) => "must be equal to",
            _ if order.is_gt() => "must be less than or equal to",
            _ => continue,
        };
        let detail = format!("{rule} {name} limit of {}", limit.canonical());
        causes.invalid_shown(&requests, &quoted(&amount.canonical()), &detail).pointer = field.pointer();
    }
    let any = |test: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| test(name));
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        causes.forbidden(resources, "HugePages require cpu or memory");
    }
}
