//! Jobs with pods that do not end: those of a node that stopped answering terminate without end, and with
//! `podReplacementPolicy: Failed` no other pod takes their place.

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value as Json;

use super::{MAX_PAGE_BYTES, PAGE_TIMEOUT, Pages, explain, fetch_with_retries};
use crate::fetch::{self, Failure};
use crate::list::PAGE;
use jobgate_core::kinds::Kind;
use jobgate_core::text::value::Value;
use jobgate_report::{Stuck, StuckPod};

/// How long pods may be terminating without being reported. A pod has 30 seconds unless its template allows
/// more.
const LONG: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of Jobs whose pods are looked up.
const MAX_JOBS: usize = 100;
/// Maximum number of pods kept for each Job.
const MAX_PODS: usize = 20;
/// The label on pods with the name of their Job.
const LABEL: &str = "batch.kubernetes.io/job-name";

/// A Job with pods that are terminating.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    namespace: String,
    name: String,
    pods: i64,
    /// When its status was last written: the pods have been terminating at least since then.
    written: Option<Timestamp>,
}

impl Candidate {
    /// Returns a candidate if the object is a Job with pods that are terminating.
    pub(super) fn from_object(object: &Value) -> Option<Self> {
        if Kind::from_object(object)? != Kind::JOB {
            return None;
        }
        let pods = object.pointer("/status/terminating")?.as_i64().filter(|pods| *pods > 0)?;
        let text = |key: &str| object.get("metadata")?.get(key)?.as_str().map(str::to_owned);
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let of_status = entries
            .into_iter()
            .flatten()
            .filter(|entry| entry.get("subresource").and_then(Value::as_str) == Some("status"));
        let times = of_status.filter_map(|entry| entry.get("time")?.as_str()?.parse().ok());
        Some(Self { namespace: text("namespace")?, name: text("name")?, pods, written: times.max() })
    }
}

/// Looks up the pods of Jobs, and returns the Jobs whose pods have been terminating for too long, with
/// notices about what could not be read. If the pods are unknown, the last write of a Job's status is the
/// latest possible start.
pub(super) async fn stuck(
    client: &Client,
    mut candidates: Vec<Candidate>,
    now: Timestamp,
) -> (Vec<Stuck>, Vec<String>) {
    candidates.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let (mut found, mut notices) = (Vec::new(), Vec::new());
    let mut may_list = true;
    for (index, candidate) in candidates.into_iter().enumerate() {
        let mut pods = None;
        if may_list && index < MAX_JOBS {
            match pods_of(client, &candidate, now).await {
                Ok(listed) => pods = Some(listed),
                Err(failure) => {
                    may_list = !matches!(failure, Failure::Forbidden);
                    notices.push(format!(
                        "{}; for pods that are terminating, their names and nodes are unknown",
                        explain("pods", "", &candidate.namespace, &failure)
                    ));
                }
            }
        }
        let Candidate { namespace, name, pods: count, written } = candidate;
        let since = match &pods {
            Some(pods) => pods.iter().map(|pod| pod.since).min(),
            None => written.filter(|time| now.duration_since(*time) > LONG),
        };
        if let Some(since) = since {
            let pods_known = pods.unwrap_or_default();
            found.push(Stuck { namespace, name, terminating: count, since, pods: pods_known });
        }
    }
    (found, notices)
}

/// Returns the pods of a Job that have been terminating for too long, the oldest first.
async fn pods_of(client: &Client, job: &Candidate, now: Timestamp) -> Result<Vec<StuckPod>, Failure> {
    let mut found = Vec::new();
    if !fetch::is_name(&job.namespace) {
        return Ok(found);
    }
    let path = format!("/api/v1/namespaces/{}/pods", job.namespace);
    let mut pages = Pages::new(client, &path, PAGE, MAX_PAGE_BYTES, PAGE_TIMEOUT)
        .selected(&format!("{LABEL}={}", job.name));
    loop {
        let page: Json = serde_json::from_slice(&fetch_with_retries(&mut pages).await?)?;
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        found.extend(items.iter().filter_map(|pod| stuck_pod(pod, now)));
        found.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        found.truncate(MAX_PODS);
        if !pages.turn(page["metadata"]["continue"].as_str().unwrap_or_default()) {
            return Ok(found);
        }
    }
}

/// Returns a pod that has been terminating for too long. Its `deletionTimestamp` is the time by which it
/// should have been gone.
fn stuck_pod(pod: &Json, now: Timestamp) -> Option<StuckPod> {
    let metadata = &pod["metadata"];
    let due: Timestamp = metadata["deletionTimestamp"].as_str()?.parse().ok()?;
    let grace = SignedDuration::from_secs(metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0));
    let is_running = !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    (is_running && now.duration_since(due) > LONG).then(|| StuckPod {
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
        node: pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(),
        since: due.checked_sub(grace).unwrap_or(due),
    })
}
