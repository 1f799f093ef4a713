//! Spot nodes, which their provider takes back: how pods select them, and how long they have to end.

use crate::kinds::{Field, Part, PodSpec};
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// Spot nodes of one provider.
#[derive(Debug)]
pub struct Spot {
    /// The name of the provider, to follow "of".
    pub(super) provider: &'static str,
    /// The label of the nodes.
    pub label: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The most seconds that a pod gets to end.
    pub(super) seconds_to_end: i64,
    /// Whether all of these nodes have a NoSchedule taint, with the key and value of the label: not one that only
    /// the cluster's owner may set.
    pub is_tainted: bool,
}

/// Spot nodes of GKE. Labels and times are those of docs/internals/training.md#spot-nodes.
pub static GKE: Spot = Spot {
    provider: "GKE",
    label: "cloud.google.com/gke-spot",
    value: "true",
    seconds_to_end: 15,
    is_tainted: false,
};

/// Their predecessor.
static GKE_PREEMPTIBLE: Spot = Spot { label: "cloud.google.com/gke-preemptible", ..GKE };

/// Spot nodes of managed node groups of EKS.
pub static EKS: Spot = Spot {
    provider: "EKS",
    label: "eks.amazonaws.com/capacityType",
    value: "SPOT",
    seconds_to_end: 120,
    is_tainted: false,
};

/// Spot nodes that Karpenter makes.
pub static KARPENTER: Spot = Spot {
    provider: "Karpenter",
    label: "karpenter.sh/capacity-type",
    value: "spot",
    seconds_to_end: 120,
    is_tainted: false,
};

/// Spot nodes of AKS.
pub static AKS: Spot = Spot {
    provider: "AKS",
    label: "kubernetes.azure.com/scalesetpriority",
    value: "spot",
    seconds_to_end: 30,
    is_tainted: true,
};

static NODES: [&Spot; 5] = [&GKE, &GKE_PREEMPTIBLE, &EKS, &KARPENTER, &AKS];

/// How a pod selects spot nodes.
#[derive(Debug)]
pub(super) struct Selected {
    /// The nodes.
    pub(super) spot: &'static Spot,
    /// The field that selects them.
    pub(super) place: Pointer,
}

/// Returns the spot nodes that a pod spec selects; nothing if the pods can also run on others.
pub(super) fn selected(spec: &PodSpec<'_>) -> Option<Selected> {
    let selector = spec.get("nodeSelector");
    // Most pods have no node selector.
    let own = if selector.is_mapping() { &NODES[..] } else { &[] };
    let by_selector = own.iter().find_map(|spot| {
        let field = selector.get(spot.label);
        (field.text() == Field::Set(spot.value)).then(|| Selected { spot, place: field.pointer })
    });
    by_selector.or_else(|| {
        let terms = spec.at(&[
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ]);
        // Terms are alternatives, so each must select them.
        let mut terms = terms.items().map(|term| selected_by_term(&term));
        let first = terms.next()??;
        terms.all(|term| term.is_some()).then_some(first)
    })
}

fn selected_by_term(term: &Part<'_>) -> Option<Selected> {
    term.get("matchExpressions").mappings().find_map(|expression| {
        if expression.get("operator").text() != Field::Set("In") {
            return None;
        }
        let key = expression.get("key").text().set()?;
        let spot = NODES.into_iter().find(|spot| spot.label == key)?;
        let values = expression.get("values").value?.as_array()?;
        let is_only = matches!(values.as_slice(), [Value::String(value)] if *value == *spot.value);
        is_only.then_some(Selected { spot, place: expression.pointer })
    })
}

impl Spot {
    /// Tells whether a list of tolerations covers the taint of these nodes.
    pub(super) fn is_tolerated_by(&self, tolerations: &Part<'_>) -> bool {
        tolerations.mappings().any(|toleration| {
            let text = |key| toleration.get(key).text();
            if !matches!(text("effect"), Field::Unset | Field::Set("" | "NoSchedule")) {
                return false;
            }
            match (text("operator"), text("key")) {
                (Field::Set("Exists"), Field::Unset | Field::Set("")) => true,
                (Field::Set("Exists"), Field::Set(key)) => key == self.label,
                (Field::Unset | Field::Set("" | "Equal"), Field::Set(key)) => {
                    key == self.label && matches!(text("value"), Field::Set(value) if value == self.value)
                }
                // A value hidden by a placeholder may cover it.
                (Field::Placeholder(_), _) | (_, Field::Placeholder(_)) => true,
                _ => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn provider(spec: Value) -> Option<&'static str> {
        selected(&PodSpec::whole(Part::root(&spec))).map(|selected| selected.spot.provider)
    }

    fn affinity(terms: &[&[(&str, &str, &[&str])]]) -> Value {
        let expression = |(key, operator, values): &(&str, &str, &[&str])| json!({"key": *key, "operator": *operator, "values": values.to_vec()});
        let terms: Vec<Value> = terms
            .iter()
            .map(|term| json!({"matchExpressions": term.iter().map(expression).collect::<Vec<_>>()}))
            .collect();
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn pods_that_can_run_elsewhere_select_no_spot_nodes() {
        let selector = |label: &str, value: &str| provider(json!({"nodeSelector": {label: value}}));
        assert_eq!(selector("cloud.google.com/gke-spot", "true"), Some("GKE"));
        assert_eq!(selector("karpenter.sh/capacity-type", "spot"), Some("Karpenter"));
        assert_eq!(selector("eks.amazonaws.com/capacityType", "SPOT"), Some("EKS"));
        assert_eq!(selector("karpenter.sh/capacity-type", "on-demand"), None);
        assert_eq!(selector("node.kubernetes.io/spot", "true"), None);
        let karpenter = "karpenter.sh/capacity-type";
        let only: (&str, &str, &[&str]) = (karpenter, "In", &["spot"]);
        let both: (&str, &str, &[&str]) = (karpenter, "In", &["spot", "on-demand"]);
        let other: (&str, &str, &[&str]) = ("pool", "In", &["a"]);
        assert_eq!(provider(affinity(&[&[other, only]])), Some("Karpenter"));
        assert_eq!(provider(affinity(&[&[only], &[only, other]])), Some("Karpenter"));
        assert_eq!(provider(affinity(&[&[both]])), None);
        assert_eq!(provider(affinity(&[&[only], &[other]])), None);
        assert_eq!(provider(affinity(&[&[(karpenter, "NotIn", &["spot"])]])), None);
        assert_eq!(provider(affinity(&[])), None);
    }

    #[test]
    fn a_taint_is_covered_by_its_key_or_by_everything() {
        let aks = NODES.iter().find(|spot| spot.is_tainted).expect("one with a taint");
        let covers = |toleration: Value| aks.is_tolerated_by(&Part::root(&json!([toleration])));
        let key = aks.label;
        for (toleration, covered) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": key, "operator": "Exists"}), true),
            (json!({"key": key, "value": "spot", "effect": "NoSchedule"}), true),
            (json!({"key": key, "operator": "Equal", "value": "spot"}), true),
            (json!({"key": key, "operator": "Equal", "value": "regular"}), false),
            (json!({"key": key, "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "nvidia.com/gpu", "operator": "Exists"}), false),
            (json!({"key": "$KEY", "operator": "Exists"}), true),
            (json!({"key": key}), false),
        ] {
            assert_eq!(covers(toleration.clone()), covered, "{toleration}");
        }
    }
}
