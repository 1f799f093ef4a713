//! Holds the model of the operators to what the real ones were recorded to do. The fields and their tolerances are those of
//! the recordings' page.

#[path = "operators/compare.rs"]
mod compare;
#[path = "operators/status.rs"]
mod status;

use std::collections::BTreeMap;

use jobgate::controllers::script::Script;
use jobgate::controllers::time::{Clock, Time};
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use crate::support::shared;
use compare::{Difference, difference};

/// Objects were created 0.1 s after a whole second.
const START: Clock = Clock { start: 100 };

/// The least share of the rows of a kind that agree in outcome, and in all fields.
const LEAST: [(&str, f64, f64); 2] = [("RayCluster", 0.98, 0.98), ("RayJob", 0.98, 0.98)];

/// What came of the rows of a kind.
#[derive(Debug, Default)]
struct Tally {
    rows: u32,
    outcome: u32,
    whole: u32,
    /// No operator of the kind is modelled.
    unknown: u32,
    /// Refused by admission, or with a timer of Volcano: not compared.
    apart: u32,
}

#[test]
fn oracle_operator_failures() {
    let Some(rows) = shared::rows("oracles/operator-failures.jsonl") else { return };
    let mut kinds: BTreeMap<String, Tally> = BTreeMap::new();
    for row in &rows {
        let tally = kinds.entry(text(row, "kind").to_owned()).or_default();
        if row["timer"] == true || is_refused(row) {
            tally.apart += 1;
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
            "{kind}: {} of {} agree, outcome {}; {} apart, {} not modelled",
            tally.whole, tally.rows, tally.outcome, tally.apart, tally.unknown
        );
    }
    for (kind, outcome, whole) in LEAST {
        let tally = kinds.get(kind).unwrap_or_else(|| panic!("no row of {kind}"));
        let share = |count: u32| f64::from(count) / f64::from(tally.rows);
        assert!(tally.rows > 0 && share(tally.outcome) >= outcome, "{kind}: {tally:?}");
        assert!(share(tally.whole) >= whole, "{kind}: {tally:?}");
    }
}

/// Tells whether the API server refused the object itself.
fn is_refused(row: &Value) -> bool {
    !row["observed"]["refused"].is_null() && row["observed"]["pods"].is_null()
}

/// Lets a row happen; nothing where no operator of its kind is modelled.
pub(crate) fn world(row: &Value) -> Option<World> {
    let mut script = Script::parse(&row["script"]).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    script.is_never_ready = row["no_ready"] == true;
    let until = row["observed"]["until"].as_f64().and_then(Time::from_fraction).expect("an end");
    let mut world = World::with_object(&row["manifest"], items(&row["also"]), script, START)?;
    world.run(until).expect("an end of the simulation");
    Some(world)
}

/// Compares a row with what the model says; nothing where no operator of its kind is modelled.
pub(crate) fn judge(row: &Value) -> Option<Difference> {
    Some(difference(&world(row)?, row))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
