//! Writes the findings of an audit into the cluster, as policy reports: one for each namespace.
//!
//! ```text
//! Report ──documents──> one report a namespace ──server-side apply──> cluster
//!                                              reports of namespaces without findings ──delete
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;

use super::fetch::{self, Failure};
use crate::causes::chain;
use jobgate_core::text::value::Value;
use jobgate_report::Report;
use jobgate_report::policy_report::{LABEL, NAME, OPEN_REPORTS, POLICY_REPORTS, PolicyReports, documents};

/// The field manager of the reports.
const FIELD_MANAGER: &str = "jobgate-audit";
/// How long the API server may take for one request: its own limit.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of an answer: a report, or a page of names.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// Names on one page of a list.
const PAGE: u32 = 500;
/// Maximum number of failed reports before the rest are skipped.
const MAX_PROBLEMS: usize = 10;

/// The result of publishing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The API, as `group/version`.
    pub api: String,
    /// Reports that were created or updated, or already as they should be.
    pub written: usize,
    /// Reports of namespaces without findings, which were deleted.
    pub deleted: usize,
    /// What could not be written or deleted, and why.
    pub problems: Vec<String>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Unpublished {
    /// The cluster has no such kind.
    #[error(
        "the cluster serves neither {} nor {}: install the CustomResourceDefinitions of OpenReports, \
         https://github.com/openreports/reports-api",
        OPEN_REPORTS.api_version(), POLICY_REPORTS.api_version()
    )]
    NotServed,
    /// It is unknown whether the cluster has one.
    #[error("find out which reports the cluster serves: {0}")]
    Discovery(String),
    /// The audit could not read everything.
    #[error("something could not be read, so nothing was published: reports would lack findings")]
    Incomplete,
}

/// Writes the report of an audit into the cluster. `namespaces` are the audited ones, empty for all; reports
/// of other namespaces are left alone.
///
/// # Errors
///
/// Nothing was written.
pub async fn publish(
    client: &Client,
    report: &Report,
    namespaces: &BTreeSet<String>,
) -> Result<Published, Unpublished> {
    if report.impact.as_ref().is_none_or(|impact| !impact.problems.is_empty()) {
        return Err(Unpublished::Incomplete);
    }
    let api = served(client).await?;
    let mut published = Published { api: api.api_version(), ..Published::default() };
    let mut written: BTreeSet<String> = BTreeSet::new();
    for document in documents(report, api) {
        if published.problems.len() >= MAX_PROBLEMS {
            published.problems.push("and more: the rest was not tried".to_owned());
            return Ok(published);
        }
        let namespace = document["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        // Cluster-scoped objects are judged only in an audit of all namespaces.
        if namespace.is_empty() && !namespaces.is_empty() {
            continue;
        }
        match apply(client, api, &namespace, &document).await {
            Ok(()) => published.written += 1,
            Err(failure) => {
                let list = path(api, &namespace);
                published.problems.push(explain("write", api, &list, &namespace, &failure));
            }
        }
        // A report that could not be written must not be deleted.
        written.insert(namespace);
    }
    prune(client, api, namespaces, &written, &mut published).await;
    Ok(published)
}

/// Returns the API that the cluster serves, OpenReports if it serves both.
async fn served(client: &Client) -> Result<&'static PolicyReports, Unpublished> {
    for api in [&OPEN_REPORTS, &POLICY_REPORTS] {
        let path = format!("/apis/{}/{}", api.group, api.version);
        match fetch::value(client, path, MAX_ANSWER_BYTES, REQUEST_TIMEOUT).await {
            Ok(list) => {
                let resources = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
                let has = |name: &str| resources.iter().any(|resource| resource["name"] == name);
                if has(api.namespaced.1) && has(api.cluster.1) {
                    return Ok(api);
                }
            }
            Err(Failure::NotFound | Failure::Foreign) => {}
            Err(failure) => return Err(Unpublished::Discovery(chain(&failure))),
        }
    }
    Err(Unpublished::NotServed)
}

/// Returns the path of the reports of a namespace; an empty one means those about cluster-scoped objects.
fn path(api: &PolicyReports, namespace: &str) -> String {
    let PolicyReports { group, version, .. } = api;
    match namespace {
        "" => format!("/apis/{group}/{version}/{}", api.cluster.1),
        name => format!("/apis/{group}/{version}/namespaces/{name}/{}", api.namespaced.1),
    }
}

