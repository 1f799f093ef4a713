//! Compares what the model says of an operator's objects with a recording.

use std::collections::BTreeMap;

use jobgate::controllers::meta::Condition;
use jobgate::controllers::pod::{Phase, PodGroup};
use jobgate::controllers::pod_set::Owner;
use jobgate::controllers::time::Time;
use jobgate::controllers::world::World;
use jobgate::text::value::Value;

use super::{items, status, text};

/// Two recordings of one row differ by up to a step of a controller; those of a RayJob by the 3 s between two looks.
const STEP: f64 = 1.5;
const RAY_STEP: f64 = 3.5;

/// How a row differs.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// In the outcome: pods, conditions, counts, objects.
    pub(crate) outcome: Vec<String>,
    /// In times.
    pub(crate) times: Vec<String>,
}

impl Difference {
    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        self.outcome.iter().chain(&self.times)
    }
}

/// How near times have to be, and from when on nothing is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    step: f64,
    late: f64,
}

impl Tolerance {
    /// Tells whether two times are the same, as far as they lie before the end.
    pub(super) fn is_near(self, ours: Option<f64>, theirs: Option<f64>) -> bool {
        // What was there before the object was made some seconds before it: the recordings do not agree how many.
        match (ours.map(|ours| ours.max(0.0)), theirs.map(|theirs| theirs.max(0.0))) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => {
                (ours - theirs).abs() <= self.step || (ours > self.late && theirs > self.late)
            }
            (Some(one), None) | (None, Some(one)) => one > self.late,
        }
    }

    /// Tells whether something happened before the end of what is compared.
    pub(super) fn is_early(self, at: Option<f64>) -> bool {
        at.is_some_and(|at| at <= self.late)
    }
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value[key].as_f64()
}

/// Compares a world with what was observed.
pub(crate) fn difference(world: &World, row: &Value) -> Difference {
    let observed = &row["observed"];
    let until = number(observed, "until").expect("an end");
    let step = if text(row, "kind").starts_with("Ray") { RAY_STEP } else { STEP };
    let tolerance = Tolerance { step, late: until - STEP };
    let mut difference = Difference::default();
    pods(world, observed, tolerance, &mut difference);
    let (main, deletion, gone) = match world.main {
        Owner::Job(job) => {
            let job = &world.cluster.jobs[job];
            (&job.status.conditions, job.deletion, job.gone)
        }
        Owner::Object(object) => {
            let object = &world.cluster.objects[object];
            (&object.conditions, object.deletion, object.gone)
        }
    };
    let is_passing = |sort: &str| {
        text(row, "operator").starts_with("training-operator") && ["Running", "Restarting"].contains(&sort)
    };
    let recorded = (&observed["conditions"], &observed["status"]);
    if status::has_stable_conditions(observed, text(row, "kind"), text(&row["manifest"]["metadata"], "name"))
    {
        conditions("", main, recorded, tolerance, &is_passing, &mut difference);
    }
    life("", (deletion.map(|(at, _)| at), gone), observed, tolerance, &mut difference);
    objects(world, observed, tolerance, &mut difference);
    status::compare(world, row, tolerance, &mut difference);
    difference
}

fn life(
    of: &str,
    (deletion, gone): (Option<Time>, Option<Time>),
    recorded: &Value,
    tolerance: Tolerance,
    difference: &mut Difference,
) {
    // An object that goes at once was never seen in deletion.
    let deletion = deletion.filter(|_| !recorded["deleting"].is_null() || gone != deletion);
    for (name, ours) in [("deleting", deletion), ("gone", gone)] {
        let (ours, theirs) = (ours.map(Time::seconds), number(recorded, name));
        if tolerance.is_near(ours, theirs) {
            continue;
        }
        let line = format!("{of} {name} {ours:?}, recorded {theirs:?}");
        if ours.is_none() || theirs.is_none() {
            difference.outcome.push(line);
        } else {
            difference.times.push(line);
        }
    }
}

