//! The taints that a pod's tolerations cover.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::rule::{Cx, Word};
use crate::kinds::{Field, Part, PodSpec};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::value::Value;

/// The NoSchedule taints that a list of tolerations covers, from one pass over it
/// (docs/internals/pods.md#tolerations-that-cover-a-taint).
#[derive(Default)]
pub(super) struct CoveredTaints<'a> {
    /// Every taint: `operator: Exists` without a key.
    pub(super) all: bool,
    /// The keys of taints that are covered whatever their value.
    pub(super) whole: BTreeSet<&'a str>,
    /// Keys with only one value covered, by `operator: Equal` (the default), and the index of the toleration.
    pub(super) one_value: BTreeMap<&'a str, usize>,
}

impl<'a> CoveredTaints<'a> {
    pub(super) fn from_tolerations(tolerations: &Part<'a>) -> Self {
        let mut covered = Self::default();
        for (index, value) in tolerations.values().iter().enumerate().filter(|(_, value)| value.is_object()) {
            meter::spend(1);
            let toleration = Part::root(value);
            if !matches!(toleration.get("effect").text(), Field::Unset | Field::Set("" | "NoSchedule")) {
                continue;
            }
            match (toleration.get("operator").text(), toleration.get("key").text()) {
                (Field::Set("Exists"), Field::Unset | Field::Set("")) => covered.all = true,
                (Field::Set("Exists"), Field::Set(key)) => _ = covered.whole.insert(key),
                (Field::Unset | Field::Set("" | "Equal"), Field::Set(key)) => {
                    _ = covered.one_value.entry(key).or_insert(index);
                }
                _ => {}
            }
        }
        covered
    }
}

/// Taints that GKE sets on its nodes, with the value `present`, and tolerates by itself for pods that request
/// the resource of that name (docs/internals/pods.md#taints-of-accelerator-nodes).
pub(super) const GKE_TAINTS: [&str; 2] = ["google.com/tpu", "nvidia.com/gpu"];

pub(super) const GKE_VALUE: &str = "present";

fn is_gke(label: &str) -> bool {
    label.starts_with("cloud.google.com/gke-") || label == "cloud.google.com/compute-class"
}

/// The parameter of rules for what a cluster adds to pods by itself.
pub(super) const PLATFORM: Word = Word::new(
    "platform",
    "What adds tolerations to pods by itself: `gke`; `ExtendedResourceToleration`, the admission plugin, one \
     with the name of each resource; `eks` and `aks` nothing. `any` goes by the nodes that a pod selects.",
    &["any", "gke", "eks", "aks", "ExtendedResourceToleration"],
);

/// The tolerations that a cluster adds to pods by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    /// Unset: those of GKE, for pods that select its nodes.
    Any,
    /// Tolerations of [`GKE_TAINTS`].
    Gke,
    /// Nothing.
    Plain,
    /// A toleration for each resource of a device plugin, with the name of the resource.
    EachResource,
}

impl Platform {
    /// Returns the policy's setting.
    pub(super) fn new(cx: &Cx<'_>) -> Self {
        match cx.word(&PLATFORM) {
            "gke" => Self::Gke,
            "eks" | "aks" => Self::Plain,
            "ExtendedResourceToleration" => Self::EachResource,
            _ => Self::Any,
        }
    }

    /// Tells whether a pod that requests a resource gets a toleration of the taint.
    pub(super) fn tolerates(self, spec: &PodSpec<'_>, resource: &str, taint: &str) -> bool {
        let of_gke = resource == taint && GKE_TAINTS.contains(&taint);
        match self {
            Self::Any => of_gke && selects_gke(spec),
            Self::Gke => of_gke,
            Self::Plain => false,
            Self::EachResource => resource == taint,
        }
    }
}

/// Tells whether the pods can only run on nodes of GKE: they select them by a label that GKE alone sets.
fn selects_gke(spec: &PodSpec<'_>) -> bool {
    selects(spec, is_gke)
}

/// Tells whether the pods can only run on accelerator nodes of AKS, and tolerate the taint `sku=gpu:NoSchedule`.
/// AKS sets none by itself, and its pages tell people to set this one
/// (docs/internals/pods.md#taints-of-accelerator-nodes).
pub(super) fn tolerates_aks(spec: &PodSpec<'_>) -> bool {
    const KEY: &str = "sku";
    let covered = || {
        spec.get("tolerations").mappings().any(|toleration| {
            let is = |field, words: &[&str]| match toleration.get(field).text() {
                Field::Unset => words.contains(&""),
                Field::Set(text) => words.contains(&text),
                _ => false,
            };
            let any_value = is("operator", &["Exists"]);
            let one_value = || is("operator", &["", "Equal"]) && is("value", &["gpu"]);
            is("key", &[KEY]) && is("effect", &["", "NoSchedule"]) && (any_value || one_value())
        })
    };
    selects(spec, |label| label == "kubernetes.azure.com/accelerator") && covered()
}

/// Tells whether the pods can only run on nodes with such a label.
fn selects(spec: &PodSpec<'_>, is_label: impl Fn(&str) -> bool) -> bool {
    if spec.get("nodeSelector").entries().any(|(label, _)| is_label(label)) {
        return true;
    }
    let required = spec.at(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
    let mut terms = required.items().peekable();
    // One of the terms is enough for a node, so each of them must ask for the label.
    terms.peek().is_some()
        && terms.all(|term| {
            let names = |expression: Part<'_>| {
                let selects = matches!(expression.get("operator").text(), Field::Set("In" | "Exists"));
                selects && expression.get("key").text().set().is_some_and(&is_label)
            };
            term.get("matchExpressions").mappings().any(names)
        })
}

/// Returns the operations that append to a list, or create it.
pub(super) fn append(list: &Part<'_>, items: impl Iterator<Item = Value>) -> Vec<Op> {
    match list.value.and_then(Value::as_array) {
        None => vec![Op::Add(list.pointer.clone(), items.collect::<Vec<_>>().into())],
        Some(old) => {
            let end = old.len();
            items.enumerate().map(|(at, item)| Op::Add(&list.pointer / (end + at), item)).collect()
        }
    }
}
