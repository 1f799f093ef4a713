//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::object::{JobSetStatus, Object, ObjectStatus};
use jobgate::controllers::pod_set::Owner;
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use super::compare::{Difference, Tolerance};
use super::items;

/// Tells whether objects of a kind were recorded.
pub(super) fn is_recorded(object: &Object) -> bool {
    ["JobSet", "PodGroup", "RayCluster", "Workload"].contains(&object.kind)
}

/// Compares the status of the object that is simulated.
pub(super) fn compare(world: &World, row: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let Owner::Object(object) = world.main else { return };
    let observed = &row["observed"];
    let object = &world.cluster.objects[object];
    match &object.status {
        ObjectStatus::JobSet(ours) if is_settled(object, observed, tolerance) => {
            job_set(ours, &observed["status"], difference);
        }
        _ => {}
    }
}

/// Tells whether no condition of an object changed at the end of the watch, where nothing is compared.
fn is_settled(object: &Object, observed: &Value, tolerance: Tolerance) -> bool {
    let ours = object.conditions.iter().map(|condition| condition.at.seconds());
    let theirs = items(&observed["conditions"]).iter().filter_map(|condition| condition["at"].as_f64());
    ours.chain(theirs).all(|at| tolerance.is_early(Some(at)))
}

fn job_set(ours: &JobSetStatus, recorded: &Value, difference: &mut Difference) {
    let number = |key: &str| recorded[key].as_u64().unwrap_or_default();
    for (key, ours) in
        [("restarts", ours.restarts), ("restartsCountTowardsMax", ours.restarts_count_towards_max)]
    {
        if u64::from(ours) != number(key) {
            difference.outcome.push(format!("{key} {ours}, recorded {}", recorded[key]));
        }
    }
    if ours.terminal_state != recorded["terminalState"].as_str() {
        let line = format!("terminalState {:?}, recorded {}", ours.terminal_state, recorded["terminalState"]);
        difference.outcome.push(line);
    }
}
