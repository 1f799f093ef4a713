//! What comes of an object of an operator of a cluster, as it stands and after incidents.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::incident::{Incident, IncidentPlace, Occurrence};
use super::super::kubelet::Course;
use super::super::object::ObjectStatus;
use super::super::object_story::HORIZON;
use super::super::operators::demand::Numbers;
use super::super::operators::{self, KueueSettings, Settings};
use super::super::pod::{Phase, PodGroup};
use super::super::pod_set::Owner;
use super::super::script::{Range, Script};
use super::super::story::{Assumptions, Summary, is_of_program, lower_for};
use super::super::subject::Subject;
use super::super::time::Time;
use super::super::world::{Given, World};
use super::groups::LiveGroup;
use super::object::LiveObject;
use super::place::{SOON, is_of_no_pod};
use super::pod::LivePod;
use super::story::{LATER, LiveOutcome, LiveScript, NEVER};
use crate::text::value::Value;

impl LiveObject {
    /// Returns in words why it is not simulated; nothing where it is.
    #[must_use]
    pub fn is_unknown(&self) -> Option<String> {
        if ObjectStatus::from_live(self.kind, &self.object, self.now).is_none() {
            let state = self.state().unwrap_or_default();
            return Some(format!("a {} in the state `{state}` is not modelled", self.shown_kind()));
        }
        let controllers =
            operators::for_manifest(&self.object, &[], &Settings::default(), Script::default().map_order);
        if controllers.is_empty() {
            return Some("no operator of its version is modelled".to_owned());
        }
        let known: BTreeMap<&str, Numbers> =
            self.asked.pods.iter().map(|role| (role.name.as_str(), role.numbers)).collect();
        let is_stray = |pod: &&LivePod| match pod.role.as_deref().and_then(|role| known.get(role)) {
            None => true,
            Some(Numbers::Index) => pod.replica.is_none(),
            Some(Numbers::Hosts(_)) => pod.host.is_none(),
            Some(Numbers::Order) => false,
        };
        if let Some(pod) = self.pods.iter().find(is_stray) {
            return Some(format!("the labels of the pod {} do not say its role and its number", pod.name));
        }
        if let Some(problem) = self.volcano_problem().or_else(|| self.ray_problem()) {
            return Some(problem);
        }
        if self.subject().is_none() {
            return Some("its JobSet and its runtime are not here".to_owned());
        }
        None
    }

