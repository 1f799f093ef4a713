//! Holds the model of the Job and CronJob controllers to what the real ones were recorded to do. The fields and their
//! tolerances are those of the recordings' page.

use jobgate::controllers::cluster::{Job, JobStatus};
use jobgate::controllers::meta::Condition;
use jobgate::controllers::pod::{Phase, PodGroup};
use jobgate::controllers::script::Script;
use jobgate::controllers::time::{Clock, Time};
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use crate::support::shared;

/// Two recordings of one row differ by up to a step of the controller.
const STEP: f64 = 1.5;
/// Times of a CronJob's runs: the recorded machine was loaded at each minute.
const RUN_STEP: f64 = 2.5;

/// The least of the rows that agree in outcome: two recordings of one row differ where two things fall on the same moment.
const LEAST_OUTCOMES: f64 = 0.998;
/// The least of the rows that agree in every field.
const LEAST_WHOLE: f64 = 0.99;

/// How a row differs.
#[derive(Debug, Default)]
struct Difference {
    /// In the outcome: pods, conditions, counts, indexes.
    outcome: Vec<String>,
    /// In times and what changes with them.
    times: Vec<String>,
}

#[test]
fn oracle_job_failures() {
    let mut whole = Tally::default();
    let mut outcomes = Tally::default();
    for (file, judge) in [
        ("oracles/job-failures.jsonl", job as fn(&Value) -> Difference),
        ("oracles/cronjob-failures.jsonl", cron_job),
    ] {
        let Some(rows) = shared::rows(file) else { return };
        for row in &rows {
            let difference = judge(row);
            outcomes.add(difference.outcome.is_empty());
            whole.add(difference.outcome.is_empty() && difference.times.is_empty());
            let differs: Vec<&String> = difference.outcome.iter().chain(&difference.times).take(3).collect();
            if !differs.is_empty() {
                println!("{}: {differs:?}", row["id"]);
            }
        }
    }
    println!("outcome: {} of {} agree", outcomes.agree, outcomes.all);
    println!("{} of {} agree", whole.agree, whole.all);
    assert!(outcomes.all > 0 && outcomes.share() >= LEAST_OUTCOMES, "{outcomes:?}");
    assert!(whole.share() >= LEAST_WHOLE, "{whole:?}");
}

/// A recording of another release, or of another time: what `.ci/simulated --record` wrote, in `JOBGATE_RECORDED`.
#[test]
fn recorded_job_failures() {
    let Ok(path) = std::env::var("JOBGATE_RECORDED") else { return };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut whole = Tally::default();
    let mut outcomes = Tally::default();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}"));
        let difference = job(&row);
        outcomes.add(difference.outcome.is_empty());
        whole.add(difference.outcome.is_empty() && difference.times.is_empty());
        let differs: Vec<&String> = difference.outcome.iter().chain(&difference.times).take(3).collect();
        if !differs.is_empty() {
            println!("{}: {differs:?}", row["id"]);
        }
    }
    println!("outcome: {} of {} agree", outcomes.agree, outcomes.all);
    println!("{} of {} agree", whole.agree, whole.all);
    // Two recordings of one row agree in 97.6 of a hundred.
    assert!(outcomes.all > 0 && outcomes.share() >= 0.97, "{outcomes:?}");
}

#[derive(Debug, Default)]
struct Tally {
    agree: u32,
    all: u32,
}

impl Tally {
    fn add(&mut self, agrees: bool) {
        self.all += 1;
        self.agree += u32::from(agrees);
    }

    fn share(&self) -> f64 {
        f64::from(self.agree) / f64::from(self.all)
    }
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value[key].as_f64()
}

fn time(seconds: f64) -> Time {
    Time::from_fraction(seconds).expect("a time")
}

fn script_of(row: &Value) -> Script {
    let mut script = Script::parse(&row["script"]).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    script.is_never_ready = row["no_ready"] == true;
    script
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Tells whether two times are the same, as far as they lie before a moment.
fn is_near(ours: Option<f64>, theirs: Option<f64>, step: f64, late: f64) -> bool {
    match (ours, theirs) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => (ours - theirs).abs() <= step || (ours > late && theirs > late),
        (Some(one), None) | (None, Some(one)) => one > late,
    }
}

