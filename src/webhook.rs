//! What `jobgate serve` serves: reviews, judged under the current policy with what is known of their claims.
//!
//! The pieces are elsewhere: `admission` answers, `cluster` looks claims up, `server` keeps time. This joins them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::StatusCode;
use jiff::civil::Date;

use crate::admission::{self, Endpoint, Fault, Meta, Outcome, Review};
use crate::cluster::{ClaimFacts, Claims};
use crate::facts::FactTable;
use crate::policy::Policy;
use crate::rules;
use crate::server::{self, Answer, Application, Call, Metrics, Note};

/// The webhook. Clones share the policy.
#[derive(Clone, Debug)]
pub struct Webhook {
    policy: Arc<ArcSwap<Policy>>,
    claims: Claims,
    metrics: Metrics,
    today: fn() -> Date,
}

impl Webhook {
    /// Makes a webhook; `today` tells the date on which exemptions are looked at.
    #[must_use]
    pub fn new(policy: Policy, claims: Claims, metrics: Metrics, today: fn() -> Date) -> Self {
        let webhook = Self { policy: Arc::default(), claims, metrics, today };
        webhook.set_policy(policy);
        webhook
    }

    /// Judges by another policy from the next review on.
    pub fn set_policy(&self, policy: Policy) {
        self.metrics.policy(&policy.name, &policy.hash);
        self.policy.store(Arc::new(policy));
    }

    /// Counts what went wrong on our side, and puts the answer into the server's words.
    fn finish(&self, answer: admission::Answer) -> Answer {
        if let Some(fault) = answer.meta.fault {
            self.metrics.fault(fault.as_str());
        }
        if answer.meta.skipped == Some(crate::engine::Skipped::TrustedController) {
            self.metrics.trusted_child();
        }
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Answer { status, note: note(&answer.meta), body: answer.body }
    }
}

impl Application for Webhook {
    async fn review(&self, call: Call) -> Answer {
        let endpoint = call.endpoint;
        let policy = self.policy.load_full();
        let today = Some((self.today)());
        let Ok(review) = Review::read(&call.body) else {
            return self.finish(admission::answer(endpoint, &policy, &FactTable::default(), &call.body, today));
        };
        let facts = if review.claims.is_empty() || !asks_for_claims(&policy) {
            ClaimFacts::default()
        } else {
            self.claims.facts(&review.claims, call.deadline.into()).await
        };
        self.finish(admission::judge(endpoint, &policy, &facts, review, today))
    }

    fn too_large(&self, at: Endpoint, prefix: &[u8], limit: usize) -> Option<Answer> {
        Some(self.finish(admission::refuse_oversized(at, prefix, limit)))
    }

    fn weight(&self, body: &[u8]) -> usize {
        admission::weight(body)
    }

    fn too_heavy(&self, at: Endpoint, body: &[u8]) -> Option<Answer> {
        Some(self.finish(admission::refuse_heavy(at, &self.policy.load(), body)))
    }

    fn fault(&self, at: Endpoint, body: &[u8], fault: server::Fault) -> Option<Answer> {
        let fault = match fault {
            server::Fault::Panic => Fault::Panic,
            server::Fault::Deadline => Fault::Deadline,
        };
        let answer = admission::fail_open(at, body, fault);
        // The server has counted it.
        let status = StatusCode::from_u16(answer.status).ok()?;
        Some(Answer { status, note: note(&answer.meta), body: answer.body })
    }
}

/// Returns whether a policy has a rule that judges by claims; under any other policy the API server is spared the look-ups.
fn asks_for_claims(policy: &Policy) -> bool {
    rules::find("checkpoint-volume-access").is_some_and(|entry| policy.uses(entry.rule))
}

/// Returns what is logged and counted of an answer.
fn note(meta: &Meta) -> Note {
    let outcome = match meta.outcome {
        Outcome::Denied => server::Outcome::Denied,
        Outcome::Rejected => server::Outcome::Malformed,
        _ if meta.fault.is_some() => server::Outcome::Faulted,
        Outcome::Patched => server::Outcome::Patched,
        Outcome::Allowed | Outcome::Passed if meta.warnings > 0 => server::Outcome::Warned,
        Outcome::Allowed | Outcome::Passed => server::Outcome::Allowed,
    };
    let findings = meta.findings.iter().map(|(rule, level)| (*rule, level.as_str())).collect();
    let object = if meta.namespace.is_empty() { meta.name.clone() } else { format!("{}/{}", meta.namespace, meta.name) };
    Note { uid: meta.uid.clone(), kind: meta.kind.map_or("other", crate::workload::Kind::as_str), object, outcome, findings }
}
