//! The Jobs of a file, and what becomes of each in every story.

use std::cell::Cell;
use std::cmp::Reverse;

use super::assumptions::{ACCEPTED, assumed, gang_in_words, in_words, queue_in_words};
use super::changes::{Change, changes};
use super::decisive_field::Decision;
use super::endings::{OrBecause, severity};
use super::live;
use super::simulable::Simulable;
use super::timeline::happens;
use crate::cli::args::{Expectation, Simulate, Story};
use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::job::spec::JobSpec;
use crate::controllers::live::LiveSnapshot;
use crate::controllers::object_story::why_unknown;
use crate::controllers::operators::KueueSettings;
use crate::controllers::runs::{Runs, runs};
use crate::controllers::script::Script;
use crate::controllers::story::{Assumptions, Outcome};
use crate::controllers::time::Time;
use crate::controllers::world::TooLong;
use crate::judge::api;
use crate::judge::finding::Level;
use crate::judge::policy::Policy;
use crate::judge::simulation;
use crate::kinds::Workload;
use crate::local::lint::{FileBytes, Input, Options};
use crate::report::{ObjectId, clean, span};
use crate::text::lines::Lines;
use crate::text::pointer::Pointer;
use crate::text::value::Value;
use crate::text::yaml::{self, Document, SyntaxErrorKind};
use jobgate_lint::objects::objects;

/// How much work a story may take after another of the same object took too much: what makes one long is mostly in all of
/// them, and an object has a dozen.
const AFTER_TOO_LONG: u64 = 2_000_000;

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) jobs: Vec<Simulated>,
    /// What could not be simulated.
    pub(super) problems: Vec<String>,
    /// What is not simulated.
    pub(super) notices: Vec<String>,
}

/// A Job, and what becomes of it.
#[derive(Debug)]
pub(super) struct Simulated {
    /// `train (Job) in job.yaml`.
    pub(super) title: String,
    /// The file, as it is shown.
    pub(super) path: String,
    /// The object.
    pub(super) object: ObjectId,
    /// What people call its kind.
    pub(super) kind: &'static str,
    /// Where the `spec` of the Job is in it.
    pub(super) pointer: String,
    /// The accelerators of each pod.
    pub(super) accelerators: i64,
    /// How many failures it survives; nothing where that has no single limit.
    pub(super) retries: Option<u32>,
    /// Whether pods are shown with their indexes.
    pub(super) indexed: bool,
    /// The queue of Kueue in which it waits.
    pub(super) queue: Option<String>,
    /// Whether it is suspended, and somebody resumes it.
    pub(super) is_suspended: bool,
    pub(super) assumptions: Assumptions,
    /// Why the peers are assumed to do what they do.
    pub(super) because: String,
    /// Why the API server refuses pods from the beginning.
    pub(super) refused: Vec<String>,
    /// Whether the templates are validated.
    pub(super) is_validated: bool,
    /// The operator of a kind around the Job, which is not simulated.
    pub(super) inside: Option<String>,
    /// The operators that are modelled, and their releases; none where it is Kubernetes alone.
    pub(super) operators: Vec<&'static str>,
    /// An operator whose part was read, and not recorded.
    pub(super) by_source: Option<&'static str>,
    /// Whether its pods wait until a scheduler takes their PodGroup.
    pub(super) has_pod_group: bool,
    /// Whether its program runs beside the pods, as their dashboard says.
    pub(super) has_dashboard: bool,
    /// Whether a story was asked for.
    pub(super) is_asked: bool,
    /// What comes of each story, the worst first.
    pub(super) rows: Vec<Row>,
    /// Expectations that do not hold.
    pub(super) unexpected: Vec<String>,
}

/// What comes of one story.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) story: String,
    /// The incidents that have a time.
    pub(super) happens: Vec<(Time, String)>,
    pub(super) outcome: Outcome,
    /// Another end, and what decides.
    pub(super) or: Option<(Outcome, OrBecause)>,
    pub(super) decision: Option<Decision>,
    /// Where the field that decides is written: the line and column.
    pub(super) place: Option<(usize, usize)>,
    /// What would change it.
    pub(super) changes: Vec<Change>,
    /// What becomes of the runs of a CronJob.
    pub(super) runs: Option<Result<Runs, TooLong>>,
}

