//! Whether all pods of some templates are bound to land on one node (kubernetes.md §5.3).
//!
//! Preferences and spread constraints bind nothing and are not looked at.

use std::collections::BTreeMap;

use super::{Field, Kind, Part, PodTemplate, Workload};
use crate::value::Value;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Which pods must share the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Those of one run.
    OneRun,
    /// Those of several runs of a CronJob, which differ in name and in the labels made from it.
    SeveralRuns,
}

/// Tells whether every pod of the templates is bound to one and the same node.
#[must_use]
pub fn on_one_node(workload: &Workload<'_>, pods: &[&PodTemplate<'_>], among: Among) -> bool {
    pinned_together(pods) || attracted_together(workload, pods, among)
}

/// Tells whether all templates name the same node.
fn pinned_together(pods: &[&PodTemplate<'_>]) -> bool {
    let mut nodes = pods.iter().map(|pod| pinned_node(pod));
    match nodes.next() {
        Some(Some(first)) => nodes.all(|node| node == Some(first)),
        _ => false,
    }
}

/// Returns the one node that a template's pods can run on, if it names one.
fn pinned_node<'a>(pod: &PodTemplate<'a>) -> Option<&'a str> {
    if let Field::Set(name) = pod.spec.get("nodeName").text() {
        return Some(name).filter(|name| !name.is_empty());
    }
    if let Field::Set(host) = pod.spec.at(&["nodeSelector", HOSTNAME]).text() {
        return Some(host);
    }
    let required = pod.spec.at(&["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"]);
    // Terms are alternatives: each must name the same node.
    let mut nodes = required.items().map(|term| node_of_term(&term));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

/// Returns the one node that a node selector term allows, if one of its expressions names one.
fn node_of_term<'a>(term: &Part<'a>) -> Option<&'a str> {
    let one = |list: &'static str, key: &'static str| {
        term.get(list).items().find_map(|expression| {
            let names = expression.get("key").text() == Field::Set(key) && expression.get("operator").text() == Field::Set("In");
            let values = expression.get("values").value?.as_array()?;
            match values.as_slice() {
                [value] if names => value.as_str(),
                _ => None,
            }
        })
    };
    one("matchExpressions", HOSTNAME).or_else(|| one("matchFields", "metadata.name"))
}

/// Tells whether each template requires a node that runs pods which all the templates' pods are among.
fn attracted_together(workload: &Workload<'_>, pods: &[&PodTemplate<'_>], among: Among) -> bool {
    let labels: Vec<BTreeMap<String, String>> = pods.iter().map(|pod| labels(workload, pod, among)).collect();
    let namespace = workload.object.at(&["metadata", "namespace"]).text().set().unwrap_or_default();
    !pods.is_empty()
        && pods.iter().all(|pod| {
            let required = pod.spec.at(&["affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"]);
            required.items().any(|term| attracts(&term, &labels, namespace, among))
        })
}

/// Tells whether a required pod affinity term draws to one node all pods that carry one of the label sets.
fn attracts(term: &Part<'_>, labels: &[BTreeMap<String, String>], namespace: &str, among: Among) -> bool {
    let same_namespace = {
        let names: Vec<&str> = term.get("namespaces").items().filter_map(|name| name.value.and_then(Value::as_str)).collect();
        names.is_empty() || names.contains(&namespace)
    };
    // A term without a selector matches no pod; `{}` matches every one.
    let selector = term.get("labelSelector");
    // `matchLabelKeys` adds the pod's own values: the same within a run, others in the next.
    let keys_fit = term.get("matchLabelKeys").items().all(|key| {
        let key = key.value.and_then(Value::as_str).unwrap_or_default();
        among == Among::OneRun || labels.iter().all(|labels| labels.contains_key(key) && !is_made_per_run(key))
    });
    term.get("topologyKey").text() == Field::Set(HOSTNAME)
        && same_namespace
        && keys_fit
        && selector.is_mapping()
        && labels.iter().all(|labels| selects(&selector, labels))
}

/// Tells whether a label selector selects a set of labels.
fn selects(selector: &Part<'_>, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.get("matchLabels").entries().all(|(key, value)| value.value.and_then(Value::as_str) == labels.get(key).map(String::as_str));
    let expressions = selector.get("matchExpressions").items().all(|expression| {
        let Field::Set(key) = expression.get("key").text() else { return false };
        let have = labels.get(key);
        let listed = || expression.get("values").items().any(|value| value.value.and_then(Value::as_str) == have.map(String::as_str));
        match expression.get("operator").text() {
            Field::Set("In") => have.is_some() && listed(),
            Field::Set("NotIn") => have.is_none() || !listed(),
            Field::Set("Exists") => have.is_some(),
            Field::Set("DoesNotExist") => have.is_none(),
            _ => false,
        }
    });
    equal && expressions
}

/// Tells whether a controller gives the label another value for each run of a CronJob.
fn is_made_per_run(key: &str) -> bool {
    matches!(key, "job-name" | "controller-uid" | "batch.kubernetes.io/job-name" | "batch.kubernetes.io/controller-uid")
}

/// Returns the labels that a template's pods will carry: the author's, and those by which the controller names the run.
fn labels(workload: &Workload<'_>, pod: &PodTemplate<'_>, among: Among) -> BTreeMap<String, String> {
    let own = pod.template.at(&["metadata", "labels"]);
    let mut labels: BTreeMap<String, String> =
        own.entries().filter_map(|(key, value)| Some((key.to_owned(), value.value?.as_str()?.to_owned()))).collect();
    let name = workload.object.at(&["metadata", "name"]).text().set().unwrap_or_default();
    match (workload.kind, &pod.replica) {
        // The name of a run is made when it starts. Within one run all its pods carry the same.
        (Kind::CronJob, _) if among == Among::SeveralRuns => {}
        (Kind::Job | Kind::CronJob, _) => {
            for key in ["job-name", "batch.kubernetes.io/job-name"] {
                labels.insert(key.to_owned(), name.to_owned());
            }
        }
        (Kind::PyTorchJob, replica) => {
            labels.insert("training.kubeflow.org/job-name".to_owned(), name.to_owned());
            labels.insert("training.kubeflow.org/operator-name".to_owned(), "pytorchjob-controller".to_owned());
            if let Some(replica) = replica {
                labels.insert("training.kubeflow.org/replica-type".to_owned(), replica.name.to_lowercase());
            }
        }
    }
    labels
}
