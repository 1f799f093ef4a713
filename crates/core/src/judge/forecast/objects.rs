//! What would happen to an object of an operator, for rules that ask.

use std::cell::Cell;
use std::sync::Arc;

use super::{Forecast, MOST_WORK};
use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::object_story::{HORIZON, ObjectStory, Remains, lower_object, subject};
use crate::controllers::pod::{Phase, PodGroup};
use crate::controllers::program::{Peers, times};
use crate::controllers::script::{DashboardEvent, Plan, PlanRule, Range, Script, ScriptEvent};
use crate::controllers::story::Assumptions;
use crate::controllers::subject::{Role, Subject, placeholder};
use crate::controllers::time::Time;
use crate::judge::cost::{Cost, FIELD};
use crate::judge::ranks::WorkloadReading;
use crate::judge::simulation::{ProgramDefaults, name_of, read_object, weigh};
use crate::kinds::{Held, Workload};
use crate::text::meter;
use crate::text::value::Value;

/// Maximum values, and maximum bytes of texts, of an object about which a question is asked.
const MOST_VALUES: usize = 1_000;
const MOST_TEXT: usize = 16 * 1_024;
/// How long after it starts a pod fails of which it is asked: at once, so that what follows is what it may cost at most.
const FAILS_AFTER: Time = Time::from_seconds(10);
/// How long pods may run on that nothing stops: those that end within a minute end with the one that failed.
const TOGETHER: Time = Time::from_seconds(60);
/// Maximum roles whose pods are asked about.
const MOST_ROLES: usize = 16;

/// What keeps pods running that can do no more work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::judge) enum Cause {
    /// A pod of this role has failed, and the others wait for it.
    PodFailed(Arc<str>),
    /// The deadline has passed.
    Deadline,
    /// The work was not submitted.
    NotSubmitted,
}

/// Pods that run on after a failure, which their operator neither stops nor replaces.
#[derive(Clone, Debug)]
pub(in crate::judge) struct LeftBehind {
    /// What came before.
    pub(in crate::judge) cause: Cause,
    /// What they hold, and for how long.
    pub(in crate::judge) cost: Cost,
}

/// What a question is about, and what it may take.
pub(in crate::judge) struct Asked<'c, 'a> {
    /// The object.
    pub(in crate::judge) workload: &'c Workload<'a>,
    /// Its texts.
    pub(in crate::judge) reading: &'c WorkloadReading<'a>,
    /// What is assumed of its program.
    pub(in crate::judge) defaults: &'c ProgramDefaults,
    /// The work that is left.
    pub(in crate::judge) left_of_rule: &'c Cell<u64>,
}

