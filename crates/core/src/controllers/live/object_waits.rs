//! What an object of an operator waits for, and since when: its own, and that of what its operator made.

use std::collections::BTreeMap;

use super::super::operators::demand::{AskedObjects, AskedRole};
use super::super::pod::Phase;
use super::super::time::Time;
use super::job::LiveJob;
use super::object::LiveObject;
use super::pod::{LivePod, PodStage};
use super::pod_waits::{Watch, Watched, in_trouble, running, wait_of};
use super::wait::{Wait, WaitFor};
use super::waits::CREATION;

/// What is found that an object waits for, and the pods that are looked at for more.
#[derive(Debug, Default)]
struct FoundWaits<'o> {
    waits: Vec<Wait>,
    pods: Vec<Watched<'o>>,
}

/// The Jobs of a role.
#[derive(Clone, Copy, Debug, Default)]
struct JobsOfRole {
    /// How many are asked for.
    wanted: u32,
    there: u32,
    /// How many are ready, or have ended.
    ready: u32,
    complete: u32,
}

impl LiveObject {
    /// Returns what it waits for, what stands in its way first.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let mut found = FoundWaits::default();
        self.gather(Watch::All, None, &mut found);
        let FoundWaits { waits, pods } = found;
        let mut all = in_trouble(pods.iter().copied());
        all.extend(waits);
        all.extend(running(pods.into_iter(), self.deadline()));
        all.sort_by_key(Wait::order);
        if all.is_empty() {
            all.push(WaitFor::FirstLook.alone(Some(self.last_change()), None));
        }
        all
    }

    /// Gathers what it waits for and its pods, with those of what it made, as far as they matter: no more than those of what
    /// is above it. `name` is what it is called below another object.
    fn gather<'o>(&'o self, above: Watch, name: Option<String>, found: &mut FoundWaits<'o>) {
        let (own, watch) = self.own_waits(name.is_some());
        let watch = watch.min(above);
        let of: Vec<String> = name.into_iter().collect();
        found.waits.extend(own.into_iter().map(|wait| Wait { of: of.clone(), ..wait }));
        let before = found.waits.len();
        // A name that is taken is made again only when it is free.
        let is_held = !self.is_ending();
        found.pods.extend(self.pods.iter().map(|pod| Watched { pod, is_held, watch }));
        let mut of_jobs = Vec::new();
        for job in &self.jobs {
            let (own, of_job) = job.own_waits();
            found.pods.extend(job.watched(of_job.min(watch)));
            of_jobs.push((job, own));
        }
        let goes_on = watch == Watch::All && self.manager().is_none();
        if goes_on {
            found.waits.extend(self.of_jobs(of_jobs));
            found.waits.extend(self.of_missing());
        }
        for object in &self.objects {
            object.gather(watch, Some(format!("{} {}", object.kind, object.name)), found);
        }
        if !goes_on {
            // What is below it waits for the same.
            found.waits.truncate(before);
        }
    }

    /// Returns what it waits for beside what it made, and which of its pods matter.
    fn own_waits(&self, is_below: bool) -> (Vec<Wait>, Watch) {
        if let Some(at) = self.deletion {
            let deletion = WaitFor::Deletion { finalizers: self.finalizers.clone() };
            return (vec![deletion.alone(Some(at), None)], Watch::InDeletion);
        }
        if let Some(end) = self.end() {
            // What is above it has taken notice, or is about to.
            if is_below {
                return (Vec::new(), Watch::InDeletion);
            }
            let what = if self.ttl().is_some() { WaitFor::Ttl } else { WaitFor::Nobody };
            let ended = what.alone(end.at, self.expiry());
            return (std::iter::once(ended).chain(self.left_over()).collect(), Watch::InDeletion);
        }
        if let Some(name) = self.manager() {
            return (vec![WaitFor::Manager { name: name.to_owned() }.alone(None, None)], Watch::All);
        }
        if self.is_suspended() {
            let since = self.condition("Suspended").map(|condition| condition.at);
            let resume = WaitFor::Resume { queue: self.queue.clone() }.alone(since, None);
            // What is above it is suspended as well.
            return (if is_below { Vec::new() } else { vec![resume] }, Watch::InDeletion);
        }
        let is_idle = self.asked.is_deadline_idle;
        // Of an MPIJob, the launcher has it.
        let passed = self.deadline().filter(|at| *at + CREATION < Time::START && self.kind != "MPIJob");
        let overdue = passed.map(|at| WaitFor::Overdue { is_idle }.alone(Some(at), None));
        (overdue.into_iter().collect(), Watch::All)
    }

    /// Returns what its Jobs wait for, those alike together.
    fn of_jobs(&self, jobs: Vec<(&LiveJob, Vec<Wait>)>) -> Vec<Wait> {
        let mut found: Vec<Wait> = Vec::new();
        let (previous, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(job, _)| self.is_previous(job));
        if let Ok(count @ 1..) = u32::try_from(previous.len()) {
            let since = previous.iter().filter_map(|(job, _)| job.deletion).min();
            let of = previous.iter().map(|(job, _)| named(job)).collect();
            found.push(Wait { of, ..WaitFor::Previous { count }.alone(since, None) });
        }
        let mut places: BTreeMap<(String, Option<Time>), usize> = BTreeMap::new();
        for (job, own) in jobs {
            // How it ended is for its operator to look at, and so is when it goes.
            if job.finished().is_some() && job.deletion.is_none() {
                continue;
            }
            for wait in own {
                let place = *places.entry((format!("{:?}", wait.what), wait.until)).or_insert(found.len());
                match found.get_mut(place) {
                    Some(other) => {
                        other.of.push(named(job));
                        other.since = other.since.into_iter().chain(wait.since).min();
                    }
                    None => found.push(Wait { of: vec![named(job)], ..wait }),
                }
            }
        }
        found
    }

    /// Returns what its operator has not made.
    fn of_missing(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        // Within seconds, the operator makes them.
        let last = self.last_change();
        let is_late = last + CREATION < Time::START;
        let pods = self.pods_by_role();
        for role in &self.asked.pods {
            let pods = pods.get(role.name.as_str()).map_or(&[][..], Vec::as_slice);
            waits.extend(not_replaced(role, pods));
            let there = u32::try_from(pods.len()).unwrap_or(u32::MAX);
            let count = role.count.unwrap_or_default().saturating_sub(there);
            if count > 0 && is_late {
                let what = WaitFor::Missing { count, role: Some(role.name.clone()) };
                waits.push(what.alone(Some(last), None));
            }
        }
        // While Jobs of the attempt before are there, the next ones are not.
        if !is_late || self.jobs.iter().any(|job| self.is_previous(job)) {
            return waits;
        }
        let jobs = self.jobs_by_role();
        let is_reached = |role: &str, is_complete: bool| {
            let pods = pods.get(role).map_or(&[][..], Vec::as_slice);
            let jobs = jobs.get(&Some(role)).copied().unwrap_or_default();
            self.is_reached((role, is_complete), pods, jobs)
        };
        for asked in &self.asked.objects {
            let there = match asked.kind {
                "Job" => jobs.get(&asked.role.as_deref()).map_or(0, |jobs| jobs.there),
                kind => {
                    let there = self.objects.iter().filter(|object| object.kind == kind).count();
                    u32::try_from(there).unwrap_or(u32::MAX)
                }
            };
            let count = asked.count.saturating_sub(there);
            if count > 0 {
                waits.push(of_objects(asked, count, &is_reached).alone(Some(last), None));
            }
        }
        waits
    }

    /// Returns the Jobs that are asked for and that are there, by role.
    fn jobs_by_role(&self) -> BTreeMap<Option<&str>, JobsOfRole> {
        let mut roles: BTreeMap<Option<&str>, JobsOfRole> = BTreeMap::new();
        for asked in &self.asked.objects {
            let wanted = JobsOfRole { wanted: asked.count, ..JobsOfRole::default() };
            roles.entry(asked.role.as_deref()).or_insert(wanted);
        }
        for job in &self.jobs {
            let role = roles.entry(job.role()).or_default();
            let is_complete = job.finished().is_some_and(|end| end.sort == "Complete");
            let ready = job.status.succeeded.saturating_add(job.status.ready.unwrap_or_default());
            role.there += 1;
            role.ready += u32::from(job.finished().is_some() || ready >= job.spec.at_once());
            role.complete += u32::from(is_complete);
        }
        roles
    }

    /// Tells whether all of a role are ready, or complete.
    fn is_reached(&self, (role, is_complete): (&str, bool), pods: &[&LivePod], jobs: JobsOfRole) -> bool {
        if role == "cluster" && self.kind == "RayJob" {
            return self.objects.iter().any(|object| object.state() == Some("ready"));
        }
        if let Some(asked) = self.asked.pods.iter().find(|one| one.name == role) {
            let ready = pods.iter().filter(|pod| pod.ready.is_some_and(|(is_ready, _)| is_ready)).count();
            return u32::try_from(ready).unwrap_or(u32::MAX) >= asked.count.unwrap_or_default();
        }
        (if is_complete { jobs.complete } else { jobs.ready }) >= jobs.wanted
    }

    /// Returns when something last happened to it, as far as that is known.
    fn last_change(&self) -> Time {
        let conditions = self.conditions.iter().map(|condition| condition.at);
        let pods = self.all_pods().into_iter().flat_map(|pod| {
            let ends = pod.containers.iter().filter_map(|one| one.terminated).map(|(_, at)| at);
            ends.chain([pod.created])
        });
        let jobs =
            self.jobs.iter().flat_map(|job| job.conditions.iter().map(|one| one.at).chain([job.created]));
        conditions.chain(pods).chain(jobs).chain(self.start).fold(self.created, Time::max)
    }

    /// Returns its pods that run on after its end.
    fn left_over(&self) -> Option<Wait> {
        let running: Vec<&LivePod> = self
            .all_pods()
            .into_iter()
            .filter(|pod| pod.is_active() && pod.phase == Phase::Running)
            .collect();
        let count = u32::try_from(running.len()).unwrap_or(u32::MAX);
        (count > 0).then(|| wait_of(WaitFor::LeftOver { count }, PodStage::Runs, &running))
    }
}

/// Returns pods of a role that have ended and keep their place.
fn not_replaced(role: &AskedRole, pods: &[&LivePod]) -> Option<Wait> {
    let ended: Vec<&LivePod> = pods.iter().copied().filter(|pod| role.is_final && pod.is_ended()).collect();
    let what = WaitFor::NotReplaced { role: role.name.clone() };
    let since = ended.iter().filter_map(|pod| pod.last_end()).min();
    (!ended.is_empty()).then(|| Wait { since, ..wait_of(what, PodStage::Ended, &ended) })
}

/// Returns for what objects wait that are not there.
fn of_objects(asked: &AskedObjects, count: u32, is_reached: &dyn Fn(&str, bool) -> bool) -> WaitFor {
    let role = asked.role.clone();
    let open = asked.after.iter().find(|(role, is_complete)| !is_reached(role, *is_complete));
    match (open, &role) {
        (Some((after, is_complete)), Some(role)) => {
            WaitFor::Order { role: role.clone(), after: after.clone(), is_complete: *is_complete }
        }
        _ => WaitFor::Objects { count, kind: asked.kind, role },
    }
}

fn named(job: &LiveJob) -> String {
    format!("Job {}", job.name)
}
