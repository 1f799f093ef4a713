//! Holds the model of the operators to what the real ones were recorded to do.

#[path = "../support/operators/mod.rs"]
mod operators;

use std::collections::BTreeMap;
use std::sync::Arc;

use jobgate::controllers::object::Object;
use jobgate::controllers::pod_set::Owner;
use jobgate::controllers::script::TimedActions;
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use crate::support::shared;
use operators::{Difference, difference, is_refused};

/// The least share of the rows of a kind that agree in outcome, and in all fields.
const LEAST: [(&str, f64, f64); 12] = [
    ("JAXJob", 0.98, 0.97),
    ("Job", 0.98, 0.97),
    ("JobSet", 0.98, 0.97),
    ("MPIJob", 0.98, 0.97),
    ("PaddleJob", 0.98, 0.97),
    ("PyTorchJob", 0.98, 0.97),
    ("RayCluster", 0.98, 0.98),
    ("RayJob", 0.98, 0.98),
    ("TFJob", 0.98, 0.97),
    ("TrainJob", 0.94, 0.94),
    ("VolcanoJob", 0.98, 0.97),
    ("XGBoostJob", 0.97, 0.96),
];

/// The least share of the rows with a timer of Volcano that agree in outcome with one of the ends that they may have.
const LEAST_TIMED: f64 = 0.9;

/// What came of the rows of a kind.
#[derive(Debug, Default)]
struct Tally {
    rows: u32,
    outcome: u32,
    whole: u32,
    /// No operator of the kind is modelled.
    unknown: u32,
    /// Refused by admission: not compared.
    refused: u32,
    /// With a timer of Volcano, and how many of them have one of the ends that they may have.
    timed: (u32, u32),
}

#[test]
fn oracle_operator_failures() {
    let Some(rows) = shared::rows("oracles/operator-failures.jsonl") else { return };
    let mut kinds: BTreeMap<String, Tally> = BTreeMap::new();
    for row in &rows {
        let tally = kinds.entry(text(row, "kind").to_owned()).or_default();
        if is_refused(row) {
            tally.refused += 1;
            continue;
        }
        if row["timer"] == true {
            let ends = [TimedActions::Likely, TimedActions::Taken, TimedActions::Lost];
            let mut worlds = ends
                .into_iter()
                .filter_map(|timed| operators::world_by(row, |script| script.timed_actions = timed));
            let is_one = worlds.any(|world| difference(&world, row).outcome.is_empty());
            tally.timed = (tally.timed.0 + 1, tally.timed.1 + u32::from(is_one));
            continue;
        }
        let Some(difference) = judge(row) else {
            tally.unknown += 1;
            continue;
        };
        tally.rows += 1;
        tally.outcome += u32::from(difference.outcome.is_empty());
        tally.whole += u32::from(difference.is_empty());
        let differs: Vec<&String> = difference.all().take(3).collect();
        if !differs.is_empty() {
            println!("{}: {differs:?}", text(row, "id"));
        }
    }
    for (kind, tally) in &kinds {
        println!(
            "{kind}: {} of {} agree, outcome {}; {} refused, {} not modelled",
            tally.whole, tally.rows, tally.outcome, tally.refused, tally.unknown
        );
        let (timed, known) = tally.timed;
        if timed > 0 {
            println!("{kind}: {known} of {timed} with a timer have one of their ends");
            assert!(f64::from(known) >= LEAST_TIMED * f64::from(timed), "{kind}: {tally:?}");
        }
    }
    for (kind, outcome, whole) in LEAST {
        let tally = kinds.get(kind).unwrap_or_else(|| panic!("no row of {kind}"));
        let share = |count: u32| f64::from(count) / f64::from(tally.rows);
        assert!(tally.rows > 0 && share(tally.outcome) >= outcome, "{kind}: {tally:?}");
        assert!(share(tally.whole) >= whole, "{kind}: {tally:?}");
    }
}

/// The least share of the scenarios of which several ends were seen for which the model has one of them, or says that it may
/// be either.
const LEAST_EITHER: f64 = 0.95;

/// The most of the scenarios that ended twice alike of which the model says that they may have either end.
const MOST_EITHER: f64 = 0.1;