/// Takes the objects of a cluster from a file that is too large to be a manifest.
///
/// # Errors
///
/// It cannot be read, or is no list of a cluster.
pub(super) fn of_large_file(input: &Input, live: &mut LiveSnapshot) -> Result<Found, String> {
    let left_out = live::list::take_file(input, live);
    let left_out = left_out.map_err(|error| format!("read {}: {error}", clean(&input.path)))?;
    Ok(Found { notices: left_out.into_iter().collect(), ..Found::default() })
}

/// Simulates the Jobs of a file. Those of a cluster, which have a status, and their pods are gathered.
pub(super) fn of_file(
    input: &Input,
    loaded: &FileBytes,
    policy: &Policy,
    args: &Simulate,
    script: Option<&Script>,
    before: &[Value],
    live: &mut LiveSnapshot,
) -> Found {
    let limits = Options::default().limits();
    let lines = Lines::new(loaded.bytes());
    let mut found = Found::default();
    for chunk in yaml::split(loaded.bytes(), &limits) {
        let document = chunk.and_then(|chunk| yaml::parse(loaded.bytes(), &chunk, &limits));
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                let line = lines.position(error.span.start).line;
                let text = format!("{}:{line}: {error}", clean(&input.path));
                let is_template = error.kind == SyntaxErrorKind::Template;
                found.left_out(input, is_template, text);
                continue;
            }
        };
        let file = StoryFile { input, policy, loaded, lines: &lines, document: &document, before };
        for object in objects(&document.value) {
            if live::take(&object.value, live) {
                continue;
            }
            of_object(&object.value, &object.at, &file, args, script, &mut found);
        }
    }
    found
}

impl Simulated {
    /// Returns what is assumed, in words.
    pub(super) fn assumed_in_words(&self) -> String {
        let admitted = match &self.queue {
            Some(queue) => queue_in_words(queue, self.assumptions.wait_for_pods_ready),
            None if self.is_suspended => "; it is suspended, and resumed at once".to_owned(),
            None => String::new(),
        };
        let gang =
            if self.has_pod_group { gang_in_words(self.assumptions.gang_after) } else { String::new() };
        let dashboard = if self.has_dashboard { "; Ray's dashboard answers" } else { "" };
        let accepted = if self.is_validated { "" } else { ACCEPTED };
        format!("{}{gang}{dashboard}{admitted}{accepted}", in_words(&self.assumptions, &self.because))
    }
}

impl Found {
    /// Adds what is not simulated. A template that nobody named is in a directory of manifests by right.
    fn left_out(&mut self, input: &Input, is_template: bool, text: String) {
        let list = if is_template && !input.named { &mut self.notices } else { &mut self.problems };
        list.push(text);
    }
}

impl Found {
    /// Says that `missed` is about nothing without a schedule. Returns whether there are other stories, which are simulated.
    fn has_stories_without_schedule(&mut self, title: &str, args: &Simulate) -> bool {
        let mut asked = args.what.iter().chain(args.expect.iter().map(|expected| &expected.story));
        if !asked.clone().any(is_missed) {
            return true;
        }
        self.notices.push(format!("{title}: not simulated: `missed` is about a schedule, and it has none"));
        !asked.all(is_missed)
    }

    /// Says which stories are about nothing that an object has. Returns whether there are others, which are simulated.
    fn has_any(&mut self, title: &str, job: &Simulable<'_>, args: &Simulate) -> bool {
        let mut has_expected = false;
        for Expectation { story, .. } in &args.expect {
            match job.lacks(story) {
                Some(why) => self.problems.push(format!("{title}: not simulated: {why}")),
                None => has_expected = true,
            }
        }
        let mut has_asked = args.what.is_empty();
        for story in &args.what {
            match job.lacks(story) {
                Some(why) => self.notices.push(format!("{title}: not simulated: {why}")),
                None => has_asked = true,
            }
        }
        has_asked || has_expected
    }
}

struct StoryFile<'a> {
    input: &'a Input,
    policy: &'a Policy,
    loaded: &'a FileBytes,
    lines: &'a Lines<'a>,
    document: &'a Document,
    /// Objects that are there before others: the runtimes of TrainJobs.
    before: &'a [Value],
}

