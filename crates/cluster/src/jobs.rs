//! A Job of a cluster and its pods, for a command that looks once. It only gets and lists.

use std::time::Duration;

use kube::Client;
use serde::Deserialize;

use super::fetch::{self, Failure, MAX_OBJECT_BYTES};
use super::list::{PAGE, Pages};
use jobgate_core::text::value::Value;

/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long all pages of pods may take together.
const PODS_TIMEOUT: Duration = Duration::from_secs(60);
/// A page of pods that is larger is read again in smaller pieces.
const MAX_PAGE_BYTES: usize = 32 << 20;

/// Returns a Job.
///
/// # Errors
///
/// It cannot be read, or there is none.
pub async fn job(client: &Client, namespace: &str, name: &str) -> Result<Value, Failure> {
    if !fetch::is_name(namespace) || !fetch::is_name(name) {
        return Err(Failure::NotFound);
    }
    let uri = format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}");
    fetch::value(client, uri, MAX_OBJECT_BYTES, ANSWER_TIMEOUT).await
}

#[derive(Deserialize)]
struct PodPage {
    #[serde(default)]
    metadata: PodPageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PodPageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Calls a function with the pods that the selector of a Job selects, until there are `most`. Returns whether there are
/// more.
///
/// # Errors
///
/// They cannot be listed, or not in time.
pub async fn pods(
    client: &Client,
    job: &Value,
    most: usize,
    mut take: impl FnMut(Value),
) -> Result<bool, Failure> {
    let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    if !fetch::is_name(namespace) {
        return Err(Failure::NotFound);
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let mut pages = Pages::new(client, &path, PAGE, MAX_PAGE_BYTES, ANSWER_TIMEOUT)
        .selected(&selector(job, text("/metadata/uid")));
    let all = async {
        let mut left = most;
        loop {
            let page: PodPage = serde_json::from_slice(&pages.fetch().await?)?;
            for mut pod in page.items {
                if left == 0 {
                    return Ok(true);
                }
                left -= 1;
                // Items of a list have neither.
                if let Some(fields) = pod.as_object_mut() {
                    fields.insert("apiVersion", "v1".into());
                    fields.insert("kind", "Pod".into());
                }
                take(pod);
            }
            if !pages.turn(page.metadata.next.as_deref().unwrap_or_default()) {
                return Ok(false);
            }
        }
    };
    tokio::time::timeout(PODS_TIMEOUT, all).await.unwrap_or(Err(Failure::Silence))
}

/// Returns the labels of the pods of a Job: what its selector says, as its controller lists them.
fn selector(job: &Value, uid: &str) -> String {
    let labels = job.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let pairs: Vec<String> = labels
        .into_iter()
        .flat_map(|labels| labels.iter())
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    if pairs.is_empty() { format!("batch.kubernetes.io/controller-uid={uid}") } else { pairs.join(",") }
}

#[cfg(test)]
mod tests {
    use jobgate_core::text::value::json;

    use super::*;

    #[test]
    fn pods_are_selected_as_the_controller_does() {
        let job = json!({"spec": {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u", "a": "b"}}}});
        assert_eq!(selector(&job, "u"), "a=b,batch.kubernetes.io/controller-uid=u");
        assert_eq!(selector(&json!({}), "u"), "batch.kubernetes.io/controller-uid=u");
    }
}
