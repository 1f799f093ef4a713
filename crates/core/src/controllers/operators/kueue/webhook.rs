//! The webhooks of what may wait in a queue (`controller/jobs/job/job_webhook.go`, `controller/jobframework/validation.go`),
//! and the keys that Kueue reads of its metadata.

use super::super::super::cluster::{Cluster, Job};
use super::super::super::subject::suspension;
use super::super::super::time::Time;
use super::super::kinds::suspend_field;
use super::super::queue_name::{QUEUE, entry, kind_in_queue, queue};
use super::workload::{LOCAL_QUEUE, number};
use crate::text::patch::merge;
use crate::text::value::{Value, json};

pub(super) const PRIORITY: &str = "kueue.x-k8s.io/priority-class";
const MAX_EXEC: &str = "kueue.x-k8s.io/max-exec-time-seconds";
const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
const COMPLETIONS: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";
/// The LocalQueue of Jobs that name none, where there is one.
const DEFAULT_QUEUE: &str = "default";

/// Returns the WorkloadPriorityClass of a Job.
pub(super) fn priority_class(manifest: &Value) -> Option<&str> {
    entry(manifest, "labels", PRIORITY)
}

/// Returns the text of `max-exec-time-seconds` of a Job as a time.
pub(super) fn max_execution(manifest: &Value) -> Option<Time> {
    let seconds: i32 = entry(manifest, "labels", MAX_EXEC)?.parse().ok()?;
    (seconds > 0).then(|| Time::from_seconds(i64::from(seconds)))
}

/// Returns with how many pods a Job is content.
pub(super) fn least_pods(manifest: &Value) -> Option<u32> {
    entry(manifest, "annotations", MIN_PARALLELISM)?.parse().ok()
}

/// Tells whether `completions` of a Job follows `parallelism`.
pub(super) fn has_equal_completions(manifest: &Value) -> bool {
    entry(manifest, "annotations", COMPLETIONS) == Some("true")
}

/// Returns the pod template of a Job.
pub(super) fn template(job: &Job) -> &Value {
    job.manifest.pointer("/spec/template").unwrap_or(&Value::Null)
}

/// Tells whether an object of a kind is suspended.
pub(super) fn is_suspended(kind: &str, manifest: &Value) -> bool {
    let field = suspend_field(kind).iter();
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    field.fold(spec, |at, key| at.get(*key).unwrap_or(&Value::Null)).as_bool() == Some(true)
}

/// Suspends what is in a queue when it is created; without a queue, it gets the LocalQueue `default`, if there is one.
pub(super) fn mutate(manifest: &mut Value, cluster: &Cluster) {
    let Some(kind) = kind_in_queue(manifest) else { return };
    if queue(manifest).is_none() && cluster.object(LOCAL_QUEUE, DEFAULT_QUEUE).is_some() {
        merge(manifest, &json!({"metadata": {"labels": {QUEUE: DEFAULT_QUEUE}}}));
    }
    if queue(manifest).is_some() {
        merge(manifest, &json!({"spec": suspension(suspend_field(kind), true)}));
    }
}

/// Tells whether a Job is taken: its queue does not change while it runs, a class of priority is neither removed nor added
/// to a Job that runs, and `max-exec-time-seconds` changes only while it is suspended.
pub(super) fn admits(old: Option<&Value>, new: &Value, cluster: &Cluster) -> bool {
    let is_valid = entry(new, "labels", MAX_EXEC).is_none_or(|_| max_execution(new).is_some());
    let Some(old) = old else { return is_valid && has_valid_least(new) };
    let is_suspended =
        |manifest: &Value| manifest.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
    let is_left = |key: &str| entry(old, "labels", key) == entry(new, "labels", key);
    let is_removed = |key: &str| entry(old, "labels", key).is_some() && entry(new, "labels", key).is_none();
    let is_added = |key: &str| entry(old, "labels", key).is_none() && entry(new, "labels", key).is_some();
    let has_default = cluster.object(LOCAL_QUEUE, DEFAULT_QUEUE).is_some();
    is_valid
        && (is_suspended(new) || is_left(QUEUE))
        && !(has_default && is_removed(QUEUE))
        && !is_removed(PRIORITY)
        && (is_suspended(new) || !is_added(PRIORITY))
        && (is_suspended(new) && is_suspended(old) || is_left(MAX_EXEC))
}

fn has_valid_least(manifest: &Value) -> bool {
    let Some(text) = entry(manifest, "annotations", MIN_PARALLELISM) else { return true };
    let at = |key: &str| manifest.get("spec").and_then(|spec| number(spec, key));
    let parallelism = at("parallelism").unwrap_or(1);
    let pods = at("completions").map_or(parallelism, |completions| completions.min(parallelism));
    text.parse::<u32>().is_ok_and(|least| least > 0 && least < pods)
}
