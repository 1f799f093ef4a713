//! Random objects of operators' kinds, on the real operators and in the model: the outcome must be one of those that the model
//! has. What was seen may be written as rows (`JOBGATE_RECORD`), and rows may be recorded again (`JOBGATE_ROWS`).

mod fixtures;
mod names;
mod objects;
mod random;
mod rows;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jobgate::text::value::Value as Object;
use serde_json::{Value, json};

use super::{each_second, now, seed, version_of};
use crate::api::list_of;
use crate::cel;
use crate::ensemble::Ensemble;
use crate::kinds::ANYBODY;
use crate::kubelet::Scenario;
use crate::kubelet::script::Script;
use crate::modelled::{self, Difference};
use crate::operator::Operator;
use crate::process::eventually;
use crate::random::Random;
use crate::scenario::Place;
pub(super) use objects::Objects;

/// How long an object is watched, in seconds; a Job in a queue for longer, since it waits there.
const WATCHED: u64 = 45;
const WATCHED_IN_QUEUE: u64 = 60;
/// How many seconds before an object what must be there before it is made.
const LEAD: usize = 3;
/// The share that must agree at first sight.
const LEAST: f64 = 0.95;

/// An object that is to run.
struct Plan {
    /// A row without what was observed.
    row: Value,
    /// For how many seconds it is watched.
    watched: u64,
}

fn watched(kind: &str) -> u64 {
    if kind == "Job" { WATCHED_IN_QUEUE } else { WATCHED }
}

/// Runs random scenarios, and compares each with the model.
pub(super) fn compare(ensemble: &Ensemble, count: usize) {
    let seed = seed();
    println!("JOBGATE_SEED={seed}");
    let mut random = Random::new(seed);
    let has = |kind: &str| Objects::operator(kind).is_some_and(|operator| is_installed(ensemble, operator));
    let plan = |nth: usize| {
        let scene = random::scene(&mut random, nth, &has);
        let mut row = json!({
            "id": format!("r{seed}-{nth}"), "kind": scene.kind, "about": "random",
            "manifest": scene.manifest, "script": scene.script, "limit": watched(scene.kind),
        });
        if !scene.also.is_empty() {
            row["also"] = scene.also.into();
        }
        Plan { watched: watched(scene.kind), row }
    };
    let rows = play(ensemble, (0..count).map(plan).collect());
    super::rows::write_recording(&rows);
    report(ensemble, &rows, &format!("JOBGATE_SEED={seed}"));
}

/// Runs the fixtures of rules about an incident, each with what its fix makes of it, and compares both with the model and with
/// each other.
pub(super) fn compare_fixtures(ensemble: &Ensemble) {
    let has = |kind: &str| Objects::operator(kind).is_some_and(|operator| is_installed(ensemble, operator));
    let plans = fixtures::plans(&has);
    if plans.is_empty() {
        return;
    }
    let rows = play(ensemble, plans);
    super::rows::write_recording(&rows);
    report(ensemble, &rows, "fixtures");
    let pairs: Vec<_> = rows.windows(2).filter(|pair| pair[1]["fixed"] == true).collect();
    let is_same = |pair: &&[Value]| rows::differences(&pair[0], &pair[1]).is_empty();
    let same: Vec<String> =
        pairs.iter().copied().filter(is_same).map(|pair| pair[1]["id"].to_string()).collect();
    println!("{} fixtures have a fix; of these end as without it: {same:?}", pairs.len());
    assert!(same.is_empty(), "{same:?}");
}

