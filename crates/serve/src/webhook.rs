//! The application of `jobgate serve`: judges reviews under the current policy, with facts about their
//! parents, claims and other objects.
//!
//! `admission` answers, `cluster` looks claims up, `server` handles time; this joins them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::civil::Date;

use crate::server::{Application, Call, Metrics};
use jobgate_cluster::Claims;
use jobgate_core::admission::{self, Answer, Endpoint, Estimate, Fault, Review};
use jobgate_core::judge::facts::{Fact, FactTable, Facts as _};
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::verdict::Skipped;

/// The webhook. Clones share the policy.
#[derive(Clone, Debug)]
pub struct Webhook {
    policy: Arc<ArcSwap<Policy>>,
    claims: Claims,
    metrics: Metrics,
    today: fn() -> Date,
}

impl Webhook {
    /// Makes a webhook; `today` returns the date for exemptions.
    #[must_use]
    pub fn new(policy: Policy, claims: Claims, metrics: Metrics, today: fn() -> Date) -> Self {
        let webhook = Self { policy: Arc::default(), claims, metrics, today };
        webhook.set_policy(policy);
        webhook
    }

    /// Uses another policy from the next review on.
    pub fn set_policy(&self, policy: Policy) {
        self.metrics.policy(&policy.name, &policy.hash);
        self.policy.store(Arc::new(policy));
    }

    /// Counts errors, separately those that are our own faults.
    fn counted(&self, answer: Answer, authenticated: bool) -> Answer {
        match answer.meta.fault {
            Some(fault) if fault.is_ours() => self.metrics.fault(fault.as_str()),
            Some(fault) => self.metrics.malformed_review(fault.as_str(), authenticated),
            None => {}
        }
        if answer.meta.skipped.is_some_and(Skipped::is_trusted) {
            self.metrics.trusted_child();
        }
        answer
    }
}

impl Application for Webhook {
    async fn review(&self, call: Call) -> Answer {
        let (endpoint, authenticated) = (call.endpoint, call.authenticated);
        let policy = self.policy.load_full();
        let today = Some((self.today)());
        let Ok(mut review) = Review::read(&call.body, policy.needs()) else {
            return self.counted(
                admission::answer(endpoint, &policy, &FactTable::default(), &call.body, today),
                authenticated,
            );
        };
        let until = self.claims.until(call.deadline.into());
        let mut made = FactTable::default();
        if let Some(wanted) = review.parent(&policy) {
            made = self.claims.parent(&wanted, until).await;
            let (result, is_judged) = match made.parent(&wanted) {
                Fact::Known(()) => ("found", false),
                Fact::Absent => ("absent", true),
                Fact::Unknown => ("unknown", false),
            };
            self.metrics.parent_lookup(result);
            if !is_judged {
                return self
                    .counted(admission::judge(endpoint, &policy, &made, review, today), authenticated);
            }
        }
        let objects = if review.objects.is_empty() {
            None
        } else {
            let objects = self.claims.objects(&review.objects, until).await;
            review.know(&objects);
            Some(objects)
        };
        let mut facts = if review.claims.is_empty() {
            FactTable::default()
        } else {
            self.claims.facts(&review.claims, until).await
        };
        if let Some(objects) = objects {
            facts.extend(objects);
        }
        facts.extend(made);
        self.counted(admission::judge(endpoint, &policy, &facts, review, today), authenticated)
    }

    fn too_large(&self, prefix: &[u8], limit: usize) -> Option<Answer> {
        Some(self.counted(admission::refuse_oversized(prefix, limit), false))
    }

    fn weight(&self, body: &[u8]) -> usize {
        admission::weight(body)
    }

    fn estimate<'b>(&self, body: &'b [u8]) -> Estimate<'b> {
        admission::estimate(body)
    }

    fn too_heavy(&self, at: Endpoint, body: &[u8]) -> Option<Answer> {
        Some(self.counted(admission::refuse_heavy(at, &self.policy.load(), body), false))
    }

    /// The server counts the fault itself.
    fn fault(&self, body: &[u8], fault: Fault) -> Option<Answer> {
        Some(admission::fail_open(body, fault))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use jobgate_core::admission::Outcome;
    use jobgate_core::text::value::Value;

    const MALFORMED: [&str; 4] = ["malformed", "malformed", "object_missing", "kind_mismatch"];

    /// Bodies that anyone other than an API server can send, in the order of [`MALFORMED`].
    fn bodies() -> [String; 4] {
        let review = |operation: &str, object: &str, old: &Value| {
            format!(
                r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","kind":{{"group":"batch","version":"v1",
                "kind":"Job"}},"operation":"{operation}","object":{object},"oldObject":{old}}}}}"#
            )
        };
        [
            "{".to_owned(),
            r#"{"kind":"AdmissionReview","request":{"uid":"u""#.to_owned(),
            review("CREATE", "null", &Value::Null),
            review("CREATE", r#"{"apiVersion":"v1","kind":"Pod"}"#, &Value::Null),
        ]
    }

    fn webhook() -> (Webhook, Metrics) {
        let metrics = Metrics::new();
        (
            Webhook::new(Policy::default(), Claims::off(), metrics.clone(), || jiff::civil::date(2026, 1, 1)),
            metrics,
        )
    }

    fn call(body: &str, authenticated: bool) -> Call {
        let deadline = Instant::now() + Duration::from_secs(60);
        Call { endpoint: Endpoint::Validate, authenticated, body: body.to_owned().into(), deadline }
    }

    #[tokio::test]
    async fn what_a_stranger_sends_is_counted_where_nobody_is_paged() {
        let (webhook, metrics) = webhook();
        for (body, cause) in bodies().iter().zip(MALFORMED) {
            let answer = webhook.review(call(body, false)).await;
            assert_eq!(answer.meta.outcome, Outcome::Malformed, "{cause}: {body}");
        }
        let text = metrics.text();
        for cause in MALFORMED {
            let count = MALFORMED.iter().filter(|other| **other == cause).count();
            let series =
                format!("jobgate_malformed_reviews_total{{cause=\"{cause}\",caller=\"anybody\"}} {count}\n");
            assert!(text.contains(&series), "{series} in {text}");
        }
        let mut alerted = text
            .lines()
            .filter(|line| {
                line.starts_with("jobgate_faults_total{") || line.contains(r#"caller="authenticated""#)
            })
            .peekable();
        assert!(alerted.peek().is_some());
        assert!(alerted.all(|line| line.ends_with(" 0")), "{text}");
    }

    #[tokio::test]
    async fn what_an_authenticated_caller_sends_is_counted_apart() {
        let (webhook, metrics) = webhook();
        webhook.review(call(&bodies()[1], true)).await;
        let text = metrics.text();
        assert!(
            text.contains(
                "jobgate_malformed_reviews_total{cause=\"malformed\",caller=\"authenticated\"} 1\n"
            ),
            "{text}"
        );
    }
}
