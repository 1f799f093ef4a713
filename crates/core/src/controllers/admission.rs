//! Which pods the API server takes: no pod that is invalid, none that a LimitRange or a ResourceQuota has no room for
//! (`plugin/pkg/admission/{limitranger,resourcequota}`).

mod demand;

use crate::text::patch::merge;
use crate::text::value::Value;
use demand::Amounts;
pub(crate) use demand::PodDemand;

/// The objects that say which pods are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admission {
    limits: Vec<AdmissionObject>,
}

/// A ResourceQuota or a LimitRange.
#[derive(Clone, Debug)]
struct AdmissionObject {
    manifest: Value,
    rule: AdmissionRule,
}

/// What one of them says.
#[derive(Clone, Debug)]
enum AdmissionRule {
    /// `spec.hard` of a ResourceQuota.
    Quota(Amounts),
    /// `spec.limits` of a LimitRange.
    LimitRange(Vec<LimitRangeItem>),
}

/// An item of `spec.limits`.
#[derive(Clone, Debug)]
struct LimitRangeItem {
    /// Whether it is about whole pods; otherwise it is about each container.
    is_pod: bool,
    max: Amounts,
    min: Amounts,
    default: Amounts,
    default_request: Amounts,
}

impl AdmissionRule {
    /// Reads an object. Returns nothing for other kinds.
    fn parse(manifest: &Value) -> Option<Self> {
        let spec = manifest.get("spec").unwrap_or(&Value::Null);
        match manifest.get("kind").and_then(Value::as_str)? {
            // A quota with scopes is about some pods only: which, is not modelled.
            "ResourceQuota" if spec.get("scopes").is_some() || spec.get("scopeSelector").is_some() => {
                Some(Self::Quota(Amounts::default()))
            }
            "ResourceQuota" => Some(Self::Quota(Amounts::parse(spec.get("hard")))),
            "LimitRange" => {
                let items = spec.get("limits").and_then(Value::as_array).into_iter().flatten();
                Some(Self::LimitRange(items.filter_map(LimitRangeItem::parse).collect()))
            }
            _ => None,
        }
    }
}

impl LimitRangeItem {
    /// Reads an item, with the defaults of the API server (`SetDefaults_LimitRangeItem`).
    fn parse(item: &Value) -> Option<Self> {
        let is_pod = match item.get("type").and_then(Value::as_str)? {
            "Container" => false,
            "Pod" => true,
            _ => return None,
        };
        let amounts = |key: &str| Amounts::parse(item.get(key));
        let (max, min) = (amounts("max"), amounts("min"));
        let (mut default, mut default_request) = (Amounts::default(), Amounts::default());
        if !is_pod {
            default = amounts("default").or(&max);
            default_request = amounts("defaultRequest").or(&default).or(&min);
        }
        Some(Self { is_pod, max, min, default, default_request })
    }

    /// Tells whether a pod keeps to it.
    fn admits(&self, demand: &PodDemand) -> bool {
        // What has a highest amount has to be limited, what has a lowest has to be asked for.
        let is_within = |requests: &Amounts, limits: &Amounts| {
            self.max.iter().all(|(name, max)| limits.get(name).is_some_and(|limit| limit <= max))
                && self.min.iter().all(|(name, min)| requests.get(name).is_some_and(|request| request >= min))
        };
        if self.is_pod {
            return is_within(&demand.requests(), &demand.limits());
        }
        demand.containers().all(|container| is_within(&container.requests, &container.limits))
    }
}

impl Admission {
    /// Adds a ResourceQuota or a LimitRange, or puts it in the place of another of its name. Returns whether it is one.
    pub(crate) fn add(&mut self, manifest: &Value) -> bool {
        let Some(rule) = AdmissionRule::parse(manifest) else { return false };
        let (kind, name) = (text(manifest, "/kind"), text(manifest, "/metadata/name"));
        self.remove(kind, Some(name));
        self.limits.push(AdmissionObject { manifest: manifest.clone(), rule });
        true
    }

    /// Removes an object: that of a name, or all of the kind.
    pub(crate) fn remove(&mut self, kind: &str, name: Option<&str>) {
        self.limits.retain(|object| !object.is(kind, name));
    }

    /// Changes an object by a merge patch.
    pub(crate) fn patch(&mut self, kind: &str, name: Option<&str>, patch: &Value) {
        for object in self.limits.iter_mut().filter(|object| object.is(kind, name)) {
            merge(&mut object.manifest, patch);
            if let Some(rule) = AdmissionRule::parse(&object.manifest) {
                object.rule = rule;
            }
        }
    }

