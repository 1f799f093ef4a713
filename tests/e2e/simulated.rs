//! Random Jobs and scripts, on the real kube-controller-manager and in the model: the outcome must be the same. What was
//! seen may be written as rows of recordings (`JOBGATE_RECORD`), and rows may be recorded again (`JOBGATE_ROWS`, and
//! `JOBGATE_ONLY` with the start of their ids).
//!
//! It takes a while, so that it runs only where `JOBGATE_SIMULATED` says how many; `JOBGATE_SEED` repeats a run. What is done
//! here with Jobs is done in `operators` with the objects of operators (`JOBGATE_SIMULATED_OPERATORS`).

mod fixtures;
mod operators;
mod rows;
mod watch;

use std::env;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use jobgate::controllers::pod::Phase;
use jobgate::controllers::script::Script as ModelScript;
use jobgate::controllers::time::{Clock, Time};
use jobgate::controllers::world::World;
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

use crate::api::list_of;
use crate::ensemble::{Ensemble, Lazy, run};
use crate::kinds::ANYBODY;
use crate::kubelet::Scenario;
use crate::kubelet::script::Script;
use crate::kubelet::timeline::Timeline;
use crate::modelled::has_wait_fault;
use crate::random::Random;
use crate::scenario::Place;
use watch::Jobs;

/// How many Jobs are created in one second.
const AT_ONCE: usize = 4;
/// How long a Job is watched.
const WATCHED: u64 = 45;
/// Where in a second Jobs are created, in milliseconds.
const PHASE: u64 = 100;
/// The share that must agree: two recordings of one Job agree in 97.6 of a hundred.
const LEAST: f64 = 0.97;

/// Tells whether rows are recorded, of which the deletion of what has ended is a part, and for which operators are configured
/// as for the shared ones.
pub(crate) fn is_recorded() -> bool {
    ["JOBGATE_ROWS", "JOBGATE_SIMULATED_OPERATORS", "JOBGATE_SIMULATED_FIXTURES", "JOBGATE_TEMPLATES"]
        .iter()
        .any(|key| env::var_os(key).is_some())
}

/// Returns the comparison, if it was asked for.
pub(crate) fn trials(ensemble: &Arc<Lazy>) -> Result<Vec<Trial>, String> {
    if let Ok(path) = env::var("JOBGATE_ROWS") {
        let ensemble = Arc::clone(ensemble);
        return Ok(vec![Trial::test("simulated_rows_are_recorded_again", move || {
            run(&ensemble, |ensemble| record_again(ensemble, &path))
        })]);
    }
    let mut trials = Vec::new();
    if env::var_os("JOBGATE_SIMULATED_FIXTURES").is_some() {
        let ensemble = Arc::clone(ensemble);
        trials.push(Trial::test("simulated_fixtures_end_as_their_rules_say", move || {
            run(&ensemble, |ensemble| {
                let problems = fixtures::compare(ensemble);
                operators::compare_fixtures(ensemble);
                assert!(problems.is_empty(), "{problems}");
            })
        }));
    }
    if let Ok(count) = env::var("JOBGATE_SIMULATED") {
        let count: usize =
            count.parse().map_err(|_| format!("JOBGATE_SIMULATED is a number, not {count}"))?;
        let ensemble = Arc::clone(ensemble);
        trials.push(Trial::test("simulated_jobs_end_as_the_real_ones", move || {
            run(&ensemble, |ensemble| compare(ensemble, count))
        }));
    }
    if let Some(count) = operators::count()? {
        let ensemble = Arc::clone(ensemble);
        trials.push(Trial::test("simulated_operators_end_as_the_real_ones", move || {
            run(&ensemble, |ensemble| operators::compare(ensemble, count))
        }));
    }
    Ok(trials)
}

/// Returns seconds that end on no round number, so that little falls on one moment.
fn seconds(random: &mut Random, first: usize, last: usize) -> f64 {
    let whole = u32::try_from(random.within(first, last)).expect("a small number");
    f64::from(whole) + random.pick(&[0.25, 0.35, 0.7, 0.75])
}