fn of_object(
    object: &Value,
    at: &Pointer,
    file: &StoryFile<'_>,
    args: &Simulate,
    script: Option<&Script>,
    found: &mut Found,
) {
    let Some(workload) = Workload::from_object(object) else { return };
    let id = ObjectId::from_object(object);
    let kind = id.kind.clone();
    let title = format!("{} ({kind}) in {}", clean(&id.full_name()), clean(&file.input.path));
    let assumptions = &file.policy.assumptions;
    let of_operator = simulation::object(&workload, file.before, assumptions);
    let unknown = if of_operator.is_none() { why_unknown(object) } else { None };
    let listed: Vec<Simulable<'_>> = match of_operator {
        Some(object) => vec![Simulable::Object(Box::new(object))],
        None if unknown.is_some() => Vec::new(),
        None => simulation::jobs(&workload, assumptions)
            .into_iter()
            .map(|job| Simulable::Job(Box::new(job)))
            .collect(),
    };
    if listed.is_empty() && unknown.is_none() {
        found.notices.push(format!("{title}: not simulated: the operator of {kind} is not modelled"));
        return;
    }
    let refused = api::check(object);
    if let Some(finding) = refused.iter().find(|finding| finding.level == Level::Deny) {
        found
            .problems
            .push(format!("{title}: not simulated: the API server rejects it: {}", finding.message));
        return;
    }
    if let Some(why) = unknown {
        found.problems.push(format!("{title}: not simulated: {why}"));
        return;
    }
    // Its operator's webhook refuses the object itself.
    let first = listed.iter().find_map(|job| job.refused().first());
    if let Some(why) = first.filter(|_| workload.kind.made.is_refused_first) {
        found.problems.push(format!("{title}: not simulated: {why}"));
        return;
    }
    let schedule = workload.schedule.as_ref().and_then(|schedule| schedule.value);
    if schedule.is_none() && !found.has_stories_without_schedule(&title, args) {
        return;
    }
    for job in listed {
        if let Some((field, text)) = job.placeholder() {
            let text = format!("{title}: not simulated: `{field}` is the placeholder `{}`", clean(text));
            found.left_out(file.input, true, text);
            continue;
        }
        if !found.has_any(&title, &job, args) {
            continue;
        }
        let mut told = simulate((object, schedule), &job, file.policy, args, script);
        found.problems.extend(told.problems.iter().map(|problem| format!("{title}: {problem}")));
        if told.rows.is_empty() {
            continue;
        }
        for row in &mut told.rows {
            row.place = row.decision.as_ref().map(|decision| {
                let pointer = decision.pointer(&at.join(&job.pointer()));
                let place = span(file.loaded.bytes(), file.document, &pointer, decision.part());
                let place = file.lines.position(place.start);
                (place.line, place.column)
            });
        }
        let is_inside = matches!(job, Simulable::Job(_)) && !["Job", "CronJob"].contains(&&*id.kind);
        let because = if args.peers.is_some() { "--peers" } else { job.because() };
        found.jobs.push(Simulated {
            title: title.clone(),
            path: file.input.path.to_string(),
            object: id.clone(),
            kind: workload.kind.title(),
            pointer: job.pointer().to_string(),
            accelerators: job.accelerators(),
            retries: job.job_spec().and_then(JobSpec::retries),
            indexed: job.job_spec().is_none_or(|spec| spec.indexed),
            queue: job.queue().map(str::to_owned),
            is_suspended: job.is_suspended(),
            assumptions: told.assumptions,
            because: because.to_owned(),
            refused: job.refused().to_vec(),
            is_validated: job.is_validated(),
            inside: is_inside.then(|| kind.clone()),
            operators: job.operators(),
            by_source: job.by_source(),
            has_pod_group: job.has_pod_group(),
            has_dashboard: job.has_dashboard(),
            is_asked: !args.what.is_empty() || script.is_some(),
            rows: told.rows,
            unexpected: told.unexpected.into_iter().map(|failed| format!("{title}: {failed}")).collect(),
        });
    }
}

/// What comes of the stories about an object.
#[derive(Debug)]
struct ToldStories {
    assumptions: Assumptions,
    /// The worst first.
    rows: Vec<Row>,
    /// Expectations that do not hold.
    unexpected: Vec<String>,
    /// Stories that take more work than a simulation does.
    problems: Vec<String>,
}