/// Records rows again, and prints what differs.
pub(super) fn record_again(ensemble: &Ensemble, recorded: Vec<Value>) {
    let (mut plans, mut before, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for row in recorded {
        let operator = Objects::operator(row["kind"].as_str().unwrap_or_default());
        let is_there = operator.is_some_and(|operator| is_installed(ensemble, operator));
        // All objects of the cluster would miss their controller.
        let script = row["script"].as_array().expect("a script of each row");
        if !is_there || script.iter().any(|entry| !entry["controller"].is_null()) {
            left_out.push(row["id"].as_str().unwrap_or_default().to_owned());
            continue;
        }
        let until = row["observed"]["until"].as_f64().unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some minutes")]
        let watched = until.ceil() as u64;
        let mut plan = row.clone();
        plan.as_object_mut().expect("a row is an object").remove("observed");
        plans.push(Plan { row: plan, watched });
        before.push(row);
    }
    create_runtimes(ensemble, &before);
    let rows = play(ensemble, plans);
    super::rows::write_recording(&rows);
    let (mut same, mut timed) = (0_usize, 0_usize);
    for (before, after) in before.iter().zip(&rows) {
        // What comes of an action of Volcano that waits for a timeout is chance.
        if before["timer"] == true {
            timed += 1;
            continue;
        }
        let differences = rows::differences(before, after);
        same += usize::from(differences.is_empty());
        if !differences.is_empty() {
            println!("{}: {}", before["id"], differences.join("; "));
        }
    }
    if !left_out.is_empty() {
        let why = "their operator is not here or is not recorded, or a controller is stopped";
        println!("not recorded again: {} rows, {why}: {}", left_out.len(), left_out.join(", "));
    }
    let all = rows.len() - timed;
    println!("{same} of {all} are as they were, {timed} have a timer; on {}", releases(ensemble).join(", "));
}

fn is_installed(ensemble: &Ensemble, operator: &str) -> bool {
    ensemble.folders.iter().any(|(known, _)| known.name == operator)
}

/// Returns an operator with its release, where the name of its folder says which: `jobset 0.12.0`.
fn release((operator, folder): (&Operator, &Path)) -> String {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix(operator.name).and_then(|rest| rest.strip_prefix("-v"));
    match rest.and_then(|rest| rest.split('-').next()) {
        Some(release) => format!("{} {release}", operator.name),
        None => operator.name.to_owned(),
    }
}

fn releases(ensemble: &Ensemble) -> Vec<String> {
    let folders = ensemble.folders.iter();
    folders.map(|(operator, folder)| release((operator, folder))).collect()
}

/// Creates the runtimes that Trainer ships, where rows use one.
fn create_runtimes(ensemble: &Ensemble, rows: &[Value]) {
    let is_used = |row: &Value| row["manifest"]["spec"]["runtimeRef"]["kind"] == "ClusterTrainingRuntime";
    let Some((_, folder)) = ensemble.folders.iter().find(|(operator, _)| operator.name == "trainer") else {
        return;
    };
    if !rows.iter().any(is_used) {
        return;
    }
    for file in cel::files(&folder.join("manifests/base/runtimes")) {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if text.contains("kind: ClusterTrainingRuntime") {
            ensemble.cluster.admin.run(&["apply", "--server-side", "-f", "-"], &text).ok();
        }
    }
}

/// Creates what the cluster of the recordings had: a flavor and priorities of Kueue, queues of Volcano. Volcano's scheduler
/// makes the queues where it runs.
fn administer(ensemble: &Ensemble) {
    let kueue = |kind: &str, name: &str| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}});
    let priority = |name: &str, value: u32| {
        let mut class = kueue("WorkloadPriorityClass", name);
        class["value"] = value.into();
        class
    };
    let queue = |name: &str, spec: Value| json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec});
    let mut all = Vec::new();
    if is_installed(ensemble, "kueue") {
        all.extend([kueue("ResourceFlavor", "default"), priority("low", 10), priority("high", 1000)]);
    }
    if is_installed(ensemble, "volcano") {
        all.push(queue("root", json!({"reclaimable": false, "weight": 1})));
        all.push(queue("default", json!({"reclaimable": true, "weight": 1, "parent": "root"})));
    }
    for object in all {
        let text = object.to_string();
        let applied = eventually(Duration::from_secs(60), || {
            let output = ensemble.cluster.admin.run(&["apply", "-f", "-"], &text);
            if output.success { Ok(()) } else { Err(output.to_string()) }
        });
        applied.unwrap_or_else(|error| panic!("{error}"));
    }
}

struct Run<'e> {
    plan: Plan,
    place: Place<'e>,
    began: Duration,
    scenario: Option<Scenario>,
    /// The second in which it is created, and the one in which it is looked at.
    from: usize,
    until: usize,
    row: Option<Value>,
}

/// Returns how many seconds there are from one object to the next: one, or what `JOBGATE_EVERY` says for a machine that has
/// other work.
fn every() -> usize {
    let every = env::var("JOBGATE_EVERY").ok().and_then(|every| every.parse().ok());
    every.unwrap_or(1).max(1)
}

