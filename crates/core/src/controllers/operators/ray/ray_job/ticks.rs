//! When a RayJob is looked at again. It is looked at every 3 s (`RayJobDefaultRequeueDuration`); here only where a look sees
//! something that the one before did not.

use super::super::super::super::cluster::{Cluster, Event};
use super::super::super::super::dashboard::Answer;
use super::super::super::super::dashboard::programs::ProgramState;
use super::super::super::super::object::DeploymentStatus;
use super::super::super::super::pod_set::Owner;
use super::super::super::super::time::Time;
use super::Reconcile;
use super::checks::{GRACE_PERIOD, STATUS_TIMEOUT, SUBMITTER_TIMEOUT};

/// How long after a look the next one is.
const TICK: Time = Time::from_seconds(3);

/// Returns the first look after one that is not before a time.
pub(super) fn tick_after(looked: Time, at: Time) -> Time {
    let left = (at - looked).millis().max(1);
    let ticks = left.saturating_add(TICK.millis() - 1) / TICK.millis();
    looked + Time::from_millis(ticks.saturating_mul(TICK.millis()))
}

/// Tells whether something changed that a RayJob's controller does not watch, but asks for: dashboards, pods, and clusters
/// of others.
pub(super) fn is_polled(event: Event, cluster: &Cluster) -> bool {
    let is_cluster =
        |object: usize| cluster.objects.get(object).is_some_and(|object| object.kind == "RayCluster");
    match event {
        Event::Dashboards => true,
        Event::Pod(Owner::Object(object))
        | Event::Object(object)
        | Event::ObjectStatus(object)
        | Event::ObjectGone(object) => is_cluster(object),
        _ => false,
    }
}

impl Reconcile<'_> {
    /// Returns when a look sees something new, without anything that happens before; nothing if never.
    pub(super) fn quiet_until(&self) -> Option<Time> {
        let status = &self.status;
        let start = status.start.unwrap_or_default();
        let deadline = |seconds: Option<i64>| seconds.map(|seconds| start + Time::from_seconds(seconds));
        let (active, pre_running) =
            (deadline(self.spec.active_deadline), deadline(self.spec.pre_running_deadline));
        match status.deployment {
            Some(DeploymentStatus::Initializing) => active.into_iter().chain(pre_running).min(),
            Some(DeploymentStatus::Waiting) => pre_running,
            Some(DeploymentStatus::Running) if self.is_submitted => Some(self.at),
            Some(DeploymentStatus::Running) => {
                let is_over = status.program.is_some_and(ProgramState::is_terminal);
                let grace = status.program_end.filter(|_| is_over).map(|end| end + GRACE_PERIOD);
                let silence = status.silent_since.map(|since| since + STATUS_TIMEOUT);
                let finished = self.finished.map(|finished| finished + SUBMITTER_TIMEOUT);
                let times = [active, grace, silence, finished, self.next_of_program()];
                times.into_iter().flatten().min()
            }
            Some(DeploymentStatus::ValidationFailed) => None,
            _ => Some(self.at),
        }
    }

    /// Returns when the program gets into another state.
    fn next_of_program(&self) -> Option<Time> {
        let Answer::Known(program) = self.cluster.ask_dashboard(&self.status.cluster, &self.status.id) else {
            return None;
        };
        program.next_change(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_whole_ticks_apart() {
        let looked = Time::from_millis(650);
        for (at, next) in [(0, 3_650), (650, 3_650), (3_650, 3_650), (3_651, 6_650), (60_000, 60_650)] {
            assert_eq!(tick_after(looked, Time::from_millis(at)), Time::from_millis(next), "{at}");
        }
    }
}