fn simulate(
    (object, schedule): (&Value, Option<&Value>),
    job: &Simulable<'_>,
    policy: &Policy,
    args: &Simulate,
    script: Option<&Script>,
) -> ToldStories {
    let assumptions = assumed(job.assumptions(), args);
    let has = |story: &Story| (schedule.is_some() || !is_missed(story)) && job.lacks(story).is_none();
    let mut stories = stories(args, script.is_some(), schedule.is_some(), job.queue().is_some());
    stories.retain(|story| script.is_some() || has(story));
    let is_alone = stories.len() == 1;
    let or_peers = job.or_peers().filter(|_| args.peers.is_none());
    let most_work = Cell::new(None);
    let run = |Story { name, incidents }: &Story, script: Option<&Script>| -> Result<Row, String> {
        let script_of = |assumptions: &Assumptions| {
            let mut script = script.cloned().unwrap_or_else(|| job.lower(incidents, assumptions));
            script.most_work = most_work.get();
            script.kueue = KueueSettings::with_wait(assumptions.wait_for_pods_ready);
            script
        };
        let failed = |error: TooLong| {
            most_work.set(Some(AFTER_TOO_LONG));
            format!("{name}: not simulated: {error}")
        };
        let mut outcome = job.tell(script_of(&assumptions)).map_err(failed)?;
        let mut or = None;
        if let Some(peers) = or_peers {
            let apart = script_of(&Assumptions { peers, ..assumptions });
            let other = job.tell(apart).map_err(failed)?;
            or = Some(other)
                .filter(|other| other.ending != outcome.ending)
                .map(|other| (other, OrBecause::Peers));
        }
        if or.is_none() {
            let other = job.tell_otherwise(&script_of(&assumptions), &outcome).map_err(failed)?;
            or = other.map(|other| (other, OrBecause::Moment));
        }
        let decision = job.decision(incidents, &outcome);
        let runs = match (schedule.filter(|_| script.is_none()), job.job_spec()) {
            (Some(cron_job), Some(spec)) => {
                runs(cron_job, spec, incidents, &assumptions, &outcome).transpose()
            }
            _ => None,
        };
        // Only a story that is shown in order needs its pods, and a file may have thousands of Jobs.
        if !is_alone {
            outcome.pods = Vec::new();
        }
        Ok(Row {
            story: name.clone(),
            happens: happens(incidents, &assumptions),
            outcome,
            or,
            decision,
            place: None,
            changes: Vec::new(),
            runs,
        })
    };
    let mut told =
        ToldStories { assumptions, rows: Vec::new(), unexpected: Vec::new(), problems: Vec::new() };
    for story in &stories {
        match run(story, script) {
            Ok(row) => told.rows.push(row),
            Err(problem) => told.problems.push(problem),
        }
    }
    for Expectation { story, ending } in args.expect.iter().filter(|expected| has(&expected.story)) {
        // What is expected is about an incident, also beside a script.
        match run(story, None) {
            Ok(row) => told.unexpected.extend(unexpected(&row, ending)),
            Err(problem) => told.problems.push(problem),
        }
    }
    if let ([row], [story], None) = (told.rows.as_mut_slice(), stories.as_slice(), script) {
        row.changes = changes(object, job, policy, &assumptions, (story, &row.outcome));
    }
    told.rows.sort_by_key(|row| {
        (Reverse(severity(row.outcome.ending)), Reverse(row.outcome.lost), Reverse(row.outcome.idle()))
    });
    told
}

/// Returns in words that a story has not the ending that it must have; nothing where it has.
fn unexpected(row: &Row, ending: &str) -> Option<String> {
    let ends = row.outcome.ending.word();
    let or = row.or.as_ref().map_or_else(String::new, |(or, _)| format!(" or {}", or.ending.word()));
    (ends != ending || row.or.is_some())
        .then(|| format!("{} ends with `{ends}`{or}, not with `{ending}`", row.story))
}

/// Tells whether a story is about a schedule.
fn is_missed(story: &Story) -> bool {
    story.incidents.iter().any(|one| matches!(one.incident, Incident::Missed(_)))
}

fn stories(args: &Simulate, has_script: bool, has_schedule: bool, has_queue: bool) -> Vec<Story> {
    if has_script {
        return vec![Story { name: "script".to_owned(), incidents: Vec::new() }];
    }
    if !args.what.is_empty() {
        return args.what.clone();
    }
    let usual = Incident::USUAL.into_iter().chain(has_schedule.then_some(Incident::OF_SCHEDULE));
    let usual = usual.chain(has_queue.then_some(Incident::OF_QUEUE));
    usual
        .map(|incident| Story { name: incident.to_string(), incidents: vec![Occurrence::from(incident)] })
        .collect()
}