fn job(row: &Value) -> Difference {
    let start = time(number(row, "phase").expect("a phase")).millis();
    let has_fault = !row["bug"].is_null();
    let clock = Clock { start };
    let spec = &row["manifest"]["spec"];
    let mut world = World::with_job("j", spec, script_of(row), clock, has_fault);
    let observed = &row["observed"];
    let until = number(observed, "until").expect("an end");
    world.run(time(until)).expect("an end of the simulation");
    let job = &world.cluster.jobs[0];
    let late = until - STEP;
    let mut difference = Difference::default();
    pods(job, &world.cluster.pods, observed, late, &mut difference);
    conditions(&job.status, observed, (STEP, late), &mut difference);
    let is_deleted = items(&row["script"]).iter().any(|event| !event["delete"].is_null());
    if !is_deleted && observed["job_deleted_at"].is_null() {
        status(&job.status, observed, late, row["no_ready"] == true, &mut difference);
    }
    let gone = (job.gone.map(Time::seconds), number(observed, "job_deleted_at"));
    if !is_near(gone.0, gone.1, STEP, late) {
        difference.times.push(format!("gone {gone:?}"));
    }
    difference
}

fn pods(job: &Job, groups: &[PodGroup], observed: &Value, late: f64, difference: &mut Difference) {
    let mut ours: Vec<((Option<u64>, u64), &PodGroup)> = Vec::new();
    for group in groups {
        for member in group.members.iter().map(u64::from) {
            let attempt = u64::from(group.attempt);
            ours.push((if job.spec.indexed { (Some(member), attempt) } else { (None, member) }, group));
        }
    }
    let theirs = items(&observed["pods"]);
    let early = ours.iter().filter(|(_, pod)| pod.created.seconds() <= late).count();
    let seen = theirs.iter().filter(|pod| number(pod, "created") <= Some(late)).count();
    if seen > ours.len() || early > theirs.len() {
        difference.outcome.push(format!("{} pods, {} were recorded", ours.len(), theirs.len()));
    }
    for pod in theirs {
        let key = (pod["index"].as_u64(), pod["attempt"].as_u64().expect("an attempt"));
        let Some((_, group)) = ours.iter().find(|(ours, _)| *ours == key) else {
            if number(pod, "created") <= Some(late) {
                difference.outcome.push(format!("no pod {key:?}"));
            }
            continue;
        };
        for (name, at) in [
            ("created", Some(group.created)),
            ("started", group.started),
            ("ended", group.ended),
            ("deleting", group.deletion.map(|deletion| deletion.since)),
            ("gone", group.gone),
        ] {
            let (at, recorded) = (at.map(Time::seconds), number(pod, name));
            if !is_near(at, recorded, STEP, late) {
                difference.times.push(format!("{key:?} {name} {at:?}, recorded {recorded:?}"));
            }
        }
        let phase = match group.phase {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        };
        let times = [group.started.map(Time::seconds), group.ended.map(Time::seconds), number(pod, "ended")];
        let is_late = times.iter().flatten().any(|at| *at > late);
        if pod["phase"] != phase && !is_late {
            difference.outcome.push(format!("{key:?} {phase}, recorded {}", pod["phase"]));
        }
        for (name, count) in [("index_failures", group.failures), ("index_ignored", group.ignored)] {
            if pod[name].as_u64().is_some_and(|recorded| recorded != u64::from(count)) {
                difference.outcome.push(format!("{key:?} {name} {count}, recorded {}", pod[name]));
            }
        }
    }
}

fn conditions(status: &JobStatus, observed: &Value, (step, late): (f64, f64), difference: &mut Difference) {
    for sort in ["Suspended", "FailureTarget", "SuccessCriteriaMet", "Failed", "Complete"] {
        let ours: Option<&Condition> = status.conditions.iter().find(|condition| condition.sort == sort);
        let theirs = items(&observed["conditions"]).iter().rfind(|condition| condition["type"] == sort);
        match (ours, theirs) {
            (None, None) => {}
            (Some(ours), Some(theirs)) => {
                let is_same = (theirs["status"] == "True") == ours.is_true
                    && theirs["reason"] == *ours.reason
                    // Which pod a message is about is not stable.
                    && (ours.reason == "PodFailurePolicy" || theirs["message"] == ours.message.as_str());
                if !is_same {
                    difference.outcome.push(format!("{ours:?}, recorded {theirs}"));
                }
                let (at, recorded) = (ours.at.seconds(), number(theirs, "at"));
                if !is_near(Some(at), recorded, step, late) {
                    difference.times.push(format!("{sort} at {at}, recorded {recorded:?}"));
                }
            }
            (Some(ours), None) if ours.at.seconds() <= late => {
                difference.outcome.push(format!("{sort}, not recorded"));
            }
            (None, Some(theirs)) if number(theirs, "at") <= Some(late) => {
                difference.outcome.push(format!("no {sort}, recorded {theirs}"));
            }
            _ => {}
        }
    }
}

