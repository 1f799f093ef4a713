//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::object::{Object, ObjectStatus, VolcanoStatus};
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
    match &world.cluster.objects[object].status {
        ObjectStatus::Volcano(status) => volcano(status, &row["observed"], tolerance, difference),
        _ => {}
    }
}

/// Compares phase and retries of a Volcano Job, and when it ended.
fn volcano(status: &VolcanoStatus, observed: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let phases = items(&observed["phases"]);
    let Some(last) = phases.last() else { return };
    let reached = phases.iter().rev().take_while(|phase| phase[1] == last[1]).last();
    let reached = reached.and_then(|phase| phase[0].as_f64());
    let ours_at = status.transition.seconds();
    if !tolerance.is_early(reached) || !tolerance.is_early(Some(ours_at)) {
        return;
    }
    if last[1] != status.phase.name() || last[2].as_u64() != Some(u64::from(status.retry_count)) {
        let ours = (status.phase.name(), status.retry_count);
        difference.outcome.push(format!("{ours:?}, recorded {last}"));
    }
    let at = observed["status"]["state"]["lastTransitionTime"].as_f64();
    if status.phase.is_finished() && !tolerance.is_near(Some(ours_at), at) {
        difference.times.push(format!("{} at {ours_at}, recorded {at:?}", status.phase.name()));
    }
}