#[test]
fn oracle_operator_either() {
    let Some(rows) = shared::rows("oracles/operator-either.jsonl") else { return };
    let mut scenarios: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in &rows {
        scenarios.entry(text(row, "id")).or_default().push(row);
    }
    let (mut seen, mut either, mut known) = (0_u32, 0_u32, 0_u32);
    for (id, recordings) in &scenarios {
        let Some(usual) = operators::world(recordings[0]) else { continue };
        known += 1;
        let is_seen = |world: &World| recordings.iter().any(|row| difference(world, row).outcome.is_empty());
        if is_seen(&usual) {
            seen += 1;
        } else if is_either(recordings[0], &usual) {
            either += 1;
        } else {
            println!("{id}: {:?}", difference(&usual, recordings[0]).outcome);
        }
    }
    println!("{seen} of {known} have an end that was seen, and {either} may have either");
    assert!(f64::from(seen + either) >= LEAST_EITHER * f64::from(known), "{seen} and {either} of {known}");
}

/// Tells whether a scenario ends otherwise where something left to chance is settled otherwise.
fn is_either(row: &Value, usual: &World) -> bool {
    let usual = end_of(usual);
    operators::chances(row).any(|other| end_of(&other) != usual)
}

/// Of scenarios that ended twice alike, most do so whatever chance does: "either" is no answer for everything.
#[test]
fn oracle_operator_failures_are_seldom_either() {
    let Some(rows) = shared::rows("oracles/operator-failures.jsonl") else { return };
    let (mut either, mut all) = (0_u32, 0_u32);
    for row in rows.iter().filter(|row| row["timer"] != true && !is_refused(row)) {
        let Some(usual) = operators::world(row) else { continue };
        all += 1;
        either += u32::from(is_either(row, &usual));
    }
    println!("{either} of {all} that ended twice alike may have either end");
    assert!(f64::from(either) <= MOST_EITHER * f64::from(all), "{either} of {all}");
}

/// What two ends of a scenario differ in: the pods, and the last conditions and status of the object.
fn end_of(world: &World) -> String {
    let pods = world.cluster.pods.iter().flat_map(|pods| {
        let role = &world.cluster.sets[pods.set].role;
        pods.members.iter().map(move |member| (Arc::clone(role), member, pods.attempt, pods.phase))
    });
    let mut pods: Vec<_> = pods.collect();
    pods.sort();
    let object = match world.main {
        Owner::Object(object) => world.cluster.objects.get(object),
        Owner::Job(_) => None,
    };
    let conditions = object.into_iter().flat_map(|object| &object.conditions);
    let conditions: Vec<_> = conditions.map(|one| (one.sort, one.is_true, one.reason.as_ref())).collect();
    format!("{pods:?} {conditions:?} {:?}", object.and_then(Object::end).map(|end| end.is_success))
}

/// A recording of other releases, or of another time: what `.ci/simulated --operators N --record` wrote, in
/// `JOBGATE_RECORDED_OPERATORS`.
#[test]
fn recorded_operator_failures() {
    let Ok(path) = std::env::var("JOBGATE_RECORDED_OPERATORS") else { return };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (mut agree, mut outcome, mut all, mut refused) = (0, 0, 0, 0);
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}"));
        if is_refused(&row) {
            refused += 1;
            continue;
        }
        let Some(difference) = judge(&row) else { continue };
        all += 1;
        agree += u32::from(difference.is_empty());
        outcome += u32::from(difference.outcome.is_empty());
        let differs: Vec<&String> = difference.all().take(3).collect();
        if !differs.is_empty() {
            println!(
                "{}{}: {differs:?}",
                row["id"],
                if operators::is_either(&row) { " (either)" } else { "" }
            );
        }
    }
    println!("{agree} of {all} agree, outcome {outcome}; {refused} refused");
    assert!(all > 0, "no row of {path} has an operator that is modelled");
}

/// Compares a row with what the model says; nothing where no operator of its kind is modelled.
fn judge(row: &Value) -> Option<Difference> {
    Some(difference(&operators::world(row)?, row))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}
