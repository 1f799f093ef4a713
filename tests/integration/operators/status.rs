//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::object::{
    JobSetStatus, MpiStatus, Object, ObjectStatus, VolcanoStatus, WorkloadStatus,
};
use jobgate::controllers::pod_set::Owner;
use jobgate::controllers::time::Time;
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use super::compare::{Difference, Tolerance};
use super::items;

/// Tells whether objects of a kind were recorded.
pub(super) fn is_recorded(object: &Object) -> bool {
    ["JobSet", "PodGroup", "RayCluster", "Workload"].contains(&object.kind)
}

/// Compares the status of the object that is simulated, and of its Workload.
pub(super) fn compare(world: &World, row: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let observed = &row["observed"];
    for object in world.cluster.objects.iter().filter(|object| object.kind == "Workload") {
        let is_it = |other: &&Value| other["kind"] == "Workload" && other["name"] == *object.name;
        let mut recorded = items(&observed["objects"]).iter().filter(is_it);
        if let (ObjectStatus::Workload(ours), Some(theirs), None) =
            (&object.status, recorded.next(), recorded.next())
            && is_settled(object, theirs, tolerance)
        {
            workload(&object.name, ours, &theirs["status"], difference);
        }
    }
    let Owner::Object(object) = world.main else { return };
    let object = &world.cluster.objects[object];
    match &object.status {
        ObjectStatus::JobSet(ours) if is_settled(object, observed, tolerance) => {
            job_set(ours, &observed["status"], difference);
        }
        ObjectStatus::Mpi(ours) if is_settled(object, observed, tolerance) => {
            mpi(ours, &observed["status"], tolerance, difference);
        }
        ObjectStatus::Volcano(status) => volcano(status, observed, tolerance, difference),
        _ => {}
    }
}

/// Tells whether no condition of an object changed at the end of the watch, where nothing is compared.
fn is_settled(object: &Object, observed: &Value, tolerance: Tolerance) -> bool {
    let ours = object.conditions.iter().map(|condition| condition.at.seconds());
    let theirs = items(&observed["conditions"]).iter().filter_map(|condition| condition["at"].as_f64());
    ours.chain(theirs).all(|at| tolerance.is_early(Some(at)))
}

fn mpi(ours: &MpiStatus, recorded: &Value, tolerance: Tolerance, difference: &mut Difference) {
    for (key, ours) in [("startTime", ours.start), ("completionTime", ours.completion)] {
        let (ours, theirs) = (ours.map(Time::seconds), recorded[key].as_f64());
        if !tolerance.is_near(ours, theirs) {
            difference.times.push(format!("{key} {ours:?}, recorded {theirs:?}"));
        }
    }
    let launcher = ours.launcher.unwrap_or_default();
    for (key, ours) in [("failed", launcher.failed), ("succeeded", launcher.succeeded)] {
        let theirs = &recorded["replicaStatuses"]["Launcher"][key];
        if u64::from(ours) != theirs.as_u64().unwrap_or_default() {
            difference.outcome.push(format!("launcher {key} {ours}, recorded {theirs}"));
        }
    }
}

fn workload(name: &str, ours: &WorkloadStatus, recorded: &Value, difference: &mut Difference) {
    let count = recorded["requeueState"]["count"].as_u64().unwrap_or_default();
    if u64::from(ours.requeues) != count {
        difference.outcome.push(format!("{name}: {} evictions, recorded {count}", ours.requeues));
    }
    let admitted = recorded["admission"]["podSetAssignments"][0]["count"].as_u64();
    let ours = ours.admission.as_ref().map(|admission| u64::from(admission.count));
    if ours != admitted {
        difference.outcome.push(format!("{name}: {ours:?} pods admitted, recorded {admitted:?}"));
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