fn conditions(
    of: &str,
    ours: &[Condition],
    (recorded, status): (&Value, &Value),
    tolerance: Tolerance,
    is_passing: &dyn Fn(&str) -> bool,
    difference: &mut Difference,
) {
    let mut sorts: Vec<&str> = ours.iter().map(|condition| condition.sort).collect();
    sorts.extend(items(recorded).iter().map(|condition| text(condition, "type")));
    sorts.sort_unstable();
    sorts.dedup();
    for sort in sorts.into_iter().filter(|sort| !is_passing(sort)) {
        let ours = ours.iter().find(|condition| condition.sort == sort);
        let theirs = items(recorded).iter().rfind(|condition| condition["type"] == sort);
        // A condition that was taken away is in the changes, and not in the last status.
        let last = status["conditions"].as_array();
        let is_left = last.is_none_or(|last| last.iter().any(|condition| condition["type"] == sort));
        let theirs = theirs.filter(|_| is_left);
        match (ours, theirs) {
            (None, None) => {}
            (Some(ours), Some(theirs)) => {
                let (at, seen) = (ours.at.seconds(), number(theirs, "at"));
                let is_same =
                    (theirs["status"] == "True") == ours.is_true && theirs["reason"] == *ours.reason;
                if !is_same && at <= tolerance.late {
                    difference.outcome.push(format!("{of} {ours:?}, recorded {theirs}"));
                }
                // What was written again is seen again; some operators change a condition and leave its time.
                let transition =
                    items(&status["conditions"]).iter().find(|condition| condition["type"] == sort);
                let transition = transition.and_then(|condition| number(condition, "lastTransitionTime"));
                if is_same
                    && !tolerance.is_near(Some(at), seen)
                    && !tolerance.is_near(Some(at), transition)
                    && !was_seen(recorded, sort, ours, tolerance)
                {
                    difference.times.push(format!("{of} {sort} at {at}, recorded {seen:?}"));
                }
            }
            (Some(ours), None) if ours.at.seconds() <= tolerance.late => {
                difference.outcome.push(format!("{of} {sort} ({}), not recorded", ours.reason));
            }
            (None, Some(theirs)) if tolerance.is_early(number(theirs, "at")) => {
                difference.outcome.push(format!("{of} no {sort}, recorded {theirs}"));
            }
            _ => {}
        }
    }
}

/// Tells whether a condition was seen with this status at this time: its message or reason may have changed after that.
fn was_seen(recorded: &Value, sort: &str, ours: &Condition, tolerance: Tolerance) -> bool {
    let mut seen = items(recorded).iter().filter(|condition| condition["type"] == sort);
    seen.any(|condition| {
        (condition["status"] == "True") == ours.is_true
            && tolerance.is_near(Some(ours.at.seconds()), number(condition, "at"))
    })
}

/// Tells whether pods of a Volcano Job were deleted within 0.5 s of their creation and never started: the controller makes
/// them of what its caches do not show yet, and they are not stable.
fn is_blink(world: &World, pods: &PodGroup) -> bool {
    let is_volcano = match world.cluster.sets[pods.set].owner {
        Owner::Object(object) => world.cluster.objects[object].kind == "VolcanoJob",
        Owner::Job(_) => false,
    };
    let is_short = |deleted: Time| deleted.seconds() - pods.created.seconds() <= 0.5;
    is_volcano && pods.started.is_none() && pods.deletion.is_some_and(|deletion| is_short(deletion.since))
}

/// A role and an index, where there is one.
type PodName = (String, Option<u64>);

fn pods(world: &World, observed: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let mut ours: BTreeMap<PodName, Vec<(u32, &PodGroup)>> = BTreeMap::new();
    for group in world.cluster.pods.iter().filter(|group| !is_blink(world, group)) {
        let set = &world.cluster.sets[group.set];
        for member in group.members.iter() {
            let index = set.indexed.then_some(u64::from(member));
            let nth = if set.indexed { group.attempt } else { member };
            ours.entry((set.role.to_string(), index)).or_default().push((nth, group));
        }
    }
    for pods in ours.values_mut() {
        pods.sort_by_key(|(nth, pods)| (pods.created, *nth));
    }
    let mut theirs: BTreeMap<PodName, Vec<&Value>> = BTreeMap::new();
    // Pods that are made and deleted again as fast as the kubelet answers (`blink`) are not compared: how many there are
    // is chance.
    let is_blink = |pod: &Value| pod["blink"] == true;
    if items(&observed["pods"]).iter().any(is_blink) {
        for pods in ours.values_mut() {
            pods.retain(|(_, pod)| !is_short_lived(pod));
        }
    }
    for pod in items(&observed["pods"]).iter().filter(|pod| !is_blink(pod)) {
        // The pod of a launcher has an index label where it counts as a worker, and never another index.
        let index = pod["index"].as_u64().filter(|_| pod["role"] != "launcher");
        theirs.entry((text(pod, "role").to_owned(), index)).or_default().push(pod);
    }
    let mut names: Vec<&PodName> = ours.keys().chain(theirs.keys()).collect();
    names.sort();
    names.dedup();
    let none = (Vec::new(), Vec::new());
    for name in names {
        let ours = ours.get(name).unwrap_or(&none.0);
        let theirs = theirs.get(name).unwrap_or(&none.1);
        let early = ours.iter().filter(|(_, pod)| pod.created.seconds() <= tolerance.late).count();
        let seen = theirs.iter().filter(|pod| tolerance.is_early(number(pod, "created"))).count();
        if early > theirs.len() || seen > ours.len() {
            difference.outcome.push(format!("{name:?}: {} pods, recorded {}", ours.len(), theirs.len()));
        }
        for (nth, ((_, ours), theirs)) in ours.iter().zip(theirs).enumerate() {
            pod(&format!("{name:?} {nth}"), ours, theirs, world, tolerance, difference);
        }
    }
}

