//! What is seen of the objects of operators: when each is made, deleted and gone, each change of its conditions and its phase,
//! its last status, and the reasons of events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobgate::text::value::Value;
use serde_json::json;
use tokio::task::JoinHandle;

use super::super::watch::{follow, lock, note};
use crate::api::Api;
use crate::kubelet::timeline::tenths;

/// The kinds that are watched: the operator without which there is none (nothing: there always is), and where they are. A row
/// is about an object of one of them.
const WATCHED: [(&str, &str, &str); 14] = [
    ("", "Job", "/apis/batch/v1/jobs"),
    ("jobset", "JobSet", "/apis/jobset.x-k8s.io/v1alpha2/jobsets"),
    ("trainer", "TrainJob", "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"),
    ("training-operator", "PyTorchJob", "/apis/kubeflow.org/v1/pytorchjobs"),
    ("training-operator", "TFJob", "/apis/kubeflow.org/v1/tfjobs"),
    ("training-operator", "XGBoostJob", "/apis/kubeflow.org/v1/xgboostjobs"),
    ("training-operator", "PaddleJob", "/apis/kubeflow.org/v1/paddlejobs"),
    ("training-operator", "JAXJob", "/apis/kubeflow.org/v1/jaxjobs"),
    ("mpi-operator", "MPIJob", "/apis/kubeflow.org/v2beta1/mpijobs"),
    ("kueue", "Workload", "/apis/kueue.x-k8s.io/v1beta2/workloads"),
    ("kuberay", "RayJob", "/apis/ray.io/v1/rayjobs"),
    ("kuberay", "RayCluster", "/apis/ray.io/v1/rayclusters"),
    // Volcano calls it Job.
    ("volcano", "VolcanoJob", "/apis/batch.volcano.sh/v1alpha1/jobs"),
    ("volcano", "PodGroup", "/apis/scheduling.volcano.sh/v1beta1/podgroups"),
];

/// The operator of Jobs: those of rows are in a queue of its.
const OF_JOBS: &str = "kueue";

/// The watch of all of them; it ends when this is dropped.
pub(in crate::simulated) struct Objects {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What was seen in a namespace. Times are in seconds since the main object was created.
pub(in crate::simulated) struct Seen {
    began: Instant,
    /// In the order in which they were made.
    pub(in crate::simulated) objects: Vec<ObjectSeen>,
    /// The names of Ray clusters, in the order in which they or their names in a RayJob were seen.
    pub(in crate::simulated) clusters: Vec<String>,
    /// The ids under which RayJobs have submitted programs, other than those that they were made with.
    pub(in crate::simulated) submissions: Vec<String>,
    /// The reasons of events.
    pub(in crate::simulated) events: BTreeSet<String>,
}

/// What was seen of an object.
pub(in crate::simulated) struct ObjectSeen {
    uid: String,
    pub(in crate::simulated) kind: &'static str,
    pub(in crate::simulated) name: String,
    pub(in crate::simulated) created: f64,
    /// Each change of a condition.
    pub(in crate::simulated) conditions: Vec<serde_json::Value>,
    /// Each change of what Volcano and KubeRay have beside conditions: the time, and the fields.
    pub(in crate::simulated) phases: Vec<serde_json::Value>,
    pub(in crate::simulated) status: serde_json::Value,
    pub(in crate::simulated) deleting: Option<f64>,
    pub(in crate::simulated) gone: Option<f64>,
}

impl Objects {
    /// Watches the kinds of these operators.
    pub(in crate::simulated) fn watch(api: &Api, operators: &[&str]) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, Seen>>> = Arc::default();
        let mut tasks = Vec::new();
        for (operator, kind, path) in WATCHED {
            if operator.is_empty() || operators.contains(&operator) {
                let into = Arc::clone(&seen);
                let each = move |word: &str, object: &Value| {
                    if let Some(seen) = lock(&into).get_mut(namespace(object)) {
                        seen.take(kind, object, word == "DELETED");
                    }
                };
                tasks.push(api.spawn(follow(api.client.clone(), path.to_owned(), each)));
            }
        }
        let into = Arc::clone(&seen);
        let each = move |_: &str, event: &Value| {
            if let Some(seen) = lock(&into).get_mut(namespace(event)) {
                seen.events.extend(event["reason"].as_str().map(str::to_owned));
            }
        };
        tasks.push(api.spawn(follow(api.client.clone(), "/api/v1/events".to_owned(), each)));
        Self { seen, tasks }
    }

