//! Whether all pods of some templates must run on one node (docs/internals/pods.md#pods-on-one-node).
//!
//! Ignores preferences and spread constraints, which require nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::workload::Workload;
use crate::kinds::definition::LabelValue;
use crate::kinds::field::{Field, Part};
use crate::kinds::pod::PodTemplate;
use crate::text::placeholder;
use crate::text::value::Value;

/// The label with the name of a node's host.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Which pods must share the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Among {
    /// Those of one run.
    OneRun,
    /// Those of several runs of a CronJob, which differ in name and in the labels made from it.
    SeveralRuns,
}

/// Tells whether all pods of the templates must run on the same node.
#[must_use]
pub(crate) fn on_one_node(workload: &Workload<'_>, pods: &[&PodTemplate<'_>], among: Among) -> bool {
    pinned_together(pods) || attracted_together(workload, pods, among)
}

/// Tells whether the pods of one run must run on several nodes: because templates name different nodes, or
/// because of a required anti-affinity between the pods. Each template comes with its minimum number of pods.
#[must_use]
pub(crate) fn on_several_nodes(workload: &Workload<'_>, pods: &[(&PodTemplate<'_>, i64)]) -> bool {
    let present: Vec<&PodTemplate<'_>> =
        pods.iter().filter(|(_, least)| *least > 0).map(|(pod, _)| *pod).collect();
    // A node has a name and a host name, which cannot be compared.
    let mut pins: BTreeMap<NodeNameKind, BTreeSet<&str>> = BTreeMap::new();
    for pin in present.iter().filter_map(|pod| pinned_node(pod)) {
        pins.entry(pin.name).or_default().insert(pin.node);
    }
    if pins.values().any(|nodes| nodes.len() > 1) {
        return true;
    }
    // Most templates have none.
    if !present.iter().any(|pod| required(pod, "podAntiAffinity").next().is_some()) {
        return false;
    }
    let namespace = workload.object.at(&["metadata", "namespace"]).text().set().unwrap_or_default();
    let repels = |term: &Part<'_>, labels: &PodLabels<'_>| {
        // These exclude pods that the selector matches.
        let narrowed = ["matchLabelKeys", "mismatchLabelKeys", "namespaceSelector"]
            .iter()
            .any(|key| term.get(key).is_set());
        !narrowed && attracts(term, labels, namespace, Among::OneRun)
    };
    let apart = |pods: &[&PodTemplate<'_>]| {
        let labels = PodLabels::new(workload, pods, Among::OneRun);
        pods.iter().any(|pod| required(pod, "podAntiAffinity").any(|term| repels(&term, &labels)))
    };
    let several = |pods: &mut dyn Iterator<Item = i64>| pods.fold(0_i64, i64::saturating_add) > 1;
    pods.iter().any(|(pod, least)| *least > 1 && apart(&[*pod]))
        || (several(&mut pods.iter().map(|(_, least)| *least)) && apart(&present))
}

/// Tells whether all templates name the same node.
fn pinned_together(pods: &[&PodTemplate<'_>]) -> bool {
    let mut nodes = pods.iter().map(|pod| pinned_node(pod));
    match nodes.next() {
        Some(Some(first)) => nodes.all(|node| node == Some(first)),
        _ => false,
    }
}

/// The kind of a node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeNameKind {
    Node,
    Host,
}

/// The only node that pods can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pin<'a> {
    name: NodeNameKind,
    node: &'a str,
}

/// Returns the only node that a template's pods can run on, if it names one.
fn pinned_node<'a>(pod: &PodTemplate<'a>) -> Option<Pin<'a>> {
    if let Field::Set(node) = pod.spec.get("nodeName").text() {
        return Some(Pin { name: NodeNameKind::Node, node }).filter(|pin| !pin.node.is_empty());
    }
    if let Field::Set(node) = pod.spec.at(&["nodeSelector", HOSTNAME]).text() {
        return Some(Pin { name: NodeNameKind::Host, node });
    }
    let required = pod.spec.at(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
    // Terms are alternatives, so all must name the same node.
    let mut nodes = required.items().map(|term| node_of_term(&term));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

/// Returns the only node that a node selector term allows, if it names one.
fn node_of_term<'a>(term: &Part<'a>) -> Option<Pin<'a>> {
    let one = |list: &'static str, key: &'static str, name: NodeNameKind| {
        term.get(list).mappings().find_map(|expression| {
            let names = expression.get("key").text() == Field::Set(key)
                && expression.get("operator").text() == Field::Set("In");
            let values = expression.get("values").value?.as_array()?;
            match values.as_slice() {
                [Value::String(node)] if names && !placeholder::is_placeholder(node) => {
                    Some(Pin { name, node })
                }
                _ => None,
            }
        })
    };
    one("matchExpressions", HOSTNAME, NodeNameKind::Host)
        .or_else(|| one("matchFields", "metadata.name", NodeNameKind::Node))
}

/// Tells whether each template requires a node with pods that match all templates.
fn attracted_together(workload: &Workload<'_>, pods: &[&PodTemplate<'_>], among: Among) -> bool {
    // Most templates have none.
    if pods.is_empty() || !pods.iter().all(|pod| required(pod, "podAffinity").next().is_some()) {
        return false;
    }
    let labels = PodLabels::new(workload, pods, among);
    let namespace = workload.object.at(&["metadata", "namespace"]).text().set().unwrap_or_default();
    pods.iter().all(|pod| required(pod, "podAffinity").any(|term| attracts(&term, &labels, namespace, among)))
}

/// Returns the required terms of a `podAffinity` or `podAntiAffinity`.
fn required<'a>(pod: &PodTemplate<'a>, affinity: &'static str) -> impl Iterator<Item = Part<'a>> + use<'a> {
    pod.spec.at(&["affinity", affinity, "requiredDuringSchedulingIgnoredDuringExecution"]).items()
}