    /// Returns what a pod asks for, with what LimitRanges add where it says nothing.
    fn defaulted(&self, demand: &PodDemand) -> PodDemand {
        let mut demand = demand.clone();
        for item in self.limit_items() {
            demand.set_defaults(&item.default, &item.default_request);
        }
        demand
    }

    fn limit_items(&self) -> impl Iterator<Item = &LimitRangeItem> {
        self.limits.iter().flat_map(|object| match &object.rule {
            AdmissionRule::LimitRange(items) => items.as_slice(),
            AdmissionRule::Quota(_) => &[],
        })
    }

    fn quotas(&self) -> impl Iterator<Item = &Amounts> {
        self.limits.iter().filter_map(|object| match &object.rule {
            AdmissionRule::Quota(hard) => Some(hard),
            AdmissionRule::LimitRange(_) => None,
        })
    }
}

impl AdmissionObject {
    fn is(&self, kind: &str, name: Option<&str>) -> bool {
        text(&self.manifest, "/kind") == kind
            && name.is_none_or(|name| text(&self.manifest, "/metadata/name") == name)
    }
}

/// Pods that are there and ask for the same: what for, how many they are, and whether they have ended.
pub(crate) type PodsThere<'a> = (&'a PodDemand, u32, bool);

impl Admission {
    /// Returns how many of some pods that are alike and valid the API server takes, beside those that are there.
    pub(crate) fn room_for<'a>(
        &self,
        demand: &PodDemand,
        count: u32,
        there: impl FnOnce() -> Vec<PodsThere<'a>>,
    ) -> u32 {
        if self.limits.is_empty() {
            return count;
        }
        let demand = self.defaulted(demand);
        if !self.limit_items().all(|item| item.admits(&demand)) {
            return 0;
        }
        if self.quotas().next().is_none() {
            return count;
        }
        let mut used = ResourceUsage::default();
        for (demand, count, is_ended) in there() {
            used.add(&ResourceUsage::new(&self.defaulted(demand), count, is_ended));
        }
        let one = ResourceUsage::new(&demand, 1, false);
        let room = self.quotas().map(|hard| quota_room(hard, &one, &used));
        room.fold(count, u32::min)
    }
}

/// What pods take of what a ResourceQuota may count, in thousandths.
#[derive(Clone, Debug, Default)]
struct ResourceUsage {
    /// All pods.
    all: i128,
    /// Those that have not ended.
    active: i128,
    /// What these request.
    requests: Amounts,
    /// What they are limited to.
    limits: Amounts,
}

impl ResourceUsage {
    /// Returns what some pods take that ask for the same: where they have ended, they only count as pods.
    fn new(demand: &PodDemand, count: u32, is_ended: bool) -> Self {
        let pods = i128::from(count) * 1_000;
        if is_ended {
            return Self { all: pods, ..Self::default() };
        }
        Self {
            all: pods,
            active: pods,
            requests: demand.requests().times(count),
            limits: demand.limits().times(count),
        }
    }

    fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.active += other.active;
        self.requests.add(&other.requests);
        self.limits.add(&other.limits);
    }
}

/// Returns for how many pods that each take as much as one a ResourceQuota has room
/// (`pkg/quota/v1/evaluator/core/pods.go`).
fn quota_room(hard: &Amounts, one: &ResourceUsage, used: &ResourceUsage) -> u32 {
    let mut least = u32::MAX;
    for (name, hard) in hard.iter() {
        let Some(counted) = CountedResource::parse(name) else { continue };
        // A pod has to say how much it takes of what has a quota.
        let Some(one) = counted.of(one) else { return 0 };
        if one == 0 {
            continue;
        }
        let free = hard.saturating_sub(counted.of(used).unwrap_or_default()).max(0) / one;
        least = least.min(u32::try_from(free).unwrap_or(u32::MAX));
    }
    least
}