fn spec(random: &mut Random) -> Value {
    let mut spec = json!({});
    let count = random.within(1, 6);
    match random.within(0, 9) {
        0..=5 => {
            spec["completionMode"] = "Indexed".into();
            spec["completions"] = count.into();
            spec["parallelism"] = random.within(1, count + 1).into();
            if random.percent(30) {
                spec["backoffLimitPerIndex"] = random.within(0, 2).into();
                if random.percent(40) {
                    spec["maxFailedIndexes"] = random.within(0, count).into();
                }
            }
            if random.percent(20) {
                spec["successPolicy"] = json!({"rules": [{"succeededCount": random.within(1, count)}]});
            }
        }
        6..=8 => {
            spec["completions"] = count.into();
            spec["parallelism"] = random.within(1, count).into();
        }
        _ => spec["parallelism"] = count.into(),
    }
    if random.percent(70) {
        spec["backoffLimit"] = random.within(0, 4).into();
    }
    if random.percent(25) {
        spec["activeDeadlineSeconds"] = random.within(4, 30).into();
    }
    let mut policy = "Never";
    if random.percent(30) {
        let rules = [
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
            json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}),
            json!({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}}),
        ];
        let rules: Vec<Value> = rules.into_iter().filter(|_| random.percent(60)).collect();
        spec["podFailurePolicy"] = json!({"rules": rules});
        spec["podReplacementPolicy"] = "Failed".into();
    } else {
        spec["podReplacementPolicy"] = (*random.pick(&["Failed", "TerminatingOrFailed"])).into();
        if random.percent(20) {
            policy = "OnFailure";
        }
    }
    spec["template"] = json!({"spec": {
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": random.within(3, 6),
        "containers": [{"name": "c", "image": "registry.example.com/c:1"}],
    }});
    spec
}

fn script(random: &mut Random, spec: &Value) -> serde_json::Value {
    let mut rules = Vec::new();
    let is_indexed = spec["completionMode"] == "Indexed";
    for _ in 0..random.within(1, 3) {
        let mut rule = serde_json::json!({"run": seconds(random, 1, 9)});
        if is_indexed && random.percent(70) {
            rule["index"] = serde_json::json!([random.within(0, 2), random.within(2, 5)]);
        }
        rule["attempt"] =
            if random.percent(50) { 0.into() } else { serde_json::json!([0, random.within(0, 3)]) };
        match random.within(0, 5) {
            0 | 1 => rule["exit"] = (*random.pick(&[1, 2, 42, 137])).into(),
            2 | 3 => {
                let cause =
                    *random.pick(&["evict", "preempt", "taint", "delete", "force", "kubelet", "lost"]);
                rule["disrupt"] = serde_json::json!({"after": seconds(random, 1, 5), "cause": cause});
                rule["run"] = serde_json::Value::Null;
                let after = if random.percent(80) {
                    serde_json::json!(seconds(random, 0, 3))
                } else {
                    serde_json::Value::Null
                };
                rule["term"] = serde_json::json!({"after": after, "code": *random.pick(&[0, 1, 143])});
            }
            4 => rule["start"] = serde_json::json!(seconds(random, 1, 3)),
            _ => {}
        }
        if spec["template"]["spec"]["restartPolicy"] == "OnFailure" && random.percent(40) {
            rule["restarts"] = random.within(1, 3).into();
            rule["every"] = serde_json::json!(seconds(random, 2, 4));
        }
        rules.push(rule);
    }
    rules.push(serde_json::json!({"run": seconds(random, 2, 7)}));
    serde_json::Value::Array(rules)
}