fn status(ours: &JobStatus, observed: &Value, late: f64, is_never_ready: bool, difference: &mut Difference) {
    let theirs = &observed["status"];
    let last = items(&observed["status_log"]).last().and_then(|entry| entry[0].as_f64());
    let is_moving = last.is_some_and(|at| at > late);
    let recorded = |name: &str| theirs[name].as_u64().unwrap_or_default();
    for (name, count) in [("succeeded", ours.succeeded), ("failed", ours.failed)] {
        if u64::from(count) != recorded(name) {
            difference.outcome.push(format!("{name} {count}, recorded {}", recorded(name)));
        }
    }
    let failed = ours.failed_indexes.clone().unwrap_or_default().to_string();
    for (name, indexes) in [("completedIndexes", ours.completed.to_string()), ("failedIndexes", failed)] {
        if theirs[name].as_str().unwrap_or_default() != indexes {
            difference.outcome.push(format!("{name} {indexes}, recorded {}", theirs[name]));
        }
    }
    for (name, count) in
        [("active", Some(ours.active)), ("ready", ours.ready), ("terminating", ours.terminating)]
    {
        // As fixed, a Job that waits says how many are active; the recorded controller says none.
        let is_unknown = is_moving || name == "active" && is_never_ready;
        if !is_unknown && u64::from(count.unwrap_or_default()) != recorded(name) {
            difference.times.push(format!("{name} {count:?}, recorded {}", recorded(name)));
        }
    }
}

fn cron_job(row: &Value) -> Difference {
    let phase = time(number(row, "phase").expect("a phase")).millis();
    let minute = row["minute"].as_i64().expect("a minute");
    let clock = Clock { start: minute * 60_000 + phase };
    let mut world = World::with_cron_job("c", &row["manifest"]["spec"], script_of(row), clock, false);
    let observed = &row["observed"];
    let until = number(observed, "until").expect("an end");
    world.run(time(until)).expect("an end of the simulation");
    let late = until - RUN_STEP;
    let mut difference = Difference::default();
    let (ours, theirs) = (&world.cluster.jobs, items(&observed["runs"]));
    let early = ours.iter().filter(|job| job.created.seconds() <= late).count();
    let seen = theirs.iter().filter(|run| number(run, "created") <= Some(late)).count();
    if seen > ours.len() || early > theirs.len() {
        difference.outcome.push(format!("{} runs, {} were recorded", ours.len(), theirs.len()));
    }
    for (nth, (job, run)) in ours.iter().zip(theirs).enumerate() {
        let (created, recorded) = (job.created.seconds(), number(run, "created"));
        if !is_near(Some(created), recorded, STEP, late) {
            difference.times.push(format!("run {nth} created {created}, recorded {recorded:?}"));
        }
        let (gone, recorded) = (job.gone.map(Time::seconds), number(run, "job_deleted_at"));
        if !is_near(gone, recorded, RUN_STEP, late) {
            difference.times.push(format!("run {nth} gone {gone:?}, recorded {recorded:?}"));
        }
        let mut of_run = Difference::default();
        conditions(&job.status, run, (RUN_STEP, late), &mut of_run);
        difference.outcome.extend(of_run.outcome);
        difference.times.extend(of_run.times);
        let pods =
            world.cluster.pods.iter().filter(|pods| pods.set == job.set && pods.created.seconds() <= late);
        let pods: u32 = pods.map(PodGroup::count).sum();
        let seen = items(&run["pods"]).iter().filter(|pod| number(pod, "created") <= Some(late)).count();
        if usize::try_from(pods) != Ok(seen) {
            difference.outcome.push(format!("run {nth}: {pods} pods, recorded {seen}"));
        }
    }
    let Some(last) = items(&observed["cron_log"]).last().filter(|last| last[0].as_f64() <= Some(late)) else {
        return difference;
    };
    let cron_job = world.cluster.cron_job.as_ref().expect("the CronJob");
    if last[1].as_u64() != u64::try_from(cron_job.active.len()).ok() {
        difference.outcome.push(format!("{} active, recorded {}", cron_job.active.len(), last[1]));
    }
    for (name, ours, theirs, step) in [
        ("lastScheduleTime", cron_job.last_schedule, &last[2], STEP),
        ("lastSuccessfulTime", cron_job.last_success, &last[3], RUN_STEP),
    ] {
        if !is_near(ours.map(Time::seconds), theirs.as_f64(), step, late) {
            difference.outcome.push(format!("{name} {ours:?}, recorded {theirs}"));
        }
    }
    difference
}
