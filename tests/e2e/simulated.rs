//! Random Jobs and scripts, on the real kube-controller-manager and in the model: the outcome must be the same.
//!
//! It takes a while, so that it runs only where `JOBGATE_SIMULATED` says how many; `JOBGATE_SEED` repeats a run.

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
use crate::random::Random;
use crate::scenario::Place;

/// How many Jobs are created in one second.
const AT_ONCE: usize = 4;
/// How long a Job is watched.
const WATCHED: u64 = 45;
/// Where in a second Jobs are created, in milliseconds.
const PHASE: u64 = 100;
/// The share that must agree: two recordings of one Job agree in 97.6 of a hundred.
const LEAST: f64 = 0.97;

/// Returns the comparison, if it was asked for.
pub(crate) fn trials(ensemble: &Arc<Lazy>) -> Result<Vec<Trial>, String> {
    let Ok(count) = env::var("JOBGATE_SIMULATED") else { return Ok(Vec::new()) };
    let count: usize = count.parse().map_err(|_| format!("JOBGATE_SIMULATED is a number, not {count}"))?;
    let ensemble = Arc::clone(ensemble);
    Ok(vec![Trial::test("simulated_jobs_end_as_the_real_ones", move || {
        run(&ensemble, |ensemble| compare(ensemble, count))
    })])
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

struct Run<'e> {
    place: Place<'e>,
    spec: Value,
    script: serde_json::Value,
    scenario: Option<Scenario>,
    seen: Option<String>,
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970")
}

fn compare(ensemble: &Ensemble, count: usize) {
    let seed = env::var("JOBGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| now().as_secs());
    println!("JOBGATE_SEED={seed}");
    let mut random = Random::new(seed);
    let mut runs: Vec<Run<'_>> = (0..count)
        .map(|_| {
            let place = Place::new(&ensemble.cluster, false);
            let spec = spec(&mut random);
            let script = script(&mut random, &spec);
            Run { place, spec, script, scenario: None, seen: None }
        })
        .collect();
    let batches = count.div_ceil(AT_ONCE);
    let watched = usize::try_from(WATCHED).expect("a small number");
    for second in 0..batches + watched {
        // The same moment of each second.
        let into = u64::from(now().subsec_millis());
        sleep(Duration::from_millis((1_000 + PHASE - into) % 1_000));
        let began = Instant::now();
        for run in runs.chunks_mut(AT_ONCE).nth(second).into_iter().flatten() {
            let object = json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": run.spec.clone(),
            });
            let scenario =
                ensemble.kubelet.take(&run.place.namespace, Script::parse(&run.script).expect("a script"));
            let list = list_of(&run.place.namespace, &object);
            scenario.begin(&format!("{list}/j"), Arc::new(()));
            let (status, answer) = ensemble.api.send_as(ANYBODY, Method::POST, &list, &object);
            assert_eq!(status, 201, "{answer:#}");
            run.scenario = Some(scenario);
        }
        let done = second.checked_sub(watched).and_then(|batch| runs.chunks_mut(AT_ONCE).nth(batch));
        for run in done.into_iter().flatten() {
            let Some(scenario) = run.scenario.take() else { continue };
            let object = run.place.stored("job/j");
            run.seen = Some(seen(&object, &scenario.timeline()));
        }
        if let Some(rest) = Duration::from_millis(700).checked_sub(began.elapsed()) {
            sleep(rest);
        }
    }
    let version = ensemble.cluster.admin.run(&["get", "--raw", "/version"], "").quiet().json();
    let version = version["gitVersion"].as_str().expect("a version");
    report(&runs, seed, has_wait_fault(version));
}

/// Tells whether kubernetes#139428 is in a release; patch releases after these of 1.34 to 1.36 are without it, as 1.37 is.
fn has_wait_fault(version: &str) -> bool {
    let mut parts =
        version.trim_start_matches("v1.").split('.').map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
    let (minor, patch) = (parts.next().unwrap_or(u32::MAX), parts.next().unwrap_or(u32::MAX));
    match minor {
        ..=33 => true,
        34 | 35 => patch <= 4,
        36 => patch <= 2,
        _ => false,
    }
}

fn report(runs: &[Run<'_>], seed: u64, has_wait_fault: bool) {
    let (mut agree, mut all, mut moving) = (0_u32, 0_u32, 0_u32);
    let mut differences = String::new();
    let start = i64::try_from(PHASE).expect("a small number") + 10;
    let until = f64::from(u32::try_from(WATCHED).expect("a small number"));
    for (nth, run) in runs.iter().enumerate() {
        let Some(seen) = &run.seen else { continue };
        let model = |start: i64, at: f64| modelled(&run.spec, &run.script, start, at, has_wait_fault);
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
                run.spec, run.script
            );
        }
    }
    println!("{differences}{agree} of {all} agree, and {moving} that are either; JOBGATE_SEED={seed}");
    assert!(all > 0 && f64::from(agree) / f64::from(all) >= LEAST, "{agree} of {all} agree\n{differences}");
}
