//! The policy in the ConfigMap, and the one in force.

use super::super::examination::{CheckOutcome, Note, Status};
use super::super::observations::{Observed, Operator, PolicySource, Seen, Unread};
use super::{list, need, or_fine};
use jobgate_core::judge::policy::{Action, Policy};
use jobgate_core::judge::rules::RuleSet;

/// The remedy if the API server cannot reach the metrics port of the pods.
const BY_HAND: &str = "look for jobgate_policy_info at http://127.0.0.1:8080/metrics while this runs: kubectl -n {ns} port-forward deployment/{deployment} 8080";

/// Reads the policy of the cluster.
fn read(observed: &Observed) -> Result<(&PolicySource, Policy), Note> {
    let source = need(&observed.policy, || {
        let (map, key) = observed.policy_source();
        Note::problem(format!(
            "the pods read {key} of the ConfigMap {map} in {}, which does not exist",
            observed.place.namespace
        ))
        .remedy("apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml")
    })?;
    match Policy::parse(&source.text, &source.name) {
        Ok(policy) => Ok((source, policy)),
        Err(errors) => {
            let first = errors
                .errors
                .first()
                .map(|error| format!("line {}: {}", error.position.line, error.message))
                .unwrap_or_default();
            let more = errors.count().saturating_sub(1);
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            Err(Note::problem(format!("{} cannot be read: {first}{more}", source.name)))
        }
    }
}

/// Returns the rules of the policy of the cluster, or the built-in ones if it cannot be read.
pub(super) fn rules(observed: &Observed) -> RuleSet {
    read(observed).map_or_else(|_| RuleSet::built_in(), |(_, policy)| policy.rules().clone())
}

pub(super) fn policy(observed: &Observed) -> CheckOutcome {
    let (_, policy) = read(observed)?;
    let with = |action: Action| -> Vec<&str> {
        policy.bases().filter(|(_, base)| base.action == action).map(|(rule, _)| &*rule.id).collect()
    };
    let mut parts = Vec::new();
    for (action, word) in [
        (Action::Deny, "denies"),
        (Action::Warn, "warns about"),
        (Action::Note, "notes in reports"),
        (Action::Fill, "fills in"),
        (Action::Ignore, "ignores"),
    ] {
        let rules = with(action);
        if !rules.is_empty() {
            parts.push(format!("{word} {}", list(rules)));
        }
    }
    let denies = if policy.can_deny() { "" } else { "it denies nothing; " };
    Ok(vec![Note::ok(format!("`{}` ({}): {denies}{}", policy.name, policy.hash, parts.join("; ")))])
}

pub(super) fn exemptions(observed: &Observed) -> CheckOutcome {
    let (_, policy) = read(observed).map_err(|note| match note.status {
        Status::Problem => Note::not_checked("the policy cannot be read").remedy("see `policy`"),
        _ => note,
    })?;
    let ended = policy
        .exemptions
        .iter()
        .enumerate()
        .filter(|(_, exemption)| !exemption.holds_on(Some(observed.today)));
    let ended = ended.map(|(index, exemption)| {
        let until = exemption.until.map(|date| date.to_string()).unwrap_or_default();
        Note::warning(format!(
            "spec.exemptions[{index}] ended on {until} ({})",
            exemption.reason.escape_debug()
        ))
    });
    or_fine(ended.collect(), format!("{} in force", policy.exemptions.len()))
}

pub(super) fn operators(observed: &Observed) -> CheckOutcome {
    let (_, policy) = read(observed).map_err(|note| match note.status {
        Status::Problem => Note::not_checked("the policy cannot be read").remedy("see `policy`"),
        _ => note,
    })?;
    let operators = need(&observed.operators, || Note::not_checked("no roles were read"))?;
    let is_trusted = |operator: &&Operator| policy.trusted_controllers.contains(&operator.account);
    let (trusted, others): (Vec<_>, Vec<_>) = operators.iter().partition(is_trusted);
    let notes = others.iter().map(|operator| {
        Note::warning(format!(
            "{} is not trusted and acts as the operator of {}: what it makes is judged again",
            operator.account,
            list(&operator.kinds)
        ))
    });
    let fine = if trusted.is_empty() {
        "there is none that makes what is judged".to_owned()
    } else {
        format!("trusted: {}", list(trusted.iter().map(|operator| &operator.account)))
    };
    or_fine(notes.collect(), fine)
}

pub(super) fn in_force(observed: &Observed) -> CheckOutcome {
    let written = read(observed).ok().map(|(_, policy)| policy.hash);
    let mut notes = Vec::new();
    let mut hashes: Vec<&str> = Vec::new();
    for replica in &observed.replicas {
        match &replica.says {
            Seen::Known(says) => {
                hashes.push(&says.policy);
                if written.as_ref().is_some_and(|written| *written != says.policy) {
                    notes.push(Note::warning(format!(
                        "{} uses {}, not {}",
                        replica.pod,
                        or_none(&says.policy),
                        written.as_deref().unwrap_or_default()
                    )));
                }
                if says.failed_reloads > 0 {
                    notes.push(Note::warning(format!(
                        "{} has rejected {} changed files since it started",
                        replica.pod, says.failed_reloads
                    )));
                }
            }
            Seen::Absent => {
                notes.push(Note::not_checked(format!("{} has no metrics", replica.pod)));
            }
            Seen::Unread(unread) => {
                let note = Note { text: format!("{}: {unread}", replica.pod), ..Note::unread(unread) };
                // Many clusters allow only Prometheus to reach that port.
                notes.push(if matches!(unread, Unread::Failed(_)) { note.remedy(BY_HAND) } else { note });
            }
        }
    }
    if observed.replicas.is_empty() {
        need(&observed.pods, || Note::not_checked("there is no pod").remedy("see `pods`"))?;
        return Err(Note::not_checked("no pod is running").remedy("see `pods`"));
    }
    if hashes.is_empty() && notes.is_empty() {
        return Err(Note::not_checked("no pod answered").remedy("see `pods`"));
    }
    hashes.sort_unstable();
    hashes.dedup();
    if written.is_none() && notes.is_empty() {
        let note = if hashes.len() == 1 {
            Note::not_checked("the ConfigMap could not be read")
        } else {
            Note::warning("the replicas use different policies")
        };
        return Ok(vec![note.remedy("see `policy`")]);
    }
    or_fine(notes, format!("all use {}", list(hashes)))
}

fn or_none(hash: &str) -> &str {
    if hash.is_empty() { "none" } else { hash }
}
