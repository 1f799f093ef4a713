//! A Job of a cluster, as it is at a moment.

use std::borrow::Cow;

use super::super::cluster::JobStatus;
use super::super::indexes::Indexes;
use super::super::job::spec::JobSpec;
use super::super::meta::Condition;
use super::super::time::{Clock, Time};
use super::fields::{deletion, items, number, owned, tagged, text, time};
use super::pod::{Containers, LivePod, last_failed};
use crate::text::value::Value;

/// A Job of a cluster, as it is at a moment. Times count from that moment.
#[derive(Clone, Debug)]
pub struct LiveJob {
    /// `metadata.namespace`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    pub(super) uid: Option<String>,
    /// The object, without its pods.
    pub object: Value,
    /// When it was created.
    pub created: Time,
    /// When it was deleted, where it is in deletion.
    pub deletion: Option<Time>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `spec`, as the controller reads it.
    pub spec: JobSpec,
    pub(super) containers: Containers,
    /// Another controller that runs it: `spec.managedBy`.
    pub manager: Option<String>,
    /// The queue of Kueue: the label `kueue.x-k8s.io/queue-name`.
    pub queue: Option<String>,
    /// The kind and the name of the object that owns it.
    pub owner: Option<(String, String)>,
    /// `status`.
    pub status: JobStatus,
    /// The conditions that are true, with their own words.
    pub conditions: Vec<LiveCondition>,
    /// Its pods, in the order of their names.
    pub pods: Vec<LivePod>,
    /// The clock of the cluster.
    pub(super) clock: Clock,
}

/// A condition that is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCondition {
    /// `type`.
    pub sort: String,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// `lastTransitionTime`.
    pub at: Time,
}

/// The conditions that the controller reads and writes.
const SORTS: [&str; 5] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended"];
/// Their reasons.
const REASONS: [&str; 10] = [
    "BackoffLimitExceeded",
    "CompletionsReached",
    "DeadlineExceeded",
    "FailedIndexes",
    "JobResumed",
    "JobSuspended",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
    "SuccessPolicy",
    "",
];

impl LiveJob {
    /// Reads a Job, at a moment in milliseconds since 1970; its pods are added later.
    pub(super) fn from_object(object: &Value, now: i64) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let created = time(object, "/metadata/creationTimestamp", now).unwrap_or_default();
        let read = JobSpec::from_spec(spec);
        let controller = items(object, "/metadata/ownerReferences")
            .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        let conditions = conditions(object, created, now);
        let object = without_managed_fields(object);
        Self {
            containers: Containers::new(&read.containers),
            namespace: owned(&object, "/metadata/namespace"),
            name: owned(&object, "/metadata/name").unwrap_or_default(),
            uid: owned(&object, "/metadata/uid"),
            created,
            deletion: deletion(&object, now),
            finalizers: items(&object, "/metadata/finalizers")
                .filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect(),
            manager: owned(&object, "/spec/managedBy").filter(|_| read.is_managed_by_other),
            queue: tagged(&object, "labels", "kueue.x-k8s.io/queue-name").map(str::to_owned),
            owner: controller.and_then(|owner| Some((owned(owner, "/kind")?, owned(owner, "/name")?))),
            status: status(&object, &conditions, now),
            spec: read,
            conditions,
            pods: Vec::new(),
            clock: Clock { start: now },
            object,
        }
    }

    /// Returns a condition that is true.
    #[must_use]
    pub fn condition(&self, sort: &str) -> Option<&LiveCondition> {
        self.conditions.iter().find(|condition| condition.sort == sort)
    }

    /// Returns the condition that ends it: `Complete` or `Failed`.
    #[must_use]
    pub fn finished(&self) -> Option<&LiveCondition> {
        self.condition("Complete").or_else(|| self.condition("Failed"))
    }

    /// Returns when the deadline is; nothing where there is none, and while the Job is suspended.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let (deadline, start) = (self.spec.deadline?, self.status.start?);
        (!self.spec.suspend).then(|| start + deadline)
    }

    /// Returns when the TTL controller deletes it.
    #[must_use]
    pub fn expiry(&self) -> Option<Time> {
        Some(self.finished()?.at + self.spec.ttl?)
    }

    /// Returns the name of the pod that failed last, of those that are there.
    #[must_use]
    pub fn last_failed(&self) -> Option<&str> {
        last_failed(&self.pods)
    }

    /// Returns what it is to the object that made it: the `replicatedJob` of a JobSet, or the role of its pods.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        let label = |key: &str| tagged(&self.object, "labels", key);
        label("jobset.sigs.k8s.io/replicatedjob-name").or_else(|| match self.owner.as_ref()?.0.as_str() {
            "MPIJob" => Some("launcher"),
            "RayJob" => Some("submitter"),
            _ => None,
        })
    }

    /// Returns which attempt of its JobSet it is of.
    pub(super) fn attempt(&self) -> Option<u32> {
        tagged(&self.object, "labels", "jobset.sigs.k8s.io/restart-attempt")?.parse().ok()
    }

    /// Returns its number among those of its `replicatedJob`.
    pub(super) fn number(&self) -> Option<u32> {
        tagged(&self.object, "labels", "jobset.sigs.k8s.io/job-index")?.parse().ok()
    }

    /// Returns how long after its end the TTL controller deletes it.
    #[must_use]
    pub fn ttl(&self) -> Option<Time> {
        self.spec.ttl
    }

    /// Tells whether each index has a limit of failures of its own.
    #[must_use]
    pub fn is_per_index(&self) -> bool {
        self.spec.backoff_limit_per_index.is_some()
    }

    /// Returns how many pods are to succeed; nothing for a work queue.
    #[must_use]
    pub fn completions(&self) -> Option<u32> {
        self.spec.completions
    }
}

/// Returns an object without `managedFields`, which may be as long as all the rest.
pub(super) fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Returns the conditions of an object that are true.
pub(super) fn conditions(object: &Value, created: Time, now: i64) -> Vec<LiveCondition> {
    items(object, "/status/conditions")
        .filter(|one| text(one, "/status") == Some("True"))
        .map(|one| LiveCondition {
            sort: owned(one, "/type").unwrap_or_default(),
            reason: owned(one, "/reason").unwrap_or_default(),
            message: owned(one, "/message").unwrap_or_default(),
            at: time(one, "/lastTransitionTime", now).unwrap_or(created),
        })
        .collect()
}

/// Reads the status as the controller does.
fn status(object: &Value, conditions: &[LiveCondition], now: i64) -> JobStatus {
    let count = |key: &str| number(object, &format!("/status/{key}"));
    let indexes = |key: &str| text(object, &format!("/status/{key}")).map(Indexes::parse);
    let known = |list: &[&'static str], word: &str| list.iter().copied().find(|one| *one == word);
    let conditions = conditions.iter().filter_map(|one| {
        Some(Condition {
            sort: known(&SORTS, &one.sort)?,
            is_true: true,
            reason: Cow::Borrowed(known(&REASONS, &one.reason).unwrap_or_default()),
            message: one.message.clone(),
            at: one.at,
        })
    });
    JobStatus {
        active: count("active").unwrap_or_default(),
        ready: count("ready"),
        terminating: count("terminating"),
        succeeded: count("succeeded").unwrap_or_default(),
        failed: count("failed").unwrap_or_default(),
        start: time(object, "/status/startTime", now),
        completed: indexes("completedIndexes").unwrap_or_default(),
        failed_indexes: indexes("failedIndexes"),
        conditions: conditions.collect(),
    }
}
