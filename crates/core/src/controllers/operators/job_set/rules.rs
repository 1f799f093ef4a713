//! `failurePolicy` of a JobSet (`pkg/controllers/failure_policy.go`).

use std::collections::BTreeSet;
use std::sync::Arc;

use regex_automata::meta::Regex;

use super::super::super::cluster::{Cluster, Job};
use super::super::super::meta::Condition;
use super::children::Child;
use super::spec::{list, text, texts};
use crate::text::value::Value;

/// How many bytes the patterns of a policy may take, as they are written and as they are matched: those of a message are
/// short and few. What is more matches nothing.
const MOST_PATTERNS: usize = 1 << 22;
/// How many of them a single pattern may take.
const MOST_PATTERN: usize = 1 << 16;

/// `failurePolicy`.
#[derive(Debug)]
pub(super) struct FailurePolicy {
    /// `maxRestarts`.
    pub(super) max_restarts: u32,
    /// Whether `restartStrategy` is `BlockingRecreate`.
    pub(super) is_blocking: bool,
    /// `rules`.
    rules: Vec<Rule>,
}

/// An item of `rules`.
#[derive(Debug)]
pub(super) struct Rule {
    /// `name`.
    pub(super) name: String,
    /// `action`.
    pub(super) action: FailureAction,
    /// `onJobFailureReasons`; none for any.
    reasons: BTreeSet<Arc<str>>,
    /// `onJobFailureMessagePatterns`; nothing for any. A pattern that cannot be read matches nothing.
    patterns: Option<Vec<Regex>>,
    /// `targetReplicatedJobs`; none for any.
    targets: BTreeSet<Arc<str>>,
}

/// What a JobSet does about a failed Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureAction {
    /// `FailJobSet`.
    Fail,
    /// `RestartJobSet`.
    Restart,
    /// `RestartJobSetAndIgnoreMaxRestarts`.
    RestartUncounted,
    /// One that the feature gates turn off: the sync ends in an error.
    Unknown,
}

impl FailurePolicy {
    /// Reads a `failurePolicy`.
    pub(super) fn from_policy(policy: &Value) -> Self {
        let max_restarts = policy.get("maxRestarts").and_then(Value::as_u64).unwrap_or_default();
        let mut left = MOST_PATTERNS;
        Self {
            max_restarts: u32::try_from(max_restarts).unwrap_or(u32::MAX),
            is_blocking: text(policy, "restartStrategy") == Some("BlockingRecreate"),
            rules: list(policy, "rules")
                .enumerate()
                .map(|(nth, rule)| Rule::from_item(nth, rule, &mut left))
                .collect(),
        }
    }

    /// Returns the first rule that matches any of the failed Jobs, with the one of its Jobs that failed first; without a
    /// rule, the Job that failed first (`findFirstFailedPolicyRuleAndJob`). A rule that comes before another wins, also
    /// where its Job failed later.
    pub(super) fn matched<'a>(
        &'a self,
        cluster: &Cluster,
        failed: &[Child<'a>],
    ) -> (Option<&'a Rule>, Option<Child<'a>>) {
        for rule in &self.rules {
            let matching: Vec<Child<'_>> =
                failed.iter().copied().filter(|child| rule.matches(*child)).collect();
            if let Some(first) = first_failed(cluster, &matching) {
                return (Some(rule), Some(first));
            }
        }
        (None, first_failed(cluster, failed))
    }
}

impl Rule {
    /// Reads a rule. `left` is how many bytes its patterns may take.
    fn from_item(nth: usize, rule: &Value, left: &mut usize) -> Self {
        let action = match text(rule, "action") {
            Some("FailJobSet") => FailureAction::Fail,
            Some("RestartJobSet") => FailureAction::Restart,
            Some("RestartJobSetAndIgnoreMaxRestarts") => FailureAction::RestartUncounted,
            _ => FailureAction::Unknown,
        };
        let patterns: Vec<&str> =
            list(rule, "onJobFailureMessagePatterns").filter_map(Value::as_str).collect();
        let name = text(rule, "name").filter(|name| !name.is_empty());
        Self {
            name: name.map_or_else(|| format!("failurePolicyRule{nth}"), str::to_owned),
            action,
            reasons: texts(rule, "onJobFailureReasons"),
            patterns: (!patterns.is_empty())
                .then(|| patterns.iter().filter_map(|pattern| compile(pattern, left)).collect()),
            targets: texts(rule, "targetReplicatedJobs"),
        }
    }

    /// Tells whether a failed Job is what the rule is about (`ruleIsApplicable`).
    fn matches(&self, child: Child<'_>) -> bool {
        let Some(failed) = failure(child.job) else { return false };
        (self.reasons.is_empty() || self.reasons.contains(&*failed.reason))
            && (self.targets.is_empty() || self.targets.contains(child.replicated_job))
            && self.patterns.as_ref().is_none_or(|all| all.iter().any(|one| one.is_match(&failed.message)))
    }
}

/// Reads a pattern; nothing where it is none, or too large. `left` is how many bytes it may take, of which it takes some.
fn compile(pattern: &str, left: &mut usize) -> Option<Regex> {
    let most = MOST_PATTERN.min(*left);
    if pattern.len() > most {
        return None;
    }
    let config = Regex::config().nfa_size_limit(Some(most));
    let read = Regex::builder().configure(config).build(pattern);
    // One that is too large was built until it was.
    let size = match &read {
        Ok(pattern) => pattern.memory_usage(),
        Err(error) => error.size_limit().unwrap_or_default(),
    };
    *left = left.saturating_sub(pattern.len() + size);
    read.ok()
}

/// Returns the condition that says that a Job failed.
fn failure(job: &Job) -> Option<&Condition> {
    job.status.condition("Failed")
}

/// Returns the Job that failed first, by whole seconds; of several, the one that was made first (`findFirstFailedJob`).
pub(super) fn first_failed<'a>(cluster: &Cluster, failed: &[Child<'a>]) -> Option<Child<'a>> {
    failed.iter().copied().min_by_key(|child| {
        (failure(child.job).map(|condition| cluster.clock.stored(condition.at)), child.number)
    })
}
