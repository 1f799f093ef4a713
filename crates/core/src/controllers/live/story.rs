//! What comes of a Job of a cluster, as it stands and after incidents.

use std::sync::Arc;

use super::super::incident::Occurrence;
use super::super::meta::Propagation;
use super::super::pod::Phase;
use super::super::pod_set::{Owner, PodSet, PodTemplate};
use super::super::program::{Peers, ProgramPlan};
use super::super::script::{Range, Script};
use super::super::story::{self, Assumptions, HORIZON, Outcome};
use super::super::time::Time;
use super::super::world::{Given, GivenJob, TooLong, World};
use super::backoff::counted;
use super::groups::groups;
use super::job::LiveJob;
use super::pod::{LivePod, PodStage};

/// A time after the end of every simulation.
pub(super) const NEVER: Time = Time::from_seconds(2 * 366 * 86_400);
/// By how much the pods, and what happens to them, may be later than is known, in milliseconds: the API keeps the start of a
/// pod in whole seconds, and nobody says an incident to a part of one.
pub(super) const LATER: [(i64, i64); 3] = [(250, 990), (500, 250), (990, 500)];

/// What happens to a Job of a cluster from its moment on.
#[derive(Clone, Debug)]
pub struct LiveScript {
    pub(super) script: Script,
    /// Whether its plans are only for pods that are made from now on.
    pub(super) is_of_new_pods: bool,
}

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
    /// What of a script played no part, in words.
    pub unused: Vec<String>,
}

impl LiveOutcome {
    /// Tells whether the end is the same as that of another, whenever that is.
    pub(super) fn ends_as(&self, other: &Self) -> bool {
        self.outcome.ending == other.outcome.ending && self.outcome.reason == other.outcome.reason
    }
}

impl LiveJob {
    /// Tells whether the program runs for longer than was assumed: when it ends is not known then, and it is taken to run
    /// on.
    #[must_use]
    pub fn is_overdue(&self, assumptions: &Assumptions) -> bool {
        is_overdue(self.pods.iter(), assumptions)
    }

    /// Returns what is assumed of it: a program that runs for longer than was assumed runs on.
    pub(super) fn assumed(&self, assumptions: &Assumptions) -> Assumptions {
        let runtime = if self.is_overdue(assumptions) { NEVER } else { assumptions.runtime };
        Assumptions { runtime, ..*assumptions }
    }

    /// Returns it as it is at the start of a world, with the set of its pods.
    pub(super) fn given(&self, owner: Option<Owner>, set: usize) -> GivenJob {
        GivenJob {
            name: self.name.clone(),
            owner,
            set,
            spec: self.object.get("spec").cloned().unwrap_or_default(),
            created: self.created,
            status: self.status.clone(),
            deletion: self.deletion.map(|at| (at, propagation(&self.finalizers))),
            record: counted(self),
        }
    }
}

/// Returns what becomes of what an object made that is in deletion, by its finalizers.
pub(super) fn propagation(finalizers: &[String]) -> Propagation {
    let has = |name: &str| finalizers.iter().any(|one| one == name);
    match (has("foregroundDeletion"), has("orphan")) {
        (true, _) => Propagation::Foreground,
        (false, true) => Propagation::Orphan,
        (false, false) => Propagation::Background,
    }
}

/// Tells whether the program in pods runs for longer than was assumed.
pub(super) fn is_overdue<'p>(pods: impl Iterator<Item = &'p LivePod>, assumptions: &Assumptions) -> bool {
    let started = pods.filter(|pod| pod.stage() == PodStage::Runs).filter_map(|pod| pod.started);
    let since = if assumptions.peers == Peers::Independent { started.min() } else { started.max() };
    since.is_some_and(|since| since + assumptions.startup + assumptions.runtime <= Time::START)
}

/// Returns the script of incidents that happen to a Job; without one, of the Job as it stands. Times of incidents count
/// from the moment of the Job.
#[must_use]
pub fn lower(job: &LiveJob, story: &[Occurrence], assumptions: &Assumptions) -> LiveScript {
    let mut script = story::lower(&job.spec, &job.placed(story), &job.assumed(assumptions));
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
    LiveScript { script, is_of_new_pods: false }
}

/// Returns what comes of a Job.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell(job: &LiveJob, script: &LiveScript) -> Result<LiveOutcome, TooLong> {
    tell_later(job, script, Time::START)
}

/// Returns another end of a Job, where that depends on parts of a second that nobody knows: what falls on one moment is
/// never guessed.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell_otherwise(
    job: &LiveJob,
    script: &LiveScript,
    outcome: &LiveOutcome,
) -> Result<Option<LiveOutcome>, TooLong> {
    for (pods, story) in LATER {
        let other = tell_later(job, &script.later(Time::from_millis(story)), Time::from_millis(pods))?;
        if !other.ends_as(outcome) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

impl LiveScript {
    /// Returns it with what happens to the Job and its pods later by a part of a second.
    pub(super) fn later(&self, by: Time) -> Self {
        let mut later = self.clone();
        for (at, _) in &mut later.script.events {
            *at = *at + by;
        }
        if self.is_of_new_pods {
            // Times of their plans count from the start of each pod.
            return later;
        }
        for plan in later.script.plans.iter_mut().map(|rule| &mut rule.plan) {
            if let Some(disruption) = &mut plan.disruption {
                disruption.after = disruption.after + by;
            }
            plan.silent = plan.silent.map(|at| at + by);
            plan.run = plan.run.map(|run| if plan.fails_by_itself { run + by } else { run });
        }
        later
    }
}

/// Returns what comes of a Job whose pods are later by a part of a second.
fn tell_later(job: &LiveJob, script: &LiveScript, by: Time) -> Result<LiveOutcome, TooLong> {
    let plan = script.script.program;
    let mut pods = groups(job);
    for group in &mut pods {
        group.delay(by);
        if script.is_of_new_pods {
            // So the next pod of each index is attempt 1, whether it has an active one or not.
            group.pods.attempt = 0;
        }
    }
    let template = PodTemplate::from_job(&job.spec);
    let role = Arc::from(job.name.as_str());
    let set = PodSet { owner: Owner::Job(0), role, round: 0, indexed: job.spec.indexed, template };
    let given = Given {
        main: Owner::Job(0),
        objects: Vec::new(),
        jobs: vec![job.given(None, 0)],
        sets: vec![set],
        pods: pods.into_iter().map(|group| (group.pods, group.course)).collect(),
        operators: Vec::new(),
        hosts: None,
        killed: Vec::new(),
        programs: Vec::new(),
        is_dashboard_down: false,
        clock: job.clock,
    };
    let mut world = World::from_live(given, script.script.clone());
    let before = world.cluster.jobs.first().map_or(0, |job| job.made);
    let succeeded_before =
        job.pods.iter().any(|pod| pod.phase == Phase::Succeeded) || job.status.succeeded > 0;
    world.run_to_end(HORIZON)?;
    let gone = world.cluster.jobs.first().and_then(|job| job.gone);
    let mut plan = plan;
    if succeeded_before {
        // What has succeeded has done its work, whatever the others do.
        plan = plan.map(|plan| ProgramPlan { peers: Peers::Independent, ..plan });
    }
    let outcome = story::end_of(&mut world, plan)?;
    let unused =
        if script.is_of_new_pods { script.unused(job, &outcome, world.events_left()) } else { Vec::new() };
    Ok(LiveOutcome {
        made: outcome.made.saturating_sub(before),
        failed: outcome.status.failed.saturating_sub(job.status.failed),
        gone,
        unused,
        outcome,
    })
}
