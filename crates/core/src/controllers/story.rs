//! A story about a Job: incidents, lowered to a script, and what comes of it.

use super::cluster::JobStatus;
use super::incident::{Incident, IncidentPlace, Occurrence};
use super::job::spec::JobSpec;
use super::pod::PodGroup;
use super::program::{Peers, ProgramPlan, times};
use super::script::{
    ControllerName, Disruption, DisruptionCause, Plan, PlanRule, Range, Restarts, Script, ScriptEvent,
    Termination,
};
use super::time::{Clock, Time};
use super::world::{TooLong, World};
use crate::text::value::{Value, json};

/// What a manifest does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// The work of a run, in time of undisturbed running.
    pub runtime: Time,
    /// From when all pods run until they work.
    pub startup: Time,
    /// How often work is saved; nothing if never.
    pub checkpoint: Option<Time>,
    /// What the other ranks do when one is lost.
    pub peers: Peers,
    /// How many pods share a node.
    pub pods_per_node: u32,
    /// What the program does on SIGTERM.
    pub term: Termination,
    /// How long pods tolerate an unreachable node; nothing if without end.
    pub unreachable: Option<Time>,
}

/// From when a node stops answering until it is tainted: 50 s, looked at each 5 s
/// (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`).
const UNREACHABLE: Time = Time::from_seconds(55);
/// From when a Node object is gone until the pod garbage collector ends its pods: a quarantine of 40 s, and at most 20 s
/// to the next look (`pkg/controller/podgc/gc_controller.go`).
const POD_COLLECTION: Time = Time::from_seconds(60);
/// How long a program that fails when it starts runs.
const CRASH: Time = Time::from_seconds(10);
/// Other parts of a second, in milliseconds, in which a Job may be created.
const OTHER_STARTS: [i64; 3] = [250, 500, 900];
/// How far a simulation goes.
pub(super) const HORIZON: Time = Time::from_seconds(366 * 86_400);

impl Assumptions {
    /// Returns when something happens for which nobody says it: in the middle of the run, between two checkpoints.
    #[must_use]
    pub fn middle(&self) -> Time {
        let half = |time: Time| Time::from_millis(time.millis() / 2);
        let middle = self.startup + half(self.runtime);
        self.checkpoint.filter(|every| *every < self.runtime).map_or(middle, |every| middle + half(every))
    }
}