/// Creates the objects, one after the other, looks at each after its time, and returns their rows.
fn play(ensemble: &Ensemble, plans: Vec<Plan>) -> Vec<Value> {
    let names: Vec<&str> = ensemble.folders.iter().map(|(operator, _)| operator.name).collect();
    let objects = Objects::watch(&ensemble.api, &names);
    administer(ensemble);
    let every = every();
    let run = |(nth, plan): (usize, Plan)| {
        let place = Place::new(&ensemble.cluster, false);
        let from = LEAD + nth * every;
        let until = from + usize::try_from(plan.watched).expect("a small number");
        Run { from, plan, place, began: Duration::ZERO, scenario: None, until, row: None }
    };
    let mut runs: Vec<Run<'_>> = plans.into_iter().enumerate().map(run).collect();
    let last = runs.iter().map(|run| run.until).max().unwrap_or_default();
    each_second(last, |second| {
        for run in runs.iter_mut().filter(|run| run.from == second + LEAD) {
            prepare(ensemble, &objects, run);
        }
        for run in runs.iter_mut().filter(|run| run.from == second) {
            begin(ensemble, &objects, run);
        }
        for run in runs.iter_mut().filter(|run| run.until == second) {
            look(ensemble, &objects, run);
        }
    });
    runs.into_iter().map(|run| run.row.expect("each was looked at")).collect()
}

/// Takes a namespace, and creates there what must be there before an object.
fn prepare(ensemble: &Ensemble, objects: &Objects, run: &mut Run<'_>) {
    let row = &run.plan.row;
    let script = Script::parse(&row["script"]).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    let script = if row["no_ready"] == true { script.never_ready() } else { script };
    run.scenario = Some(ensemble.kubelet.take(&run.place.namespace, script));
    objects.begin(&run.place.namespace);
    for object in row["also"].as_array().into_iter().flatten() {
        let text = object.to_string().replace("$NS", &run.place.namespace);
        let mut object: Value = serde_json::from_str(&text).expect("an object");
        let path = object.as_object_mut().and_then(|fields| fields.remove("path"));
        let object = Object::from(object);
        let path = match path.as_ref().and_then(Value::as_str) {
            Some(path) => path.to_owned(),
            None => list_in(&run.place.namespace, &object),
        };
        let (status, answer) = ensemble.api.send_as(ANYBODY, Method::POST, &path, &object);
        assert_eq!(status, 201, "{answer:#}");
    }
}

/// Returns the path of the objects of a kind in a namespace.
fn list_in(namespace: &str, object: &Object) -> String {
    // Jobgate judges no cluster.
    if object["kind"] == "RayCluster" {
        return format!("/apis/ray.io/v1/namespaces/{namespace}/rayclusters");
    }
    list_of(namespace, object)
}

/// Creates an object; one that is refused is a row at once.
fn begin(ensemble: &Ensemble, objects: &Objects, run: &mut Run<'_>) {
    let object = Object::from(run.plan.row["manifest"].clone());
    let list = list_in(&run.place.namespace, &object);
    let path = format!("{list}/{}", object["metadata"]["name"].as_str().expect("a name"));
    let scenario = run.scenario.as_ref().expect("its namespace was taken");
    objects.begin(&run.place.namespace);
    run.began = now();
    scenario.begin(&path, Arc::new(()));
    let (status, answer) = ensemble.api.send_as(ANYBODY, Method::POST, &list, &object);
    if status != 201 {
        run.scenario = None;
        let text = answer["message"].as_str().unwrap_or_default().replace(&run.place.namespace, "NS");
        run.row = Some(described(ensemble, run, json!({ "refused": text })));
    }
}

/// Notes what has become of an object, and deletes it and those beside it: without its pods, an operator may be without rest.
fn look(ensemble: &Ensemble, objects: &Objects, run: &mut Run<'_>) {
    let Some(scenario) = run.scenario.take() else { return };
    let namespace = run.place.namespace.clone();
    let Some((seen, until)) = objects.seen(&namespace) else { return };
    let timeline = scenario.timeline();
    let row = &run.plan.row;
    let name = row["manifest"]["metadata"]["name"].as_str().expect("a name");
    let kind = row["kind"].as_str().expect("a kind");
    let until = (until.as_secs_f64() * 10.0).round() / 10.0;
    let observed = rows::observed((kind, name), &seen, &timeline, until, run.began.as_secs_f64());
    run.row = Some(described(ensemble, run, names::plain(&observed, &namespace, &seen)));
    let created = row["script"].as_array().into_iter().flatten().map(|entry| &entry["create"]);
    let also = row["also"].as_array().into_iter().flatten();
    for object in created.chain(also).chain([&row["manifest"]]) {
        let Some(name) = object["metadata"]["name"].as_str().filter(|_| object["path"].is_null()) else {
            continue;
        };
        let list = list_in(&namespace, &Object::from(object.clone()));
        let path = format!("{list}/{name}?propagationPolicy=Background");
        ensemble.api.send_as(ANYBODY, Method::DELETE, &path, &Object::Null);
    }
}

