//! Requests and limits of containers and pods.

use std::collections::{BTreeSet, HashMap};

use super::cause::{CausePlace, Causes};
use super::part::ObjectPart;
use super::seen::SeenValues;
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

fn container_resource_name(name: &str, at: &dyn CausePlace, causes: &mut Causes) {
    let messages = names::qualified_name(name);
    for message in &messages {
        causes.invalid_text(at, name, message);
    }
    if !name.contains('/') {
        if messages.is_empty() && !is_standard(name) {
            causes.invalid_text(at, name, "must be a standard resource type or fully qualified");
        }
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
        if page.is_none_or(|page| {
            page.value() <= 0 || quantity.value() <= 0 || quantity.value() % page.value() != 0
        }) {
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
            if !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
                causes.unsupported(at, &quoted(name), &["cpu", "hugepages-", "memory"]);
            }
        },
        causes,
    );
}

/// Checks the pod's requests and limits against those of its containers.
pub(super) fn of_pod_and_containers<'a>(spec: &ObjectPart<'_, 'a>, causes: &mut Causes) {
    let read = |field: &ObjectPart<'_, '_>| field.value.and_then(|value| value.quantity().ok());
    let resources = spec.get("resources");
    // The containers' quantities of each resource that the pod sets, with the container's index.
    let of_containers = |list: &'static str| {
        let mut all: HashMap<&str, Vec<(usize, Quantity)>> =
            resources.get(list).entries().map(|(name, _)| (name, Vec::new())).collect();
        if all.is_empty() {
            return all;
        }
        for (index, container) in spec.get("containers").items().enumerate() {
            let resources = container.get("resources");
            for (name, field) in resources.get(list).entries() {
                if let (Some(known), Some(amount)) = (all.get_mut(name), read(&field)) {
                    known.push((index, amount));
                }
            }
        }
        all
    };
    let asked = of_containers("requests");
    for (name, field) in resources.get("requests").entries() {
        let Some(amount) = read(&field) else { continue };
        let asked = asked.get(name).into_iter().flatten().map(|(_, amount)| amount);
        let total = asked.fold(0_i64, |total, more| total.saturating_add(more.milli_value()));
        if amount.milli_value() < total {
            let total = Quantity::parse(&format!("{total}m"))
                .map_or_else(|_| total.to_string(), |total| total.canonical());
            let detail = format!("must be greater than or equal to aggregate container requests of {total}");
            causes.invalid_shown(&field, &quoted(&amount.canonical()), &detail);
        }
    }
    let allowed = of_containers("limits");
    for (name, field) in resources.get("limits").entries() {
        let Some(most) = read(&field) else { continue };
        let above = allowed.get(name).into_iter().flatten();
        for (index, amount) in above.filter(|(_, amount)| amount.amount_cmp(&most).is_gt()) {
            let container = spec.get("containers").pointer() / *index;
            let at = (container / "resources" / "limits").key(name);
            let said = resources.pointer().key(&format!("containers[{index}][{name}]")).key("limits");
            let detail = format!("must be less than or equal to pod limits of {}", most.canonical());
            causes.invalid_shown(&said, &quoted(&amount.canonical()), &detail).pointer = at;
        }
    }
}

fn requirements(
    resources: &ObjectPart<'_, '_>,
    check_name: fn(&str, &dyn CausePlace, &mut Causes),
    causes: &mut Causes,
) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    let read = |field: &ObjectPart<'_, '_>| field.value.and_then(|value| value.quantity().ok());
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