/// The labels of the pods of several templates, by key, so that a selector is checked against all of them at
/// once.
struct PodLabels<'a> {
    templates: usize,
    by_key: BTreeMap<&'a str, LabelValues<'a>>,
}

/// The values of the pods' labels under one key.
#[derive(Default)]
struct LabelValues<'a> {
    /// How many templates have the key.
    templates: usize,
    distinct: BTreeSet<Cow<'a, str>>,
}

impl<'a> PodLabels<'a> {
    fn new(workload: &Workload<'a>, pods: &[&PodTemplate<'a>], among: Among) -> Self {
        let mut by_key: BTreeMap<&'a str, LabelValues<'a>> = BTreeMap::new();
        let made = made_labels(workload, among);
        for pod in pods {
            let own = pod.template.at(&["metadata", "labels"]);
            let own =
                own.entries().filter_map(|(key, value)| Some((key, Cow::Borrowed(value.value?.as_str()?))));
            let own =
                own.filter(|(key, _)| *key != REPLICA_TYPE && !made.iter().any(|(made, _)| made == key));
            let replica_type = pod.role().map(|role| (REPLICA_TYPE, Cow::Owned(role.to_lowercase())));
            for (key, value) in own.chain(replica_type) {
                let values = by_key.entry(key).or_default();
                values.templates += 1;
                values.distinct.insert(value);
            }
        }
        by_key.extend(made.into_iter().map(|(key, value)| {
            (key, LabelValues { templates: pods.len(), distinct: BTreeSet::from([Cow::Borrowed(value)]) })
        }));
        Self { templates: pods.len(), by_key }
    }

    /// Returns the values of a key, if all pods have it.
    fn of_all(&self, key: &str) -> Option<&BTreeSet<Cow<'a, str>>> {
        self.by_key
            .get(key)
            .filter(|values| values.templates == self.templates)
            .map(|values| &values.distinct)
    }

    /// Tells whether a label selector selects every pod.
    fn are_selected_by(&self, selector: &Part<'_>) -> bool {
        let equal = selector.get("matchLabels").entries().all(|(key, value)| {
            let wanted = value.value.and_then(Value::as_str);
            self.of_all(key)
                .zip(wanted)
                .is_some_and(|(values, wanted)| values.len() == 1 && values.contains(wanted))
        });
        let expressions = selector.get("matchExpressions").items().all(|expression| {
            let Field::Set(key) = expression.get("key").text() else { return false };
            let listed: BTreeSet<&str> =
                expression.get("values").items().filter_map(|value| value.value?.as_str()).collect();
            match expression.get("operator").text() {
                // Iterate over the listed values, not over all pods for each expression.
                Field::Set("In") => self.of_all(key).is_some_and(|values| {
                    listed.iter().filter(|listed| values.contains(**listed)).count() == values.len()
                }),
                // Controllers add labels with unknown values.
                Field::Set("NotIn" | "DoesNotExist") if is_of_controllers(key) => false,
                Field::Set("NotIn") => self
                    .by_key
                    .get(key)
                    .is_none_or(|values| !listed.iter().any(|listed| values.distinct.contains(*listed))),
                Field::Set("Exists") => self.of_all(key).is_some(),
                Field::Set("DoesNotExist") => !self.by_key.contains_key(key),
                _ => false,
            }
        });
        equal && expressions
    }
}

/// Tells whether a required pod affinity term puts all pods on one node.
fn attracts(term: &Part<'_>, labels: &PodLabels<'_>, namespace: &str, among: Among) -> bool {
    let same_namespace = {
        let names: Vec<&str> =
            term.get("namespaces").items().filter_map(|name| name.value.and_then(Value::as_str)).collect();
        names.is_empty() || names.contains(&namespace)
    };
    // A term without a selector matches no pod, `{}` all pods.
    let selector = term.get("labelSelector");
    // `matchLabelKeys` adds the pod's own values, which differ between runs.
    let keys_fit = term.get("matchLabelKeys").items().all(|key| {
        let key = key.value.and_then(Value::as_str).unwrap_or_default();
        among == Among::OneRun || labels.of_all(key).is_some() && !is_made_per_run(key)
    });
    term.get("topologyKey").text() == Field::Set(HOSTNAME)
        && same_namespace
        && keys_fit
        && selector.is_mapping()
        && labels.are_selected_by(&selector)
}

/// Tells whether controllers set a label.
fn is_of_controllers(key: &str) -> bool {
    is_made_per_run(key)
        || key.starts_with("batch.kubernetes.io/")
        || key.starts_with("training.kubeflow.org/")
}

/// Tells whether controllers set a different value for each run of a CronJob.
fn is_made_per_run(key: &str) -> bool {
    matches!(
        key,
        "job-name" | "controller-uid" | "batch.kubernetes.io/job-name" | "batch.kubernetes.io/controller-uid"
    )
}

/// The label with the replica type of a pod.
const REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";

/// Returns the labels that the controller sets on all pods of a run.
fn made_labels<'a>(workload: &Workload<'a>, among: Among) -> Vec<(&'a str, &'a str)> {
    let name = workload.object.at(&["metadata", "name"]).text().set().unwrap_or_default();
    // Each of several runs has its own name, shared by all its pods.
    let is_known = workload.schedule.is_none() || among == Among::OneRun;
    let value = |value: &LabelValue| match value {
        LabelValue::NameOfRun => is_known.then_some(name),
        LabelValue::Text(text) => Some(*text),
    };
    workload.kind.pod_labels.iter().filter_map(|(label, text)| Some((*label, value(text)?))).collect()
}
