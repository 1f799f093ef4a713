//! Objects whose pods are refused: their operators try again without end, and some of them write nothing about it.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value as Json;

use super::{MAX_PAGE_BYTES, PAGE_TIMEOUT, Pages, explain, fetch_with_retries};
use crate::fetch::{self, Failure};
use crate::list::PAGE;
use jobgate_core::kinds::{Deadline, Field, Finished, Kind, Workload};
use jobgate_core::text::value::Value;
use jobgate_report::Refused;

/// How long an object may be without a status: operators that are busy take a while.
const LONG: SignedDuration = SignedDuration::from_mins(2);
/// Maximum number of namespaces whose events are read.
const MAX_NAMESPACES: usize = 100;
/// What the API server says in an event of an operator that was refused.
const WORDS: [&str; 2] = ["is invalid:", "forbidden:"];

/// An object that may have pods that are refused.
#[derive(Clone, Debug)]
pub(super) struct RefusedTemplates {
    kind: Kind,
    namespace: String,
    name: String,
    uid: String,
    created: Timestamp,
    /// Whether its operator has written nothing.
    is_silent: bool,
}

impl RefusedTemplates {
    /// Returns one if the object should have pods by now: it is neither suspended nor finished, and its status counts none.
    pub(super) fn from_object(object: &Value, now: Timestamp) -> Option<Self> {
        let kind = Kind::from_object(object).filter(|kind| kind.schedule.is_none())?;
        let workload = Workload::from_object(object)?;
        let runs_nothing =
            matches!(kind.deadline, Deadline::OfOthers { .. }) || kind.finished == Finished::Never;
        if workload.has_finished() || runs_nothing || kind.pods.is_empty() && kind.runs_in.is_none() {
            return None;
        }
        // A Job says in its status that it has pods.
        if kind == Kind::JOB
            && object.pointer("/status/active").and_then(Value::as_i64).is_some_and(|pods| pods > 0)
        {
            return None;
        }
        if workload.limits.get("suspend").bool() == Field::Set(true) {
            return None;
        }
        let text = |key: &str| object.get("metadata")?.get(key)?.as_str().map(str::to_owned);
        let created: Timestamp = text("creationTimestamp")?.parse().ok()?;
        let status = object.get("status").and_then(Value::as_object);
        let conditions = status.and_then(|status| status.get("conditions")?.as_array());
        let is_silent = status.is_none_or(|status| status.is_empty())
            || conditions.is_some_and(|conditions| conditions.is_empty());
        (now.duration_since(created) > LONG).then_some(Self {
            kind,
            namespace: text("namespace")?,
            name: text("name")?,
            uid: text("uid")?,
            created,
            is_silent,
        })
    }
}

/// Reads the events of the namespaces, and returns the objects whose pods are refused, with notices about what could not be
/// read. Where events cannot be read, they are those about which the operators of kubeflow.org have written nothing.
pub(super) async fn refused(
    client: &Client,
    candidates: Vec<RefusedTemplates>,
) -> (Vec<Refused>, Vec<String>) {
    let (mut found, mut notices) = (Vec::new(), Vec::new());
    let mut by_namespace: BTreeMap<String, Vec<RefusedTemplates>> = BTreeMap::new();
    for candidate in candidates {
        by_namespace.entry(candidate.namespace.clone()).or_default().push(candidate);
    }
    let mut may_list = true;
    let left_out = by_namespace.len().saturating_sub(MAX_NAMESPACES);
    if left_out > 0 {
        notices.push(format!("the events of {left_out} namespaces are not read; use `-n` to audit some"));
    }
    for (index, (namespace, candidates)) in by_namespace.into_iter().enumerate() {
        let mut events = None;
        if may_list && index < MAX_NAMESPACES {
            let uids: HashSet<&str> = candidates.iter().map(|candidate| candidate.uid.as_str()).collect();
            match refusals(client, &namespace, &uids).await {
                Ok(listed) => events = Some(listed),
                Err(failure) => {
                    may_list = !matches!(failure, Failure::Forbidden);
                    notices.push(format!(
                        "{}; why pods are refused is unknown",
                        explain("events", "", &namespace, &failure)
                    ));
                }
            }
        }
        for candidate in candidates {
            let refusal = events.as_ref().and_then(|events| events.get(&candidate.uid));
            // Without events, what its operator does not say is all that is known.
            let is_unexplained = events.is_none() && candidate.is_silent && candidate.kind.made.is_silent;
            if refusal.is_none() && !is_unexplained {
                continue;
            }
            found.push(Refused {
                kind: candidate.kind.title().to_lowercase(),
                namespace: candidate.namespace,
                name: candidate.name,
                since: refusal.map_or(candidate.created, |refusal| refusal.since),
                message: refusal.map(|refusal| refusal.message.clone()),
            });
        }
    }
    found.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
    (found, notices)
}

