//! Asks the API server whether it would make pods: each is created as a dry run, which passes all admission and stores nothing.

use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use super::fetch::{self, Failure, MAX_OBJECT_BYTES};
use jobgate_core::text::value::Value;

/// How long one answer may take: longer than the API server's own limit, so that its answer comes first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// Concurrent requests.
const MAX_PARALLEL: usize = 4;
/// The field manager, for audit logs.
const FIELD_MANAGER: &str = "jobgate-dry-run";

/// What the API server says of a pod.
#[derive(Debug)]
pub enum Tried {
    /// It would be made.
    Made,
    /// It is refused, with the server's message.
    Refused(String),
    /// The account may not create pods in this namespace.
    Forbidden,
    /// Something else went wrong, so that it is not known.
    Unknown(String),
    /// The API server cannot be reached.
    Unreachable(Failure),
}

/// Asks about pods, each in a namespace. Answers come in the order of the pods. After one that does not come in time, or if the
/// server cannot be reached, no more are asked for: each would wait as long.
pub async fn try_pods(
    client: &Client,
    pods: impl IntoIterator<Item = (&str, &Value)>,
    progress: impl Fn(),
) -> Vec<Tried> {
    let mut answers = futures::stream::iter(pods)
        .map(|(namespace, pod)| async move {
            tokio::time::timeout(REQUEST_TIMEOUT, try_pod(client, namespace, pod)).await.ok()
        })
        .buffered(MAX_PARALLEL);
    let mut tried = Vec::new();
    while let Some(answer) = answers.next().await {
        progress();
        let Some(answer) = answer else {
            tried.push(Tried::Unknown(super::chain(&Failure::Silence)));
            break;
        };
        let is_last = matches!(answer, Tried::Unreachable(_));
        tried.push(answer);
        if is_last {
            break;
        }
    }
    tried
}

async fn try_pod(client: &Client, namespace: &str, pod: &Value) -> Tried {
    // An invalid name exists in no cluster, and must not become part of a path.
    if !fetch::is_name(namespace) {
        return Tried::Unknown(format!("`{namespace}` is no name of a namespace"));
    }
    // Operators send what their types have, and nothing else.
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Ignore&fieldManager={FIELD_MANAGER}"
    );
    let request = Request::post(path)
        .header(http::header::ACCEPT, fetch::JSON)
        .header(http::header::CONTENT_TYPE, fetch::JSON)
        .body(Body::from(pod.to_string().into_bytes()));
    let answer = async {
        let request = request.map_err(|error| Failure::Transport(kube::Error::HttpError(error)))?;
        let response = client.send(request).await.map_err(Failure::Transport)?;
        let status = response.status();
        Ok((status, fetch::read(response, MAX_OBJECT_BYTES).await?))
    };
    match answer.await {
        Ok((status, _)) if status.is_success() => Tried::Made,
        Ok((status, body)) => refusal(status, &body),
        Err(failure @ Failure::Transport(_)) => Tried::Unreachable(failure),
        Err(failure) => Tried::Unknown(super::chain(&failure)),
    }
}

/// The relevant fields of a `Status`.
#[derive(Debug, Default, Deserialize)]
struct StatusMessage {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    message: String,
}

