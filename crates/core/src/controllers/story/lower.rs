//! Incidents, lowered to the script of a simulation.

use std::sync::Arc;

use super::super::incident::{Incident, IncidentPlace, Occurrence};
use super::super::job::spec::JobSpec;
use super::super::operators::{self, KueueSettings};
use super::super::program::ProgramPlan;
use super::super::script::{
    ControllerName, DashboardEvent, Disruption, DisruptionCause, Plan, PlanRule, PodGroupRule, ProgramRule,
    Range, Restarts, Script, ScriptEvent, Target,
};
use super::super::subject::{Role, Subject};
use super::super::time::Time;
use super::Assumptions;

/// From when a node stops answering until it is tainted: 50 s, looked at each 5 s
/// (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`).
const UNREACHABLE: Time = Time::from_seconds(55);
/// From when a Node object is gone until the pod garbage collector ends its pods: a quarantine of 40 s, and at most 20 s
/// to the next look (`pkg/controller/podgc/gc_controller.go`).
const POD_COLLECTION: Time = Time::from_seconds(60);
/// How long a program that fails when it starts runs.
const CRASH: Time = Time::from_seconds(10);

/// Returns the script of a story about a Job.
#[must_use]
pub fn lower(spec: &JobSpec, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    lower_for(&Subject::from_job(spec), story, assumptions)
}

/// Returns the script of a story about an object with these roles.
#[must_use]
pub(crate) fn lower_for(subject: &Subject, story: &[Occurrence], assumptions: &Assumptions) -> Script {
    let mut program = ProgramPlan {
        runtime: assumptions.runtime,
        startup: assumptions.startup,
        checkpoint: assumptions.checkpoint,
        peers: assumptions.peers,
    };
    let kueue = KueueSettings::with_wait(assumptions.wait_for_pods_ready);
    let mut script = Script { kueue, ..Script::default() };
    let default = Plan { term: assumptions.term, ..Plan::default() };
    for occurrence in story {
        let at = occurrence.at.unwrap_or_else(|| assumptions.middle());
        if let Some(rule) = program_rule(subject, occurrence, at) {
            script.programs.push(rule);
            continue;
        }
        for role in roles(subject, occurrence) {
            if let Some((attempts, plan)) = disturbed(role, occurrence.incident, at, assumptions, &default) {
                let members = place(role, occurrence, assumptions);
                script.plans.push(rule(role, members, attempts, Plan { serves: role.serves, ..plan }));
            }
        }
        match occurrence.incident {
            Incident::CreateRefused => script.events.push((Time::START, ScriptEvent::RefusePods(true))),
            Incident::Overrun => {
                let longest = subject.deadline.unwrap_or_default().max(program.runtime);
                program.runtime = longest + longest;
            }
            Incident::KueuePreempt(time) => preempt(&mut script, subject, at, time),
            Incident::ControllerAway(time) => away(&mut script, ControllerName::Job, at, time),
            Incident::OperatorAway(time) => away(&mut script, ControllerName::Operator, at, time),
            Incident::DashboardSilent(time) => {
                script.events.push((at, ScriptEvent::Dashboard(DashboardEvent::Down)));
                script.events.push((at + time, ScriptEvent::Dashboard(DashboardEvent::Up)));
            }
            // `Missed` is of the CronJob.
            _ => {}
        }
    }
    if subject.has_pod_group {
        script.pod_groups.push(PodGroupRule::all(assumptions.gang_after));
    }
    if subject.is_suspended && subject.queue.is_none() {
        // Somebody admits it; that is where the time of a story begins.
        script.events.push((Time::START, ScriptEvent::Patch(Target::Main, subject.suspension(false))));
    }
    script.events.sort_by_key(|(at, _)| *at);
    for role in subject.roles.iter().filter(|role| role.serves) {
        let plan = Plan { serves: true, ..default.clone() };
        script.plans.push(PlanRule { role: role.name.clone(), plan, ..PlanRule::default() });
    }
    script.plans.push(PlanRule { plan: default, ..PlanRule::default() });
    script.program = Some(program);
    script
}

/// Tells whether an incident happens to a program that runs beside its pods.
pub(in super::super) fn is_of_program(subject: &Subject, occurrence: &Occurrence) -> bool {
    program_rule(subject, occurrence, Time::START).is_some()
}

/// Returns what an incident without a place does to a program that runs beside its pods.
fn program_rule(subject: &Subject, occurrence: &Occurrence, at: Time) -> Option<ProgramRule> {
    if !subject.has_dashboard || occurrence.role.is_some() || occurrence.place != IncidentPlace::One {
        return None;
    }
    match occurrence.incident {
        Incident::Exit(code) => Some(ProgramRule::new(false, Some(at), code != 0)),
        Incident::CrashLoop | Incident::CrashAll => Some(ProgramRule::new(true, Some(CRASH), true)),
        Incident::Hang => Some(ProgramRule::new(true, None, false)),
        _ => None,
    }
}

/// Lets another Job take the quota of an object for a time; one that is in no queue is suspended as long.
fn preempt(script: &mut Script, subject: &Subject, at: Time, time: Time) {
    let Some(queue) = &subject.queue else {
        for (at, suspend) in [(at, true), (at + time, false)] {
            let patch = subject.suspension(suspend);
            script.events.push((at, ScriptEvent::Patch(Target::Main, patch)));
        }
        return;
    };
    let pods = subject.together().count.max(1);
    script.events.push((at, ScriptEvent::Create(operators::preemptor(queue, pods))));
    let plan = Plan { run: Some(time), follows_program: false, ..Plan::default() };
    script.plans.push(PlanRule { role: Some(Arc::from(operators::PREEMPTOR)), plan, ..PlanRule::default() });
}

