//! The model of the operators beside recordings of the real ones, in the format that `tests/cluster/README.md`
//! describes. `compare` has the fields that are compared, and their tolerances.

mod compare;
mod status;

use jobgate::controllers::operators::{KueueSettings, Settings, WaitForPodsReady};
use jobgate::controllers::script::Script;
use jobgate::controllers::time::{Clock, Time};
use jobgate::controllers::world::World;
use jobgate::text::value::{Value, json};

pub(crate) use compare::{Difference, difference};

/// Where in a second the objects of a row without `phase` were created, in milliseconds.
const START: i64 = 100;

/// The release of kube-apiserver and kube-controller-manager of a row without `kubernetes`.
const KUBERNETES: &str = "v1.36.2";

/// By how much a start is shifted to see whether something hangs on it, in milliseconds.
const SHIFT: i64 = 60;

/// For how many milliseconds an operator may not see that it has ended an object: until what it deleted is gone, or until
/// others have made what belongs to what it made once more.
const END_LAGS: [i64; 2] = [40, 150];

/// Tells whether the API server refused the object itself.
pub(crate) fn is_refused(row: &Value) -> bool {
    !row["observed"]["refused"].is_null() && row["observed"]["pods"].is_null()
}

/// Lets a row happen; nothing where no operator of its kind is modelled.
pub(crate) fn world(row: &Value) -> Option<World> {
    play(row, &script(row), start(row))
}

/// Lets a row happen, with something left to chance settled in another way.
pub(crate) fn world_by(row: &Value, settle: impl FnOnce(&mut Script)) -> Option<World> {
    let mut script = script(row);
    settle(&mut script);
    play(row, &script, start(row))
}

/// Lets a row happen with each thing that is left to chance settled otherwise.
pub(crate) fn chances(row: &Value) -> impl Iterator<Item = World> {
    let start = start(row);
    script(row).chances().into_iter().filter_map(move |script| play(row, &script, start))
}

/// Lets a row happen some hundredths of a second earlier and later, and with the end of its object seen late.
pub(crate) fn shifted(row: &Value) -> impl Iterator<Item = World> {
    let (script, start) = (script(row), start(row));
    let lagging = END_LAGS.map(|lag| {
        let mut script = script.clone();
        script.end_lag = Time::from_millis(lag);
        (script, start)
    });
    let shifted = [start - SHIFT, start + SHIFT].map(|start| (script.clone(), start));
    let ways: Vec<(Script, i64)> = shifted.into_iter().chain(lagging).collect();
    ways.into_iter().filter_map(move |(script, start)| play(row, &script, start))
}

/// Tells whether the outcome of a row is one of those that the model has where it leaves something to chance, or where
/// things are shifted by a moment.
pub(crate) fn is_either(row: &Value) -> bool {
    chances(row).chain(shifted(row)).any(|world| difference(&world, row).outcome.is_empty())
}

fn script(row: &Value) -> Script {
    let mut script = Script::parse(&row["script"]).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    script.is_never_ready = row["no_ready"] == true;
    script
}

fn start(row: &Value) -> i64 {
    row["phase"].as_f64().and_then(Time::from_fraction).map_or(START, Time::millis)
}

fn play(row: &Value, script: &Script, start: i64) -> Option<World> {
    let until = row["observed"]["until"].as_f64().and_then(Time::from_fraction).expect("an end");
    let before: Vec<Value> = items(&row["also"]).iter().cloned().chain(priority_classes()).collect();
    let world =
        World::with_operators(&row["manifest"], &before, script.clone(), Clock { start }, &settings())?;
    let kubernetes = row["kubernetes"].as_str().unwrap_or(KUBERNETES);
    let mut world = if has_wait_fault(kubernetes) { world.with_wait_fault() } else { world };
    world.cluster.lacks_claims = true;
    world.run(until).expect("an end of the simulation");
    Some(world)
}

/// Tells whether kubernetes#139428 is in a release; patch releases after these of 1.34 to 1.36 are without it, as 1.37 is.
pub(crate) fn has_wait_fault(version: &str) -> bool {
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

/// Returns how the operators of the recordings were configured: Kueue with shorter times.
fn settings() -> Settings {
    let wait_for_pods_ready = WaitForPodsReady {
        timeout: Time::from_seconds(15),
        recovery: Some(Time::from_seconds(15)),
        backoff_base: Time::from_seconds(6),
        ..WaitForPodsReady::default()
    };
    let kueue = KueueSettings { wait_for_pods_ready: Some(wait_for_pods_ready), ..KueueSettings::default() };
    Settings { kueue, ..Settings::default() }
}

/// Returns the classes of priority of the recordings' cluster.
fn priority_classes() -> impl Iterator<Item = Value> {
    [("low", 10), ("high", 1000)].into_iter().map(|(name, value)| {
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        })
    })
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
