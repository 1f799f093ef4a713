//! Which namespaces the registration of the webhook leaves out: what is applied there is judged by nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;

use super::chain;
use super::fetch::{self, Failure};
use crate::registration::{asks_about, is_ours};
use crate::report::Unjudged;
use crate::value::Value;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer. All webhook configurations of a large cluster are some MiB.
const LARGEST: usize = 32 << 20;
/// The two kinds of configurations, and what does not happen without them.
const KINDS: [(&str, &str); 2] = [("validatingwebhookconfigurations", "denied or warned of"), ("mutatingwebhookconfigurations", "filled in")];

/// Returns which of the namespaces Jobgate's webhooks are not asked about, and what could not be looked up for that. A cluster without Jobgate leaves out
/// nothing: whoever asks wants to know what it would say.
pub async fn excluded(client: &Client, namespaces: &BTreeSet<String>) -> Vec<Unjudged> {
    if namespaces.is_empty() {
        return Vec::new();
    }
    let mut configurations = Vec::new();
    for (resource, what) in KINDS {
        match get(client, format!("/apis/admissionregistration.k8s.io/v1/{resource}")).await {
            Ok(mut list) => {
                let items = list.get_mut("items").map(Value::take);
                let ours = items.as_ref().and_then(Value::as_array).into_iter().flatten().filter(|item| is_ours(item)).cloned();
                configurations.push((what, ours.collect::<Vec<Value>>()));
            }
            Err(failure) => {
                let why = format!("cannot list {resource}: {}; whether jobs in these namespaces are {what} is not known", chain(&failure));
                return vec![Unjudged::unknown(why)];
            }
        }
    }
    let mut found = Vec::new();
    for name in namespaces.iter().filter(|name| fetch::is_name(name)) {
        let namespace = match get(client, format!("/api/v1/namespaces/{name}")).await {
            Ok(namespace) => namespace,
            // What is not there yet has no labels that could be read.
            Err(Failure::NotFound) => continue,
            Err(failure) => {
                let why = format!("cannot read the namespace `{name}`: {}; whether the webhook judges jobs there is not known", chain(&failure));
                found.push(Unjudged::unknown(why));
                continue;
            }
        };
        let out = configurations.iter().filter(|(_, ours)| !ours.is_empty() && !ours.iter().any(|ours| asks_about(ours, &namespace)));
        let out: Vec<&str> = out.map(|(what, _)| *what).collect();
        if !out.is_empty() {
            found.push(Unjudged::excluded(name, format!("the registration excludes it, so nothing there is {}", out.join(", or "))));
        }
    }
    found
}

async fn get(client: &Client, path: String) -> Result<Value, Failure> {
    let answer = async { Ok(serde_json::from_slice(&fetch::read(fetch::get(client, path).await?, LARGEST).await?)?) };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or(Err(Failure::Silence))
}