/// Returns the row of an object.
fn described(ensemble: &Ensemble, run: &Run<'_>, observed: Value) -> Value {
    let mut row = run.plan.row.clone();
    let operator = Objects::operator(row["kind"].as_str().unwrap_or_default());
    let folder = ensemble.folders.iter().find(|(known, _)| Some(known.name) == operator);
    if let Some((operator, folder)) = folder {
        row["operator"] = release((operator, folder)).into();
    }
    row["kubernetes"] = version_of(ensemble).into();
    // Some hundredths of a second pass until it is there.
    row["phase"] = json!(f64::from(run.began.subsec_millis() / 10 + 1) / 100.0);
    row["observed"] = observed;
    row
}

/// Compares rows with the model, and plays those again that differ: what is different then was late.
fn report(ensemble: &Ensemble, rows: &[Value], about: &str) {
    let mut tally: BTreeMap<&str, [u32; 5]> = BTreeMap::new();
    let mut differ = Vec::new();
    for row in rows {
        let kind = row["kind"].as_str().unwrap_or_default();
        let counts = tally.entry(kind).or_default();
        let object = Object::from(row.clone());
        if modelled::is_refused(&object) {
            counts[4] += 1;
            println!("{}: refused: {}", row["id"], row["observed"]["refused"]);
            continue;
        }
        let world = modelled::world(&object).unwrap_or_else(|| panic!("{kind} is not modelled"));
        let difference = modelled::difference(&world, &object);
        counts[0] += u32::from(difference.outcome.is_empty());
        counts[1] += u32::from(difference.is_empty());
        if difference.outcome.is_empty() {
            if !difference.is_empty() {
                println!("{} ({kind}), times only: {}", row["id"], lines(&difference));
            }
        } else if modelled::is_either(&object) {
            counts[2] += 1;
        } else {
            counts[3] += 1;
            differ.push((row, difference));
        }
    }
    let plan = |row: &Value| {
        let mut row = row.clone();
        row.as_object_mut().expect("a row is an object").remove("observed");
        let kind = row["kind"].as_str().unwrap_or_default();
        Plan { watched: row["limit"].as_u64().unwrap_or_else(|| watched(kind)), row }
    };
    let again = play(ensemble, differ.iter().map(|(row, _)| plan(row)).collect());
    for ((row, difference), again) in differ.iter().zip(&again) {
        let object = Object::from(again.clone());
        let world = modelled::world(&object).expect("it is modelled");
        let second = modelled::difference(&world, &object);
        println!("{} ({}) differs: {}", row["id"], row["kind"], lines(difference));
        println!("  {} script {}", row["manifest"]["spec"], row["script"]);
        if second.outcome.is_empty() {
            println!("  again: it agrees");
        } else {
            println!("  again: {}", lines(&second));
        }
        let between = rows::differences(row, again);
        println!("  both recordings: {}", between.into_iter().take(4).collect::<Vec<_>>().join("; "));
    }
    let mut whole = [0_u32; 5];
    for (kind, counts) in &tally {
        println!("{kind}: {}", sum(*counts));
        whole.iter_mut().zip(counts).for_each(|(whole, count)| *whole += count);
    }
    println!("all: {}; {about}; {}", sum(whole), releases(ensemble).join(", "));
    let share = f64::from(whole[0]) / f64::from(whole[0] + whole[3]);
    assert!(share >= LEAST, "{}", sum(whole));
}

/// Says what came of scenarios: those that agree in outcome, in times too, that are either, that differ, that are refused.
fn sum([outcome, whole, either, differ, refused]: [u32; 5]) -> String {
    format!(
        "{outcome} of {} agree at first sight ({whole} in times too), and {either} that are either; {refused} refused",
        outcome + differ
    )
}

fn lines(difference: &Difference) -> String {
    difference.all().take(4).cloned().collect::<Vec<_>>().join("; ")
}

/// Returns how many scenarios are to run, where `JOBGATE_SIMULATED_OPERATORS` says it.
pub(super) fn count() -> Result<Option<usize>, String> {
    let Ok(count) = env::var("JOBGATE_SIMULATED_OPERATORS") else { return Ok(None) };
    let count = count.parse();
    count.map(Some).map_err(|_| "JOBGATE_SIMULATED_OPERATORS is a number".to_owned())
}
