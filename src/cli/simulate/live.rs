//! Jobs of a cluster, and objects of operators: where each stands, what it waits for, and what comes next.

mod advice;
#[cfg(feature = "serve")]
pub(super) mod cluster;
mod counts;
mod course;
mod human;
mod json;
pub(super) mod list;
mod markdown;
#[cfg(feature = "serve")]
mod resources;
mod status;
mod subject;
mod times;
mod words;

use std::cmp::Reverse;

use super::assumptions::{assumed, in_words};
use super::endings::{OrBecause, severity};
use super::timeline::{Entry, happens};
use crate::cli::args::{Expectation, Simulate, Story};
use crate::controllers::incident::Occurrence;
use crate::controllers::live::{LiveParts, LiveScript, LiveSnapshot, is_live};
use crate::controllers::program::Peers;
use crate::controllers::script::Script;
use crate::controllers::story::{Assumptions, Ending};
use crate::judge::simulation::{ProgramDefaults, jobs, live_program, refused_from_now_on};
use crate::kinds::Workload;
use crate::report::clean;
use crate::text::value::Value;
pub(super) use human::write as write_human;
pub(super) use json::standing as to_json;
pub(super) use markdown::write as write_markdown;
pub(super) use status::Standing;
use status::Told;
use subject::Subject;
use times::Moment;
use words::quoted;

/// Takes an object that is of a cluster and no manifest: a Job or an object of an operator with a status, or a pod. Returns
/// whether it was one.
pub(super) fn take(object: &Value, snapshot: &mut LiveSnapshot) -> bool {
    if is_live(object) {
        snapshot.add(object);
        return true;
    }
    snapshot.add_pod(object)
}

/// Returns what becomes of the Jobs and objects of a cluster, at a moment in milliseconds since 1970; or in words why not.
pub(super) fn standings(
    snapshot: LiveSnapshot,
    (now, defaults): (i64, &ProgramDefaults),
    args: &Simulate,
    script: Option<&Script>,
) -> Vec<Result<Standing, String>> {
    let LiveParts { jobs, objects } = snapshot.into_parts();
    let objects = objects.into_iter().map(|mut object| {
        let from_now_on = refused_from_now_on(&object.object);
        let refused = from_now_on.map(|(refused, marked)| {
            object.object = marked;
            refused
        });
        (Subject::Object(Box::new(object)), refused.unwrap_or_default())
    });
    let jobs = jobs.into_iter().map(|job| (Subject::Job(Box::new(job)), Vec::new()));
    objects
        .chain(jobs)
        .map(|(subject, refused)| {
            let standing = standing(subject, (now, defaults), args, script)?;
            Ok(Standing { refused, ..standing })
        })
        .collect()
}

fn standing(
    subject: Subject,
    (now, defaults): (i64, &ProgramDefaults),
    args: &Simulate,
    script: Option<&Script>,
) -> Result<Standing, String> {
    let place = subject.namespace().map_or_else(String::new, |name| format!(" in the namespace {name}"));
    let title = clean(&format!("{} ({}){place}", subject.name(), subject.kind())).into_owned();
    let Some((assumptions, or_peers, because)) = assumptions_of(&subject, defaults, args) else {
        return Err(format!("{title}: not simulated: it has no `spec` with a pod template"));
    };
    let teller = Teller { subject: &subject, assumptions, or_peers, script };
    let is_managed = subject.is_managed();
    let is_over = subject.ended().is_some() && !subject.is_in_deletion() || is_managed;
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
    let is_resumed = subject.is_suspended() && !stories.is_empty() && script.is_none();
    let resumed = if is_resumed { ", and in an incident it is resumed now" } else { "" };
    let counts = subject.counts_from();
    let work = counts.map(|from| {
        let assumed = in_words(&assumptions, &because);
        format!("{assumed}; the work counts from the start of {from}{resumed}")
    });
    Ok(Standing {
        waits: subject.waits(),
        moment: Moment::new(now),
        work,
        others: subject.assumed().iter().map(|text| quoted(text)).collect(),
        title,
        assumptions,
        next,
        stories,
        problems,
        notices,
        unexpected,
        subject,
        refused: Vec::new(),
    })
}

/// The name of the story of a script.
const SCRIPT: &str = "script";

/// Tells what comes of a Job, or of an object.
struct Teller<'a> {
    subject: &'a Subject,
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
        if let Some(problem) = self.subject.cannot_happen(&story.incidents) {
            return Err(format!("not simulated: {problem}"));
        }
        let happens = happens(&soon(&story.incidents), &self.assumptions);
        let script = |assumptions: &Assumptions| self.subject.lower(&story.incidents, assumptions);
        self.told_by(&story.name, &story.incidents, happens, script)
    }

    /// Tells what comes of it by a script.
    fn scripted(&self, script: &Script) -> Result<Told, String> {
        let played = |assumptions: &Assumptions| self.subject.scripted(script, assumptions);
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
        let outcome = self.subject.tell(&played).map_err(failed)?;
        let mut or = None;
        if let Some(peers) = self.or_peers {
            let apart = script(&Assumptions { peers, ..self.assumptions })?;
            let other = self.subject.tell(&apart).map_err(failed)?;
            or = Some((other, OrBecause::Peers))
                .filter(|(other, _)| other.outcome.ending != outcome.outcome.ending);
        }
        if or.is_none() {
            let other = self.subject.tell_otherwise(&played, &outcome).map_err(failed)?;
            or = other.map(|other| (other, OrBecause::Moment));
        }
        Ok(Told {
            or,
            decision: self.subject.decision(incidents, &outcome.outcome),
            happens,
            story: name.to_owned(),
            outcome,
        })
    }

    /// Returns how it ends otherwise than is expected, in words; nothing where it ends so.
    fn is_unexpected(&self, expected: &Expectation) -> Result<Option<String>, String> {
        let Expectation { story, ending } = expected;
        // Nothing happens any more to one that has ended.
        if let Some(is_success) = self.subject.ended() {
            let ends = if is_success { Ending::Completes } else { Ending::Fails }.word();
            let text = format!("it has ended with `{ends}`, not with `{ending}`");
            return Ok((ends != ending).then_some(text));
        }
        if self.subject.is_managed() {
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

/// Returns what is assumed of the program, what its other ranks may do instead, and why; nothing of a Job without a pod
/// template.
fn assumptions_of(
    subject: &Subject,
    defaults: &ProgramDefaults,
    args: &Simulate,
) -> Option<(Assumptions, Option<Peers>, String)> {
    let (assumptions, or_peers, because) = match subject {
        Subject::Job(job) => {
            let workload = Workload::from_object(&job.object)?;
            let read = jobs(&workload, defaults).into_iter().next()?;
            (read.assumptions, read.or_peers, read.because)
        }
        Subject::Object(object) => {
            let templates = object.templates();
            let workload = Workload::from_object(&templates)?;
            live_program(&workload, object.together(), object.time_limit(), defaults)
        }
    };
    let because = if args.peers.is_some() { "--peers".to_owned() } else { because };
    Some((assumed(&assumptions, args), or_peers.filter(|_| args.peers.is_none()), because))
}