/// Returns the script of a story.
#[must_use]
pub fn lower(spec: &JobSpec, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    let mut program = ProgramPlan {
        runtime: assumptions.runtime,
        startup: assumptions.startup,
        checkpoint: assumptions.checkpoint,
        peers: assumptions.peers,
    };
    let mut script = Script::default();
    let default = Plan { term: assumptions.term, ..Plan::default() };
    for occurrence in story {
        let at = occurrence.at.unwrap_or_else(|| assumptions.middle());
        let plan = default.clone();
        let members = place(spec, occurrence, assumptions);
        let disrupted = |cause| Plan {
            disruption: Some(Disruption { after: at, cause, collected: None }),
            ..plan.clone()
        };
        let mut push = |attempt: Range, plan: Plan| {
            let rule = if spec.indexed {
                PlanRule { index: Some(members), attempt: Some(attempt), job: None, plan }
            } else if attempt.last.is_none() {
                PlanRule { index: None, attempt: None, job: None, plan }
            } else {
                PlanRule { index: None, attempt: Some(members), job: None, plan }
            };
            script.plans.push(rule);
        };
        let (once, always) = (Range { first: 0, last: Some(0) }, Range { first: 0, last: None });
        let ends = |run, code: i64| Plan {
            run: Some(run),
            follows_program: true,
            exit: vec![(String::new(), code)],
            ..plan.clone()
        };
        match occurrence.incident {
            Incident::NodeLost => {
                let disruption = assumptions.unreachable.map(|tolerated| Disruption {
                    after: at + UNREACHABLE + tolerated,
                    cause: DisruptionCause::LostNode,
                    collected: None,
                });
                push(once, Plan { silent: Some(at), disruption, ..plan.clone() });
            }
            Incident::NodeGone => {
                let disruption = Some(Disruption {
                    after: at + UNREACHABLE + POD_COLLECTION,
                    cause: DisruptionCause::LostNode,
                    collected: Some(Time::START),
                });
                push(once, Plan { silent: Some(at), disruption, ..plan.clone() });
            }
            Incident::Drain | Incident::Spot => push(once, disrupted(DisruptionCause::Eviction)),
            Incident::Preempt => push(once, disrupted(DisruptionCause::Preemption)),
            Incident::Pressure => push(once, disrupted(DisruptionCause::Pressure)),
            Incident::DeletePod => push(once, disrupted(DisruptionCause::Deletion)),
            Incident::Oom => push(once, failure(spec, Plan { is_oom: true, ..ends(at, 137) }, at)),
            Incident::Exit(code) => push(once, failure(spec, ends(at, i64::from(code)), at)),
            Incident::CrashLoop | Incident::CrashAll => push(always, crash(spec, ends(CRASH, 1))),
            Incident::Hang => push(always, Plan { run: None, follows_program: false, ..plan.clone() }),
            Incident::ImagePull => push(always, Plan { start: None, ..plan.clone() }),
            Incident::Pending(None) => {
                push(always, Plan { start: None, is_unscheduled: true, ..plan.clone() });
            }
            Incident::Pending(Some(time)) => push(once, Plan { start: Some(time), ..plan.clone() }),
            Incident::CreateRefused => script.events.push((Time::START, ScriptEvent::RefusePods(true))),
            Incident::Overrun => {
                let longest = spec.deadline.unwrap_or_default().max(program.runtime);
                program.runtime = longest + longest;
            }
            Incident::KueuePreempt(time) => {
                for (at, suspend) in [(at, true), (at + time, false)] {
                    script.events.push((at, ScriptEvent::Patch(json!({"suspend": suspend}))));
                }
            }
            Incident::ControllerAway(time) => {
                script.events.push((at, ScriptEvent::Stop(ControllerName::Job)));
                script.events.push((at + time, ScriptEvent::Start(ControllerName::Job)));
            }
        }
    }
    if spec.suspend {
        // Somebody admits it; that is where the time of a story begins.
        script.events.push((Time::START, ScriptEvent::Patch(json!({"suspend": false}))));
    }
    script.events.sort_by_key(|(at, _)| *at);
    script.plans.push(PlanRule { index: None, attempt: None, job: None, plan: default });
    script.program = Some(program);
    script
}

/// Returns a plan that fails; where the kubelet starts the container again in its pod, that is a restart.
fn failure(spec: &JobSpec, plan: Plan, at: Time) -> Plan {
    if !spec.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: Some(1), every: at, is_backed_off: false }),
        ..plan
    }
}

fn crash(spec: &JobSpec, plan: Plan) -> Plan {
    if !spec.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: None, every: CRASH, is_backed_off: true }),
        ..plan
    }
}

/// Returns the indexes that an incident is about, or the numbers of the pods.
fn place(spec: &JobSpec, occurrence: &Occurrence, assumptions: &Assumptions) -> Range {
    let all = spec.completions.unwrap_or(spec.parallelism).max(1);
    let is_of_all = matches!(
        occurrence.incident,
        Incident::CrashAll | Incident::Hang | Incident::ImagePull | Incident::Pending(_)
    );
    let together = if occurrence.incident.is_of_node() { assumptions.pods_per_node.max(1) } else { 1 };
    let of =
        |first: u32, count: u32| Range { first, last: Some(first.saturating_add(count - 1).min(all - 1)) };
    match occurrence.place {
        IncidentPlace::One if is_of_all => of(0, all),
        IncidentPlace::One => of(0, together),
        IncidentPlace::Index(index) => of(index / together * together, together),
        IncidentPlace::Count(count) => of(0, count.max(1)),
        IncidentPlace::All => of(0, all),
    }
}