/// Reads an answer that is no success.
fn refusal(status: StatusCode, body: &[u8]) -> Tried {
    let refusal: StatusMessage = serde_json::from_slice(body).unwrap_or_default();
    if refusal.kind != "Status" || refusal.message.is_empty() {
        return Tried::Unknown(format!("the API server answered {status}"));
    }
    let is_unknown = status.is_server_error()
        || [
            StatusCode::UNAUTHORIZED,
            StatusCode::NOT_FOUND,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::CONFLICT,
            StatusCode::TOO_MANY_REQUESTS,
        ]
        .contains(&status)
        // A webhook with side effects is not called for a dry run.
        || refusal.message.contains("does not support dry run")
        // The ServiceAccount, or the class, may be made with the object.
        || refusal.message.contains("not found")
        || refusal.message.contains("no PriorityClass with name");
    match status {
        // What admission refuses has the name of the pod.
        StatusCode::FORBIDDEN if refusal.message.starts_with("pods is forbidden: User ") => Tried::Forbidden,
        _ if is_unknown => Tried::Unknown(refusal.message),
        _ => Tried::Refused(refusal.message),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Response;

    use super::*;
    use jobgate_core::text::value::json;

    fn status(code: u16, message: &str) -> (u16, String) {
        (code, json!({"kind": "Status", "apiVersion": "v1", "message": message, "code": code}).to_string())
    }

    /// Asks about a pod in each namespace; a fake API server answers by the namespace, or not at all for 0.
    fn ask(answers: &[(&'static str, (u16, String))]) -> (Vec<Tried>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, all) = (Arc::clone(&asked), answers.to_vec());
        let service = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().to_string();
            let (status, text) = all
                .iter()
                .find(|(namespace, _)| uri.contains(&format!("/{namespace}/")))
                .map(|(_, answer)| answer.clone())
                .expect("a known namespace");
            seen.lock().unwrap().push(uri);
            async move {
                match status {
                    0 => Err(std::io::Error::other("no route to host")),
                    status => {
                        Ok(Response::builder().status(status).body(Body::from(text.into_bytes())).unwrap())
                    }
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pod = json!({"kind": "Pod"});
        let pods: Vec<(&str, &Value)> = answers.iter().map(|(namespace, _)| (*namespace, &pod)).collect();
        let tried = runtime.block_on(async { try_pods(&Client::new(service, "default"), pods, || {}).await });
        let asked = asked.lock().unwrap().clone();
        (tried, asked)
    }

    #[test]
    fn a_refusal_of_admission_is_told_from_a_missing_right() {
        let (tried, asked) = ask(&[
            ("made", (201, "{}".to_owned())),
            ("quota", status(403, "pods \"a\" is forbidden: exceeded quota: q")),
            ("rights", status(403, "pods is forbidden: User \"u\" cannot create resource \"pods\"")),
            ("invalid", status(422, "Pod \"a\" is invalid: spec.containers: Required value")),
            ("webhook", status(400, "admission webhook \"w\" does not support dry run")),
            ("broken", status(500, "Internal error occurred: failed calling webhook \"w\"")),
            ("proxy", (403, "<h1>no</h1>".to_owned())),
            ("absent", status(404, "namespaces \"absent\" not found")),
            (
                "account",
                status(
                    403,
                    "pods \"a\" is forbidden: error looking up service account n/b: serviceaccount \"b\" not found",
                ),
            ),
        ]);
        let short: Vec<&str> = tried
            .iter()
            .map(|tried| match tried {
                Tried::Made => "made",
                Tried::Refused(_) => "refused",
                Tried::Forbidden => "forbidden",
                Tried::Unknown(_) => "unknown",
                Tried::Unreachable(_) => "unreachable",
            })
            .collect();
        assert_eq!(
            short,
            [
                "made",
                "refused",
                "forbidden",
                "refused",
                "unknown",
                "unknown",
                "unknown",
                "unknown",
                "unknown"
            ]
        );
        assert!(asked.iter().all(|uri| uri.contains("dryRun=All")), "{asked:?}");
    }

    #[test]
    fn the_first_failure_to_reach_the_server_ends_it() {
        let (tried, _) = ask(&[("gone", (0, String::new())), ("made", (201, "{}".to_owned()))]);
        assert_eq!(tried.len(), 1);
        assert!(matches!(tried[0], Tried::Unreachable(_)));
    }

    #[test]
    fn a_name_that_is_none_is_never_part_of_a_path() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let service = tower::service_fn(|_: Request<Body>| async {
            unreachable!("nothing is asked");
            #[allow(unreachable_code, reason = "the type of the answer")]
            Ok::<Response<Body>, std::io::Error>(Response::new(Body::empty()))
        });
        let pod = json!({});
        let tried = runtime
            .block_on(async { try_pods(&Client::new(service, "default"), [("a/../b", &pod)], || {}).await });
        assert!(matches!(tried.as_slice(), [Tried::Unknown(_)]));
    }
}
