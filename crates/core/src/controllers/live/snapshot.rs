//! The Jobs and the objects of operators of a cluster, and their pods, gathered from objects in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::super::operators::kind_of;
use super::fields::{owned, text};
use super::job::LiveJob;
use super::object::{LiveObject, live_kind};
use super::owners::Maker;
use super::pod::LivePod;
use super::volcano::LivePodGroup;
use crate::text::value::Value;

/// How many pods are looked at, of all Jobs and objects together.
const MOST_PODS: usize = 100_000;
/// How many Jobs and objects are looked at: each is kept whole, and simulated.
const MOST_OBJECTS: usize = 20_000;

/// The Jobs and the objects of operators of a cluster, and their pods, at a moment.
#[derive(Clone, Debug, Default)]
pub struct LiveSnapshot {
    now: i64,
    jobs: Vec<(LiveJob, Option<Maker>)>,
    objects: Vec<(LiveObject, Option<Maker>)>,
    /// The namespaces, kinds and names that are taken.
    names: BTreeSet<(Option<String>, &'static str, String)>,
    pods: BTreeMap<(String, String), (Maker, LivePod)>,
    /// The PodGroups of Volcano Jobs, each with its namespace.
    pod_groups: Vec<(String, Maker, LivePodGroup)>,
    /// How many pods were too many.
    left_out: usize,
    /// How many Jobs and objects were too many.
    objects_left_out: usize,
    /// The kinds and names of what was there twice.
    doubled: BTreeSet<(&'static str, String)>,
}

/// Jobs and objects of operators, each with what it made.
#[derive(Clone, Debug, Default)]
pub struct LiveParts {
    /// The Jobs that no object here made.
    pub jobs: Vec<LiveJob>,
    /// The objects that no other object here made.
    pub objects: Vec<LiveObject>,
}

/// Tells whether a Job or an object of an operator comes from a cluster, and is no manifest: it was created, and has a
/// status.
#[must_use]
pub fn is_live(object: &Value) -> bool {
    let status = object.get("status").and_then(Value::as_object);
    (is_job(object) || live_kind(object).is_some())
        && text(object, "/metadata/creationTimestamp").is_some()
        && status.is_some_and(|status| !status.is_empty())
}

fn is_job(object: &Value) -> bool {
    text(object, "/kind") == Some("Job")
        && text(object, "/apiVersion").is_some_and(|version| version.starts_with("batch/"))
}

fn is_pod_group(object: &Value) -> bool {
    kind_of(object) == Some("PodGroup")
}

impl LiveSnapshot {
    /// Makes an empty one, of a moment in milliseconds since 1970.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self { now, ..Self::default() }
    }

    /// Adds a Job, or an object of an operator; of several with one kind and name, the first is the one.
    pub fn add(&mut self, object: &Value) {
        if self.jobs.len() + self.objects.len() >= MOST_OBJECTS {
            self.objects_left_out += 1;
            return;
        }
        match LiveObject::from_object(object, self.now) {
            Some(read) if self.is_new(&read.namespace, read.kind, &read.name) => {
                self.objects.push((read, Maker::from_object(object)));
            }
            Some(_) => {}
            None => {
                let read = LiveJob::from_object(object, self.now);
                if self.is_new(&read.namespace, "Job", &read.name) {
                    self.jobs.push((read, Maker::from_object(object)));
                }
            }
        }
    }

    fn is_new(&mut self, namespace: &Option<String>, kind: &'static str, name: &str) -> bool {
        let is_new = self.names.insert((namespace.clone(), kind, name.to_owned()));
        if !is_new {
            self.doubled.insert((kind, name.to_owned()));
        }
        is_new
    }

    /// Adds a pod that a Job or an operator made, or the PodGroup of a Volcano Job; another pod is left out. Returns whether it
    /// is one of these.
    pub fn add_pod(&mut self, object: &Value) -> bool {
        if is_pod_group(object) {
            return self.add_pod_group(object);
        }
        if text(object, "/kind") != Some("Pod") || text(object, "/apiVersion") != Some("v1") {
            return false;
        }
        let Some(owner) = Maker::from_object(object) else { return true };
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

    fn add_pod_group(&mut self, object: &Value) -> bool {
        let maker = Maker::from_object(object).filter(|maker| maker.kinds.contains(&"VolcanoJob"));
        let Some(maker) = maker else { return false };
        if self.pod_groups.len() < MOST_OBJECTS {
            let namespace = owned(object, "/metadata/namespace").unwrap_or_default();
            self.pod_groups.push((namespace, maker, LivePodGroup::from_object(object, self.now)));
        }
        true
    }

    /// Tells whether there is no Job and no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.objects.is_empty()
    }

    /// Returns what was left out, in words.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut words: Vec<String> = self
            .doubled
            .iter()
            .map(|(kind, name)| format!("the {kind} {name} is there more than once: the first is used"))
            .collect();
        if self.left_out > 0 {
            words.push(format!("{} more pods are left out: {MOST_PODS} are looked at", self.left_out));
        }
        if self.objects_left_out > 0 {
            let left_out = self.objects_left_out;
            words
                .push(format!("{left_out} more Jobs and objects are left out: {MOST_OBJECTS} are looked at"));
        }
        words
    }

