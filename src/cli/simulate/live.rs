//! Jobs of a cluster: where each stands, what it waits for, and what comes next.

mod advice;
#[cfg(feature = "serve")]
pub(super) mod cluster;
mod course;
mod human;
mod json;
pub(super) mod list;
mod markdown;
mod standing;
mod times;
mod words;

use std::cmp::Reverse;

use super::decides::decision;
use super::stories::{OrBecause, assumed, happens, in_words, severity};
use super::timeline::Entry;
use crate::cli::args::{Expectation, Simulate, Story};
use crate::controllers::incident::Occurrence;
use crate::controllers::live::{
    LiveJob, LiveScript, LiveSnapshot, from_now, is_live, lower, tell, tell_otherwise,
};
use crate::controllers::program::Peers;
use crate::controllers::script::Script;
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
    script: Option<&Script>,
) -> Vec<Result<Standing, String>> {
    snapshot.into_jobs().into_iter().map(|job| standing(job, (now, defaults), args, script)).collect()
}

fn standing(
    job: LiveJob,
    (now, defaults): (i64, &ProgramDefaults),
    args: &Simulate,
    script: Option<&Script>,
) -> Result<Standing, String> {
    let place = job.namespace.as_ref().map_or_else(String::new, |name| format!(" in the namespace {name}"));
    let title = clean(&format!("{} (Job){place}", job.name)).into_owned();
    let Some((assumptions, or_peers, because)) = assumptions_of(&job, defaults, args) else {
        return Err(format!("{title}: not simulated: it has no `spec` with a pod template"));
    };
    let teller = Teller { job: &job, assumptions, or_peers, script };
    let is_managed = job.manager.is_some();
    let is_over = job.finished().is_some() && job.deletion.is_none() || is_managed;
    let next = (!is_over).then(|| teller.as_it_stands());
    let (mut stories, mut problems, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    let asked = args.what.iter().map(|story| story.name.as_str()).chain(script.map(|_| SCRIPT));
    for name in asked.filter(|_| is_over) {
        let why = if is_managed { "another controller runs it" } else { "it has ended" };
        // A script is of one Job; what may happen is asked of all that are there.
        let list = if is_managed || name == SCRIPT { &mut problems } else { &mut notices };
        list.push(format!("{title}: {name}: not simulated: {why}"));
    }
    if !is_over {
        let asked = args.what.iter().map(|story| (story.name.as_str(), teller.told(story)));
        for (name, told) in asked.chain(script.map(|script| (SCRIPT, teller.scripted(script)))) {
            match told {
                Ok(told) => stories.push(told),
                Err(problem) => problems.push(format!("{title}: {name}: {problem}")),
            }
        }
    }
    stories.sort_by_key(|told| Reverse(severity(told.outcome.outcome.ending)));
    let mut unexpected = Vec::new();
    for expected in &args.expect {
        match teller.is_unexpected(expected) {
            Ok(None) => {}
            Ok(Some(text)) => unexpected.push(format!("{title}: {text}")),
            // With a script, it is said already.
            Err(_) if script.is_some() => {}
            Err(problem) => problems.push(format!("{title}: {}: {problem}", expected.story.name)),
        }
    }
    Ok(Standing {
        waits: job.waits(),
        moment: Moment::new(now),
        assumed: {
            let resumed = if job.spec.suspend && !stories.is_empty() && script.is_none() {
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
        notices,
        unexpected,
        job,
    })
}

/// The name of the story of a script.
const SCRIPT: &str = "script";

/// Tells what comes of a Job.
struct Teller<'a> {
    job: &'a LiveJob,
    assumptions: Assumptions,
    or_peers: Option<Peers>,
    script: Option<&'a Script>,
}

impl Teller<'_> {
    fn as_it_stands(&self) -> Result<Told, String> {
        self.told(&Story { name: String::new(), incidents: Vec::new() })
    }

    /// Tells what comes of it after incidents.
    fn told(&self, story: &Story) -> Result<Told, String> {
        if let Some(problem) = self.job.cannot_happen(&story.incidents) {
            return Err(format!("not simulated: {problem}"));
        }
        let happens = happens(&soon(&story.incidents), &self.assumptions);
        let script = |assumptions: &Assumptions| Ok(lower(self.job, &story.incidents, assumptions));
        self.told_by(&story.name, &story.incidents, happens, script)
    }

    /// Tells what comes of it by a script.
    fn scripted(&self, script: &Script) -> Result<Told, String> {
        let played = |assumptions: &Assumptions| {
            let failed = |problems: Vec<String>| format!("cannot apply: {}", problems.join("; "));
            from_now(self.job, script, assumptions).map_err(failed)
        };
        let happens = script.happens().into_iter().map(|(at, what)| (at, format!("-- {what}")));
        self.told_by(SCRIPT, &[], happens.collect(), played)
    }

    fn told_by(
        &self,
        name: &str,
        incidents: &[Occurrence],
        happens: Vec<Entry>,
        script: impl Fn(&Assumptions) -> Result<LiveScript, String>,
    ) -> Result<Told, String> {
        let failed = |error| format!("not simulated: {error}");
        let played = script(&self.assumptions)?;
        let outcome = tell(self.job, &played).map_err(failed)?;
        let mut or = None;
        if let Some(peers) = self.or_peers {
            let apart = script(&Assumptions { peers, ..self.assumptions })?;
            let other = tell(self.job, &apart).map_err(failed)?;
            or = Some((other, OrBecause::Peers))
                .filter(|(other, _)| other.outcome.ending != outcome.outcome.ending);
        }
        if or.is_none() {
            let other = tell_otherwise(self.job, &played, &outcome).map_err(failed)?;
            or = other.map(|other| (other, OrBecause::Moment));
        }
        Ok(Told {
            or,
            decision: decision(&self.job.spec, incidents, &outcome.outcome),
            happens,
            story: name.to_owned(),
            outcome,
        })
    }

    /// Returns how it ends otherwise than is expected, in words; nothing where it ends so.
    fn is_unexpected(&self, expected: &Expectation) -> Result<Option<String>, String> {
        let Expectation { story, ending } = expected;
        // Nothing happens any more to one that has ended.
        if let Some(end) = self.job.finished() {
            let ends = if end.sort == "Complete" { Ending::Completes } else { Ending::Fails }.word();
            let text = format!("it has ended with `{ends}`, not with `{ending}`");
            return Ok((ends != ending).then_some(text));
        }
        if self.job.manager.is_some() {
            return Err("not simulated: another controller runs it".to_owned());
        }
        let told = match self.script {
            Some(script) => self.scripted(script),
            None => self.told(story),
        }?;
        let ends = told.outcome.outcome.ending.word();
        if ends == ending && told.or.is_none() {
            return Ok(None);
        }
        let or = told.or.map_or_else(String::new, |(or, _)| format!(" or {}", or.outcome.ending.word()));
        Ok(Some(format!("{} ends with `{ends}`{or}, not with `{ending}`", story.name)))
    }
}

/// Returns incidents, with the moment itself where nobody says when they happen.
fn soon(incidents: &[Occurrence]) -> Vec<Occurrence> {
    incidents
        .iter()
        .map(|one| Occurrence { at: one.at.or(Some(Default::default())), ..one.clone() })
        .collect()
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
