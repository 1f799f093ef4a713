//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::dashboard::programs::ProgramState;
use jobgate::controllers::object::{
    DeploymentStatus, JobSetStatus, MpiStatus, Object, ObjectStatus, RayJobReason, RayJobStatus,
    VolcanoStatus, WorkloadStatus,
};
use jobgate::controllers::pod_set::Owner;
use jobgate::controllers::time::Time;
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use super::compare::{Difference, Tolerance};
use super::{items, text};

/// Tells whether objects of a kind were recorded.
pub(super) fn is_recorded(object: &Object) -> bool {
    ["JobSet", "PodGroup", "RayCluster", "Workload"].contains(&object.kind)
}

/// Tells whether the conditions of an object are stable: those of a RayCluster are not after one of its pods was replaced.
pub(super) fn has_stable_conditions(observed: &Value, kind: &str, name: &str) -> bool {
    let number: u64 = name.strip_prefix("CLUSTER").and_then(|number| number.parse().ok()).unwrap_or(0);
    let pods: Vec<&Value> = items(&observed["pods"]).iter().filter(|pod| pod["set"] == number).collect();
    let is_replaced = |gone: &&Value| {
        let at = gone["gone"].as_f64();
        pods.iter().any(|pod| pod["role"] == gone["role"] && at.is_some() && pod["created"].as_f64() >= at)
    };
    kind != "RayCluster" || !pods.iter().any(is_replaced)
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
        ObjectStatus::RayJob(status) => {
            ray_job(status, observed, tolerance, difference);
            ray_programs(world, observed, tolerance, difference);
        }
        ObjectStatus::RayCluster(status) => {
            let ours = status.state.map_or("", |state| state.word());
            if text(&observed["status"], "state") != ours {
                let line = format!("state {ours:?}, recorded {}", observed["status"]["state"]);
                difference.outcome.push(line);
            }
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

/// Compares the end of a RayJob: its statuses, the reason and the counts, and when it came to them.
fn ray_job(status: &RayJobStatus, observed: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let phases = items(&observed["phases"]);
    let Some(last) = phases.last() else { return };
    let reached = phases.iter().rev().take_while(|phase| phase[1] == last[1]).last();
    let reached = reached.and_then(|phase| phase[0].as_f64());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = (
        status.deployment.map_or("", DeploymentStatus::word).to_owned(),
        status.program.map_or("", ProgramState::word).to_owned(),
        status.reason.map_or("", RayJobReason::word).to_owned(),
        u64::from(status.failed),
        u64::from(status.succeeded),
    );
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let theirs = (word(&last[1]), word(&last[2]), word(&last[3]), count(&last[4]), count(&last[5]));
    // What came within the last moments may not have come here yet.
    if ours != theirs && tolerance.is_early(last[0].as_f64()) {
        difference.outcome.push(format!("{ours:?}, recorded {theirs:?}"));
        return;
    }
    let (at, theirs) = (status.changed.seconds(), reached);
    if ours.0 == word(&last[1]) && !tolerance.is_near(Some(at), theirs) {
        difference.times.push(format!("{} at {at}, recorded {theirs:?}", ours.0));
    }
}

/// Compares the programs that were submitted: to which cluster, with which id, by whom and when. How they ended is the
/// script's.
fn ray_programs(world: &World, observed: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let ours = &world.cluster.dashboards.programs;
    let theirs = items(&observed["programs"]);
    let early = ours.iter().filter(|program| tolerance.is_early(Some(program.submitted.seconds()))).count();
    let seen = theirs.iter().filter(|program| tolerance.is_early(program["submitted"].as_f64())).count();
    if early > theirs.len() || seen > ours.len() {
        difference.outcome.push(format!("{} programs, recorded {}", ours.len(), theirs.len()));
    }
    for (nth, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let words = [ours.cluster.as_str(), ours.id.as_str(), ours.by.word()];
        let recorded = ["cluster", "id", "by"].map(|key| text(theirs, key));
        if words != recorded {
            difference.outcome.push(format!("program {nth} {words:?}, recorded {recorded:?}"));
        }
        let (at, submitted) = (ours.submitted.seconds(), theirs["submitted"].as_f64());
        if !tolerance.is_near(Some(at), submitted) {
            difference.times.push(format!("program {nth} at {at}, recorded {submitted:?}"));
        }
        let (at, stopped) = (ours.stopped.map(|at| at.seconds()), theirs["stopped"].as_f64());
        let is_asked = ours.stopped_by_operator;
        if !tolerance.is_near(at.filter(|_| is_asked), stopped) {
            difference.outcome.push(format!("program {nth} stopped {at:?}, recorded {stopped:?}"));
        }
    }
}