/// What the API server said when it refused a pod or Job of an object.
#[derive(Debug)]
struct PodRefusal {
    /// The time of the first event that says it.
    since: Timestamp,
    message: String,
}

/// Returns the refusals of some objects in the events of a namespace, by their uids.
async fn refusals(
    client: &Client,
    namespace: &str,
    uids: &HashSet<&str>,
) -> Result<BTreeMap<String, PodRefusal>, Failure> {
    let mut found = BTreeMap::new();
    if !fetch::is_name(namespace) {
        return Ok(found);
    }
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let mut pages = Pages::new(client, &path, PAGE, MAX_PAGE_BYTES, PAGE_TIMEOUT);
    loop {
        let page: Json = serde_json::from_slice(&fetch_with_retries(&mut pages).await?)?;
        for event in page["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some((uid, refusal)) = refusal(event).filter(|(uid, _)| uids.contains(uid.as_str())) else {
                continue;
            };
            match found.get_mut(&uid) {
                None => _ = found.insert(uid, refusal),
                Some(known) if refusal.since < known.since => *known = refusal,
                Some(_) => {}
            }
        }
        if !pages.turn(page["metadata"]["continue"].as_str().unwrap_or_default()) {
            return Ok(found);
        }
    }
}

/// Returns the uid of the object that a warning is about, and what it says, if that is a refusal.
fn refusal(event: &Json) -> Option<(String, PodRefusal)> {
    let message = event["message"].as_str().filter(|_| event["type"] == "Warning")?;
    if !WORDS.iter().any(|words| message.contains(words)) {
        return None;
    }
    let times = ["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let since = times.iter().find_map(|at| event.pointer(at)?.as_str()?.parse().ok())?;
    let uid = event["involvedObject"]["uid"].as_str()?.to_owned();
    Some((uid, PodRefusal { since, message: message.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    const NOW: &str = "2026-01-01T12:00:00Z";

    #[test]
    fn only_what_should_have_pods_by_now_may_be_refused() {
        let now: Timestamp = NOW.parse().expect("a time");
        let job = |created: &str, spec: Value, status: Value| {
            let metadata =
                json!({"name": "train", "namespace": "a", "uid": "u", "creationTimestamp": created});
            let object = json!({
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec, "status": status,
            });
            RefusedTemplates::from_object(&object, now).map(|unmade| unmade.is_silent)
        };
        let old = "2026-01-01T11:00:00Z";
        assert_eq!(job(old, json!({}), json!({})), Some(true));
        assert_eq!(job(old, json!({}), json!({"conditions": []})), Some(true));
        assert_eq!(
            job(old, json!({}), json!({"conditions": [{"type": "Created", "status": "True"}]})),
            Some(false)
        );
        assert_eq!(job(old, json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]})), None);
        assert_eq!(job(old, json!({"runPolicy": {"suspend": true}}), json!({})), None);
        assert_eq!(job("2026-01-01T11:59:00Z", json!({}), json!({})), None, "it may take a while");
    }

    #[test]
    fn a_refusal_is_a_warning_with_the_words_of_the_server() {
        let event = |kind: &str, message: &str| {
            serde_json::json!({
                "type": kind, "message": message, "involvedObject": {"uid": "u"}, "firstTimestamp": null,
                "eventTime": "2026-01-01T11:00:00.000000Z",
            })
        };
        let said = "Error creating: Pod \"p\" is invalid: spec.containers[0].env[0].name: Invalid value";
        let (uid, refusal) = refusal(&event("Warning", said)).expect("a refusal");
        assert_eq!((uid.as_str(), refusal.message.as_str()), ("u", said));
        assert!(super::refusal(&event("Normal", said)).is_none());
        assert!(super::refusal(&event("Warning", "Back-off restarting failed container")).is_none());
    }
}
