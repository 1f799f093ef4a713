//! What a Volcano Job asks for, with the defaults of its webhook (`pkg/webhooks/admission/jobs/mutate/mutate_job.go`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::super::super::pod_set::PodTemplate;
use super::super::super::time::Time;
use super::policy::Policy;
use crate::text::value::Value;

/// `maxRetry` of a job and of a task that has none, or 0.
const MAX_RETRY: u32 = 3;

/// The fields of a job's `spec` that its controller looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobSpec {
    /// `tasks`.
    pub(super) tasks: Vec<Task>,
    /// Their places in the list, by name.
    places: BTreeMap<Arc<str>, usize>,
    /// `minAvailable`: without it, that of all tasks together.
    pub(super) min_available: i64,
    /// `minSuccess`.
    pub(super) min_success: Option<i64>,
    /// `maxRetry`.
    pub(super) max_retry: u32,
    /// `policies`.
    pub(super) policies: Vec<Policy>,
    /// Whether one of `volumes` has a `volumeClaimName`: the claim has to be there.
    pub(super) names_claim: bool,
    /// `ttlSecondsAfterFinished`.
    pub(super) ttl: Option<Time>,
}

/// One of `tasks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// `name`: without it, `default` and its place in the list.
    pub(super) name: Arc<str>,
    /// `replicas`.
    pub(super) replicas: u32,
    /// `minAvailable`: without it, that of its partitions, or all replicas.
    pub(super) min_available: i64,
    /// `maxRetry`.
    pub(super) max_retry: u32,
    /// `policies`.
    pub(super) policies: Vec<Policy>,
    /// `dependsOn`.
    pub(super) depends_on: Option<DependsOn>,
    /// `partitionPolicy.partitionSize`; nothing where there are no partitions.
    pub(super) partition: Option<u32>,
    /// `template`.
    pub(super) template: PodTemplate,
}

/// `dependsOn` of a task: the tasks that have to run before its pods are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DependsOn {
    /// `name`.
    pub(super) names: Vec<String>,
    /// Whether one of them is enough: `iteration: any`.
    pub(super) is_any: bool,
}

pub(super) fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Reads a number that is not below 0. What is larger than the API takes is the largest that it takes.
fn count(value: &Value, key: &str) -> Option<u32> {
    let number = value.get(key)?.as_i64()?;
    u32::try_from(number.clamp(0, i64::from(i32::MAX))).ok()
}

/// Returns `ttlSecondsAfterFinished`.
pub(super) fn ttl_of(spec: &Value) -> Option<Time> {
    count(spec, "ttlSecondsAfterFinished").map(|ttl| Time::from_seconds(i64::from(ttl)))
}

impl JobSpec {
    /// Reads `spec`.
    pub(super) fn from_spec(spec: &Value) -> Self {
        // The webhook refuses a second task of a name.
        let mut places = BTreeMap::new();
        let mut tasks: Vec<Task> = Vec::new();
        for (nth, task) in list(spec, "tasks").enumerate() {
            let task = Task::from_task(nth, task);
            if let Entry::Vacant(place) = places.entry(Arc::clone(&task.name)) {
                place.insert(tasks.len());
                tasks.push(task);
            }
        }
        let of_tasks = tasks.iter().map(|task| task.min_available).fold(0, i64::saturating_add);
        Self {
            min_available: spec
                .get("minAvailable")
                .and_then(Value::as_i64)
                .filter(|least| *least != 0)
                .unwrap_or(of_tasks),
            min_success: spec.get("minSuccess").and_then(Value::as_i64),
            max_retry: count(spec, "maxRetry").filter(|retries| *retries > 0).unwrap_or(MAX_RETRY),
            policies: list(spec, "policies").filter_map(Policy::from_policy).collect(),
            names_claim: list(spec, "volumes").any(|volume| {
                volume.get("volumeClaimName").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
            }),
            ttl: ttl_of(spec),
            tasks,
            places,
        }
    }

    /// Returns how many pods there should be (`TotalTasks`, `pkg/controllers/job/state/util.go`).
    pub(super) fn replicas(&self) -> i64 {
        self.tasks.iter().map(|task| i64::from(task.replicas)).fold(0, i64::saturating_add)
    }

    /// Returns the `minAvailable` of all tasks together (`TotalTaskMinAvailable`).
    pub(super) fn tasks_min_available(&self) -> i64 {
        self.tasks.iter().map(|task| task.min_available).fold(0, i64::saturating_add)
    }

    /// Returns the task of a name.
    pub(super) fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.get(self.place(name)?)
    }

    /// Returns the place of a task in the list.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

impl Task {
    fn from_task(nth: usize, task: &Value) -> Self {
        let replicas = count(task, "replicas").unwrap_or(0);
        let partitions = task.get("partitionPolicy").filter(|policy| policy.is_object());
        let partition = partitions.map(|policy| count(policy, "partitionSize").unwrap_or(0));
        let of_partitions = partitions
            .and_then(|policy| count(policy, "minPartitions"))
            .filter(|least| *least > 0)
            .map(|least| i64::from(least) * i64::from(partition.unwrap_or(0)));
        let name = task.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        Self {
            name: name.map_or_else(|| format!("default{nth}").into(), Arc::from),
            replicas,
            min_available: task
                .get("minAvailable")
                .and_then(Value::as_i64)
                .or(of_partitions)
                .unwrap_or(i64::from(replicas)),
            max_retry: count(task, "maxRetry").filter(|retries| *retries > 0).unwrap_or(MAX_RETRY),
            policies: list(task, "policies").filter_map(Policy::from_policy).collect(),
            depends_on: task
                .get("dependsOn")
                .filter(|depends| depends.is_object())
                .map(DependsOn::from_depends),
            partition,
            template: PodTemplate::from_template(task.get("template").unwrap_or(&Value::Null)),
        }
    }
}

impl DependsOn {
    fn from_depends(depends: &Value) -> Self {
        let names = list(depends, "name").filter_map(Value::as_str).map(str::to_owned);
        Self {
            names: names.collect(),
            is_any: depends.get("iteration").and_then(Value::as_str) == Some("any"),
        }
    }
}