/// Returns the outcome in the model, some seconds after the creation.
fn modelled(spec: &Value, script: &serde_json::Value, start: i64, at: f64, has_wait_fault: bool) -> String {
    let script = ModelScript::parse(&Value::from(script.clone())).expect("a script");
    let mut world = World::with_job("j", spec, script, Clock { start }, has_wait_fault);
    world.run(Time::from_fraction(at).expect("a time")).expect("an end");
    let job = &world.cluster.jobs[0];
    let mut pods: Vec<(Option<u32>, u32, &str)> = Vec::new();
    for group in &world.cluster.pods {
        let phase = match group.phase {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        };
        let of = |member| if job.spec.indexed { (Some(member), group.attempt) } else { (None, member) };
        pods.extend(group.members.iter().map(of).map(|(index, attempt)| (index, attempt, phase)));
    }
    let conditions =
        job.status.conditions.iter().map(|one| format!("{} {} {}", one.sort, one.is_true, one.reason));
    let failed = job.status.failed_indexes.clone().unwrap_or_default().to_string();
    outcome(
        pods.into_iter().map(|(index, attempt, phase)| format!("{index:?}/{attempt} {phase}")).collect(),
        conditions.collect(),
        [job.status.succeeded.into(), job.status.failed.into()],
        [&job.status.completed.to_string(), &failed],
    )
}

/// Returns the outcome on the cluster.
fn seen(object: &Value, timeline: &Timeline) -> String {
    let status = &object["status"];
    let pods =
        timeline.pods.iter().map(|pod| format!("{:?}/{} {}", pod.index, pod.attempt, pod.phase)).collect();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = conditions
        .map(|one| format!("{} {} {}", text(&one["type"]), one["status"] == "True", text(&one["reason"])));
    let number = |key: &str| status[key].as_u64().unwrap_or_default();
    outcome(
        pods,
        conditions.collect(),
        [number("succeeded"), number("failed")],
        [&text(&status["completedIndexes"]), &text(&status["failedIndexes"])],
    )
}

fn outcome(
    mut pods: Vec<String>,
    mut conditions: Vec<String>,
    counts: [u64; 2],
    indexes: [&str; 2],
) -> String {
    pods.sort();
    conditions.sort();
    format!("{} | {} | {counts:?} | {indexes:?}", pods.join(", "), conditions.join(", "))
}

/// A Job that is to run, and what becomes of its pods.
struct Planned {
    id: String,
    about: String,
    manifest: serde_json::Value,
    script: serde_json::Value,
    is_never_ready: bool,
    /// For how many seconds it is watched.
    watched: u64,
    /// The recording of another time.
    before: Option<serde_json::Value>,
}

struct Run<'e> {
    planned: Planned,
    place: Place<'e>,
    /// When it was created, and the second in which it is looked at.
    began: Duration,
    scenario: Option<Scenario>,
    until: usize,
    seen: Option<String>,
    row: Option<serde_json::Value>,
}

impl Run<'_> {
    fn spec(&self) -> Value {
        Value::from(self.planned.manifest["spec"].clone())
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970")
}

/// Returns the seed of a run: `JOBGATE_SEED`, else another one each time.
fn seed() -> u64 {
    let seed = env::var("JOBGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    seed.unwrap_or_else(|| now().as_secs())
}

fn compare(ensemble: &Ensemble, count: usize) {
    let seed = seed();
    println!("JOBGATE_SEED={seed}");
    let version = version_of(ensemble);
    let mut random = Random::new(seed);
    let planned = (0..count).map(|nth| {
        let spec = spec(&mut random);
        let script = script(&mut random, &spec);
        let spec: serde_json::Value = serde_json::from_str(&spec.to_string()).expect("a spec");
        Planned {
            id: format!("s{seed}-{nth}"),
            about: format!("random, {version}"),
            manifest: serde_json::json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec,
            }),
            script,
            is_never_ready: false,
            watched: WATCHED,
            before: None,
        }
    });
    let runs = play(ensemble, planned.collect(), has_wait_fault(&version));
    write(&runs);
    report(&runs, seed, has_wait_fault(&version));
}

