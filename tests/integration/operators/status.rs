//! Compares what operators write in `status` beside conditions.

use jobgate::controllers::dashboard::ProgramState;
use jobgate::controllers::object::{DeploymentStatus, Object, ObjectStatus, RayJobReason, RayJobStatus};
use jobgate::controllers::pod_set::Owner;
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

/// Compares the status of the object that is simulated.
pub(super) fn compare(world: &World, row: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let Owner::Object(object) = world.main else { return };
    let observed = &row["observed"];
    match &world.cluster.objects[object].status {
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
        _ => {}
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
