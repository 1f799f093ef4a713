//! The canaries: two Jobs, sent as dry runs, which pass all admission and are not stored.

use std::collections::BTreeMap;

use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{Request, Response};
use kube::client::Body;

use super::{Ask, MAX_ANSWER_BYTES, Observed, Seen};
use crate::certs::publish::Kind;
use crate::doctor::observations::{Canary, Expected, Unread};
use jobgate_cluster::chain;
use jobgate_cluster::fetch::{self, Failure};
use jobgate_core::admission::dry_run::{self, Question};
use jobgate_core::judge::facts::NoFacts;
use jobgate_core::judge::policy::Policy;
use jobgate_core::text::patch;
use jobgate_core::text::value::{Value, json};

/// The field manager and name, for audit logs.
pub(in crate::doctor) const MANAGER: &str = "jobgate-doctor";

/// Returns an otherwise valid Job that requests an accelerator, since some policies cover no other, with
/// changes merged into it.
fn job(change: &Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": MANAGER, "labels": {"app.kubernetes.io/name": MANAGER}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "canary", "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "1Mi", "nvidia.com/gpu": "1"}},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            }],
        }}},
    });
    patch::merge(&mut job, change);
    job
}

/// Returns two Jobs, one of which should be denied: for its deadline, or for its restart policy.
fn bad() -> [Value; 2] {
    [job(&json!({})), job(&json!({"spec": {"template": {"spec": {"restartPolicy": null}}}}))]
}

/// Returns a Job that lacks only what may be filled in.
fn lacking() -> Value {
    job(&json!({"spec": {"activeDeadlineSeconds": 3600}}))
}

/// Predicts the result of a Job under the policy of the cluster.
fn predicted(policy: &Policy, observed: &Observed, object: &Value) -> Expected {
    let namespace = observed.place.canary_namespace.as_str();
    Expected::from_answer(&dry_run::answer(
        policy,
        &NoFacts,
        &Question { object, old: None, namespace, strict: false, today: Some(observed.today) },
    ))
}

/// Chooses the Job to send: one that is denied, else one with a warning, else any.
fn choose(policy: &Policy, observed: &Observed) -> (Value, Expected) {
    let mut all = bad().map(|object| {
        let expected = predicted(policy, observed, &object);
        (object, expected)
    });
    let best = all
        .iter()
        .position(|(_, expected)| expected.denied)
        .or_else(|| all.iter().position(|(_, expected)| !expected.rules.is_empty()));
    std::mem::take(&mut all[best.unwrap_or(0)])
}

impl Ask<'_> {
    /// Sends both canaries, and reads from the API server's counters whether it got answers.
    pub(super) async fn canaries(&self, observed: &mut Observed) {
        let policy =
            observed.policy.known().and_then(|source| Policy::parse(&source.text, &source.name).ok());
        let (bad, judged) = match &policy {
            Some(policy) => {
                let (object, expected) = choose(policy, observed);
                (object, Some(expected))
            }
            None => (job(&json!({})), None),
        };
        let lacking = lacking();
        let filled = policy.as_ref().map(|policy| predicted(policy, observed, &lacking));
        let before = observed.fail_open.clone();
        let mut judged = self.canary(observed, &bad, judged).await;
        let mut filled = self.canary(observed, &lacking, filled).await;
        // Counters that could not be read before are not read again.
        if let Some(before) = before.known()
            && let Seen::Known(after) = self.fail_open().await
        {
            let rose = |kind: Kind| {
                let of = |counts: &BTreeMap<String, u64>| {
                    let entries = observed.entries().filter(|entry| entry.kind == kind);
                    entries.filter_map(|entry| counts.get(entry.name())).sum::<u64>()
                };
                of(&after).saturating_sub(of(before))
            };
            // Counts are by webhook name, which must be known.
            let configurations = [observed.validating.known().is_some(), observed.mutating.known().is_some()];
            for ((canary, kind), known) in [(&mut judged, Kind::Validating), (&mut filled, Kind::Mutating)]
                .into_iter()
                .zip(configurations)
            {
                if let Seen::Known(canary) = canary
                    && known
                {
                    canary.failed_open = Some(rose(kind));
                }
            }
        }
        (observed.judged, observed.filled) = (judged, filled);
    }

    async fn canary(&self, observed: &Observed, object: &Value, expected: Option<Expected>) -> Seen<Canary> {
        let namespace = &observed.place.canary_namespace;
        let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All&fieldManager={MANAGER}");
        let request =
            Request::post(path).header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(object.to_string().into_bytes()));
        let answer = self
            .within(async {
                let request = request.map_err(|error| Failure::Transport(kube::Error::HttpError(error)))?;
                let response = self.client.send(request).await.map_err(Failure::Transport)?;
                let (status, warnings) = (response.status().as_u16(), warnings(&response));
                let answer = serde_json::from_slice(&fetch::read(response, MAX_ANSWER_BYTES).await?)?;
                Ok(Canary { expected, status, answer, warnings, failed_open: None })
            })
            .await;
        answer.map_or_else(
            |failure| Seen::Unread(Unread::Failed(format!("could not send it: {}", chain(&failure)))),
            Seen::Known,
        )
    }
}

/// Returns the warnings that came with an answer (`299 - "text"`, RFC 7234).
fn warnings(response: &Response<Body>) -> Vec<String> {
    let quoted = |text: &str| {
        let (_, quoted) = text.split_once('"')?;
        Some(quoted.strip_suffix('"')?.replace("\\\"", "\"").replace("\\\\", "\\"))
    };
    let texts = response
        .headers()
        .get_all(WARNING)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    texts.map(|text| quoted(&text).unwrap_or(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observed {
        crate::doctor::tests::fine()
    }

    #[test]
    fn the_canary_fits_the_policy() {
        let observed = observed();
        for (name, denied, rules, fills) in [
            ("default", true, &["deadline"][..], 3),
            ("accelerators", true, &["deadline"], 3),
            ("audit", false, &["deadline"], 0),
        ] {
            let file =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../policies/{name}.yaml"));
            let policy = Policy::parse(&std::fs::read_to_string(file).unwrap(), name).unwrap();
            let (_, expected) = choose(&policy, &observed);
            assert!(expected.denied == denied && expected.rules.iter().eq(rules), "{name}: {expected:?}");
            assert_eq!(predicted(&policy, &observed, &lacking()).fills.len(), fills, "{name}");
        }
    }

    #[test]
    fn a_policy_that_denies_only_another_rule_gets_another_canary() {
        let source = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: x}\nspec:\n  rules:\n    deadline: {action: warn}\n";
        let policy = Policy::parse(source, "x").unwrap();
        assert_eq!(choose(&policy, &observed()).1.rules, ["restart-policy"]);
    }

    #[test]
    fn warnings_are_read_from_their_quotes() {
        let response = Response::builder()
            .header(WARNING, "299 - \"deadline: `x` says \\\"y\\\"\"")
            .body(Body::empty())
            .unwrap();
        assert_eq!(warnings(&response), ["deadline: `x` says \"y\""]);
    }
}
