//! The queue that is assumed of an object that names one: it has quota for the object alone, gives it at once, and nobody else
//! is in it until a story says so.

use std::collections::BTreeSet;

use super::super::queue_name::{QUEUE, queue_of};
use super::quota;
use super::webhook;
use crate::text::value::{Map, Value, json};

/// The class of priority of who preempts.
const ABOVE: &str = "above";
/// Its value: the highest that is not of Kubernetes itself.
const HIGHEST: i64 = 1_000_000_000;
/// The Job that preempts, which is the role of its pods too: no other is called so.
pub(in super::super::super) const PREEMPTOR: &str = "queue/preemptor";
/// Quota that is enough for every resource of a run.
const PLENTY: &str = "1P";

const API: &str = "kueue.x-k8s.io/v1beta2";

/// Returns the queue of an object and what belongs to it; nothing where it names no queue. It has quota for so many pods.
pub(in super::super) fn queues(manifest: &Value, pods: u32) -> Vec<Value> {
    let Some(queue) = queue_of(manifest) else { return Vec::new() };
    let template = manifest.pointer("/spec/template").unwrap_or(&Value::Null);
    let mut resources = vec![json!({"name": quota::PODS, "nominalQuota": pods})];
    let names: BTreeSet<String> = quota::of_pod(template).into_keys().collect();
    resources.extend(names.into_iter().map(|name| json!({"name": name, "nominalQuota": PLENTY})));
    let class = |name: &str, value: i64| json!({"apiVersion": API, "kind": super::PRIORITY_CLASS, "metadata": {"name": name}, "value": value});
    let own = webhook::priority_class(manifest).filter(|class| *class != ABOVE);
    let mut all = vec![
        json!({"apiVersion": API, "kind": super::CLUSTER_QUEUE, "metadata": {"name": queue}, "spec": {
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"flavors": [{"name": "assumed", "resources": resources}]}],
        }}),
        json!({"apiVersion": API, "kind": super::LOCAL_QUEUE, "metadata": {"name": queue},
            "spec": {"clusterQueue": queue}}),
        class(ABOVE, HIGHEST),
    ];
    all.extend(own.map(|name| class(name, 0)));
    all
}

/// Returns a Job in a queue that preempts what is there, with so many pods.
pub(in super::super::super) fn preemptor(queue: &str, pods: u32) -> Value {
    let mut labels = Map::new();
    labels.insert(QUEUE, queue.into());
    labels.insert(webhook::PRIORITY, ABOVE.into());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": PREEMPTOR, "labels": labels},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "other"}]}},
        },
    })
}
