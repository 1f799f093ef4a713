//! The two webhook configurations for the API server.

mod selector;

use base64::Engine as _;

pub use selector::{labels, selects};

use crate::kinds::kind::Kind;
use crate::text::value::{Value, json};

/// The address of the webhook.
#[derive(Clone, Debug)]
pub enum Target {
    /// An `https` URL without a path.
    Url(String),
    /// A Service of the cluster, on port 443.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// The Service's name.
        name: String,
    },
}

/// Namespaces with batch work of the cluster itself.
pub const SYSTEM: [&str; 3] = ["kube-node-lease", "kube-public", "kube-system"];

/// The label of a namespace with its name, which only the API server can set.
pub const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// The name and CEL expression of the match condition. It reads the request only: an expression that fails,
/// or costs too much on a large object, would skip the webhook.
///
/// The garbage collector only changes finalizers and owner references, and must work while the webhook is
/// down.
pub const CONDITION: (&str, &str) = (
    "not-the-garbage-collector",
    "!(request.operation == 'UPDATE' && has(request.userInfo.username) && request.userInfo.username == \
     'system:serviceaccount:kube-system:generic-garbage-collector')",
);

/// Returns the mutating and the validating configuration, as JSON objects.
///
/// `ca` is the PEM text for `caBundle`. Without it the key is omitted, so that applying the configuration
/// keeps the existing value.
///
/// Both fail open: a webhook that is down must not stop the cluster. Timeouts are short because those of
/// several webhooks add up. Namespaces are excluded by the label that only the API server can set.
#[must_use]
pub fn configurations(name: &str, target: &Target, ca: Option<&str>) -> [Value; 2] {
    let mut excluded: Vec<&str> = SYSTEM.to_vec();
    if let Target::Service { namespace, .. } = target {
        excluded.push(namespace);
    }
    let webhook = |path: &str, timeout: u32| {
        let client = match target {
            Target::Url(url) => json!({"url": format!("{}/{path}", url.trim_end_matches('/'))}),
            Target::Service { namespace, name } => {
                json!({"service": {"namespace": namespace, "name": name, "path": format!("/{path}"), "port": 443}})
            }
        };
        let mut client = client;
        if let Some(ca) = ca {
            client["caBundle"] = base64::engine::general_purpose::STANDARD.encode(ca).into();
        }
        json!({
            "name": format!("{path}.jobgate.dev"),
            "clientConfig": client,
            "rules": rules(Kind::all()),
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": timeout,
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": excluded}]},
            "matchConditions": [{"name": CONDITION.0, "expression": CONDITION.1}],
        })
    };
    let configuration = |kind: &str, webhook: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "jobgate"}},
            "webhooks": [webhook],
        })
    };
    let mut mutating = webhook("mutate", 2);
    // Another webhook may add a container with a GPU later.
    mutating["reinvocationPolicy"] = "IfNeeded".into();
    [
        configuration("MutatingWebhookConfiguration", mutating),
        configuration("ValidatingWebhookConfiguration", webhook("validate", 3)),
    ]
}

/// Tells whether a webhook configuration is Jobgate's: by its label, or the names or addresses of its
/// webhooks.
pub fn is_ours(configuration: &Value) -> bool {
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let leads_here = |webhook: &Value| {
        let (service, path, url) = (
            text(webhook, "/clientConfig/service/name"),
            text(webhook, "/clientConfig/service/path"),
            text(webhook, "/clientConfig/url"),
        );
        let ours = |path: &str| path.ends_with("/mutate") || path.ends_with("/validate");
        text(webhook, "/name").ends_with(".jobgate.dev")
            || (service.contains(NAME) && ours(&path))
            || (url.contains(NAME) && ours(&url))
    };
    labels(configuration)("app.kubernetes.io/name") == Some(NAME)
        || configuration["webhooks"].as_array().is_some_and(|webhooks| webhooks.iter().any(leads_here))
}

/// The default name of an installation.
const NAME: &str = "jobgate";

/// Tells whether a webhook of a configuration is called for objects in a namespace.
pub fn asks_about(configuration: &Value, namespace: &Value) -> bool {
    let webhooks = configuration["webhooks"].as_array().map_or(&[][..], Vec::as_slice);
    webhooks.iter().any(|webhook| selects(&webhook["namespaceSelector"], labels(namespace)))
}

/// Returns one rule per API group, for CREATE and UPDATE, without subresources.
#[must_use]
pub fn rules(kinds: impl IntoIterator<Item = Kind>) -> Vec<Value> {
    let mut rules: Vec<(Kind, Vec<&str>)> = Vec::new();
    for kind in kinds.into_iter().filter(|kind| !kind.untested) {
        let same = |other: &Kind| {
            (kind.group, kind.version, kind.cluster_scoped)
                == (other.group, other.version, other.cluster_scoped)
        };
        match rules.iter_mut().find(|(other, _)| same(other)) {
            Some((_, resources)) => resources.push(kind.resource),
            None => rules.push((kind, vec![kind.resource])),
        }
    }
    let rule = |(kind, resources): (Kind, Vec<&str>)| {
        json!({
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "resources": resources,
            "operations": ["CREATE", "UPDATE"],
            "scope": if kind.cluster_scoped { "Cluster" } else { "Namespaced" },
        })
    };
    rules.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_registered_that_could_stop_a_cluster() {
        let target = Target::Service { namespace: "jobgate".to_owned(), name: "jobgate".to_owned() };
        for configuration in configurations("jobgate", &target, Some("pem")) {
            let webhook = &configuration["webhooks"][0];
            assert_eq!(webhook["clientConfig"]["caBundle"], "cGVt");
            assert_eq!(webhook["failurePolicy"], "Ignore");
            assert!(webhook["timeoutSeconds"].as_u64().is_some_and(|seconds| seconds <= 3));
            for rule in webhook["rules"].as_array().expect("rules") {
                assert_eq!(
                    rule["operations"],
                    json!(["CREATE", "UPDATE"]),
                    "DELETE carries no object, and is nobody's business"
                );
                let resources = rule["resources"].as_array().expect("resources");
                assert!(
                    resources.iter().all(|name| !name.as_str().unwrap_or("*").contains(['*', '/'])),
                    "no wildcard, no subresource"
                );
            }
            let values = &webhook["namespaceSelector"]["matchExpressions"][0]["values"];
            assert_eq!(values, &json!(["kube-node-lease", "kube-public", "kube-system", "jobgate"]));
        }
    }

    #[test]
    fn a_bundle_that_is_not_given_is_not_blanked() {
        let target = Target::Service { namespace: "jobgate".to_owned(), name: "jobgate".to_owned() };
        for configuration in configurations("jobgate", &target, None) {
            assert_eq!(configuration["webhooks"][0]["clientConfig"].get("caBundle"), None);
        }
    }

    #[test]
    fn every_kind_is_registered() {
        let text = serde_json::to_string(&rules(Kind::all())).expect("JSON");
        for kind in Kind::all() {
            assert_eq!(text.contains(&format!("\"{}\"", kind.resource)), !kind.untested, "{}", kind.resource);
        }
    }
}