/// Records rows again, and prints what differs.
fn record_again(ensemble: &Ensemble, path: &str) {
    let only = env::var("JOBGATE_ONLY").unwrap_or_default();
    let version = version_of(ensemble);
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    let mut all = rows::read(path);
    all.retain(|row| row["id"].as_str().expect("an id of each row").starts_with(&only));
    let (of_operators, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| !row["operator"].is_null());
    if !of_operators.is_empty() {
        return operators::record_again(ensemble, of_operators);
    }
    for row in all {
        let id = row["id"].as_str().expect("an id of each row").to_owned();
        // All Jobs of the cluster would miss their controller.
        let script = row["script"].as_array().expect("a script of each row");
        if row["kind"] != "Job" || script.iter().any(|entry| !entry["controller"].is_null()) {
            left_out.push(id);
            continue;
        }
        let until = row["observed"]["until"].as_f64().unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some minutes")]
        let watched = until.ceil() as u64;
        planned.push(Planned {
            about: row["about"].as_str().unwrap_or_default().to_owned(),
            manifest: row["manifest"].clone(),
            script: row["script"].clone(),
            is_never_ready: row["no_ready"] == true,
            watched,
            before: Some(row),
            id,
        });
    }
    assert!(!planned.is_empty(), "no row of {path} is of a Job, and has an id that starts with `{only}`");
    let runs = play(ensemble, planned, has_wait_fault(&version));
    write(&runs);
    let mut same = 0_usize;
    for run in &runs {
        let (Some(before), Some(after)) = (&run.planned.before, &run.row) else { continue };
        let differences = rows::differences(before, after);
        same += usize::from(differences.is_empty());
        if !differences.is_empty() {
            println!("{}: {}", run.planned.id, differences.join("; "));
        }
    }
    if !left_out.is_empty() {
        let why = "of a CronJob, or their controller is stopped";
        println!("not recorded again: {} rows, {why}: {}", left_out.len(), left_out.join(", "));
    }
    println!("{same} of {} are as they were, on {version}", runs.len());
}

/// Writes what was seen as rows, where that was asked for.
fn write(runs: &[Run<'_>]) {
    let rows: Vec<serde_json::Value> = runs.iter().filter_map(|run| run.row.clone()).collect();
    rows::write_recording(&rows);
}

fn version_of(ensemble: &Ensemble) -> String {
    let version = ensemble.cluster.admin.run(&["get", "--raw", "/version"], "").quiet().json();
    version["gitVersion"].as_str().expect("a version").to_owned()
}

/// Creates the Jobs, some in each second, and looks at each after its time.
fn play(ensemble: &Ensemble, planned: Vec<Planned>, has_fault: bool) -> Vec<Run<'_>> {
    let jobs = Jobs::watch(&ensemble.api);
    let run = |(nth, planned): (usize, Planned)| Run {
        until: nth / AT_ONCE + usize::try_from(planned.watched).expect("a small number"),
        place: Place::new(&ensemble.cluster, false),
        began: Duration::ZERO,
        scenario: None,
        seen: None,
        row: None,
        planned,
    };
    let mut runs: Vec<Run<'_>> = planned.into_iter().enumerate().map(run).collect();
    let last = runs.iter().map(|run| run.until).max().unwrap_or_default();
    each_second(last, |second| {
        for run in runs.chunks_mut(AT_ONCE).nth(second).into_iter().flatten() {
            begin(ensemble, &jobs, run);
        }
        for run in runs.iter_mut().filter(|run| run.until == second) {
            let Some(scenario) = run.scenario.take() else { continue };
            look(&jobs, run, &scenario.timeline(), has_fault);
        }
    });
    runs
}

/// Does something in each of so many seconds, at the same moment of each.
fn each_second(last: usize, mut act: impl FnMut(usize)) {
    for second in 0..=last {
        let into = u64::from(now().subsec_millis());
        sleep(Duration::from_millis((1_000 + PHASE - into) % 1_000));
        let began = Instant::now();
        act(second);
        if let Some(rest) = Duration::from_millis(700).checked_sub(began.elapsed()) {
            sleep(rest);
        }
    }
}

