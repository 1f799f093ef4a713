//! A Job, or an object of an operator, of a cluster, with what it made, for a command that looks once. It only gets and
//! lists.

use std::time::Duration;

use kube::Client;
use serde::Deserialize;

use super::fetch::{self, Failure, MAX_OBJECT_BYTES};
use super::list::{PAGE, Pages};
use jobgate_core::text::value::Value;

/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long all pages of a list may take together.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// A page that is larger is read again in smaller pieces.
const MAX_PAGE_BYTES: usize = 32 << 20;

/// A kind that is read: its group and version, and its resource in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `kind`.
    pub kind: &'static str,
    /// The group; empty for the core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The name in the API: `jobs`.
    pub plural: &'static str,
}

/// Jobs.
pub const JOBS: Resource = Resource { kind: "Job", group: "batch", version: "v1", plural: "jobs" };
/// Pods.
pub const PODS: Resource = Resource { kind: "Pod", group: "", version: "v1", plural: "pods" };

impl Resource {
    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the path of the list in a namespace.
    fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version(), self.plural)
    }
}

/// Returns an object.
///
/// # Errors
///
/// It cannot be read, or there is none.
pub async fn object(
    client: &Client,
    resource: Resource,
    namespace: &str,
    name: &str,
) -> Result<Value, Failure> {
    if !fetch::is_name(namespace) || !fetch::is_name(name) {
        return Err(Failure::NotFound);
    }
    let uri = format!("{}/{name}", resource.path(namespace));
    fetch::value(client, uri, MAX_OBJECT_BYTES, ANSWER_TIMEOUT).await
}

#[derive(Deserialize)]
struct JobsPage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Calls a function with the objects of a namespace that have some labels, until there are `most`. Returns whether there are
/// more.
///
/// # Errors
///
/// They cannot be listed, or not in time.
pub async fn list(
    client: &Client,
    resource: Resource,
    (namespace, selector): (&str, &str),
    most: usize,
    mut take: impl FnMut(Value),
) -> Result<bool, Failure> {
    if !fetch::is_name(namespace) {
        return Err(Failure::NotFound);
    }
    let path = resource.path(namespace);
    let mut pages = Pages::new(client, &path, PAGE, MAX_PAGE_BYTES, ANSWER_TIMEOUT).selected(selector);
    let all = async {
        let mut left = most;
        loop {
            let page: JobsPage = serde_json::from_slice(&pages.fetch().await?)?;
            for mut object in page.items {
                if left == 0 {
                    return Ok(true);
                }
                left -= 1;
                // Items of a list have neither.
                if let Some(fields) = object.as_object_mut() {
                    fields.insert("apiVersion", resource.api_version().into());
                    fields.insert("kind", resource.kind.into());
                }
                take(object);
            }
            if !pages.turn(page.metadata.next.as_deref().unwrap_or_default()) {
                return Ok(false);
            }
        }
    };
    tokio::time::timeout(LIST_TIMEOUT, all).await.unwrap_or(Err(Failure::Silence))
}

/// Returns the labels of the pods of a Job: what its selector says, as its controller lists them.
#[must_use]
pub fn selector(job: &Value) -> String {
    let uid = job.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
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
        let job = json!({"metadata": {"uid": "u"}, "spec": {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u", "a": "b"}}}});
        assert_eq!(selector(&job), "a=b,batch.kubernetes.io/controller-uid=u");
        assert_eq!(selector(&json!({"metadata": {"uid": "u"}})), "batch.kubernetes.io/controller-uid=u");
    }
}
