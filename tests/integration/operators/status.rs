//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::object::{JobSetStatus, Object, ObjectStatus};
use jobgate::controllers::pod_set::Owner;
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use super::compare::{Difference, Tolerance};

/// Tells whether objects of a kind were recorded.
pub(super) fn is_recorded(object: &Object) -> bool {
    ["JobSet", "PodGroup", "RayCluster", "Workload"].contains(&object.kind)
}

/// Compares the status of the object that is simulated.
pub(super) fn compare(world: &World, row: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let Owner::Object(object) = world.main else { return };
    let status = &row["observed"]["status"];
    let object = &world.cluster.objects[object];
    if object.gone.is_some_and(|gone| !tolerance.is_early(Some(gone.seconds()))) || status.is_null() {
        return;
    }
    match &object.status {
        ObjectStatus::JobSet(ours) => job_set(ours, status, difference),
        _ => {}
    }
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
