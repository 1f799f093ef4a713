//! Reads the metrics of the pods and of the API server.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::{Ask, MAX_PODS, port_named, running, seen};
use crate::doctor::observations::{CONDITION, Observed, POLICY_OF_SERVER as POLICY, Replica, Says, Seen};
use jobgate_cluster::fetch::{self, Failure, Lines};

impl Ask<'_> {
    /// Reads the metrics of each pod, through the API server.
    pub(super) async fn replicas(&self, observed: &Observed) -> Vec<Replica> {
        let port = observed
            .deployment
            .known()
            .and_then(|deployment| port_named(deployment, "metrics"))
            .unwrap_or(8080);
        let namespace = &observed.place.namespace;
        let pods: Vec<&str> = running(observed).take(MAX_PODS).collect();
        join_all(pods.into_iter().map(|pod| async move {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics");
            let mut says = Says::default();
            let answer = self.within(self.lines(path, |line| says.take(line))).await;
            let says = seen(answer.map(|()| says), || format!("get pods/proxy in the namespace {namespace}"));
            Replica { pod: pod.to_owned(), says }
        }))
        .await
    }

    /// Reads metrics line by line; the API server has some hundred thousand.
    async fn lines(&self, path: String, mut take: impl FnMut(&str)) -> Result<(), Failure> {
        let mut lines = Lines::new(fetch::get(self.client, path).await?);
        while let Some(line) = lines.next().await? {
            if let Ok(line) = std::str::from_utf8(&line) {
                take(line);
            }
        }
        Ok(())
    }

    /// Reads how many of the API server's calls failed open, by webhook, and how often it could not evaluate
    /// a policy or a match condition, by [`POLICY`] or [`CONDITION`] and its name.
    pub(super) async fn fail_open(&self) -> Seen<BTreeMap<String, u64>> {
        let mut counts = BTreeMap::new();
        let answer = self
            .within(self.lines("/metrics".to_owned(), |line| {
                if let Some((name, count)) = fail_open_of(line) {
                    *counts.entry(name).or_default() += count;
                }
            }))
            .await;
        seen(answer.map(|()| counts), || "get the path /metrics".to_owned())
    }
}

impl Says {
    /// Reads a line of Jobgate's metrics.
    fn take(&mut self, line: &str) {
        if line.starts_with("jobgate_build_info{") {
            self.version = label(line, "version").unwrap_or_default().to_owned();
        } else if line.starts_with("jobgate_policy_info{") {
            self.policy = label(line, "hash").unwrap_or_default().to_owned();
        } else if line.starts_with("jobgate_reloads_total{") && label(line, "result") == Some("failure") {
            self.failed_reloads += value(line).unwrap_or(0);
        }
    }
}

/// Returns the key and the count of a metrics line about calls that failed open or failed evaluations.
fn fail_open_of(line: &str) -> Option<(String, u64)> {
    let (metric, labels) = line.split_once('{')?;
    let of = |name| label(labels, name);
    let name = match metric {
        "apiserver_admission_webhook_fail_open_count" => of("name")?.to_owned(),
        // Denials are counted as errors, too.
        "apiserver_validating_admission_policy_check_total"
            if of("enforcement_action") == Some("allow") && of("error_type") != Some("no_error") =>
        {
            format!("{POLICY}{}", of("policy")?)
        }
        "apiserver_admission_match_condition_evaluation_errors_total" => match of("kind")? {
            "policy" => format!("{POLICY}{}", of("name")?),
            _ => format!("{CONDITION}{}", of("name")?),
        },
        _ => return None,
    };
    Some((name, value(line)?))
}

/// Returns a label of a line of metrics.
fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = line.find(&format!("{name}=\""))? + name.len() + 2;
    line[start..].split('"').next()
}

/// Returns the value of a line of metrics, which may be written as a float.
fn value(line: &str) -> Option<u64> {
    let text = line.rsplit_once('}')?.1.split_whitespace().next()?;
    let number: f64 = text.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    (number >= 0.0).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_by_name_and_label() {
        let line = r#"apiserver_admission_webhook_fail_open_count{name="mutate.jobgate.dev",type="admit"} 3"#;
        assert_eq!(fail_open_of(line), Some(("mutate.jobgate.dev".to_owned(), 3)));
        assert_eq!(fail_open_of("# HELP apiserver_admission_webhook_fail_open_count x"), None);
        let check = |action: &str, error: &str| {
            let labels = format!(
                r#"enforcement_action="{action}",error_type="{error}",policy="jobgate-deadline",policy_binding="b""#
            );
            fail_open_of(&format!("apiserver_validating_admission_policy_check_total{{{labels}}} 4"))
        };
        let policy = Some(("policy/jobgate-deadline".to_owned(), 4));
        assert_eq!(check("allow", "invalid_error"), policy);
        assert_eq!((check("allow", "no_error"), check("deny", "invalid_error")), (None, None));
        let condition = |kind: &str, name: &str| {
            let labels = format!(r#"kind="{kind}",name="{name}",operation="CREATE",type="validating""#);
            fail_open_of(&format!(
                "apiserver_admission_match_condition_evaluation_errors_total{{{labels}}} 4"
            ))
        };
        assert_eq!(condition("policy", "jobgate-deadline"), policy);
        let of_webhook = Some(("condition/mutate.jobgate.dev".to_owned(), 4));
        assert_eq!(condition("webhook", "mutate.jobgate.dev"), of_webhook);
        let mut says = Says::default();
        for line in [
            r#"jobgate_build_info{version="0.1.0"} 1"#,
            r#"jobgate_policy_info{name="default",hash="abc"} 1"#,
            r#"jobgate_reloads_total{what="policy",result="failure"} 2"#,
            r#"jobgate_reloads_total{what="policy",result="success"} 5"#,
            "garbage",
        ] {
            says.take(line);
        }
        assert_eq!(says, Says { version: "0.1.0".to_owned(), policy: "abc".to_owned(), failed_reloads: 2 });
        assert_eq!(value("x{} 1.2e+02"), Some(120));
        assert_eq!(value("x{} NaN"), None);
    }
}