/// How a story ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `Complete`.
    Completes,
    /// `Complete`, and the program had not done its work.
    CompletesHalfDone,
    /// `Failed`.
    Fails,
    /// The work is done or given up, and the last condition waits for a pod that does not end.
    Wedged,
    /// Nothing happens any more.
    Waits,
    /// It runs without end.
    RunsOn,
}

impl Ending {
    /// Returns the word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Completes => "completes",
            Self::CompletesHalfDone => "completes-half-done",
            Self::Fails => "fails",
            Self::Wedged => "wedged",
            Self::Waits => "waits",
            Self::RunsOn => "runs-on",
        }
    }
}

/// What comes of a story.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ends.
    pub ending: Ending,
    /// When; for what does not end, when the last thing happened.
    pub at: Time,
    /// `reason` of the condition that ends the Job, where there is one.
    pub reason: Option<&'static str>,
    /// The status of the Job.
    pub status: JobStatus,
    /// Its pods, in order of creation.
    pub pods: Vec<PodGroup>,
    /// How many pods there were.
    pub made: u32,
    /// Time of running pods, summed.
    pub used: Time,
    /// Work that was done twice or thrown away, summed over pods.
    pub lost: Time,
    /// Work that counts, summed over pods.
    pub(crate) done: Time,
}

impl Outcome {
    /// Returns the time in which pods ran and did nothing that counts: starting, or waiting for others.
    #[must_use]
    pub fn idle(&self) -> Time {
        (self.used - self.lost - self.done).max(Time::START)
    }
}

/// Returns what comes of a script.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell(spec: &Value, script: Script) -> Result<Outcome, TooLong> {
    tell_from(Clock::default(), spec, script)
}