    /// Returns the operator of a kind that rows are about; nothing where it is not watched.
    pub(in crate::simulated) fn operator(kind: &str) -> Option<&'static str> {
        let (operator, ..) = WATCHED.iter().find(|(_, known, _)| *known == kind)?;
        Some(if operator.is_empty() { OF_JOBS } else { *operator })
    }

    /// Begins to count time in a namespace: what was seen before was there when it began.
    pub(in crate::simulated) fn begin(&self, namespace: &str) {
        let new = || Seen {
            began: Instant::now(),
            objects: Vec::new(),
            clusters: Vec::new(),
            submissions: Vec::new(),
            events: BTreeSet::new(),
        };
        let mut all = lock(&self.seen);
        let seen = all.entry(namespace.to_owned()).or_insert_with(new);
        seen.began = Instant::now();
        for object in &mut seen.objects {
            object.created = 0.0;
            object.conditions.iter_mut().for_each(|condition| condition["at"] = json!(0.0));
        }
    }

    /// Returns what was seen in a namespace, and the time until now.
    pub(in crate::simulated) fn seen(&self, namespace: &str) -> Option<(Seen, Duration)> {
        let seen = lock(&self.seen).remove(namespace)?;
        let until = seen.began.elapsed();
        Some((seen, until))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

impl Seen {
    fn take(&mut self, kind: &'static str, object: &Value, is_gone: bool) {
        let at = tenths(self.began.elapsed());
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let uid = text("uid");
        let place = self.objects.iter().position(|seen| seen.uid == uid);
        if kind == "RayCluster" {
            note_name(&mut self.clusters, &text("name"));
        }
        if kind == "RayJob" {
            self.take_names(object);
        }
        let place = place.unwrap_or_else(|| {
            self.objects.push(ObjectSeen {
                uid,
                kind,
                name: text("name"),
                created: at,
                conditions: Vec::new(),
                phases: Vec::new(),
                status: json!({}),
                deleting: None,
                gone: None,
            });
            self.objects.len() - 1
        });
        let seen = &mut self.objects[place];
        let is_deleting = object["metadata"].get("deletionTimestamp").is_some();
        // One that goes at once is never seen in deletion.
        if !is_gone && is_deleting {
            seen.deleting.get_or_insert(at);
        }
        seen.gone = is_gone.then_some(at);
        seen.status = serde_json::from_str(&object["status"].to_string()).unwrap_or_default();
        note(&mut seen.conditions, &seen.status, at);
        seen.note_phase(at, is_deleting);
    }

    /// Notes the names that a RayJob gives to its cluster and its program.
    fn take_names(&mut self, object: &Value) {
        let (spec, status) = (&object["spec"], &object["status"]);
        let is_its_own =
            spec["clusterSelector"].as_object().is_none_or(|labels| labels.iter().next().is_none());
        if let Some(name) = status["rayClusterName"].as_str().filter(|_| is_its_own) {
            note_name(&mut self.clusters, name);
        }
        let is_given = |id: &&str| spec["jobId"] == *id;
        if let Some(id) = status["jobId"].as_str().filter(|id| !is_given(id)) {
            note_name(&mut self.submissions, id);
        }
    }
}

/// Puts a name at the end of a list, if it is new and not empty.
fn note_name(names: &mut Vec<String>, name: &str) {
    if !name.is_empty() && !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

impl ObjectSeen {
    /// Notes what an operator has beside conditions, if it has changed.
    fn note_phase(&mut self, at: f64, is_deleting: bool) {
        let status = &self.status;
        let count = |key: &str| json!(status[key].as_u64().unwrap_or_default());
        let word = |key: &str| json!(status[key].as_str().unwrap_or_default());
        let mut entry = match self.kind {
            "VolcanoJob" => vec![status["state"]["phase"].clone(), count("retryCount"), count("version")],
            "RayJob" => vec![
                status["jobDeploymentStatus"].clone(),
                status["jobStatus"].clone(),
                status["reason"].clone(),
                count("failed"),
                count("succeeded"),
                word("rayClusterName"),
                word("jobId"),
            ],
            _ => return,
        };
        if is_deleting {
            entry.push("deleting".into());
        }
        let last = self.phases.last().and_then(|last| last.as_array()).map(|last| &last[1..]);
        if last != Some(entry.as_slice()) {
            entry.insert(0, json!(at));
            self.phases.push(entry.into());
        }
    }
}
