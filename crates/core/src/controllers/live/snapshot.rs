//! The Jobs of a cluster and their pods, gathered from objects in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{items, owned, tagged, text};
use super::job::LiveJob;
use super::pod::LivePod;
use crate::text::value::Value;

/// How many pods are looked at, of all Jobs together.
const MOST_PODS: usize = 100_000;

/// The Jobs of a cluster and their pods, at a moment.
#[derive(Clone, Debug, Default)]
pub struct LiveSnapshot {
    now: i64,
    jobs: Vec<LiveJob>,
    names: BTreeSet<(Option<String>, String)>,
    pods: BTreeMap<(String, String), (PodOwner, LivePod)>,
    /// How many pods were too many.
    left_out: usize,
    /// The names of Jobs that were there twice.
    doubled: BTreeSet<String>,
}

/// Who made a pod.
#[derive(Clone, Debug)]
struct PodOwner {
    uid: Option<String>,
    name: Option<String>,
}

/// Tells whether a Job comes from a cluster, and is no manifest: it was created, and has a status.
#[must_use]
pub fn is_live(object: &Value) -> bool {
    let is_job = text(object, "/kind") == Some("Job")
        && text(object, "/apiVersion").is_some_and(|version| version.starts_with("batch/"));
    let status = object.get("status").and_then(Value::as_object);
    is_job
        && text(object, "/metadata/creationTimestamp").is_some()
        && status.is_some_and(|status| !status.is_empty())
}

impl LiveSnapshot {
    /// Makes an empty one, of a moment in milliseconds since 1970.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self { now, ..Self::default() }
    }

    /// Adds a Job; of several with one name, the first is the one.
    pub fn add_job(&mut self, object: &Value) {
        let job = LiveJob::from_object(object, self.now);
        if self.names.insert((job.namespace.clone(), job.name.clone())) {
            self.jobs.push(job);
        } else {
            self.doubled.insert(job.name);
        }
    }

    /// Adds a pod that a Job made; another is left out. Returns whether it is a pod.
    pub fn add_pod(&mut self, object: &Value) -> bool {
        if text(object, "/kind") != Some("Pod") || text(object, "/apiVersion") != Some("v1") {
            return false;
        }
        let Some(owner) = PodOwner::from_object(object) else { return true };
        let key = (
            owned(object, "/metadata/namespace").unwrap_or_default(),
            owned(object, "/metadata/name").unwrap_or_default(),
        );
        if self.pods.len() >= MOST_PODS {
            self.left_out += usize::from(!self.pods.contains_key(&key));
            return true;
        }
        let now = self.now;
        self.pods.entry(key).or_insert_with(|| (owner, LivePod::from_object(object, now)));
        true
    }

    /// Tells whether there is no Job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns what was left out, in words.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut words: Vec<String> = self
            .doubled
            .iter()
            .map(|name| format!("the Job {name} is there more than once: the first is used"))
            .collect();
        if self.left_out > 0 {
            words.push(format!("{} more pods are left out: {MOST_PODS} are looked at", self.left_out));
        }
        words
    }

    /// Returns the Jobs in order, each with its pods.
    #[must_use]
    pub fn into_jobs(self) -> Vec<LiveJob> {
        let Self { mut jobs, pods, .. } = self;
        let mut by_uid = BTreeMap::new();
        let mut by_name = BTreeMap::new();
        for (nth, job) in jobs.iter().enumerate() {
            let namespace = job.namespace.clone().unwrap_or_default();
            if let Some(uid) = &job.uid {
                by_uid.insert((namespace.clone(), uid.clone()), nth);
            }
            by_name.insert((namespace, job.name.clone()), nth);
        }
        for ((namespace, _), (owner, pod)) in pods {
            // A Job that was deleted and created again has the name of the one before, and other pods: the name says
            // whose a pod is only where one of the two has no uid.
            let is_named = |nth: &&usize| {
                owner.uid.is_none() || jobs.get(**nth).is_some_and(|job: &LiveJob| job.uid.is_none())
            };
            let by_uid = owner.uid.as_ref().and_then(|uid| by_uid.get(&(namespace.clone(), uid.clone())));
            let named = owner.name.as_ref().and_then(|name| by_name.get(&(namespace, name.clone())));
            let nth = by_uid.or_else(|| named.filter(is_named)).copied();
            if let Some(job) = nth.and_then(|nth| jobs.get_mut(nth)) {
                job.pods.push(pod);
            }
        }
        jobs.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        jobs
    }
}

impl PodOwner {
    /// Returns the Job of a pod: its controller, else what its labels say.
    fn from_object(object: &Value) -> Option<Self> {
        let mut owners = items(object, "/metadata/ownerReferences");
        let controller = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        if let Some(owner) = controller {
            if text(owner, "/kind") != Some("Job") {
                return None;
            }
            return Some(Self { uid: owned(owner, "/uid"), name: owned(owner, "/name") });
        }
        let label = |key: &str| tagged(object, "labels", key).map(str::to_owned);
        let uid = label("batch.kubernetes.io/controller-uid").or_else(|| label("controller-uid"));
        let name = label("batch.kubernetes.io/job-name").or_else(|| label("job-name"));
        (uid.is_some() || name.is_some()).then_some(Self { uid, name })
    }
}