/// What a name in `spec.hard` counts.
enum CountedResource<'a> {
    /// `pods`, of those that have not ended, or all (`count/pods`).
    Pods { all: bool },
    /// Requests of a resource.
    Requests(&'a str),
    /// Limits of a resource.
    Limits(&'a str),
}

impl<'a> CountedResource<'a> {
    /// Reads a name. Returns nothing for what pods do not use.
    fn parse(name: &'a str) -> Option<Self> {
        match name {
            "pods" => Some(Self::Pods { all: false }),
            "count/pods" => Some(Self::Pods { all: true }),
            "cpu" | "memory" | "ephemeral-storage" => Some(Self::Requests(name)),
            _ => match name.split_once('.') {
                Some(("limits", resource)) => Some(Self::Limits(resource)),
                Some(("requests", "storage")) => None,
                Some(("requests", resource)) => Some(Self::Requests(resource)),
                _ => None,
            },
        }
    }

    /// Returns how much pods take.
    fn of(&self, usage: &ResourceUsage) -> Option<i128> {
        match self {
            Self::Pods { all: true } => Some(usage.all),
            Self::Pods { all: false } => Some(usage.active),
            Self::Requests(resource) => amount_of(resource, &usage.requests),
            Self::Limits(resource) => amount_of(resource, &usage.limits),
        }
    }
}

/// Returns how much of a resource is taken. Only `cpu` and `memory` have to be said.
fn amount_of(resource: &str, amounts: &Amounts) -> Option<i128> {
    let is_required = ["cpu", "memory"].contains(&resource);
    amounts.get(resource).copied().or((!is_required).then_some(0))
}

fn text<'v>(manifest: &'v Value, at: &str) -> &'v str {
    manifest.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::cluster::Cluster;
    use super::*;
    use crate::text::value::json;

    fn demand(container: &Value) -> PodDemand {
        PodDemand::from_pod(&json!({"containers": [container.to_json()], "restartPolicy": "Never"}))
    }

    fn cluster(limits: &[Value]) -> Cluster {
        let mut cluster = Cluster::default();
        for object in limits {
            assert!(cluster.admission.add(object));
        }
        cluster
    }

    fn quota(hard: serde_json::Value) -> Value {
        json!({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
    }

    #[test]
    fn a_quota_leaves_room_for_some_pods() {
        let plain = demand(&json!({"name": "a"}));
        for (hard, room) in [
            (serde_json::json!({"pods": "2"}), 2),
            (serde_json::json!({"pods": 0}), 0),
            // What says nothing of its CPU is refused where CPUs are counted.
            (serde_json::json!({"cpu": "4"}), 0),
            (serde_json::json!({"requests.example.com/gpu": "4", "services": "0"}), 9),
        ] {
            assert_eq!(cluster(&[quota(hard.clone())]).room_for(&plain, 9), room, "{hard}");
        }
        let asks = demand(&json!({"name": "a", "resources": {"requests": {"cpu": "1500m"}}}));
        assert_eq!(cluster(&[quota(serde_json::json!({"requests.cpu": 4}))]).room_for(&asks, 9), 2);
    }

    #[test]
    fn a_limit_range_refuses_and_fills_in() {
        let range = json!({
            "kind": "LimitRange", "metadata": {"name": "l"},
            "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]},
        });
        let greedy = demand(&json!({"name": "a", "resources": {"limits": {"cpu": "4"}}}));
        let plain = demand(&json!({"name": "a"}));
        let mut cluster = cluster(&[range, quota(serde_json::json!({"limits.cpu": "5"}))]);
        assert_eq!((cluster.room_for(&greedy, 3), cluster.room_for(&plain, 3)), (0, 2));
        cluster.admission.remove("LimitRange", Some("l"));
        assert_eq!((cluster.room_for(&greedy, 3), cluster.room_for(&plain, 3)), (1, 0));
        cluster.admission.patch("ResourceQuota", Some("q"), &json!({"spec": {"hard": {"limits.cpu": "9"}}}));
        assert_eq!(cluster.room_for(&greedy, 3), 2);
    }

    #[test]
    fn a_pod_is_valid_or_never_taken() {
        for (pod, is_valid) in [
            (json!({"containers": [{"name": "a"}]}), true),
            (json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v"}]}]}), false),
            (
                json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v"}]}], "volumes": [{"name": "v"}]}),
                true,
            ),
            (json!({"containers": [{"name": "a"}, {"name": "a"}]}), false),
            (json!({"containers": []}), false),
            (json!({"containers": [{"name": "a"}], "restartPolicy": "Sometimes"}), false),
            (json!({"containers": "a"}), false),
            (
                json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}]}),
                false,
            ),
            (Value::Null, false),
        ] {
            assert_eq!(PodDemand::from_pod(&pod).is_valid(), is_valid, "{pod:?}");
        }
    }
}