fn begin(ensemble: &Ensemble, jobs: &Jobs, run: &mut Run<'_>) {
    let script = Script::parse(&run.planned.script).expect("a script");
    let script = if run.planned.is_never_ready { script.never_ready() } else { script };
    let object = Value::from(run.planned.manifest.clone());
    let scenario = ensemble.kubelet.take(&run.place.namespace, script);
    let list = list_of(&run.place.namespace, &object);
    let name = object["metadata"]["name"].as_str().expect("a name");
    jobs.begin(&run.place.namespace);
    run.began = now();
    scenario.begin(&format!("{list}/{name}"), Arc::new(()));
    let (status, answer) = ensemble.api.send_as(ANYBODY, Method::POST, &list, &object);
    assert_eq!(status, 201, "{answer:#}");
    run.scenario = Some(scenario);
}

/// Notes what has become of a Job.
fn look(jobs: &Jobs, run: &mut Run<'_>, timeline: &Timeline, has_fault: bool) {
    let Some((job, until)) = jobs.seen(&run.place.namespace) else { return };
    let status = Value::from(job.status.clone());
    run.seen = Some(seen(&json!({ "status": status }), timeline));
    // Some hundredths of a second pass until it is there.
    let phase = f64::from(run.began.subsec_millis() / 10 + 1) / 100.0;
    #[allow(clippy::cast_precision_loss, reason = "seconds of this century")]
    let began = run.began.as_secs() as f64 + phase;
    let Planned { id, about, manifest, script, is_never_ready, .. } = &run.planned;
    let mut row = serde_json::json!({
        "id": id, "kind": "Job", "about": about, "manifest": manifest, "script": script, "phase": phase,
        "observed": rows::observed(&job, until, began, timeline),
    });
    if *is_never_ready {
        row["no_ready"] = true.into();
    }
    if has_fault && meets_fault(run, until) {
        row["bug"] = "kubernetes#139428".into();
    }
    run.row = Some(row);
}

/// Tells whether the course of a Job is another where kubernetes#139428 is not fixed.
fn meets_fault(run: &Run<'_>, until: f64) -> bool {
    let course = |has_fault: bool| {
        let mut script = ModelScript::parse(&Value::from(run.planned.script.clone())).expect("a script");
        script.is_never_ready = run.planned.is_never_ready;
        let start = i64::from(run.began.subsec_millis()) + 10;
        let mut world = World::with_job("j", &run.spec(), script, Clock { start }, has_fault);
        let is_done = world.run(Time::from_fraction(until).expect("a time")).is_ok();
        (is_done, format!("{:?}", world.cluster))
    };
    course(false) != course(true)
}

fn report(runs: &[Run<'_>], seed: u64, has_fault: bool) {
    let (mut agree, mut all, mut moving) = (0_u32, 0_u32, 0_u32);
    let mut differences = String::new();
    let start = i64::try_from(PHASE).expect("a small number") + 10;
    let until = f64::from(u32::try_from(WATCHED).expect("a small number"));
    for (nth, run) in runs.iter().enumerate() {
        let Some(seen) = &run.seen else { continue };
        let model = |start: i64, at: f64| modelled(&run.spec(), &run.planned.script, start, at, has_fault);
        let expected = model(start, until);
        // What still moves when it is looked at, or hangs on a few hundredths of a second, is "either".
        let is_either = [
            model(start, until - 2.5),
            model(start, until + 2.5),
            model(start + 60, until),
            model(start - 60, until),
        ]
        .iter()
        .any(|other| *other != expected);
        if is_either && *seen != expected {
            moving += 1;
            continue;
        }
        all += 1;
        if *seen == expected {
            agree += 1;
        } else {
            let _ = writeln!(
                differences,
                "{nth}: {}\n  script {}\n  seen  {seen}\n  model {expected}",
                run.spec(),
                run.planned.script
            );
        }
    }
    println!("{differences}{agree} of {all} agree, and {moving} that are either; JOBGATE_SEED={seed}");
    assert!(all > 0 && f64::from(agree) / f64::from(all) >= LEAST, "{agree} of {all} agree\n{differences}");
}
