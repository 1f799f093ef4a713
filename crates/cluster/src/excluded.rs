//! The namespaces that the webhook configurations exclude: objects there are not judged.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;

use super::fetch::{self, Failure};
use crate::causes::chain;
use jobgate_core::kinds::registration::{asks_about, is_ours};
use jobgate_core::text::value::Value;
use jobgate_report::Unjudged;

/// How long one answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Up to this number, namespaces are read by name; more are read with one list.
const MAX_READ_BY_NAME: usize = 8;
/// Maximum size of an answer. All webhook configurations of a large cluster are some MiB.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The two kinds of configurations, and what does not happen to objects that they exclude.
const KINDS: [(&str, &str); 2] = [
    ("validatingwebhookconfigurations", "denied or warned about"),
    ("mutatingwebhookconfigurations", "filled in"),
];

/// Returns the namespaces for which Jobgate's webhooks are not called, and what could not be read. A cluster
/// without Jobgate excludes nothing: the user wants to know what it would do.
pub async fn excluded(client: &Client, namespaces: &BTreeSet<String>) -> Vec<Unjudged> {
    if namespaces.is_empty() {
        return Vec::new();
    }
    let mut configurations = Vec::new();
    for (resource, what) in KINDS {
        match get(client, format!("/apis/admissionregistration.k8s.io/v1/{resource}")).await {
            Ok(mut list) => {
                let items = list.get_mut("items").map(Value::take);
                let ours = items
                    .as_ref()
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter(|item| is_ours(item))
                    .cloned();
                configurations.push((what, ours.collect::<Vec<Value>>()));
            }
            Err(failure) => {
                let why = format!(
                    "cannot list {resource}: {}; whether jobs in these namespaces are {what} is unknown",
                    chain(&failure)
                );
                return vec![Unjudged::unknown(why)];
            }
        }
    }
    let mut found = Vec::new();
    let mut take = |name: &str, namespace: &Value| {
        let out = configurations
            .iter()
            .filter(|(_, ours)| !ours.is_empty() && !ours.iter().any(|ours| asks_about(ours, namespace)));
        let out: Vec<&str> = out.map(|(what, _)| *what).collect();
        if !out.is_empty() {
            found.push(Unjudged::excluded(
                name,
                format!("the registration excludes it, so nothing there is {}", out.join(", or ")),
            ));
        }
    };
    if namespaces.len() > MAX_READ_BY_NAME {
        match get(client, "/api/v1/namespaces".to_owned()).await {
            Ok(list) => {
                for namespace in list["items"].as_array().into_iter().flatten() {
                    let name =
                        namespace.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    if namespaces.contains(name) {
                        take(name, namespace);
                    }
                }
            }
            Err(failure) => found.push(Unjudged::unknown(unread("list namespaces", &failure))),
        }
        return found;
    }
    let mut unknown = Vec::new();
    for name in namespaces.iter().filter(|name| fetch::is_name(name)) {
        match get(client, format!("/api/v1/namespaces/{name}")).await {
            Ok(namespace) => take(name, &namespace),
            // A namespace that does not exist yet has no labels.
            Err(Failure::NotFound) => {}
            Err(failure) => {
                unknown.push(Unjudged::unknown(unread(&format!("read the namespace `{name}`"), &failure)));
            }
        }
    }
    found.extend(unknown);
    found
}

fn unread(what: &str, failure: &Failure) -> String {
    format!("cannot {what}: {}; whether the webhook judges jobs there is unknown", chain(failure))
}

async fn get(client: &Client, path: String) -> Result<Value, Failure> {
    fetch::value(client, path, MAX_ANSWER_BYTES, REQUEST_TIMEOUT).await
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use jobgate_core::kinds::registration::{Target, configurations};
    use jobgate_core::text::value::json;

    /// Queries a scripted API server about some namespaces.
    fn ask(
        answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
        namespaces: &[&str],
    ) -> Vec<String> {
        let answer = std::sync::Arc::new(answer);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, body) = answer(request.uri().path());
            async move {
                Ok::<_, tower::BoxError>(
                    Response::builder()
                        .status(status)
                        .body(Body::from(body.to_string().into_bytes()))
                        .unwrap(),
                )
            }
        });
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(async { excluded(&Client::new(service, "default"), &namespaces).await });
        let name = |unjudged: &Unjudged| {
            unjudged.object.as_ref().and_then(|object| object.name.clone()).unwrap_or_default()
        };
        found.iter().map(|unjudged| format!("{}: {}", name(unjudged), unjudged.message())).collect()
    }

    fn namespace(name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}})
    }

    /// A cluster in which the configurations have another name, and the validating one leaves out `team-b`.
    fn cluster(path: &str) -> (u16, Value) {
        let target = Target::Service { namespace: "gate".to_owned(), name: "jobgate".to_owned() };
        let [mutating, mut validating] = configurations("batch-gate", &target, None);
        if let Some(values) = validating
            .pointer_mut("/webhooks/0/namespaceSelector/matchExpressions/0/values")
            .and_then(Value::as_array_mut)
        {
            values.push("team-b".into());
        }
        let other = json!({"metadata": {"name": "other"}, "webhooks": [{"name": "x.example.com", "clientConfig": {"url": "https://example.com/validate"}}]});
        let list = |items: Value| (200, json!({"metadata": {}, "items": items}));
        match path.rsplit('/').next().unwrap_or_default() {
            "mutatingwebhookconfigurations" => list(json!([mutating])),
            "validatingwebhookconfigurations" => list(json!([other, validating])),
            "namespaces" => list(json!([namespace("team-a"), namespace("team-b"), namespace("kube-system")])),
            "gone" => (404, json!({"kind": "Status", "reason": "NotFound", "code": 404})),
            name => (200, namespace(name)),
        }
    }

    #[test]
    fn the_namespaces_that_a_selector_leaves_out_are_named() {
        let found = ask(cluster, &["gone", "kube-system", "team-a", "team-b"]);
        let expected = [
            "kube-system: the registration excludes it, so nothing there is denied or warned about, or filled in",
            "team-b: the registration excludes it, so nothing there is denied or warned about",
        ];
        assert_eq!(found, expected);
        let many: Vec<String> = (0..10).map(|nth| format!("n{nth}")).chain(["team-b".to_owned()]).collect();
        assert_eq!(
            ask(cluster, &many.iter().map(String::as_str).collect::<Vec<_>>()),
            expected[1..],
            "of many, by one list"
        );
        assert_eq!(ask(cluster, &[]), [""; 0]);
    }

    #[test]
    fn what_may_not_be_looked_up_is_said() {
        let forbidden = |path: &str| {
            if path.contains("webhookconfigurations") { (403, json!({})) } else { cluster(path) }
        };
        let found = ask(forbidden, &["team-a"]);
        assert!(
            found.len() == 1
                && found[0]
                    .contains("cannot list validatingwebhookconfigurations: the API server forbids it"),
            "{found:?}"
        );
        let found =
            ask(|path| if path.ends_with("/team-a") { (403, json!({})) } else { cluster(path) }, &["team-a"]);
        assert!(found.len() == 1 && found[0].contains("cannot read the namespace `team-a`"), "{found:?}");
        // Where Jobgate is not registered at all, nothing is left out.
        let none = |path: &str| {
            if path.contains("webhookconfigurations") {
                (200, json!({"metadata": {}, "items": []}))
            } else {
                cluster(path)
            }
        };
        assert_eq!(ask(none, &["team-b"]), [""; 0]);
    }
}