/// Returns another end of a script, where that depends on the part of the second in which the Job is created: what falls
/// on one moment is never guessed.
///
/// # Errors
///
/// More work than a simulation does.
pub fn tell_otherwise(spec: &Value, script: &Script, outcome: &Outcome) -> Result<Option<Outcome>, TooLong> {
    for start in OTHER_STARTS {
        let other = tell_from(Clock { start }, spec, script.clone())?;
        if (other.ending, other.reason) != (outcome.ending, outcome.reason) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

fn tell_from(clock: Clock, spec: &Value, script: Script) -> Result<Outcome, TooLong> {
    let plan = script.program;
    end_of(World::with_job("job", spec, script, clock, false), plan)
}

/// Lets a world come to its end.
///
/// # Errors
///
/// More work than a simulation does.
pub(super) fn end_of(mut world: World, plan: Option<ProgramPlan>) -> Result<Outcome, TooLong> {
    let is_still = world.run_to_end(HORIZON)?;
    let end = world.now;
    let mut used = Time::START;
    for pods in &world.cluster.pods {
        let Some(started) = pods.started else { continue };
        let ended = pods.ended.or(pods.gone).unwrap_or(end);
        used = used + times((ended - started).max(Time::START), pods.count());
    }
    let made = world.cluster.jobs.first().map_or(0, |job| job.made);
    let status = world.cluster.jobs.first().map(|job| job.status.clone()).unwrap_or_default();
    let (lost, done) = world.work(0).unwrap_or_default();
    let runtime = plan.map_or(Time::START, |plan| plan.runtime);
    let last = status.finished();
    let before = status.condition("SuccessCriteriaMet").or_else(|| status.condition("FailureTarget"));
    let wanted = plan.filter(|plan| plan.peers != Peers::Independent).map(|_| runtime);
    let is_half_done = world.is_half_done(0, wanted);
    let ending = match (last.map(|condition| condition.sort), before) {
        (Some("Complete"), _) if is_half_done => Ending::CompletesHalfDone,
        (Some("Complete"), _) => Ending::Completes,
        (Some(_), _) => Ending::Fails,
        (None, Some(_)) => Ending::Wedged,
        (None, None) if is_still && !world.is_running(0) => Ending::Waits,
        (None, None) => Ending::RunsOn,
    };
    let at = last.or(before).map_or(end, |condition| condition.at);
    // One exit code is all that is asked of them.
    for pods in &mut world.cluster.pods {
        pods.containers.retain(|status| status.terminated.is_some());
        pods.containers.truncate(1);
        pods.containers.shrink_to_fit();
    }
    let mut pods = std::mem::take(&mut world.cluster.pods);
    pods.sort_by_key(|pods| (pods.created, pods.members.first()));
    Ok(Outcome {
        ending,
        at,
        reason: last.or(before).map(|condition| condition.reason),
        status,
        pods,
        made,
        used,
        lost,
        done,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Time = Time::from_seconds(3_600);

    fn assumptions(peers: Peers) -> Assumptions {
        Assumptions {
            runtime: Time::from_seconds(12 * 3_600),
            startup: Time::from_seconds(120),
            checkpoint: Some(Time::from_seconds(1_800)),
            peers,
            pods_per_node: 1,
            term: Termination::default(),
            unreachable: Some(Time::from_seconds(300)),
        }
    }

    fn gang(ranks: u32, limit: u32) -> Value {
        json!({
            "completionMode": "Indexed",
            "completions": i64::from(ranks),
            "parallelism": i64::from(ranks),
            "backoffLimit": i64::from(limit),
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        })
    }

    fn told(spec: &Value, incident: Incident, assumptions: &Assumptions) -> Outcome {
        let story = [Occurrence { incident, at: None, place: IncidentPlace::One }];
        tell(spec, lower(&JobSpec::from_spec(spec), &story, assumptions)).unwrap()
    }

    #[test]
    fn ranks_that_exit_together_are_more_failures_than_the_limit() {
        let assumed = assumptions(Peers::Exit(Time::from_seconds(600)));
        let outcome = told(&gang(16, 6), Incident::Drain, &assumed);
        assert_eq!((outcome.ending, outcome.reason), (Ending::Fails, Some("BackoffLimitExceeded")));
        let outcome = told(&gang(16, 20), Incident::Drain, &assumed);
        assert_eq!((outcome.ending, outcome.made, outcome.status.failed), (Ending::Completes, 32, 16));
        // Sixteen pods, and fifteen minutes of each.
        assert_eq!(outcome.lost, Time::from_seconds(16 * 900));
        let outcome = told(&gang(16, 6), Incident::Drain, &assumptions(Peers::Restart(3)));
        assert_eq!((outcome.ending, outcome.made), (Ending::Completes, 17));
        let outcome = told(&gang(16, 6), Incident::Drain, &assumptions(Peers::Independent));
        assert_eq!((outcome.ending, outcome.lost), (Ending::Completes, Time::from_seconds(900)));
    }

    #[test]
    fn a_pod_that_never_ends_keeps_the_last_condition_away() {
        let outcome = told(&gang(2, 6), Incident::NodeLost, &assumptions(Peers::Hang));
        assert_eq!(outcome.ending, Ending::RunsOn);
        let mut spec = gang(2, 6);
        spec["podReplacementPolicy"] = "Failed".into();
        let outcome = told(&spec, Incident::NodeLost, &assumptions(Peers::Hang));
        assert_eq!((outcome.ending, outcome.made), (Ending::RunsOn, 2));
        let outcome = told(&spec, Incident::NodeLost, &assumptions(Peers::Independent));
        assert_eq!((outcome.ending, outcome.made), (Ending::Waits, 2));
        let outcome = told(&gang(2, 6), Incident::NodeLost, &assumptions(Peers::Independent));
        assert_eq!((outcome.ending, outcome.made), (Ending::Wedged, 3));
        let never = Assumptions { unreachable: None, ..assumptions(Peers::Independent) };
        assert_eq!(told(&gang(2, 6), Incident::NodeLost, &never).ending, Ending::Waits);
    }

    #[test]
    fn exit_code_zero_on_sigterm_is_half_the_work() {
        let term = Termination { code: 0, ..Termination::default() };
        let mut spec = gang(1, 6);
        spec["podReplacementPolicy"] = "Failed".into();
        let outcome = told(&spec, Incident::Drain, &Assumptions { term, ..assumptions(Peers::Independent) });
        assert_eq!(outcome.ending, Ending::CompletesHalfDone);
    }

    #[test]
    fn what_falls_on_one_moment_has_two_ends() {
        let mut spec = gang(1, 6);
        spec["activeDeadlineSeconds"] = 10.into();
        for (run, other) in [(8.4, Some(Ending::Fails)), (3.0, None)] {
            let script = Script::parse(&json!([{"run": run}])).unwrap();
            let outcome = tell(&spec, script.clone()).unwrap();
            assert_eq!(outcome.ending, Ending::Completes);
            let otherwise = tell_otherwise(&spec, &script, &outcome).unwrap();
            assert_eq!(otherwise.map(|outcome| outcome.ending), other, "{run}");
        }
    }

    #[test]
    fn a_large_job_is_simulated_quickly_or_refused() {
        let failures: Vec<PlanRule> = (0..1_000)
            .map(|index| PlanRule {
                index: Some(Range { first: index * 10, last: Some(index * 10) }),
                attempt: Some(Range { first: 0, last: Some(0) }),
                job: None,
                plan: Plan {
                    run: Some(HOUR + Time::from_seconds(i64::from(index))),
                    follows_program: false,
                    exit: vec![(String::new(), 1)],
                    ..Plan::default()
                },
            })
            .collect();
        let mut spec = gang(10_000, 5_000);
        spec["completions"] = 10_000.into();
        let script = Script { plans: failures, ..Script::default() };
        let outcome = tell(&spec, script).unwrap();
        assert_eq!((outcome.ending, outcome.status.failed, outcome.made), (Ending::Completes, 1_000, 11_000));
        // As many as the API server takes.
        for (parallelism, completions) in
            [(i64::from(i32::MAX), i64::from(i32::MAX)), (4, i64::from(i32::MAX))]
        {
            let mut spec = gang(1, 6);
            spec["parallelism"] = parallelism.into();
            spec["completions"] = completions.into();
            let assumed = Assumptions { runtime: Time::from_seconds(1), ..assumptions(Peers::Independent) };
            let story = lower(&JobSpec::from_spec(&spec), &[], &assumed);
            let told = tell(&spec, story);
            assert!(told.is_err() || told.is_ok_and(|outcome| outcome.ending == Ending::RunsOn));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn used_time_is_that_of_the_pods(
            ranks in 1_u32..8,
            limit in 0_u32..8,
            incident in prop::sample::select(Incident::USUAL.to_vec()),
            peers in prop::sample::select(vec![Peers::Independent, Peers::Hang, Peers::Restart(1), Peers::Exit(HOUR)]),
        ) {
            let mut spec = gang(ranks, limit);
            spec["activeDeadlineSeconds"] = 172_800.into();
            let outcome = told(&spec, incident, &assumptions(peers));
            let last = outcome.at;
            let of_pods: i64 = outcome
                .pods
                .iter()
                .filter_map(|pods| {
                    let ended = pods.ended.or(pods.gone).unwrap_or(last);
                    Some((ended - pods.started?).millis().max(0) * i64::from(pods.count()))
                })
                .sum();
            prop_assert!((outcome.used.millis() - of_pods).abs() <= 60_000 * i64::from(outcome.made));
            prop_assert!(outcome.lost <= outcome.used && outcome.idle() >= Time::START);
            prop_assert!(outcome.status.failed <= outcome.made);
        }
    }
}
