//! What comes of a Job of a cluster, as it stands and after incidents.

use super::super::incident::{IncidentPlace, Occurrence};
use super::super::indexes::Indexes;
use super::super::meta::Propagation;
use super::super::pod::Phase;
use super::super::program::Peers;
use super::super::script::Range;
use super::super::story::{self, Assumptions, HORIZON, Outcome, lower};
use super::super::time::Time;
use super::super::world::{Given, TooLong, World};
use super::backoff::counted;
use super::groups::groups;
use super::job::LiveJob;
use super::pod::PodStage;

/// When something happens for which nobody says it.
const SOON: Time = Time::from_seconds(1);
/// A time after the end of every simulation.
const NEVER: Time = Time::from_seconds(2 * 366 * 86_400);

/// What comes of a Job of a cluster.
#[derive(Clone, Debug)]
pub struct LiveOutcome {
    /// What comes of it; times count from the moment of the Job.
    pub outcome: Outcome,
    /// How many pods are made from now on.
    pub made: u32,
    /// How many pods fail from now on.
    pub failed: u32,
    /// When the Job is gone, where it is in deletion.
    pub gone: Option<Time>,
}

impl LiveJob {
    /// Tells whether the program runs for longer than was assumed: when it ends is not known then, and it is taken to run
    /// on.
    #[must_use]
    pub fn is_overdue(&self, assumptions: &Assumptions) -> bool {
        let started =
            self.pods.iter().filter(|pod| pod.stage() == PodStage::Runs).filter_map(|pod| pod.started);
        let since = if assumptions.peers == Peers::Independent { started.min() } else { started.max() };
        since.is_some_and(|since| since + assumptions.startup + assumptions.runtime <= Time::START)
    }

    /// Returns incidents with the time and the place that they have where nobody says it: now, and a pod that is active.
    fn placed(&self, story: &[Occurrence]) -> Vec<Occurrence> {
        let active =
            Indexes::from_numbers(self.pods.iter().filter(|pod| pod.is_active()).filter_map(|pod| pod.index));
        let failed = self.status.failed_indexes.clone().unwrap_or_default();
        let open = self.spec.indexes().without(&self.status.completed).without(&failed);
        let first = active.first().or_else(|| open.first()).filter(|_| self.spec.indexed);
        let place = |occurrence: &Occurrence| Occurrence {
            at: occurrence.at.or(Some(SOON)),
            place: match (occurrence.place, first) {
                (IncidentPlace::One, Some(first)) if !occurrence.incident.is_of_all() => {
                    IncidentPlace::Index(first)
                }
                (place, _) => place,
            },
            ..occurrence.clone()
        };
        story.iter().map(place).collect()
    }

    fn propagation(&self) -> Option<(Time, Propagation)> {
        let has = |name: &str| self.finalizers.iter().any(|one| one == name);
        let how = match (has("foregroundDeletion"), has("orphan")) {
            (true, _) => Propagation::Foreground,
            (false, true) => Propagation::Orphan,
            (false, false) => Propagation::Background,
        };
        Some((self.deletion?, how))
    }
}

/// Returns what comes of a Job after incidents; without one, as it stands. Times of incidents count from the moment of
/// the Job.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell(job: &LiveJob, story: &[Occurrence], assumptions: &Assumptions) -> Result<LiveOutcome, TooLong> {
    let mut assumptions = *assumptions;
    if job.is_overdue(&assumptions) {
        assumptions.runtime = NEVER;
    }
    let mut script = lower(&job.spec, &job.placed(story), &assumptions);
    if story.is_empty() {
        // A Job that is suspended stays so.
        script.events.clear();
    }
    if job.spec.indexed {
        // The pods that are active now are attempt 1, and so is the first one of an index that has none.
        let once = Some(Range { first: 0, last: Some(0) });
        for rule in script.plans.iter_mut().filter(|rule| rule.attempt == once) {
            rule.attempt = Some(Range { first: 1, last: Some(1) });
        }
    }
    let plan = script.program;
    let pods = groups(job);
    let given = Given {
        name: job.name.clone(),
        spec: job.object.get("spec").cloned().unwrap_or_default(),
        created: job.created,
        status: job.status.clone(),
        deletion: job.propagation(),
        record: counted(job),
        pods: pods.into_iter().map(|group| (group.pods, group.course)).collect(),
        clock: job.clock,
    };
    let mut world = World::from_live(given, script);
    let before = world.cluster.jobs.first().map_or(0, |job| job.made);
    let succeeded_before =
        job.pods.iter().any(|pod| pod.phase == Phase::Succeeded) || job.status.succeeded > 0;
    world.run_to_end(HORIZON)?;
    let gone = world.cluster.jobs.first().and_then(|job| job.gone);
    let mut plan = plan;
    if succeeded_before {
        // What has succeeded has done its work, whatever the others do.
        plan = plan.map(|plan| super::super::program::ProgramPlan { peers: Peers::Independent, ..plan });
    }
    let outcome = story::end_of(&mut world, plan)?;
    Ok(LiveOutcome {
        made: outcome.made.saturating_sub(before),
        failed: outcome.status.failed.saturating_sub(job.status.failed),
        gone,
        outcome,
    })
}