    /// Returns its kind as people say it.
    #[must_use]
    pub fn shown_kind(&self) -> &'static str {
        if self.kind == "VolcanoJob" { "Volcano Job" } else { self.kind }
    }

    /// Returns its pods by role, as a story names them; nothing where its operator leaves it alone, or its runtime is not
    /// known.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        let runtime: Vec<Value> = self.runtime().into_iter().collect();
        // Kueue is not taken up in the middle: it is somebody who suspends and resumes.
        Some(Subject { queue: None, ..operators::subject(&self.object, &runtime)? })
    }

    /// Returns on how many pods its program is started from another one; nothing where it is not.
    fn hosts(&self) -> Option<u32> {
        let subject = self.subject()?;
        let hosts = subject.roles.iter().filter(|role| role.serves).map(|role| role.count);
        Some(hosts.fold(0, u32::saturating_add)).filter(|hosts| *hosts > 0)
    }

    /// Returns incidents with the time and the place that they have where nobody says it: now, and a pod that runs.
    fn placed(&self, subject: &Subject, story: &[Occurrence]) -> Vec<Occurrence> {
        if story.is_empty() {
            return Vec::new();
        }
        let parts = self.parts();
        let first = |one: &Occurrence| {
            let role = subject.named(one.role.as_deref()).next()?.name.clone()?;
            let active =
                parts.groups.iter().filter(|group| group.pods.gone.is_none() && group.pods.is_active());
            let of_role =
                active.filter(|group| parts.sets.get(group.pods.set).is_some_and(|set| set.role == role));
            let runs = |group: &&LiveGroup| matches!(group.course, Course::Runs | Course::Starts);
            let of_role: Vec<&LiveGroup> = of_role.collect();
            let lowest = |groups: &mut dyn Iterator<Item = &LiveGroup>| {
                groups.filter_map(|group| group.pods.members.first()).min()
            };
            lowest(&mut of_role.iter().copied().filter(runs)).or_else(|| lowest(&mut of_role.iter().copied()))
        };
        let placed = |one: &Occurrence| {
            let place = match one.place {
                IncidentPlace::One if !is_of_no_pod(one.incident) && !is_of_program(subject, one) => {
                    first(one).map_or(one.place, IncidentPlace::Index)
                }
                place => place,
            };
            Occurrence { at: one.at.or(Some(SOON)), place, ..one.clone() }
        };
        story.iter().map(placed).collect()
    }

    /// Returns in words why an incident has no pod that it happens to: those that are made later have other numbers, where a
    /// role has no indexes.
    fn has_no_pod(&self, subject: &Subject, one: &Occurrence) -> Option<String> {
        if one.incident.is_of_all() || is_of_no_pod(one.incident) || is_of_program(subject, one) {
            return None;
        }
        let role = subject.named(one.role.as_deref()).next().filter(|role| !role.indexed)?;
        let name = role.name.as_deref()?;
        let pods: Vec<&LivePod> =
            self.all_pods().into_iter().filter(|pod| pod.role.as_deref() == Some(name)).collect();
        let is_lost = !pods.is_empty() && !pods.iter().any(|pod| pod.is_active());
        is_lost.then(|| format!("`{one}`: no pod of the role {name} is active"))
    }

    /// Returns in words why incidents cannot happen to it; nothing where they can.
    #[must_use]
    pub fn cannot_happen(&self, story: &[Occurrence]) -> Option<String> {
        if story.is_empty() || self.is_unknown().is_some() {
            return None;
        }
        let subject = self.subject()?;
        story.iter().find_map(|one| {
            if matches!(one.incident, Incident::Missed(_)) {
                return Some("`missed` is about a schedule, and it has none".to_owned());
            }
            if matches!(one.incident, Incident::DashboardSilent(_) | Incident::SubmitterLost) {
                return subject.lacks(one);
            }
            let known: Vec<&str> = subject.roles.iter().filter_map(|role| role.name.as_deref()).collect();
            if let Some(name) = one.role.as_deref().filter(|name| subject.named(Some(name)).next().is_none())
            {
                return Some(format!("`role={name}`: it has the roles {}", known.join(", ")));
            }
            if let Some(problem) = self.has_no_pod(&subject, one) {
                return Some(problem);
            }
            let most = subject.named(one.role.as_deref()).map(|role| role.count).max().unwrap_or_default();
            let most = most.saturating_add(self.first_index());
            match one.place {
                IncidentPlace::Index(index) if index >= most => {
                    Some(format!("`index={index}`: the role has {most} pods"))
                }
                IncidentPlace::Count(count) if count > most => {
                    Some(format!("`n={count}`: the role has {most} pods"))
                }
                _ => None,
            }
        })
    }
}