impl<'a> Asked<'_, 'a> {
    /// Returns what would happen to an object of an operator in an incident of one role, whose program exits with a code on
    /// SIGTERM if that is known; nothing where its operator is not modelled, or there is no short answer.
    pub(in crate::judge) fn forecast(
        &self,
        incident: Incident,
        role: &str,
        code: Option<i64>,
    ) -> Option<Forecast> {
        self.manifest()?;
        let object = read_object(self.workload, self.reading, &[], self.defaults)?;
        let story = ObjectStory { manifest: object.manifest, before: &[], subject: &object.subject };
        let role = object.subject.roles.iter().find(|known| known.is_named(role))?.name.clone()?;
        let occurrence = Occurrence { role: Some(role.to_string()), ..Occurrence::from(incident) };
        let mut assumptions = object.assumptions;
        assumptions.term.code = code.unwrap_or(assumptions.term.code);
        let (outcome, other) = self.within(|left| {
            let mut end = |peers| {
                let assumptions = Assumptions { peers, ..assumptions };
                let script = lower_object(&object.subject, std::slice::from_ref(&occurrence), &assumptions);
                story.tell_within(&script, left).ok().flatten()
            };
            let outcome = end(assumptions.peers);
            let other = outcome.as_ref().zip(object.or_peers).map(|(_, peers)| end(peers));
            (outcome, other)
        })?;
        let outcome = outcome?;
        let is_known = other.is_none_or(|other| other.is_some_and(|other| other.ending == outcome.ending));
        let end = outcome.status.conditions.iter().find(|condition| condition.sort == "Failed");
        let why = end.and_then(|end| object.subject.decider(&end.reason, &end.message));
        let roles = &object.subject.roles;
        let weight = |role: &Role| role.at_once.saturating_mul(role.weight);
        let weights = roles.iter().map(weight).fold(0, u32::saturating_add);
        let at_once = roles.iter().map(|role| role.at_once).fold(0, u32::saturating_add);
        let wasted = outcome.idle() + outcome.lost - times(assumptions.startup, weights);
        is_known.then_some(Forecast {
            outcome,
            at_once,
            wasted: wasted.max(Time::START),
            checkpoint: assumptions.checkpoint,
            has_accelerators: object.has_accelerators,
            why: why.map(|(_, why)| why),
        })
    }

    /// Returns the pods that hold accelerators and run on after a failure, though their work can go on no more: the operator
    /// neither ends them nor starts anything again. Nothing where there are none, or where there is no short answer.
    pub(in crate::judge) fn left_behind(&self) -> Option<LeftBehind> {
        let manifest = self.manifest()?;
        let mut subject = subject(manifest, &[])?;
        if !weigh(&mut subject, self.workload) || subject.roles.len() > MOST_ROLES {
            return None;
        }
        let asked =
            if subject.has_dashboard { vec![self.of_dashboard(&subject)] } else { self.of_pods(&subject) };
        let story = ObjectStory { manifest, before: &[], subject: &subject };
        asked.into_iter().find_map(|(cause, script)| {
            let remains = self.within(|left| story.remains(&script, HORIZON, left).ok())??;
            self.held(&subject, cause, &remains)
        })
    }

    /// Returns the manifest, if a question about it is short, and nothing is hidden that decides.
    fn manifest(&self) -> Option<&'a Value> {
        // What is inside another object is deleted and made again by that.
        let manifest = self.workload.object.value.filter(|_| self.workload.inside.is_none())?;
        let (mut values, mut text) = (MOST_VALUES, MOST_TEXT);
        let is_small = is_small(manifest, &mut values, &mut text);
        meter::spend((MOST_VALUES - values) as u64);
        (is_small && placeholder(manifest.get("spec")?).is_none()).then_some(manifest)
    }

    /// Lets a question take what is left of the work of its rule.
    fn within<T>(&self, ask: impl FnOnce(&mut u64) -> T) -> Option<T> {
        let most = MOST_WORK.min(self.left_of_rule.get());
        if most == 0 {
            return None;
        }
        let mut left = most;
        let told = ask(&mut left);
        meter::spend(most - left);
        self.left_of_rule.set(self.left_of_rule.get() - (most - left));
        Some(told)
    }

    /// Returns how a Ray cluster comes to have nothing to do, without a program that has failed.
    fn of_dashboard(&self, subject: &Subject) -> (Cause, Script) {
        let assumptions = self.assumptions();
        if subject.deadline.is_some() {
            let hang = Occurrence::from(Incident::Hang);
            return (Cause::Deadline, lower_object(subject, &[hang], &assumptions));
        }
        let mut script = lower_object(subject, &[], &assumptions);
        script.events.insert(0, (Time::START, ScriptEvent::Dashboard(DashboardEvent::Down)));
        (Cause::NotSubmitted, script)
    }

    /// Returns how a pod of each role fails, while all others wait for it until a deadline of their own.
    fn of_pods(&self, subject: &Subject) -> Vec<(Cause, Script)> {
        let first = Range { first: 0, last: Some(0) };
        let fails = |after, code| Plan {
            run: Some(after),
            follows_program: false,
            fails_by_itself: true,
            exit: vec![(String::new(), code)],
            ..Plan::default()
        };
        let deadline = |role: &Role| {
            let pod = self.workload.pods.iter().find(|pod| role.is_named(name_of(pod)))?;
            let seconds = pod.spec.get(FIELD).int().set().filter(|seconds| *seconds > 0)?;
            Some(Time::from_seconds(seconds))
        };
        let mut wait = Script { program: None, ..lower_object(subject, &[], &self.assumptions()) };
        wait.plans.clear();
        for role in &subject.roles {
            let hangs = Plan { run: None, follows_program: false, ..Plan::default() };
            let plan = deadline(role).map_or(hangs, |deadline| fails(deadline, 137));
            wait.plans.push(PlanRule { role: role.name.clone(), plan, ..PlanRule::default() });
        }
        let may_fail = |role: &&Role| !role.restarts_in_place || deadline(role).is_some();
        let roles = subject.roles.iter().filter(may_fail).filter_map(|role| Some((role, role.name.clone()?)));
        roles
            .map(|(role, name)| {
                let mut script = wait.clone();
                if !role.restarts_in_place {
                    let (index, attempt) = (Some(first), Some(first));
                    let plan = fails(FAILS_AFTER, 1);
                    let rule = PlanRule {
                        role: Some(Arc::clone(&name)),
                        index,
                        attempt,
                        plan,
                        ..PlanRule::default()
                    };
                    script.plans.insert(0, rule);
                }
                (Cause::PodFailed(name), script)
            })
            .collect()
    }

    fn assumptions(&self) -> Assumptions {
        let ProgramDefaults { runtime, startup, checkpoint, .. } = *self.defaults;
        let (peers, term) = (Peers::Hang, Plan::default().term);
        Assumptions { runtime, startup, checkpoint, peers, pods_per_node: 1, term, unreachable: None }
    }

    /// Returns what the pods hold that nothing stops, and for how long.
    fn held(&self, subject: &Subject, cause: Cause, remains: &Remains) -> Option<LeftBehind> {
        let failed = match &cause {
            Cause::PodFailed(role) => {
                let failed =
                    remains.pods.iter().filter(|(of, pods)| of == role && pods.phase == Phase::Failed);
                failed.filter_map(|(_, pods)| pods.ended).min()?
            }
            _ => remains.end.as_ref().filter(|end| !end.is_success)?.at,
        };
        // Whatever is made after it, somebody has thought of it.
        if remains.pods.iter().any(|(_, pods)| pods.created > failed) {
            return None;
        }
        let (mut held, mut longest) = (Held::default(), Some(Time::START));
        for (role, pods) in &remains.pods {
            let is_theirs = |known: &&Role| known.name.as_ref() == Some(role) && known.weight > 0;
            if subject.roles.iter().find(is_theirs).is_none() || !runs_on(pods, failed) {
                continue;
            }
            let template = self.workload.pods.iter().find(|pod| name_of(pod).eq_ignore_ascii_case(role));
            held += Held::by_pod(template?)?.times(pods.count().into());
            longest = longest.zip(pods.ended).map(|(longest, ended)| longest.max(ended - failed));
        }
        let seconds = longest.map(|longest| (longest.millis() + 999) / 1_000);
        Some(LeftBehind { cause, cost: Cost::new(held, seconds)? })
    }
}

/// Tells whether pods run after a moment, and nobody deletes them.
fn runs_on(pods: &PodGroup, failed: Time) -> bool {
    let is_stopped = match (pods.deletion, pods.gone, pods.ended) {
        (None, None, _) => false,
        (Some(deletion), _, Some(ended)) => deletion.since < ended,
        _ => true,
    };
    let ends_with_it = pods.ended.is_some_and(|ended| ended <= failed + TOGETHER);
    pods.started.is_some_and(|started| started <= failed + TOGETHER) && !is_stopped && !ends_with_it
}

/// Tells whether a value has few values and short texts; they are counted off until there are too many.
fn is_small(value: &Value, values: &mut usize, text: &mut usize) -> bool {
    let take = |from: &mut usize, amount: usize| {
        let left = from.checked_sub(amount);
        *from = left.unwrap_or_default();
        left.is_some()
    };
    take(values, 1)
        && match value {
            Value::String(string) => take(text, string.len()),
            Value::Array(items) => items.iter().all(|item| is_small(item, values, text)),
            Value::Object(fields) => {
                fields.iter().all(|(key, value)| take(text, key.len()) && is_small(value, values, text))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
}
