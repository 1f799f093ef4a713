//! Jobs of a cluster: where each stands, what it waits for, and what comes next.

mod advice;
#[cfg(feature = "serve")]
pub(super) mod cluster;
mod course;
mod human;
mod json;
mod markdown;
mod standing;
mod times;
mod words;

use std::cmp::Reverse;

use super::decides::decision;
use super::stories::{assumed, happens, in_words, severity};
use crate::cli::args::{Expectation, Simulate, Story};
use crate::controllers::incident::Occurrence;
use crate::controllers::live::{LiveJob, LiveOutcome, LiveSnapshot, is_live, tell};
use crate::controllers::program::Peers;
use crate::controllers::story::{Assumptions, Ending};
use crate::judge::simulation::{ProgramDefaults, jobs};
use crate::kinds::Workload;
use crate::report::clean;
use crate::text::value::Value;
pub(super) use human::write as write_human;
pub(super) use json::job as to_json;
pub(super) use markdown::write as write_markdown;
pub(super) use standing::Standing;
use standing::Told;
use times::Moment;

/// Takes an object that is of a cluster and no manifest: a Job with a status, or a pod. Returns whether it was one.
pub(super) fn take(object: &Value, snapshot: &mut LiveSnapshot) -> bool {
    if is_live(object) {
        snapshot.add_job(object);
        return true;
    }
    snapshot.add_pod(object)
}

/// Returns what becomes of the Jobs of a cluster, at a moment in milliseconds since 1970; or in words why not.
pub(super) fn standings(
    snapshot: LiveSnapshot,
    (now, defaults): (i64, &ProgramDefaults),
    args: &Simulate,
) -> Vec<Result<Standing, String>> {
    snapshot.into_jobs().into_iter().map(|job| standing(job, (now, defaults), args)).collect()
}

fn standing(
    job: LiveJob,
    (now, defaults): (i64, &ProgramDefaults),
    args: &Simulate,
) -> Result<Standing, String> {
    let place = job.namespace.as_ref().map_or_else(String::new, |name| format!(" in the namespace {name}"));
    let title = clean(&format!("{} (Job){place}", job.name)).into_owned();
    let Some((assumptions, or_peers, because)) = assumptions_of(&job, defaults, args) else {
        return Err(format!("{title}: not simulated: it has no `spec` with a pod template"));
    };
    let is_over = job.finished().is_some() && job.deletion.is_none() || job.manager.is_some();
    let told = |story: &Story| -> Result<Told, String> {
        let run = |assumptions: &Assumptions| tell(&job, &story.incidents, assumptions);
        let failed = |error| format!("not simulated: {error}");
        let outcome = run(&assumptions).map_err(failed)?;
        let other = match or_peers {
            Some(peers) => Some(run(&Assumptions { peers, ..assumptions }).map_err(failed)?),
            None => None,
        };
        let differs = |other: &LiveOutcome| other.outcome.ending != outcome.outcome.ending;
        Ok(Told {
            or: other.filter(differs),
            decision: decision(&job.spec, &story.incidents, &outcome.outcome),
            happens: happens(&soon(&story.incidents), &assumptions),
            story: story.name.clone(),
            outcome,
        })
    };
    let as_it_stands = Story { name: String::new(), incidents: Vec::new() };
    let next = (!is_over).then(|| told(&as_it_stands));
    let (mut stories, mut problems, mut unexpected) = (Vec::new(), Vec::new(), Vec::new());
    for story in args.what.iter().filter(|_| !is_over) {
        match told(story) {
            Ok(told) => stories.push(told),
            Err(problem) => problems.push(format!("{title}: {}: {problem}", story.name)),
        }
    }
    stories.sort_by_key(|told| Reverse(severity(told.outcome.outcome.ending)));
    for Expectation { story, ending } in &args.expect {
        // Nothing happens any more to one that has ended.
        if let Some(end) = job.finished() {
            let ends = if end.sort == "Complete" { Ending::Completes } else { Ending::Fails }.word();
            if ends != ending {
                unexpected.push(format!("{title}: it has ended with `{ends}`, not with `{ending}`"));
            }
            continue;
        }
        if is_over {
            problems.push(format!("{title}: {}: not simulated: another controller runs it", story.name));
            continue;
        }
        match told(story) {
            Ok(told) => {
                let ends = told.outcome.outcome.ending.word();
                if ends != ending || told.or.is_some() {
                    let or =
                        told.or.map_or_else(String::new, |or| format!(" or {}", or.outcome.ending.word()));
                    unexpected
                        .push(format!("{title}: {} ends with `{ends}`{or}, not with `{ending}`", story.name));
                }
            }
            Err(problem) => problems.push(format!("{title}: {}: {problem}", story.name)),
        }
    }
    Ok(Standing {
        waits: job.waits(),
        moment: Moment::new(now),
        assumed: {
            let resumed = if job.spec.suspend && !stories.is_empty() {
                ", and in an incident it is resumed now"
            } else {
                ""
            };
            format!(
                "{}; the work counts from the start of each pod{resumed}",
                in_words(&assumptions, &because)
            )
        },
        title,
        assumptions,
        next,
        stories,
        problems,
        unexpected,
        job,
    })
}

/// Returns incidents, with the moment itself where nobody says when they happen.
fn soon(incidents: &[Occurrence]) -> Vec<Occurrence> {
    incidents.iter().map(|one| Occurrence { at: one.at.or(Some(Default::default())), ..one.clone() }).collect()
}

/// Returns what is assumed of the program of a Job, what its other ranks may do instead, and why; nothing where it has no
/// pod template.
fn assumptions_of(
    job: &LiveJob,
    defaults: &ProgramDefaults,
    args: &Simulate,
) -> Option<(Assumptions, Option<Peers>, String)> {
    let workload = Workload::from_object(&job.object)?;
    let read = jobs(&workload, defaults).into_iter().next()?;
    let because = if args.peers.is_some() { "--peers".to_owned() } else { read.because.clone() };
    Some((assumed(&read.assumptions, args), read.or_peers.filter(|_| args.peers.is_none()), because))
}