async fn apply(
    client: &Client,
    api: &PolicyReports,
    namespace: &str,
    document: &Value,
) -> Result<(), Failure> {
    let uri = format!("{}/{NAME}?fieldManager={FIELD_MANAGER}&force=true", path(api, namespace));
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(uri)
        .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
        .header(http::header::ACCEPT, NAMES_OF_ONE)
        .body(Body::from(document.to_string().into_bytes()));
    answered(client, request).await.map(drop)
}

/// The `Accept` header for only the metadata of an object, if the API server supports that.
const NAMES_OF_ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same for a list.
const NAMES: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

async fn answered(client: &Client, request: http::Result<Request<Body>>) -> Result<bytes::Bytes, Failure> {
    let answer = async { fetch::read(fetch::send(client, request).await?, MAX_ANSWER_BYTES).await };
    timeout(REQUEST_TIMEOUT, answer).await.unwrap_or(Err(Failure::Silence))
}

/// Deletes the reports of namespaces that have no findings any more.
async fn prune(
    client: &Client,
    api: &PolicyReports,
    namespaces: &BTreeSet<String>,
    written: &BTreeSet<String>,
    published: &mut Published,
) {
    let everywhere = format!("/apis/{}/{}/{}", api.group, api.version, api.namespaced.1);
    let mut lists: Vec<(String, String)> = namespaces
        .iter()
        .filter(|name| fetch::is_name(name))
        .map(|name| (name.clone(), path(api, name)))
        .collect();
    if lists.is_empty() {
        lists = vec![(String::new(), everywhere), (String::new(), path(api, ""))];
    }
    for (namespace, list) in lists {
        let found = match names(client, &list).await {
            Ok(found) => found,
            Err(failure) => {
                published.problems.push(explain("list", api, &list, &namespace, &failure));
                continue;
            }
        };
        for namespace in found.into_iter().filter(|namespace| !written.contains(namespace)) {
            let uri = format!("{}/{NAME}", path(api, &namespace));
            let request =
                Request::delete(uri).header(http::header::ACCEPT, "application/json").body(Body::empty());
            match answered(client, request).await {
                Ok(_) => published.deleted += 1,
                Err(Failure::NotFound) => {}
                Err(failure) => {
                    let list = path(api, &namespace);
                    published.problems.push(explain("delete", api, &list, &namespace, &failure));
                }
            }
            if published.problems.len() >= MAX_PROBLEMS {
                return published.problems.push("and more: the rest was not tried".to_owned());
            }
        }
    }
}

#[derive(Deserialize)]
struct ReportList {
    #[serde(default)]
    metadata: ListMetadata,
    /// A real API server answers `null` if there are none.
    #[serde(default)]
    items: Option<Vec<ReportItem>>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct ReportItem {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Returns the namespaces of Jobgate's existing reports.
async fn names(client: &Client, path: &str) -> Result<Vec<String>, Failure> {
    let selector = fetch::escaped(&format!("{}={}", LABEL.0, LABEL.1));
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let mut uri = format!("{path}?labelSelector={selector}&limit={PAGE}");
        if !next.is_empty() {
            uri.push_str("&continue=");
            uri.push_str(&fetch::escaped(&next));
        }
        let request = Request::get(uri).header(http::header::ACCEPT, NAMES).body(Body::empty());
        let list: ReportList = serde_json::from_slice(&answered(client, request).await?)?;
        let ours = list.items.into_iter().flatten().filter(|item| item.metadata.name == NAME);
        found.extend(ours.map(|item| item.metadata.namespace));
        next = list.metadata.next;
        if next.is_empty() {
            return Ok(found);
        }
    }
}

/// Explains a failed request for reports, and its remedy.
fn explain(verb: &str, api: &PolicyReports, list: &str, namespace: &str, failure: &Failure) -> String {
    let resource = if list.ends_with(api.cluster.1) { api.cluster.1 } else { api.namespaced.1 };
    let place = if namespace.is_empty() { String::new() } else { format!(" in the namespace `{namespace}`") };
    let help = match (failure, verb) {
        (Failure::Forbidden, "write") => "; requires permission to `create` and `patch` them",
        (Failure::Forbidden, "list") => "; requires permission to `list` them",
        (Failure::Forbidden, _) => "; requires permission to `delete` them",
        (Failure::Status(status), _) if status.as_u16() == 422 => {
            "; is the CustomResourceDefinition another?"
        }
        _ => "",
    };
    format!("cannot {verb} {resource}.{}{place}: {}{help}", api.group, chain(failure))
}
