//! What is seen of the Jobs of a cluster: each change of their conditions and counts, and their deletion.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt as _;
use jobgate::text::value::Value;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::kubelet::timeline::tenths;

/// The watch of all Jobs; it ends when this is dropped.
pub(super) struct Jobs {
    seen: Arc<Mutex<BTreeMap<String, JobSeen>>>,
    task: JoinHandle<()>,
}

/// What was seen of a Job. Times are in seconds since it was created.
#[derive(Clone)]
pub(super) struct JobSeen {
    began: Instant,
    /// Each change of a condition.
    pub(super) conditions: Vec<serde_json::Value>,
    /// Each change of the counts: the time, `active`, `ready`, `terminating`, `succeeded`, `failed`.
    pub(super) counts: Vec<serde_json::Value>,
    /// The last that was seen of `status`.
    pub(super) status: serde_json::Value,
    pub(super) deleting: Option<f64>,
    pub(super) deleted: Option<f64>,
}

impl Jobs {
    pub(super) fn watch(api: &Api) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, JobSeen>>> = Arc::default();
        let into = Arc::clone(&seen);
        let each = move |kind: &str, object: &Value| {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            if let Some(job) = lock(&into).get_mut(namespace) {
                job.take(object, kind == "DELETED");
            }
        };
        let task = api.spawn(follow(api.client.clone(), "/apis/batch/v1/jobs".to_owned(), each));
        Self { seen, task }
    }

    /// Begins to count time for the Job of a namespace.
    pub(super) fn begin(&self, namespace: &str) {
        let new = JobSeen {
            began: Instant::now(),
            conditions: Vec::new(),
            counts: vec![json!([0.0, 0, 0, 0, 0, 0])],
            status: json!({}),
            deleting: None,
            deleted: None,
        };
        lock(&self.seen).insert(namespace.to_owned(), new);
    }

    /// Returns what was seen of the Job of a namespace, and the time until now.
    pub(super) fn seen(&self, namespace: &str) -> Option<(JobSeen, f64)> {
        let seen = lock(&self.seen).remove(namespace)?;
        let until = tenths(seen.began.elapsed());
        Some((seen, until))
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows the objects of a resource: each event, with its type.
pub(super) async fn follow(client: Client, path: String, mut each: impl FnMut(&str, &Value)) {
    loop {
        // Without a version, what is there comes first: nothing is missed after a watch that broke off.
        let request = Request::get(format!("{path}?watch=true&timeoutSeconds=3600"));
        let request = request.body(Body::empty()).expect("a request");
        if let Ok(response) = client.send(request).await {
            let (mut body, mut buffer) = (response.into_body(), Vec::new());
            while let Some(Ok(frame)) = body.frame().await {
                buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
                while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                    each(event["type"].as_str().unwrap_or_default(), &event["object"]);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Notes those conditions of a status that are not as they were seen last.
pub(super) fn note(conditions: &mut Vec<serde_json::Value>, status: &serde_json::Value, at: f64) {
    // Those of Volcano have no type: they are its phases.
    let all = status["conditions"].as_array().into_iter().flatten();
    for condition in all.filter(|condition| condition["type"].is_string()) {
        let mut row = json!({});
        for key in ["type", "status", "reason", "message"] {
            row[key] = condition[key].clone();
        }
        let before = conditions.iter().rev().find(|other| other["type"] == row["type"]);
        let is_same = |other: &serde_json::Value| {
            ["status", "reason", "message"].iter().all(|key| other[*key] == row[*key])
        };
        if !before.is_some_and(is_same) {
            row["at"] = json!(at);
            conditions.push(row);
        }
    }
}

impl JobSeen {
    fn take(&mut self, object: &Value, is_gone: bool) {
        let at = tenths(self.began.elapsed());
        if object["metadata"].get("deletionTimestamp").is_some() {
            self.deleting.get_or_insert(at);
        }
        if is_gone {
            self.deleted = Some(at);
            self.deleting.get_or_insert(at);
        }
        let status: serde_json::Value =
            serde_json::from_str(&object["status"].to_string()).unwrap_or_default();
        note(&mut self.conditions, &status, at);
        let counts = ["active", "ready", "terminating", "succeeded", "failed"];
        let counts: Vec<u64> = counts.iter().map(|key| status[*key].as_u64().unwrap_or_default()).collect();
        let last = self.counts.last().and_then(|last| last.as_array()).map(|last| &last[1..]);
        let is_same = last.is_some_and(|last| last.iter().zip(&counts).all(|(a, b)| a.as_u64() == Some(*b)));
        if !is_same {
            let mut entry = vec![json!(at)];
            entry.extend(counts.iter().map(|count| json!(count)));
            self.counts.push(entry.into());
        }
        self.status = status;
    }
}