/// Tells whether a pod was deleted within half a second, before it started.
fn is_short_lived(pod: &PodGroup) -> bool {
    let lived = pod.deletion.map(|deletion| deletion.since - pod.created);
    pod.started.is_none() && lived.is_some_and(|lived| lived <= Time::from_millis(500))
}

fn pod(
    name: &str,
    ours: &PodGroup,
    theirs: &Value,
    world: &World,
    tolerance: Tolerance,
    difference: &mut Difference,
) {
    for (field, at) in [
        ("created", Some(ours.created)),
        ("started", ours.started),
        ("ended", ours.ended),
        ("deleting", ours.deletion.map(|deletion| deletion.since)),
        ("gone", ours.gone),
    ] {
        let (at, recorded) = (at.map(Time::seconds), number(theirs, field));
        if !tolerance.is_near(at, recorded) {
            difference.times.push(format!("{name} {field} {at:?}, recorded {recorded:?}"));
        }
    }
    let ours_at = [ours.started, ours.ended].map(|at| at.map(Time::seconds));
    let theirs_at = ["started", "ended"].map(|key| number(theirs, key));
    let ends = [ours_at, theirs_at].concat();
    if ends.iter().flatten().any(|at| *at > tolerance.late) {
        return;
    }
    let phase = match ours.phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    };
    if theirs["phase"] != phase {
        difference.outcome.push(format!("{name} {phase}, recorded {}", theirs["phase"]));
        return;
    }
    let restarts = theirs["restarts"].as_u64().unwrap_or_default();
    if restarts.abs_diff(u64::from(ours.restarts)) > 1 {
        difference.outcome.push(format!("{name} {} restarts, recorded {restarts}", ours.restarts));
    }
    let reason = ours.reason.unwrap_or_default();
    let recorded = text(theirs, "reason");
    if ours.ended.is_some() && recorded != reason {
        difference.outcome.push(format!("{name} reason {reason:?}, recorded {}", theirs["reason"]));
    }
    let names = &world.cluster.sets[ours.set].template.containers;
    for status in &ours.containers {
        let (Some((code, _)), Some(container)) = (status.terminated, names.get(status.nth)) else { continue };
        let recorded = theirs["exit"][container.name()].as_i64();
        if ours.ended.is_some() && recorded.is_some_and(|recorded| recorded != code) {
            difference.outcome.push(format!("{name} exit {code}, recorded {recorded:?}"));
        }
    }
}

/// An object beside the one that is simulated.
struct Other<'a> {
    conditions: &'a [Condition],
    created: Time,
    deletion: Option<Time>,
    gone: Option<Time>,
}

fn objects(world: &World, observed: &Value, tolerance: Tolerance, difference: &mut Difference) {
    let mut ours: BTreeMap<(&str, &str), Vec<Other<'_>>> = BTreeMap::new();
    for (number, job) in world.cluster.jobs.iter().enumerate() {
        if world.main != Owner::Job(number) {
            ours.entry(("Job", job.name())).or_default().push(Other {
                conditions: &job.status.conditions,
                created: job.created,
                deletion: job.deletion.map(|(at, _)| at),
                gone: job.gone,
            });
        }
    }
    for (number, object) in world.cluster.objects.iter().enumerate() {
        if world.main != Owner::Object(number) && status::is_recorded(object) {
            ours.entry((object.kind, &object.name)).or_default().push(Other {
                conditions: &object.conditions,
                created: object.created,
                deletion: object.deletion.map(|(at, _)| at),
                gone: object.gone,
            });
        }
    }
    let mut theirs: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for object in items(&observed["objects"]) {
        theirs.entry((text(object, "kind"), text(object, "name"))).or_default().push(object);
    }
    let mut names: Vec<(&str, &str)> = ours.keys().chain(theirs.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let none = (Vec::new(), Vec::new());
        let ours = ours.get(&name).unwrap_or(&none.0);
        let theirs = theirs.get(&name).unwrap_or(&none.1);
        let early = ours.iter().filter(|object| object.created.seconds() <= tolerance.late).count();
        let seen = theirs.iter().filter(|object| tolerance.is_early(number(object, "created"))).count();
        // How many PodGroups there are is not stable.
        if name.0 != "PodGroup" && (early > theirs.len() || seen > ours.len()) {
            difference.outcome.push(format!("{name:?}: {}, recorded {}", ours.len(), theirs.len()));
            continue;
        }
        if name.0 == "PodGroup" {
            continue;
        }
        for (nth, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            let of = format!("{name:?} {nth}");
            let recorded = (&theirs["conditions"], &theirs["status"]);
            if status::has_stable_conditions(observed, name.0, name.1) {
                conditions(&of, ours.conditions, recorded, tolerance, &|_| false, difference);
            }
            life(&of, (ours.deletion, ours.gone), theirs, tolerance, difference);
        }
    }
}
