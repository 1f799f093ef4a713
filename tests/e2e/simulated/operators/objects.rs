//! What is seen of the objects of operators: when each is made, deleted and gone, each change of its conditions, its last
//! status, and the reasons of events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobgate::text::value::Value;
use serde_json::json;
use tokio::task::JoinHandle;

use super::super::watch::{follow, lock, note};
use crate::api::Api;
use crate::kubelet::timeline::tenths;

/// The kinds that are watched: the operator without which there is none (nothing: there always is), and where they are.
const WATCHED: [(&str, &str, &str); 9] = [
    ("", "Job", "/apis/batch/v1/jobs"),
    ("jobset", "JobSet", "/apis/jobset.x-k8s.io/v1alpha2/jobsets"),
    ("trainer", "TrainJob", "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"),
    ("training-operator", "PyTorchJob", "/apis/kubeflow.org/v1/pytorchjobs"),
    ("training-operator", "TFJob", "/apis/kubeflow.org/v1/tfjobs"),
    ("training-operator", "XGBoostJob", "/apis/kubeflow.org/v1/xgboostjobs"),
    ("training-operator", "PaddleJob", "/apis/kubeflow.org/v1/paddlejobs"),
    ("training-operator", "JAXJob", "/apis/kubeflow.org/v1/jaxjobs"),
    ("mpi-operator", "MPIJob", "/apis/kubeflow.org/v2beta1/mpijobs"),
];

/// The watch of all of them; it ends when this is dropped.
pub(super) struct Objects {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What was seen in a namespace. Times are in seconds since the main object was created.
pub(super) struct Seen {
    began: Instant,
    /// In the order in which they were made.
    pub(super) objects: Vec<ObjectSeen>,
    /// The reasons of events.
    pub(super) events: BTreeSet<String>,
}

/// What was seen of an object.
pub(super) struct ObjectSeen {
    uid: String,
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) created: f64,
    /// Each change of a condition.
    pub(super) conditions: Vec<serde_json::Value>,
    pub(super) status: serde_json::Value,
    pub(super) deleting: Option<f64>,
    pub(super) gone: Option<f64>,
}

impl Objects {
    /// Watches the kinds of these operators.
    pub(super) fn watch(api: &Api, operators: &[&str]) -> Self {
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

    /// Returns the operator of a kind; nothing where it is not watched.
    pub(super) fn operator(kind: &str) -> Option<&'static str> {
        let (operator, ..) = WATCHED.iter().find(|(_, known, _)| *known == kind)?;
        Some(*operator).filter(|operator| !operator.is_empty())
    }

    /// Begins to count time in a namespace.
    pub(super) fn begin(&self, namespace: &str) {
        let new = Seen { began: Instant::now(), objects: Vec::new(), events: BTreeSet::new() };
        lock(&self.seen).insert(namespace.to_owned(), new);
    }

    /// Returns what was seen in a namespace, and the time until now.
    pub(super) fn seen(&self, namespace: &str) -> Option<(Seen, Duration)> {
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
        let place = place.unwrap_or_else(|| {
            self.objects.push(ObjectSeen {
                uid,
                kind,
                name: text("name"),
                created: at,
                conditions: Vec::new(),
                status: json!({}),
                deleting: None,
                gone: None,
            });
            self.objects.len() - 1
        });
        let seen = &mut self.objects[place];
        // One that goes at once is never seen in deletion.
        if !is_gone && object["metadata"].get("deletionTimestamp").is_some() {
            seen.deleting.get_or_insert(at);
        }
        seen.gone = is_gone.then_some(at);
        seen.status = serde_json::from_str(&object["status"].to_string()).unwrap_or_default();
        note(&mut seen.conditions, &seen.status, at);
    }
}