/// Returns the script of incidents that happen to an object; without one, of the object as it stands. Times of incidents
/// count from its moment.
///
/// # Errors
///
/// It is not simulated, in words.
pub fn lower_object(
    object: &LiveObject,
    story: &[Occurrence],
    assumptions: &Assumptions,
) -> Result<LiveScript, String> {
    if let Some(problem) = object.is_unknown() {
        return Err(problem);
    }
    let runtime = if object.is_overdue(assumptions) { NEVER } else { assumptions.runtime };
    let Some(subject) = object.subject() else { return Err("its roles are not known".to_owned()) };
    let placed = object.placed(&subject, story);
    let mut script = lower_for(&subject, &placed, &Assumptions { runtime, ..*assumptions });
    if story.is_empty() {
        // What is suspended stays so.
        script.events.clear();
    }
    // The pods that are active now are attempt 1, and so is the first one of an index that has none.
    let once = Some(Range { first: 0, last: Some(0) });
    let is_indexed = |name: &Option<Arc<str>>| {
        subject.roles.iter().any(|role| role.indexed && (name.is_none() || role.name == *name))
    };
    for rule in script.plans.iter_mut().filter(|rule| rule.attempt == once && is_indexed(&rule.role)) {
        rule.attempt = Some(Range { first: 1, last: Some(1) });
    }
    Ok(LiveScript { script, is_of_new_pods: false })
}

/// Returns what comes of an object.
///
/// # Errors
///
/// More work than a simulation does, in words.
pub fn tell_object(object: &LiveObject, script: &LiveScript) -> Result<LiveOutcome, String> {
    tell_later(object, script, Time::START)
}

/// Returns another end of an object, where that depends on parts of a second that nobody knows, or on what its operator does
/// in no fixed order.
///
/// # Errors
///
/// More work than a simulation does, in words.
pub fn tell_object_otherwise(
    object: &LiveObject,
    script: &LiveScript,
    outcome: &LiveOutcome,
) -> Result<Option<LiveOutcome>, String> {
    let moments =
        LATER.map(|(pods, story)| (script.later(Time::from_millis(story)), Time::from_millis(pods)));
    let chances = script.script.chances().into_iter();
    let chances = chances.map(|chance| (LiveScript { script: chance, ..script.clone() }, Time::START));
    for (script, by) in moments.into_iter().chain(chances) {
        let other = tell_later(object, &script, by)?;
        if !other.ends_as(outcome) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

fn tell_later(object: &LiveObject, script: &LiveScript, by: Time) -> Result<LiveOutcome, String> {
    let mut parts = object.parts();
    let number = parts.objects.iter().position(|one| one.kind == object.kind && one.name == object.name);
    let main = Owner::Object(number.unwrap_or_default());
    for group in &mut parts.groups {
        group.delay(by);
    }
    let order = script.script.map_order;
    // Kueue is not taken up in the middle: without the Workload it would stop what runs.
    let settings = Settings { kueue: KueueSettings::absent(), ..Settings::default() };
    let killed = parts.groups.iter().filter(|group| group.is_killed).map(|group| group.pods.clone());
    let given = Given {
        main,
        killed: killed.collect(),
        objects: parts.objects,
        jobs: parts.jobs,
        sets: parts.sets,
        pods: parts.groups.into_iter().map(|group| (group.pods, group.course)).collect(),
        operators: operators::for_manifest(&object.object, &[], &settings, order),
        hosts: object.hosts(),
        programs: parts.programs,
        is_dashboard_down: parts.is_dashboard_down,
        clock: object.clock,
    };
    let mut world = World::from_live(given, script.script.clone());
    let is_still = world.run_to_end(HORIZON).map_err(|error| error.to_string())?;
    let gone = match main {
        Owner::Object(number) => world.cluster.objects.get(number).and_then(|object| object.gone),
        Owner::Job(_) => None,
    };
    let outcome = Summary::from_main(&world).outcome(&mut world, script.script.program, is_still);
    let count = |is_one: &dyn Fn(&PodGroup) -> bool| {
        let pods = outcome.pods.iter().filter(|pods| is_one(pods));
        pods.map(PodGroup::count).fold(0, u32::saturating_add)
    };
    let is_new_failure =
        |pods: &PodGroup| pods.phase == Phase::Failed && pods.ended.is_some_and(|at| at >= Time::START);
    Ok(LiveOutcome {
        made: count(&|pods| pods.created >= Time::START),
        failed: count(&is_new_failure),
        gone,
        unused: Vec::new(),
        outcome,
    })
}