    /// Returns the Jobs and objects in order, each with what it made.
    #[must_use]
    pub fn into_parts(self) -> LiveParts {
        let Self { mut jobs, mut objects, pods, pod_groups, .. } = self;
        let known = KnownObjects::new(&jobs, &objects);
        for (namespace, maker, pod_group) in pod_groups {
            if let Some(LivePlace::Object(nth)) = known.find(&namespace, &maker)
                && let Some((object, _)) = objects.get_mut(nth)
            {
                object.pod_group.get_or_insert(pod_group);
            }
        }
        for ((namespace, _), (maker, pod)) in pods {
            match known.find(&namespace, &maker) {
                Some(LivePlace::Job(nth)) => {
                    if let Some((job, _)) = jobs.get_mut(nth) {
                        job.pods.push(pod);
                    }
                }
                Some(LivePlace::Object(nth)) => {
                    if let Some((object, _)) = objects.get_mut(nth) {
                        object.pods.push(pod);
                    }
                }
                None => {}
            }
        }
        let mut parts = LiveParts::default();
        for (job, maker) in jobs {
            let place =
                maker.and_then(|maker| known.find(job.namespace.as_deref().unwrap_or_default(), &maker));
            let Some(LivePlace::Object(nth)) = place else {
                parts.jobs.push(job);
                continue;
            };
            if let Some((object, _)) = objects.get_mut(nth) {
                object.jobs.push(job);
            }
        }
        let mut below: BTreeMap<usize, Vec<LiveObject>> = BTreeMap::new();
        let mut top = Vec::new();
        for (nth, (object, maker)) in objects.into_iter().enumerate() {
            let namespace = object.namespace.clone().unwrap_or_default();
            let place = maker.and_then(|maker| known.find(&namespace, &maker));
            match place {
                // A JobSet of a TrainJob, a RayCluster of a RayJob: none of what makes these is made itself.
                Some(LivePlace::Object(of))
                    if of != nth && ["JobSet", "RayCluster"].contains(&object.kind) =>
                {
                    below.entry(of).or_default().push(object);
                }
                _ => top.push((nth, object)),
            }
        }
        for (nth, mut object) in top {
            object.objects = below.remove(&nth).unwrap_or_default();
            object.sort();
            parts.objects.push(object);
        }
        // What an object made that is below another is left to itself.
        parts.objects.extend(below.into_values().flatten());
        parts.objects.sort_by(|a, b| (&a.namespace, a.kind, &a.name).cmp(&(&b.namespace, b.kind, &b.name)));
        parts.jobs.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        parts
    }

    /// Returns the Jobs in order, each with its pods, but for those that an object here made.
    #[must_use]
    pub fn into_jobs(self) -> Vec<LiveJob> {
        self.into_parts().jobs
    }
}

impl LiveObject {
    /// Puts what it made in the order of the names.
    fn sort(&mut self) {
        self.jobs.sort_by(|a, b| a.name.cmp(&b.name));
        self.objects.sort_by(|a, b| a.name.cmp(&b.name));
        self.objects.iter_mut().for_each(Self::sort);
    }
}

/// Where a Job or an object is.
#[derive(Clone, Copy, Debug)]
enum LivePlace {
    Job(usize),
    Object(usize),
}

/// Jobs and objects by what names them.
#[derive(Debug, Default)]
struct KnownObjects {
    by_uid: BTreeMap<(String, String), LivePlace>,
    /// Whether it has a uid, too.
    by_name: BTreeMap<(String, &'static str, String), (LivePlace, bool)>,
}

impl KnownObjects {
    fn new(jobs: &[(LiveJob, Option<Maker>)], objects: &[(LiveObject, Option<Maker>)]) -> Self {
        let mut known = Self::default();
        for (nth, (job, _)) in jobs.iter().enumerate() {
            known.add(&job.namespace, ("Job", &job.name), &job.uid, LivePlace::Job(nth));
        }
        for (nth, (object, _)) in objects.iter().enumerate() {
            known.add(&object.namespace, (object.kind, &object.name), &object.uid, LivePlace::Object(nth));
        }
        known
    }

    fn add(
        &mut self,
        namespace: &Option<String>,
        (kind, name): (&'static str, &str),
        uid: &Option<String>,
        place: LivePlace,
    ) {
        let namespace = namespace.clone().unwrap_or_default();
        if let Some(uid) = uid {
            self.by_uid.insert((namespace.clone(), uid.clone()), place);
        }
        self.by_name.insert((namespace, kind, name.to_owned()), (place, uid.is_some()));
    }

    fn find(&self, namespace: &str, maker: &Maker) -> Option<LivePlace> {
        let uid = maker.uid.as_ref();
        if let Some(place) = uid.and_then(|uid| self.by_uid.get(&(namespace.to_owned(), uid.clone()))) {
            return Some(*place);
        }
        let name = maker.name.as_ref()?;
        // What was deleted and created again has the name of the one before, and other pods: the name says whose a pod is
        // only where one of the two has no uid.
        maker.kinds.iter().find_map(|kind| {
            let (place, has_uid) = self.by_name.get(&(namespace.to_owned(), *kind, name.clone()))?;
            (uid.is_none() || !has_uid).then_some(*place)
        })
    }
}
