//! What happens in a story, in order.

use std::collections::BTreeMap;

use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::indexes::Indexes;
use crate::controllers::meta::Condition;
use crate::controllers::pod::{Phase, PodGroup};
use crate::controllers::story::{Assumptions, Outcome};
use crate::controllers::time::Time;

/// How many lines a timeline has at most; what is between the first and the last is left out.
const MOST_LINES: usize = 40;

/// How many bytes of indexes are shown.
const MOST_INDEXES: usize = 60;

/// Something that happens, with its time.
pub(super) type Entry = (Time, String);

/// Returns what happens, from a time on where one is given, and how many entries were left out in the middle.
pub(super) fn timeline(
    outcome: &Outcome,
    happens: &[Entry],
    indexed: bool,
    from: Option<Time>,
) -> (Vec<Entry>, usize) {
    // Pods to which the same happens in the same second are one entry.
    let mut entries: BTreeMap<(i64, u8, &str, String), Indexes> = BTreeMap::new();
    let mut add = |at: Time, order: u8, what: String, pods: &PodGroup| {
        if from.is_some_and(|from| Time::from_seconds(at.millis() / 1_000) < from) {
            return;
        }
        let role = outcome.roles.get(pods.set).map_or("", |role| &**role);
        let entry = entries.entry((at.millis() / 1_000, order, role, what)).or_default();
        *entry = entry.union(&pods.members);
    };
    for pods in &outcome.pods {
        // Where not all of the past is known, nobody counts attempts.
        let again = if pods.attempt > 0 && indexed && from.is_none() {
            format!(" again (attempt {})", pods.attempt + 1)
        } else {
            String::new()
        };
        add(pods.created, 0, format!("created{again}"), pods);
        if let Some(at) = pods.started {
            add(at, 1, "running".to_owned(), pods);
        }
        if let Some(deletion) =
            pods.deletion.filter(|_| pods.ended.is_none_or(|ended| ended >= deletion_at(pods)))
        {
            let why = if pods.disrupted { "evicted: terminating" } else { "deleted: terminating" };
            add(deletion.since, 2, why.to_owned(), pods);
        }
        if let Some(at) = pods.ended {
            let code = pods.containers.iter().find_map(|status| status.terminated.map(|(code, _)| code));
            let what = match (pods.phase, code) {
                (Phase::Succeeded, _) => "succeeded".to_owned(),
                (_, Some(code)) => format!("failed with exit code {code}"),
                (_, None) => {
                    format!("failed{}", pods.reason.map_or(String::new(), |reason| format!(" ({reason})")))
                }
            };
            add(at, 3, what, pods);
        }
        if pods.restarts > 0 {
            let at = pods.ended.unwrap_or(outcome.at);
            add(at, 4, format!("restarted {} times in place by now", pods.restarts), pods);
        }
    }
    let mut all: Vec<(i64, u8, String)> = entries
        .into_iter()
        .map(|((second, order, role, what), members)| {
            let count = members.len();
            let noun = if count == 1 { "pod" } else { "pods" };
            let which = match indexed {
                true if from.is_some() => format!(" {}", shortened(&members)),
                true => format!(" {members}"),
                false => String::new(),
            };
            let of = if role.is_empty() { String::new() } else { format!("{role} ") };
            (second, order, format!("{count} {of}{noun}{which} {what}"))
        })
        .collect();
    let before_end = happens.iter().filter(|(at, _)| *at <= outcome.at);
    all.extend(before_end.map(|(at, what)| (at.millis() / 1_000, 0, what.clone())));
    all.extend(outcome.others.iter().map(|(at, what)| (at.millis() / 1_000, 5, what.clone())));
    let is_shown = |condition: &&Condition| condition.is_true || outcome.roles.is_empty();
    for condition in outcome.status.conditions.iter().filter(is_shown) {
        let what = format!("{} ({}): {}", condition.sort, condition.reason, condition.message);
        // `Failed` and `Complete` come after the condition that announces them.
        let order = if ["Failed", "Complete"].contains(&condition.sort) { 6 } else { 5 };
        all.push((condition.at.millis() / 1_000, order, what));
    }
    all.sort();
    all.retain(|(second, _, _)| from.is_none_or(|from| Time::from_seconds(*second) >= from));
    let left_out = all.len().saturating_sub(MOST_LINES);
    if left_out > 0 {
        all.drain(MOST_LINES / 2..MOST_LINES / 2 + left_out);
    }
    (all.into_iter().map(|(second, _, what)| (Time::from_seconds(second), what)).collect(), left_out)
}

/// Returns indexes, with the first ones alone where there are many that do not follow one another: what is left of a Job
/// that runs is often so.
pub(super) fn shortened(members: &Indexes) -> String {
    let text = members.to_string();
    match text.get(..MOST_INDEXES).and_then(|start| start.rfind(',')) {
        Some(end) => format!("{},...", &text[..end]),
        None => text,
    }
}

fn deletion_at(pods: &PodGroup) -> Time {
    pods.deletion.map_or(Time::START, |deletion| deletion.since)
}

/// Returns the incidents that happen at a time, and not from the start.
pub(super) fn happens(incidents: &[Occurrence], assumptions: &Assumptions) -> Vec<Entry> {
    let started = Time::from_millis(500);
    incidents
        .iter()
        .filter_map(|occurrence| {
            let what = match occurrence.incident {
                Incident::NodeLost | Incident::NodeGone => "a node stops answering",
                Incident::Drain => "a node is drained",
                Incident::Spot => "a spot node is taken back",
                Incident::Preempt => "the scheduler preempts",
                Incident::KueuePreempt(_) => "Kueue preempts it",
                Incident::Pressure => "a node has no room left",
                Incident::DeletePod => "somebody deletes a pod",
                Incident::Oom => "a container takes too much memory",
                Incident::Exit(_) => "a program exits",
                Incident::ControllerAway(_) => "the Job controller goes away",
                Incident::OperatorAway(_) => "the operator goes away",
                Incident::DashboardSilent(_) => "the Ray dashboard stops answering",
                Incident::SubmitterLost => "the pod that submits is deleted",
                _ => return None,
            };
            let at = occurrence.at.unwrap_or_else(|| assumptions.middle());
            Some((started + at, format!("-- {what}")))
        })
        .collect()
}
