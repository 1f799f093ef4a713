//! What comes of a Job, in words.

use super::status::{Standing, Told};
use super::times::{Moment, long};
use crate::cli::simulate::timeline::{Entry, timeline};
use crate::controllers::live::{LiveOutcome, Wait, WaitFor};
use crate::controllers::story::Ending;
use crate::controllers::time::Time;

/// Returns what happens from now on, in order, and how many entries were left out in the middle.
pub(super) fn course(standing: &Standing, told: &Told) -> (Vec<Entry>, usize) {
    let subject = &standing.subject;
    let (mut entries, left_out) =
        timeline(&told.outcome.outcome, &told.happens, subject.is_indexed(), Some(Time::START));
    if let Some(gone) = told.outcome.gone {
        entries.push((gone, format!("the {} is gone", subject.kind())));
    }
    let end = subject.end_in(&told.outcome.outcome);
    if let (Some(end), Some(ttl), false) = (end, subject.ttl(), subject.is_in_deletion()) {
        entries.push((
            end + ttl,
            format!("the {} is deleted, by its `ttlSecondsAfterFinished`", subject.kind()),
        ));
    }
    (entries, left_out)
}

/// Returns what the plain future rests on: `as it stands`.
pub(super) fn premise(standing: &Standing) -> &'static str {
    let is_missing = |wait: &Wait| {
        matches!(wait.what, WaitFor::Missing { .. } | WaitFor::Objects { .. } | WaitFor::FirstLook)
    };
    if standing.waits.iter().any(is_missing) { "if its pods are made now" } else { "as it stands" }
}

/// Returns how it ends: `it completes at 15:02:22 (in 11h52m)`.
pub(super) fn end(standing: &Standing, told: &Told) -> String {
    let or = told.or.as_ref().map_or_else(String::new, |(or, because)| {
        format!("; {}, {}", because.words(), ends(standing, told.story.is_empty(), or))
    });
    let overdue = match told.outcome.outcome.ending {
        Ending::RunsOn | Ending::Fails
            if told.story.is_empty() && standing.subject.is_overdue(&standing.assumptions) =>
        {
            format!(
                "; its pods have run for longer than {}, so when they end is not known: give a longer `--runtime`",
                long(standing.assumptions.startup + standing.assumptions.runtime)
            )
        }
        _ => String::new(),
    };
    format!("{}{}{overdue}{or}", ends(standing, told.story.is_empty(), &told.outcome), why(standing, told))
}

/// Returns why it ends so: `: the deadline passes (`activeDeadlineSeconds`)`.
fn why(standing: &Standing, told: &Told) -> String {
    let subject = &standing.subject;
    let ending = told.outcome.outcome.ending;
    if subject.is_in_deletion() {
        return String::new();
    }
    if told.story.is_empty() && subject.is_suspended() {
        return String::new();
    }
    if ending == Ending::Wedged && standing.is_decided() {
        return ": the last condition waits for a pod that is terminating and does not end".to_owned();
    }
    // The retries that are used are there already.
    let decision = told.decision.as_ref().filter(|_| ending != Ending::Completes || !told.story.is_empty());
    decision.map_or_else(String::new, |decision| {
        let field = format!("`{}`", decision.name());
        // Of the whole `spec`, the place says nothing.
        let is_said = decision.why.contains(&format!("{field} ")) || decision.name() == "spec";
        if is_said { format!(": {}", decision.why) } else { format!(": {} ({field})", decision.why) }
    })
}

fn ends(standing: &Standing, as_it_stands: bool, told: &LiveOutcome) -> String {
    let at = |moment: Moment| moment.with_distance(told.outcome.at);
    let moment = standing.moment;
    if standing.subject.is_in_deletion() {
        return match told.gone {
            Some(gone) => format!("it is gone at {}", moment.with_distance(gone)),
            None => "it stays in deletion".to_owned(),
        };
    }
    if as_it_stands && standing.subject.is_suspended() {
        return "it stays suspended".to_owned();
    }
    match told.outcome.ending {
        Ending::Completes => format!("it completes at {}", at(moment)),
        Ending::CompletesHalfDone => format!("it completes half done at {}", at(moment)),
        Ending::Fails => format!("it fails at {}", at(moment)),
        Ending::Wedged => "it never ends".to_owned(),
        Ending::Waits => "it waits without end".to_owned(),
        Ending::RunsOn => "it runs on".to_owned(),
    }
}