fn away(script: &mut Script, name: ControllerName, at: Time, time: Time) {
    script.events.push((at, ScriptEvent::Stop(name)));
    script.events.push((at + time, ScriptEvent::Start(name)));
}

/// Returns the roles that an incident is about.
fn roles<'s>(subject: &'s Subject, occurrence: &'s Occurrence) -> Vec<&'s Role> {
    match (&occurrence.role, occurrence.incident) {
        (None, incident) if incident.is_of_all() => subject.roles.iter().collect(),
        (None, Incident::SubmitterLost) => subject.named(Some("submitter")).collect(),
        (role, _) => subject.named(role.as_deref()).collect(),
    }
}

/// Returns the rule for some pods of a role: for their first attempts or for all.
fn rule(role: &Role, members: Range, attempts: Range, plan: Plan) -> PlanRule {
    let rule = PlanRule { role: role.name.clone(), plan, ..PlanRule::default() };
    if role.indexed {
        PlanRule { index: Some(members), attempt: Some(attempts), ..rule }
    } else if attempts.last.is_none() {
        rule
    } else {
        PlanRule { attempt: Some(members), ..rule }
    }
}

/// Returns what an incident does to pods, and to which attempts; nothing where it is not about pods.
fn disturbed(
    role: &Role,
    incident: Incident,
    at: Time,
    assumptions: &Assumptions,
    default: &Plan,
) -> Option<(Range, Plan)> {
    let (once, always) = (Range { first: 0, last: Some(0) }, Range { first: 0, last: None });
    let plan = default.clone();
    let disruption = |after, cause, collected| Some(Disruption { after, cause, collected });
    let disrupted = |cause| Plan { disruption: disruption(at, cause, None), ..plan.clone() };
    let ends = |run, code: i64| Plan {
        run: Some(run),
        follows_program: true,
        exit: vec![(String::new(), code)],
        ..plan.clone()
    };
    Some(match incident {
        Incident::NodeLost => {
            let deletion = assumptions.unreachable.and_then(|tolerated| {
                disruption(at + UNREACHABLE + tolerated, DisruptionCause::LostNode, None)
            });
            (once, Plan { silent: Some(at), unready: Some(UNREACHABLE), disruption: deletion, ..plan })
        }
        Incident::NodeGone => {
            let after = at + UNREACHABLE + POD_COLLECTION;
            let deletion = disruption(after, DisruptionCause::LostNode, Some(Time::START));
            (once, Plan { silent: Some(at), unready: Some(UNREACHABLE), disruption: deletion, ..plan })
        }
        Incident::Drain | Incident::Spot => (once, disrupted(DisruptionCause::Eviction)),
        Incident::Preempt => (once, disrupted(DisruptionCause::Preemption)),
        Incident::Pressure => (once, disrupted(DisruptionCause::Pressure)),
        Incident::DeletePod | Incident::SubmitterLost => (once, disrupted(DisruptionCause::Deletion)),
        Incident::Oom => (once, failure(role, Plan { is_oom: true, ..ends(at, 137) }, at)),
        Incident::Exit(code) => (once, failure(role, ends(at, i64::from(code)), at)),
        Incident::CrashLoop | Incident::CrashAll => (always, crash(role, ends(CRASH, 1))),
        Incident::Hang => (always, Plan { run: None, follows_program: false, ..plan }),
        Incident::ImagePull => (always, Plan { start: None, ..plan }),
        Incident::Pending(None) => (always, Plan { start: None, is_unscheduled: true, ..plan }),
        Incident::Pending(Some(time)) => (once, Plan { start: Some(time), ..plan }),
        Incident::CreateRefused
        | Incident::Overrun
        | Incident::KueuePreempt(_)
        | Incident::Missed(_)
        | Incident::ControllerAway(_)
        | Incident::OperatorAway(_)
        | Incident::DashboardSilent(_) => return None,
    })
}

/// Returns a plan that fails; where the kubelet starts the container again in its pod, that is a restart.
fn failure(role: &Role, plan: Plan, at: Time) -> Plan {
    if !role.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: Some(1), every: at, is_backed_off: false }),
        ..plan
    }
}

fn crash(role: &Role, plan: Plan) -> Plan {
    if !role.restarts_in_place {
        return Plan { fails_by_itself: true, ..plan };
    }
    Plan {
        run: None,
        exit: Vec::new(),
        restarts: Some(Restarts { count: None, every: CRASH, is_backed_off: true }),
        ..plan
    }
}

/// Returns the indexes of a role that an incident is about, or the numbers of its pods.
fn place(role: &Role, occurrence: &Occurrence, assumptions: &Assumptions) -> Range {
    let all = role.count.max(1);
    let together = if occurrence.incident.is_of_node() { assumptions.pods_per_node.max(1) } else { 1 };
    let of =
        |first: u32, count: u32| Range { first, last: Some(first.saturating_add(count - 1).min(all - 1)) };
    match occurrence.place {
        IncidentPlace::One if occurrence.incident.is_of_all() => of(0, all),
        IncidentPlace::One => of(0, together),
        IncidentPlace::Index(index) => of(index / together * together, together),
        IncidentPlace::Count(count) => of(0, count.max(1)),
        IncidentPlace::Between(first, last) => Range { first, last: Some(last) },
        IncidentPlace::All => of(0, all),
    }
}
